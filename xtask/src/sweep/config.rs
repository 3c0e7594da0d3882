//! What is swept, and how.

use serde::{Deserialize, Serialize};
use takt_timerlat::sweep;
use takt_tracer::wire;

use crate::image::Elf;
use crate::qemu::{self, Accel};
use crate::run::config::clock_keys;
use crate::run::execute::with_words;

/// A stretch of code.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum What {
    /// A workload of [`sweep::WORKLOADS`].
    Workload(String),
    /// What the image marks itself.
    Marked,
    /// Calls of a function.
    Entry {
        /// Its name.
        symbol: String,
        /// Its address.
        address: u64,
    },
}

impl What {
    /// All workloads but the loads.
    #[must_use]
    pub fn primitives() -> Vec<Self> {
        Self::workloads(|it| !it.is_load)
    }

    /// All loads.
    #[must_use]
    pub fn loads() -> Vec<Self> {
        Self::workloads(|it| it.is_load)
    }

    fn workloads(is_meant: fn(&sweep::Named) -> bool) -> Vec<Self> {
        let names = sweep::WORKLOADS.iter().filter(|it| is_meant(it));
        names.map(|it| Self::Workload(it.name.into())).collect()
    }

    /// The name in tables and files.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Workload(name) => name,
            Self::Marked => "marked",
            Self::Entry { symbol, .. } => symbol,
        }
    }

    /// The name as a part of a file's name.
    #[must_use]
    pub fn file_stem(&self) -> String {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        self.name()
            .chars()
            .map(|c| if is_plain(c) { c } else { '_' })
            .collect()
    }

    /// Whether its stretch is a window of time.
    #[must_use]
    pub fn is_load(&self) -> bool {
        matches!(self, Self::Workload(name)
            if sweep::find(name).is_some_and(|number| sweep::WORKLOADS[number].is_load))
    }

    fn words(&self) -> String {
        match self {
            Self::Workload(name) => {
                format!("sweep={}", sweep::find(name).unwrap_or(usize::MAX))
            }
            Self::Marked => "sweep=marked".into(),
            Self::Entry { address, .. } => format!("sweep_entry={address:#x}"),
        }
    }
}

/// A sweep's parameters: those that its results depend on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SweepConfig {
    /// The stretches.
    pub what: Vec<What>,
    /// Length of a load's stretch, and the most that is swept of any, in nanoseconds.
    pub window_ns: Option<u64>,
    /// Instructions from one arrival to the next.
    pub step: u32,
    /// Priority of the measured thread.
    pub priority: u8,
    /// Ids of the events that are on.
    pub event_ids: Vec<u32>,
    /// More words for the kernel's command line.
    pub words: String,
    /// Check sum of the image.
    pub image: u64,
    /// The QEMU that ran it.
    pub qemu: String,
}

/// A load's window if none is given.
pub const LOAD_WINDOW_NS: u64 = 20_000;

/// Arrivals behind the end of the undisturbed stretch.
const BEHIND: u32 = 64;
/// Of a load, whose rounds may be others.
const BEHIND_LOAD: u32 = 1024;

impl SweepConfig {
    /// Every instruction of these stretches of an image, with nothing recorded.
    #[must_use]
    pub fn new(what: Vec<What>, image: &Elf) -> Self {
        Self {
            what,
            window_ns: None,
            step: 1,
            priority: 95,
            event_ids: Vec::new(),
            words: String::new(),
            image: wire::checksum(&image.data),
            qemu: qemu::version().unwrap_or_default(),
        }
    }

    /// The kernel's command line for `count` arrivals of a stretch from `first` on.
    #[must_use]
    pub fn cmdline(&self, what: &What, first: u32, count: u32) -> String {
        let ids: Vec<_> = self.event_ids.iter().map(ToString::to_string).collect();
        let line = format!(
            "{} sweep_first={first} sweep_count={count} sweep_step={} sweep_window_ns={} prio={} events={} mode=overwrite{}",
            what.words(),
            self.step,
            self.window_ns.unwrap_or(LOAD_WINDOW_NS),
            self.priority,
            ids.join(","),
            clock_keys(Accel::TcgIcount),
        );
        with_words(line, &self.words)
    }

    /// How many boundaries of a stretch of this length are swept, if that is not all.
    #[must_use]
    pub fn limit(&self, length: u32) -> Option<u32> {
        let window = u32::try_from(self.window_ns?).unwrap_or(u32::MAX);
        (window < length).then_some(window)
    }

    /// How many arrivals that takes, with those before and behind, which the timer's lateness moves into it. The end of a
    /// stretch may lie behind that of the undisturbed one.
    #[must_use]
    pub fn arrivals(&self, what: &What, length: u32) -> u32 {
        let behind = if what.is_load() { BEHIND_LOAD } else { BEHIND };
        let swept = self.limit(length).unwrap_or(length + behind);
        (swept + sweep::EARLY).div_ceil(self.step)
    }
}
