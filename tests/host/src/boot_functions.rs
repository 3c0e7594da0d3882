//! Functions by name among the words of the kernel's command line, as Linux has them.

use std::collections::BTreeSet;

use anyhow::{Result, ensure};

use super::tracefs::contains;
use super::{Done, Stage};

/// A short run with these words.
fn run(stage: &Stage, words: &str) -> Result<Done> {
    let dir = stage.dir("named");
    let fixed = [
        "latency-run",
        "-d",
        "20ms",
        "-e",
        "none",
        "--force",
        "-o",
        &dir,
    ];
    stage.xtask(&[&fixed[..], &["--append", words]].concat())
}

/// The functions that the run's trace has, by their last names.
fn functions(stage: &Stage) -> Result<BTreeSet<String>> {
    let named = |record: serde_json::Value| {
        let name = record["fields"]["ip"].as_str()?;
        Some(name.rsplit("::").next()?.to_owned())
    };
    Ok(stage
        .trace("named")?
        .into_iter()
        .filter_map(named)
        .collect())
}

/// The image is one whose functions can be traced, the tracer is about what was named, and what means nothing is said.
pub(super) fn by_name(stage: &Stage) -> Result<()> {
    let traced = |words: &str| {
        run(stage, words)?.code(0)?;
        functions(stage)
    };
    let found = traced("ftrace=function ftrace_filter=*timerlat::expired,idle_wait*")?;
    let expected = ["expired", "idle_wait_exactly"].map(str::to_owned);
    ensure!(found == BTreeSet::from(expected.clone()), "{found:?}");
    let found = traced(
        "ftrace=function ftrace_filter=*timerlat::expired,idle_wait* ftrace_notrace=expired",
    )?;
    ensure!(found.iter().eq(&expected[1..]), "{found:?}");
    let found = traced("ftrace=function ftrace_filter=!idle_wait*")?;
    ensure!(
        found.contains("expired") && !found.contains("idle_wait_exactly"),
        "{found:?}"
    );
    for bad in [
        "ftrace_filter=no_such_function",
        "ftrace_notrace=expired,no_such*",
        "ftrace_graph_filter=no_such_function",
        "ftrace_graph_notrace=!no_such_function",
        "stacktrace_filter=no_such_function",
    ] {
        let done = run(stage, bad)?.code(1)?;
        contains(&done.stderr, bad)?;
        contains(&done.stderr, "no function is meant by `no_such")?;
        contains(&done.stderr, "`xtask functions` lists them all")?;
    }
    early(stage)?;
    files(stage)
}

/// The boot itself is traced, from where the command line is known, long before there are threads.
fn early(stage: &Stage) -> Result<()> {
    for tracer in ["function", "function_graph"] {
        run(stage, &format!("ftrace={tracer}"))?.code(0)?;
        let trace = stage.trace("named")?;
        let is_early = |record: &&serde_json::Value| record["pid"] == 0;
        let early: Vec<_> = trace.iter().take_while(is_early).collect();
        for part in ["paging::fill_to", "acpi::table", "create::Builder"] {
            let has = |record: &&serde_json::Value| {
                record["fields"]["ip"]
                    .as_str()
                    .is_some_and(|name| name.contains(part))
            };
            ensure!(
                early.iter().any(has),
                "{tracer}: no {part} among the {} records before the first thread's",
                early.len()
            );
        }
    }
    Ok(())
}

/// What was named at boot stands in the files.
fn files(stage: &Stage) -> Result<()> {
    let words = "stacktrace_filter=*timerlat::expired,sleep_until ftrace_filter=idle_wait_* ftrace_notrace=expired \
                 ftrace_graph_filter=sleep_until ftrace_graph_notrace=*timerlat::thread_main";
    let commands = "cat stack_tracer_enabled stack_trace_filter; echo A; cat set_ftrace_filter set_ftrace_notrace\n\
                    echo B; cat set_graph_function set_graph_notrace";
    let shell = ["tracefs", "shell", "--no-install", "--append", words];
    let done = stage
        .xtask(&[&shell[..], &["-c", commands]].concat())?
        .code(0)?;
    let timerlat = "takt_timerlat::workload::timerlat";
    for part in [
        format!("1\ntakt_kernel::time::sleep_until\n{timerlat}::expired\nA\n"),
        format!("A\ntakt_kernel::idle::idle_wait_exactly\n{timerlat}::expired\nB\n"),
        format!("B\ntakt_kernel::time::sleep_until\n{timerlat}::thread_main\n"),
    ] {
        contains(&done.stdout, &part)?;
    }
    // Sizes in whatever order they are, the rest in theirs, whether the boot or the first thread carries them out.
    let shell = ["tracefs", "shell", "--no-install", "--append"];
    for (words, expected) in [
        ("ftrace=wakeup trace_buf_size=16K", "16\nwakeup\n0\n"),
        ("trace_buf_size=16K ftrace=wakeup", "16\nwakeup\n0\n"),
        ("ftrace=irqsoff ftrace=nop tracing_thresh=3000", "nop\n3\n"),
        (
            "tracing_thresh=3000 ftrace=nop ftrace=preemptoff",
            "preemptoff\n3\n",
        ),
    ] {
        let commands = [
            words,
            "-c",
            "cat buffer_size_kb current_tracer tracing_thresh",
        ];
        let done = stage.xtask(&[&shell[..], &commands].concat())?.code(0)?;
        contains(&done.stdout, expected)?;
    }
    Ok(())
}
