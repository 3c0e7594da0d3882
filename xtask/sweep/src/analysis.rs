//! What the arrivals of one stretch say: whether they met the path, which of its boundaries were met, how long was waited
//! and for which sections.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use takt_guest::place::Kind;
use takt_timerlat::stats::ExactHistogram;
use takt_timerlat::sweep::Arrival;

use super::path::Path;
use super::ways::{By, Met, Ways};

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
#[derive(Clone, Debug)]
pub struct Analysis {
    /// Instructions of the stretch.
    pub length: u32,
    /// How many instructions after its deadline the timer's hardware interrupts: the boundary that an arrival meets is that
    /// much behind its position.
    pub late: i32,
    /// How many of its boundaries were to be met: up to its end on the last arrivals' way, or as many as were asked for.
    pub swept: u32,
    /// Whether the end was not reached.
    pub is_open: bool,
    /// How many of its boundaries an interrupt arrived at.
    pub hit: u32,
    /// The others, as ranges of positions (first, last).
    pub not_hit: Vec<(u32, u32)>,
    /// Arrivals that were not taken where any of the ways says.
    pub astray: Vec<Met>,
    /// Arrivals that were taken together with another interrupt.
    pub joined: u32,
    /// How many ways the arrivals were on: what it takes to arm a timer depends on when the measured one is due.
    pub ways: u32,
    /// The interrupt's latency.
    pub irq: Spread,
    /// The thread's latency.
    pub thread: Spread,
    /// From the interrupt's entry to the thread.
    pub wake: Spread,
    /// All sections, in their order on the path.
    pub sections: Vec<Section>,
    /// The arrivals, in the order of their positions.
    pub met: Vec<Met>,
}

/// Analyses the arrivals, in any order. `limit` is the number of boundaries that were asked for, if that is not all.
/// `is_entry` tells whether an instruction is the first of an interrupt's entry.
#[must_use]
pub fn analyse(
    ways: &Ways,
    limit: Option<u32>,
    arrivals: &[Arrival],
    is_entry: impl Fn(u64) -> bool + Copy,
) -> Analysis {
    let timing = ways.timing(arrivals);
    let mut met = ways.explain(arrivals, timing, is_entry);
    let is_open = limit.is_none() && met.last().is_none_or(|last| !last.is_behind());
    // One behind the end tells how long its way was.
    let nr_within = met
        .iter()
        .rposition(|met| !met.is_behind())
        .map_or(0, |last| last + 1);
    let swept = match (met.get(nr_within), nr_within.checked_sub(1)) {
        (Some(behind), Some(last)) => behind.arrival.took.max(met[last].position + 1),
        (Some(behind), None) => behind.arrival.took,
        (None, Some(last)) => met[last].position + 1,
        (None, None) => 0,
    };
    let swept = limit.map_or(swept, |limit| limit.min(swept));
    met.retain(|met| met.position < swept);
    let (hit, not_hit) = (met.len() as u32, gaps(&met, limit.unwrap_or(swept)));
    met.retain(|met| !met.is_behind());
    let count = |by: fn(&Met) -> bool| met.iter().filter(|met| by(met)).count() as u32;
    let astray = met.iter().filter(|met| met.by == By::Nothing);
    let mut sections = irqs_off(ways, &met, is_entry);
    sections.extend(preempt_off(ways, &met));
    sections.sort_by_key(|section| section.first);
    Analysis {
        length: ways.undisturbed().len(),
        late: timing.late,
        swept,
        is_open,
        hit,
        not_hit,
        astray: astray.copied().collect(),
        joined: count(|met| met.by == By::Joined),
        ways: nr_ways(&met),
        irq: Spread::of(met.iter().map(|met| met.arrival.irq)),
        thread: Spread::of(met.iter().map(|met| met.arrival.thread)),
        wake: Spread::of(
            met.iter()
                .map(|met| met.arrival.thread.saturating_sub(met.arrival.irq)),
        ),
        sections,
        met,
    }
}

/// How many ways the arrivals were on.
fn nr_ways(met: &[Met]) -> u32 {
    let numbers: BTreeSet<_> = met
        .iter()
        .filter_map(|met| match met.by {
            By::Way(number) => Some(number),
            By::Joined | By::Nothing => None,
        })
        .collect();
    numbers.len() as u32
}

/// Instructions of an interrupt's entry up to its time stamp, and some more.
const ENTRY: u32 = 6;

/// The boundaries that no interrupt arrived at.
fn gaps(met: &[Met], swept: u32) -> Vec<(u32, u32)> {
    let mut gaps = Vec::new();
    let mut next = 0;
    for position in met.iter().map(|met| met.position).chain([swept]) {
        if position > next {
            gaps.push((next, position - 1));
        }
        next = next.max(position + 1);
    }
    gaps
}

/// Arrivals that were taken at the same place had to wait for the same section, from the first of them on.
fn irqs_off(ways: &Ways, met: &[Met], is_entry: impl Fn(u64) -> bool) -> Vec<Section> {
    let mut sections: Vec<Section> = Vec::new();
    let mut before: Option<&Met> = None;
    for met in met {
        // On another way the same section may end at another position, but with the same instruction.
        let is_same = before.is_some_and(|before| {
            before.taken > before.position
                && (before.taken == met.taken
                    || before.by != met.by && before.arrival.ip == met.arrival.ip)
        });
        before = Some(met);
        if met.taken == met.position || is_same {
            continue;
        }
        let path = ways.of(met);
        // Those that arrive in the entry's first instructions are taken together with it.
        let is_interrupt = (met.position.saturating_sub(ENTRY)..=met.position)
            .any(|at| path.at(at).is_some_and(&is_entry));
        let kind = if is_interrupt {
            Kind::Interrupt
        } else {
            Kind::IrqsOff
        };
        sections.push(section(kind, path, met.position, met.taken));
    }
    sections
}

/// Neighbouring arrivals that found preemption disabled, wherever they were taken, met the same section.
fn preempt_off(ways: &Ways, met: &[Met]) -> Vec<Section> {
    let mut sections = Vec::new();
    // The first of them, and the section's end. (On another way the end is elsewhere by a few instructions.)
    let mut open: Option<(&Met, u32)> = None;
    for met in met {
        let is_off = met.arrival.preempt_depth > 0;
        match &mut open {
            Some((_, end)) if is_off => *end = met.taken + 1,
            // Where interrupts are off too, it only shows where the interrupt is taken.
            Some(_) if !is_off && met.taken > met.position => {}
            _ => {
                let over = open.take();
                sections.extend(over.map(|(first, end)| preempt_section(ways, first, end)));
                open = is_off.then_some((met, met.taken + 1));
            }
        }
    }
    sections.extend(open.map(|(first, end)| preempt_section(ways, first, end)));
    sections
}

fn preempt_section(ways: &Ways, first: &Met, end: u32) -> Section {
    section(Kind::PreemptOff, ways.of(first), first.position, end)
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
