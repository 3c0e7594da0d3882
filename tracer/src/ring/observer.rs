//! Reading a ring from outside: the host through a copy of the RAM, or another CPU.
//!
//! The observer writes nothing, so the traced system does not notice it. It finds out afterwards whether what it
//! copied was being overwritten: a writer moves `pos` into a slot before it stores anything there, so a copy is good if
//! `pos` was not past the slot's next use *after* copying. Sequence number and commit counter alone would not do: a
//! writer that interrupts the opening of a sub-buffer stores records before the header is written.
//!
//! Context: any; it only loads.

use super::snapshot::Halves;
use super::{Word, position};
use crate::wire::{COMMIT_BYTES, SUB_COMMIT, SUB_HEADER, SubHeader};

/// How an observer gets at a ring.
///
/// Loads must happen in the order in which they are called (on x86 any loads do; elsewhere: acquire).
pub trait RingView {
    /// What can go wrong, for example reading a file.
    type Error;

    /// Loads a control word.
    ///
    /// # Errors
    /// Whatever the access may meet.
    fn load(&self, word: Word) -> Result<u64, Self::Error>;

    /// Copies from the ring, beginning at byte `offset`.
    ///
    /// # Errors
    /// Whatever the access may meet.
    fn copy(&self, offset: u32, out: &mut [u8]) -> Result<(), Self::Error>;
}

/// What an observer found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Observed {
    /// Nothing new.
    Nothing,
    /// A complete sub-buffer was copied.
    Full {
        /// Its sequence number.
        seq: u64,
    },
    /// The current sub-buffer was copied as far as it is written.
    Partial {
        /// Its sequence number.
        seq: u64,
        /// Bytes of it that were reserved. What follows in the copy is zero.
        reserved: u32,
        /// Bytes of it that were committed: fewer than `reserved` if a writer is inside, which leaves a hole.
        committed: u32,
    },
    /// A writer is still inside the next sub-buffer: try again, or [`skip`](Observer::skip) it.
    Busy {
        /// Its sequence number.
        seq: u64,
    },
    /// The copy is worthless, because it was being overwritten; try again.
    Overwritten,
}

/// The place of an observer in the stream of sub-buffers of one CPU.
#[derive(Clone, Debug)]
pub struct Observer {
    sub_size: u32,
    nr_subs: u32,
    next: u64,
    missed: u64,
}

/// What a slot holds.
enum Copied {
    /// The sub-buffer looked for.
    Here(SubHeader),
    /// Another one: that was never opened, since the ring has two halves.
    PassedOver,
    /// Another one.
    Not,
}

impl Observer {
    /// An observer of a ring of `nr_subs` sub-buffers of `sub_size` bytes, beginning with the oldest one.
    ///
    /// `None` unless both are powers of two, `sub_size` holds a header, and the whole ring has at most 2 GiB.
    pub fn new(sub_size: u32, nr_subs: u32) -> Option<Self> {
        let is_sound = sub_size.is_power_of_two()
            && nr_subs.is_power_of_two()
            && sub_size > SUB_HEADER
            && u64::from(sub_size) * u64::from(nr_subs) <= 1 << 31;
        is_sound.then_some(Self {
            sub_size,
            nr_subs,
            next: 0,
            missed: 0,
        })
    }

    /// The same, beginning with sub-buffer `seq`, or the oldest one there is then.
    #[must_use]
    pub const fn starting_at(mut self, seq: u64) -> Self {
        self.next = seq;
        self
    }

    /// Sub-buffers that were overwritten before they could be copied, or skipped.
    pub const fn missed(&self) -> u64 {
        self.missed
    }

    /// Gives the next sub-buffer up.
    pub fn skip(&mut self) {
        self.next += 1;
        self.missed += 1;
    }

    /// Copies the next complete sub-buffer into `out`, which is as long as a sub-buffer.
    ///
    /// # Errors
    /// Those of the view.
    ///
    /// # Panics
    /// If `out` is not as long as a sub-buffer.
    pub fn poll<V: RingView>(&mut self, view: &V, out: &mut [u8]) -> Result<Observed, V::Error> {
        let size = u64::from(self.sub_size);
        let pos = self.written(view)?;
        let oldest = pos.div_ceil(size).saturating_sub(u64::from(self.nr_subs));
        if self.next < oldest {
            self.missed += self.nr_opened(view, self.next, oldest)?;
            self.next = oldest;
        }
        while self.next < pos / size {
            let seq = self.next;
            let found = self.copy(view, seq, out)?;
            if self.written(view)? > self.reuse(seq) {
                return Ok(Observed::Overwritten);
            }
            match found {
                Copied::Here(header) if header.committed() == self.sub_size => {
                    self.next += 1;
                    return Ok(Observed::Full { seq });
                }
                Copied::PassedOver => self.next += 1,
                _ => return Ok(Observed::Busy { seq }),
            }
        }
        Ok(Observed::Nothing)
    }

    /// How many of these sub-buffers were opened and not passed over, as far as the ring's present division tells.
    fn nr_opened<V: RingView>(&self, view: &V, from: u64, to: u64) -> Result<u64, V::Error> {
        let Some(halves) = Halves::new(view.load(Word::Halves)?, self.nr_subs) else {
            return Ok(to - from);
        };
        let from = from.max(view.load(Word::LiveStart)?.min(to));
        let half = u64::from(self.nr_subs) / 2;
        // Whole turns have a half each; the rest is counted.
        let turns = (to - from) / (2 * half);
        let rest = (from + turns * 2 * half..to).filter(|seq| halves.are_together(*seq, to));
        Ok(turns * half + rest.count() as u64)
    }

    /// The sub-buffers that the ring holds of before its last snapshot, oldest first; if a snapshot is to be taken with the
    /// next record, those that it will hold. None if there is no snapshot.
    ///
    /// # Errors
    /// Those of the view.
    pub fn kept<V: RingView>(
        &self,
        view: &V,
    ) -> Result<impl Iterator<Item = u64> + use<V>, V::Error> {
        let size = u64::from(self.sub_size);
        let nr_subs = u64::from(self.nr_subs);
        let opened = self.written(view)?.div_ceil(size);
        let live_start = view.load(Word::LiveStart)?;
        let halves = Halves::new(view.load(Word::Halves)?, self.nr_subs);
        let is_pending = view.load(Word::Wanted)? != view.load(Word::Taken)?;
        let (range, half) = match (is_pending, halves) {
            (false, None) => (0..0, None),
            (true, None) => (
                opened.saturating_sub(nr_subs / 2).max(live_start)..opened,
                None,
            ),
            (true, Some(halves)) => {
                let first = opened.saturating_sub(nr_subs).max(live_start);
                (first..opened, Some((halves, opened.saturating_sub(1))))
            }
            (false, Some(halves)) => {
                let first = view.load(Word::SnapshotStart)?;
                let first = live_start.saturating_sub(2 * nr_subs).max(first);
                // The half before the one with which what is new began.
                let other = live_start.wrapping_sub(nr_subs / 2);
                (first..live_start, Some((halves, other)))
            }
        };
        Ok(range.filter(move |seq| half.is_none_or(|(halves, of)| halves.are_together(*seq, of))))
    }

    /// Copies one of the [`kept`](Self::kept) sub-buffers into `out`, if it is there as a whole or, where that is what there
    /// is, as far as it is written. Says how many bytes of it are.
    ///
    /// # Errors
    /// Those of the view.
    ///
    /// # Panics
    /// If `out` is not as long as a sub-buffer.
    pub fn copy_kept<V: RingView>(
        &self,
        view: &V,
        seq: u64,
        out: &mut [u8],
    ) -> Result<Option<u32>, V::Error> {
        let taken = view.load(Word::Taken)?;
        let copied = self.copy(view, seq, out)?;
        let is_same = view.load(Word::Taken)? == taken;
        Ok(match copied {
            Copied::Here(header) if is_same => {
                let len = header.committed().min(self.sub_size);
                out[len as usize..].fill(0);
                Some(len)
            }
            _ => None,
        })
    }

    /// Copies the sub-buffer that is being written, as far as it is, into `out`. It stays the next one.
    ///
    /// For the records of a system that has died, and for a live view of one that writes little.
    ///
    /// # Errors
    /// Those of the view.
    ///
    /// # Panics
    /// If `out` is not as long as a sub-buffer.
    pub fn poll_current<V: RingView>(
        &self,
        view: &V,
        out: &mut [u8],
    ) -> Result<Observed, V::Error> {
        let size = u64::from(self.sub_size);
        let seq = self.written(view)? / size;
        let copied = self.copy(view, seq, out)?;
        // Loaded after the commit counter: if both agree, nobody was inside when the copy began.
        let pos = self.written(view)?;
        if pos / size != seq {
            return Ok(Observed::Overwritten);
        }
        let reserved = (pos % size) as u32;
        out[reserved as usize..].fill(0);
        match copied {
            _ if reserved == 0 => Ok(Observed::Nothing),
            Copied::Here(header) => Ok(Observed::Partial {
                seq,
                reserved,
                committed: header.committed(),
            }),
            _ => Ok(Observed::Busy { seq }),
        }
    }

    /// Copies sub-buffer `seq` as it stands; says whether it is there.
    ///
    /// The order matters. The writer stores `base`, then `seq`, and commits the header; records are stored, then
    /// committed. So, backwards: `seq`, then the commit counter, then `base` and the records, which then hold all that
    /// the counter counts. It stays as it was loaded first, in the copy too.
    fn copy<V: RingView>(&self, view: &V, seq: u64, out: &mut [u8]) -> Result<Copied, V::Error> {
        assert_eq!(
            out.len(),
            self.sub_size as usize,
            "the copy is as long as a sub-buffer"
        );
        let slot = self.slot(seq);
        let (mut found, mut commit) = ([0; 8], [0; 8]);
        view.copy(slot, &mut found)?;
        view.copy(slot + SUB_COMMIT, &mut commit)?;
        view.copy(slot, out)?;
        out[SUB_COMMIT as usize..][..8].copy_from_slice(&commit);
        if u64::from_le_bytes(found) == seq {
            return Ok(SubHeader::decode(out).map_or(Copied::Not, Copied::Here));
        }
        // What a slot has committed once the sub-buffers up to this one are complete: nobody is inside, so nobody is about
        // to write the header.
        let turns = seq / u64::from(self.nr_subs) + 1;
        let complete = turns.wrapping_mul(self.sub_size.into()) & COMMIT_BYTES;
        let is_complete = u64::from_le_bytes(commit) & COMMIT_BYTES == complete;
        // Unless it was written just now: the copy was made later.
        let is_here = out.first_chunk() == Some(&seq.to_le_bytes());
        Ok(if is_complete && !is_here {
            Copied::PassedOver
        } else {
            Copied::Not
        })
    }

    /// How many bytes were ever reserved.
    ///
    /// # Errors
    /// Those of the view.
    pub fn written<V: RingView>(&self, view: &V) -> Result<u64, V::Error> {
        let size = u64::from(self.sub_size) * u64::from(self.nr_subs);
        Ok(position::bytes(view.load(Word::Pos)?, size))
    }

    /// The offset of the slot of sub-buffer `seq`.
    const fn slot(&self, seq: u64) -> u32 {
        (seq % self.nr_subs as u64) as u32 * self.sub_size
    }

    /// More than this was reserved once the slot of `seq` is used again.
    const fn reuse(&self, seq: u64) -> u64 {
        seq.saturating_add(self.nr_subs as u64)
            .saturating_mul(self.sub_size as u64)
    }
}
