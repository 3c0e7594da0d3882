//! Runs one target.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

use anyhow::{Context, Result};
use console::Term;

use super::build::program;
use super::stats::Stats;
use super::targets::Target;

/// No input may take longer, in seconds.
const TIMEOUT: u32 = 5;
/// No process may have more memory, in MiB. What the target itself allocates is limited to less, by its allocator.
const MEMORY: u32 = 1024;
/// The variable with the folder that a target writes its seeds to; `takt_fuzz::SEEDS`.
const SEEDS: &str = "TAKT_FUZZ_SEEDS";
/// The variable with the name of the target's module; `takt_fuzz::TARGET`.
pub(super) const CHOICE: &str = "TAKT_FUZZ_TARGET";

/// libFuzzer's exit code after SIGINT or SIGTERM.
const INTERRUPTED: i32 = 72;

/// How a run has ended.
#[derive(Debug)]
pub(super) struct Outcome {
    /// What libFuzzer said.
    pub(super) stats: Stats,
    /// Why it did not pass.
    pub(super) reason: Option<String>,
    /// The file with everything that it said.
    pub(super) log: PathBuf,
}

/// Fuzzes a target for so many seconds.
///
/// # Errors
///
/// If it cannot be run, or its folders cannot be written.
pub(super) fn fuzz(dir: &Path, target: &Target, seconds: u32) -> Result<Outcome> {
    let of_target = |kind: &str| dir.join(kind).join(target.name);
    let [corpus, seeds, artifacts] = ["corpus", "seeds", "artifacts"].map(of_target);
    // The seeds are those of the present program only.
    match fs::remove_dir_all(&seeds) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            return Err(error).with_context(|| format!("cannot remove {}", seeds.display()));
        }
        _ => {}
    }
    let logs = dir.join("logs");
    for dir in [&corpus, &seeds, &artifacts, &logs] {
        fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
    }
    let log = logs.join(target.name).with_extension("log");

    let program = program(dir);
    let mut child = Command::new(&program)
        .args([&corpus, &seeds])
        .arg(format!("-artifact_prefix={}/", artifacts.display()))
        .args([
            format!("-max_total_time={seconds}"),
            format!("-max_len={}", target.max_len),
            format!("-timeout={TIMEOUT}"),
            format!("-rss_limit_mb={MEMORY}"),
            "-print_final_stats=1".into(),
        ])
        .env(SEEDS, &seeds)
        .env(CHOICE, target.module())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot run {}", program.display()))?;
    let stats = match child.stderr.take() {
        Some(output) => follow(BufReader::new(output), &log, target)?,
        None => Stats::default(),
    };
    let status = child.wait().context("cannot wait for the fuzz target")?;
    let reason = reason(status, &stats);
    Ok(Outcome { stats, reason, log })
}

/// Reads what it says to the end, and keeps it.
fn follow(mut output: impl BufRead, log: &Path, target: &Target) -> Result<Stats> {
    let mut file = File::create(log).with_context(|| format!("cannot write {}", log.display()))?;
    let term = Some(Term::stderr()).filter(Term::is_term);
    let mut stats = Stats::default();
    let mut line = Vec::new();
    while output.read_until(b'\n', &mut line)? != 0 {
        file.write_all(&line)
            .with_context(|| format!("cannot write {}", log.display()))?;
        stats.take(&String::from_utf8_lossy(&line));
        line.clear();
        if let Some(term) = &term {
            // A terminal that cannot be written to is no reason to stop.
            let _ = term.clear_line();
            let _ = term.write_str(&format!(
                "{}: {} executions, coverage {}",
                target.name, stats.executions, stats.coverage
            ));
        }
    }
    if let Some(term) = &term {
        let _ = term.clear_line();
    }
    Ok(stats)
}

/// Why it did not pass, if it did not.
fn reason(status: ExitStatus, stats: &Stats) -> Option<String> {
    if status.code() == Some(INTERRUPTED) {
        return Some("interrupted".into());
    }
    if !status.success() {
        let kind = stats
            .artifact
            .as_deref()
            .and_then(|path| Path::new(path).file_name()?.to_str()?.split('-').next());
        return Some(match kind {
            Some(kind) => kind.to_owned(),
            None => format!("failed ({status})"),
        });
    }
    (stats.coverage == 0).then(|| "nothing is covered: built without counters?".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;

    #[test]
    fn only_a_good_end_with_coverage_passes() {
        let (good, bad) = (ExitStatus::from_raw(0), ExitStatus::from_raw(77 << 8));
        let mut stats = Stats::default();
        assert!(reason(good, &stats).unwrap().contains("counters"));
        stats.coverage = 5;
        assert_eq!(reason(good, &stats), None);
        assert!(reason(bad, &stats).unwrap().contains("failed"));
        let interrupted = ExitStatus::from_raw(INTERRUPTED << 8);
        assert_eq!(reason(interrupted, &stats).unwrap(), "interrupted");
        stats.artifact = Some("/a-b/timeout-0123".into());
        assert_eq!(reason(bad, &stats).unwrap(), "timeout");
    }
}
