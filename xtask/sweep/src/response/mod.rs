//! Worst response times of periodic threads on one CPU, from proved bounds of the kernel's stretches.
//!
//! Fixed priorities, preemptive but for sections that may lie anywhere in a thread (floating non-preemptive regions), as far as a
//! level's busy period goes: Audsley, Burns, Richardson, Tindell, Wellings 1993 (response times); Lehoczky 1990 (deadlines beyond
//! periods); Yao, Buttazzo, Bertogna 2010 (sections); Sha, Rajkumar, Lehoczky 1990 (inheritance: each less important thread holds
//! up once). All in integers.

mod functions;
mod manifest;
#[cfg(test)]
mod simulated;
mod table;

use anyhow::{Context, Result};
use serde::Serialize;

pub use functions::prove_functions;
pub use manifest::{has_tasks, read};
pub use table::text;

use crate::prove::{Off, Proof, Stretch};

/// Version of the document.
pub const SCHEMA: &str = "takt.response/1";
/// A response beyond this is none: an hour, in nanoseconds.
const FOREVER: u64 = 3_600_000_000_000;
/// Turns that are looked at.
const MOST_TURNS: u64 = 1_000_000;
/// A part of one, in bits: what is lost by rounding up is nothing to anybody.
const PART: u32 = 40;

/// A thread, in nanoseconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Thread {
    /// Its name.
    pub name: String,
    /// Higher is more important.
    pub priority: u8,
    /// From one activation to the next, at least.
    pub period: u64,
    /// From an activation to the end of its turn, at most.
    pub deadline: u64,
    /// What a turn takes by itself, at most.
    pub wcet: u64,
    /// The function that it is, if that is proved of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub function: Option<String>,
    /// How long it keeps others from running at most: by preemption that is off, or by a mutex.
    pub blocking: u64,
}

/// A device's interrupt, in nanoseconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Interrupt {
    /// Its name.
    pub name: String,
    /// From one to the next, at least.
    pub period: u64,
    /// What its handler takes, at most.
    pub wcet: u64,
    /// The function that it is, if that is proved of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub function: Option<String>,
}

/// What runs on the CPU.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Set {
    /// The threads.
    pub threads: Vec<Thread>,
    /// The devices' interrupts.
    pub interrupts: Vec<Interrupt>,
}

/// What the kernel takes, in instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Costs {
    /// An activation: the timer's interrupt, up to and with the switch to the thread.
    pub activation: u64,
    /// A device's interrupt without its handler.
    pub interrupt: u64,
    /// The longest section of a thread with interrupts off; a turn ends with one, by a switch.
    pub section: u64,
}

impl Costs {
    /// As they are proved.
    ///
    /// # Errors
    ///
    /// If a bound is missing.
    pub fn of(proof: &Proof) -> Result<Self> {
        let entry = |name: &str| {
            let all = proof.stretches.iter().filter(|it| it.is_entry);
            let same = all.filter(|it| it.function() == name);
            same.filter_map(|it| {
                let due = it.grows.iter().filter(|it| it.counts.contains(DUE));
                Some(it.bound? + due.map(|it| it.each).sum::<u64>())
            })
            .max()
        };
        let missing = |name| format!("no bound is proved of {name}");
        // Of timers, each interrupt is for one that is due, whichever of the two comes first.
        let timers = [entry("takt_irq_timer"), entry("takt_irq_early_timer")];
        let activation = timers.into_iter().max().flatten();
        let sections = proof.stretches.iter().filter(|it| is_plain(it));
        Ok(Self {
            activation: activation.with_context(|| missing("the timer's interrupt"))?,
            interrupt: entry("takt_irq_stubs").with_context(|| missing("devices' interrupts"))?,
            section: sections
                .filter_map(|it| it.bound)
                .max()
                .with_context(|| missing("any section"))?,
        })
    }
}

/// Where sections begin that have no bound, and so are in no cost: whoever has such a one gives its length (`blocking_ns`).
#[must_use]
pub fn without_bound(proof: &Proof) -> Vec<&str> {
    let refused = proof.stretches.iter().filter(|it| it.refused.is_some());
    refused
        .filter(|it| is_plain(it))
        .map(|it| &*it.place)
        .collect()
}

/// What the timer's interrupt counts.
const DUE: &str = "timers that are due";

/// What is known of a system of which the response times hold: there is no round robin, there are no budgets, and run times are not
/// counted.
pub const CONFIG: &str = "counting at switches=off";

/// Whether it is a section of a thread that takes so long whatever happens. The others are those that somebody asks for: while
/// text is rewritten, a stack is recorded, a device is set up. With preemption off it is the kernel's own.
fn is_plain(it: &Stretch) -> bool {
    let is_kernels = it.off == Off::Irqs || it.place.contains("(kernel/");
    is_kernels && !it.is_entry && it.handlers == 0 && it.grows.is_empty()
}

/// What is known of a thread.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Response {
    /// The thread.
    #[serde(flatten)]
    pub thread: Thread,
    /// What less important ones keep it from running, with a section of the kernel.
    pub blocked: u64,
    /// From an activation to the end of the turn at most; `None` if no bound is found.
    pub worst: Option<u64>,
}

impl Response {
    /// Whether its deadline holds.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.worst.is_some_and(|it| it <= self.thread.deadline)
    }
}

/// The worst response of each thread.
#[must_use]
pub fn responses(set: &Set, costs: Costs) -> Vec<Response> {
    let of = |(nr, thread): (usize, &Thread)| {
        let less = set
            .threads
            .iter()
            .filter(|it| it.priority < thread.priority);
        let blocked = less.map(|it| it.blocking).sum::<u64>() + costs.section;
        Response {
            thread: thread.clone(),
            blocked,
            worst: worst(set, costs, nr, blocked),
        }
    };
    set.threads.iter().enumerate().map(of).collect()
}

/// The worst response of a thread: of all its turns in the longest time in which the CPU is never idle for it.
fn worst(set: &Set, costs: Costs, nr: usize, blocked: u64) -> Option<u64> {
    let thread = &set.threads[nr];
    let turn = |it: &Thread| it.wcet + costs.section;
    let share = |takes: u64, period: u64| (u128::from(takes) << PART).div_ceil(u128::from(period));
    let threads = set.threads.iter().map(|it| {
        let runs = it.priority >= thread.priority;
        share(
            costs.activation + if runs { turn(it) } else { 0 },
            it.period,
        )
    });
    let devices = set.interrupts.iter();
    let devices = devices.map(|it| share(costs.interrupt + it.wcet, it.period));
    if threads.chain(devices).sum::<u128>() > 1 << PART {
        return None;
    }
    let mut worst = 0;
    let mut busy = blocked + turn(thread);
    for turns in 1..=MOST_TURNS {
        let own = blocked + turns * turn(thread);
        busy = busy.max(own);
        loop {
            let happens = |period: u64| busy.div_ceil(period);
            let others = set.threads.iter().enumerate().map(|(other, it)| {
                let runs = other != nr && it.priority >= thread.priority;
                // Whoever it is that is activated, the interrupt comes.
                happens(it.period) * (costs.activation + if runs { turn(it) } else { 0 })
            });
            let devices = set
                .interrupts
                .iter()
                .map(|it| happens(it.period) * (costs.interrupt + it.wcet));
            let next = own + others.sum::<u64>() + devices.sum::<u64>();
            if next > FOREVER {
                return None;
            }
            if next <= busy {
                break;
            }
            busy = next;
        }
        worst = worst.max(busy - (turns - 1) * thread.period);
        if busy <= turns * thread.period {
            return Some(worst);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn thread(priority: u8, period: u64, wcet: u64) -> Thread {
        Thread {
            name: format!("of {priority}"),
            priority,
            period,
            deadline: period,
            wcet,
            blocking: 0,
            function: None,
        }
    }

    pub(super) const FREE: Costs = Costs {
        activation: 0,
        interrupt: 0,
        section: 0,
    };

    fn worst_of(set: &Set, costs: Costs) -> Vec<Option<u64>> {
        responses(set, costs).iter().map(|it| it.worst).collect()
    }

    #[test]
    fn a_set_of_the_literature() {
        // Lehoczky 1990: the second one's first turn is not its worst.
        let mut set = Set {
            threads: vec![thread(9, 70, 26), thread(5, 100, 62)],
            interrupts: Vec::new(),
        };
        assert_eq!(worst_of(&set, FREE), [Some(26), Some(118)]);
        // More than there is.
        set.threads[0].wcet = 27;
        assert_eq!(worst_of(&set, FREE), [Some(27), None]);
    }

    #[test]
    fn sections_interrupts_and_activations_come_on_top() {
        let mut set = Set {
            threads: vec![thread(9, 1000, 100), thread(5, 2000, 300)],
            interrupts: vec![Interrupt {
                name: "uart".into(),
                period: 500,
                wcet: 20,
                function: None,
            }],
        };
        set.threads[1].blocking = 40;
        let costs = Costs {
            activation: 10,
            interrupt: 5,
            section: 3,
        };
        // Blocked 40 + 3, a turn of 103, both activations, one interrupt.
        let first = 43 + 103 + 20 + 25;
        // Blocked 3, both turns, both activations, and so on one interrupt.
        let second = 3 + 303 + 103 + 20 + 25;
        assert_eq!(worst_of(&set, costs), [Some(first), Some(second)]);
        let found = responses(&set, costs);
        assert!(found.iter().all(Response::holds));
        set.threads[1].deadline = second - 1;
        assert!(!responses(&set, costs)[1].holds());
    }
}
