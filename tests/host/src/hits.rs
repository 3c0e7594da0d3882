//! `--on-threshold continue`: the guest stands at each threshold, and has the same figures as without one.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};

use super::Stage;

/// The load makes some latencies of both CPUs longer than others.
const FLAGS: &str = "-d 20ms --smp 2 -c 0-1 --load mix";

/// Under icount a run that stood is the same to the bit as one that never did. The trace ends with the culprit each time.
pub(super) fn measurement_goes_on(stage: &Stage) -> Result<()> {
    stage.latency_run("through", FLAGS)?.code(0)?;
    let (trace, hits) = (stage.dir("so-far.txt"), stage.dir("hits.txt"));
    let save = format!("trace,file={trace}");
    // The other CPU may have recorded one more before it stood.
    let note = format!(
        "shell,command=sleep 0.02; grep timerlat_thread {trace} | tail -n 2 | sort -t= -k3n | tail -n 1 >> {hits}"
    );
    let dir = stage.dir("stood");
    let words: Vec<_> = "latency-run --no-install --no-history -T 1.5 -o"
        .split(' ')
        .chain([&*dir])
        .chain(FLAGS.split(' '))
        .chain(["--on-threshold", &save, "--on-threshold", &note])
        .chain(["--on-threshold", "continue"])
        .collect();
    let done = stage.xtask(&words)?.code(2)?;
    let read = |run: &str, file: &str| fs::read(Path::new(&stage.dir(run)).join(file));
    for file in ["hist.csv", "trace.bin"] {
        ensure!(read("through", file)? == read("stood", file)?, "{file}");
    }
    let hits = fs::read_to_string(hits).context("no threshold was hit")?;
    let latency = |line: &str| {
        let (_, ns) = line
            .split_once(": timerlat_thread: ")?
            .1
            .split_once("latency=")?;
        ns.strip_suffix(" ns")?.parse::<u64>().ok()
    };
    for line in hits.lines() {
        ensure!(latency(line).is_some_and(|ns| ns > 1500), "{line}");
    }
    let nr = hits.lines().count();
    ensure!(nr > 5, "{hits}");
    done.says(&format!("hits         {nr} latencies above a threshold"))?;
    Ok(())
}
