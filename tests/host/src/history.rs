//! The history of runs, as a user meets it: every run is kept, unless it is not to be; and a history that cannot be written
//! spoils no run.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::Stage;

/// What is typed after some runs.
pub(super) fn of_runs(stage: &Stage) -> Result<()> {
    stage.latency_run("kept-1", "-d 50ms")?.code(0)?;
    stage.latency_run("kept-2", "-d 50ms")?.code(0)?;
    stage
        .latency_run("kept-3", "-d 50ms -e timerlat")?
        .code(0)?;
    let runs = list(stage, &["-n", "3"])?;
    ensure!(runs.len() == 3, "{} runs", runs.len());
    for (run, name) in runs.iter().zip(["kept-3", "kept-2", "kept-1"]) {
        ensure!(
            run["folder"] == stage.dir(name).as_str(),
            "{} is not {name}",
            run["folder"]
        );
        let document = stage.document(name)?;
        for (ours, theirs) in [
            ("max", "max"),
            ("p50", "p50"),
            ("p99.9", "p999"),
            ("count", "count"),
        ] {
            let (ours, theirs) = (&run["thread"][ours], &document["cpus"][0]["thread"][theirs]);
            ensure!(ours == theirs, "{name}: {ours} and {theirs}");
        }
    }
    let history = |words: &[&str]| stage.xtask(&[&["history"], words].concat());
    history(&["compare", "latest~2", "latest~1"])?
        .code(0)?
        .says("identical: every sample is the same")?;
    let refused = history(&["compare", "latest~1", "latest"])?.code(1)?;
    ensure!(refused.stderr.contains("events: "), "{}", refused.stderr);
    history(&["compare", "latest~1", "latest", "--force"])?
        .code(2)?
        .says(" instructions")?;
    let merged = history(&["merge", "--json", "latest~2", "latest~1"])?.code(0)?;
    let merged = merged.json()?;
    let count = runs[1]["thread"]["count"].as_u64().context("no count")?;
    ensure!(
        merged["slots"][0]["thread"]["figures"]["count"] == 2 * count,
        "{merged}"
    );
    let picture = stage.dir("trend.svg");
    history(&["plot", "thread-max", "-o", &picture, "--like", "latest~1"])?.code(0)?;
    let picture = fs::read_to_string(picture)?;
    ensure!(
        picture.contains("<circle") && !picture.contains("<script"),
        "{picture}"
    );
    real_time(stage)?;
    cannot_be_kept(stage)
}

fn list(stage: &Stage, more: &[&str]) -> Result<Vec<Value>> {
    let words = [&["history", "list", "--json"], more].concat();
    let list = stage.xtask(&words)?.code(0)?.json()?;
    Ok(list["runs"].as_array().context("no runs")?.clone())
}

/// In real time two runs are no evidence, whatever they are like.
fn real_time(stage: &Stage) -> Result<()> {
    for name in ["real-1", "real-2"] {
        let done = stage.latency_run(name, "-d 100ms --no-icount")?;
        // A busy host may miss activations, but not fail.
        ensure!(done.code != Some(1), "{}", done.stderr);
    }
    let done = stage.xtask(&["history", "compare", "latest~1", "latest"])?;
    done.code(0)?
        .says("Kolmogorov-Smirnov distance D = ")?
        .says("No verdict: ")?;
    Ok(())
}

/// The run counts all the same, and is told to be missing.
fn cannot_be_kept(stage: &Stage) -> Result<()> {
    let before = list(stage, &[])?.len();
    let done = stage
        .latency_run("not-kept", "-d 20ms --history /dev/full/history")?
        .code(0)?
        .says("passed")?;
    ensure!(
        done.stderr.contains("not in the history") && done.stderr.contains("/dev/full/history"),
        "{}",
        done.stderr
    );
    stage
        .latency_run("not-kept", "-d 20ms --no-history")?
        .code(0)?;
    let elsewhere = stage.dir("elsewhere");
    let flags = format!("-d 20ms --history {elsewhere}");
    stage.latency_run("kept-elsewhere", &flags)?.code(0)?;
    ensure!(
        list(stage, &[])?.len() == before,
        "a run is kept that should not be"
    );
    ensure!(
        list(stage, &["--history", &elsewhere])?.len() == 1,
        "a run is missing"
    );
    stage
        .xtask(&["history", "prune", "--keep", "0", "--history", &elsewhere])?
        .code(0)?
        .says("1 runs removed, 0 kept")?;
    ensure!(
        list(stage, &["--history", &elsewhere])?.is_empty()
            && Path::new(&stage.dir("kept-elsewhere")).exists(),
        "of a run in a folder of the user's own the history alone is removed"
    );
    Ok(())
}
