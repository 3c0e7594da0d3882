//! How many events a task emits in a time: so many that others' have room in the ring.

use crate::clock::{Instant, Nanos};

/// How many events a task's thread may emit, before it is looked whether [`PERIOD`] is over since it was given as many the last
/// time; what is above is dropped, and counted.
const MAX_EVENTS: u32 = 10_000;
const PERIOD: Nanos = Nanos::from_millis(100);
/// So many bytes of words, or of a dynamic field, count as a further event: as many as one takes in the ring.
const BYTES: usize = 16;

/// What is kept of that.
pub(super) struct Rate {
    left: u32,
    dropped: u32,
    /// When it is given more.
    end: Instant,
}

impl Rate {
    pub(super) const fn new() -> Self {
        Self {
            left: 0,
            dropped: 0,
            end: Instant::ZERO,
        }
    }

    /// Counts an event of so many extra words, and says whether it may be emitted.
    #[inline(always)]
    pub(super) fn may_emit(&mut self, task: &str, words: usize) -> bool {
        let cost = 1 + (words * size_of::<u32>() / BYTES) as u32;
        match self.left.checked_sub(cost) {
            Some(left) => {
                self.left = left;
                true
            }
            None => self.may_have_more(task, cost),
        }
    }

    /// Counts the bytes of the dynamic field of one that is emitted.
    #[inline(always)]
    pub(super) fn count_bytes(&mut self, len: usize) {
        self.left = self.left.saturating_sub((len / BYTES) as u32);
    }

    #[cold]
    #[inline(never)]
    fn may_have_more(&mut self, task: &str, cost: u32) -> bool {
        let now = Instant::now();
        if now < self.end {
            self.dropped = self.dropped.saturating_add(1);
            return false;
        }
        self.left = MAX_EVENTS - cost;
        self.end = now + PERIOD.to_cycles();
        let dropped = core::mem::take(&mut self.dropped);
        if dropped != 0 {
            defmt::warn!("{=str}: {=u32} events were dropped", task, dropped);
        }
        true
    }
}
