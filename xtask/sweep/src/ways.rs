//! The ways through a stretch, and which of them each arrival was on.
//!
//! The timer that is measured stands in one queue with those of the stretch. What it takes to arm one of these depends on
//! which of the two is earlier, so a stretch that arms timers has several ways: one for arrivals between the same two
//! deadlines. The way of an arrival is read off like the undisturbed path, from a run in which it comes, and holds for
//! those before it down to the first one that was taken elsewhere. So each arrival is shown to have been taken where one
//! of the ways has it.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use takt_timerlat::sweep::{Arrival, EARLY};

use super::path::Path;

/// How many ways a stretch may have: what is not explained by so many is astray.
const MOST: usize = 256;
/// How many ways in a row may turn out to be none before the stretch is given up.
const MOST_IN_VAIN: usize = 3;

/// How many arrivals tell how late the hardware is.
const NR_FIRST: usize = 64;

/// A way that was read off with an arrival.
#[derive(Clone, Debug)]
struct Way {
    /// Position of the arrival, as the guest says it.
    position: i32,
    /// Up to the instruction that it was taken before.
    path: Path,
    /// Whether the interrupt was taken there in that run, too.
    is_taken: bool,
}

/// All ways of a stretch that are known.
#[derive(Clone, Debug, Default)]
pub struct Ways {
    undisturbed: Path,
    others: Vec<Way>,
}

/// How many instructions the timer takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Timing {
    /// The latency of an interrupt that nothing delays: its entry's own.
    pub(super) base: u32,
    /// From the deadline to the interrupt.
    pub(super) late: i32,
}

/// An arrival, placed on its way.
#[derive(Clone, Copy, Debug)]
pub struct Met {
    /// As it was measured.
    pub arrival: Arrival,
    /// The boundary that it met: instructions from the beginning.
    pub position: u32,
    /// The one at which it was taken.
    pub taken: u32,
    /// How it came there.
    pub by: By,
}

/// What explains where an arrival was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// The way of this number has that instruction there.
    Way(usize),
    /// Another interrupt was about to begin.
    Joined,
    /// Nothing.
    Nothing,
}

impl Met {
    /// Whether it came behind the end of the stretch.
    #[must_use]
    pub fn is_behind(&self) -> bool {
        self.position >= self.arrival.took
    }
}

impl Ways {
    /// Those of a stretch of which only the undisturbed one is known.
    #[must_use]
    pub fn new(undisturbed: Path) -> Self {
        Self {
            undisturbed,
            others: Vec::new(),
        }
    }

    /// The path of the stretch where no interrupt comes.
    #[must_use]
    pub fn undisturbed(&self) -> &Path {
        &self.undisturbed
    }

    /// The way of this number.
    #[must_use]
    pub fn way(&self, number: usize) -> &Path {
        match number
            .checked_sub(1)
            .and_then(|other| self.others.get(other))
        {
            Some(way) => &way.path,
            None => &self.undisturbed,
        }
    }

    /// The way of an arrival; the undisturbed one if there is no better.
    #[must_use]
    pub fn of(&self, met: &Met) -> &Path {
        match met.by {
            By::Way(number) => self.way(number),
            By::Joined | By::Nothing => &self.undisturbed,
        }
    }

    pub(super) fn timing(&self, arrivals: &[Arrival]) -> Timing {
        let base = usual(arrivals.iter().map(|arrival| arrival.irq)).unwrap_or_default();
        let late = lateness(&self.undisturbed, arrivals, base);
        Timing { base, late }
    }

    /// The arrivals in the order of their positions, each with what explains it; nothing has to explain those behind the end. `is_entry` tells whether an instruction is
    /// the first of an interrupt's entry.
    pub(super) fn explain(
        &self,
        arrivals: &[Arrival],
        timing: Timing,
        is_entry: impl Fn(u64) -> bool,
    ) -> Vec<Met> {
        let placed = arrivals.iter().filter_map(|arrival| {
            let position = u32::try_from(arrival.position + timing.late).ok()?;
            Some(Met {
                arrival: *arrival,
                position,
                taken: position + arrival.irq.saturating_sub(timing.base),
                by: By::Nothing,
            })
        });
        let mut all: Vec<Met> = placed.collect();
        all.sort_by_key(|met| met.position);
        // A way holds for those before the arrival that it was read off with: the last ones first, and the same way for
        // as long as it explains them.
        let mut current = 0;
        for met in all.iter_mut().rev().filter(|met| !met.is_behind()) {
            let fits = |number: &usize| {
                self.way(*number)
                    .at(met.taken)
                    .is_some_and(|ip| ip as u32 == met.arrival.ip)
            };
            met.by = if met.arrival.irq < timing.base {
                By::Joined
            } else if let Some(way) = [current]
                .into_iter()
                .chain(0..=self.others.len())
                .find(fits)
            {
                current = way;
                By::Way(way)
            } else if self.undisturbed.at(met.taken).is_some_and(&is_entry) {
                By::Joined
            } else {
                By::Nothing
            };
        }
        all
    }

    /// The arrival whose way is to be read off next, if there is one.
    pub(super) fn unexplained(
        &self,
        arrivals: &[Arrival],
        is_entry: impl Fn(u64) -> bool,
    ) -> Option<Met> {
        let in_vain = self.others.iter().rev().take_while(|way| !way.is_taken);
        if self.others.len() == MOST || in_vain.count() == MOST_IN_VAIN {
            return None;
        }
        let is_new = |met: &&Met| {
            let is_known = |way: &Way| way.position == met.arrival.position;
            met.by == By::Nothing && !met.is_behind() && !self.others.iter().any(is_known)
        };
        let all = self.explain(arrivals, self.timing(arrivals), is_entry);
        all.iter().rev().find(is_new).copied()
    }

    /// Adds the way of an arrival: what was executed in a run in which it came.
    pub(super) fn add(&mut self, met: &Met, executed: Path, is_entry: impl Fn(u64) -> bool) {
        let begins = |at: u32| executed.at(at).is_some_and(&is_entry);
        let ip = u64::from(met.arrival.ip);
        // An instruction that the interrupt comes before may have been begun.
        let is_begun = || executed.at(met.taken) == Some(ip) && begins(met.taken + 1);
        let is_taken = begins(met.taken) || is_begun();
        let path = executed.up_to(met.taken, is_taken.then_some(ip));
        self.others.push(Way {
            position: met.arrival.position,
            path,
            is_taken,
        });
    }
}

/// The most frequent latency, the smallest of those that are equally frequent.
fn usual(latencies: impl Iterator<Item = u32>) -> Option<u32> {
    let mut counts = BTreeMap::new();
    for latency in latencies {
        *counts.entry(latency).or_insert(0u32) += 1;
    }
    let most = counts
        .into_iter()
        .max_by_key(|(latency, count)| (*count, Reverse(*latency)));
    most.map(|(latency, _)| latency)
}

/// How many instructions after the deadline the hardware interrupts: as many as bring the most of the first arrivals onto
/// the path. Further on the path may have loops, in which all look alike.
fn lateness(path: &Path, arrivals: &[Arrival], base: u32) -> i32 {
    let early = EARLY.cast_signed();
    let is_meant = |it: &&Arrival| it.position >= 0 && it.irq == base;
    let mut first: Vec<_> = arrivals.iter().filter(is_meant).collect();
    first.sort_by_key(|arrival| arrival.position);
    first.truncate(NR_FIRST);
    let on_path = |late: i32| {
        let is_on = |arrival: &&&Arrival| {
            let ip = u32::try_from(arrival.position + late)
                .ok()
                .and_then(|at| path.at(at));
            ip.is_some_and(|ip| ip as u32 == arrival.ip)
        };
        first.iter().filter(is_on).count()
    };
    // The smallest of those that are as good.
    (0..=early)
        .rev()
        .max_by_key(|late| on_path(*late))
        .unwrap_or(0)
}
