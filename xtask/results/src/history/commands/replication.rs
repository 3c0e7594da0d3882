//! Runs as observations: whether two groups of runs differ by more than runs of one system do.

use std::collections::BTreeSet;

use crate::history::Entry;
use anyhow::Result;
use serde::Serialize;
use takt_machine::record::Run;

use super::compare::named;
use super::sides::{self, Side};
use super::{columns, figures};
use crate::stats::{LEVEL, permutation};

/// Runs that each side needs: the 70 ways to divide 4 and 4 are the first that let p be below the level for either sign.
pub const MIN_RUNS: usize = 4;

/// What can be said of the systems.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// They differ.
    Different,
    /// The test did not show that they do.
    NotShown,
    /// There are not enough runs for a test.
    TooFewRuns,
    /// There is no latency that all runs have measured.
    NothingInCommon,
    /// There is only one.
    SameSystem,
}

/// A figure of a latency in each run.
#[derive(Clone, Debug, Serialize)]
pub struct Metric {
    /// Which latency.
    pub latency: String,
    /// Which figure of it.
    pub figure: &'static str,
    /// Its value in each run of A.
    pub a: Vec<u64>,
    /// Its value in each run of B.
    pub b: Vec<u64>,
    /// How many per cent the geometric mean over B's runs is above that over A's.
    pub change_percent: f64,
    /// The probability of a difference as large in any metric if there is none.
    pub p: f64,
}

/// What the runs of both sides say together.
#[derive(Clone, Debug, Serialize)]
pub struct Replication {
    /// What can be said.
    pub verdict: Verdict,
    /// The runs of A.
    pub a: Vec<String>,
    /// The runs of B.
    pub b: Vec<String>,
    /// The test's name.
    pub test: &'static str,
    /// Its level.
    pub level: f64,
    /// Ways to divide the runs that it tried; 0 if there was none.
    pub ways: u64,
    /// Whether these were all there are.
    pub is_complete: bool,
    /// What was tested.
    pub metrics: Vec<Metric>,
    /// What the reader has to know.
    pub caveats: Vec<String>,
}

/// The test in a few words.
const TEST: &str = "permutation test over runs, max T over all metrics";

/// What is tested of each latency. The rest hangs on these.
const FIGURES: [&str; 3] = ["p50", "p99", "max"];

impl Replication {
    /// Tests both sides if they have enough runs.
    ///
    /// # Errors
    ///
    /// If a run is damaged.
    pub(super) fn new(a: &Side, b: &Side) -> Result<Self> {
        let ids = |side: &Side| side.runs.iter().map(|run| run.id.clone()).collect();
        let mut made = Self {
            verdict: Verdict::TooFewRuns,
            a: ids(a),
            b: ids(b),
            test: TEST,
            level: LEVEL,
            ways: 0,
            is_complete: false,
            metrics: Vec::new(),
            caveats: Vec::new(),
        };
        if sides::are_same_system(a, b) {
            made.verdict = Verdict::SameSystem;
        } else if a.runs.len().min(b.runs.len()) >= MIN_RUNS {
            made.test(&a.runs, &b.runs)?;
        }
        if made.verdict != Verdict::SameSystem {
            made.caveats.extend(sides::caveats(a, b, made.ways != 0));
        }
        Ok(made)
    }

    fn test(&mut self, a: &[Entry], b: &[Entry]) -> Result<()> {
        let runs = |side: &[Entry]| side.iter().map(Entry::run).collect::<Result<Vec<_>>>();
        let (a, b) = (runs(a)?, runs(b)?);
        self.metrics = metrics(&a, &b);
        self.caveats = left_out(&a, &b, &self.metrics);
        if self.metrics.is_empty() {
            self.verdict = Verdict::NothingInCommon;
            return Ok(());
        }
        let logarithms: Vec<Vec<f64>> = self
            .metrics
            .iter()
            .map(|it| it.a.iter().chain(&it.b).map(|&ns| logarithm(ns)).collect())
            .collect();
        let found = permutation::test(&logarithms, a.len());
        self.ways = found.ways;
        self.is_complete = found.is_complete;
        for (metric, p) in self.metrics.iter_mut().zip(found.p) {
            metric.p = p;
        }
        self.verdict = if self.shown().next().is_some() {
            Verdict::Different
        } else {
            Verdict::NotShown
        };
        Ok(())
    }

    /// The metrics in which a difference is shown.
    fn shown(&self) -> impl Iterator<Item = &Metric> {
        self.metrics.iter().filter(|it| it.p <= LEVEL)
    }

    /// The verdict in a sentence, with the reason if there is none.
    #[must_use]
    pub fn sentence(&self) -> String {
        let percent = LEVEL * 100.0;
        let (nr_a, nr_b) = (self.a.len(), self.b.len());
        match self.verdict {
            Verdict::Different => {
                let each = self.shown().map(|it| {
                    let (latency, figure) = (&it.latency, it.figure);
                    format!("{figure} of {latency} {:+.1} %", it.change_percent)
                });
                let each: Vec<_> = each.collect();
                format!(
                    "A difference is shown at the level of {percent} %: {}.",
                    each.join(", ")
                )
            }
            Verdict::NotShown => format!(
                "No difference is shown at the level of {percent} % by {nr_a} runs of A and {nr_b} of B; a small one needs more runs."
            ),
            Verdict::TooFewRuns => format!(
                "No verdict: {nr_a} of A and {nr_b} of B are too few runs, it takes {MIN_RUNS} of each. Runs of one system \
                 differ too, so all this says how far these two runs are apart, not whether the systems differ."
            ),
            Verdict::NothingInCommon => {
                "No verdict: there is no latency that all of these runs have measured.".into()
            }
            Verdict::SameSystem => {
                "No verdict: A and B are of the same revision and configuration on the same host. \
                                    Where they differ, they do so as two runs of one system."
                    .into()
            }
        }
    }

    /// All of it as text.
    pub(super) fn text(&self) -> String {
        let mut out = String::new();
        if !self.metrics.is_empty() {
            let (nr_a, nr_b) = (self.a.len(), self.b.len());
            out += &format!(
                "{nr_a} runs of A and {nr_b} of B, geometric mean over the runs in ns:\n\n"
            );
            out += &self.table();
            out.push('\n');
        }
        out += &self.sentence();
        out.push('\n');
        if self.ways != 0 {
            let tried = if self.is_complete {
                "all"
            } else {
                "some of the"
            };
            out += &format!(
                "Test: permutation of runs, each of which is one observation. Statistic: how far the sides' means of a \
                 figure's logarithm are apart, scaled by its spread over all runs. p: how often the largest statistic of \
                 any figure is as large in {tried} ways ({}) to divide the runs, so it is for all figures together.\n",
                self.ways
            );
        }
        for caveat in &self.caveats {
            out += &format!("{caveat}\n");
        }
        out
    }

    fn table(&self) -> String {
        let mut rows = vec![["", "A", "B", "difference", "p"].map(String::from).to_vec()];
        for it in &self.metrics {
            rows.push(vec![
                format!("{} {}", it.latency, it.figure),
                geometric_mean(&it.a),
                geometric_mean(&it.b),
                format!("{:+.1} %", it.change_percent),
                probability(it.p),
            ]);
        }
        columns(&rows, |nr| nr > 0)
    }
}

/// The latencies that some runs have measured and others not, which are in no test.
fn left_out(a: &[Run], b: &[Run], metrics: &[Metric]) -> Vec<String> {
    let all: BTreeSet<_> = a
        .iter()
        .chain(b)
        .flat_map(named)
        .map(|(name, _)| name)
        .collect();
    let is_tested = |name: &String| metrics.iter().any(|it| it.latency == *name);
    let names: Vec<_> = all.into_iter().filter(|it| !is_tested(it)).collect();
    match &*names {
        [] => Vec::new(),
        names => vec![format!(
            "Not tested, since not every run has measured it: {}.",
            names.join(", ")
        )],
    }
}

/// The figures of the latencies that all runs have measured.
fn metrics(a: &[Run], b: &[Run]) -> Vec<Metric> {
    let mut metrics = Vec::new();
    for (latency, _) in a.first().map(named).unwrap_or_default() {
        for figure in FIGURES {
            let value = |run: &Run| {
                let all = named(run).into_iter().find(|(name, _)| *name == latency);
                let known = figures(all?.1);
                known.into_iter().find(|(name, _)| *name == figure)?.1
            };
            let values = |runs: &[Run]| runs.iter().map(value).collect::<Option<Vec<_>>>();
            let (Some(a), Some(b)) = (values(a), values(b)) else {
                continue;
            };
            metrics.push(Metric {
                change_percent: (mean_logarithm(&b) - mean_logarithm(&a)).exp_m1() * 100.0,
                latency: latency.clone(),
                figure,
                a,
                b,
                p: 1.0,
            });
        }
    }
    metrics
}

/// A host's disturbances multiply rather than add, and one enormous maximum must not hide what all others show.
///
/// 0 ns, which has none, counts as half of the smallest that is more.
fn logarithm(ns: u64) -> f64 {
    (ns as f64).max(0.5).ln()
}

/// No p of a permutation test is 0.
fn probability(p: f64) -> String {
    if p < 0.0001 {
        "<0.0001".into()
    } else {
        format!("{p:.4}")
    }
}

fn mean_logarithm(values: &[u64]) -> f64 {
    values.iter().map(|&ns| logarithm(ns)).sum::<f64>() / values.len() as f64
}

fn geometric_mean(values: &[u64]) -> String {
    match values {
        // That of equal values is the value, whatever rounding and 0 do.
        [first, rest @ ..] if rest.iter().all(|it| it == first) => first.to_string(),
        _ => format!("{:.0}", mean_logarithm(values).exp()),
    }
}
