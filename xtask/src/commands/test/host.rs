//! The host's tests: those of cargo.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use anyhow::{Context, Result};

use super::tally::Tally;
use takt_base::paths::{self, cargo};

/// What xtask is made of, and the fuzz targets, which are tested with their seeds. What else is tested has other features turned
/// on, with which all of it would be built once more.
const OF_XTASK: [&str; 34] = [
    "--package",
    "xtask",
    "--package",
    "takt-attach",
    "--package",
    "takt-base",
    "--package",
    "takt-cli",
    "--package",
    "takt-compare",
    "--package",
    "takt-decode",
    "--package",
    "takt-end-to-end",
    "--package",
    "takt-fuzz",
    "--package",
    "takt-guest",
    "--package",
    "takt-host",
    "--package",
    "takt-image",
    "--package",
    "takt-machine",
    "--package",
    "takt-prove",
    "--package",
    "takt-results",
    "--package",
    "takt-sweep",
    "--package",
    "takt-tracefs",
    "--package",
    "takt-viewers",
];

/// The rest, with the features that its tests need. Of the board these are the modules that know no machine, and of the
/// kernel what its documentation shows: above all what does not compile.
const OTHERS: [&str; 14] = [
    "--package",
    "takt-scheduler",
    "--package",
    "takt-tracer",
    "--package",
    "takt-timerlat",
    "--package",
    "takt-abi",
    "--package",
    "takt-kernel",
    "--package",
    "takt-board",
    "--features",
    "takt-timerlat/std,takt-board/console",
];

/// Runs them. A build that fails is a failure.
pub(super) fn run(filter: Option<&str>, tally: &Tally) {
    for packages in [&OF_XTASK[..], &OTHERS] {
        if let Err(error) = cargo_test(packages, filter, tally) {
            tally.failed("host", "cargo test", &format!("{error:#}"));
        }
    }
}

fn cargo_test(packages: &[&str], filter: Option<&str>, tally: &Tally) -> Result<()> {
    let mut child = Command::new(cargo())
        .args(["test", "--no-fail-fast"])
        .args(packages)
        .arg("--")
        .args(filter)
        .current_dir(paths::workspace())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot run cargo")?;
    let mut reader = Reader::default();
    let mut nr_failed = 0;
    let lines = child
        .stdout
        .take()
        .map(BufReader::new)
        .into_iter()
        .flat_map(BufRead::lines);
    for line in lines {
        let Some(binary) = reader.line(&line.context("cannot read cargo's output")?) else {
            continue;
        };
        tally.all_passed("host", &binary.first, binary.passed);
        nr_failed += binary.failures.len();
        for (name, why) in &binary.failures {
            tally.failed("host", name, why);
        }
    }
    if !child.wait()?.success() && nr_failed == 0 {
        tally.failed(
            "host",
            "cargo test",
            "it does not build, or it ended before its tests did; see above",
        );
    }
    Ok(())
}

/// What one test binary said.
#[derive(Debug, Default, PartialEq, Eq)]
struct Binary {
    /// A word for it: the module of its first test.
    first: String,
    passed: u64,
    /// Names, and what the tests wrote.
    failures: Vec<(String, String)>,
}

/// Reads libtest's output, one binary after the other.
#[derive(Debug, Default)]
struct Reader {
    binary: Binary,
    /// In the output of the last of `failures`.
    in_output: bool,
}

impl Reader {
    /// Takes a line; gives a binary's results at its end.
    fn line(&mut self, line: &str) -> Option<Binary> {
        if let Some(rest) = line.strip_prefix("test result: ") {
            self.in_output = false;
            let mut binary = std::mem::take(&mut self.binary);
            binary.passed = number(rest, "passed").unwrap_or_default();
            return Some(binary);
        }
        if let Some(test) = line
            .strip_prefix("---- ")
            .and_then(|rest| rest.strip_suffix(" stdout ----"))
        {
            self.in_output = true;
            self.binary.failures.push((test.into(), String::new()));
        } else if line == "failures:" {
            // Once before the outputs and once, as a list of names, behind them.
            self.in_output = false;
        } else if self.in_output {
            if let Some((_, why)) = self.binary.failures.last_mut() {
                why.push_str(line);
                why.push('\n');
            }
        } else if let Some(test) = line
            .strip_prefix("test ")
            .filter(|_| self.binary.first.is_empty())
        {
            let name = test.split_once(" ... ").map_or(test, |(name, _)| name);
            self.binary.first = format!("{name} and the like");
        }
        None
    }
}

/// `3` from `ok. 3 passed; 0 failed; …`.
fn number(text: &str, word: &str) -> Option<u64> {
    let part = text
        .split([';', '.'])
        .find(|part| part.trim_end().ends_with(word))?;
    part.trim().split(' ').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libtests_output_is_read() {
        let text = "\
running 3 tests
test a::one ... ok
test a::two ... FAILED

failures:

---- a::two stdout ----
thread 'a::two' panicked at src/a.rs:1:
no

failures:
    a::two

test result: FAILED. 2 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.93s";
        let mut reader = Reader::default();
        let binaries: Vec<_> = text.lines().filter_map(|line| reader.line(line)).collect();
        assert_eq!(binaries.len(), 1);
        assert_eq!(
            (binaries[0].first.as_str(), binaries[0].passed),
            ("a::one and the like", 2)
        );
        let (name, why) = &binaries[0].failures[0];
        assert_eq!(name, "a::two");
        assert!(why.contains("no") && !why.contains("failures"));
        assert_eq!(reader.line("running 0 tests"), None);
    }
}
