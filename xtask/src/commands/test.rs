//! `test`: every test, closing with one line `N passed, N failed`.

use std::io::{BufRead, BufReader};
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, Result};

use super::ci::cargo;
use crate::cli::Test;
use crate::paths;

/// How many tests did what.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Count {
    passed: u64,
    failed: u64,
}

impl Count {
    fn add(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
    }
}

/// Runs all tests.
pub(super) fn run(flags: &Test) -> Result<ExitCode> {
    crate::setup::ensure_qemu(!flags.no_install)?;
    let mut all = Count::default();
    all.add(host(flags.filter.as_deref())?);
    println!("{} passed, {} failed", all.passed, all.failed);
    Ok(if all.failed == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// The host's tests: those of cargo. A build that fails is one failure.
fn host(filter: Option<&str>) -> Result<Count> {
    let mut child = Command::new(cargo())
        .args(["test", "--no-fail-fast"])
        .args(filter)
        .current_dir(paths::workspace())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot run cargo")?;
    let mut all = Count::default();
    for line in child
        .stdout
        .take()
        .map(BufReader::new)
        .into_iter()
        .flat_map(BufRead::lines)
    {
        let line = line.context("cannot read cargo's output")?;
        println!("{line}");
        if let Some(count) = parse(&line) {
            all.add(count);
        }
    }
    if !child.wait()?.success() && all.failed == 0 {
        all.failed = 1;
    }
    Ok(all)
}

/// `test result: ok. 3 passed; 0 failed; …`
fn parse(line: &str) -> Option<Count> {
    let (_, numbers) = line.strip_prefix("test result: ")?.split_once(". ")?;
    let number = |word: &str| {
        let part = numbers
            .split(';')
            .find(|part| part.trim_end().ends_with(word))?;
        part.trim().split(' ').next()?.parse().ok()
    };
    Some(Count {
        passed: number("passed")?,
        failed: number("failed")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libtests_lines_are_read() {
        let line = "test result: FAILED. 14 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.93s";
        assert_eq!(
            parse(line),
            Some(Count {
                passed: 14,
                failed: 2
            })
        );
        assert_eq!(parse("running 3 tests"), None);
    }
}
