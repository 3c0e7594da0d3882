//! `compare linux-rt` with a Linux that is played: the verdict, and every way in which it or the user can go wrong.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::common::Done;
use crate::common::linux::{command, is_tidy, run, stage};
use serde_json::Value;

#[test]
fn both_stand_side_by_side_and_everything_is_kept() {
    let stage = stage();
    run(&stage, "pass", &["--json", "result.json"])
        .code(0)
        .says("IRQ          Linux          700       700     700.0       700       700")
        .says("             Takt             7         7       7.2         9         9")
        .says("cyclictest   Linux         3700")
        .says("IRQ latency, max              9   700/10 = 70.0           holds")
        .says("thread latency, median       78   4000/15 = 266.7         holds")
        .says("linux-image-6.1.0-fake 1.0: #1 SMP PREEMPT_RT Debian 6.1.0-1")
        .says("passed: every limit holds");
    assert_eq!(
        stage.list("run"),
        ["compare.json", "linux", "takt-cyclictest", "takt-timerlat"]
    );
    assert_eq!(
        stage.list("run/linux"),
        [
            "console.txt",
            "cyclictest.txt",
            "init.sh",
            "kernel-config",
            "priority.txt",
            "qemu-cmdline.txt",
            "timerlat-stats.txt",
            "timerlat-trace.txt"
        ]
    );
    assert!(
        stage
            .list("run/takt-timerlat")
            .contains(&"run.json".to_owned())
    );
    is_tidy(&stage);

    let json = fs::read_to_string(stage.path("result.json")).unwrap();
    assert_eq!(
        json,
        fs::read_to_string(stage.path("run/compare.json")).unwrap()
    );
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["schema"], "takt.compare/1");
    assert_eq!(json["result"], "passed");
    assert_eq!(json["linux"]["thread"]["p50"], 4000);
    assert_eq!(json["takt"]["irq"]["max"], 9);
    assert_eq!(
        json["takt"]["cyclictest"]["hist"],
        serde_json::json!([[78, 9], [90, 1]])
    );
    assert_eq!(json["limits"].as_array().unwrap().len(), 7);
    assert_eq!(
        json["linux"]["packages"][0]["sha256"]
            .as_str()
            .unwrap()
            .len(),
        64
    );
    assert_eq!(
        json["linux"]["packages"][0]["file"],
        "linux-image-6.1.0-fake_1.0_all.deb"
    );

    // An earlier comparison is replaced, and JSON alone goes to stdout.
    let done = run(&stage, "pass", &["--json", "-", "-q"]);
    assert_eq!(done.code(0).stderr, "");
    serde_json::from_str::<Value>(&done.stdout).unwrap();
}

#[test]
fn a_limit_that_does_not_hold_is_exit_code_2() {
    let stage = stage();
    let done = run(&stage, "fast", &[]);
    done.code(2)
        .says("IRQ latency, median           7   85/10 = 8.5             holds")
        .says("IRQ latency, max              9   85/10 = 8.5             does not hold")
        .says("threshold: not every limit holds");
}

#[test]
fn what_cannot_be_trusted_is_exit_code_3() {
    let stage = stage();
    for (linux, why) in [
        ("lost", "Linux lost 3 records of timerlat"),
        ("priority", "Linux's timerlat did not have FIFO 95"),
    ] {
        run(&stage, linux, &[]).code(3).says(why).says("tainted");
    }
}

#[test]
fn every_bad_end_of_linux_is_named_and_kept() {
    let stage = stage();
    for (linux, why) in [
        (
            "panic",
            "Linux panicked: not syncing: Attempted to kill init! (state: timerlat)",
        ),
        ("gives-up", "timerlat does not start (state: timerlat)"),
        (
            "dies",
            "the machine ended before the measurement was over (state: timerlat)",
        ),
        ("damaged", "the results came damaged"),
        ("missing", "10 activations were to be measured; there are 9"),
    ] {
        run(&stage, linux, &[])
            .code(1)
            .complains(why)
            .complains("takt: timerlat begins")
            .complains("run");
        let json = fs::read_to_string(stage.path("run/compare.json")).unwrap();
        let json: Value = serde_json::from_str(&json).unwrap();
        assert_eq!(json["result"], "error", "{linux}");
        assert!(
            stage.list("run/linux").contains(&"console.txt".to_owned()),
            "{linux}"
        );
        is_tidy(&stage);
    }
}

#[test]
fn a_linux_that_hangs_is_ended() {
    let stage = stage();
    let started = Instant::now();
    run(&stage, "hang", &[])
        .code(1)
        .complains("Linux has stopped answering (state: timerlat)");
    assert!(
        started.elapsed() < Duration::from_secs(60),
        "{:?}",
        started.elapsed()
    );
    is_tidy(&stage);
}

#[test]
fn ctrl_c_leaves_nothing_running_and_nothing_behind() {
    let stage = stage();
    let child = command(&stage, "hang", &[])
        .stdin(Stdio::null())
        .spawn()
        .unwrap();
    let console = |dir: &Path| {
        let runs = fs::read_dir(dir).unwrap().flatten();
        runs.map(|entry| entry.path().join("linux/console.txt"))
            .any(|path| path.exists())
    };
    let started = Instant::now();
    while !console(&stage.path(".")) {
        assert!(
            started.elapsed() < Duration::from_secs(60),
            "Linux was not booted"
        );
        sleep(Duration::from_millis(20));
    }
    let killed = Command::new("kill")
        .args(["-INT", &child.id().to_string()])
        .status();
    assert!(killed.unwrap().success());
    Done::of(child.wait_with_output().unwrap())
        .code(130)
        .complains("interrupted: nothing was compared");
    assert!(!stage.path("run").exists());
    is_tidy(&stage);
}

#[test]
fn a_takt_that_fails_is_an_error_too() {
    let stage = stage();
    let done = Done::of(
        command(&stage, "pass", &[])
            .env("FAKE_GUEST", "panic")
            .output()
            .unwrap(),
    );
    done.code(1)
        .complains("Takt's timerlat: the guest ended in a panic")
        .complains("PANIC on CPU 0");
    assert!(stage.list("run").contains(&"takt-timerlat".to_owned()));
}
