//! End to end: what a user types, with the real image, and what comes of it.

mod activation;
mod browser;
mod compare;
mod document;
mod ftrace_document;
mod functions;
mod history;
mod report;
mod sweep;
mod tracefs;
mod tracefs_functions;
mod tracefs_rules;
mod viewers;

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use super::scratch::Scratch;
use super::tally::Tally;
use crate::paths;

const PART: &str = "end-to-end";

type Check = fn(&Stage) -> Result<()>;

/// The tests, in the order of running. All look at the same first run.
const TESTS: &[(&str, Check)] = &[
    ("two_runs_are_identical", two_runs_are_identical),
    (
        "identical_with_every_event_under_load",
        identical_under_load,
    ),
    ("two_runs_on_two_cpus_are_identical", identical_on_two_cpus),
    ("irqs_are_disabled_and_enabled_in_turn", irqs_off_in_turn),
    ("chrome_slices_nest", chrome_slices_nest),
    ("flamegraph_adds_up", flamegraph_adds_up),
    ("trace_cmd_agrees_with_the_text", viewers::trace_cmd_agrees),
    (
        "babeltrace2_agrees_with_the_text",
        viewers::babeltrace2_agrees,
    ),
    (
        "perfettos_schema_agrees_with_the_text",
        viewers::perfetto_agrees,
    ),
    ("priorities_are_ftraces", priorities_are_ftraces),
    ("every_halt_ends_in_time", every_halt_ends_in_time),
    ("activation_adds_up", |stage| {
        activation::adds_up(&stage.first()?)
    }),
    ("irq_threshold_exits_2", irq_threshold),
    ("thread_threshold_exits_2", thread_threshold),
    ("lost_events_taint", lost_events_taint),
    ("report_from_an_earlier_run", report_from_folder),
    ("json_schema", json_schema),
    ("log_is_decoded", log_is_decoded),
    ("cyclictest", cyclictest),
    (
        "missed_activations_are_counted_and_skipped",
        missed_activations,
    ),
    ("every_load", every_load),
    ("boot_words_are_linuxs", tracefs::boot_words),
    ("tracefs_shell", tracefs::shell),
    (
        "function_profiler_and_stack_tracer",
        tracefs_functions::profiler_and_stack_tracer,
    ),
    ("func_stack_trace", tracefs_functions::func_stack_trace),
    ("a_reader_changes_nothing", tracefs::reader_changes_nothing),
    ("tracefs_attaches_and_controls", tracefs::attach_and_control),
    ("tracefs_mount", tracefs::mount),
    ("ftrace_document_in_the_shell", ftrace_document::shell),
    ("ftrace_document_on_a_mount", ftrace_document::mount),
    (
        "latency_format_of_a_maximum",
        functions::latency_of_a_maximum,
    ),
    ("functions_by_name", functions::function),
    ("function_graph_nests", functions::graph),
    ("tracefs_filters", tracefs_rules::filters),
    (
        "tracefs_filter_on_a_later_name",
        tracefs_rules::filter_on_a_later_name,
    ),
    ("tracefs_triggers", tracefs_rules::triggers),
    ("tracefs_histograms", tracefs_rules::histograms),
    (
        "tracefs_histograms_beside",
        tracefs_rules::histograms_beside,
    ),
    ("sweep_finds_what_is_planted", sweep::finds_what_is_planted),
    ("sweep_resumes_and_merges", sweep::resumes_and_merges),
    (
        "sweep_finds_what_samples_miss",
        sweep::finds_what_samples_miss,
    ),
    ("report_in_a_browser", report::in_a_browser),
    ("history_of_runs", history::of_runs),
    ("compare_linux_rt", compare::linux_rt),
];

/// Runs those whose names have `filter`.
pub(super) fn run(filter: Option<&str>, may_install: bool, tally: &Tally) {
    let wanted = |name: &str| filter.is_none_or(|text| name.contains(text));
    if !TESTS.iter().any(|(name, _)| wanted(name)) {
        return;
    }
    let stage = match Stage::new(may_install) {
        Ok(stage) => stage,
        Err(error) => return tally.failed(PART, "first run", &format!("{error:#}")),
    };
    for (name, check) in TESTS.iter().filter(|(name, _)| wanted(name)) {
        tally.judge(PART, name, &check(&stage).map(|()| String::new()));
    }
}

/// A folder with one finished run in it.
struct Stage {
    scratch: Scratch,
    /// Whether programs that are missing may be installed.
    may_install: bool,
    /// What the first run printed.
    stdout: String,
}

/// A command that is over.
struct Done {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

impl Done {
    /// Demands an exit code.
    fn code(self, code: i32) -> Result<Self> {
        ensure!(
            self.code == Some(code),
            "exit code {:?}, not {code}:\n{}{}",
            self.code,
            self.stdout,
            self.stderr
        );
        Ok(self)
    }

    /// Demands a text on stdout.
    fn says(self, text: &str) -> Result<Self> {
        ensure!(
            self.stdout.contains(text),
            "no `{text}` in\n{}",
            self.stdout
        );
        Ok(self)
    }
}

impl Stage {
    fn new(may_install: bool) -> Result<Self> {
        let mut stage = Self {
            scratch: Scratch::new()?,
            may_install,
            stdout: String::new(),
        };
        stage.stdout = stage.latency_run("first", "-d 300ms")?.code(0)?.stdout;
        Ok(stage)
    }

    /// Runs ourselves with these words.
    fn xtask(&self, words: &[&str]) -> Result<Done> {
        // By this name it is still there when cargo has replaced the file while building the host's tests.
        let output = Command::new("/proc/self/exe")
            .args(words)
            .env("NO_COLOR", "1")
            .env("LANG", "C.UTF-8")
            .env("TAKT_HISTORY", self.history())
            .current_dir(paths::workspace())
            .stdin(Stdio::null())
            .output()
            .context("cannot run this program once more")?;
        Ok(Done {
            code: output.status.code(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        })
    }

    /// `latency-run` under icount with these flags into the folder `name`.
    fn latency_run(&self, name: &str, flags: &str) -> Result<Done> {
        let dir = self.dir(name);
        let mut words = vec!["latency-run", "--accel", "tcg", "-o", &dir];
        words.extend(flags.split_whitespace());
        self.xtask(&words)
    }

    /// Where the history of the runs is kept: not among the user's.
    fn history(&self) -> String {
        self.dir("history")
    }

    /// The path of a run folder.
    fn dir(&self, name: &str) -> String {
        self.scratch.path().join(name).display().to_string()
    }

    fn read(&self, name: &str, file: &str) -> Result<Vec<u8>> {
        let path = Path::new(&self.dir(name)).join(file);
        fs::read(&path).with_context(|| format!("cannot read {}", path.display()))
    }

    /// Demands that a file is the same in two run folders, and not empty.
    fn same(&self, file: &str, one: &str, other: &str) -> Result<()> {
        let (one, other) = (self.read(one, file)?, self.read(other, file)?);
        ensure!(!one.is_empty(), "{file} is empty");
        let differs = one.iter().zip(&other).position(|(a, b)| a != b);
        ensure!(
            one == other,
            "{file}: {} and {} bytes, different from byte {differs:?} on",
            one.len(),
            other.len()
        );
        Ok(())
    }

    /// The records of a run's trace, as `trace --json` prints them.
    fn trace(&self, name: &str) -> Result<Vec<serde_json::Value>> {
        let done = self.xtask(&["trace", &self.dir(name), "--json"])?.code(0)?;
        done.stdout
            .lines()
            .map(|line| serde_json::from_str(line).context("a line of `trace --json`"))
            .collect()
    }

    fn first(&self) -> Result<Vec<serde_json::Value>> {
        self.trace("first")
    }
}

/// Same image, same flags, same bytes.
fn two_runs_are_identical(stage: &Stage) -> Result<()> {
    stage.latency_run("second", "-d 300ms")?.code(0)?;
    ["hist.csv", "trace.bin", "log.bin"]
        .iter()
        .try_for_each(|file| stage.same(file, "first", "second"))
}

/// The same on two CPUs, whose activations are staggered.
fn identical_on_two_cpus(stage: &Stage) -> Result<()> {
    for load in ["none", "irq", "mix"] {
        let names = ["1", "2"].map(|number| format!("two-{load}-{number}"));
        for name in &names {
            stage
                .latency_run(name, &format!("-d 100ms --smp 2 --load {load}"))?
                .code(0)?;
        }
        ["hist.csv", "trace.bin"]
            .iter()
            .try_for_each(|file| stage.same(file, &names[0], &names[1]))?;
    }
    Ok(())
}

/// The same where everything happens at once.
fn identical_under_load(stage: &Stage) -> Result<()> {
    for name in ["mixed-1", "mixed-2"] {
        stage
            .latency_run(name, "-d 30ms -e all --load mix")?
            .code(0)?;
    }
    ["hist.csv", "trace.bin"]
        .iter()
        .try_for_each(|file| stage.same(file, "mixed-1", "mixed-2"))
}

/// Priorities are shown as in ftrace, whichever event shows them: FIFO 95 is 4, the idle thread 120.
fn priorities_are_ftraces(stage: &Stage) -> Result<()> {
    let trace = stage.first()?;
    let shown = |event: &str, field: &str, of: &str, comm: &str| {
        let is_it =
            |record: &&serde_json::Value| record["event"] == event && record["fields"][of] == comm;
        let found = trace.iter().find(is_it);
        found.map(|record| record["fields"][field].clone())
    };
    for (event, field, of, comm, expected) in [
        ("sched:sched_wakeup", "prio", "tid_comm", "timerlat/0", 4),
        (
            "sched:sched_switch",
            "next_prio",
            "next_comm",
            "timerlat/0",
            4,
        ),
        (
            "sched:sched_switch",
            "next_prio",
            "next_comm",
            "swapper/0",
            120,
        ),
    ] {
        let shown =
            shown(event, field, of, comm).with_context(|| format!("no {event} of {comm}"))?;
        ensure!(shown == expected, "{event} of {comm}: {field} is {shown}");
    }
    Ok(())
}

/// The stacks of a flame graph hold every ns from the first record to the last, the timer's interrupts among them.
fn flamegraph_adds_up(stage: &Stage) -> Result<()> {
    let done = stage
        .xtask(&["trace", &stage.dir("first"), "--format", "flamegraph"])?
        .code(0)?;
    let mut sum = 0;
    for line in done.stdout.lines() {
        let (_, ns) = line.rsplit_once(' ').context("no number")?;
        sum += ns.parse::<u64>()?;
    }
    let trace = stage.first()?;
    let at =
        |record: Option<&serde_json::Value>| record.and_then(|record| record["ts_ns"].as_u64());
    let (first, last) = (at(trace.first()), at(trace.last()));
    ensure!(
        Some(sum) == last.zip(first).map(|(last, first)| last - first),
        "{sum} ns in all, from {first:?} to {last:?}"
    );
    ensure!(
        done.stdout.contains("CPU 0;swapper/0;irq 80 "),
        "no interrupts of the idle thread"
    );
    Ok(())
}

/// In Chrome's format slices end in the order in which they began, reversed, and lie in time one after the other; those
/// of interrupts lie in those of threads.
fn chrome_slices_nest(stage: &Stage) -> Result<()> {
    let done = stage
        .xtask(&["trace", &stage.dir("first"), "--format", "chrome"])?
        .code(0)?;
    let trace: serde_json::Value = serde_json::from_str(&done.stdout)?;
    let events = trace["traceEvents"].as_array().context("no events")?;
    let (mut open, mut last, mut nr_irqs) = (Vec::new(), 0.0, 0);
    for event in events {
        let begins = match event["ph"].as_str() {
            Some("B") => true,
            Some("E") => false,
            _ => continue,
        };
        let ts = event["ts"].as_f64().context("no time")?;
        ensure!(ts >= last, "back in time: {event}");
        last = ts;
        if begins {
            let name = event["name"].as_str().context("no name")?;
            let is_irq = name.starts_with("irq ");
            ensure!(open.len() == usize::from(is_irq), "{name} inside {open:?}");
            nr_irqs += u32::from(is_irq);
            open.push(name);
        } else {
            ensure!(open.pop().is_some(), "nothing is open: {event}");
        }
    }
    ensure!(open.is_empty(), "left open: {open:?}");
    ensure!(nr_irqs >= 300, "only {nr_irqs} interrupts");
    Ok(())
}

/// Interrupts are disabled and enabled in turn, by the kernel's own sections too. Besides, an interrupt disables them
/// itself, and a switch to a thread that an interrupt preempted enables them.
fn irqs_off_in_turn(stage: &Stage) -> Result<()> {
    let events = "irq_disable,irq_enable,irq_handler_entry,sched_switch";
    stage
        .latency_run("sections", &format!("-d 20ms -e {events} --load lock"))?
        .code(0)?;
    let mut last = String::new();
    let mut nr_sections = 0;
    for record in stage.trace("sections")? {
        let event = record["event"].as_str().context("no event")?.to_owned();
        ensure!(
            event != last || !event.starts_with("preemptirq:"),
            "{event} twice: {record}"
        );
        nr_sections += u32::from(event == "preemptirq:irq_enable");
        last = event;
    }
    ensure!(nr_sections > 1000, "only {nr_sections} sections");
    Ok(())
}

/// A threshold below every IRQ latency: the run ends with the first activation, and so does the trace.
fn irq_threshold(stage: &Stage) -> Result<()> {
    stage
        .latency_run("irq", "-d 300ms -i 0.001")?
        .code(2)?
        .says("threshold")?;
    let trace = stage.trace("irq")?;
    let last = trace.last().context("the trace is empty")?;
    ensure!(
        last["event"] == "timerlat:timerlat_irq",
        "the trace ends with {last}"
    );
    ensure!(
        last["fields"]["seqnum"] == 1,
        "it was not the first activation: {last}"
    );
    Ok(())
}

/// The same for the thread's.
fn thread_threshold(stage: &Stage) -> Result<()> {
    stage
        .latency_run("thread", "-d 300ms -T 0.05")?
        .code(2)?
        .says("threshold")?;
    let trace = stage.trace("thread")?;
    let last = trace.last().context("the trace is empty")?;
    ensure!(
        last["event"] == "timerlat:timerlat_thread",
        "the trace ends with {last}"
    );
    stage
        .latency_run("high", "-d 50ms -i 100 -T 100")?
        .code(0)?;
    Ok(())
}

/// QEMU may wake a halted CPU some instructions late, once in ten thousand times (see `set_halt_margin` in the kernel):
/// in the idle system no activation may differ from the others.
fn every_halt_ends_in_time(stage: &Stage) -> Result<()> {
    let flags = "-p 100 -d 2s -e none --json -";
    let done = stage.latency_run("halts", flags)?.code(0)?;
    let run: serde_json::Value =
        serde_json::from_str(&done.stdout).context("--json - prints no JSON")?;
    for context in ["irq", "thread"] {
        let latency = &run["cpus"][0][context];
        ensure!(latency["count"] == 20_000, "{latency}");
        ensure!(latency["min"] == latency["max"], "{context}: {latency}");
    }
    Ok(())
}

/// More events than time to hand them over: some are lost, counted, and the run is worth nothing.
fn lost_events_taint(stage: &Stage) -> Result<()> {
    let done = stage
        .latency_run("tainted", "-p 1 -e all --load mix -d 20ms --json -")?
        .code(3)?;
    let run: serde_json::Value =
        serde_json::from_str(&done.stdout).context("--json - prints no JSON")?;
    ensure!(run["result"] == "tainted", "result {}", run["result"]);
    ensure!(
        run["taint"]
            .as_array()
            .is_some_and(|taint| !taint.is_empty()),
        "no taint is named"
    );
    let lost = run["trace"]["dropped"].as_u64().unwrap_or(0)
        + run["trace"]["overrun"].as_u64().unwrap_or(0);
    ensure!(lost > 0, "no event is counted as lost: {}", run["trace"]);
    Ok(())
}

/// A report on a run folder is the report of the run.
fn report_from_folder(stage: &Stage) -> Result<()> {
    let again = stage
        .xtask(&["latency-run", "--from", &stage.dir("first")])?
        .code(0)?;
    ensure!(
        again.stdout == stage.stdout,
        "first\n{}\nand from the folder\n{}",
        stage.stdout,
        again.stdout
    );
    // The exit code is that of the run, too.
    stage.latency_run("stopped", "-d 50ms -i 0.001")?.code(2)?;
    stage
        .xtask(&["latency-run", "--from", &stage.dir("stopped")])?
        .code(2)?;
    stage
        .xtask(&["latency-run", "--from", &stage.dir("nothing")])?
        .code(1)?;
    Ok(())
}

/// The JSON document has every field that is promised, and its sums are right.
fn json_schema(stage: &Stage) -> Result<()> {
    let done = stage
        .xtask(&["latency-run", "--from", &stage.dir("first"), "--json", "-"])?
        .code(0)?;
    document::check(&serde_json::from_str(&done.stdout).context("--json - prints no JSON")?)
}

/// The log has the messages of the start and of the end.
fn log_is_decoded(stage: &Stage) -> Result<()> {
    let done = stage.xtask(&["log", &stage.dir("first")])?.code(0)?;
    done.says("INFO")?
        .says("1000000000 Hz")?
        .says("period 1000000 ns")?
        .says("done")?;
    Ok(())
}

fn cyclictest(stage: &Stage) -> Result<()> {
    stage
        .latency_run("cyclic", "--workload cyclictest -t 3 -d 100ms")?
        .code(0)?
        .says("result       passed")?;
    Ok(())
}

/// Eight threads that together have more to do than there is time. The less important ones cannot keep up: each
/// activation either comes, late as it may be, or is counted as missed, and none is made up for.
fn missed_activations(stage: &Stage) -> Result<()> {
    let flags = "--workload cyclictest -p 2 -t 8 --distance 0.1 -d 2ms -e none --json -";
    let done = stage.latency_run("missed", flags)?.code(0)?;
    let run: serde_json::Value =
        serde_json::from_str(&done.stdout).context("--json - prints no JSON")?;
    let mut missed_by_all = 0;
    for slot in 0..8 {
        let row = &run["cpus"][slot];
        let number = |value: &serde_json::Value| value.as_u64().context("no number");
        let (count, missed) = (number(&row["thread"]["count"])?, number(&row["missed"])?);
        missed_by_all += missed;
        let due = 2_000_000u64.div_ceil(2_000 + 100 * slot as u64);
        // The last sample may come behind the end, and with it what was missed since.
        ensure!(
            (due..=due + 2).contains(&(count + missed)),
            "thread {slot}: {count} samples and {missed} missed of {due}"
        );
        ensure!(
            slot > 0 || missed == 0,
            "the most important one missed {missed}"
        );
    }
    ensure!(missed_by_all > 1000, "only {missed_by_all} were missed");
    Ok(())
}

/// Each load lets the measurement through.
fn every_load(stage: &Stage) -> Result<()> {
    for load in ["cpu", "irq", "lock", "mix"] {
        stage
            .latency_run(load, &format!("-d 20ms --load {load}"))?
            .code(0)?
            .says("result       passed")?;
    }
    // The most threads that there can be.
    stage
        .latency_run("mix-8", "-d 5ms --smp 8 --load mix")?
        .code(0)?
        .says("result       passed")?;
    Ok(())
}
