//! The limits: how far below the other system's latencies ours must be.

use serde::{Deserialize, Serialize};
use takt_timerlat::stats::ExactHistogram;

use crate::report::record::Distributions;

/// Our IRQ latency must be below this part of the other's.
pub const IRQ_PART: u64 = 10;
/// Our thread latency must be below this part of the other's.
pub const THREAD_PART: u64 = 15;

/// One limit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limit {
    /// Of which latency: `irq` or `thread`.
    pub latency: String,
    /// Of which figure: `median` or `max`.
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

/// Median and maximum of both latencies. Without samples there are none.
#[must_use]
pub fn limits(takt: &Distributions, linux: &Distributions) -> Vec<Limit> {
    type Figure = fn(&ExactHistogram) -> Option<u64>;
    let figures: [(&str, Figure); 2] = [
        ("median", |all| all.percentile(500)),
        ("max", ExactHistogram::max),
    ];
    let mut limits = Vec::new();
    for (latency, takt, linux, part) in [
        ("irq", &takt.irq, &linux.irq, IRQ_PART),
        ("thread", &takt.thread, &linux.thread, THREAD_PART),
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
            let limits = limits(&distributions(irq, thread), &linux);
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
        assert!(limits(&none, &distributions(&[1], &[1])).is_empty());
    }
}
