//! [`Pinned`]: one of the host's CPUs for what is started meanwhile.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// While it lives, this thread runs on one CPU, and so does, for all of its life, what it starts.
///
/// Where the system refuses that, nothing changes.
#[derive(Debug)]
pub(super) struct Pinned {
    /// Where it ran before.
    before: Option<CpuSet>,
}

impl Pinned {
    /// Takes the CPUs in turn, so that guests at the same time share none without need.
    pub(super) fn new() -> Self {
        static TURN: AtomicUsize = AtomicUsize::new(0);
        let turn = TURN.fetch_add(1, Relaxed) + std::process::id() as usize;
        let before = sched_getaffinity(None).ok().filter(|before| {
            one_of(before, turn).is_some_and(|one| sched_setaffinity(None, &one).is_ok())
        });
        Self { before }
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            // It was allowed before.
            let _ = sched_setaffinity(None, before);
        }
    }
}

/// The CPU of that number, counted round the set.
fn one_of(set: &CpuSet, number: usize) -> Option<CpuSet> {
    let mut cpus = (0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu));
    let number = number.checked_rem(set.count() as usize)?;
    let mut one = CpuSet::new();
    one.set(cpus.nth(number)?);
    Some(one)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn here() -> CpuSet {
        sched_getaffinity(None).unwrap()
    }

    #[test]
    fn one_cpu_while_it_lives() {
        let before = here();
        let pinned = Pinned::new();
        assert_eq!(here().count(), 1);
        drop(pinned);
        assert_eq!(here(), before);
    }

    #[test]
    fn cpus_are_taken_in_turn() {
        let mut set = CpuSet::new();
        assert!(one_of(&set, 0).is_none());
        set.set(3);
        set.set(70);
        let of = |number| one_of(&set, number).unwrap();
        assert!(of(4).is_set(3) && of(5).is_set(70));
        assert_eq!((of(4).count(), of(5).count()), (1, 1));
    }
}
