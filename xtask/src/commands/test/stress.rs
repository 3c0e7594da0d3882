//! The random stress (`tests/src/bin/ontarget/stress`): in which machines, and with which seeds.

use super::guest::Boot;
use takt_cli::Test;
use takt_machine::qemu::Accel;

/// A machine that the stress is booted in.
#[derive(Clone, Copy, Debug)]
pub(super) struct Round {
    accel: Accel,
    cpus: u8,
    seed: u64,
    operations: u64,
    /// No other one before it has that machine.
    is_first: bool,
}

/// What a run of all tests takes, a few seconds in all. With several CPUs in real time an operation takes the longest.
const ROUNDS: [(Accel, u8, u64, u64); 9] = [
    (Accel::TcgIcount, 1, 1, 20_000),
    (Accel::TcgIcount, 1, 2, 20_000),
    (Accel::TcgIcount, 1, 3, 20_000),
    (Accel::TcgIcount, 2, 1, 10_000),
    (Accel::TcgIcount, 2, 2, 10_000),
    (Accel::TcgIcount, 4, 1, 10_000),
    (Accel::Tcg, 1, 1, 20_000),
    (Accel::Tcg, 2, 1, 2_000),
    (Accel::Tcg, 4, 1, 300),
];

/// So many operations may take another minute, if there are several CPUs.
const MANY: u64 = 50_000;

/// The rounds that the flags ask for.
pub(super) fn rounds(flags: &Flags) -> Vec<Round> {
    let mut rounds: Vec<_> = ROUNDS
        .map(|(accel, cpus, seed, operations)| Round {
            accel,
            cpus,
            seed: flags.seed.unwrap_or(seed),
            operations: flags.operations.unwrap_or(operations),
            is_first: true,
        })
        .into();
    rounds.dedup_by_key(|it| (it.accel, it.cpus, it.seed));
    for at in 1..rounds.len() {
        let before = &rounds[at - 1];
        rounds[at].is_first = (before.accel, before.cpus) != (rounds[at].accel, rounds[at].cpus);
    }
    rounds
}

/// What the user wants of the stress.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Flags {
    seed: Option<u64>,
    operations: Option<u64>,
}

impl From<&Test> for Flags {
    fn from(flags: &Test) -> Self {
        Self {
            seed: flags.seed,
            operations: flags.operations,
        }
    }
}

impl Round {
    /// What it is called in the results.
    pub(super) fn name(&self, test: &str) -> String {
        let clock = match self.accel {
            Accel::TcgIcount => "icount",
            _ => "real time",
        };
        format!("{test} (cpus={} {clock} seed={})", self.cpus, self.seed)
    }

    /// Words of the command line.
    pub(super) fn words(&self, test: &str) -> String {
        // Virtual CPUs that share few of the host's have it hard. Under icount time is instructions.
        let patience_ms = match self.accel {
            Accel::TcgIcount => 500,
            _ => 60_000,
        };
        format!(
            "test={test} cpus={} seed={} operations={} patience_ms={patience_ms}",
            self.cpus, self.seed, self.operations
        )
    }

    /// Whether what its CPUs do at the kernel's locks is counted: in the first machine that has two.
    pub(super) fn counts_waits(&self) -> bool {
        self.accel == Accel::TcgIcount && self.cpus == 2 && self.is_first
    }

    /// Of a machine with two CPUs in real time, the same with one: so many times as fast, or as slow, are two.
    pub(super) fn with_one_cpu(&self) -> Option<Self> {
        let is_two = self.accel == Accel::Tcg && self.cpus == 2;
        is_two.then_some(Self { cpus: 1, ..*self })
    }

    /// The boot, made of that of a test that boots alone. Who wants more operations has the time; virtual CPUs that share few
    /// of the host's get it.
    pub(super) fn boot<'b>(&self, boot: Boot<'b>) -> Boot<'b> {
        let share = match self.accel {
            Accel::TcgIcount => 0,
            _ => u32::from(self.cpus),
        };
        let more = u32::try_from(self.operations / MANY).unwrap_or(u32::MAX);
        let more = more.saturating_add(share);
        Boot {
            accel: self.accel,
            smp: self.cpus,
            limit: boot.limit.saturating_mul(more.saturating_add(1)),
            ..boot
        }
    }
}

/// Operations a millisecond, of the notes of a test that says how many it made in how long.
pub(super) fn rate(notes: &str) -> Option<f64> {
    let (nr, rest) = notes.split_once(" operations in ")?;
    let nr = nr.rsplit([' ', '(']).next()?.parse::<f64>().ok()?;
    let millis = rest.split_once(" ms")?.0.parse::<f64>().ok()?;
    (millis > 0.0).then_some(nr / millis)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_read_from_notes() {
        let notes = " (3 lives) (2000 operations in 80 ms, 25 lives)";
        assert_eq!(rate(notes), Some(25.0));
        assert_eq!(rate(" (2000 operations in 0 ms)"), None);
        assert_eq!(rate(" (100 operations)"), None);
    }

    #[test]
    fn a_seed_is_tried_once_in_each_machine() {
        let flags = Flags {
            seed: Some(7),
            operations: None,
        };
        let names: Vec<_> = rounds(&flags).iter().map(|it| it.name("s")).collect();
        assert_eq!(names.len(), 6);
        assert_eq!(names[0], "s (cpus=1 icount seed=7)");
        assert_eq!(rounds(&Flags::default()).len(), ROUNDS.len());
    }
}
