//! What the arrivals of one stretch say: whether they met the path, which of its boundaries were met, how long was waited
//! and for which sections.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use takt_timerlat::stats::ExactHistogram;
use takt_timerlat::sweep::{Arrival, EARLY};

use super::path::Path;

/// A stretch during which an interrupt, or the woken thread, has to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Section {
    /// Why it has to wait.
    pub kind: Kind,
    /// Position of its first instruction.
    pub first: u32,
    /// Its instructions: the longest time that is waited.
    pub length: u32,
    /// The instruction before the section, which began it, if that lies on the path.
    pub begun_by: Option<u64>,
    /// The last instruction of the section, which ended it, if that is known.
    pub ended_by: Option<u64>,
}

/// Why an interrupt or a thread has to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Interrupts are off.
    IrqsOff,
    /// Another interrupt is handled.
    Interrupt,
    /// Preemption is off.
    PreemptOff,
}

impl Kind {
    /// As tables say it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::IrqsOff => "interrupts off",
            Self::Interrupt => "in an interrupt",
            Self::PreemptOff => "preemption off",
        }
    }
}

/// The least, the middle, and the largest of some latencies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spread {
    /// The smallest.
    pub min: u32,
    /// Half of them are not above it.
    pub p50: u32,
    /// 99 of 100 are not above it.
    pub p99: u32,
    /// The largest.
    pub max: u32,
}

impl Spread {
    fn of(values: impl Iterator<Item = u32>) -> Self {
        let mut all = ExactHistogram::new();
        values.for_each(|value| all.record(value.into()));
        // What went in as a u32 comes out as one.
        let figure = |value: Option<u64>| value.unwrap_or_default() as u32;
        Self {
            min: figure(all.min()),
            p50: figure(all.percentile(500)),
            p99: figure(all.percentile(990)),
            max: figure(all.max()),
        }
    }
}

/// What is found out about one stretch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Analysis {
    /// Instructions of the stretch.
    pub length: u32,
    /// How many instructions after its deadline the timer's hardware interrupts: the boundary that an arrival meets is that
    /// much behind its position.
    pub late: i32,
    /// How many of its boundaries an interrupt arrived at.
    pub hit: u32,
    /// The others, as ranges of positions (first, last).
    pub not_hit: Vec<(u32, u32)>,
    /// Arrivals that were not taken where the path says: position, and the instruction that it was taken before.
    pub astray: Vec<(u32, u64)>,
    /// Arrivals that were taken together with another interrupt.
    pub joined: u32,
    /// Arrivals that were taken a few instructions from where the path has them: the timer that is measured stands in the
    /// same queue as those of the stretch, so that arming them takes another way once it is due.
    pub shifted: u32,
    /// The interrupt's latency.
    pub irq: Spread,
    /// The thread's latency.
    pub thread: Spread,
    /// From the interrupt's entry to the thread.
    pub wake: Spread,
    /// All sections, in their order on the path.
    pub sections: Vec<Section>,
}

/// Analyses the arrivals at the first `swept` boundaries of a path, in any order. `is_entry` tells whether an instruction
/// is the first of an interrupt's entry.
#[must_use]
pub fn analyse(
    path: &Path,
    swept: u32,
    arrivals: &[Arrival],
    is_entry: impl Fn(u64) -> bool + Copy,
) -> Analysis {
    let base = usual(arrivals.iter().map(|arrival| arrival.irq)).unwrap_or_default();
    let late = lateness(path, arrivals, base);
    let mut at = vec![None; swept as usize];
    for arrival in arrivals {
        let position = arrival.position + late;
        let place = usize::try_from(position)
            .ok()
            .and_then(|position| at.get_mut(position));
        if let Some(place) = place {
            *place = Some(Arrival {
                position,
                ..*arrival
            });
        }
    }
    let met = || at.iter().flatten();
    let mut astray = Vec::new();
    let mut joined = 0;
    let mut shifted = 0;
    for arrival in met() {
        let taken = delivered(arrival, base);
        let Some(ip) = path.at(taken) else { continue };
        if arrival.irq < base || (is_entry(ip) && ip as u32 != arrival.ip) {
            joined += 1;
        } else if ip as u32 != arrival.ip {
            if shift(path, taken, arrival.ip, 0).is_some() {
                shifted += 1;
            } else {
                astray.push((arrival.position.cast_unsigned(), arrival.ip.into()));
            }
        }
    }
    let irqs_off = irqs_off(path, &at, base, is_entry);
    let preempt_off = preempt_off(path, &at, base);
    let mut sections: Vec<_> = irqs_off.into_iter().chain(preempt_off).collect();
    sections.sort_by_key(|section| section.first);
    Analysis {
        length: path.len(),
        late,
        hit: met().count() as u32,
        not_hit: gaps(&at),
        astray,
        joined,
        shifted,
        irq: Spread::of(met().map(|arrival| arrival.irq)),
        thread: Spread::of(met().map(|arrival| arrival.thread)),
        wake: Spread::of(met().map(|arrival| arrival.thread.saturating_sub(arrival.irq))),
        sections,
    }
}

/// The latency of an interrupt that nothing delays: the most frequent one, which is the entry's own.
fn usual(latencies: impl Iterator<Item = u32>) -> Option<u32> {
    let mut counts = BTreeMap::new();
    for latency in latencies {
        *counts.entry(latency).or_insert(0u32) += 1;
    }
    // The smaller one of two that are equally frequent.
    let most = counts
        .into_iter()
        .max_by_key(|(latency, count)| (*count, Reverse(*latency)));
    most.map(|(latency, _)| latency)
}

/// How many instructions after the deadline the hardware interrupts: as many as bring the most of the first arrivals onto
/// the path. Further on the path may have loops, in which all look alike.
fn lateness(path: &Path, arrivals: &[Arrival], base: u32) -> i32 {
    let early = EARLY.cast_signed();
    let near = NEAR.cast_signed();
    let arrivals = || arrivals.iter().filter(|arrival| arrival.position < near);
    let on_path = |late: i32| {
        let is_on = |arrival: &&Arrival| {
            let ip = u32::try_from(arrival.position + late)
                .ok()
                .and_then(|at| path.at(at));
            arrival.irq == base && ip.is_some_and(|ip| ip as u32 == arrival.ip)
        };
        arrivals().filter(is_on).count()
    };
    // The smallest of those that are as good.
    (0..=early)
        .rev()
        .max_by_key(|late| on_path(*late))
        .unwrap_or(0)
}

/// Instructions of an interrupt's entry up to its time stamp, and some more.
const ENTRY: u32 = 6;

/// How far another way through the timers' queue may lead from the path.
const NEAR: u32 = 64;

/// How far from a position the path has an instruction that is looked for: as far as `guess` says, or as little as may
/// be; `None` if it is not near.
fn shift(path: &Path, position: u32, ip: u32, guess: i32) -> Option<i32> {
    let is_there = |shift: &i32| {
        let at = position.checked_add_signed(*shift);
        at.and_then(|at| path.at(at))
            .is_some_and(|it| it as u32 == ip)
    };
    let near = NEAR.cast_signed();
    let mut tried = [guess, 0]
        .into_iter()
        .chain((1..=near).flat_map(|by| [by, -by]));
    tried.find(is_there)
}

/// Position of the instruction before which the interrupt was taken.
fn delivered(arrival: &Arrival, base: u32) -> u32 {
    arrival.position.cast_unsigned() + arrival.irq.saturating_sub(base)
}

fn gaps(at: &[Option<Arrival>]) -> Vec<(u32, u32)> {
    let mut gaps: Vec<(u32, u32)> = Vec::new();
    for (position, _) in (0u32..).zip(at).filter(|(_, arrival)| arrival.is_none()) {
        match gaps.last_mut() {
            Some((_, last)) if *last + 1 == position => *last = position,
            _ => gaps.push((position, position)),
        }
    }
    gaps
}

/// Arrivals that were taken at the same place had to wait for the same section, from the first of them on. Where the way
/// to them was longer or shorter than the path, the section is where the path has the instruction that ended it.
fn irqs_off(
    path: &Path,
    at: &[Option<Arrival>],
    base: u32,
    is_entry: impl Fn(u64) -> bool,
) -> Vec<Section> {
    let mut sections: Vec<Section> = Vec::new();
    let mut end = None;
    let mut by = 0;
    for arrival in at.iter().flatten() {
        let position = arrival.position.cast_unsigned();
        let taken = delivered(arrival, base);
        by = shift(path, taken, arrival.ip, by).unwrap_or(0);
        if taken == position || end == Some(taken) {
            continue;
        }
        end = Some(taken);
        let position = position.saturating_add_signed(by);
        let taken = taken.saturating_add_signed(by);
        // Those that arrive in the entry's first instructions are taken together with it.
        let is_interrupt = (position.saturating_sub(ENTRY)..=position)
            .any(|at| path.at(at).is_some_and(&is_entry));
        let kind = if is_interrupt {
            Kind::Interrupt
        } else {
            Kind::IrqsOff
        };
        sections.push(section(kind, path, position, taken));
    }
    sections
}

/// Neighbouring arrivals that found preemption disabled, wherever they were taken, met the same section.
fn preempt_off(path: &Path, at: &[Option<Arrival>], base: u32) -> Vec<Section> {
    let mut sections = Vec::new();
    let mut open: Option<(u32, u32)> = None;
    let mut by = 0;
    for arrival in at.iter().flatten() {
        let position = arrival.position.cast_unsigned();
        let taken = delivered(arrival, base);
        by = shift(path, taken, arrival.ip, by).unwrap_or(0);
        let position = position.saturating_add_signed(by);
        let taken = taken.saturating_add_signed(by);
        match (&mut open, arrival.preempt_depth) {
            (Some((_, end)), 1..) => *end = taken + 1,
            (None, 1..) => open = Some((position, taken + 1)),
            // Where interrupts are off too, it only shows where the interrupt is taken.
            (Some((first, end)), 0) if taken == position => {
                sections.push(section(Kind::PreemptOff, path, *first, *end));
                open = None;
            }
            _ => {}
        }
    }
    if let Some((first, end)) = open {
        sections.push(section(Kind::PreemptOff, path, first, end));
    }
    sections
}

fn section(kind: Kind, path: &Path, first: u32, end: u32) -> Section {
    Section {
        kind,
        first,
        length: end - first,
        begun_by: first.checked_sub(1).and_then(|before| path.at(before)),
        ended_by: path.at(end - 1),
    }
}

#[cfg(test)]
mod tests;
