//! `latency-run --auto`: what crossed the limit is taken apart, and nothing is left over.

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::Stage;

/// The rows add up to the latency, nothing is unexplained, and the report from the folder has the same.
pub(super) fn adds_up(stage: &Stage) -> Result<()> {
    let done = stage
        .latency_run("auto", "-d 20ms -a 0.1 --load mix")?
        .code(2)?;
    done.says("## CPU 0 hit stop tracing, analyzing it ##")?
        .says("Unexplained:                                      0.000 us    (0.00 %)")?
        .says("\ncause        ")?;
    let again = stage.xtask(&["latency-run", "--from", &stage.dir("auto"), "--json", "-"])?;
    let document = again.code(2)?.json()?;
    sums(&document["analysis"])?;
    // Without the flag: the cause in a line, no more.
    let brief = stage
        .latency_run("brief", "-d 20ms -i 0.001")?
        .code(2)?
        .says("\ncause        exit from idle: 4 of 4 ns (100.0 %)")?;
    ensure!(!brief.stdout.contains("analyzing it"), "{}", brief.stdout);
    Ok(())
}

fn sums(analysis: &Value) -> Result<()> {
    let rows = analysis["rows"].as_array().context("no rows")?;
    let ns = |row: &Value| row["ns"].as_u64().context("a row without ns");
    let total = rows.iter().map(ns).sum::<Result<u64>>()?;
    ensure!(
        analysis["latency_ns"] == total && total > 100,
        "{total} ns in {analysis}"
    );
    ensure!(
        rows.iter().all(|row| row["group"] != "unexplained"),
        "{analysis}"
    );
    Ok(())
}
