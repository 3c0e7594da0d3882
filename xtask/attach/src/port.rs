//! [`Port`]: a serial line.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::termios::{self, ControlModes, OptionalActions};
use takt_base::device::Device;

use takt_base::term::WithHelp;

/// How long a read waits.
const TICK: Duration = Duration::from_millis(50);

/// An open line. At least every 50 ms a read is [`io::ErrorKind::WouldBlock`], whether something has come or not, so that
/// who reads gets to look at other things.
#[derive(Debug)]
pub struct Port {
    file: File,
    looked: Instant,
    heard: Instant,
}

impl Port {
    /// Opens a line; a terminal becomes raw and gets the speed.
    ///
    /// # Errors
    ///
    /// If it cannot be opened, or does not have the speed.
    pub fn open(device: &Device, baud: u32) -> Result<Self> {
        let fd: OwnedFd = match device {
            Device::Path(path) => open_path(path, baud)
                .with_context(|| format!("cannot open the serial port {path}"))
                .help(advice(path))?,
            Device::Tcp(address) => TcpStream::connect(address)
                .and_then(|stream| stream.set_nodelay(true).map(|()| stream.into()))
                .with_context(|| format!("cannot connect to {address}"))?,
            Device::Unix(path) => UnixStream::connect(path)
                .map(Into::into)
                .with_context(|| format!("cannot connect to the socket {path}"))?,
        };
        Ok(Self {
            file: fd.into(),
            looked: Instant::now(),
            heard: Instant::now(),
        })
    }

    /// How long nothing has come.
    #[must_use]
    pub fn silence(&self) -> Duration {
        self.heard.elapsed()
    }

    /// Waits until something has come, for as long as a read does.
    fn wait(&self) -> io::Result<()> {
        let timeout = Timespec::try_from(TICK).map_err(io::Error::other)?;
        let mut fds = [PollFd::new(&self.file, PollFlags::IN)];
        match poll(&mut fds, Some(&timeout)) {
            Ok(0) | Err(Errno::INTR) => Err(io::ErrorKind::WouldBlock.into()),
            Ok(_) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

fn open_path(path: &str, baud: u32) -> Result<OwnedFd> {
    // Without waiting for a carrier, which a cable of three wires does not have.
    let flags = OFlags::NOCTTY | OFlags::NONBLOCK;
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(flags.bits().cast_signed())
        .open(path)?;
    if termios::isatty(&file) {
        // Two readers would get half of it each. Pseudo-terminals and old drivers may not know of it.
        let _ = termios::ioctl_tiocexcl(&file);
        set_up(file.as_fd(), baud).with_context(|| format!("it does not take {baud} baud"))?;
    }
    Ok(file.into())
}

/// Raw, 8N1, no flow control, this speed.
fn set_up(fd: impl AsFd, baud: u32) -> Result<()> {
    let mut modes = termios::tcgetattr(&fd)?;
    modes.make_raw();
    modes.control_modes -= ControlModes::CSTOPB | ControlModes::CRTSCTS | ControlModes::HUPCL;
    modes.control_modes |= ControlModes::CREAD | ControlModes::CLOCAL;
    modes.set_speed(baud)?;
    termios::tcsetattr(&fd, OptionalActions::Now, &modes)?;
    let taken = termios::tcgetattr(&fd)?.output_speed();
    match taken == baud {
        true => Ok(()),
        false => Err(anyhow!("its driver has set {taken} instead")),
    }
}

fn advice(path: &str) -> String {
    format!(
        "ls -l {path}: a serial port is readable to the group dialout (sudo usermod -aG dialout $USER, then log in anew); \
         ports that are there: ls /dev/ttyS* /dev/ttyUSB* /dev/ttyACM*"
    )
}

impl Read for Port {
    /// A line that is gone is at its end: a pseudo-terminal says EIO then, a socket that it was reset.
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        if self.looked.elapsed() >= TICK {
            self.looked = Instant::now();
            return Err(io::ErrorKind::WouldBlock.into());
        }
        self.wait()?;
        match self.file.read(bytes) {
            Err(error) if is_gone(&error) => Ok(0),
            Ok(nr) => {
                self.heard = Instant::now();
                Ok(nr)
            }
            other => other,
        }
    }
}

fn is_gone(error: &io::Error) -> bool {
    let gone = [Errno::IO, Errno::NXIO, Errno::NODEV, Errno::CONNRESET];
    error
        .raw_os_error()
        .is_some_and(|raw| gone.iter().any(|errno| errno.raw_os_error() == raw))
}

impl Write for Port {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
