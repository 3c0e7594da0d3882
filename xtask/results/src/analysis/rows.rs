//! What a latency consists of, in the rows of rtla's automatic analysis. The rows add up to the latency.

use serde::{Deserialize, Serialize};

use super::causes::{Cause, Piece};
use super::refine::Section;
use super::window::Activation;
use super::{Sample, Story};

/// A row of the analysis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Group {
    /// Until the interrupt's entry: the CPU woke up, or interrupts were off.
    IrqHandlerDelay,
    /// The timer's interrupt: its entry, its handler, the wake-up.
    IrqDuration,
    /// Other timers that the same interrupt served.
    OtherTimers,
    /// The interrupted thread had preemption off.
    BlockingThread,
    /// Other interrupts.
    IrqInterference,
    /// Other threads.
    ThreadInterference,
    /// From the decision to switch to the thread's reading of the clock.
    Switch,
    /// The measured thread did its work, in user space.
    UserThread,
    /// Another CPU held a lock of the kernel's.
    KernelLock,
    /// Other CPUs' turns.
    OtherCpus,
    /// What cannot be named.
    Unexplained,
}

impl Group {
    /// All of them, in rtla's order.
    pub const ALL: [Self; 11] = [
        Self::IrqHandlerDelay,
        Self::IrqDuration,
        Self::OtherTimers,
        Self::BlockingThread,
        Self::IrqInterference,
        Self::ThreadInterference,
        Self::Switch,
        Self::UserThread,
        Self::KernelLock,
        Self::OtherCpus,
        Self::Unexplained,
    ];

    /// As the row is called.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::IrqHandlerDelay => "IRQ handler delay",
            Self::IrqDuration => "Timerlat IRQ duration",
            Self::OtherTimers => "Other timers",
            Self::BlockingThread => "Blocking thread",
            Self::IrqInterference => "IRQ interference",
            Self::ThreadInterference => "Thread interference",
            Self::Switch => "Switch",
            Self::UserThread => "User thread",
            Self::KernelLock => "Kernel lock of another CPU",
            Self::OtherCpus => "Other CPUs' turns",
            Self::Unexplained => "Unexplained",
        }
    }

    /// The row of a cause.
    #[must_use]
    pub fn of(cause: Cause) -> Self {
        match cause {
            Cause::ExitFromIdle | Cause::IrqHandlerDelay => Self::IrqHandlerDelay,
            Cause::InterruptEntry | Cause::TimerInterrupt | Cause::WakeUp => Self::IrqDuration,
            Cause::OtherTimers => Self::OtherTimers,
            Cause::BlockingThread => Self::BlockingThread,
            Cause::IrqInterference => Self::IrqInterference,
            Cause::ThreadInterference => Self::ThreadInterference,
            Cause::Reschedule | Cause::ContextSwitch => Self::Switch,
            Cause::UserThread => Self::UserThread,
            Cause::KernelLock => Self::KernelLock,
            Cause::OtherCpus => Self::OtherCpus,
            Cause::Unexplained => Self::Unexplained,
        }
    }
}

/// A part of a row.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// Why time passed.
    pub cause: Cause,
    /// Who: a thread as `name:id`, an interrupt as `irq N`, another CPU with the function that it was in halfway, or
    /// in which it took a lock of the kernel's; empty
    /// where the cause says all.
    pub who: String,
    /// How long, in ns.
    pub ns: u64,
}

/// A row, with what it is made of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Row {
    /// Which.
    pub group: Group,
    /// How long, in ns.
    pub ns: u64,
    /// Its parts, the longest first.
    pub parts: Vec<Part>,
    /// The sections that kept the interrupt or the thread waiting, if they are known.
    #[serde(default)]
    pub sections: Vec<Section>,
}

/// An IRQ latency.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FromIdle {
    /// In ns.
    pub ns: u64,
    /// On which CPU.
    pub cpu: u8,
    /// Of which activation.
    pub seqnum: u32,
}

/// A latency, taken apart.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Breakdown {
    /// On which CPU.
    pub cpu: u8,
    /// Of which measured thread.
    pub slot: u32,
    /// Of which of its activations.
    pub seqnum: u32,
    /// Whether it is an IRQ latency, and not a thread's.
    pub is_of_irq: bool,
    /// The thread latency, if it is the return from user space, and not that, which is taken apart, in ns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread_ns: Option<u64>,
    /// What is taken apart, in ns.
    pub latency_ns: u64,
    /// The IRQ latency, in ns.
    pub irq_ns: Option<u64>,
    /// The rows that are not 0, in the order of [`Group::ALL`]; they add up to the latency.
    pub rows: Vec<Row>,
    /// Calls of the thread that the interrupt found, the innermost first, as `function (file:line)`, if it had interrupts or
    /// preemption off.
    #[serde(default)]
    pub stack: Vec<String>,
    /// The longest IRQ latency that began in an idle CPU, of the whole run.
    pub from_idle: Option<FromIdle>,
    /// What is not known and why, for people.
    #[serde(default)]
    pub notes: Vec<String>,
}

impl Breakdown {
    /// The activation that hit a threshold.
    #[must_use]
    pub fn of(story: &Story) -> Option<Self> {
        let it = story.stopped.as_ref()?;
        let from_idle = |sample: &&Sample| sample.is_from_idle && sample.irq.is_some();
        // Of equal ones the first.
        let longest = story
            .samples
            .iter()
            .chain([&it.sample])
            .filter(from_idle)
            .rev()
            .max_by_key(|sample| sample.irq);
        Some(Self {
            from_idle: longest.map(|sample| FromIdle {
                ns: it.ns(sample.irq.unwrap_or_default().into()),
                cpu: sample.cpu,
                seqnum: sample.seqnum,
            }),
            notes: story.notes.clone(),
            ..Self::new(it)
        })
    }

    /// Any activation.
    #[must_use]
    pub fn new(it: &Activation) -> Self {
        let sample = &it.sample;
        let latency_ns = it.ns(sample.thread.into());
        Self {
            cpu: sample.cpu,
            slot: sample.slot,
            seqnum: sample.seqnum,
            is_of_irq: sample.is_of_irq,
            thread_ns: None,
            latency_ns,
            irq_ns: sample.irq.map(|irq| it.ns(irq.into())),
            rows: rows(&parts(&it.pieces), latency_ns),
            stack: Vec::new(),
            from_idle: None,
            notes: Vec::new(),
        }
    }

    /// The same up to the return from user space; `it` is the activation up to there.
    #[must_use]
    pub fn to_user(mut self, it: &Activation) -> Self {
        let (thread, whole) = (self.latency_ns, it.ns(it.sample.latency().into()));
        let is_behind = |piece: &&Piece| piece.from >= thread;
        let behind: Vec<_> = it.pieces.iter().filter(is_behind).cloned().collect();
        for more in rows(&parts(&behind), whole.saturating_sub(thread)) {
            match self.rows.iter_mut().find(|row| row.group == more.group) {
                Some(row) => {
                    row.ns += more.ns;
                    row.parts.extend(more.parts);
                }
                None => self.rows.push(more),
            }
        }
        self.rows.sort_by_key(|row| row.group);
        self.thread_ns = Some(thread);
        self.latency_ns = whole;
        self
    }

    /// How much a row is of the whole, in percent.
    #[must_use]
    pub fn percent(&self, ns: u64) -> f64 {
        match self.latency_ns {
            0 => 0.0,
            all => ns as f64 * 100.0 / all as f64,
        }
    }

    /// A row's length; 0 if it is not there.
    #[must_use]
    pub fn ns(&self, group: Group) -> u64 {
        self.row(group).map_or(0, |row| row.ns)
    }

    /// A row that is not 0.
    #[must_use]
    pub fn row(&self, group: Group) -> Option<&Row> {
        self.rows.iter().find(|row| row.group == group)
    }

    /// The row that the stack belongs to, and whose it is.
    #[must_use]
    pub fn stack_owner(&self) -> (Group, &'static str) {
        match self.row(Group::BlockingThread) {
            Some(_) => (Group::BlockingThread, "Blocking thread"),
            None => (Group::IrqHandlerDelay, "Interrupted thread"),
        }
    }

    /// The longest row in words: what it is, who, how long, and the section that is behind it.
    #[must_use]
    pub fn cause(&self) -> Option<String> {
        // Turns of other CPUs are QEMU's doing: where they are the longest, the rest has a cause of its own.
        let own = |row: &&Row| row.group != Group::OtherCpus;
        let longest = self.rows.iter().max_by_key(|row| row.ns)?;
        let row = self.rows.iter().filter(own).max_by_key(|row| row.ns)?;
        let part = row.parts.first()?;
        let mut text = match (row.group, part.cause) {
            (_, Cause::ExitFromIdle) => "exit from idle".to_owned(),
            (group, _) => group.name().to_owned(),
        };
        if !part.who.is_empty() {
            text += &format!(", {}", part.who);
        }
        text += &format!(
            ": {} of {} ns ({:.1} %)",
            row.ns,
            self.latency_ns,
            self.percent(row.ns)
        );
        if let Some(section) = row.sections.iter().max_by_key(|section| section.length) {
            text += &format!("; {section}");
        }
        if longest.group == Group::OtherCpus {
            text += &format!("; other CPUs' turns: {} ns", longest.ns);
            if let Some(part) = longest.parts.first().filter(|part| !part.who.is_empty()) {
                text += &format!(", most of {}", part.who);
            }
        }
        Some(text)
    }
}

/// The pieces' lengths.
fn parts(pieces: &[Piece]) -> Vec<Part> {
    let part = |piece: &Piece| Part {
        cause: piece.cause,
        who: piece.who.clone(),
        ns: piece.to - piece.from,
    };
    pieces.iter().map(part).collect()
}

/// Puts parts into rows. What they do not cover is not explained.
pub(super) fn rows(parts: &[Part], latency_ns: u64) -> Vec<Row> {
    let known: u64 = parts.iter().map(|part| part.ns).sum();
    let mut rows: Vec<_> = Group::ALL
        .into_iter()
        .map(|group| row(group, parts))
        .collect();
    let missing = latency_ns.saturating_sub(known);
    if missing > 0
        && let Some(row) = rows.last_mut()
    {
        row.ns += missing;
        row.parts.push(Part {
            cause: Cause::Unexplained,
            who: String::new(),
            ns: missing,
        });
    }
    rows.retain(|row| row.ns > 0);
    rows
}

fn row(group: Group, all: &[Part]) -> Row {
    let mut parts: Vec<Part> = Vec::new();
    for part in all.iter().filter(|it| Group::of(it.cause) == group) {
        let is_same = |same: &&mut Part| same.cause == part.cause && same.who == part.who;
        match parts.iter_mut().find(is_same) {
            Some(same) => same.ns += part.ns,
            None => parts.push(part.clone()),
        }
    }
    parts.sort_by_key(|part| std::cmp::Reverse(part.ns));
    Row {
        group,
        ns: parts.iter().map(|part| part.ns).sum(),
        parts,
        sections: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(from: u64, to: u64, cause: Cause, who: &str) -> Piece {
        Piece {
            from,
            to,
            cause,
            who: who.into(),
        }
    }

    #[test]
    fn the_rows_add_up_and_what_is_missing_is_one() {
        let pieces = [
            piece(0, 30, Cause::IrqHandlerDelay, "a:1"),
            piece(30, 40, Cause::InterruptEntry, ""),
            piece(40, 55, Cause::IrqInterference, "irq 96"),
            piece(55, 60, Cause::TimerInterrupt, ""),
            piece(60, 62, Cause::IrqInterference, "irq 97"),
            piece(62, 65, Cause::IrqInterference, "irq 96"),
        ];
        let rows = rows(&parts(&pieces), 100);
        assert_eq!(rows.iter().map(|row| row.ns).sum::<u64>(), 100);
        let of = |group| rows.iter().find(|row| row.group == group).unwrap();
        let irqs = of(Group::IrqInterference);
        let parts: Vec<_> = irqs
            .parts
            .iter()
            .map(|it| (it.who.as_str(), it.ns))
            .collect();
        assert_eq!(parts, [("irq 96", 18), ("irq 97", 2)]);
        assert_eq!(of(Group::IrqDuration).ns, 15);
        assert_eq!(of(Group::Unexplained).ns, 35);
        assert!(rows.iter().all(|row| row.group != Group::Switch));
    }

    #[test]
    fn the_cause_is_the_longest_row() {
        let pieces = [
            piece(0, 4, Cause::IrqHandlerDelay, "a:1"),
            piece(4, 20, Cause::TimerInterrupt, ""),
            piece(20, 80, Cause::BlockingThread, "a:1"),
        ];
        let mut it = Breakdown {
            cpu: 0,
            slot: 0,
            seqnum: 1,
            is_of_irq: false,
            thread_ns: None,
            latency_ns: 80,
            irq_ns: Some(4),
            rows: rows(&parts(&pieces), 80),
            stack: Vec::new(),
            from_idle: None,
            notes: Vec::new(),
        };
        assert_eq!(
            it.cause().unwrap(),
            "Blocking thread, a:1: 60 of 80 ns (75.0 %)"
        );
        it.rows.clear();
        assert_eq!(it.cause(), None);
    }
}
