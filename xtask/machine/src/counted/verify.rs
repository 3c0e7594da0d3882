//! [`Verification`]: every latency of a run, held against the count of executed instructions.
//!
//! The deadline is not taken from the guest: activations lie on multiples of the period, staggered over the CPUs. From it
//! to the interrupt's time stamp and to the thread's reading of the clock is the latency as the count has it. The time that
//! was skipped in halts is known from the two records' time stamps, which are readings of the clock of their own.

use std::path::Path;

use anyhow::Result;

use super::walk::{Recorded, Walked, walk};
use crate::record::{Distributions, VerifiedRecord, WithoutTurns};
use crate::run::RunConfig;
use takt_guest::Elf;

/// What came of it.
#[derive(Clone, Debug, Default)]
pub struct Verification {
    /// How many activations there were, and how many hold.
    pub record: VerifiedRecord,
    /// What does not hold, the first of it.
    pub error: Option<String>,
    /// With several CPUs: of each, the latencies without the time in which others ran.
    pub without_turns: Vec<WithoutTurns>,
}

/// What is counted of a CPU.
#[derive(Debug, Default)]
struct Cpu {
    /// Of its first and its last activation.
    first_deadline: Option<u64>,
    last_deadline: Option<u64>,
    counted: Distributions,
    own: Distributions,
}

/// An activation's latencies as the count has them, in ns; below 0 if it came before its deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Counted {
    deadline: u64,
    irq: i64,
    thread: i64,
}

/// Checks one activation. `deadlines` are the activations' times, less those of the first CPU.
fn check(it: &Walked, config: &RunConfig) -> Result<Counted, String> {
    let executed = &it.executed;
    let Some(skipped) = it.skipped else {
        let first = |readings: &[u64]| readings.first().copied().unwrap_or_default();
        return Err(format!(
            "the time stamps of its two records are {} ns apart, and {} instructions were executed between them",
            (it.thread.unwrap_or(it.irq).recorded).wrapping_sub(it.irq.recorded),
            first(&executed.behind_sample).wrapping_sub(first(&executed.in_interrupt)),
        ));
    };
    let stamp = executed.stamp.wrapping_add(skipped);
    let deadline = deadline(stamp, it.irq.latency, it.cpu, config);
    let since = |count: u64| count.wrapping_add(skipped).wrapping_sub(deadline) as i64;
    let counted = Counted {
        deadline,
        irq: since(executed.stamp),
        thread: since(executed.sample),
    };
    for (which, recorded, counted) in [
        ("IRQ", Some(it.irq), counted.irq),
        ("thread", it.thread, counted.thread),
    ] {
        if let Some(Recorded {
            latency: recorded, ..
        }) = recorded
            && recorded != counted as u32
        {
            return Err(format!(
                "its {which} latency was measured as {recorded} ns, and is {counted} by the count of executed instructions"
            ));
        }
    }
    Ok(counted)
}

/// The activation's time that is the nearest to that of its interrupt's time stamp less the IRQ latency.
fn deadline(stamp: u64, latency: u32, cpu: u8, config: &RunConfig) -> u64 {
    let period = config.period_ns;
    let stagger = period / u64::from(config.smp) * u64::from(cpu);
    let about = stamp
        .saturating_add(period / 2)
        .saturating_sub(stagger + u64::from(latency));
    about / period * period + stagger
}

impl Verification {
    /// Verifies the run in `dir`; `measured` are the distributions that the guest has of each CPU, in the order of `cpus`.
    ///
    /// # Errors
    ///
    /// If the trace or the log cannot be read.
    pub fn of(
        dir: &Path,
        elf: &Elf,
        config: &RunConfig,
        measured: &[(u32, &Distributions)],
        is_stopped: bool,
    ) -> Result<Self> {
        let mut it = Self::default();
        let mut cpus: Vec<Cpu> = (0..config.smp).map(|_| Cpu::default()).collect();
        let unrecorded = walk(dir, elf, config, |walked, turns| {
            it.record.activations += 1;
            let cpu = &mut cpus[usize::from(walked.cpu)];
            let checked = check(walked, config).and_then(|counted| cpu.check_order(counted));
            match checked {
                Ok(counted) => {
                    it.record.verified += 1;
                    let own = |to: i64| {
                        let time = counted.deadline..counted.deadline.saturating_add_signed(to);
                        let others = walked.others(turns, time)?;
                        u64::try_from(to).ok()?.checked_sub(others)
                    };
                    if cpu.is_measured(counted, config) {
                        let own = own(counted.irq).zip(own(counted.thread));
                        cpu.count(counted, own);
                    }
                }
                Err(why) => {
                    it.error.get_or_insert_with(|| {
                        format!(
                            "activation {} on CPU {}: {why}",
                            walked.executed.number, walked.cpu
                        )
                    });
                }
            }
            Ok(())
        })?;
        it.record.activations += unrecorded;
        // When a threshold stops the run, tracing ends first.
        if unrecorded != 0 && !is_stopped {
            it.error.get_or_insert_with(|| {
                format!("{unrecorded} activations cannot be verified: the trace has not the records of their latencies")
            });
        }
        if unrecorded == 0 && it.error.is_none() {
            it.check_histograms(&cpus, measured);
        }
        if config.smp > 1 {
            let own = measured
                .iter()
                .filter_map(|(cpu, _)| Some((cpu, cpus.get(*cpu as usize)?)));
            it.without_turns = own
                .map(|(cpu, of)| WithoutTurns {
                    cpu: *cpu,
                    irq: (&of.own.irq).into(),
                    thread: (&of.own.thread).into(),
                })
                .collect();
        }
        Ok(it)
    }

    /// The table's figures must be those of the activations that were verified, each once.
    fn check_histograms(&mut self, cpus: &[Cpu], measured: &[(u32, &Distributions)]) {
        for (cpu, of_guest) in measured {
            let counted = cpus.get(*cpu as usize).map(|cpu| &cpu.counted);
            let is_same = |it: &Distributions| {
                of_guest.irq.is_of(&it.irq) && of_guest.thread.is_of(&it.thread)
            };
            if !counted.is_some_and(is_same) {
                self.error = Some(format!(
                    "CPU {cpu}: the histograms are not those of the latencies that were counted"
                ));
            }
        }
    }
}

impl Cpu {
    fn check_order(&mut self, counted: Counted) -> Result<Counted, String> {
        match self.last_deadline.replace(counted.deadline) {
            Some(before) if before >= counted.deadline => Err(format!(
                "by its latency it was due at {} ns, and the one before at {before}",
                counted.deadline
            )),
            _ => Ok(counted),
        }
    }

    /// Whether it came after the warm-up.
    fn is_measured(&mut self, counted: Counted, config: &RunConfig) -> bool {
        let first = *self.first_deadline.get_or_insert(counted.deadline);
        counted.deadline >= first + config.warm_up_ns
    }

    fn count(&mut self, counted: Counted, own: Option<(u64, u64)>) {
        let record = |into: &mut Distributions, irq, thread| {
            into.irq.record(irq);
            into.thread.record(thread);
        };
        record(
            &mut self.counted,
            counted.irq.unsigned_abs(),
            counted.thread.unsigned_abs(),
        );
        if let Some((irq, thread)) = own {
            record(&mut self.own, irq, thread);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::activations::Activation;
    use super::*;

    const SKIPPED: u64 = 5_000_000;

    fn config() -> RunConfig {
        RunConfig::from_cmdline("smp=2 period_ns=1000000", &[])
    }

    /// An activation of CPU 1, due at 7.5 ms, with latencies of 4 and 343 ns.
    fn activation() -> Walked {
        let sample = |latency, recorded| Recorded { latency, recorded };
        Walked {
            cpu: 1,
            executed: Activation {
                number: 7,
                stamp: 2_500_004,
                in_interrupt: vec![2_500_107],
                sample: 2_500_343,
                behind_sample: vec![2_500_355],
            },
            irq: sample(4, 7_500_107),
            thread: Some(sample(343, 7_500_355)),
            skipped: Some(SKIPPED),
        }
    }

    #[test]
    fn what_is_right_holds_and_every_other_figure_does_not() {
        let expected = Counted {
            deadline: 7_500_000,
            irq: 4,
            thread: 343,
        };
        assert_eq!(check(&activation(), &config()), Ok(expected));
        type Edit = fn(&mut Walked);
        let edits: [(Edit, &str); 6] = [
            (
                |it| it.irq.latency = 5,
                "IRQ latency was measured as 5 ns, and is 4",
            ),
            (|it| it.irq.latency = u32::MAX, "measured as 4294967295 ns"),
            (
                |it| it.thread.as_mut().unwrap().latency = 342,
                "thread latency was measured as 342 ns, and is 343",
            ),
            (
                |it| it.executed.stamp -= 1,
                "IRQ latency was measured as 4 ns, and is 3",
            ),
            (|it| it.executed.sample += 1, "and is 344"),
            (|it| it.skipped = Some(SKIPPED + 1), "and is 5"),
        ];
        for (edit, says) in edits {
            let mut it = activation();
            edit(&mut it);
            let error = check(&it, &config()).unwrap_err();
            assert!(error.contains(says), "{error}");
        }
    }

    #[test]
    fn records_that_contradict_the_count_are_named() {
        let mut it = activation();
        it.thread.as_mut().unwrap().recorded += 1;
        it.skipped = None;
        let error = check(&it, &config()).unwrap_err();
        assert!(
            error.contains("249 ns apart, and 248 instructions"),
            "{error}"
        );
    }

    #[test]
    fn activations_come_one_after_the_other() {
        let at = |deadline| Counted {
            deadline,
            irq: 4,
            thread: 343,
        };
        let mut cpu = Cpu::default();
        assert!(cpu.check_order(at(1000)).is_ok() && cpu.check_order(at(3000)).is_ok());
        for deadline in [3000, 2000] {
            assert!(cpu.check_order(at(deadline)).is_err());
        }
    }

    #[test]
    fn the_histograms_are_those_of_the_activations() {
        let mut cpu = Cpu::default();
        cpu.count(check(&activation(), &config()).unwrap(), None);
        let measured = cpu.counted.clone();
        let mut it = Verification::default();
        it.check_histograms(&[cpu], &[(0, &measured)]);
        assert_eq!(it.error, None);
        let mut one_more = measured.clone();
        one_more.irq.record(4);
        it.check_histograms(&[Cpu::default()], &[(0, &one_more)]);
        assert!(it.error.is_some());
    }
}
