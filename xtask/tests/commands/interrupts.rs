//! Ctrl-C and kills: what is reported, with which exit code, and what is left.

use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::common::{Done, Stage};

/// Waits until the guest is up.
fn wait_for_guest(stage: &Stage) {
    let started = Instant::now();
    while !stage.path("pid").exists() {
        assert!(
            started.elapsed() < Duration::from_secs(20),
            "nothing was booted"
        );
        sleep(Duration::from_millis(10));
    }
    sleep(Duration::from_millis(500));
}

fn interrupt(pid: u32) {
    assert!(
        Command::new("kill")
            .args(["-INT", &pid.to_string()])
            .status()
            .unwrap()
            .success()
    );
}

/// Starts a run and sends it Ctrl-C, `times` times, once the guest is up.
fn interrupted(stage: &Stage, guest: &str, flags: &[&str], times: usize) -> (Done, Duration) {
    let child = stage
        .latency_run(guest, flags)
        .stdin(Stdio::null())
        .spawn()
        .unwrap();
    wait_for_guest(stage);
    let started = Instant::now();
    for _ in 0..times {
        interrupt(child.id());
        sleep(Duration::from_millis(200));
    }
    let done = Done::of(child.wait_with_output().unwrap());
    (done, started.elapsed())
}

#[test]
fn ctrl_c_ends_the_measurement_and_not_the_report() {
    let stage = Stage::new();
    let (done, took) = interrupted(&stage, "until-stopped", &[], 1);
    done.code(130)
        .says("interrupted  by the user: measured 0.010 s of 10 s\n")
        .says("result       interrupted\n");
    assert!(took < Duration::from_secs(2), "{took:?}");
    let from = || {
        Done::of(
            stage
                .xtask("", &["latency-run", "--from", "run"])
                .output()
                .unwrap(),
        )
    };
    from().code(130).says("result       interrupted\n");
}

#[test]
fn ctrl_c_is_no_interruption_where_all_that_was_asked_for_is_measured() {
    for (flags, asked) in [(["-d", "0"], "until stopped"), (["-d", "10ms"], "10 ms")] {
        let stage = Stage::new();
        let (done, _) = interrupted(&stage, "until-stopped", &flags, 1);
        done.code(0)
            .says(&format!("duration     {asked}; measured 0.010 s"))
            .says("result       passed\n");
        assert!(!done.stdout.contains("interrupted"), "{done:?}");
    }
}

#[test]
fn a_guest_that_does_not_hear_ctrl_c_is_ended_after_three_seconds() {
    let stage = Stage::new();
    let (done, took) = interrupted(&stage, "deaf", &[], 1);
    done.code(1)
        .says("interrupted")
        .complains("did not stop when it was asked to")
        .says("IRQ");
    assert!(took < Duration::from_secs(5), "{took:?}");
    assert!(stage.is_qemu_gone());
}

#[test]
fn a_second_ctrl_c_ends_everything_at_once() {
    let stage = Stage::new();
    let (done, took) = interrupted(&stage, "deaf", &[], 2);
    done.code(130).complains("interrupted");
    assert!(took < Duration::from_secs(2), "{took:?}");
    assert!(stage.is_qemu_gone());
    assert_eq!(stage.list("."), ["image.elf", "pid"]);
}

#[test]
fn no_qemu_and_no_ram_survives_an_xtask_that_is_killed() {
    if Command::new("setpriv").arg("--version").output().is_err() {
        return;
    }
    let stage = Stage::new();
    let mut child = stage.latency_run("deaf", &[]).spawn().unwrap();
    wait_for_guest(&stage);
    let ram = format!("takt-{}-", child.id());
    child.kill().unwrap();
    child.wait().unwrap();
    sleep(Duration::from_millis(200));
    assert!(stage.is_qemu_gone());
    let left = crate::common::list("/dev/shm".as_ref());
    assert!(!left.iter().any(|name| name.starts_with(&ram)), "{left:?}");
}
