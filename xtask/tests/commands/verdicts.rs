//! Exit codes and taints of `latency-run`.

use std::fs;

use crate::common::Stage;
use serde_json::Value;

#[test]
fn a_good_run_passes_and_leaves_a_whole_folder() {
    let stage = Stage::new();
    let done = stage.run("pass", &["-d", "10ms"]);
    done.code(0)
        .says("passed")
        .says("IRQ")
        .says("complete")
        .says("tcg+icount")
        .says("6 events, 256 bytes (42.7 an event), complete");
    assert_eq!(
        stage.list("run"),
        [
            "hist.csv",
            "log.bin",
            "qemu-cmdline.txt",
            "run.json",
            "serial.txt",
            "takt.elf",
            "trace.bin"
        ]
    );
    let hist = fs::read_to_string(stage.path("run/hist.csv")).unwrap();
    assert_eq!(hist, "ns,irq_000,thr_000\n7,9,0\n9,1,0\n78,0,9\n90,0,1\n");
    assert_eq!(
        fs::metadata(stage.path("run/trace.bin")).unwrap().len(),
        64 + 2 * (24 + 128)
    );
    let command = fs::read_to_string(stage.path("run/qemu-cmdline.txt")).unwrap();
    assert!(
        command.contains("-kernel takt.elf") && command.contains("workload=timerlat"),
        "{command}"
    );
    assert!(
        !command.contains(stage.path("").to_str().unwrap()),
        "{command}"
    );
    assert_eq!(stage.list("."), ["image.elf", "pid", "run"]);
}

#[test]
fn a_run_is_replaced_only_if_that_is_meant() {
    let stage = Stage::new();
    let run = |words: &[&str]| {
        let mut command = stage.xtask("pass", &["latency-run", "--image", "image.elf"]);
        command.args(["--accel", "tcg", "-e", "fake", "-q"]);
        crate::common::Done::of(command.args(words).output().unwrap())
    };
    run(&["-o", "kept"]).code(0);
    let record = fs::read(stage.path("kept/run.json")).unwrap();
    run(&["-o", "kept"])
        .code(1)
        .complains("kept holds a run already")
        .complains("--force");
    assert_eq!(fs::read(stage.path("kept/run.json")).unwrap(), record);
    fs::write(stage.path("kept/mine"), "").unwrap();
    run(&["-o", "kept", "--force"]).code(0);
    assert!(!stage.path("kept/mine").exists());
    run(&["--force"]).code(1).complains("--output");
    let json: Value =
        serde_json::from_slice(&fs::read(stage.path("kept/run.json")).unwrap()).unwrap();
    assert_eq!(
        json["git"], "unknown",
        "what an image of the user's was built from is not known"
    );
}

#[test]
fn two_runs_give_the_same_bytes() {
    let stage = Stage::new();
    stage
        .run("pass", &["-o", "a"])
        .code(1)
        .complains("cannot be used multiple times");
    let run = |dir: &str| {
        let mut command = stage.xtask(
            "pass",
            &[
                "latency-run",
                "--image",
                "image.elf",
                "-e",
                "none",
                "-o",
                dir,
            ],
        );
        assert!(command.output().unwrap().status.success());
        ["hist.csv", "trace.bin", "log.bin"]
            .map(|name| fs::read(stage.path(dir).join(name)).unwrap())
    };
    assert_eq!(run("a"), run("b"));
}

#[test]
fn json_has_the_schema_of_the_manual() {
    let stage = Stage::new();
    let done = stage.run("pass", &["--json", "-", "-d", "10ms"]);
    let document: Value = serde_json::from_str(&done.code(0).stdout).unwrap();
    let keys = |value: &Value| {
        value
            .as_object()
            .unwrap()
            .keys()
            .cloned()
            .collect::<Vec<_>>()
            .join(" ")
    };
    assert_eq!(
        keys(&document),
        "accel analysis config cpus git ns_means result schema taint trace"
    );
    assert_eq!(document["schema"], "takt.latency-run/1");
    assert_eq!(document["accel"], "tcg+icount");
    assert_eq!(document["result"], "passed");
    assert_eq!(document["config"]["duration_ns"], 10_000_000);
    let cpu = &document["cpus"][0];
    assert_eq!(keys(cpu), "cpu irq missed thread");
    assert_eq!(
        keys(&cpu["irq"]),
        "avg count hist max min overflow p50 p99 p999"
    );
    assert_eq!(cpu["irq"]["hist"], serde_json::json!([[7, 9], [9, 1]]));
    assert_eq!(cpu["thread"]["p50"], 78);
    assert_eq!(cpu["thread"]["avg"], 79.2);
    assert_eq!(keys(&document["trace"]), "bytes dropped events overrun");
}

#[test]
fn buckets_shape_json_and_the_drawing() {
    let stage = Stage::new();
    let done = stage.run("pass", &["--json", "out.json", "-n", "-b", "10", "-E", "9"]);
    done.code(0).says("70…79").says("≥ 90");
    let text = fs::read_to_string(stage.path("out.json")).unwrap();
    let document: Value = serde_json::from_str(&text).unwrap();
    let thread = &document["cpus"][0]["thread"];
    assert_eq!(
        (&thread["hist"], &thread["overflow"]),
        (&serde_json::json!([[70, 9]]), &1.into())
    );
}

#[test]
fn quiet_is_summary_and_verdict_and_verbose_is_more() {
    let stage = Stage::new();
    let quiet = stage.run("pass", &["-q", "-d", "10ms"]);
    assert_eq!(quiet.code(0).stdout.lines().count(), 6, "{}", quiet.stdout);
    assert_eq!(quiet.stderr, "");
    stage
        .run("pass", &["-v", "-d", "10ms"])
        .code(0)
        .says("timerlat/0")
        .says("kernel args")
        .says("-kernel takt.elf");
}

#[test]
fn a_threshold_is_exit_code_2_and_names_the_culprit() {
    let stage = Stage::new();
    let done = stage.run("threshold", &["-T", "0.08"]);
    done.code(2)
        .says("thread latency of 90 ns on CPU 0, activation 10")
        .says("threshold");
    let command = fs::read_to_string(stage.path("run/qemu-cmdline.txt")).unwrap();
    assert!(command.contains("stop_thread_ns=80"), "{command}");
}

#[test]
fn every_taint_is_exit_code_3_and_says_why() {
    for (guest, why) in [
        (
            "lost-events",
            "3 trace events lost (overrun 0, commit overrun 0, dropped 3)",
        ),
        ("negative", "CPU 0: 1 impossible (negative) latencies"),
        (
            "missing-samples",
            "CPU 0: samples are missing: 5 came, 10 were due",
        ),
        (
            "torn",
            "CPU 0: thread statistics contradict themselves: 8 samples, 9 in the histogram",
        ),
        ("unsent-events", "100 trace events were recorded, 6 came"),
        ("log-dropped", "12 log messages found no room"),
        ("frame-gap", "3 trace frames missing"),
        ("lost-frames", "2 frames lost at the end"),
        ("damaged-frame", "1 frames with a wrong checksum"),
        ("cut-capture", "the capture ends inside a frame"),
    ] {
        let stage = Stage::new();
        stage
            .run(guest, &["-d", "10ms"])
            .code(3)
            .says(why)
            .says("tainted");
        let kept = stage.path("run/capture.bin").exists();
        assert_eq!(
            kept,
            matches!(guest, "damaged-frame" | "cut-capture"),
            "{guest}"
        );
    }
}

#[test]
fn samples_are_due_only_while_it_is_measured() {
    let stage = Stage::new();
    stage
        .run("late-end", &["-d", "10ms"])
        .code(0)
        .says("passed");
}

#[test]
fn an_earlier_run_is_reported_on_again() {
    let stage = Stage::new();
    let first = stage.run("threshold", &[]).code(2).stdout.clone();
    let from = |args: &[&str]| {
        let mut command = stage.xtask("hang", &["latency-run", "--from", "run"]);
        crate::common::Done::of(command.args(args).output().unwrap())
    };
    let again = from(&[]);
    let table = |text: &str| {
        text.lines()
            .filter(|line| !line.starts_with("run folder"))
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    assert_eq!(table(&again.code(2).stdout), table(&first));
    from(&["--json", "-"])
        .code(2)
        .says(r#""result":"threshold""#);

    // Edited by hand: figures that are not the histogram's, and those that nothing else tells.
    let record = fs::read_to_string(stage.path("run/run.json")).unwrap();
    let hist = fs::read_to_string(stage.path("run/hist.csv")).unwrap();
    for (file, text, was, is, says) in [
        (
            "run.json",
            &record,
            r#""max": 90"#,
            r#""max": 60"#,
            "max 60, hist.csv's greatest value is 90",
        ),
        (
            "run.json",
            &record,
            r#""min": 7"#,
            r#""min": 1"#,
            "min 1, hist.csv's least value is 7",
        ),
        (
            "hist.csv",
            &hist,
            "\n78,",
            "\n79,",
            "min 78, hist.csv's least value is 79",
        ),
        ("hist.csv", &hist, "\n", "\n\n", "is damaged"),
    ] {
        let edited = text.replacen(was, is, 1);
        assert_ne!(&edited, text, "{was}");
        fs::write(stage.path("run").join(file), edited).unwrap();
        from(&[])
            .code(1)
            .complains(says)
            .complains("help: a run whose files were cut or contradict");
        fs::write(stage.path("run").join(file), text).unwrap();
    }
    for (was, is, code) in [
        (r#""missed": 0"#, r#""missed": 5"#, 2),
        (r#""result": "threshold""#, r#""result": "passed""#, 0),
    ] {
        let edited = record.replacen(was, is, 1);
        assert_ne!(edited, record, "{was}");
        fs::write(stage.path("run/run.json"), edited).unwrap();
        from(&[])
            .code(code)
            .says("edited       run.json or hist.csv")
            .complains("was changed after the run");
    }
    fs::write(stage.path("run/run.json"), &record).unwrap();
    // A run of before there was a check sum.
    let mut older: Value = serde_json::from_str(&record).unwrap();
    older.as_object_mut().unwrap().remove("sum").unwrap();
    fs::write(stage.path("run/run.json"), older.to_string()).unwrap();
    from(&[]).code(2);

    fs::write(stage.path("run/hist.csv"), "ns,irq_000,thr_000\n7,8,0\n").unwrap();
    from(&[])
        .code(1)
        .complains("run.json and hist.csv in run do not belong together")
        .complains("hist.csv's");
    for (text, help) in [
        (
            r#"{"schema":"takt.run/9","git":"0123456789ab"}"#,
            "help: it is of a newer Takt than this: update this one, or read it by the Takt that wrote it, revision \
             0123456789ab",
        ),
        (
            r#"{"schema":"takt.run/0"}"#,
            "help: it is of an older Takt than this: read it by the Takt that wrote it, or measure again",
        ),
        (
            r#"{"schema":"takt.boot/1"}"#,
            "help: `cargo xtask run` booted it: see what it logged by cargo xtask log run",
        ),
    ] {
        fs::write(stage.path("run/run.json"), text).unwrap();
        from(&[]).code(1).complains(help);
    }
    fs::write(stage.path("run/run.json"), "{").unwrap();
    from(&[]).code(1).complains("is no JSON");
    fs::remove_file(stage.path("run/run.json")).unwrap();
    from(&[]).code(1).complains("is not a run folder");
}

#[test]
fn the_log_of_a_run_is_decoded() {
    let stage = Stage::new();
    stage.run("failed", &[]).code(1);
    let log = |args: &[&str]| {
        let mut command = stage.xtask("", &["log", "run"]);
        crate::common::Done::of(command.args(args).output().unwrap())
    };
    assert_eq!(
        log(&[]).code(0).stdout,
        "INFO  measuring\nERROR no such workload\n"
    );
    let first = log(&["--json"])
        .code(0)
        .stdout
        .lines()
        .next()
        .unwrap()
        .to_owned();
    assert_eq!(first, r#"{"level":"info","message":"measuring"}"#);

    let path = stage.path("run/log.bin");
    let whole = fs::read(&path).unwrap();
    fs::write(&path, &whole[..whole.len() - 1]).unwrap();
    log(&[])
        .code(1)
        .says("measuring")
        .complains("damaged: byte 90:");
    fs::write(&path, &whole[..90]).unwrap();
    log(&[])
        .code(1)
        .says("measuring")
        .complains("byte 90: the file ends after 1 of the run's 2 frames");
    fs::write(&path, &whole[..10]).unwrap();
    log(&[])
        .code(1)
        .complains("byte 10: the file ends inside its header");
    fs::write(&path, [b"TAKTTRC1", &whole[8..]].concat()).unwrap();
    log(&[]).code(1).complains("byte 0: this is no log file");
    fs::write(&path, [&whole[..24], &[1; 8], &whole[32..]].concat()).unwrap();
    log(&[])
        .code(1)
        .complains("byte 24: this was recorded by another image");
    fs::write(stage.path("run/takt.elf"), "junk").unwrap();
    log(&[]).code(1).complains("is not an image");
}

#[test]
fn the_trace_of_a_run_is_ftraces_text() {
    let stage = Stage::new();
    stage.run("pass", &["-d", "10ms"]).code(0);
    let trace = |args: &[&str]| {
        let mut command = stage.xtask("", &["trace", "run"]);
        crate::common::Done::of(command.args(args).output().unwrap())
    };
    let text = trace(&[]);
    text.code(0)
        .says("# entries-in-buffer/entries-written: 6/6   #P:1");
    let last = text.stdout.lines().last().unwrap().trim();
    assert_eq!(
        last,
        "tick\\u{1b}[2Jer-2       [000] dN..     0.002000002: tick: n=5"
    );
    let json = trace(&["--json"])
        .code(0)
        .stdout
        .lines()
        .last()
        .unwrap()
        .to_owned();
    let record: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(
        (&record["event"], &record["fields"]["n"]),
        (&"fake:tick".into(), &5.into())
    );

    // Cut inside the second frame: the records before it are printed.
    let path = stage.path("run/trace.bin");
    let whole = fs::read(&path).unwrap();
    fs::write(&path, &whole[..whole.len() - 1]).unwrap();
    trace(&[])
        .code(1)
        .says("tick: n=2")
        .complains("damaged: byte 216:");
    // Cut between the two, which only the run's record can tell.
    fs::write(&path, &whole[..64 + 24 + 128]).unwrap();
    trace(&[])
        .code(1)
        .says("tick: n=2")
        .complains("byte 216: the file ends after 3 of the run's 6 events");
    fs::write(&path, [&whole[..16], &[1; 8], &whole[24..]].concat()).unwrap();
    trace(&[]).code(1).complains("byte 16: the TSC frequency");
    fs::write(&path, "").unwrap();
    trace(&[])
        .code(1)
        .complains("the file ends inside its header");
    fs::remove_file(&path).unwrap();
    trace(&[]).code(1).complains("cannot open");
}
