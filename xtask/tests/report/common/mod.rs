//! Runs for the tests of the history, and the program in a folder of its own.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::json;
use takt_machine::csv;
use takt_machine::record::Run;
use takt_machine::record::{Distributions, LatencyRecord, RunRecord};
use takt_results::history::{Entry, Setup, store};
use takt_timerlat::stats::ExactHistogram;

/// A distribution of samples.
pub(crate) fn collect(samples: &[u64]) -> ExactHistogram {
    let mut all = ExactHistogram::new();
    samples.iter().for_each(|&ns| all.record(ns));
    all
}

/// A run with these thread latencies; its IRQ latencies are 4 ns.
pub(crate) fn run(load: &str, accel: &str, thread: &[u64]) -> Run {
    let d = Distributions {
        irq: collect(&vec![4; thread.len()]),
        thread: collect(thread),
        ..Default::default()
    };
    let record: RunRecord = serde_json::from_value(json!({
        "schema": "takt.run/1", "result": "passed", "error": null, "is_interrupted": false, "taint": [],
        "config": {
            "workload": "timerlat", "period_ns": 1_000_000, "duration_ns": 1_000_000_000, "warm_up_ns": 0,
            "cpus": [0], "priority": 95, "load": load, "threads": null, "distance_ns": null,
            "irq_threshold_ns": null, "thread_threshold_ns": null, "events": ["sched"], "accel_asked": "auto", "smp": 1,
        },
        "event_ids": [6], "kernel_cmdline": "workload=timerlat", "accel": {"accel": accel, "why": "a test"},
        "git": "0123456789ab",
        "host": {"cpu": "c", "kernel": "k", "qemu": "q", "qemu_exit": "e"},
        "clocks": {
            "tsc_hz": 1_000_000_000, "tsc_source": "s", "is_tsc_invariant": false, "lapic_hz": 1, "lapic_source": "s",
            "has_tsc_deadline": false,
        },
        "timing": {"started_unix_s": 1_795_309_558u64, "build_s": 0.0, "run_s": 1.0, "measured_ns": 1},
        "stop": null,
        "slots": [{
            "slot": 0, "cpu": 0, "tid": 9, "priority": 95, "interval_ns": 1_000_000, "missed": 0, "negative": 0,
            "irq": LatencyRecord::from(&d.irq), "thread": LatencyRecord::from(&d.thread),
        }],
        "trace": {"events": 0, "bytes": 0, "overrun": 0, "commit_overrun": 0, "dropped": 0},
        "log_dropped": 0,
        "capture": {
            "log": {"frames": 0, "bytes": 0, "missing": 0}, "trace": {"frames": 0, "bytes": 0, "missing": 0},
            "events": 0, "damage": {"frames": 0, "bytes": 0, "is_cut": false}, "lost": 0,
        },
        "cpus": [], "threads": [],
    }))
    .unwrap();
    Run {
        record,
        distributions: vec![d],
    }
}

/// Writes a run's folder, without image and trace.
pub(crate) fn write_folder(folder: &Path, run: &Run) {
    fs::create_dir_all(folder).unwrap();
    let hist = csv::write(&run.record.slots, &run.distributions);
    let record = serde_json::to_string(&run.record).unwrap();
    fs::write(folder.join("run.json"), record).unwrap();
    fs::write(folder.join("hist.csv"), hist).unwrap();
}

/// The entry of a run under icount.
pub(crate) fn entry(thread: &[u64]) -> Entry {
    Entry::new(
        &run("none", "tcg+icount", thread),
        Path::new("/nowhere"),
        Setup::default(),
    )
    .unwrap()
}

/// `xtask history` on the history in this folder.
pub(crate) fn history(dir: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
    command
        .arg("history")
        .args(args)
        .env("TAKT_HISTORY", dir)
        .env("NO_COLOR", "1")
        .current_dir(dir)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// Runs it: exit code, stdout, stderr.
pub(crate) fn done(mut command: Command) -> (Option<i32>, String, String) {
    let output = command.output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (
        output.status.code(),
        text(&output.stdout),
        text(&output.stderr),
    )
}

/// Every command, with what it needs.
pub(crate) const COMMANDS: [&[&str]; 5] = [
    &["list"],
    &["show", "latest"],
    &["compare", "latest~1", "latest"],
    &["merge", "latest~1", "latest"],
    &["plot", "thread-max"],
];

/// A history with two runs, one after the other.
pub(crate) fn two_runs(dir: &Path) -> [Entry; 2] {
    [300, 310].map(|ns| {
        let mut entry = entry(&[ns, ns + 1]);
        entry.finished_unix_ns = ns;
        store::write(dir, &entry).unwrap();
        entry
    })
}

/// A history of so many runs.
pub(crate) fn keep_many(dir: &Path, nr: u64) -> Vec<Entry> {
    (0..nr)
        .map(|nr| {
            let mut entry = entry(&(0..60).map(|at| 300 + at * 7 + nr).collect::<Vec<_>>());
            entry.finished_unix_ns = nr;
            store::write(dir, &entry).unwrap();
            entry
        })
        .collect()
}
