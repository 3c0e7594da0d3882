//! `trace_pipe`: what it says of what it missed.

use anyhow::{Context, Result, bail, ensure};

use super::Stage;

/// A number of `stats`.
fn stat(text: &str, name: &str) -> Result<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let value = line.and_then(|line| line.strip_prefix(": "));
    Ok(value
        .with_context(|| format!("no {name}: {text}"))?
        .parse()?)
}

/// A pipe that is read late says how many events were overwritten, to the last one, each time.
pub(super) fn counts_what_it_misses(stage: &Stage) -> Result<()> {
    const STATS: &str = "cat per_cpu/cpu0/stats";
    let round = format!(
        "echo 1 > tracing_on; sleep 1; echo 0 > tracing_on; echo ---; {STATS}; echo ---; cat trace_pipe; echo ---; {STATS}; echo ---\n"
    );
    let commands = format!(
        "echo 0 > tracing_on; echo > trace; echo 16 > buffer_size_kb; echo 'sched:*' 'irq:*' > set_event\n{round}{round}"
    );
    let done = stage.xtask(&["tracefs", "shell", "--no-install", "-c", &commands])?;
    let text = done.code(0)?.stdout;
    let parts: Vec<_> = text.split("---\n").collect();
    let [_, first @ .., _] = &parts[..] else {
        bail!("{text}");
    };
    let mut lost_before = 0;
    for round in first.split(|part| part.is_empty()) {
        let [before, pipe, after] = round else {
            bail!("{} parts", round.len());
        };
        let (lost, shown): (Vec<_>, Vec<_>) =
            pipe.lines().partition(|line| line.contains(" [LOST "));
        let counts = lost.iter().map(|line| {
            let rest = line.strip_prefix("CPU:0 [LOST ")?;
            rest.strip_suffix(" EVENTS]")?.parse::<u64>().ok()
        });
        let lost: u64 = counts.sum::<Option<u64>>().context(pipe.to_string())?;
        let overrun = stat(before, "overrun")?;
        ensure!(
            lost > 0 && lost == overrun - lost_before,
            "{lost} lost of {overrun}"
        );
        ensure!(
            shown.len() as u64 == stat(before, "entries")?,
            "{} shown: {before}",
            shown.len()
        );
        ensure!(
            stat(after, "overrun")? == overrun && stat(after, "entries")? == 0,
            "{after}"
        );
        lost_before = overrun;
    }
    ensure!(lost_before > 0, "{text}");
    Ok(())
}

/// What was lost before the trace was cleared is not told afterwards, neither by `trace` nor by a pipe that had read before.
pub(super) fn forgets_what_was_cleared(stage: &Stage) -> Result<()> {
    let commands = "echo 0 > tracing_on; echo nooverwrite > trace_options; echo 16 > buffer_size_kb; echo > trace\n\
         echo 'sched:*' 'irq:*' > set_event; echo 1 > tracing_on; sleep 0.02; echo 0 > tracing_on; cat trace_pipe; echo ---\n\
         echo 1 > tracing_on; sleep 1; echo 0 > tracing_on; cat per_cpu/cpu0/stats; echo ---\n\
         echo > trace; echo 1 > tracing_on; sleep 0.02; echo 0 > tracing_on; cat trace; echo ---; cat trace_pipe";
    let done = stage.xtask(&["tracefs", "shell", "--no-install", "-c", commands])?;
    let text = done.code(0)?.stdout;
    let [_, stats, trace, pipe] = text.split("---\n").collect::<Vec<_>>()[..] else {
        bail!("{text}");
    };
    ensure!(stat(stats, "dropped events")? > 0, "{stats}");
    for shown in [trace, pipe] {
        ensure!(shown.contains(": sched_switch: "), "{shown}");
        ensure!(!shown.contains(" [LOST "), "{shown}");
    }
    Ok(())
}
