//! The document that `latency-run --json` writes, schema `takt.latency-run/1`.

use anyhow::{Context, Result, ensure};
use serde_json::Value;

/// Checks a run that passed.
pub(super) fn check(run: &Value) -> Result<()> {
    ensure!(
        run["schema"] == "takt.latency-run/1",
        "schema {}",
        run["schema"]
    );
    ensure!(run["accel"] == "tcg+icount", "accel {}", run["accel"]);
    ensure!(run["result"] == "passed", "result {}", run["result"]);
    ensure!(
        run["taint"].as_array().is_some_and(Vec::is_empty),
        "taint {}",
        run["taint"]
    );
    for key in ["ns_means", "git"] {
        ensure!(
            run[key].as_str().is_some_and(|text| !text.is_empty()),
            "{key} is {}",
            run[key]
        );
    }
    ensure!(run["config"].is_object(), "no config");
    let cpus = run["cpus"].as_array().context("no cpus")?;
    ensure!(
        cpus.len() == 1 && cpus[0]["cpu"] == 0 && cpus[0]["missed"] == 0,
        "cpus {cpus:?}"
    );
    for which in ["irq", "thread"] {
        distribution(&cpus[0][which]).with_context(|| which.to_owned())?;
    }
    for key in ["events", "bytes", "overrun", "dropped"] {
        ensure!(
            run["trace"][key].is_u64(),
            "trace.{key} is {}",
            run["trace"][key]
        );
    }
    ensure!(
        run["trace"]["overrun"] == 0 && run["trace"]["dropped"] == 0,
        "events are lost: {}",
        run["trace"]
    );
    Ok(())
}

/// The figures of a distribution agree with its histogram.
fn distribution(of: &Value) -> Result<()> {
    let number = |key: &str| {
        of[key]
            .as_u64()
            .with_context(|| format!("{key} is {}", of[key]))
    };
    let (count, min, max) = (number("count")?, number("min")?, number("max")?);
    let avg = of["avg"].as_f64().context("no avg")?;
    let percentiles = [min, number("p50")?, number("p99")?, number("p999")?, max];
    ensure!(count >= 299, "only {count} samples");
    ensure!(
        percentiles.is_sorted(),
        "min, p50, p99, p999, max: {percentiles:?}"
    );
    ensure!(
        (min as f64..=max as f64).contains(&avg),
        "avg {avg} is not between {min} and {max}"
    );
    ensure!(number("overflow")? == 0, "overflow");
    let pairs = of["hist"].as_array().context("no hist")?;
    let pair = |pair: &Value| Some((pair.get(0)?.as_u64()?, pair.get(1)?.as_u64()?));
    let buckets: Vec<_> = pairs
        .iter()
        .map(|value| pair(value).context("hist has no pairs"))
        .collect::<Result<_>>()?;
    ensure!(
        buckets.iter().map(|(_, nr)| nr).sum::<u64>() == count,
        "the histogram has not {count} samples"
    );
    let first = buckets.first().map(|(ns, _)| *ns);
    let last = buckets.last().map(|(ns, _)| *ns);
    ensure!(
        (first, last) == (Some(min), Some(max)),
        "the histogram goes from {first:?} to {last:?}"
    );
    Ok(())
}
