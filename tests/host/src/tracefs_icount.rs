//! `tracefs shell --icount`: time passes by command, and a session can be had once more to the bit.

use anyhow::{Context, Result, ensure};

use super::Stage;
use super::tracefs::contains;
use takt_image::Recipe;

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
            "--append",
            "workload=timerlat",
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

/// A device's interrupt that was registered while nothing was recorded has its name, which filters and histograms know.
pub(super) fn names_of_interrupts(stage: &Stage) -> Result<()> {
    let recipe = Recipe {
        kind: "--example",
        name: "fields".into(),
        ..Recipe::takt(0)
    };
    let image = recipe.build()?.path.display().to_string();
    let session = "echo > trace; cd events/irq/irq_handler_entry; echo 'name == fields' > filter; echo 1 > enable\n\
         sleep 0.003; grep -v '^#' /trace; echo hist:keys=name > trigger; sleep 0.01; grep '^{' hist";
    let words = [
        "tracefs",
        "shell",
        "--no-install",
        "--icount",
        "--image",
        &image,
        "-c",
        session,
    ];
    let done = stage.xtask(&words)?.code(0)?;
    let (rows, lines): (Vec<_>, Vec<_>) =
        done.stdout.lines().partition(|line| line.starts_with('{'));
    let entries: Vec<_> = lines
        .iter()
        .filter(|line| line.contains("irq_handler_entry"))
        .collect();
    ensure!(
        entries.len() == 3
            && entries
                .iter()
                .all(|line| line.ends_with(": irq=99 name=fields")),
        "{}",
        done.stdout
    );
    let row = format!("{{ name: {:<50} }} hitcount: {:10}", "fields", 10);
    ensure!(rows.contains(&&*row), "no {row} in {rows:?}");
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
        "--append",
        "workload=timerlat",
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

/// Histograms by buckets and stacks pause and go on; triggers switch another event; events are those of the listed threads.
pub(super) fn rules(stage: &Stage) -> Result<()> {
    const COMMANDS: &str = "cd events/timerlat/timerlat_irq; echo 'hist:keys=timer_latency.buckets=100,stacktrace' > trigger; sleep 0.02\n\
         echo 'hist:keys=timer_latency.buckets=100,stacktrace:pause' >> trigger; grep -c paused trigger; sleep 0.02; grep -c '^{ timer_latency: ~ 0-99, stacktrace:$' hist; grep -c 'timerlat::expired$' hist; grep Hits hist\n\
         echo 'hist:keys=timer_latency.buckets=100:cont' >> trigger; echo 'hist:keys=timer_latency.buckets=100,stacktrace:cont' >> trigger; sleep 0.02; grep Hits hist; echo '!hist:keys=timer_latency.buckets=100,stacktrace' >> trigger\n\
         echo 'enable_event:sched:sched_switch:1' > trigger; cat ../../sched/sched_switch/enable; sleep 0.01; cat trigger ../../sched/sched_switch/enable\n\
         echo '!enable_event:sched:sched_switch' > trigger; cat ../../sched/sched_switch/enable; cd ../../..; grep -c sched_switch: trace\n\
         echo 1 > events/sched/sched_switch/enable; echo 'disable_event:sched:sched_switch if timer_latency > 0' > events/timerlat/timerlat_irq/trigger; sleep 0.01\n\
         cat events/sched/sched_switch/enable; echo '!disable_event:sched:sched_switch' > events/timerlat/timerlat_irq/trigger; cat events/sched/sched_switch/enable\n\
         echo 1 > events/sched/sched_wakeup/enable; echo 1 > events/timerlat/enable\n\
         echo 0 > set_event_pid; cat set_event_pid; echo > trace; sleep 0.01; grep -c timerlat_irq: trace; grep -c timerlat_thread: trace; grep -c sched_switch: trace; grep -c sched_wakeup: trace\n\
         echo > set_event_pid; echo 0 > set_event_notrace_pid; echo > trace; sleep 0.01; grep -c timerlat_irq: trace; grep -c timerlat_thread: trace; grep -c sched_switch: trace; grep -c sched_wakeup: trace\n\
         echo 200 > set_event_pid; echo > trace; echo hello > trace_marker; sleep 0.01; grep -c ': ' trace; cat set_event_pid\n\
         echo wakeup > current_tracer; sleep 0.01; grep -c '==>' trace; echo nop > current_tracer; echo > set_event_pid; echo > set_event_notrace_pid; cat set_event_pid set_event_notrace_pid\n\
         echo > trace; sleep 0.01; grep -c timerlat_irq: trace";
    let words = [
        "tracefs",
        "shell",
        "--no-install",
        "--icount",
        "--append",
        "workload=timerlat",
        "-c",
        COMMANDS,
    ];
    let done = stage.xtask(&words)?.code(0)?;
    let lines: Vec<_> = done.stdout.lines().collect();
    let (hist, switched) = lines.split_at_checked(5).context("a histogram")?;
    // The first stack is that of the boot, those behind it are of the idle thread's loop.
    ensure!(hist[..3] == ["1", "2", "2"], "{hist:?}");
    let hits = |line: &str| -> Result<u32> {
        let digits = line.strip_prefix("    Hits: ").context("no hits")?;
        Ok(digits.parse()?)
    };
    let (before, after) = (hits(hist[3])?, hits(hist[4])?);
    // It paused for as long as it had counted.
    ensure!(
        before > 10 && before.abs_diff(after - before) < 3,
        "{hist:?}"
    );
    let (switched, listed) = switched.split_at_checked(7).context("switched events")?;
    let [off, trigger, on, gone, count, disabled, again] = switched[..] else {
        anyhow::bail!("{switched:?}");
    };
    ensure!(
        trigger == "enable_event:sched:sched_switch:count=0",
        "{trigger}"
    );
    ensure!(
        [off, on, gone, disabled, again] == ["0", "1", "0", "0", "1"],
        "{switched:?}"
    );
    ensure!(count.parse::<u32>()? > 15, "{count} switches");
    let [pid, of_idle @ .., a, b, c, d, others, left, kept, end] = listed else {
        anyhow::bail!("{listed:?}");
    };
    let numbers = |lines: &[&str]| -> Result<Vec<u32>> {
        lines.iter().map(|line| Ok(line.parse()?)).collect()
    };
    // A switch or a wake-up is of both threads.
    let (of_idle, of_others) = (numbers(of_idle)?, numbers(&[a, b, c, d])?);
    ensure!(
        of_idle[..2] == [10, 0] && of_others[..2] == [0, 10],
        "{listed:?}"
    );
    ensure!(
        of_idle[2..] == of_others[2..] && of_idle[2] >= 20 && of_idle[3] >= 10,
        "{listed:?}"
    );
    // The header has two such lines, the marker is nobody's event, and a tracer has those that it needs.
    ensure!(
        (*pid, *others, *left, *kept, *end) == ("0", "3", "200", "1", "10"),
        "{listed:?}"
    );
    contains(
        &done.stderr,
        "tracefs: echo: write error: No such file or directory",
    )
}
