//! `history compare`: two runs of the same configuration.

use std::process::ExitCode;

use anyhow::{Result, anyhow};
use serde::Serialize;
use serde_json::json;
use takt_timerlat::stats::ExactHistogram;
use xtask::cli::HistoryCompare as Flags;
use xtask::history::Entry;
use xtask::report::Run;
use xtask::report::judge::slot_name;
use xtask::term::{WithHelp, note};

use super::{Database, columns, figures, or_dash, print, print_json, select};
use crate::source::is_exact;
use crate::stats::{self, LEVEL, Tests};

/// Exit code of a comparison that found a difference.
const DIFFERENT: u8 = 2;

/// Compares and prints.
pub(super) fn run(database: &Database, flags: &Flags) -> Result<ExitCode> {
    let entry = |name: &str| database.entry(&select::one(database, name)?);
    let (a, b) = (entry(&flags.a)?, entry(&flags.b)?);
    check_alike(&a, &b, flags.force)?;
    let comparison = Comparison::new(&a.run()?, &b.run()?);
    if flags.json {
        let document = json!({
            "schema": "takt.history-compare/1", "a": a.id, "b": b.id,
            "is_exact": comparison.is_exact, "is_different": comparison.is_different(),
            "latencies": comparison.latencies,
        });
        print_json(&document)?;
    } else {
        let head: Vec<_> = [("A", &a), ("B", &b)]
            .map(|(name, entry)| {
                vec![
                    name.to_owned(),
                    select::short(&entry.id).to_owned(),
                    format!("revision {}", entry.record.git),
                    entry.record.result.word().to_owned(),
                ]
            })
            .to_vec();
        print(&format!(
            "{}\n{}",
            columns(&head, |_| false),
            comparison.text()
        ))?;
    }
    Ok(if comparison.is_different() {
        ExitCode::from(DIFFERENT)
    } else {
        ExitCode::SUCCESS
    })
}

/// Refuses runs of different configurations unless the user insists, and says what differs.
pub(super) fn check_alike(a: &Entry, b: &Entry, is_forced: bool) -> Result<()> {
    let differences = a.configuration().differences(&b.configuration());
    if differences.is_empty() {
        return Ok(());
    }
    let lines: Vec<_> = differences
        .iter()
        .map(|(field, ours, theirs)| format!("{field}: {ours} and {theirs}"))
        .collect();
    let said = format!(
        "{} and {} have different configurations: {}",
        select::short(&a.id),
        select::short(&b.id),
        lines.join("; ")
    );
    if is_forced {
        note(said);
        return Ok(());
    }
    Err(anyhow!(said)).help("--force does it all the same")
}

/// One latency of one measured thread in both runs.
#[derive(Clone, Debug, Serialize)]
pub struct Latency {
    /// Which CPU, which measured thread, IRQ or thread.
    pub name: String,
    /// Samples of both.
    pub count: (u64, u64),
    /// Figures of both.
    pub figures: Vec<(&'static str, Option<u64>, Option<u64>)>,
    /// Whether every sample is the same.
    pub is_identical: bool,
    /// The tests; `None` if the figures are exact.
    pub tests: Option<Tests>,
}

/// Two runs beside one another.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// Whether both are exact, so that any difference is one.
    pub is_exact: bool,
    /// What both have measured.
    pub latencies: Vec<Latency>,
    /// What only one has measured.
    pub unmatched: Vec<String>,
}

impl Comparison {
    /// Compares two runs.
    #[must_use]
    pub fn new(a: &Run, b: &Run) -> Self {
        let is_exact = is_exact(a) && is_exact(b);
        let (ours, theirs) = (named(a), named(b));
        let mut unmatched: Vec<_> = theirs
            .iter()
            .filter(|(name, _)| !ours.iter().any(|(known, _)| known == name))
            .map(|(name, _)| name.clone())
            .collect();
        let mut latencies = Vec::new();
        for (name, a) in ours {
            match theirs.iter().find(|(known, _)| *known == name) {
                Some((_, b)) => latencies.push(latency(name, a, b, is_exact)),
                None => unmatched.push(name),
            }
        }
        Self {
            is_exact,
            latencies,
            unmatched,
        }
    }

    /// Whether there is a difference, or one is shown.
    #[must_use]
    pub fn is_different(&self) -> bool {
        !self.unmatched.is_empty() || self.latencies.iter().any(Latency::is_different)
    }

    /// In words, a line for each latency.
    #[must_use]
    pub fn words(&self) -> Vec<String> {
        let mut lines: Vec<_> = self
            .latencies
            .iter()
            .map(|it| format!("{}: {}", it.name, it.words()))
            .collect();
        lines.extend(
            self.unmatched
                .iter()
                .map(|name| format!("{name}: only one of the runs has measured it")),
        );
        lines
    }

    /// As text with all figures.
    fn text(&self) -> String {
        let mut out = String::from(if self.is_exact {
            "Both runs are exact: a difference of 1 ns is one instruction.\n"
        } else {
            "Real time: what differs by chance and what does not is for statistical tests.\n"
        });
        for it in &self.latencies {
            let mut rows = vec![["", "A", "B", "difference"].map(String::from).to_vec()];
            rows.push(vec![
                "count".into(),
                it.count.0.to_string(),
                it.count.1.to_string(),
                signed(Some(it.count.0), Some(it.count.1), ""),
            ]);
            let unit = if self.is_exact { " insn" } else { " ns" };
            for &(name, a, b) in &it.figures {
                rows.push(vec![
                    name.into(),
                    or_dash(a),
                    or_dash(b),
                    signed(a, b, unit),
                ]);
            }
            out += &format!("\n{}\n{}", it.name, columns(&rows, |nr| nr > 0));
            out += &match &it.tests {
                Some(tests) => tests.lines().join("\n  ") + "\n",
                None => it.words() + "\n",
            };
        }
        for name in &self.unmatched {
            out += &format!("\n{name}: only one of the runs has measured it\n");
        }
        out
    }
}

impl Latency {
    /// Whether there is a difference, or one is shown.
    #[must_use]
    pub fn is_different(&self) -> bool {
        match &self.tests {
            None => !self.is_identical,
            Some(tests) => tests.is_different(),
        }
    }

    /// What the comparison says.
    #[must_use]
    pub fn words(&self) -> String {
        if let Some(tests) = &self.tests {
            return tests.words();
        }
        if self.is_identical {
            return "identical: every sample is the same".into();
        }
        let (a, b) = self.count;
        let counted = (a != b).then(|| format!("{} samples", signed(Some(a), Some(b), "")));
        let changed: Vec<_> = self
            .figures
            .iter()
            .filter(|(_, a, b)| a != b)
            .map(|&(name, a, b)| format!("{name} {}", signed(a, b, "")))
            .collect();
        match (counted, &*changed) {
            (None, []) => {
                "different, though none of these figures is: other samples changed".into()
            }
            (Some(counted), []) => format!("different: {counted}, the same figures"),
            (None, changed) => format!("different: {} instructions", changed.join(", ")),
            (Some(counted), changed) => {
                format!("different: {} instructions; {counted}", changed.join(", "))
            }
        }
    }
}

/// A run's latencies that have samples, by name.
fn named(run: &Run) -> Vec<(String, &ExactHistogram)> {
    let mut all = Vec::new();
    for (slot, both) in run.record.slots.iter().zip(&run.distributions) {
        let place = slot_name(run.record.config.workload, slot);
        for (which, histogram) in both.named() {
            if histogram.count() != 0 {
                all.push((format!("{place} {which} latency"), histogram));
            }
        }
    }
    all
}

fn latency(name: String, a: &ExactHistogram, b: &ExactHistogram, is_exact: bool) -> Latency {
    let both = figures(a).into_iter().zip(figures(b));
    Latency {
        name,
        count: (a.count(), b.count()),
        figures: both.map(|((name, a), (_, b))| (name, a, b)).collect(),
        is_identical: a == b,
        tests: (!is_exact).then(|| stats::test(a, b, LEVEL)),
    }
}

/// The difference with its sign.
fn signed(a: Option<u64>, b: Option<u64>, unit: &str) -> String {
    let (Some(a), Some(b)) = (a, b) else {
        return "-".into();
    };
    match i128::from(b) - i128::from(a) {
        0 => "=".into(),
        more => format!("{more:+}{unit}"),
    }
}
