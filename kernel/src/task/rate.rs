//! How many events a task emits in a time: so many that others' have room in the ring.

use crate::clock::{Instant, Nanos};

/// How many events a task's thread may emit, before it is looked whether [`PERIOD`] is over since it was given as many the last
/// time; what is above is dropped, and counted.
const MAX_EVENTS: u32 = 10_000;
const PERIOD: Nanos = Nanos::from_millis(100);
/// So many bytes beyond those of an event with two words count as a further one: as many as that takes in the ring.
const BYTES: usize = 16;

/// What is kept of that.
pub(super) struct Rate {
    left: u32,
    dropped: u32,
    /// When it is given more, in cycles.
    end: u64,
}

impl Rate {
    pub(super) const fn new() -> Self {
        Self {
            left: 0,
            dropped: 0,
            end: 0,
        }
    }

    /// Counts an event, and says whether it may be emitted.
    #[inline(always)]
    pub(super) fn may_emit(&mut self, task: &str) -> bool {
        match self.left.checked_sub(1) {
            Some(left) => {
                self.left = left;
                true
            }
            None => self.may_have_more(task),
        }
    }

    /// Counts what one that is emitted has beyond two words.
    #[inline(always)]
    pub(super) fn count_bytes(&mut self, len: usize) {
        self.left = self.left.saturating_sub((len / BYTES) as u32);
    }

    #[cold]
    #[inline(never)]
    fn may_have_more(&mut self, task: &str) -> bool {
        let now = Instant::now().cycles();
        if now < self.end {
            self.dropped = self.dropped.saturating_add(1);
            return false;
        }
        self.left = MAX_EVENTS - 1;
        self.end = now + PERIOD.to_cycles().get();
        let dropped = core::mem::take(&mut self.dropped);
        if dropped != 0 {
            defmt::warn!("{=str}: {=u32} events were dropped", task, dropped);
        }
        true
    }
}
