//! `tracefs shell --icount`: time passes by command, and a session can be had once more to the bit.

use anyhow::{Context, Result, ensure};

use super::Stage;
use super::tracefs::contains;

/// Typed twice.
const SESSION: &str = "echo timerlat:timerlat_irq > set_event; sleep 0.01; echo > trace; sleep 0.05; cat trace; echo @@@\n\
     cat trace; echo @@@; sleep 0.02; sleep 0.03; cat trace | grep -c timerlat_irq; echo @@@\n\
     echo > set_event; echo function > current_tracer; sleep 0.05; echo stacktrace > trace_options; echo 0 > tracing_on; cat trace\n\
     echo @@@; echo nostacktrace > trace_options; echo 1 > tracing_on; echo irqsoff > current_tracer; sleep 0.02; cat trace; echo @@@\n\
     echo nop > current_tracer; echo > trace; echo timerlat: > set_event; cat trace_pipe | head -3";

/// As many activations as there are milliseconds, none while nothing is typed, and the same twice.
pub(super) fn passes_by_command(stage: &Stage) -> Result<()> {
    for smp in ["1", "2"] {
        let words = [
            "tracefs",
            "shell",
            "--no-install",
            "--icount",
            "--smp",
            smp,
            "-c",
            SESSION,
        ];
        let first = stage.xtask(&words)?.code(0)?.stdout;
        let second = stage.xtask(&words)?.code(0)?.stdout;
        let differs = first
            .lines()
            .zip(second.lines())
            .find(|(one, other)| one != other);
        ensure!(first == second, "with {smp} CPUs: {differs:?}");
        let [trace, again, count, functions, irqsoff, pipe] =
            first.split("@@@\n").collect::<Vec<_>>()[..]
        else {
            anyhow::bail!("{first}");
        };
        let nr_cpus: usize = smp.parse()?;
        ensure!(
            trace.matches(": timerlat_irq: ").count() == 50 * nr_cpus,
            "{trace}"
        );
        ensure!(
            trace == again,
            "time passed while nothing was typed:\n{again}"
        );
        let count: usize = count.trim().parse().context("grep counts")?;
        ensure!(count == 100 * nr_cpus, "{count} activations");
        ensure!(functions.matches(" <-").count() > 100, "{functions}");
        contains(
            irqsoff,
            "#  => clock: tcg+icount, a nanosecond is one guest instruction",
        )?;
        ensure!(pipe.lines().count() == 3, "{pipe}");
    }
    Ok(())
}

/// A histogram has one row for what is shown as one, is by CPUs, and can be emptied.
pub(super) fn histograms(stage: &Stage) -> Result<()> {
    const COMMANDS: &str = "cd events/timerlat/timerlat_irq; sleep 0.01\n\
         echo hist:keys=common_pid > trigger; echo hist:keys=common_cpu >> trigger; sleep 0.05; grep -E '^{|Entries' hist\n\
         echo hist:keys=common_cpu:clear >> trigger; grep -c common_cpu trigger; grep Hits hist\n\
         echo hist:keys=CPU:clear >> trigger";
    let words = [
        "tracefs",
        "shell",
        "--no-install",
        "--icount",
        "--smp",
        "2",
        "-c",
        COMMANDS,
    ];
    let done = stage.xtask(&words)?.code(1)?;
    let lines: Vec<_> = done.stdout.lines().collect();
    let row =
        |name: &str, key: u32, hits: u32| format!("{{ {name}: {key:10} }} hitcount: {hits:10}");
    let expected = [
        &*row("common_pid", 0, 100),
        "    Entries: 1",
        &row("common_cpu", 0, 50),
        &row("common_cpu", 1, 50),
        "    Entries: 2",
        "1",
        "    Hits: 100",
        "    Hits: 0",
    ];
    ensure!(lines == expected, "{}", done.stdout);
    contains(
        &done.stderr,
        "tracefs: echo: write error: No such file or directory",
    )
}
