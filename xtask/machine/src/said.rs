//! How results are said: how much of them, and the last lines of every report.

use std::fmt::Write;

use console::style;

use crate::record::Verdict;

/// How much is said.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Detail {
    /// The summary and the verdict.
    Quiet,
    /// Also header, histograms and trace.
    Normal,
    /// Also everything else: clocks, threads, command lines.
    Verbose,
}

impl Detail {
    /// What `--quiet` and so many `--verbose` ask for.
    #[must_use]
    pub fn of(is_quiet: bool, nr_verbose: u8) -> Self {
        match (is_quiet, nr_verbose) {
            (true, _) => Self::Quiet,
            (false, 0) => Self::Normal,
            (false, _) => Self::Verbose,
        }
    }
}

/// The last lines of every report: what is wrong, and the verdict with `why` behind it.
///
/// # Errors
///
/// Those of `out`.
pub fn result(
    out: &mut String,
    taint: &[String],
    error: Option<&str>,
    result: Verdict,
    why: &str,
) -> std::fmt::Result {
    for taint in taint {
        writeln!(out, "{:<12} {taint}", "tainted by")?;
    }
    if let Some(error) = error {
        writeln!(out, "{:<12} {error}", "error")?;
    }
    let word = style(result.word());
    let word = match result {
        Verdict::Passed => word.green(),
        Verdict::Threshold | Verdict::Tainted | Verdict::Interrupted => word.yellow(),
        Verdict::Error => word.red(),
    };
    writeln!(out, "{:<12} {}{why}", "result", word.bold())
}
