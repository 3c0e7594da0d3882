//! How many events a ring was given, read from its counters while the guest goes on.

use takt_tracer::control::ControlView;
use takt_tracer::ring::observer::RingView;
use takt_tracer::ring::{Word, position};
use takt_tracer::wire::{SUB_COMMIT, SUB_HEADER, counted};

use super::{Result, errno};

/// Readings of a slot until it did not change meanwhile.
const TRIES: u32 = 8;

/// The counters of a CPU's ring since the guest booted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Events written.
    pub entries: u64,
    /// Events lost because the ring was full.
    pub dropped: u64,
    /// Events lost because a writer was inside the sub-buffer to be reused.
    pub commit_overrun: u64,
}

/// Reads the counters of a ring, as the guest's own `ring::counters` does.
///
/// # Errors
///
/// If the guest's memory cannot be read.
pub fn counts(ring: &impl RingView<Error = std::io::Error>, view: &ControlView) -> Result<Counts> {
    let slots = Slots::new(ring, view);
    let opened = slots.nr_opened()?;
    let mut entries = 0u64;
    for seq in opened.saturating_sub(slots.nr)..opened {
        entries = entries.wrapping_add(slots.entries(seq, SUB_COMMIT)?);
    }
    Ok(Counts {
        entries,
        dropped: slots.load(Word::Dropped)?,
        commit_overrun: slots.load(Word::CommitOverrun)?,
    })
}

/// How many events were written before sub-buffer `end`, which was in the ring a moment ago; `None` if the guest has gone
/// on too far meanwhile.
///
/// # Errors
///
/// If the guest's memory cannot be read.
pub fn entries_before(
    ring: &impl RingView<Error = std::io::Error>,
    view: &ControlView,
    end: u64,
) -> Result<Option<u64>> {
    Slots::new(ring, view).entries_before(end)
}

/// How many sub-buffers were ever opened.
///
/// # Errors
///
/// If the guest's memory cannot be read.
pub fn nr_opened(ring: &impl RingView<Error = std::io::Error>, view: &ControlView) -> Result<u64> {
    Slots::new(ring, view).nr_opened()
}

/// The slots of a ring.
struct Slots<'r, R> {
    ring: &'r R,
    /// Bytes of a sub-buffer.
    size: u64,
    nr: u64,
}

impl<'r, R: RingView<Error = std::io::Error>> Slots<'r, R> {
    fn new(ring: &'r R, view: &ControlView) -> Self {
        Self {
            ring,
            size: view.sub_size.max(1).into(),
            nr: view.nr_subs.max(1).into(),
        }
    }

    fn load(&self, word: Word) -> Result<u64> {
        self.ring.load(word).map_err(|error| errno(&error))
    }

    /// See [`entries_before`].
    fn entries_before(&self, end: u64) -> Result<Option<u64>> {
        let mut entries = 0u64;
        // By the first sub-buffer of each slot that does not count. The one that is used again next comes first: the guest
        // takes longer for a sub-buffer than this for a slot.
        for first in end..end.saturating_add(self.nr) {
            let Some(before) = self.before(first)? else {
                return Ok(None);
            };
            entries = entries.wrapping_add(before);
        }
        Ok(Some(entries))
    }

    fn nr_opened(&self) -> Result<u64> {
        let pos = self.load(Word::Pos)?;
        let written = position::bytes(pos, self.size.wrapping_mul(self.nr));
        Ok(written.div_ceil(self.size))
    }

    /// A word of the header of the slot that sub-buffer `seq` has.
    fn word(&self, seq: u64, at: u32) -> Result<u64> {
        let mut raw = [0; 8];
        let slot = (seq % self.nr * self.size) as u32;
        let copied = self.ring.copy(slot + at, &mut raw);
        copied.map_err(|error| errno(&error))?;
        Ok(u64::from_le_bytes(raw))
    }

    /// The events that a counter of that slot stands for, while its sub-buffer is `seq`.
    fn entries(&self, seq: u64, counter: u32) -> Result<u64> {
        let commit = self.word(seq, counter)?;
        let (_, entries) = counted(commit, seq / self.nr * self.size);
        Ok(entries)
    }

    /// The events that a slot was given before sub-buffer `first` of it, which may have been opened by now, or passed over.
    /// A writer moves the position before it stores anything there: what was read in between is good if it has not moved
    /// that far.
    fn before(&self, first: u64) -> Result<Option<u64>> {
        for _ in 0..TRIES {
            let opened = self.nr_opened()?;
            let is_opened = first < opened;
            // What is opened has the counter of before in its header. What was passed over has a header of before.
            let has_header = is_opened && self.word(first, 0)? == first;
            let entries = match first.checked_sub(self.nr) {
                _ if has_header => self.entries(first, SUB_HEADER - 8)?,
                _ if is_opened => self.entries(first, SUB_COMMIT)?,
                Some(last) => self.entries(last, SUB_COMMIT)?,
                // Nothing was ever there.
                None => 0,
            };
            let now = self.nr_opened()?;
            if now > first.saturating_add(self.nr) {
                return Ok(None);
            }
            // Of the newest the header may not be written yet.
            let is_settled = has_header || first + 1 < opened || !is_opened && now <= first;
            if is_settled {
                return Ok(Some(entries));
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};

    use super::*;
    use takt_tracer::wire::COMMIT_RECORD;

    const SIZE: u64 = 64;
    const NR: u64 = 4;
    /// Records of a sub-buffer, eight bytes each.
    const RECORDS: u64 = (SIZE - SUB_HEADER as u64) / 8;

    /// A ring whose writer takes so many steps before each look at it.
    struct Busy {
        memory: RefCell<[u64; (SIZE * NR / 8) as usize]>,
        bytes: Cell<u64>,
        /// What the next step does in the sub-buffer: opens it, writes its header, or one half of a record.
        at: Cell<u64>,
        steps: u64,
    }

    impl Busy {
        fn step(&self) {
            const HEADER: u64 = SUB_HEADER as u64;
            let at = self.at.get();
            let seq = match at {
                0 => self.bytes.get() / SIZE,
                _ => (self.bytes.get() - 1) / SIZE,
            };
            let mut memory = self.memory.borrow_mut();
            let slot = (seq % NR * SIZE / 8) as usize;
            let commit = slot + SUB_COMMIT as usize / 8;
            match at {
                0 => self.bytes.set(self.bytes.get() + HEADER),
                1 => {
                    memory[slot] = seq;
                    memory[slot + (SUB_HEADER as usize - 8) / 8] = memory[commit];
                    memory[commit] += HEADER;
                }
                reserve if reserve.is_multiple_of(2) => self.bytes.set(self.bytes.get() + 8),
                _ => memory[commit] += COMMIT_RECORD + 8,
            }
            self.at.set((at + 1) % (2 + 2 * RECORDS));
        }

        fn steps(&self) {
            (0..self.steps).for_each(|_| self.step());
        }
    }

    impl RingView for Busy {
        type Error = std::io::Error;

        fn load(&self, word: Word) -> std::io::Result<u64> {
            self.steps();
            Ok(match word {
                Word::Pos => position::after(self.bytes.get(), SIZE * NR),
                _ => 0,
            })
        }

        fn copy(&self, offset: u32, out: &mut [u8]) -> std::io::Result<()> {
            self.steps();
            let word = self.memory.borrow()[offset as usize / 8];
            out.copy_from_slice(&word.to_le_bytes());
            Ok(())
        }
    }

    /// How a count comes out where the writer has taken so many steps before, and takes so many at each look.
    fn counted(before: u64, steps: u64, end: impl Fn(u64) -> u64) -> (u64, Option<u64>) {
        let mut ring = Busy {
            memory: RefCell::new([0; (SIZE * NR / 8) as usize]),
            bytes: Cell::new(0),
            at: Cell::new(0),
            steps: 0,
        };
        (0..before).for_each(|_| ring.step());
        let end = end(ring.bytes.get().div_ceil(SIZE));
        ring.steps = steps;
        let slots = Slots {
            ring: &ring,
            size: SIZE,
            nr: NR,
        };
        (end, slots.entries_before(end).unwrap())
    }

    #[test]
    fn a_count_is_right_or_none_whatever_the_writer_does() {
        for before in 1..200 {
            for steps in 0..40 {
                for back in 0..=NR {
                    let (end, found) = counted(before, steps, |opened| opened.saturating_sub(back));
                    let all = end * RECORDS;
                    let is_right = match found {
                        // Not all may be there yet that come before one that is not opened.
                        Some(found) if back == 0 => {
                            (all.saturating_sub(RECORDS)..=all).contains(&found)
                        }
                        Some(found) => found == all,
                        None => true,
                    };
                    assert!(is_right, "{before} {steps} {back}: {found:?} before {end}");
                    // One that writes slower than it is looked at, and has room, cannot keep anybody from knowing.
                    let is_calm = steps == 0 || steps == 1 && back < NR;
                    // But for the moment in which a sub-buffer is open and its header is not written.
                    assert!(
                        !is_calm || found.is_some() || before % 8 == 1,
                        "{before} {steps} {back}"
                    );
                }
            }
        }
    }
}
