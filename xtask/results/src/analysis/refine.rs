//! Cuts an activation anew where the executed instructions say more than its records do: sections, the beginnings and ends
//! of interrupts, other CPUs' turns.

use std::fmt;
use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::causes::{Cause, Piece};
use super::executed::{Executed, LockWait, Span};
use super::rows::{Breakdown, Group, Part, rows};
use super::window::{Activation, Kind as Event};
use takt_guest::place::Kind;
use takt_guest::place::{CodePlace, Names};
use takt_guest::stacks::Stack;

/// A stretch with interrupts or preemption off.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Section {
    /// What was off.
    pub kind: Kind,
    /// Its instructions, those of interrupts that came in between not counted.
    pub length: u64,
    /// The instruction that began it.
    pub begun_by: CodePlace,
    /// The one that ended it.
    pub ended_by: CodePlace,
}

impl fmt::Display for Section {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kind, length) = (self.kind.name(), self.length);
        let (begin, end) = (&self.begun_by.line, &self.ended_by.line);
        write!(f, "{kind} for {length} ns: {begin}")?;
        // In the same file the line is enough.
        let file = |place: &str| Some(place.strip_suffix(')')?.rsplit_once(':')?.0.to_owned());
        match (file(begin), file(end)) {
            _ if begin == end => Ok(()),
            (Some(same), Some(file)) if same == file => {
                write!(f, " to {}", end[file.len() + 1..].trim_end_matches(')'))
            }
            _ => write!(f, " to {end}"),
        }
    }
}

impl Section {
    fn new(span: &Span, names: &Names<'_>) -> Self {
        Self {
            kind: span.kind,
            length: span.length,
            begun_by: names.place(span.begun_by),
            ended_by: names.place(span.ended_by),
        }
    }
}

/// Takes an activation apart by what was executed; `skipped` is the guest's time less the count, `stack` the interrupted
/// thread's when the latency was known. `None` if the two do not belong together.
#[must_use]
pub fn refine(
    it: &Activation,
    skipped: u64,
    executed: &Executed,
    stack: Option<&Stack>,
    names: &Names<'_>,
) -> Option<Breakdown> {
    let cpu = it.sample.cpu;
    let due = it.sample.due().checked_sub(skipped)?;
    let mut cut = Cut {
        pieces: it.pieces.clone(),
        due,
    };
    let entered = it
        .sample
        .irq
        .and_then(|irq| executed.entered(cpu, due + u64::from(irq)));
    let spans = executed.irqs_off(cpu);
    let others = spans
        .iter()
        .filter(|span| span.kind == Kind::Interrupt && Some(span.after + 1) != entered);
    for span in others {
        let who = it.irq(span.vector.unwrap_or_default());
        cut.anew(span.after, span.to, |piece| {
            let is_outside = matches!(
                Group::of(piece.cause),
                Group::IrqHandlerDelay
                    | Group::BlockingThread
                    | Group::Switch
                    | Group::ThreadInterference
                    | Group::IrqInterference
            );
            is_outside.then(|| (Cause::IrqInterference, who.clone()))
        });
    }
    let (mut delays, mut blocks, mut calls) = (Vec::new(), Vec::new(), Vec::new());
    if let Some(entered) = entered {
        cut.anew(entered - 1, u64::MAX, |piece| {
            let is_delay = Group::of(piece.cause) == Group::IrqHandlerDelay;
            is_delay.then(|| (Cause::InterruptEntry, String::new()))
        });
        // The hardware comes an instruction after its deadline in any case.
        let delaying = spans.iter().filter(|span| {
            span.kind == Kind::IrqsOff && span.after < entered && span.to > due + LATE
        });
        delays.extend(delaying.map(|span| Section::new(span, names)));
        if let Some(returned) = executed.returned(cpu, entered) {
            cut.anew(entered - 1, returned, |piece| {
                let is_behind = matches!(
                    piece.cause,
                    Cause::BlockingThread | Cause::Reschedule | Cause::ThreadInterference
                );
                is_behind.then(|| (Cause::TimerInterrupt, String::new()))
            });
        }
        let is_blocked = cut
            .pieces
            .iter()
            .any(|it| it.cause == Cause::BlockingThread);
        if is_blocked
            && let Some(depth) = depth(it)
            && let Some(span) = executed.preempt_off(cpu, entered, depth)
        {
            cut.anew(span.to, u64::MAX, |piece| {
                let is_block = piece.cause == Cause::BlockingThread;
                is_block.then(|| (Cause::Reschedule, String::new()))
            });
            blocks.push(Section::new(&span, names));
        }
        if is_blocked || !delays.is_empty() {
            let end = it.sample.recorded.saturating_sub(skipped);
            calls = whole_stack(executed, cpu, entered..end, stack, names);
        }
    }
    let waits = executed.lock_waits(cpu);
    let mut locks = Vec::new();
    for wait in &waits {
        let section = Section::new(&wait.hold, names);
        let who = format!("CPU {}, {}", wait.holder, section.begun_by.line);
        if cut.covers(wait.after, wait.to) {
            cut.anew(wait.after, wait.to, |_| {
                Some((Cause::KernelLock, who.clone()))
            });
            locks.push(section);
        }
    }
    let mut whole = Breakdown::new(it);
    whole.rows = rows(&cut.parts(executed, cpu, &waits, names), whole.latency_ns);
    whole.stack = calls.iter().flat_map(|ip| names.frames(*ip)).collect();
    for row in &mut whole.rows {
        match row.group {
            Group::IrqHandlerDelay => row.sections = std::mem::take(&mut delays),
            Group::BlockingThread => row.sections = std::mem::take(&mut blocks),
            Group::KernelLock => row.sections = std::mem::take(&mut locks),
            _ => {}
        }
    }
    Some(whole)
}

/// The calls that led to where an interrupt came, which was entered with the first of these counts; with the other one the
/// latency was known. What was executed tells them back to the thread's last switch; those before
/// are still under way, so the thread's stack has them.
fn whole_stack(
    executed: &Executed,
    cpu: u8,
    counts: Range<u64>,
    stack: Option<&Stack>,
    names: &Names<'_>,
) -> Vec<u64> {
    let mut calls = executed.calls(cpu, counts.start);
    let Some(stack) = stack else {
        return calls;
    };
    let is_same = |a: u64, b: u64| names.symbol(a) == names.symbol(b);
    // The instruction itself, if no other interrupt has come since.
    if executed.is_last_interrupt(cpu, counts.start, counts.end) {
        match calls.first_mut() {
            Some(first) if is_same(*first, stack.interrupted) => *first = stack.interrupted,
            _ => calls.insert(0, stack.interrupted),
        }
    }
    let Some(outermost) = calls.last().copied() else {
        return calls;
    };
    // In a function that was called more than once it is this call; where it has gone on since, it is the function.
    let here = |it: &u64| (outermost..outermost + MAX_CALL).contains(it);
    let found = (stack.calls.iter().position(here))
        .or_else(|| stack.calls.iter().position(|it| is_same(*it, outermost)));
    if let Some(found) = found {
        calls.extend(&stack.calls[found + 1..]);
    }
    calls
}

/// Bytes of the longest instruction (Intel SDM vol. 2, 2.3.11).
const MAX_CALL: u64 = 15;

/// How often preemption was disabled when the timer's interrupt came.
fn depth(it: &Activation) -> Option<u8> {
    let timer = it.sample.timer?;
    let ours = |event: &super::window::Event| event.kind == Event::Expire { timer };
    let expired = it.during.iter().position(ours)?;
    let is_entry = |event: &&super::window::Event| matches!(event.kind, Event::IrqEntry { .. });
    let entry = it.during[..expired].iter().rfind(is_entry)?;
    Some(entry.preempt_depth)
}

/// Instructions that QEMU's timer is late.
const LATE: u64 = 1;

/// A CPU, with the function that it was in at a count, or at the end of its last turn before.
fn place_of(executed: &Executed, cpu: u8, at: u64, names: &Names<'_>) -> String {
    let calls = executed.calls(cpu, at);
    let frame = calls.first().and_then(|ip| names.frames(*ip).pop());
    match frame {
        Some(frame) => format!("CPU {cpu}, {frame}"),
        None => format!("CPU {cpu}"),
    }
}

/// An activation's pieces, with the count of its deadline.
struct Cut {
    pieces: Vec<Piece>,
    due: u64,
}

impl Cut {
    /// Whether anything of it lies between two counts.
    fn covers(&self, after: u64, to: u64) -> bool {
        let end = self.due + self.pieces.last().map_or(0, |last| last.to);
        after < end && to > self.due
    }

    /// Cuts at two counts, and gives those pieces in between another cause that `cause` gives one.
    fn anew(&mut self, after: u64, to: u64, cause: impl Fn(&Piece) -> Option<(Cause, String)>) {
        let (from, to) = (after.saturating_sub(self.due), to.saturating_sub(self.due));
        let mut pieces = Vec::new();
        for piece in &self.pieces {
            let (first, last) = (
                from.clamp(piece.from, piece.to),
                to.clamp(piece.from, piece.to),
            );
            let part = |from: u64, to: u64| Piece {
                from,
                to,
                ..piece.clone()
            };
            let mut middle = part(first, last.max(first));
            if let Some((cause, who)) = cause(piece) {
                middle.cause = cause;
                middle.who = who;
            }
            let all = [
                part(piece.from, first),
                middle,
                part(last.max(first), piece.to),
            ];
            pieces.extend(all.into_iter().filter(|it| it.from < it.to));
        }
        self.pieces = pieces;
    }

    /// The pieces without the instructions of other CPUs, and those.
    /// What the holder of a lock of the kernel's executes with it while it is waited for is no turn of another CPU's: on a machine on
    /// which CPUs run at once, that is waited for as well.
    fn parts(
        &self,
        executed: &Executed,
        cpu: u8,
        waits: &[LockWait],
        names: &Names<'_>,
    ) -> Vec<Part> {
        let middle = self.due + self.pieces.last().map_or(0, |last| last.to / 2);
        let mut cpus = executed.cpus();
        cpus.remove(&cpu);
        let other = |other| (other, place_of(executed, other, middle, names));
        let cpus: Vec<_> = cpus.into_iter().map(other).collect();
        let mut parts = Vec::new();
        for piece in &self.pieces {
            let counts = self.due + piece.from..self.due + piece.to;
            let others = executed.others(cpu, counts.clone());
            let is_inside = |wait: &&LockWait| wait.after <= counts.start && counts.end <= wait.to;
            let wait = waits.iter().find(is_inside);
            let held = wait.map_or(0, |wait| {
                let end = wait.hold.to.clamp(counts.start, counts.end);
                executed.own(wait.holder, counts.start..end)
            });
            let part = |cause, who: &str, ns| Part {
                cause,
                who: who.into(),
                ns,
            };
            parts.push(part(
                piece.cause,
                &piece.who,
                piece.to - piece.from - others + held,
            ));
            for (other, place) in &cpus {
                let is_holder = wait.is_some_and(|wait| wait.holder == *other);
                let waited_for = if is_holder { held } else { 0 };
                let ns = executed.own(*other, counts.clone()) - waited_for;
                parts.push(part(Cause::OtherCpus, place, ns));
            }
        }
        parts.retain(|part| part.ns > 0);
        parts
    }
}
