//! [`Pinned`]: one of the host's CPUs for what is started meanwhile.

use std::env;
use std::fs::File;
use std::process;
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

/// A CPU that nobody else is pinned to while this lives, of those who ask as well.
#[derive(Debug)]
pub(super) struct Claim {
    _file: File,
}

impl Pinned {
    /// Takes a CPU that nobody has claimed. Where there is none it takes them in turn, and claims nothing.
    pub(super) fn new() -> (Self, Option<Claim>) {
        static TURN: AtomicUsize = AtomicUsize::new(0);
        let Ok(before) = sched_getaffinity(None) else {
            return (Self { before: None }, None);
        };
        let turn = TURN.fetch_add(1, Relaxed) + process::id() as usize;
        let numbers = (turn..).take(before.count() as usize);
        let free = numbers
            .filter_map(|number| cpu_of(&before, number))
            .find_map(|cpu| Some((cpu, claim(cpu)?)));
        let (cpu, claim) = match free {
            Some((cpu, claim)) => (Some(cpu), Some(claim)),
            None => (cpu_of(&before, turn), None),
        };
        let is_pinned = cpu.is_some_and(|cpu| {
            let mut one = CpuSet::new();
            one.set(cpu);
            sched_setaffinity(None, &one).is_ok()
        });
        let before = is_pinned.then_some(before);
        (Self { before }, claim)
    }
}

/// Claims a CPU, by a lock that ends with its process.
fn claim(cpu: usize) -> Option<Claim> {
    let path = env::temp_dir().join(format!("takt-cpu-{cpu}"));
    let file = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(path)
        .ok()?;
    file.try_lock().ok()?;
    Some(Claim { _file: file })
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
fn cpu_of(set: &CpuSet, number: usize) -> Option<usize> {
    let mut cpus = (0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu));
    cpus.nth(number.checked_rem(set.count() as usize)?)
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
        assert_eq!(cpu_of(&set, 0), None);
        set.set(3);
        set.set(70);
        assert_eq!(
            [4, 5].map(|number| cpu_of(&set, number)),
            [Some(3), Some(70)]
        );
    }

    #[test]
    fn a_claim_is_anothers_when_it_is_given_back() {
        // No machine has it.
        let cpu = CpuSet::MAX_CPU;
        let first = claim(cpu).unwrap();
        assert!(claim(cpu).is_none());
        drop(first);
        assert!(claim(cpu).is_some());
    }
}
