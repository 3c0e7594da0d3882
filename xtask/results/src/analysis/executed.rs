//! [`Executed`]: what the CPUs executed around an activation, as the plugin of QEMU counts it.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::ops::Range;
use std::rc::Rc;

use super::marks::{Mark, Marks};
use super::window::Activation;
use takt_guest::place::Kind;
use takt_machine::counted::log::Event;
use takt_machine::counted::turns::Turns;

/// A stretch of a CPU's instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) kind: Kind,
    /// The counts behind which it begins and with which it ends.
    pub(super) after: u64,
    pub(super) to: u64,
    /// Its instructions: neither those of other CPUs nor those of interrupts.
    pub(super) length: u64,
    /// The instruction that began it, and the one that ended it.
    pub(super) begun_by: u64,
    pub(super) ended_by: u64,
    /// Of an interrupt.
    pub(super) vector: Option<u8>,
}

/// A stretch of a CPU's waiting for a lock of the kernel's: from the first round of it, or from where one that held it gave it up to
/// another, to where the next did or the CPU itself took it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LockWait {
    /// The counts behind which it begins and with which it ends.
    pub(super) after: u64,
    pub(super) to: u64,
    /// Who held it, and where it was taken and given up.
    pub(super) holder: u8,
    pub(super) hold: Span,
}

/// A stretch for which a CPU held a lock of the kernel's.
struct Hold {
    cpu: u8,
    span: Span,
    /// The CPU has waited for it.
    was_waited_for: bool,
}

/// The marks that were executed, and whose turns there were.
#[derive(Debug)]
pub struct Executed {
    marks: Rc<Marks>,
    events: Vec<Event>,
    turns: Turns,
}

/// A mark that a CPU has executed.
#[derive(Clone, Copy, Debug)]
struct Step {
    at: u64,
    ip: u64,
    mark: Mark,
}

impl Executed {
    /// From the plugin's log, or its last part.
    #[must_use]
    pub fn new(marks: Rc<Marks>, events: Vec<Event>) -> Self {
        let mut turns = Turns::default();
        // Who has the CPU at the first event is known from it.
        if let Some(first) = events.first() {
            turns.begin(first.at.saturating_sub(1), first.cpu);
        }
        for event in events.iter().filter(|event| event.mark.is_none()) {
            turns.begin(event.at, event.cpu);
        }
        Self {
            marks,
            events,
            turns,
        }
    }

    /// The part between two counts.
    #[must_use]
    pub fn part(&self, counts: Range<u64>) -> Self {
        let from = self.events.partition_point(|it| it.at < counts.start);
        let to = self.events.partition_point(|it| it.at < counts.end);
        let part = self.events.get(from..to).unwrap_or_default();
        Self::new(Rc::clone(&self.marks), part.to_vec())
    }

    /// The instructions of other CPUs among those behind one count and up to another; 0 where that is not known.
    #[must_use]
    pub fn others(&self, cpu: u8, counts: Range<u64>) -> u64 {
        self.turns.others(cpu.into(), counts).unwrap_or_default()
    }

    /// The CPUs that executed anything.
    pub(super) fn cpus(&self) -> BTreeSet<u8> {
        let cpus = self
            .events
            .iter()
            .filter_map(|it| u8::try_from(it.cpu).ok());
        cpus.collect()
    }

    /// A CPU's own instructions behind one count and up to another.
    pub(super) fn own(&self, cpu: u8, counts: Range<u64>) -> u64 {
        (counts.end - counts.start).saturating_sub(self.others(cpu, counts))
    }

    fn steps(&self, cpu: u8) -> impl DoubleEndedIterator<Item = Step> {
        let of_cpu = self
            .events
            .iter()
            .filter(move |it| it.cpu == u32::from(cpu));
        of_cpu.filter_map(|event| self.step(event))
    }

    fn step(&self, event: &Event) -> Option<Step> {
        let (ip, mark) = self.marks.get(event.mark?)?;
        let at = event.at;
        Some(Step { at, ip, mark })
    }

    /// The guest's time less the count, around this activation. The readings of the clock that its records are made of are
    /// looked for from the end on: the last place where each of them was executed when it says.
    #[must_use]
    pub fn skipped(&self, it: &Activation) -> Option<u64> {
        let cpu = it.sample.cpu;
        let readings = self.steps(cpu).filter(|step| step.mark == Mark::Clock);
        let readings: Vec<_> = readings.map(|step| step.at).collect();
        let known: HashSet<_> = readings.iter().copied().collect();
        let mut recorded: Vec<_> = it.during.iter().map(|event| event.ts).collect();
        recorded.push(it.sample.recorded);
        // Before the deadline the CPU may have been halted.
        recorded.retain(|ts| *ts > it.sample.due());
        let fits = |skipped: u64| {
            recorded.iter().all(|ts| {
                ts.checked_sub(skipped)
                    .is_some_and(|count| known.contains(&count))
            })
        };
        let candidates = readings.iter().rev();
        candidates
            .filter_map(|count| it.sample.recorded.checked_sub(*count))
            .find(|skipped| fits(*skipped))
    }

    /// The stretches of a CPU with interrupts off, in their order.
    pub(super) fn irqs_off(&self, cpu: u8) -> Vec<Span> {
        let mut spans: Vec<Span> = Vec::new();
        let mut open: Option<Span> = None;
        for step in self.steps(cpu) {
            let begun = |kind, after, vector| Span {
                kind,
                after,
                to: after,
                length: 0,
                begun_by: step.ip,
                ended_by: step.ip,
                vector,
            };
            match (step.mark, &mut open) {
                // In the shadow of the instruction that would enable them.
                (Mark::Cli, None) if spans.last().is_some_and(|last| last.to == step.at) => {
                    open = spans.pop();
                }
                (Mark::Cli, None) => open = Some(begun(Kind::IrqsOff, step.at, None)),
                (Mark::Entry(vector), None) => {
                    open = Some(begun(Kind::Interrupt, step.at - 1, Some(vector)));
                }
                (Mark::Sti | Mark::Iret, Some(span)) => {
                    let shadow = u64::from(step.mark == Mark::Sti);
                    span.to = step.at + shadow;
                    span.length = self.own(cpu, span.after..step.at) + shadow;
                    span.ended_by = step.ip;
                    spans.extend(open.take());
                }
                _ => {}
            }
        }
        spans
    }

    /// The stretch with preemption off that an interrupt, entered with this count, found at this depth.
    pub(super) fn preempt_off(&self, cpu: u8, entered: u64, depth: u8) -> Option<Span> {
        let interrupts = self.irqs_off(cpu);
        let before = self.steps(cpu).filter(|step| step.at < entered);
        let begin = self.level(before.rev(), depth, Mark::PreemptDec, Mark::Iret)?;
        let behind = self.steps(cpu).filter(|step| step.at >= entered);
        let end = self.level(behind, depth, Mark::PreemptInc, Mark::Entry(0))?;
        let inside = interrupts.iter().filter(|span| {
            span.kind == Kind::Interrupt && span.after >= begin.at && span.to <= end.at
        });
        let inside: u64 = inside.map(|span| span.length).sum();
        Some(Span {
            kind: Kind::PreemptOff,
            after: begin.at,
            to: end.at,
            length: self.own(cpu, begin.at..end.at) - inside,
            begun_by: begin.ip,
            ended_by: end.ip,
            vector: None,
        })
    }

    /// Goes along until the depth is 0. `deeper` raises it, its counterpart lowers it; what lies in interrupts, which begin
    /// (on this way) with `into`, does not count.
    fn level(
        &self,
        steps: impl Iterator<Item = Step>,
        depth: u8,
        deeper: Mark,
        into: Mark,
    ) -> Option<Step> {
        let (mut depth, mut nested) = (depth, 0u32);
        let enters = matches!(into, Mark::Entry(_));
        for step in steps {
            match step.mark {
                Mark::Entry(_) if enters => nested += 1,
                Mark::Iret if !enters => nested += 1,
                Mark::Entry(_) | Mark::Iret => nested = nested.saturating_sub(1),
                _ if nested > 0 => {}
                Mark::Switch => return None,
                mark if mark == deeper => depth += 1,
                Mark::PreemptInc | Mark::PreemptDec => {
                    depth = depth.saturating_sub(1);
                    if depth == 0 {
                        return Some(step);
                    }
                }
                _ => {}
            }
        }
        None
    }

    /// The stretches for which CPUs held a lock of the kernel's, each with the calls that took it and gave it up.
    fn holds(&self) -> Vec<Hold> {
        let mut calls = HashMap::new();
        let (mut open, mut waiting) = (HashMap::new(), HashSet::new());
        let mut holds = Vec::new();
        for event in &self.events {
            let Some((step, cpu)) = self.step(event).zip(u8::try_from(event.cpu).ok()) else {
                continue;
            };
            let call = || calls.get(&cpu).copied().unwrap_or(step.ip);
            match step.mark {
                Mark::LockWait => drop(waiting.insert(cpu)),
                Mark::Locked => {
                    let span = Span {
                        kind: Kind::KernelLock,
                        after: step.at,
                        to: step.at,
                        length: 0,
                        begun_by: call(),
                        ended_by: step.ip,
                        vector: None,
                    };
                    open.insert(cpu, (span, waiting.remove(&cpu)));
                }
                Mark::Unlocked => {
                    holds.extend(open.remove(&cpu).map(|(span, was_waited_for)| Hold {
                        cpu,
                        span: Span {
                            to: step.at,
                            length: self.own(cpu, span.after..step.at),
                            ended_by: call(),
                            ..span
                        },
                        was_waited_for,
                    }))
                }
                Mark::Call => drop(calls.insert(cpu, step.ip)),
                _ => {}
            }
        }
        holds
    }

    /// The stretches in which a CPU waited for a lock of the kernel's. Those whose holder is not known are left out.
    ///
    /// Which lock it is the log does not say. Whoever is before it at the same one has it already when the wait begins, or has
    /// waited for it as well.
    pub(super) fn lock_waits(&self, cpu: u8) -> Vec<LockWait> {
        let holds = self.holds();
        let mut waits = Vec::new();
        let mut begun = None;
        for step in self.steps(cpu) {
            match (step.mark, begun) {
                (Mark::LockWait, None) => begun = Some(step.at - 1),
                (Mark::Locked, Some(after)) => {
                    begun = None;
                    let end = step.at - 1;
                    let is_during = |it: &&Hold| {
                        it.cpu != cpu
                            && it.span.after < end
                            && it.span.to > after
                            && (it.span.after <= after || it.was_waited_for)
                    };
                    let mut holders = holds.iter().filter(is_during).peekable();
                    let mut from = after;
                    while let Some(Hold { cpu, span, .. }) = holders.next() {
                        // Until the CPU has its turn to see that the lock is free, it waits for the last one.
                        let to = holders.peek().map_or(end, |_| span.to);
                        waits.push(LockWait {
                            after: from,
                            to,
                            holder: *cpu,
                            hold: *span,
                        });
                        from = to;
                    }
                }
                _ => {}
            }
        }
        waits
    }

    /// Where the interrupt was entered whose time stamp has this count.
    pub(super) fn entered(&self, cpu: u8, stamp: u64) -> Option<u64> {
        let entry = self.steps(cpu).rev().find(|step| step.at < stamp)?;
        let is_entry = matches!(entry.mark, Mark::Entry(_));
        (is_entry && self.own(cpu, entry.at..stamp) == STAMP - 1).then_some(entry.at)
    }

    /// Where the interrupt that was entered with this count returned; `None` if it went over to another thread.
    pub(super) fn returned(&self, cpu: u8, entered: u64) -> Option<u64> {
        let mut nested = 0u32;
        for step in self.steps(cpu).filter(|step| step.at > entered) {
            match step.mark {
                Mark::Entry(_) => nested += 1,
                Mark::Iret if nested == 0 => return Some(step.at),
                Mark::Iret => nested -= 1,
                Mark::Switch if nested == 0 => return None,
                _ => {}
            }
        }
        None
    }

    /// Whether no other interrupt came in the same thread between the one that was entered with this count and the other count.
    pub(super) fn is_last_interrupt(&self, cpu: u8, entered: u64, to: u64) -> bool {
        let behind = self
            .steps(cpu)
            .filter(|step| (entered + 1..=to).contains(&step.at));
        let mut thread = behind.take_while(|step| step.mark != Mark::Switch);
        thread.all(|step| !matches!(step.mark, Mark::Entry(_)))
    }

    /// The calls that led to where an interrupt came, the innermost first, as far back as the thread ran on.
    pub(super) fn calls(&self, cpu: u8, entered: u64) -> Vec<u64> {
        let mut calls = Vec::new();
        let (mut nested, mut returned) = (0u32, 0u32);
        for step in self.steps(cpu).rev().filter(|step| step.at < entered) {
            match step.mark {
                Mark::Iret => nested += 1,
                Mark::Entry(_) => nested = nested.saturating_sub(1),
                _ if nested > 0 => {}
                Mark::Switch => break,
                // The function that it came in, by the last thing that is known of it.
                _ if calls.is_empty() && returned == 0 && step.mark != Mark::Ret => {
                    calls.push(step.ip);
                }
                Mark::Ret => returned += 1,
                Mark::Call if returned > 0 => returned -= 1,
                Mark::Call => calls.push(step.ip),
                _ => {}
            }
        }
        calls
    }
}

/// The instruction of an interrupt's entry that takes its time stamp, from 1.
const STAMP: u64 = 3;

#[cfg(test)]
mod tests;
