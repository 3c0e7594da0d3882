//! What function tracing costs: compiled in but off, and on.

use anyhow::Result;

use super::images;
use super::{Values, latency, sizes};
use takt_machine::run::once::Folder;

/// What is compared, with function tracing off and on, with what it is without.
const COMPARED: [(&str, &str, &str); 5] = [
    (
        "ping-pong",
        "function-off-ping-pong",
        "function-off-ping-pong-rate",
    ),
    (
        "ping-pong",
        "function-on-ping-pong",
        "function-on-ping-pong-rate",
    ),
    (
        "ping-pong",
        "function-graph-ping-pong",
        "function-graph-ping-pong-rate",
    ),
    (
        "thread-latency-median",
        "thread-latency-median-function-off",
        "function-off-latency-rate",
    ),
    (
        "thread-latency-median",
        "thread-latency-median-function-on",
        "function-on-latency-rate",
    ),
];

/// Measures after everything else: what it is compared with is in `values`.
pub(super) fn measure(folder: &Folder, values: &mut Values) -> Result<()> {
    let bench = images::build(images::FUNCTIONS)?;
    let rows = images::lines(&folder.boot(&bench, "capture=off only=functions")?.serial)?;
    values.extend(rows);
    let takt = images::takt(&["function"])?;
    latency::with_functions(&takt, folder, values)?;
    sizes::of_image("image-function", &takt, values)?;
    sizes::of_tracer("tracer-text-function", &takt, values)?;
    for (without, with, name) in COMPARED {
        if let (Some(without), Some(with)) = (values.get(without), values.get(with)) {
            let rate = (1_000 * with).div_ceil((*without).max(1));
            values.insert(name.into(), rate);
        }
    }
    Ok(())
}
