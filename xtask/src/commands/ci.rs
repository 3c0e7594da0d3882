//! `ci`: what must hold before anything is merged. Every step is run. What failed is said again at
//! the end, with its last words: a log of all steps is long, and often only its end is kept.

use std::collections::VecDeque;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::process::{Command, ExitCode, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use console::style;

use crate::paths::{self, cargo};

/// Lines of a step that failed which are said again.
const LAST_LINES: usize = 100;
/// How long the last words of a step that is over are waited for.
const PATIENCE: Duration = Duration::from_secs(5);

/// One gate.
struct Step {
    name: &'static str,
    /// Cargo's arguments.
    args: &'static str,
    /// A variable for it.
    variable: Option<(&'static str, &'static str)>,
}

const fn step(name: &'static str, args: &'static str) -> Step {
    Step {
        name,
        args,
        variable: None,
    }
}

/// The tests first, as the README has them.
const STEPS: [Step; 9] = [
    step("tests", "xtask test"),
    step("example", "xtask run hello"),
    // Measures what `bench` does and refuses a row above its limit, too.
    step("budgets and limits", "xtask budget check"),
    step("fuzzing", "xtask fuzz --seconds 5"),
    step("format", "fmt --all --check"),
    step(
        "lints",
        "clippy --workspace --all-targets -- --deny warnings",
    ),
    step(
        "lints of the image",
        "clippy --package takt-board --features image --lib -- --deny warnings",
    ),
    Step {
        // For the attribute of functions that are never traced, as when such an image is built.
        variable: Some(("RUSTC_BOOTSTRAP", "1")),
        ..step(
            "lints of the tracers",
            "clippy --package takt-board --features image,latency-tracers,function --lib -- --deny warnings",
        )
    },
    Step {
        variable: Some(("RUSTDOCFLAGS", "--deny warnings")),
        ..step("documentation", "doc --workspace --no-deps")
    },
];

/// Runs every step.
pub(super) fn run() -> Result<ExitCode> {
    let mut failed = Vec::new();
    for step in &STEPS {
        let heading = style(format!("{}:", step.name)).bold().for_stderr();
        eprintln!("{heading} cargo {}", step.args);
        let mut command = Command::new(cargo());
        command
            .args(step.args.split(' '))
            .envs(step.variable)
            .current_dir(paths::workspace());
        let started = Instant::now();
        let mut child = command
            .stderr(Stdio::piped())
            .spawn()
            .context("cannot run cargo")?;
        let said = child.stderr.take().context("cargo has no stderr")?;
        let last_words = Arc::new(Mutex::new(VecDeque::new()));
        let into = last_words.clone();
        let passing = thread::spawn(move || pass_on(said, &mut io::stderr(), &into));
        let status = child.wait().context("cannot wait for cargo")?;
        // What the step has left running may hold its end of the pipe for ever.
        let ended = Instant::now();
        while !passing.is_finished() && ended.elapsed() < PATIENCE {
            thread::sleep(Duration::from_millis(10));
        }
        eprintln!("{heading} {:.0} s", started.elapsed().as_secs_f64());
        if !status.success() {
            let last_words = last_words.lock().unwrap_or_else(PoisonError::into_inner);
            failed.push((step.name, last_words.clone()));
        }
    }
    if failed.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    let error = style("error:").red().bold().for_stderr();
    for (name, last_words) in &failed {
        eprintln!("\n{error} the last lines of: {name}");
        for line in last_words {
            eprintln!("{line}");
        }
    }
    let names: Vec<_> = failed.iter().map(|(name, _)| *name).collect();
    eprintln!("{error} failed: {}", names.join(", "));
    Ok(ExitCode::FAILURE)
}

/// Passes everything on as it comes, and keeps the last lines.
fn pass_on(said: impl Read, on: &mut impl Write, last: &Mutex<VecDeque<String>>) -> io::Result<()> {
    let mut said = BufReader::new(said);
    let mut line = Vec::new();
    while said.read_until(b'\n', &mut line)? != 0 {
        on.write_all(&line)?;
        let mut last = last.lock().unwrap_or_else(PoisonError::into_inner);
        if last.len() == LAST_LINES {
            last.pop_front();
        }
        last.push_back(String::from_utf8_lossy(&line).trim_end().to_owned());
        line.clear();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_is_passed_on_and_the_end_is_kept() {
        let said: String = (0..300).map(|nr| format!("line {nr}\r\n")).collect();
        let said = said + "without an end \u{e9}";
        let mut seen = Vec::new();
        let last = Mutex::default();
        pass_on(said.as_bytes(), &mut seen, &last).unwrap();
        let last = last.into_inner().unwrap();
        assert_eq!(seen, said.as_bytes());
        assert_eq!(last.len(), LAST_LINES);
        assert_eq!(last.front().map(String::as_str), Some("line 201"));
        assert_eq!(
            last.back().map(String::as_str),
            Some("without an end \u{e9}")
        );
    }
}
