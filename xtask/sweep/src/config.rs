//! What is swept, and how.

use anyhow::{Result, ensure};
use serde::{Deserialize, Serialize};
use takt_timerlat::sweep;
use takt_tracer::wire;

use takt_guest::Elf;
use takt_machine::qemu::{self, Accel};
use takt_machine::run::config::clock_keys;
use takt_machine::run::execute::with_words;

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

    /// Of all workloads but the loads those in which switches count times, or the others.
    #[must_use]
    pub fn primitives_by(counts_at_switches: bool) -> Vec<Self> {
        Self::workloads(|it| !it.is_load && it.counts_at_switches == counts_at_switches)
    }

    /// All loads.
    #[must_use]
    pub fn loads() -> Vec<Self> {
        Self::workloads(|it| it.is_load)
    }

    fn workloads(is_meant: impl Fn(&sweep::Named) -> bool) -> Vec<Self> {
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

    /// Whether that can be swept at all: what was read from a file may say anything.
    ///
    /// # Errors
    ///
    /// What is wrong with it.
    pub fn check(&self) -> Result<()> {
        ensure!(!self.what.is_empty(), "`what` names no stretch");
        for what in &self.what {
            if let What::Workload(name) = what {
                ensure!(
                    sweep::find(name).is_some(),
                    "`what` names the workload `{name}`, which this Takt does not have"
                );
            }
        }
        ensure!(self.step > 0, "`step` is 0, not 1 or more");
        ensure!(self.window_ns != Some(0), "`window_ns` is 0, not 1 or more");
        ensure!(
            sweep::PRIORITIES.contains(&self.priority),
            "`priority` is {}, not {} to {}",
            self.priority,
            sweep::PRIORITIES.start(),
            sweep::PRIORITIES.end()
        );
        Ok(())
    }

    /// A check sum of all that the results of one of its stretches depend on.
    #[must_use]
    pub fn key(&self, what: &What) -> u64 {
        let of_one = Self {
            what: vec![what.clone()],
            ..self.clone()
        };
        // Numbers and strings: that does not fail.
        wire::checksum(&serde_json::to_vec(&of_one).unwrap_or_default())
    }

    /// What another plan has otherwise, for a reader.
    #[must_use]
    pub fn difference(&self, other: &Self) -> String {
        fn one(what: &str, ours: impl ToString, its: impl ToString) -> Option<String> {
            let (ours, its) = (ours.to_string(), its.to_string());
            (ours != its).then(|| format!("{what} {its}, not {ours}"))
        }
        let names = |it: &Self| it.what.iter().map(What::name).collect::<Vec<_>>().join(",");
        let window = |it: &Self| it.window_ns.map_or("all".into(), |ns| format!("{ns} ns"));
        let ids = |it: &Self| format!("{:?}", it.event_ids);
        let sum = |it: &Self| format!("{:016x}", it.image);
        let found = [
            one("an image of check sum", sum(self), sum(other)),
            one("QEMU", &self.qemu, &other.qemu),
            one("the stretches", names(self), names(other)),
            one("--window", window(self), window(other)),
            one("--step", self.step, other.step),
            one("--priority", self.priority, other.priority),
            one("events of ids", ids(self), ids(other)),
            one(
                "--append",
                format!("`{}`", self.words),
                format!("`{}`", other.words),
            ),
        ];
        let found: Vec<_> = found.into_iter().flatten().collect();
        if found.is_empty() {
            return "functions of the same names at other addresses".into();
        }
        found.join("; ")
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A change, and what is said of it.
    type Case = (fn(&mut SweepConfig), &'static str);

    fn config() -> SweepConfig {
        SweepConfig {
            what: vec![What::Marked, What::Workload("semaphore".into())],
            window_ns: None,
            step: 1,
            priority: 95,
            event_ids: Vec::new(),
            words: String::new(),
            image: 7,
            qemu: "QEMU".into(),
        }
    }

    #[test]
    fn what_cannot_be_swept_is_said() {
        config().check().unwrap();
        let wrong: [Case; 5] = [
            (|it| it.step = 0, "`step` is 0"),
            (|it| it.window_ns = Some(0), "`window_ns` is 0"),
            (|it| it.priority = 69, "`priority` is 69, not 70 to 99"),
            (|it| it.what.clear(), "no stretch"),
            (
                |it| it.what.push(What::Workload("x".into())),
                "workload `x`",
            ),
        ];
        for (change, says) in wrong {
            let mut config = config();
            change(&mut config);
            let error = config.check().unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
        }
    }

    #[test]
    fn each_difference_is_named_and_changes_the_key() {
        let different: [Case; 7] = [
            (
                |it| it.image = 8,
                "an image of check sum 0000000000000008, not 0000000000000007",
            ),
            (|it| it.qemu = "Q".into(), "QEMU Q, not QEMU"),
            (|it| it.window_ns = Some(5), "--window 5 ns, not all"),
            (|it| it.step = 3, "--step 3, not 1"),
            (|it| it.priority = 99, "--priority 99, not 95"),
            (|it| it.event_ids = vec![1], "events of ids [1], not []"),
            (|it| it.words = "a=b".into(), "--append `a=b`, not ``"),
        ];
        let one = config();
        for (change, says) in different {
            let mut other = config();
            change(&mut other);
            assert_eq!(one.difference(&other), says);
            assert_ne!(one.key(&What::Marked), other.key(&What::Marked), "{says}");
        }
        let mut fewer = config();
        fewer.what.pop();
        assert_eq!(
            one.difference(&fewer),
            "the stretches marked, not marked,semaphore"
        );
        assert_eq!(
            one.key(&What::Marked),
            fewer.key(&What::Marked),
            "what is measured of a stretch does not depend on the others"
        );
    }
}
