//! The trace in other formats, parts of it, and where it is written.

use std::fs;

use crate::common::{Done, Stage};
use serde_json::{Value, json};

fn trace(stage: &Stage, args: &[&str]) -> Done {
    let mut command = stage.xtask("", &["trace", "run"]);
    Done::of(command.args(args).output().unwrap())
}

#[test]
fn csv_has_a_line_for_each_item() {
    let stage = Stage::new();
    stage.run("pass", &["-d", "10ms"]).code(0);
    let done = trace(&stage, &["--format", "csv"]);
    let lines: Vec<_> = done.code(0).stdout.lines().collect();
    assert_eq!(lines.len(), 1 + 6);
    assert_eq!(lines[0], "ts_ns,cpu,pid,task,flags,event,message");
    assert_eq!(lines[6], "2000002,0,2,tick\\u{1b}[2Jer,dN..,fake:tick,n=5");
}

#[test]
fn a_run_whose_figures_were_changed_still_tells_its_names() {
    let stage = Stage::new();
    stage.run("pass", &["-d", "10ms"]).code(0);
    let path = stage.path("run/run.json");
    let mut record: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    record["threads"] = json!([
        {"tid": 2, "name": "ticker", "priority": 1, "cpu": 0, "runtime_cycles": 0, "switches": 0},
    ]);
    fs::write(&path, record.to_string()).unwrap();
    let mut command = stage.xtask("", &["latency-run", "--from", "run"]);
    Done::of(command.output().unwrap())
        .code(0)
        .complains("was changed after the run");
    let named = trace(&stage, &[]);
    assert!(
        named.code(0).stdout.contains("ticker-2"),
        "{}",
        named.stdout
    );
    assert_eq!(named.stderr, "");
    // Of no use at all: the trace is printed as far as it goes, and that is said.
    fs::write(&path, "{").unwrap();
    trace(&stage, &[])
        .code(0)
        .complains("note: run/run.json cannot be read (")
        .complains("names of threads");
}

#[test]
fn every_format_says_what_is_lost() {
    let stage = Stage::new();
    stage.run("lost-frames", &["-d", "10ms"]).code(3);
    trace(&stage, &[]).says("SUB-BUFFERS]");
    trace(&stage, &["--json"]).says("\"lost_sub_buffers\":");
    trace(&stage, &["--format", "csv"]).says(",lost,events=0 sub_buffers=");
    trace(&stage, &["--format", "flamegraph"]).says("lost sub-buffers ");
    let chrome = trace(&stage, &["--format", "chrome"]);
    let chrome: Value = serde_json::from_str(&chrome.stdout).unwrap();
    assert_ne!(chrome["otherData"]["lost_sub_buffers"], 0);
    let events = chrome["traceEvents"].as_array().unwrap();
    assert!(events.iter().any(|event| event["name"] == "lost"));
}

#[test]
fn no_format_trusts_a_traces_times() {
    let stage = Stage::new();
    stage.run("time-going-back", &["-d", "10ms"]);
    for format in [
        "text",
        "latency",
        "trace.dat",
        "ctf",
        "perfetto",
        "json",
        "csv",
        "chrome",
        "flamegraph",
        "graph",
    ] {
        let to = format!("out.{format}");
        let done = trace(&stage, &["--format", format, "-o", &to]);
        assert_eq!((done.code, &*done.stderr), (Some(0), ""), "{format}");
    }
}

#[test]
fn a_choice_that_nothing_meets_says_so() {
    let stage = Stage::new();
    stage.run("pass", &["-d", "10ms"]).code(0);
    for args in [["--filter", "n == 99"], ["--from", "1s"]] {
        trace(&stage, &args).code(0).complains("0 of 6 records");
    }
    assert_eq!(trace(&stage, &["--filter", "n == 5"]).stderr, "");
}

#[test]
fn parts_are_chosen_by_cpu_and_time() {
    let stage = Stage::new();
    stage.run("pass", &["-d", "10ms"]).code(0);
    let lines = |args: &[&str]| {
        let done = trace(&stage, args);
        done.code(0).stdout.lines().count()
    };
    let all = lines(&["--format", "json"]);
    assert_eq!(lines(&["--json", "--cpu", "0"]), all);
    trace(&stage, &["--json", "--cpu", "1"])
        .code(1)
        .complains("there is no CPU 1");
    assert_eq!(lines(&["--json", "--from", "2ms"]), 3);
    assert_eq!(lines(&["--json", "--to", "1500us"]), all - 3);
    assert_eq!(
        lines(&["--json", "--from", "2000001ns", "--to", "2000001ns"]),
        1
    );
    trace(&stage, &["--from", "2s", "--to", "1s"])
        .code(1)
        .complains("--from is behind --to");
    trace(&stage, &["--json", "--format", "csv"]).code(1);
}

#[test]
fn a_file_is_complete_or_not_there() {
    let stage = Stage::new();
    stage.run("pass", &["-d", "10ms"]).code(0);
    let path = stage.path("trace.csv");
    let to = path.to_str().unwrap();
    trace(&stage, &["--format", "csv", "-o", to]).code(0);
    assert_eq!(
        fs::read_to_string(&path).unwrap(),
        trace(&stage, &["--format", "csv"]).stdout
    );
    // Damage: what could be written is kept apart.
    let bin = stage.path("run/trace.bin");
    let whole = fs::read(&bin).unwrap();
    fs::write(&bin, &whole[..whole.len() - 1]).unwrap();
    fs::remove_file(&path).unwrap();
    trace(&stage, &["-o", to])
        .code(1)
        .complains("trace.csv.part")
        .complains("damaged");
    assert!(!path.exists());
    assert!(
        fs::read_to_string(stage.path("trace.csv.part"))
            .unwrap()
            .contains("n=2")
    );
    trace(&stage, &["-o", "/nowhere/at/all"])
        .code(1)
        .complains("cannot write /nowhere/at/all");
}
