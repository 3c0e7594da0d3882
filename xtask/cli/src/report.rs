//! Flags of `report` and `history`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

/// Flags of `report`.
#[derive(Debug, Args)]
#[command(after_help = "\
A RUN is a run folder, the name of one in runs/, or a run of the history: the first digits of its id, latest, latest~1 …")]
pub struct Report {
    /// Runs; the first is the one that others are compared with [default: the latest in runs/].
    #[arg(value_name = "RUN")]
    pub runs: Vec<String>,
    /// The page [default: report.html in the first run's folder].
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Scale curves from this file, made by: cargo xtask bench --json FILE [default: runs/bench.json, if it is there].
    #[arg(long, value_name = "FILE")]
    pub bench: Option<PathBuf>,
    /// Where the history is [default: TAKT_HISTORY, or runs/.history].
    #[arg(long, value_name = "DIR")]
    pub history: Option<PathBuf>,
}

/// Flags of `history`.
#[derive(Debug, Args)]
#[command(after_help = "\
A run is named by the first digits of its id, or as latest, latest~1 (the one before) …
latency-run keeps every run (unless --no-history) as a file in runs/.history.
Environment: TAKT_HISTORY is the folder to use instead of runs/.history.")]
pub struct History {
    /// Where the history is [default: TAKT_HISTORY, or runs/.history].
    #[arg(long, value_name = "DIR", global = true)]
    pub history: Option<PathBuf>,
    /// What to do.
    #[command(subcommand)]
    pub command: HistoryCommand,
}

/// The commands of `history`.
#[derive(Debug, Subcommand)]
pub enum HistoryCommand {
    /// Lists the runs, the latest first.
    List(HistoryList),
    /// Shows a run: configuration, revision, figures.
    Show(HistoryShow),
    /// Compares two runs of the same configuration: exactly under icount; in real time tests the runs like each.
    Compare(HistoryCompare),
    /// Merges the histograms of runs of the same configuration and shows the figures of all samples together.
    Merge(HistoryMerge),
    /// Draws a metric over the runs of one configuration.
    Plot(HistoryPlot),
    /// Removes all but the latest runs, with their folders in runs/.
    Prune(HistoryPrune),
}

/// Which runs.
#[derive(Debug, Args)]
pub struct HistoryFilter {
    /// Only runs whose configuration has this field with this value, as in load=mix or period_ns=1000000; `show` lists
    /// the fields. May be repeated.
    #[arg(long = "config", value_name = "FIELD=VALUE")]
    pub fields: Vec<String>,
    /// Only runs of the same configuration as this one.
    #[arg(long, value_name = "RUN")]
    pub like: Option<String>,
}

/// Flags of `history list`.
#[derive(Debug, Args)]
pub struct HistoryList {
    /// Which runs.
    #[command(flatten)]
    pub filter: HistoryFilter,
    /// At most so many, 1 or more.
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub limit: Option<u64>,
    /// As JSON.
    #[arg(long)]
    pub json: bool,
}

/// Flags of `history show`.
#[derive(Debug, Args)]
pub struct HistoryShow {
    /// The run.
    #[arg(value_name = "RUN", default_value = "latest")]
    pub run: String,
    /// As JSON, with the histograms.
    #[arg(long)]
    pub json: bool,
}

/// Flags of `history compare`.
#[derive(Debug, Args)]
#[command(after_help = "\
Under icount both runs are exact, so every difference is one: it is printed in instructions.
In real time the samples of a run depend on one another, and two runs of one system differ too. So for the two runs only \
their distance is printed (Kolmogorov-Smirnov's D, and the probability that a sample of B is larger), no p-value. Evidence \
of a difference of the systems are further runs: all passed ones of A's configuration, revision, host and QEMU count with \
A, likewise with B (none with a revision that is -dirty or with an image of your own: name them, A1,A2,A3,A4 B1,B2,B3,B4). \
With 4 of each a permutation test is made, in which a run is one observation: p50, p99 and max of every latency, in \
logarithms, all together at a level of 5 % (Westfall and Young's max T). It takes runs made in turns: what changed on the \
host between A's and B's looks like a difference of theirs. The level is for one look: decide beforehand how many runs. What \
did not pass, or was interrupted, is no evidence (--force counts what you name).
Exit codes: 0 no difference, none shown, or no verdict (--json: replication.verdict), 1 error, 2 there is one, or only one of \
the two runs has measured a latency.")]
pub struct HistoryCompare {
    /// The run to compare with, or several with commas in between.
    #[arg(value_name = "A")]
    pub a: String,
    /// The run that is compared, or several.
    #[arg(value_name = "B", default_value = "latest")]
    pub b: String,
    /// Also if their configurations differ, and with named runs that did not pass or were interrupted.
    #[arg(long)]
    pub force: bool,
    /// As JSON.
    #[arg(long)]
    pub json: bool,
}

/// Flags of `history merge`.
#[derive(Debug, Args)]
pub struct HistoryMerge {
    /// The runs, two or more.
    #[arg(value_name = "RUN", required = true, num_args = 2..)]
    pub runs: Vec<String>,
    /// Also if their configurations differ; they must have measured the same CPUs all the same.
    #[arg(long)]
    pub force: bool,
    /// As JSON, with the histograms.
    #[arg(long)]
    pub json: bool,
}

/// Flags of `history plot`.
#[derive(Debug, Args)]
pub struct HistoryPlot {
    /// What to draw, over all measured CPUs.
    #[arg(value_enum, value_name = "METRIC")]
    pub metric: Metric,
    /// The picture, an SVG file [default: METRIC.svg].
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Which runs [default: those of the latest run's configuration].
    #[command(flatten)]
    pub filter: HistoryFilter,
}

/// Flags of `history prune`.
#[derive(Debug, Args)]
pub struct HistoryPrune {
    /// How many runs are kept, the latest.
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub keep: usize,
    /// Only says what would be removed.
    #[arg(short = 'n', long)]
    pub dry_run: bool,
}

/// What can be drawn of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[expect(missing_docs, reason = "their names say it")]
pub enum Metric {
    IrqMin,
    IrqAvg,
    IrqP50,
    IrqP99,
    IrqP999,
    IrqMax,
    ThreadMin,
    ThreadAvg,
    ThreadP50,
    ThreadP99,
    ThreadP999,
    ThreadMax,
}
