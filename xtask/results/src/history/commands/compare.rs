//! `history compare`: two runs of the same configuration, sample by sample where they are exact; in real time how far they
//! are apart, and what [`replication`](super::replication) says of the systems behind them.

use std::process::ExitCode;

use crate::history::History;
use anyhow::{Result, anyhow};
use serde::Serialize;
use serde_json::json;
use takt_base::term::WithHelp;
use takt_machine::judge::slot_name;
use takt_machine::record::Run;
use takt_timerlat::stats::ExactHistogram;

use super::replication::{Replication, Verdict};
use super::sides::{self, Side};
use super::{columns, figures, or_dash, print, print_json, select};
use crate::source::is_exact;
use crate::stats::{self, Distance};

/// Exit code of a comparison that found a difference.
const DIFFERENT: u8 = 2;

/// Compares the runs that two texts name and prints what differs; with `force` also those of different configurations.
///
/// # Errors
///
/// If they cannot be read or compared.
pub fn run(
    history: &History,
    (a, b): (&str, &str),
    force: bool,
    is_json: bool,
) -> Result<ExitCode> {
    let (mut a, mut b) = (Side::named(history, a)?, Side::named(history, b)?);
    sides::check_distinct(&a, &b)?;
    for other in a.runs.iter().chain(&b.runs).skip(1) {
        sides::check_alike(a.first(), other, force)?;
    }
    let comparison = Comparison::new(&a.first().run()?, &b.first().run()?);
    let replication = if comparison.is_exact {
        refuse_lists(&a, &b)?;
        None
    } else {
        sides::add_replicates(history, &mut a, &mut b)?;
        a.leave_out_unsound(force);
        b.leave_out_unsound(force);
        Some(Replication::new(&a, &b)?)
    };
    let is_different = comparison.is_different()
        || replication
            .as_ref()
            .is_some_and(|it| it.verdict == Verdict::Different);
    if is_json {
        print_json(&json!({
            "schema": "takt.history-compare/2", "a": a.first().id, "b": b.first().id,
            "is_exact": comparison.is_exact, "is_different": is_different,
            "latencies": comparison.latencies, "unmatched": comparison.unmatched, "replication": replication,
        }))?;
    } else {
        let replication = replication.map(|it| format!("\n{}", it.text()));
        let unmatched = match &*comparison.unmatched {
            [] => String::new(),
            names => format!(
                "Exit code 2: only one of the two runs has measured {}.\n",
                names.join(", ")
            ),
        };
        print(&format!(
            "{}\n{}{}{unmatched}",
            head(&a, &b),
            comparison.text(),
            replication.unwrap_or_default()
        ))?;
    }
    Ok(if is_different {
        ExitCode::from(DIFFERENT)
    } else {
        ExitCode::SUCCESS
    })
}

/// Exact runs of one system are all the same, so there is nothing to count together.
fn refuse_lists(a: &Side, b: &Side) -> Result<()> {
    if a.is_list || b.is_list {
        return Err(anyhow!(
            "these runs are exact: they are compared two by two, sample by sample"
        ))
        .help("name one run for A and one for B; `history merge` puts the samples of several together");
    }
    Ok(())
}

/// A line for each side.
fn head(a: &Side, b: &Side) -> String {
    let line = |(name, side): (&str, &Side)| {
        let entry = side.first();
        let mut cells = vec![
            name.to_owned(),
            select::short(&entry.id).to_owned(),
            format!("revision {}", entry.record.git),
            entry.record.outcome(),
        ];
        cells.extend(match side.runs.len() + side.unsound.len() - 1 {
            0 => None,
            1 => Some("and 1 further run".into()),
            more => Some(format!("and {more} further runs")),
        });
        cells
    };
    columns(&[("A", a), ("B", b)].map(line), |_| false)
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
    /// How far they are apart; `None` if the figures are exact.
    pub distance: Option<Distance>,
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

    /// Whether there is a difference for sure. In real time two runs are no evidence of one, unless they have measured
    /// different things.
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
            "Real time: this is how far these two runs are apart. What it means for the systems stands at the end.\n"
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
            out += &match &it.distance {
                Some(distance) => distance.words() + "\n",
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
    /// Whether there is a difference for sure.
    #[must_use]
    pub fn is_different(&self) -> bool {
        self.distance.is_none() && !self.is_identical
    }

    /// What the comparison says.
    #[must_use]
    pub fn words(&self) -> String {
        if let Some(distance) = &self.distance {
            return format!(
                "{}; so far are these two runs apart, and whether the systems differ takes several runs of each \
                 (cargo xtask history compare)",
                distance.words()
            );
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
pub(super) fn named(run: &Run) -> Vec<(String, &ExactHistogram)> {
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
        distance: (!is_exact).then(|| stats::distance(a, b)),
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
