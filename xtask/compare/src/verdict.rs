//! The limits: how far below the other system's latencies ours must be.

use serde::{Deserialize, Serialize};
use takt_timerlat::stats::ExactHistogram;

use takt_machine::record::Distributions;

/// Our IRQ latency must be below this part of the other's.
pub const IRQ_PART: u64 = 10;
/// Our thread latency must be below this part of the other's, and cyclictest's as well.
pub const THREAD_PART: u64 = 15;

/// One limit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limit {
    /// Of which latency: `irq`, `thread` or `cyclictest`.
    pub latency: String,
    /// Of which figure: `min`, `median` or `max`.
    pub figure: String,
    /// Ours in ns.
    pub takt_ns: u64,
    /// The other's in ns.
    pub linux_ns: u64,
    /// Below which part of the other's ours must be.
    pub part: u64,
    /// Whether it is.
    pub holds: bool,
}

impl Limit {
    fn new(latency: &str, figure: &str, takt_ns: u64, linux_ns: u64, part: u64) -> Self {
        Self {
            latency: latency.into(),
            figure: figure.into(),
            takt_ns,
            linux_ns,
            part,
            holds: u128::from(takt_ns) * u128::from(part) < u128::from(linux_ns),
        }
    }
}

/// How many limits there are.
pub const NR: usize = 7;

/// What a system has: timerlat's latencies, and cyclictest's.
pub type Measured<'m> = (&'m Distributions, &'m ExactHistogram);

/// Median and maximum of timerlat's latencies, and cyclictest's minimum as well. Without samples there are none.
#[must_use]
pub fn limits(takt: Measured<'_>, linux: Measured<'_>) -> Vec<Limit> {
    type Figure = fn(&ExactHistogram) -> Option<u64>;
    let figures: [(&str, Figure); 3] = [
        ("min", ExactHistogram::min),
        ("median", |all| all.percentile(500)),
        ("max", ExactHistogram::max),
    ];
    let mut limits = Vec::new();
    for (latency, takt, linux, part, figures) in [
        ("irq", &takt.0.irq, &linux.0.irq, IRQ_PART, &figures[1..]),
        (
            "thread",
            &takt.0.thread,
            &linux.0.thread,
            THREAD_PART,
            &figures[1..],
        ),
        ("cyclictest", takt.1, linux.1, THREAD_PART, &figures[..]),
    ] {
        for (figure, of) in figures {
            if let (Some(takt_ns), Some(linux_ns)) = (of(takt), of(linux)) {
                limits.push(Limit::new(latency, figure, takt_ns, linux_ns, part));
            }
        }
    }
    limits
}

#[cfg(test)]
mod tests {
    use super::*;

    fn distributions(irq: &[u64], thread: &[u64]) -> Distributions {
        let mut all = Distributions::default();
        irq.iter().for_each(|&ns| all.irq.record(ns));
        thread.iter().for_each(|&ns| all.thread.record(ns));
        all
    }

    #[test]
    fn below_means_below() {
        let linux = distributions(&[700, 720, 800], &[4200, 4275, 5250]);
        let holds = |irq: &[u64], thread: &[u64]| -> Vec<bool> {
            let none = ExactHistogram::new();
            let limits = limits((&distributions(irq, thread), &none), (&linux, &none));
            limits.iter().map(|limit| limit.holds).collect()
        };
        assert_eq!(holds(&[71, 71, 79], &[284, 284, 349]), [true; 4]);
        assert_eq!(
            holds(&[71, 72, 79], &[284, 285, 349]),
            [false, true, false, true]
        );
        assert_eq!(
            holds(&[71, 71, 80], &[284, 284, 350]),
            [true, false, true, false]
        );
    }

    #[test]
    fn without_samples_nothing_holds() {
        let none = Distributions::default();
        let some = distributions(&[1], &[1]);
        assert!(limits((&none, &none.irq), (&some, &some.irq)).is_empty());
    }

    #[test]
    fn cyclictest_has_a_minimum_too() {
        let none = Distributions::default();
        let of = |samples: &[u64]| distributions(samples, &[]).irq;
        let (takt, linux) = (of(&[200, 240, 390]), of(&[3000, 3600, 5850]));
        let limits = limits((&none, &takt), (&none, &linux));
        let said: Vec<_> = limits.iter().map(|it| (&*it.figure, it.holds)).collect();
        assert_eq!(said, [("min", false), ("median", false), ("max", false)]);
        assert!(
            limits
                .iter()
                .all(|it| it.latency == "cyclictest" && it.part == 15)
        );
    }
}
