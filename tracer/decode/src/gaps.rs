//! How many events were in the sub-buffers that a file does not have.
//!
//! A slot's commit counter counts the events of all sub-buffers that the slot ever had, and a header says what it was when
//! the sub-buffer was opened (`base`). What it is more than at the end of the last one that is there, was in those between.
//! So what a gap has lost is known once the ring has gone round behind it.

use std::collections::BTreeMap;

use takt_tracer::wire::{COMMIT_BYTES, COMMIT_RECORD, SubHeader};

/// Sub-buffers that are missing in one place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Gap {
    /// The first that is missing.
    first: u64,
    /// The first that is there again.
    end: u64,
    /// How many of them had an unknown number of events.
    pub(super) unknown: u64,
    /// Events of the others.
    pub(super) events: u64,
}

/// The ring of a CPU.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    /// Its sub-buffers, not 0.
    pub(super) nr_subs: u64,
    /// Bytes of each.
    pub(super) sub_size: u64,
}

/// The gaps of one CPU.
#[derive(Debug, Default)]
pub(super) struct Gaps {
    /// In ascending order.
    found: Vec<Gap>,
    /// The last sub-buffer of each slot, and its counter at the end.
    slots: BTreeMap<u64, (u64, u64)>,
    /// The sub-buffer that comes next.
    next: u64,
}

impl Gaps {
    /// Sees the next sub-buffer that is there. Without the ring's shape no number is known.
    pub(super) fn see(&mut self, header: &SubHeader, ring: Option<Shape>) {
        let seq = header.seq;
        if seq > self.next {
            self.found.push(Gap {
                first: self.next,
                end: seq,
                unknown: seq - self.next,
                events: 0,
            });
        }
        self.next = seq.saturating_add(1);
        let Some(Shape { nr_subs, sub_size }) = ring else {
            return;
        };
        let slot = seq % nr_subs;
        let before = self.slots.insert(slot, (seq, header.commit));
        let (had, counter) = before.map_or((0, 0), |(seq, counter)| (seq / nr_subs + 1, counter));
        let missing = seq / nr_subs - had;
        let more = header.base.wrapping_sub(counter);
        let Some(events) = events(more, missing, sub_size) else {
            return;
        };
        // How often a slot has had its turn before a sub-buffer.
        let turns = |before: u64| before.saturating_sub(slot).div_ceil(nr_subs);
        for gap in self.found.iter_mut().rev() {
            if turns(gap.end) <= had {
                return;
            }
            let here = turns(gap.end) - turns(gap.first);
            if here == 0 {
                continue;
            }
            gap.unknown -= here;
            gap.events = gap.events.saturating_add(events);
            // Of several places the last one tells them: what is lost in all is right, and nothing is told twice.
            if events != 0 {
                return;
            }
        }
    }

    /// What is missing right before a sub-buffer that is there.
    pub(super) fn before(&self, seq: u64) -> Option<&Gap> {
        let place = self.found.binary_search_by_key(&seq, |gap| gap.end);
        place.ok().map(|place| &self.found[place])
    }

    /// All of them.
    pub(super) fn all(&self) -> &[Gap] {
        &self.found
    }
}

/// The events for which a counter has gone up by `more` during so many sub-buffers; `None` if it cannot have. Each sub-buffer
/// adds its size in bytes, one that was passed over too.
fn events(more: u64, nr: u64, size: u64) -> Option<u64> {
    let rest = more.wrapping_sub(nr.wrapping_mul(size));
    (rest & COMMIT_BYTES == 0).then_some(rest / COMMIT_RECORD)
}
