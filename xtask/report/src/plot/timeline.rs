//! Who had the CPU around an activation: a lane for the interrupts and one for each thread.

use anyhow::Result;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use super::{Axis, Role, draw, frame, mesh, text, ticks};
use takt_results::analysis::window::{Activation, Kind, State};

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
///
/// # Errors
///
/// What plotters says.
pub fn picture(title: &str, it: &Activation) -> Result<String> {
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
    draw(size, title, |area| {
        let x = Axis::new(low..high, ticks(low, high, 10));
        let centres = (0..nr).map(|at| at as f64 + 0.5).collect();
        let y = Axis::new(nr as f64..-0.9, centres);
        let mut chart = frame(area, 24)
            .y_label_area_size(120)
            .build_cartesian_2d(x, y)?;
        mesh(&mut chart)
            .disable_y_mesh()
            .x_label_formatter(&|ns| format!("{ns:.0}"))
            .y_label_formatter(&|at| lanes.get(*at as usize).map(&name).unwrap_or_default())
            .x_desc("ns after the deadline")
            .draw()?;
        for slice in &slices {
            let (from, to) = (slice.from as f64, slice.to as f64);
            let row = lanes
                .iter()
                .position(|lane| *lane == slice.lane)
                .unwrap_or(0) as f64;
            let role = match slice.lane {
                Lane::Irq => Role::Irq,
                Lane::Thread(tid) if tid == it.sample.tid => Role::Thread,
                Lane::Thread(_) => Role::Quiet,
            };
            chart.draw_series([Rectangle::new(
                [(from.max(low), row + 0.2), (to.min(high), row + 0.8)],
                role.color().filled(),
            )])?;
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
            let row = lanes.iter().position(|known| *known == lane).unwrap_or(0) as f64;
            chart.draw_series([PathElement::new(
                vec![(at, row + 0.08), (at, row + 0.92)],
                Role::Ink.color().stroke_width(1),
            )])?;
        }
        let latency = it.ns(it.sample.thread.into()) as f64;
        let mark = Role::Mark.color();
        for (at, label) in [(0.0, "deadline"), (latency, "the thread reads the clock")] {
            let line = vec![(at, -0.1), (at, nr as f64)];
            chart.draw_series([PathElement::new(line, mark.stroke_width(2))])?;
            let style = text(Role::Mark).pos(Pos::new(HPos::Right, VPos::Bottom));
            chart.draw_series([Text::new(label, (at, -0.15), style)])?;
        }
        Ok(())
    })
}
