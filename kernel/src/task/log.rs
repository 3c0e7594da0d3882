//! What a task logs: lines of text and frames of defmt's, so many in a time, so that others' lines have room in the log.

use takt_abi::{Error, FIRST_REGION, MAX_LOG, REGION};

use super::program::Program;
use crate::clock::{Instant, Nanos};

/// How many lines a task may log within [`PERIOD`]; what is above is dropped, and counted.
const MAX_LINES: u32 = 64;
const PERIOD: Nanos = Nanos::from_millis(100);

/// What is kept of that.
pub(super) struct Log {
    /// By way of this, so that what is logged does not change meanwhile.
    text: [u8; MAX_LOG],
    /// When the time ends that lines are counted in.
    end: Instant,
    /// Lines in that time.
    lines: u32,
}

impl Log {
    pub(super) const fn new() -> Self {
        Self {
            text: [0; MAX_LOG],
            end: Instant::ZERO,
            lines: 0,
        }
    }

    /// Counts a line, and says whether it may be logged.
    pub(super) fn may_log(&mut self, task: &str) -> bool {
        let now = Instant::now();
        if now >= self.end {
            let dropped = self.lines.saturating_sub(MAX_LINES);
            if dropped != 0 {
                defmt::warn!("{=str}: {=u32} lines were dropped", task, dropped);
            }
            self.lines = 0;
            self.end = now + PERIOD.to_cycles();
        }
        self.lines = self.lines.saturating_add(1);
        self.lines <= MAX_LINES
    }
}

impl Log {
    /// [`Call::Log`](takt_abi::Call::Log), by the thread of the task of this program.
    #[cold]
    #[inline(never)]
    pub(super) fn log(&mut self, program: &Program, at: u64, len: u64) -> Result<(), Error> {
        if !self.may_log(program.name) {
            return Ok(());
        }
        let len = usize::try_from(len).unwrap_or(usize::MAX).min(MAX_LOG);
        let text = &mut self.text[..len];
        // SAFETY: the task's own thread, in the kernel.
        if !unsafe { program.copy_from(at as usize, text) } {
            return Err(Error::BadAddress);
        }
        let text = match core::str::from_utf8(text) {
            Ok(text) => text,
            Err(error) => core::str::from_utf8(&text[..error.valid_up_to()]).unwrap_or(""),
        };
        defmt::info!("{=str}: {=str}", program.name, text);
        Ok(())
    }

    /// [`Call::LogFrame`](takt_abi::Call::LogFrame), likewise. What is in the frame is for the host to judge, which finds the task's
    /// formats by its number; here it is bytes in a frame of the kernel's own.
    #[cold]
    #[inline(never)]
    pub(super) fn frame(&mut self, program: &Program, at: u64, len: u64) -> Result<(), Error> {
        if !self.may_log(program.name) {
            return Ok(());
        }
        let len = usize::try_from(len).unwrap_or(usize::MAX);
        let Some(bytes) = self.text.get_mut(..len) else {
            defmt::warn!("{=str}: a line that is too long was dropped", program.name);
            return Ok(());
        };
        // SAFETY: the task's own thread runs, in the kernel.
        if !unsafe { program.copy_from(at as usize, bytes) } {
            return Err(Error::BadAddress);
        }
        let task = (program.base - FIRST_REGION) / REGION;
        // `takt_guest::log::task` knows this format. The level is in the task's frame.
        defmt::println!("task {=u8} {=[u8]}", task as u8, bytes);
        Ok(())
    }
}
