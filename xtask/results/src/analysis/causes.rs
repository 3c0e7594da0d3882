//! What the thread latency of an activation consists of: every nanosecond from the deadline to the thread's reading of
//! the clock belongs to one cause, so the causes add up to the latency exactly.
//!
//! Where one begins is where a record says that something else runs. The words are those of rtla's automatic analysis
//! where it has one for it.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::window::{Activation, Event, Kind, State};

/// Why time passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    /// The interrupt was due and the CPU slept.
    ExitFromIdle,
    /// The interrupt was due and a thread ran with interrupts off.
    IrqHandlerDelay,
    /// Another interrupt's handler ran.
    IrqInterference,
    /// From the interrupt's time stamp to the record that its handler begins.
    InterruptEntry,
    /// The handler, as far as it is about this timer.
    TimerInterrupt,
    /// The same handler ran other timers' functions.
    OtherTimers,
    /// The thread was made ready.
    WakeUp,
    /// The interrupted thread had preemption off.
    BlockingThread,
    /// From the handler's end to the switch.
    Reschedule,
    /// Another thread ran although this one was ready.
    ThreadInterference,
    /// From the switch's record to the thread's reading of the clock.
    ContextSwitch,
    /// The CPU waited for a lock of the kernel's, which another one held.
    KernelLock,
    /// Other CPUs ran: under icount all of them share one count of instructions, and take turns.
    OtherCpus,
    /// The trace does not tell.
    Unexplained,
    /// The measured thread did its work.
    UserThread,
}

impl Cause {
    /// All of them.
    pub const ALL: [Self; 15] = [
        Self::ExitFromIdle,
        Self::IrqHandlerDelay,
        Self::IrqInterference,
        Self::InterruptEntry,
        Self::TimerInterrupt,
        Self::OtherTimers,
        Self::WakeUp,
        Self::BlockingThread,
        Self::Reschedule,
        Self::ThreadInterference,
        Self::ContextSwitch,
        Self::KernelLock,
        Self::OtherCpus,
        Self::Unexplained,
        Self::UserThread,
    ];

    /// Its place in [`Cause::ALL`].
    #[must_use]
    pub fn index(self) -> usize {
        self as usize
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ExitFromIdle => "exit from idle",
            Self::IrqHandlerDelay => "IRQ handler delay",
            Self::IrqInterference => "IRQ interference",
            Self::InterruptEntry => "interrupt entry",
            Self::TimerInterrupt => "timer interrupt",
            Self::OtherTimers => "other timers",
            Self::WakeUp => "wake-up",
            Self::BlockingThread => "blocking thread",
            Self::Reschedule => "reschedule",
            Self::ThreadInterference => "thread interference",
            Self::ContextSwitch => "context switch",
            Self::KernelLock => "kernel lock",
            Self::OtherCpus => "other CPUs' turns",
            Self::Unexplained => "unexplained",
            Self::UserThread => "user thread",
        })
    }
}

/// A stretch of time with one cause.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// From this many ns after the deadline …
    pub from: u64,
    /// … to this many.
    pub to: u64,
    /// Why.
    pub cause: Cause,
    /// Who, if that is more than the cause says.
    pub who: String,
}

/// The times that divide an activation, in cycles.
struct Marks {
    /// The interrupt's own time stamp.
    stamp: u64,
    /// The record of its handler's beginning; the deadline, if it began before.
    entry: u64,
    /// The record of its end.
    exit: u64,
}

/// Takes an activation apart. Nothing if the trace has not what is needed.
pub(super) fn partition(it: &Activation) -> Vec<Piece> {
    let Some(marks) = marks(it) else {
        return Vec::new();
    };
    let due = it.sample.due();
    let end = due + u64::from(it.sample.latency());
    let mut walk = Walk {
        it,
        marks,
        state: it.at_deadline.clone(),
        at: due,
        timer: None,
        depth: it.at_deadline.irqs.len(),
        is_waking: false,
        is_blocked: false,
        is_outranked: false,
        has_switched: false,
        pieces: Vec::new(),
    };
    for event in it.during.iter().filter(|event| event.ts < end) {
        walk.go(event.ts);
        walk.see(event);
    }
    walk.go(end);
    walk.pieces
}

/// Finds the handler in which the timer expired.
fn marks(it: &Activation) -> Option<Marks> {
    let due = it.sample.deadline?;
    let timer = it.sample.timer?;
    let is_ours = |event: &&Event| event.kind == Kind::Expire { timer };
    let expired = it.during.iter().position(|event| is_ours(&event))?;
    let is_entry = |event: &&Event| matches!(event.kind, Kind::IrqEntry { .. });
    let entry = it.during[..expired].iter().rfind(is_entry);
    // It had begun before: then it was open at the deadline.
    if entry.is_none() && it.at_deadline.irqs.is_empty() {
        return None;
    }
    let entry = entry.map_or(due, |event| event.ts);
    let stamp = match it.sample.irq {
        Some(irq) => due + u64::from(irq),
        None => entry,
    };
    let stamp = stamp.min(entry.max(due));
    if it.sample.is_of_irq {
        let exit = u64::MAX;
        return Some(Marks { stamp, entry, exit });
    }
    let mut depth = 1;
    let exit = it.during[expired..].iter().find(|event| {
        match event.kind {
            Kind::IrqEntry { .. } => depth += 1,
            Kind::IrqExit => depth -= 1,
            _ => {}
        }
        depth == 0
    })?;
    // The thread must have been switched to, unless it ran anyway.
    let has_switch = it
        .during
        .iter()
        .any(|event| matches!(event.kind, Kind::Switch { next } if next == it.sample.tid));
    let ran_anyway = it.at_deadline.tid == it.sample.tid;
    (has_switch || ran_anyway).then_some(Marks {
        stamp,
        entry,
        exit: exit.ts,
    })
}

struct Walk<'i> {
    it: &'i Activation,
    marks: Marks,
    state: State,
    at: u64,
    /// The timer whose function runs.
    timer: Option<u64>,
    /// Handlers that are open in ours, itself included.
    depth: usize,
    is_waking: bool,
    is_blocked: bool,
    /// The interrupted thread is more important than the woken one.
    is_outranked: bool,
    has_switched: bool,
    pieces: Vec<Piece>,
}

impl Walk<'_> {
    /// Time passes, as things are.
    fn go(&mut self, to: u64) {
        // The interrupt's own time stamp is in no record.
        if self.at < self.marks.stamp && self.marks.stamp < to {
            self.push(self.marks.stamp);
        }
        // Nor is the thread's.
        if self.at < self.ran_at() && self.ran_at() < to {
            self.push(self.ran_at());
        }
        self.push(to);
    }

    /// When the measured thread read the clock.
    fn ran_at(&self) -> u64 {
        self.it.sample.due() + u64::from(self.it.sample.thread)
    }

    fn push(&mut self, to: u64) {
        let due = self.it.sample.due();
        let (from, until) = (self.it.ns(self.at - due), self.it.ns(to - due));
        if from < until {
            let (cause, who) = self.why();
            match self.pieces.last_mut() {
                Some(last) if last.cause == cause && last.who == who => last.to = until,
                _ => self.pieces.push(Piece {
                    from,
                    to: until,
                    cause,
                    who,
                }),
            }
        }
        self.at = to;
    }

    fn see(&mut self, event: &Event) {
        let is_in_ours = (self.marks.entry..self.marks.exit).contains(&event.ts);
        match event.kind {
            Kind::IrqEntry { .. } if event.ts == self.marks.entry => {
                self.is_blocked = event.preempt_depth > 0;
                self.depth = self.state.irqs.len() + 1;
            }
            Kind::Expire { timer } if is_in_ours => {
                self.timer = Some(timer);
                self.is_waking = false;
            }
            Kind::IrqExit if event.ts == self.marks.exit => {
                self.is_outranked = !event.needs_resched;
            }
            Kind::Waking { tid } if tid == u64::from(self.it.sample.tid) => self.is_waking = true,
            Kind::Woken { .. } => self.is_waking = false,
            // One before has nothing to do with this thread.
            Kind::Switch { .. } if event.ts > self.marks.exit => self.has_switched = true,
            _ => {}
        }
        self.state.see(event);
    }

    /// Why time passes now.
    fn why(&self) -> (Cause, String) {
        let comm = || format!("{}:{}", self.it.comm(self.state.tid), self.state.tid);
        let irq = |vector: &u64| (Cause::IrqInterference, self.it.irq(*vector as u8));
        let is_ours_running = self.state.tid == self.it.sample.tid;
        if self.at < self.marks.stamp {
            return match self.state.irqs.last() {
                Some(vector) => irq(vector),
                None if self.it.idle.contains(&self.state.tid) => {
                    (Cause::ExitFromIdle, String::new())
                }
                None => (Cause::IrqHandlerDelay, comm()),
            };
        }
        if self.at < self.marks.entry {
            return (Cause::InterruptEntry, String::new());
        }
        if self.at < self.marks.exit {
            let timer = self
                .timer
                .filter(|&timer| Some(timer) != self.it.sample.timer);
            return match (self.state.irqs.get(self.depth), timer) {
                (Some(vector), _) => irq(vector),
                (None, Some(timer)) => (Cause::OtherTimers, format!("timer {timer}")),
                (None, None) if self.is_waking => (Cause::WakeUp, String::new()),
                (None, None) => (Cause::TimerInterrupt, String::new()),
            };
        }
        match self.state.irqs.last() {
            Some(vector) => irq(vector),
            None if is_ours_running && self.at >= self.ran_at() => (Cause::UserThread, comm()),
            None if is_ours_running => (Cause::ContextSwitch, String::new()),
            None if self.has_switched || self.is_outranked => (Cause::ThreadInterference, comm()),
            None if self.is_blocked => (Cause::BlockingThread, comm()),
            None => (Cause::Reschedule, String::new()),
        }
    }
}

#[cfg(test)]
mod tests;
