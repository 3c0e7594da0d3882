//! Who had the CPU around an activation: a lane for the interrupts and one for each thread.

use super::{Anchor, Axis, Chart, Role, Room, ticks};
use crate::analysis::window::{Activation, Kind, State};

/// A lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lane {
    /// Interrupts.
    Irq,
    /// A thread.
    Thread(u8),
}

/// That somebody had the CPU, in ns after the deadline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slice {
    /// Who.
    pub lane: Lane,
    /// From when …
    pub from: i64,
    /// … to when.
    pub to: i64,
}

/// The slices of an activation and of what is around it, from record to record.
#[must_use]
pub fn slices(it: &Activation) -> Vec<Slice> {
    let mut slices: Vec<Slice> = Vec::new();
    let mut state: State = it.at_first.clone();
    let mut last: Option<u64> = None;
    for event in it.events() {
        if let Some(last) = last {
            let (from, to) = (it.relative(last), it.relative(event.ts));
            let lane = match state.irqs.last() {
                Some(_) => Lane::Irq,
                None => Lane::Thread(state.tid),
            };
            match slices
                .last_mut()
                .filter(|slice| slice.lane == lane && slice.to == from)
            {
                Some(slice) => slice.to = to,
                None => slices.push(Slice { lane, from, to }),
            }
        }
        state.see(event);
        last = Some(event.ts);
    }
    slices
}

/// The lanes, in the order of the picture: interrupts, the measured thread, the others.
#[must_use]
pub fn lanes(it: &Activation, slices: &[Slice]) -> Vec<Lane> {
    let mut lanes = vec![Lane::Irq, Lane::Thread(it.sample.tid)];
    for slice in slices {
        if !lanes.contains(&slice.lane) {
            lanes.push(slice.lane);
        }
    }
    lanes
}

/// What is shown: no more than a latency's length before the deadline.
fn span(it: &Activation, slices: &[Slice]) -> (f64, f64) {
    let latency = it.ns(it.sample.thread.into()).max(1) as f64;
    let first = slices.first().map_or(0.0, |slice| slice.from as f64);
    let last = slices.last().map_or(latency, |slice| slice.to as f64);
    (
        first.max(-0.5 * latency).min(-0.05 * latency),
        last.min(1.7 * latency).max(1.1 * latency),
    )
}

/// Draws the activation.
pub fn picture(title: &str, it: &Activation) -> String {
    let mut slices = slices(it);
    let (low, high) = span(it, &slices);
    slices.retain(|slice| slice.to as f64 > low && (slice.from as f64) < high);
    let lanes = lanes(it, &slices);
    let nr = lanes.len();
    let size = (860, 116 + 40 * nr as u32);
    let name = |lane: &Lane| match lane {
        Lane::Irq => "interrupts".into(),
        Lane::Thread(tid) => it.comm(*tid),
    };
    let x = Axis::new(low..high, ticks(low, high, 10))
        .labels(|ns| format!("{ns:.0}"))
        .title("ns after the deadline");
    let centres = (0..nr).map(|at| at as f64 + 0.5).collect();
    let y = Axis::new(nr as f64..-0.9, centres).plain();
    let y = y.labels(|at| lanes.get(at as usize).map(&name).unwrap_or_default());
    let room = Room {
        left: 128.0,
        ..Room::right(24.0)
    };
    let mut chart = Chart::new(size, title, room, x, y);
    let row = |lane| lanes.iter().position(|known| *known == lane).unwrap_or(0) as f64;
    for slice in &slices {
        let (from, to) = (slice.from as f64, slice.to as f64);
        let row = row(slice.lane);
        let role = match slice.lane {
            Lane::Irq => Role::Irq,
            Lane::Thread(tid) if tid == it.sample.tid => Role::Thread,
            Lane::Thread(_) => Role::Quiet,
        };
        chart.bar(role, (from.max(low), row + 0.2), (to.min(high), row + 0.8));
    }
    // Each record is a tick in its lane.
    let mut state = it.at_first.clone();
    for event in it.events() {
        let at = it.relative(event.ts) as f64;
        let lane = match (event.kind, state.irqs.is_empty()) {
            (Kind::IrqEntry { .. }, _) | (_, false) => Lane::Irq,
            (_, true) => Lane::Thread(event.tid),
        };
        state.see(event);
        if at < low || at > high {
            continue;
        }
        let row = row(lane);
        chart.line(Role::Ink, &[(at, row + 0.08), (at, row + 0.92)], 1.0);
    }
    let latency = it.ns(it.sample.thread.into()) as f64;
    for (at, label) in [(0.0, "deadline"), (latency, "the thread reads the clock")] {
        chart.line(Role::Mark, &[(at, -0.1), (at, nr as f64)], 2.0);
        chart.text(Role::Mark, (at, -0.15), Anchor::End, label);
    }
    chart.finish()
}
