//! The tracers timerlat and osnoise: a session of timerlat's document, and durations that are net.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use regex::Regex;
use serde_json::Value;

use super::stage::Stage;

/// What timerlat's document types, and the lines that it shows, with the four columns of flags.
pub(super) fn timerlat_document(stage: &Stage) -> Result<()> {
    let done = stage.xtask(&[
        "tracefs",
        "shell",
        "--no-install",
        "--smp",
        "2",
        "-c",
        "cd /sys/kernel/tracing/\n\
         cat osnoise/cpus osnoise/timerlat_period_us osnoise/stop_tracing_us osnoise/stop_tracing_total_us\n\
         cat osnoise/print_stack osnoise/options\n\
         echo timerlat > current_tracer\n\
         sleep 0.1; head -14 trace; grep -c timerlat/0 saved_cmdlines; echo MORE\n\
         echo 1 > events/osnoise/enable\n\
         sleep 0.1; tail -20 trace; echo STACK\n\
         echo 1 > osnoise/print_stack\n\
         echo 1 > osnoise/stop_tracing_total_us\n\
         sleep 0.2; cat tracing_on; tail -30 trace; echo END\n\
         cat osnoise/per_cpu/cpu0/timerlat_fd\n\
         echo 99 > osnoise/timerlat_period_us\n\
         echo DEFAULTS > osnoise/options; cat osnoise/options; echo NO_SUCH > osnoise/options\n\
         echo 1 > osnoise/cpus; cat osnoise/cpus; echo 7 > osnoise/cpus; echo nop > current_tracer",
    ])?;
    let out = &done.stdout;
    let matches = |what: &str, pattern: &str| -> Result<()> {
        let expression = Regex::new(pattern)?;
        ensure!(expression.is_match(out), "{what}: no `{pattern}` in\n{out}");
        Ok(())
    };
    matches("a thread of a CPU", "\\n1\\nMORE\\n")?;
    const LINE: &str = r"\[00[01]\] [d.][N.][h.][0-9.] +\d+\.\d{9}: ";
    matches(
        "parameters",
        r"^0-1\n1000\n0\n0\n0\nOSNOISE_WORKLOAD NO_PANIC_ON_STOP ",
    )?;
    matches("header", "# tracer: timerlat\n#\n")?;
    matches(
        "legend",
        r"ACTIVATION\n#           TASK-PID +CPU#  \|\|\|\| +TIMESTAMP +ID +CONTEXT +LATENCY",
    )?;
    for (what, text) in [
        ("interrupt", r"#\d+ +context    irq timer_latency +\d+ ns\n"),
        ("thread", r"#\d+ +context thread timer_latency +\d+ ns\n"),
        (
            "irq_noise",
            r"irq_noise: local_timer:80 start \d+\.\d{9} duration \d+ ns\n",
        ),
        (
            "thread_noise",
            r"thread_noise: +\S+:\d+ start \d+\.\d{9} duration \d+ ns\n",
        ),
    ] {
        matches(what, &format!("{LINE}{text}"))?;
    }
    matches(
        "stack",
        &format!(
            r"STACK\n0\n(?s:.*){LINE}<stack trace>\n(?: => .+\n)*? => .+ \(inlined\)\n(?: => .+\n)*? => takt_\S+\n(?s:.*)END"
        ),
    )?;
    matches(
        "stop",
        &format!("{LINE}tracing_mark_write: stop tracing hit on cpu [01]\n"),
    )?;
    matches(
        "end",
        r"END\nOSNOISE_WORKLOAD NO_PANIC_ON_STOP [A-Z_ ]+\n1\n$",
    )?;
    let errors: Vec<_> = done
        .stderr
        .lines()
        .filter(|line| line.contains("Invalid argument"))
        .collect();
    ensure!(errors.len() == 4, "four commands are wrong: {errors:?}");
    Ok(())
}

/// A guest that the option has end by a panic says so, and where it was.
pub(super) fn panic_on_stop(stage: &Stage) -> Result<()> {
    let words = [
        "tracefs",
        "shell",
        "--no-install",
        "--icount",
        "--load",
        "plant",
        "-c",
        "echo PANIC_ON_STOP > osnoise/options\n\
         echo 20 > osnoise/stop_tracing_us\n\
         echo timerlat > current_tracer\n\
         sleep 0.5; tail -1 trace; echo nop > current_tracer",
    ];
    stage
        .xtask(&words)?
        .code(1)?
        .says(": tracing_mark_write: stop tracing hit on cpu 0\n")?
        .complains("echo: write error: No such device")?
        .complains("the guest has ended. Its serial port:\nat kernel/src/trace/osnoise/")?
        .complains("\n*** panic: stop tracing hit on cpu 0\n")?
        .complains(
            " takt_timerlat::workload::plant::planted_irqs_off (timerlat/src/workload/plant.rs:",
        )?;
    Ok(())
}

/// A record's field.
fn number(record: &Value, name: &str) -> Result<u64> {
    let field = &record["fields"][name];
    field
        .as_u64()
        .with_context(|| format!("no number `{name}` in {record}"))
}

/// What interrupts took is not charged to the thread that they came upon: under icount each thread's time between two
/// switches is its own noise and that of the interrupts in it, but for the instructions from a look at the clock to a record.
/// One that opens a sub-buffer takes some 370 more.
pub(super) fn noises_are_net(stage: &Stage) -> Result<()> {
    const SLACK: u64 = 600;
    let append = "ftrace=timerlat trace_event=osnoise:";
    let dir = stage.dir("noise");
    let fixed = [
        "latency-run",
        "--accel",
        "tcg",
        "--load",
        "mix",
        "-d",
        "50ms",
        "-e",
        "none",
    ];
    stage
        .xtask(&[&fixed[..], &["--force", "-o", &dir, "--append", append]].concat())?
        .code(0)?;
    // Of each CPU the interrupts since the last switch: when they began, and how long they took.
    let mut interrupts = BTreeMap::<u64, Vec<(u64, u64)>>::new();
    let (mut nr_threads, mut nr_with_irqs) = (0, 0);
    for record in stage.trace("noise")? {
        let cpu = record["cpu"].as_u64().context("a record has a CPU")?;
        let noise =
            || Ok::<_, anyhow::Error>((number(&record, "start")?, number(&record, "duration")?));
        match record["event"].as_str() {
            Some("osnoise:irq_noise") => interrupts.entry(cpu).or_default().push(noise()?),
            Some("osnoise:thread_noise") => {
                let (start, duration) = noise()?;
                let before = interrupts.remove(&cpu).unwrap_or_default();
                // The tracer's own thread has no noise, what interrupts it neither.
                let inside = before.iter().filter(|(begun, _)| *begun >= start);
                let irqs: u64 = inside.map(|(_, duration)| duration).sum();
                let at = record["ts_ns"].as_u64().context("a record has a time")?;
                let rest = (at - start)
                    .checked_sub(duration + irqs)
                    .with_context(|| format!("more than there was: {record}, interrupts {irqs}"))?;
                ensure!(
                    rest < SLACK,
                    "{rest} ns of {record} are nobody's, interrupts {irqs}"
                );
                nr_threads += 1;
                nr_with_irqs += u64::from(irqs > 0);
            }
            _ => {}
        }
    }
    ensure!(
        nr_threads > 100 && nr_with_irqs > 20,
        "{nr_threads} threads, {nr_with_irqs} with interrupts"
    );
    Ok(())
}

/// The rows of `osnoise`, by their words.
fn rows(out: &str) -> Vec<Vec<&str>> {
    let rows = out.lines().skip_while(|line| !line.starts_with("CPU "));
    rows.skip(1)
        .filter(|line| !line.starts_with('#'))
        .map(|line| line.split_whitespace().collect())
        .collect()
}

/// Nothing disturbs an idle CPU under icount. What a load plants is found, with what it was; other CPUs' turns are nobody's
/// hardware; a limit stops the tracing.
pub(super) fn osnoise(stage: &Stage) -> Result<()> {
    let dir = stage.dir("osnoise");
    let run = |words: &str| {
        let fixed = [
            "-r",
            "10000",
            "-p",
            "12000",
            "--no-install",
            "--force",
            "-o",
            &dir,
        ];
        let words: Vec<_> = words.split_whitespace().collect();
        stage.xtask(&[&words, &fixed[..]].concat())
    };
    let idle = run("osnoise top -d 50ms")?.code(0)?;
    let expected = [
        "0",
        "#4",
        "40000",
        "0",
        "100.00000",
        "0",
        "0",
        "0",
        "0",
        "0",
        "0",
        "0",
    ];
    ensure!(rows(&idle.stdout) == [expected], "{}", idle.stdout);
    // The timer's interrupts of the load are all that happens, one in each 37 to 100 us.
    let irqs = run("osnoise top -d 50ms --load irq -T 0.5")?.code(0)?;
    let row = rows(&irqs.stdout).into_iter().next().context("no row")?;
    let number = |column: usize| row[column].parse::<u64>().unwrap_or(0);
    ensure!(
        number(7) == 0 && (400..1100).contains(&number(9)) && number(11) == 0,
        "{}",
        irqs.stdout
    );
    // No pause between samplings, as unless it is said otherwise.
    let words = [
        "osnoise",
        "top",
        "-d",
        "250ms",
        "--smp",
        "4",
        "--no-install",
    ];
    let turns = stage
        .xtask(&[&words[..], &["--force", "-o", &dir]].concat())?
        .code(0)?;
    // The start of the others is not among the first CPU's samplings: all have as many, none of them broken off.
    for row in rows(&turns.stdout) {
        ensure!(row[1] == "#2", "{}", turns.stdout);
    }
    let rows_of_all = rows(&turns.stdout);
    ensure!(rows_of_all.len() == 4, "{}", turns.stdout);
    for part in [
        " Turns ",
        "\n# All times have the turns of the other CPUs in them",
    ] {
        ensure!(turns.stdout.contains(part), "{}", turns.stdout);
    }
    ensure!(
        rows_of_all.iter().all(|row| row[7] == "0"),
        "{}",
        turns.stdout
    );
    // The noises fill the trace between the first of these samplings and the second; or before the first has ended, and then
    // there is no result at all.
    for (length, code) in [("18000", 3), ("200000", 1)] {
        let full = ["-T", "1", "-p", length, "-r", length, "--force", "-o", &dir];
        stage
            .xtask(&[&words[..], &full].concat())?
            .code(code)?
            .complains("raise --threshold")?;
    }
    let hist = run("osnoise hist -d 50ms --load irq -T 0.5 -b 0.1 -E 30")?.code(0)?;
    for part in [
        "# RTLA osnoise histogram\n",
        "\nover: ",
        "\ncount: ",
        "\nmin: ",
        "\navg: ",
        "\nmax: ",
    ] {
        ensure!(hist.stdout.contains(part), "no {part:?} in {}", hist.stdout);
    }
    let silent = run("hwnoise -d 50ms --load irq")?.code(0)?;
    ensure!(rows(&silent.stdout)[0].len() == 9, "{}", silent.stdout);
    let file = stage.dir("osnoise.txt");
    let words = format!("osnoise top -d 50ms --load irq -s 0.5 -T 0.5 -t={file}");
    let saved = format!("Saved the trace to {file}");
    let stopped = run(&words)?.code(2)?.complains(&saved)?;
    ensure!(
        std::fs::read_to_string(&file)?.contains("sample_threshold"),
        "{file}"
    );
    ensure!(
        stopped.stderr.contains("stop tracing hit on cpu 0"),
        "{}",
        stopped.stderr
    );
    run("osnoise top -d 50ms -c 0 -H 0")?.code(1)?;
    run("osnoise top -d 50ms -H 7")?.code(1)?;
    // Too short for one sampling, with noises and without.
    for load in ["none", "irq"] {
        let short = run(&format!("osnoise top -d 5ms -T 0.5 --load {load}"))?.code(1)?;
        ensure!(
            short.stderr.contains("no sampling was completed"),
            "{}",
            short.stderr
        );
    }
    Ok(())
}
