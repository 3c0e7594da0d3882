//! [`Reader`]: waiting for something in a pipe.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::thread;

use fuser::Errno;

use super::{POLL, lock, number_of};
use takt_tracefs::session::{OpenPipe, Piped, Session};

/// What an open file is.
#[derive(Debug)]
pub(super) struct Handle {
    /// A file's content, from its first read on, or what of a pipe was not handed over yet.
    pub(super) content: Option<Vec<u8>>,
    /// What it is as a pipe.
    pub(super) pipe: OpenPipe,
    pub(super) is_closed: bool,
}

/// Waits until a pipe has something, and answers.
pub(super) struct Reader {
    pub(super) session: Arc<Mutex<Session>>,
    pub(super) handle: Arc<Mutex<Handle>>,
    pub(super) is_ending: Arc<AtomicBool>,
    pub(super) cpu: Option<usize>,
    pub(super) size: usize,
    /// The thread that reads.
    pub(super) tid: u32,
}

impl Reader {
    /// What there is to read, when there is something; nothing at the end.
    pub(super) fn wait(&self) -> std::result::Result<Vec<u8>, Errno> {
        loop {
            let mut handle = lock(&self.handle);
            if let Some(text) = take(&mut handle.content, self.size) {
                return Ok(text);
            }
            if handle.is_closed || self.is_ending.load(Relaxed) {
                return Ok(Vec::new());
            }
            let piped = lock(&self.session).pipe(self.cpu, &mut handle.pipe);
            match piped.map_err(number_of)? {
                Piped::Text(text) => handle.content = Some(text),
                Piped::End => return Ok(Vec::new()),
                Piped::Nothing => {
                    drop(handle);
                    if has_signal(self.tid) {
                        return Err(Errno::EINTR);
                    }
                    thread::sleep(POLL);
                }
            }
        }
    }
}

/// Takes the first `size` bytes.
fn take(content: &mut Option<Vec<u8>>, size: usize) -> Option<Vec<u8>> {
    let text = content.as_mut().filter(|text| !text.is_empty())?;
    let rest = text.split_off(size.min(text.len()));
    Some(std::mem::replace(text, rest))
}

/// Whether a signal waits for a thread, one that it has not blocked.
fn has_signal(tid: u32) -> bool {
    let Ok(status) = takt_base::input::read_to_string(format!("/proc/{tid}/status")) else {
        return false;
    };
    let mask = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|line| u64::from_str_radix(line.trim(), 16).ok())
            .unwrap_or(0)
    };
    (mask("SigPnd:") | mask("ShdPnd:")) & !mask("SigBlk:") != 0
}
