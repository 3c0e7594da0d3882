//! `tracefs`: the tracer of a running guest as files.

use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::{env, io};

use anyhow::{Context, Result};
use signal_hook::consts::SIGINT;

use takt_base::setup::build::{Package, Profile, bring_up_to_date};
use takt_base::{output, setup, spread, term};
use takt_cli::{Guest as Flags, Mount, Shell as ShellFlags, Tracefs, TracefsCommand};
use takt_guest::options::Options;
use takt_tracefs::launch::{self, Launch};
use takt_tracefs::mount;
use takt_tracefs::session::Session;
use takt_tracefs::shell::{Shell, Streams};

/// What mounts.
const MOUNT: Package = Package {
    name: "takt-mount",
    profile: Profile::Dev,
    file: "takt-mount",
    first: "it takes a minute, or three where xtask was installed",
    takes: "half a minute",
    needs: "its crates come from the network, once: cargo fetch",
};

pub(super) fn run(flags: &Tracefs) -> Result<ExitCode> {
    match &flags.command {
        TracefsCommand::Shell(flags) => shell(flags),
        TracefsCommand::Mount(flags) => mount(flags),
    }
}

/// Says what a guest with more CPUs than the host has is like, in the host's time.
fn warn_of_few_cpus(flags: &Flags) {
    let host = spread::cpus();
    if flags.attach.is_none() && usize::from(flags.smp) > host {
        term::note(format!(
            "the guest has {} CPUs and this host {host}: they wait for each other by whole time slices of the host, so latencies \
             are the host's and changing a setting may time out; with `tracefs shell --icount` they take turns instead",
            flags.smp
        ));
    }
}

/// The guest that the flags mean, perhaps under icount.
///
/// # Errors
///
/// If it does not start, or is not what it should be.
pub fn session(flags: &Flags, icount: bool) -> Result<Session> {
    if !icount {
        warn_of_few_cpus(flags);
    }
    let (guest, options) = match &flags.attach {
        Some(run) => (launch::attach(run)?, Options::default()),
        None => launch::start(&Launch {
            append: &flags.append,
            smp: flags.smp,
            load: flags.load,
            icount,
            image: flags.image.as_deref(),
            may_install: !flags.no_install,
            verbose: flags.verbose,
        })?,
    };
    Session::new(guest, options)
}

fn shell(flags: &ShellFlags) -> Result<ExitCode> {
    let session = session(&flags.guest, flags.icount)?;
    let is_interrupted = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(SIGINT, Arc::clone(&is_interrupted))
        .context("cannot watch for Ctrl-C")?;
    let mut shell = Shell::new(session, is_interrupted);
    let mut status = 0;
    output::to_stdout(|out| {
        let mut streams = Streams {
            out,
            err: &mut term::Stderr,
        };
        status = match &flags.commands {
            Some(commands) => shell.execute(commands, &mut streams)?,
            None => shell.run(&mut io::stdin().lock(), &mut streams)?,
        };
        Ok(())
    })?;
    Ok(ExitCode::from(status))
}

/// Becomes the program that mounts, which has the same words.
fn mount(flags: &Mount) -> Result<ExitCode> {
    mount::check(&flags.dir)?;
    setup::ensure_fuse(!flags.guest.no_install)?;
    let program = bring_up_to_date(&MOUNT)?;
    let mut words = env::args_os();
    let mut mount = Command::new(&program);
    // Called as this program is, by which it is named in advice.
    mount.arg0(words.next().unwrap_or_default()).args(words);
    let error = mount.exec();
    Err(error).with_context(|| format!("cannot run {}", program.display()))
}
