//! [`Process`]: a QEMU that never outlives us.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};

use anyhow::{Context, Result, bail};

use super::Machine;
use super::pin::Pinned;
use crate::paths;

/// Bytes of a command line that the guest still gets; with a longer one it gets neither that nor the memory map. Found
/// by trying, with QEMU 7.2.
pub const MAX_CMDLINE: usize = 4096;

/// A running QEMU. It is killed and waited for when this is dropped. Where `setpriv` is there, the
/// kernel kills it too if this process dies without dropping anything.
#[derive(Debug)]
pub struct Process {
    child: Child,
}

/// QEMU without arguments. It gets a process group of its own: Ctrl-C at the terminal is for us, not for QEMU. Where
/// `setpriv` is there, it dies with us.
pub(crate) fn command() -> Command {
    let program = super::program();
    let mut command = if paths::which("setpriv").is_some() {
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", "--"]).arg(program);
        command
    } else {
        Command::new(program)
    };
    command.process_group(0);
    command
}

impl Process {
    /// Boots a machine. QEMU's own messages go to `messages`.
    ///
    /// # Errors
    ///
    /// If QEMU cannot be started, or would not hand over the command line.
    pub fn start(machine: &Machine, messages: &Path) -> Result<Self> {
        Self::start_with(machine, |arguments| arguments, messages)
    }

    /// The same with QEMU's arguments changed.
    ///
    /// # Errors
    ///
    /// As [`Process::start`].
    pub fn start_with(
        machine: &Machine,
        change: impl FnOnce(Vec<OsString>) -> Vec<OsString>,
        messages: &Path,
    ) -> Result<Self> {
        let len = machine.cmdline.len();
        if len > MAX_CMDLINE {
            bail!(
                "the kernel's command line has {len} bytes, and QEMU hands over at most {MAX_CMDLINE}"
            );
        }
        Self::spawn(&change(machine.arguments()), machine.is_pinned(), messages)
    }

    /// Starts QEMU with these arguments, on one of the host's CPUs if it is to be pinned. As [`start`](Self::start).
    ///
    /// # Errors
    ///
    /// If it cannot be started.
    pub fn spawn(arguments: &[OsString], is_pinned: bool, messages: &Path) -> Result<Self> {
        let messages = File::create(messages)
            .with_context(|| format!("cannot write {}", messages.display()))?;
        let _pinned = is_pinned.then(Pinned::new);
        let child = command()
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(messages.try_clone()?)
            .stderr(messages)
            .spawn()
            .with_context(|| format!("cannot start {}", super::program().display()))?;
        Ok(Self { child })
    }

    /// Its number.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// The exit status, if it has ended.
    ///
    /// # Errors
    ///
    /// If the system does not say.
    pub fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
        self.child.try_wait()
    }

    /// Ends it, if it has not ended, and waits until it has.
    ///
    /// # Errors
    ///
    /// If the system does not say how it ended.
    pub fn kill(&mut self) -> io::Result<ExitStatus> {
        // An error means that it ended in between; waiting tells.
        let _ = self.child.kill();
        self.child.wait()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.kill();
    }
}
