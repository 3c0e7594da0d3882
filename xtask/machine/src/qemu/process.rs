//! [`Process`]: a QEMU that never outlives us.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufReader};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::pin::{Claim, Pinned};
use super::{Machine, Qmp, Registers, qmp};
use takt_base::paths;
use takt_guest::elf::memory_end;

/// Bytes of a command line that the guest still gets; with a longer one it gets neither that nor the memory map. Found
/// by trying, with QEMU 7.2.
pub const MAX_CMDLINE: usize = 4096;

/// How long QEMU's monitor is waited for.
const ANSWER_WITHIN: Duration = Duration::from_secs(1);

/// A running QEMU. It is killed and waited for when this is dropped. Where `setpriv` is there, the
/// kernel kills it too if this process dies without dropping anything.
#[derive(Debug)]
pub struct Process {
    child: Child,
    /// The host's CPU, if it has one to itself.
    _claim: Option<Claim>,
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

fn create(messages: &Path) -> Result<File> {
    File::create(messages).with_context(|| format!("cannot write {}", messages.display()))
}

/// Starts QEMU, with this input and output.
fn launch(
    arguments: &[OsString],
    is_pinned: bool,
    [input, output]: [Stdio; 2],
    messages: File,
) -> Result<Process> {
    let (_pinned, _claim) = is_pinned.then(Pinned::new).unzip();
    let child = command()
        .args(arguments)
        .stdin(input)
        .stdout(output)
        .stderr(messages)
        .spawn()
        .with_context(|| format!("cannot start {}", super::program().display()))?;
    Ok(Process {
        child,
        _claim: _claim.flatten(),
    })
}

/// Refuses a machine whose RAM, by these arguments, ends before the image does: QEMU would boot what is not there.
///
/// # Errors
///
/// Then, and if the image cannot be read. What is no ELF file is for QEMU to refuse.
fn check_room(image: &Path, arguments: &[OsString]) -> Result<()> {
    let mut flags = arguments.iter().skip_while(|it| *it != "-m").skip(1);
    let ram = flags.next().and_then(|it| it.to_str()?.strip_suffix('M'));
    let Some(ram) = ram.and_then(|it| it.parse::<u64>().ok()) else {
        return Ok(());
    };
    match memory_end(image)? {
        Some(end) if end > ram << 20 => bail!(
            "the image {} takes the memory up to {} MiB, and the machine has {ram} MiB",
            image.display(),
            end.div_ceil(1 << 20)
        ),
        _ => Ok(()),
    }
}

impl Process {
    /// Boots a machine, with QEMU's monitor at hand (see [`registers`](Self::registers)). QEMU's own messages go to
    /// `messages`.
    ///
    /// # Errors
    ///
    /// If QEMU cannot be started, or would not hand over the command line, or the machine has too little RAM for the image.
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
        let mut arguments = change(machine.arguments());
        check_room(&machine.image, &arguments)?;
        arguments.extend(qmp::ON_STDIO.map(Into::into));
        let monitor = [Stdio::piped(), Stdio::piped()];
        launch(&arguments, machine.is_pinned(), monitor, create(messages)?)
    }

    /// Starts QEMU with these arguments alone, on one of the host's CPUs if it is to be pinned. As [`start`](Self::start).
    ///
    /// # Errors
    ///
    /// If it cannot be started.
    pub fn spawn(arguments: &[OsString], is_pinned: bool, messages: &Path) -> Result<Self> {
        let messages = create(messages)?;
        let nobody = [Stdio::null(), messages.try_clone()?.into()];
        launch(arguments, is_pinned, nobody, messages)
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

    /// The two ways to QEMU's monitor. None if it was started without, or they are taken.
    pub fn take_monitor(&mut self) -> Option<(ChildStdin, ChildStdout)> {
        self.child.stdin.take().zip(self.child.stdout.take())
    }

    /// Stops the guest for good and asks where its CPUs stand. None if QEMU does not answer in time, or was started without
    /// the monitor.
    pub fn registers(&mut self) -> Vec<Registers> {
        let Some((input, output)) = self.take_monitor() else {
            return Vec::new();
        };
        let (done, answer) = mpsc::channel();
        // It ends at the latest with QEMU, which is killed next.
        thread::spawn(move || {
            let ask = || -> Result<Option<String>> {
                let mut monitor = Qmp::new(BufReader::new(output), input)?;
                monitor.execute("stop")?;
                monitor.print("info registers -a")
            };
            // Whoever asked may have waited long enough.
            let _ = done.send(ask().ok().flatten());
        });
        let text = answer.recv_timeout(ANSWER_WITHIN).ok().flatten();
        text.map_or_else(Vec::new, |text| Registers::parse(&text))
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
