//! [`Tally`]: what passed and what failed, from several threads.

use std::process::ExitCode;
use std::sync::{Mutex, MutexGuard, PoisonError};

use anyhow::Result;
use console::style;

use takt_base::output;

/// How many lines of a failure are shown of its beginning, if it has more than both.
const FIRST_LINES: usize = 20;
/// How many of its end.
const LAST_LINES: usize = 40;

/// What happened so far.
#[derive(Debug, Default)]
pub(super) struct Tally {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    passed: u64,
    failures: Vec<Failure>,
}

#[derive(Debug)]
struct Failure {
    name: String,
    why: String,
}

impl Tally {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        // What a thread that panicked has counted still counts.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One test passed. `note` is said behind it.
    pub(super) fn passed(&self, part: &str, name: &str, note: &str) {
        self.lock().passed += 1;
        tell!("{part:<10} {name} ... ok{note}");
    }

    /// Many tests passed, which `what` sums up.
    pub(super) fn all_passed(&self, part: &str, what: &str, nr: u64) {
        self.lock().passed += nr;
        if nr > 0 {
            tell!("{part:<10} {what}: {nr} passed");
        }
    }

    /// One test failed.
    pub(super) fn failed(&self, part: &str, name: &str, why: &str) {
        tell!(
            "{part:<10} {name} ... {}",
            style("FAILED").red().bold().for_stderr()
        );
        let name = format!("{part} {name}");
        let why = why.trim_end().into();
        self.lock().failures.push(Failure { name, why });
    }

    /// One test that says what was wrong, or nothing.
    pub(super) fn judge(&self, part: &str, name: &str, result: &anyhow::Result<String>) {
        match result {
            Ok(note) => self.passed(part, name, note),
            Err(error) => self.failed(part, name, &format!("{error:#}")),
        }
    }

    /// Whether nothing was tested.
    pub(super) fn is_empty(&self) -> bool {
        let inner = self.lock();
        inner.passed == 0 && inner.failures.is_empty()
    }

    /// Shows every failure again and the closing line; gives the exit code.
    pub(super) fn finish(&self) -> Result<ExitCode> {
        let inner = self.lock();
        for Failure { name, why } in &inner.failures {
            tell!("\n{} {name}", style("failed:").red().bold().for_stderr());
            let lines: Vec<_> = why.lines().collect();
            // Most say what is wrong at their end; a panic says it first, and its frames follow.
            let skipped = lines.len().saturating_sub(FIRST_LINES + LAST_LINES);
            let first = if skipped > 0 { FIRST_LINES } else { 0 };
            for line in &lines[..first] {
                tell!("  {line}");
            }
            if skipped > 0 {
                tell!("  ({skipped} lines between)");
            }
            for line in &lines[first + skipped..] {
                tell!("  {line}");
            }
        }
        let (passed, failed) = (inner.passed, inner.failures.len());
        output::line(format_args!("{passed} passed, {failed} failed"))?;
        Ok(match failed {
            0 => ExitCode::SUCCESS,
            _ => ExitCode::FAILURE,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_failure_decides() {
        let tally = Tally::default();
        tally.all_passed("host", "a", 3);
        assert_eq!(tally.finish().unwrap(), ExitCode::SUCCESS);
        tally.judge("target", "b", &Err(anyhow::anyhow!("no")));
        tally.judge("target", "c", &Ok(String::new()));
        assert_eq!(tally.lock().passed, 4);
        assert_eq!(tally.finish().unwrap(), ExitCode::FAILURE);
    }
}
