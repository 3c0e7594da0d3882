//! [`Entry`]: a finished run, as the history keeps it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use takt_timerlat::stats::ExactHistogram;
use takt_tracer::wire;

use super::store;
use takt_base::schema;
use takt_machine::record::Run;
use takt_machine::record::{Distributions, RunRecord};

/// Schema of an entry.
pub const SCHEMA: &str = "takt.history/2";

/// What counts as configuration and is not in [`RunConfig`](takt_machine::run::RunConfig).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the fields are the flags of latency-run")]
pub struct Setup {
    pub append: String,
    pub live: bool,
    /// The image that the user named; `None` is our own.
    pub image: Option<String>,
    /// Whether every log level is in the image.
    pub has_all_logs: bool,
}

/// The distributions of a measured thread: value in ns and how often it came, ascending.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "names as in the reports")]
pub struct Histograms {
    pub irq: Vec<(u64, u64)>,
    pub thread: Vec<(u64, u64)>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub user: Vec<(u64, u64)>,
}

/// A finished run, as the history keeps it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// [`SCHEMA`].
    pub schema: String,
    /// 16 hexadecimal digits that no other run has.
    pub id: String,
    /// When it was over, in ns since 1970: the order of runs.
    pub finished_unix_ns: u64,
    /// Its folder when it ended. Another run may have replaced it since.
    pub folder: PathBuf,
    /// The rest of its configuration.
    pub setup: Setup,
    /// `run.json`.
    pub record: RunRecord,
    /// `hist.csv`, one for each of the record's slots.
    pub histograms: Vec<Histograms>,
}

impl Entry {
    /// The entry of a run, with an id of its own.
    ///
    /// # Errors
    ///
    /// If the system has no random numbers.
    pub fn new(run: &Run, folder: &Path, setup: Setup) -> Result<Self> {
        let buckets = |all: &ExactHistogram| all.iter().collect();
        Ok(Self {
            schema: SCHEMA.into(),
            id: store::random_id()?,
            finished_unix_ns: SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .map_or(0, |since| since.as_nanos() as u64),
            folder: folder.to_owned(),
            setup,
            record: run.record.clone(),
            histograms: run
                .distributions
                .iter()
                .map(|d| Histograms {
                    irq: buckets(&d.irq),
                    thread: buckets(&d.thread),
                    user: buckets(&d.user),
                })
                .collect(),
        })
    }

    /// Reads an entry.
    ///
    /// # Errors
    ///
    /// If it is none, or its parts do not belong together.
    pub fn parse(text: &str) -> Result<Self> {
        let value: Value = serde_json::from_str(text).context("it is no JSON")?;
        schema::check(&value, SCHEMA)?;
        let entry: Self = serde_json::from_value(value).context("it is damaged")?;
        if entry.id.len() != 16 || !entry.id.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            bail!("its id is not 16 hexadecimal digits");
        }
        entry.check()?;
        Ok(entry)
    }

    /// Whether the record's figures are those of the histograms.
    fn check(&self) -> Result<()> {
        if self.histograms.len() != self.record.slots.len() {
            bail!("it has not one histogram for each measured thread");
        }
        let buckets = self.histograms.iter();
        self.record
            .check_figures(buckets.map(|it| [&*it.irq, &*it.thread, &*it.user]))
            .context("its record and its histograms do not belong together")
    }

    /// The run that it is about.
    ///
    /// # Errors
    ///
    /// If the histograms are not those of the record.
    pub fn run(&self) -> Result<Run> {
        if self.histograms.len() != self.record.slots.len() {
            bail!("it has not one histogram for each measured thread");
        }
        let distributions = self.record.slots.iter().zip(&self.histograms);
        let distributions = distributions.map(|(slot, buckets)| {
            Ok(Distributions {
                irq: slot.irq.histogram(&buckets.irq)?,
                thread: slot.thread.histogram(&buckets.thread)?,
                user: (slot.user.as_ref())
                    .map_or_else(|| Ok(Default::default()), |it| it.histogram(&buckets.user))?,
            })
        });
        Ok(Run {
            record: self.record.clone(),
            distributions: distributions.collect::<Result<_>>()?,
        })
    }

    /// The run's configuration.
    #[must_use]
    pub fn configuration(&self) -> Configuration {
        Configuration::new(&self.record, &self.setup)
    }
}

/// All that makes two runs comparable: what was asked for, and on what it ran. The revision is no part of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Configuration(BTreeMap<String, Value>);

impl Configuration {
    /// That of a run.
    #[must_use]
    pub fn new(record: &RunRecord, setup: &Setup) -> Self {
        // Both are plain data with names for keys, which always serialise.
        let object = |value: serde_json::Result<Value>| match value {
            Ok(Value::Object(map)) => map,
            _ => serde_json::Map::new(),
        };
        let mut fields: BTreeMap<_, _> = object(serde_json::to_value(&record.config))
            .into_iter()
            .chain(object(serde_json::to_value(setup)))
            .collect();
        // What was asked for led to this.
        fields.remove("accel_asked");
        fields.insert("accel".into(), record.accel.accel.name().into());
        Self(fields)
    }

    /// Its fields, by name.
    pub fn fields(&self) -> impl Iterator<Item = (&str, String)> {
        self.0
            .iter()
            .map(|(name, value)| (name.as_str(), shown(value)))
    }

    /// A field as text.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<String> {
        self.0.get(name).map(shown)
    }

    /// The fields that differ, with both values.
    #[must_use]
    pub fn differences(&self, other: &Self) -> Vec<(String, String, String)> {
        let names: std::collections::BTreeSet<_> = self.0.keys().chain(other.0.keys()).collect();
        let text = |of: &Self, name: &String| of.0.get(name).map_or_else(|| "-".to_owned(), shown);
        names
            .into_iter()
            .filter(|name| self.0.get(*name) != other.0.get(*name))
            .map(|name| (name.clone(), text(self, name), text(other, name)))
            .collect()
    }

    /// Eight hexadecimal digits that are the same for equal configurations.
    #[must_use]
    pub fn key(&self) -> String {
        let text = serde_json::to_string(&self.0).unwrap_or_default();
        let sum = wire::checksum(text.as_bytes());
        format!("{:08x}", (sum >> 32) ^ (sum & 0xffff_ffff))
    }
}

/// A value as the user would write it.
fn shown(value: &Value) -> String {
    match value {
        Value::Null => "none".into(),
        Value::String(text) => text.clone(),
        Value::Array(list) => list.iter().map(shown).collect::<Vec<_>>().join(","),
        other => other.to_string(),
    }
}
