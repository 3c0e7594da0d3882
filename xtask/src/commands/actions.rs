//! What `--on-threshold` and `--on-end` ask for, done.

use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, getppid, kill_process};
use signal_hook::consts::SIGINT;

use super::trace;
use takt_cli::Action;
use takt_machine::run::signals::Interrupted;

/// Does what is asked for, in order, for the run in `dir`. The first that fails is the last.
pub(super) fn perform(actions: &[Action], dir: &Path) -> Result<()> {
    actions.iter().try_for_each(|action| match action {
        Action::Trace(file) => trace::save(dir, file)
            .with_context(|| format!("the trace is not in {}", file.display())),
        Action::Signal { number, pid } => {
            signal(*number, *pid).with_context(|| format!("signal {number} was not sent"))
        }
        Action::Shell(command) => shell(command),
        // Whoever holds the guest lets it go on.
        Action::Continue => Ok(()),
    })
}

fn signal(number: i32, pid: Option<i32>) -> Result<()> {
    let pid = match pid {
        Some(pid) => Pid::from_raw(pid),
        None => getppid(),
    };
    let signal = Signal::from_named_raw(number).context("it has no name in Linux")?;
    kill_process(pid.context("there is no such process")?, signal)?;
    Ok(())
}

fn shell(command: &str) -> Result<()> {
    let status = Command::new("/bin/sh").args(["-c", command]).status();
    match status.with_context(|| format!("cannot run `{command}`"))? {
        status if status.success() => Ok(()),
        status if status.signal() == Some(SIGINT) || status.code() == Some(128 + SIGINT) => {
            bail!(Interrupted("interrupted: the command was not done"))
        }
        status => bail!("`{command}` failed: {status}"),
    }
}
