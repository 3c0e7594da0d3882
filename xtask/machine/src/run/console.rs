//! The guest's serial port at hand while it runs: on stdin and stdout, on a pseudo-terminal, or behind a TCP port.
//!
//! QEMU connects its serial port to a socket of ours, and two threads carry the bytes. What the guest writes is kept in the run
//! folder all the same.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, IsTerminal, Read, Write};
use std::net::{Shutdown, TcpListener};
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context, Result};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::pty;
use rustix::termios::{self, OptionalActions, OutputModes, Termios};
use tempfile::TempDir;

use crate::qemu::command::escape;

/// Where the serial port is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Line {
    /// On stdin and stdout.
    Stdio,
    /// On a new pseudo-terminal.
    Pty,
    /// Behind this address, `HOST:PORT`: whoever connects.
    Tcp(String),
}

impl FromStr for Line {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match (text, text.strip_prefix("tcp:")) {
            ("stdio", _) => Ok(Self::Stdio),
            ("pty", _) => Ok(Self::Pty),
            (_, Some(address)) if address.starts_with(':') => {
                Ok(Self::Tcp(format!("localhost{address}")))
            }
            (_, Some(address)) if address.contains(':') => Ok(Self::Tcp(address.into())),
            _ => Err("stdio, pty or tcp:HOST:PORT".into()),
        }
    }
}

/// A console. The terminal is as it was when this is dropped.
#[derive(Debug)]
pub struct Console {
    dir: TempDir,
    has_left: Arc<AtomicBool>,
    to_user: Option<JoinHandle<()>>,
    before: Option<Termios>,
    /// Open, so that the pseudo-terminal is there while nobody has it open.
    _terminal: Option<OwnedFd>,
}

type Input = Box<dyn Read + Send>;
type Output = Box<dyn Write + Send>;

impl Console {
    /// Makes it; of TCP waits until somebody connects.
    ///
    /// # Errors
    ///
    /// If there is no terminal to be had, or the address cannot be listened at.
    pub fn open(line: &Line) -> Result<Self> {
        let dir = takt_base::scratch::folder()?;
        let mut console = Self {
            dir,
            has_left: Arc::default(),
            to_user: None,
            before: None,
            _terminal: None,
        };
        let (input, output): (Input, Output) = match line {
            Line::Stdio => {
                console.before = io::stdin().is_terminal().then(take_terminal).transpose()?;
                if console.before.is_some() {
                    tell!("The guest's serial port; Ctrl-A x ends it, Ctrl-A twice types Ctrl-A");
                }
                (Box::new(io::stdin()), Box::new(io::stdout()))
            }
            Line::Pty => {
                let (master, terminal, name) = open_pty().context("no pseudo-terminal")?;
                tell!("The guest's serial port is {name}");
                console._terminal = Some(terminal);
                both(master)?
            }
            Line::Tcp(address) => {
                let listener = TcpListener::bind(address)
                    .with_context(|| format!("cannot listen at {address}"))?;
                let address = listener.local_addr()?;
                tell!("The guest boots when somebody connects to {address}");
                let (stream, _) = listener.accept().context("nobody can connect")?;
                both(stream.into())?
            }
        };
        console.carry(input, output)?;
        Ok(console)
    }

    fn socket(&self) -> PathBuf {
        self.dir.path().join("serial")
    }

    /// Begins to carry bytes, from the moment when QEMU connects.
    fn carry(&mut self, mut input: Input, mut output: Output) -> Result<()> {
        let listener = UnixListener::bind(self.socket()).context("no socket for QEMU")?;
        let has_left = self.has_left.clone();
        self.to_user = Some(thread::spawn(move || {
            let Ok((mut from_guest, _)) = listener.accept() else {
                return;
            };
            if let Ok(mut to_guest) = from_guest.try_clone() {
                // Left alone at the end: it may wait for a key for ever.
                thread::spawn(move || {
                    if type_in(&mut *input, &mut to_guest).is_ok_and(|is_end| is_end) {
                        has_left.store(true, Relaxed);
                    }
                });
            }
            // Whoever looks on may go away; the guest goes on.
            let _ = pass_on(&mut from_guest, &mut *output);
        }));
        Ok(())
    }

    /// QEMU's arguments with the serial port here, and with idle time that passes as the user's does.
    #[must_use]
    pub fn wired(&self, arguments: Vec<OsString>) -> Vec<OsString> {
        let socket = escape(&self.socket());
        let wire = |argument: OsString| match argument.to_str() {
            Some("shift=0,sleep=off") => "shift=0,sleep=on".into(),
            Some(text) => match text.strip_prefix("file,id=ser,path=") {
                Some(log) => format!("socket,id=ser,path={socket},logfile={log}").into(),
                None => argument,
            },
            None => argument,
        };
        arguments.into_iter().map(wire).collect()
    }

    /// Whether the user wants the end.
    #[must_use]
    pub fn has_left(&self) -> bool {
        self.has_left.load(Relaxed)
    }

    /// Waits until all that the guest has written is passed on, as far as somebody takes it. To be called when QEMU has ended.
    pub fn finish(mut self) {
        // If QEMU has never connected, this is its place.
        let _ = UnixStream::connect(self.socket()).map(|it| it.shutdown(Shutdown::Both));
        if let Some(to_user) = self.to_user.take() {
            let _ = to_user.join();
        }
    }
}

/// How long it is waited for somebody to take what the guest writes.
const TAKEN_WITHIN: Duration = Duration::from_secs(1);

/// A line whose other end may be nobody: what is not taken is dropped, as a serial port does. Else the guest would wait for
/// ever, or its end would be waited for.
struct Loose {
    file: File,
    /// Nobody took what was written last.
    is_full: bool,
}

/// Both directions of a line.
fn both(line: OwnedFd) -> Result<(Input, Output)> {
    rustix::io::ioctl_fionbio(&line, true)?;
    let loose = |file| {
        Box::new(Loose {
            file,
            is_full: false,
        })
    };
    let file = File::from(line);
    Ok((loose(file.try_clone()?), loose(file)))
}

impl Loose {
    /// Waits until it is ready, at most so long; says whether it is.
    fn wait(&self, flags: PollFlags, limit: Option<Duration>) -> io::Result<bool> {
        let limit = limit.map(Timespec::try_from).transpose();
        let limit = limit.map_err(io::Error::other)?;
        match poll(&mut [PollFd::new(&self.file, flags)], limit.as_ref()) {
            Err(Errno::INTR) => Ok(true),
            ready => Ok(ready? > 0),
        }
    }
}

impl Read for Loose {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.file.read(bytes) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.wait(PollFlags::IN, None)?;
                }
                read => return read,
            }
        }
    }
}

impl Write for Loose {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            match self.file.write(bytes) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    let limit = match self.is_full {
                        true => Duration::ZERO,
                        false => TAKEN_WITHIN,
                    };
                    self.is_full = !self.wait(PollFlags::OUT, Some(limit))?;
                    if self.is_full {
                        return Ok(bytes.len());
                    }
                }
                written => {
                    self.is_full = false;
                    return written;
                }
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Console {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            let _ = termios::tcsetattr(io::stdin(), OptionalActions::Flush, before);
        }
    }
}

/// Has the terminal hand over each key as it comes; gives what it was like before.
fn take_terminal() -> Result<Termios> {
    let before = termios::tcgetattr(io::stdin())?;
    let mut raw = before.clone();
    raw.make_raw();
    // Guests end their lines as files do.
    raw.output_modes |= OutputModes::OPOST | OutputModes::ONLCR;
    termios::tcsetattr(io::stdin(), OptionalActions::Now, &raw)?;
    Ok(before)
}

/// A pseudo-terminal that changes nothing of what goes through it: both ends, and its name.
fn open_pty() -> Result<(OwnedFd, OwnedFd, String)> {
    let master = pty::openpt(pty::OpenptFlags::RDWR | pty::OpenptFlags::NOCTTY)?;
    pty::grantpt(&master)?;
    pty::unlockpt(&master)?;
    let name = pty::ptsname(&master, Vec::new())?.into_string()?;
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
    let terminal = rustix::fs::open(name.as_str(), flags, Mode::empty())?;
    let mut raw = termios::tcgetattr(&terminal)?;
    raw.make_raw();
    termios::tcsetattr(&terminal, OptionalActions::Now, &raw)?;
    Ok((master, terminal, name))
}

const CTRL_A: u8 = 1;

/// Carries what is typed to the guest until there is no more; says whether the user wants the end.
fn type_in(input: &mut dyn Read, to_guest: &mut dyn Write) -> io::Result<bool> {
    let (mut bytes, mut is_command) = ([0; 256], false);
    loop {
        let len = input.read(&mut bytes)?;
        if len == 0 {
            return Ok(false);
        }
        let mut typed = Vec::with_capacity(len);
        for &byte in &bytes[..len] {
            match (is_command, byte) {
                (true, b'x') => {
                    to_guest.write_all(&typed)?;
                    return Ok(true);
                }
                (true, CTRL_A) => typed.push(CTRL_A),
                (true, _) => typed.extend([CTRL_A, byte]),
                (false, CTRL_A) => {}
                (false, _) => typed.push(byte),
            }
            is_command = !is_command && byte == CTRL_A;
        }
        to_guest.write_all(&typed)?;
    }
}

fn pass_on(from_guest: &mut dyn Read, output: &mut dyn Write) -> io::Result<()> {
    let mut bytes = [0; 4096];
    loop {
        let len = from_guest.read(&mut bytes)?;
        if len == 0 {
            return Ok(());
        }
        output.write_all(&bytes[..len])?;
        output.flush()?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typed(mut text: &[u8]) -> (bool, Vec<u8>) {
        let mut to_guest = Vec::new();
        let is_end = type_in(&mut text, &mut to_guest).unwrap();
        (is_end, to_guest)
    }

    #[test]
    fn ctrl_a_x_ends_and_nothing_else_does() {
        assert_eq!(typed(b"ab\x03"), (false, b"ab\x03".to_vec()));
        assert_eq!(typed(b"ab\x01xcd"), (true, b"ab".to_vec()));
        assert_eq!(typed(b"\x01\x01x\x01a"), (false, b"\x01x\x01a".to_vec()));
    }

    /// Of a guest that writes while nobody reads the end is not waited for.
    #[test]
    fn nobody_has_to_read() {
        let console = Console::open(&Line::Pty).unwrap();
        let mut guest = UnixStream::connect(console.socket()).unwrap();
        let (done, is_done) = std::sync::mpsc::channel();
        thread::spawn(move || {
            guest.write_all(&[b'x'; 1 << 20]).unwrap();
            drop(guest);
            console.finish();
            done.send(()).unwrap();
        });
        is_done.recv_timeout(Duration::from_secs(10)).unwrap();
    }

    #[test]
    fn lines_have_names() {
        assert_eq!("stdio".parse(), Ok(Line::Stdio));
        assert_eq!("tcp::4321".parse(), Ok(Line::Tcp("localhost:4321".into())));
        for text in ["", "tty", "tcp:4321", "tcp"] {
            assert!(text.parse::<Line>().is_err(), "{text}");
        }
    }
}
