//! [`Summary`]: what a list shows of a run.

use anyhow::Result;
use serde::{Deserialize, Serialize};

use super::Entry;
use takt_base::units::format_ns;
use takt_machine::record::Distributions;

/// The first line of a run's file, so that thousands can be listed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(
    missing_docs,
    reason = "the columns of the list, in words where it has words"
)]
pub struct Summary {
    /// Check sum of the run's file, this one left out.
    pub sum: u64,
    pub revision: String,
    pub outcome: String,
    pub clock: String,
    pub workload: String,
    pub period: String,
    pub duration: String,
    pub load: String,
    /// The [configuration](super::Configuration)'s key.
    pub configuration: String,
    /// Over all measured threads, in ns.
    pub irq_max: Option<u64>,
    pub thread_p50: Option<u64>,
    pub thread_p99: Option<u64>,
    pub thread_max: Option<u64>,
}

impl Summary {
    /// That of a run, without a check sum.
    ///
    /// # Errors
    ///
    /// If the run's histograms are not those of its record.
    pub fn of(entry: &Entry) -> Result<Self> {
        let record = &entry.record;
        let config = &record.config;
        let Distributions { irq, thread, .. } = entry.run()?.over_all();
        Ok(Self {
            sum: 0,
            revision: record.git.clone(),
            outcome: record.outcome(),
            clock: record.accel.accel.name().into(),
            workload: config.workload.to_string(),
            period: format_ns(config.period_ns),
            duration: config.duration(),
            load: config.load.to_string(),
            configuration: entry.configuration().key(),
            irq_max: irq.max(),
            thread_p50: thread.percentile(500),
            thread_p99: thread.percentile(990),
            thread_max: thread.max(),
        })
    }
}
