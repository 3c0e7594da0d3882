//! `takt-mount`: `tracefs mount`, by FUSE. A program of its own, built when it is first needed, since FUSE's crates take as long
//! as a fifth of xtask.
//!
//! Requests come one after the other; a pipe with nothing in it is waited for by a thread of its own, so that nothing
//! else waits for it. A signal to whoever reads ends the waiting: crate `fuser` does not hand interrupts on, so the
//! thread looks for them itself.

#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]
#![deny(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "`output` and `term` write what can fail: into a closed pipe, onto a full disk"
)]

#[macro_use(tell)]
extern crate takt_base;

mod files;
mod inodes;
mod reader;

use std::path::Path;
use std::process::{self, ExitCode};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use files::TracingFiles;
use fuser::{BackgroundSession, Config, Errno, MountOption};

use takt_base::paths;
use takt_cli::{Command, Mount, Tracefs, TracefsCommand};
use takt_machine::run::signals::{Watch, Wish};
use takt_tracefs::session::Session;

/// How often the end is looked for.
const TICK: Duration = Duration::from_millis(50);
/// How often a pipe with nothing in it is looked at.
const POLL: Duration = Duration::from_millis(20);
/// How long the end of readers is waited for when unmounting.
const END_WITHIN: Duration = Duration::from_secs(2);

fn main() -> ExitCode {
    xtask::main_of(|cli| match cli.command {
        Command::Tracefs(Tracefs {
            command: TracefsCommand::Mount(flags),
        }) => mount(&flags),
        _ => bail!("this is the part of xtask that mounts: cargo xtask tracefs mount"),
    })
}

fn mount(flags: &Mount) -> Result<ExitCode> {
    let session = xtask::commands::tracefs::session(&flags.guest, false)?;
    let mut watch = Watch::start().context("cannot watch for Ctrl-C")?;
    let mounted = Mounted::new(session, &flags.dir)?;
    tell!(
        "The tracer's files are in {}; Ctrl-C unmounts them.",
        paths::shown(&flags.dir)
    );
    while mounted.is_up() && watch.wish() == Wish::None {
        thread::sleep(TICK);
    }
    if let Some(said) = mounted.last_words() {
        tell!("{said}");
    }
    mounted.unmount()?;
    Ok(ExitCode::SUCCESS)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A request that panicked has left nothing half done that another would trip over.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn number_of(error: rustix::io::Errno) -> Errno {
    Errno::from_i32(error.raw_os_error())
}

/// A mounted session.
#[derive(Debug)]
struct Mounted {
    background: BackgroundSession,
    session: Arc<Mutex<Session>>,
    is_ending: Arc<AtomicBool>,
    dir: std::path::PathBuf,
}

impl Mounted {
    /// Mounts a session's files on `dir`.
    fn new(session: Session, dir: &Path) -> Result<Self> {
        let session = Arc::new(Mutex::new(session));
        let is_ending = Arc::new(AtomicBool::new(false));
        let files = TracingFiles::new(Arc::clone(&session), Arc::clone(&is_ending));
        let mut config = Config::default();
        config.mount_options = vec![
            MountOption::FSName("takt".into()),
            MountOption::Subtype("tracefs".into()),
            MountOption::NoSuid,
            MountOption::NoDev,
            MountOption::NoExec,
        ];
        let background = fuser::spawn_mount(files, dir, &config)
            .with_context(|| format!("cannot mount on {}", dir.display()))?;
        Ok(Self {
            background,
            session,
            is_ending,
            dir: dir.canonicalize()?,
        })
    }

    /// Whether there is anything left to wait for: the guest runs, and nobody has unmounted.
    fn is_up(&self) -> bool {
        !self.background.guard.is_finished() && lock(&self.session).guest.is_alive()
    }

    /// As of the guest.
    fn last_words(&self) -> Option<String> {
        lock(&self.session).guest.last_words()
    }

    /// Unmounts. Readers of pipes find their end first.
    fn unmount(self) -> Result<()> {
        self.is_ending.store(true, Relaxed);
        let asked = Instant::now();
        if !self.background.guard.is_finished() {
            detach(&self.dir)?;
        }
        // Whoever still has a file open keeps it from ending; then it ends with this process.
        while !self.background.guard.is_finished() && asked.elapsed() < END_WITHIN {
            thread::sleep(POLL);
        }
        Ok(())
    }
}

/// Takes the mount away from its folder, also while somebody is in it.
fn detach(dir: &Path) -> Result<()> {
    use rustix::mount::{UnmountFlags, unmount};
    let Err(error) = unmount(dir, UnmountFlags::DETACH) else {
        return Ok(());
    };
    // Those who are not root have a helper for it.
    let mut helper = process::Command::new("fusermount3");
    helper.args(["-u", "-z", "--"]).arg(dir);
    if error == rustix::io::Errno::PERM && helper.status().is_ok_and(|status| status.success()) {
        return Ok(());
    }
    Err(anyhow!("cannot unmount {}: {error}", dir.display()))
}
