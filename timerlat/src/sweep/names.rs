//! The workloads' names, which the host knows as well.

use core::ops::RangeInclusive;

/// Priorities of the measured thread: above all threads of a workload.
pub const PRIORITIES: RangeInclusive<u8> = 70..=99;

/// A workload.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Named {
    /// What it is called on command lines.
    pub name: &'static str,
    /// What its stretch consists of.
    pub about: &'static str,
    /// It has no end of its own: the stretch is as long as the window.
    pub is_load: bool,
    /// It has round-robin threads, and each switch counts their times.
    pub counts_at_switches: bool,
}

const fn primitive(name: &'static str, about: &'static str) -> Named {
    Named {
        name,
        about,
        is_load: false,
        counts_at_switches: false,
    }
}

const fn load(name: &'static str, about: &'static str) -> Named {
    Named {
        name,
        about,
        is_load: true,
        counts_at_switches: false,
    }
}

/// All of them, in the order in which the target numbers them.
pub const WORKLOADS: &[Named] = &[
    primitive("semaphore", "give and take, nobody waits"),
    primitive(
        "semaphore-contended",
        "give to a more important waiter, which runs and waits again",
    ),
    primitive("semaphore-timeout", "take that times out"),
    primitive("mutex", "lock and unlock, nobody waits"),
    primitive(
        "mutex-contended",
        "lock what a less important thread holds: it inherits, unlocks and hands over",
    ),
    primitive(
        "mutex-chain",
        "the same through a chain of four owners, each of which waits for the next",
    ),
    primitive("queue", "send and receive, nobody waits"),
    primitive(
        "queue-contended",
        "send to a more important waiter, which runs and waits again",
    ),
    primitive(
        "event-flags",
        "set what eight more important threads wait for",
    ),
    primitive(
        "condvar",
        "notify eight more important threads, which take the mutex one after the other",
    ),
    primitive("timer", "arm and cancel, no other timer is armed"),
    primitive("timer-many", "arm and cancel with 64 others in the queue"),
    primitive(
        "timer-between",
        "arm where no other of them is near, and cancel",
    ),
    primitive(
        "timer-rearm",
        "arm anew what is armed, sooner and later than 64 others",
    ),
    primitive(
        "timers-at-once",
        "16 timers expire at the same time, each wakes a thread",
    ),
    primitive("sleep", "sleep for a microsecond"),
    primitive(
        "thread",
        "create and start a less important thread, join it",
    ),
    primitive(
        "thread-contended",
        "create and start a more important thread, which ends at once; join it",
    ),
    primitive("thread-end", "a thread ends for which eight wait"),
    primitive(
        "priority",
        "set the priority of a thread, up and down again",
    ),
    primitive("switch", "yield to an equal thread and back"),
    primitive("suspend", "suspend and resume a less important thread"),
    primitive(
        "suspend-contended",
        "resume a more important thread, which suspends itself",
    ),
    Named {
        counts_at_switches: true,
        ..primitive(
            "round-robin",
            "yield to an equal thread and back, sleep and yield, each of the two with a quantum",
        )
    },
    primitive(
        "timeout-race",
        "give what a more important thread waits for, at about the time at which its wait times out",
    ),
    primitive(
        "waiter-suspended",
        "suspend a more important thread that waits, give, resume it",
    ),
    primitive(
        "waiter-moved",
        "set the priority of a thread that waits in a chain of four owners, up and down again",
    ),
    primitive("circle", "lock what would close a circle of four owners"),
    primitive("errors", "calls that fail at once"),
    primitive(
        "semaphore-contended-low",
        "as semaphore-contended, with priorities below 36",
    ),
    primitive(
        "semaphore-timeout-low",
        "as semaphore-timeout, with priorities below 36",
    ),
    primitive(
        "mutex-chain-low",
        "as mutex-chain, with priorities below 36",
    ),
    primitive("thread-low", "as thread, with priorities below 36"),
    primitive("trace", "record two events"),
    primitive(
        "trace-slow",
        "record an event that opens a new sub-buffer of the ring",
    ),
    load("load-cpu", "latency-run's load `cpu`"),
    load("load-irq", "latency-run's load `irq`"),
    load("load-lock", "latency-run's load `lock`"),
    load("load-mix", "latency-run's load `mix`"),
];

/// The workload of this name, as its number.
#[must_use]
pub fn find(name: &str) -> Option<usize> {
    WORKLOADS.iter().position(|it| it.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique() {
        for (number, workload) in WORKLOADS.iter().enumerate() {
            assert_eq!(find(workload.name), Some(number));
            let is_plain = |c: char| c.is_ascii_lowercase() || c == '-';
            assert!(workload.name.chars().all(is_plain));
        }
        assert_eq!(find("nothing"), None);
    }
}
