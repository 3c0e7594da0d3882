//! Building and booting the benchmark images.

use anyhow::{Context, Result, bail};

use takt_guest::Elf;
use takt_image::build::Capacities;
use takt_image::{Recipe, small};

/// The image `bench` with functions that can be traced.
pub(super) const FUNCTIONS: &str = "bench-function";
/// The image `bench` with protected tasks, of which it has none.
pub(super) const TASKS: &str = "bench-tasks";

/// One CPU, so that there are ids for 250 threads.
const BENCH: Capacities = Capacities {
    name: "bench",
    profile: "image",
    variables: &[("TAKT_MAX_CPUS", "1")],
};

/// Just enough for some events.
const EVENTS: Capacities = Capacities {
    name: "events",
    profile: "image",
    variables: &[
        ("TAKT_MAX_CPUS", "1"),
        ("TAKT_MAX_THREADS", "4"),
        ("TAKT_MAX_TIMERS", "4"),
        ("TAKT_TRACE_SUB_SIZE", "1024"),
        ("TAKT_TRACE_NR_SUBS", "2"),
    ],
};

fn recipe(name: &str) -> Recipe {
    if name == "minimal" {
        return small::recipe(None);
    }
    let mut features = vec!["base".into()];
    if is_bench(name) {
        features.push("latency-tracers".into());
    }
    Recipe {
        package: "takt-bench".into(),
        kind: "--bin",
        name: if is_bench(name) { "bench" } else { name }.into(),
        features,
        defmt_log: if is_bench(name) { "info" } else { "off" }.into(),
        capacities: Some(if is_bench(name) { BENCH } else { EVENTS }),
        manifest: None,
        dir: None,
        verbose: false,
    }
    .with_features(match name {
        FUNCTIONS => &["function"],
        TASKS => &["tasks"],
        _ => &[],
    })
}

fn is_bench(name: &str) -> bool {
    ["bench", FUNCTIONS, TASKS].contains(&name)
}

/// Builds an image of the benchmark package, with the capacities that it wants.
pub(super) fn build(name: &str) -> Result<Elf> {
    Elf::open(&recipe(name).build()?.path)
}

/// The image that `latency-run` boots, as it is built for that, with these features besides.
pub(super) fn takt(features: &[&str]) -> Result<Elf> {
    Elf::open(&Recipe::takt(0).with_features(features).build()?.path)
}

/// Reads the lines `bench NAME UNIT VALUE`: names and values, in their order.
pub(super) fn lines(serial: &str) -> Result<Vec<(String, u64)>> {
    let mut rows = Vec::new();
    for line in serial.lines() {
        let words: Vec<_> = line.split_ascii_whitespace().collect();
        if let ["bench", name, _, value] = *words {
            let value = value
                .parse()
                .with_context(|| format!("the image said `{line}`"))?;
            rows.push((name.into(), value));
        }
    }
    if rows.is_empty() {
        bail!("the image said nothing of use:\n{serial}");
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read() {
        let rows = lines("hello\nbench yield insn 73\nbench x B 8\n").unwrap();
        assert_eq!(rows, [("yield".into(), 73), ("x".into(), 8)]);
        assert!(lines("bench yield insn many").is_err());
        assert!(lines("").is_err());
    }
}
