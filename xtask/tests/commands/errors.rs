//! Every way in which a guest, QEMU or the user can go wrong ends in a clear error, in time, and
//! leaves nothing behind.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::common::{Done, Stage};

#[test]
fn a_guest_that_hangs_is_ended_within_ten_seconds_and_its_last_words_are_told() {
    let stage = Stage::new();
    let started = Instant::now();
    let done = stage.run("hang", &[]);
    assert!(
        started.elapsed() < Duration::from_secs(10),
        "{:?}",
        started.elapsed()
    );
    done.code(1)
        .complains("stopped answering")
        .complains("running")
        .complains("about to hang")
        .complains("0.003000000: tick: n=6")
        .complains("place  CPU 0  outside the image, interrupts off, at 0x0000000000200010")
        .says("IRQ");
    assert!(stage.is_qemu_gone());
    // The evidence is kept.
    assert!(stage.list("run").contains(&"run.json".to_owned()));
}

#[test]
fn a_qemu_without_plugins_cannot_verify() {
    let stage = Stage::new();
    let done = stage.run("pass", &["--verify"]);
    done.code(1)
        .complains("was built without plugins")
        .complains("TAKT_QEMU");
}

#[test]
fn every_bad_end_is_named() {
    for (guest, why) in [
        ("reset-at-boot", "triple fault"),
        ("reset", "triple fault"),
        ("terminated", "QEMU was told by a signal to end"),
        ("panic", "the guest ended in a panic or an exception"),
        ("failed", "the guest reported a failure"),
        ("crash", "ended by signal 6"),
        ("incomplete", "results are not complete (state running)"),
        ("no-samples", "the guest took no sample"),
        ("bad-arguments", "QEMU failed"),
    ] {
        let stage = Stage::new();
        let done = stage.run(guest, &[]);
        done.code(1).complains(why);
        assert!(
            stage.list("run").contains(&"run.json".to_owned()),
            "{guest}"
        );
        assert_eq!(
            stage
                .list(".")
                .iter()
                .filter(|name| name.starts_with('.'))
                .count(),
            0,
            "{guest}"
        );
    }
}

#[test]
fn last_words_come_from_every_source() {
    let stage = Stage::new();
    stage
        .run("panic", &[])
        .complains("PANIC on CPU 0: index out of bounds")
        .complains("INFO  measuring");
    stage.run("failed", &[]).complains("ERROR no such workload");
    stage
        .run("bad-arguments", &[])
        .complains("fake-qemu: -icount: no such thing");
}

#[test]
fn a_foreign_status_block_is_refused_at_once() {
    let stage = Stage::new();
    let started = Instant::now();
    stage.run("future", &[]).code(1).complains("version 99");
    assert!(started.elapsed() < Duration::from_secs(5));
    assert!(stage.is_qemu_gone());
    assert!(!stage.path("run").exists());
}

#[test]
fn a_missing_qemu_is_not_installed_when_that_is_forbidden() {
    let stage = Stage::new();
    let empty = stage.path("empty");
    fs::create_dir(&empty).unwrap();
    let run = |qemu: Option<&str>| {
        let mut command = stage.latency_run("pass", &["--no-install"]);
        command.env_remove("TAKT_QEMU").env("PATH", &empty);
        qemu.map(|qemu| command.env("TAKT_QEMU", qemu));
        Done::of(command.output().unwrap())
    };
    run(None)
        .code(1)
        .complains("qemu-system-x86_64 is missing")
        .complains("help: install");
    run(Some("/no/such/qemu"))
        .code(1)
        .complains("TAKT_QEMU is set to `/no/such/qemu`");
    assert_eq!(stage.list("."), ["empty", "image.elf"]);
}

/// Puts a shell script on the stage.
fn script(stage: &Stage, name: &str, text: &str) {
    use std::os::unix::fs::PermissionsExt;
    let path = stage.path("bin").join(name);
    fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn a_missing_qemu_is_installed_where_that_needs_no_password() {
    let stage = Stage::new();
    let bin = stage.path("bin");
    fs::create_dir(&bin).unwrap();
    for tool in ["env", "true", "ln", "sh"] {
        let real = ["/usr/bin", "/bin"]
            .iter()
            .map(|dir| format!("{dir}/{tool}"));
        let real = real
            .into_iter()
            .find(|path| fs::exists(path).unwrap())
            .unwrap();
        std::os::unix::fs::symlink(real, bin.join(tool)).unwrap();
    }
    let run = || {
        let mut command = stage.latency_run("pass", &["-d", "10ms"]);
        Done::of(
            command
                .env_remove("TAKT_QEMU")
                .env("PATH", &bin)
                .output()
                .unwrap(),
        )
    };
    script(&stage, "sudo", "shift; exec \"$@\"");
    script(&stage, "apt-get", "echo 'E: no space left' >&2; exit 100");
    run()
        .code(1)
        .complains("note: qemu-system-x86_64 is missing; installing package qemu-system-x86")
        .complains("E: no space left");
    let qemu = bin.join("qemu-system-x86_64");
    let install = format!(
        "test $DEBIAN_FRONTEND = noninteractive || exit 1\ncase \"$*\" in *'install -y --no-install-recommends \
         qemu-system-x86') ln -s {} {};; esac",
        env!("CARGO_BIN_EXE_fake-qemu"),
        qemu.display()
    );
    script(&stage, "apt-get", &install);
    run()
        .code(0)
        .says("passed")
        .complains("note: qemu-system-x86_64 is missing");
    assert!(!run().code(0).stderr.contains("is missing"));
}

#[test]
fn wrong_flags_are_exit_code_1_and_do_nothing() {
    let stage = Stage::new();
    for (flags, why) in [
        (&["-p", "x"][..], "is not a number"),
        (&["-d", "5y"], "unknown unit"),
        (&["-c", "9"], "is not a CPU"),
        (&["-c", "3", "--smp", "2"], "--smp 2 ends at CPU 1"),
        (&["-P", "o:5"], "policy"),
        (&["--no-such-flag"], "unexpected argument"),
        (&["-e", "nonsense"], "is no trace event"),
        (&["--json", "none/out.json"], "cannot write none/out.json"),
        (&["--json", "."], "cannot write ."),
        (&["--accel", "kvm", "--from", "x"], "cannot be used with"),
    ] {
        let mut command = stage.xtask("pass", &["latency-run", "--image", "image.elf"]);
        Done::of(command.args(flags).output().unwrap())
            .code(1)
            .complains(why);
    }
    assert_eq!(stage.list("."), ["image.elf"]);
    Done::of(
        stage
            .xtask("", &["latency-run", "--help"])
            .output()
            .unwrap(),
    )
    .code(0)
    .says("Thresholds:")
    .says("[default: 1000]");
}

#[test]
fn bad_images_are_named() {
    let stage = Stage::new();
    let run = |image: &str| {
        let mut command = stage.xtask("pass", &["latency-run", "-e", "none", "--image", image]);
        Done::of(command.args(["-o", "run"]).output().unwrap())
    };
    run("none.elf")
        .code(1)
        .complains("cannot read the image none.elf");
    fs::write(stage.path("junk.elf"), "junk").unwrap();
    run("junk.elf")
        .code(1)
        .complains("junk.elf is not an image");
    run(env!("CARGO_BIN_EXE_fake-qemu"))
        .code(1)
        .complains("measures no latencies")
        .complains("help: boot it by `cargo xtask run --image`");
    assert!(!stage.path("run").exists());
}

#[test]
fn what_is_not_a_run_is_not_overwritten() {
    let stage = Stage::new();
    fs::create_dir(stage.path("run")).unwrap();
    fs::write(stage.path("run/thesis.tex"), "x").unwrap();
    stage.run("pass", &[]).code(1).complains("not a run folder");
    assert_eq!(stage.list("run"), ["thesis.tex"]);
    assert!(!stage.path("pid").exists(), "nothing is booted");
}

#[test]
fn a_run_that_is_replaced_is_named() {
    const NOTE: &str = "note: run holds an earlier run, which this one will replace\n";
    let stage = Stage::new();
    let notes = |done: &Done| done.stderr.matches("note:").count();
    assert_eq!(notes(stage.run("pass", &[]).code(0)), 0);
    let second = stage.run("pass", &[]);
    second.code(0).complains(NOTE);
    assert_eq!(notes(&second), 1);
    assert_eq!(stage.run("pass", &["-q"]).code(0).stderr, "");
    // An empty folder holds none, and a run that comes to nothing replaces none.
    fs::create_dir(stage.path("empty")).unwrap();
    let mut command = stage.xtask("pass", &["latency-run", "--image", "image.elf"]);
    command.args(["-e", "none", "-o", "empty"]);
    assert_eq!(notes(Done::of(command.output().unwrap()).code(0)), 0);
    stage.run("future", &[]).code(1).complains(NOTE);
    assert!(stage.path("run/run.json").exists());
}

#[test]
fn a_dry_run_does_nothing() {
    let stage = Stage::new();
    let done = stage.run("pass", &["--dry-run", "-d", "1h"]);
    done.code(0)
        .says("fake-qemu")
        .says("duration_ns=3600000000000")
        .says("-icount shift=0,sleep=off");
    assert_eq!(stage.list("."), ["image.elf"]);
}

#[test]
fn a_full_disk_is_said_to_be_full() {
    let stage = Stage::new();
    stage
        .run("pass", &["--json", "/dev/full"])
        .code(1)
        .complains("cannot write /dev/full");

    // A file system of one megabyte, where the system lets us have one.
    let small = stage.path("small");
    fs::create_dir(&small).unwrap();
    let mut xtask = stage.latency_run("fill-disk", &[]);
    let mut unshare = Command::new("unshare");
    unshare.args(["--mount", "--map-root-user", "sh", "-c"]);
    unshare.arg(
        "mount -t tmpfs -o size=1m none small && cp image.elf small && cd small && exec \"$@\"",
    );
    unshare
        .arg("sh")
        .arg(xtask.get_program())
        .args(xtask.get_args());
    for (name, value) in xtask.get_envs() {
        value.map(|value| unshare.env(name, value));
    }
    let done = Done::of(
        unshare
            .current_dir(stage.path(""))
            .stdin(Stdio::null())
            .output()
            .unwrap(),
    );
    if done.stderr.contains("unshare") || done.stderr.contains("mount:") {
        return;
    }
    done.code(1).complains("disk is full");
    let _ = xtask.stdin(Stdio::null());
}

#[test]
fn an_output_that_is_full_is_named() {
    let stage = Stage::new();
    stage.run("pass", &[]).code(0);
    for args in [&["trace", "run"][..], &["trace", "--json", "run"]] {
        let full = fs::File::options().write(true).open("/dev/full").unwrap();
        let mut command = stage.xtask("pass", args);
        let done = Done::of(
            command
                .stdout(full)
                .stderr(Stdio::piped())
                .spawn()
                .unwrap()
                .wait_with_output()
                .unwrap(),
        );
        done.code(1)
            .complains("cannot write to stdout")
            .complains("No space left");
    }
}

#[test]
fn every_command_takes_a_full_disk_and_a_closed_pipe() {
    let stage = Stage::new();
    let dry_run = [
        "latency-run",
        "--image",
        "image.elf",
        "-e",
        "fake",
        "--dry-run",
    ];
    for args in [&["doctor"][..], &dry_run, &["fuzz", "--list"]] {
        let run = |out: Stdio| {
            let mut command = stage.xtask("pass", args);
            Done::of(command.stdout(out).output().unwrap())
        };
        let full = fs::File::options().write(true).open("/dev/full").unwrap();
        let done = run(full.into());
        done.code(1).complains("error: cannot write to stdout");
        assert!(!done.stderr.contains("panicked"), "{done:?}");
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let done = run(writer.into());
        assert_eq!((done.code, &*done.stderr), (Some(0), ""), "{args:?}");
    }
}

/// What never comes to an end when it is read.
const ENDLESS: [&str; 2] = ["pipe", "device"];

fn put(endless: &str, path: &Path) {
    match endless {
        "pipe" => {
            let made = Command::new("mkfifo").arg(path).status();
            assert!(made.unwrap().success());
        }
        _ => std::os::unix::fs::symlink("/dev/zero", path).unwrap(),
    }
}

/// `xtask`, which is killed if it waits.
fn within_time(stage: &Stage, args: &[&str]) -> Done {
    let xtask = stage.xtask("", args);
    let mut command = Command::new("timeout");
    command
        .arg("20")
        .arg(xtask.get_program())
        .args(xtask.get_args())
        .envs(
            xtask
                .get_envs()
                .filter_map(|(name, value)| Some((name, value?))),
        )
        .current_dir(stage.path(""));
    Done::of(command.output().unwrap())
}

#[test]
fn what_has_no_end_is_refused_whichever_flag_names_it() {
    let stage = Stage::new();
    stage.run("pass", &["-d", "10ms"]).code(0);
    for endless in ENDLESS {
        put(endless, &stage.path(endless));
        for words in [
            "latency-run --image",
            "cyclictest --image",
            "run --image",
            "latency-sweep --image",
            "run --manifest",
            "report run --bench",
        ] {
            let args: Vec<_> = words.split(' ').chain([endless]).collect();
            within_time(&stage, &args)
                .code(1)
                .complains("it is no ordinary file");
        }
    }
}

#[test]
fn what_has_no_end_in_a_run_folder_is_refused() {
    let stage = Stage::new();
    stage.run("pass", &["-d", "10ms"]).code(0);
    let from: &[&str] = &["latency-run", "--from", "run"];
    let (log, trace): (&[&str], &[&str]) = (&["log", "run"], &["trace", "run"]);
    for (file, args, why) in [
        ("hist.csv", from, "no ordinary file"),
        ("log.bin", log, "no ordinary file"),
        ("trace.bin", trace, "no ordinary file"),
        ("takt.elf", log, "no ordinary file"),
        ("takt.elf", trace, "no ordinary file"),
        ("run.json", log, "is not a run folder"),
    ] {
        let path = stage.path("run").join(file);
        let kept = fs::read(&path).unwrap();
        for endless in ENDLESS {
            fs::remove_file(&path).unwrap();
            put(endless, &path);
            within_time(&stage, args).code(1).complains(why);
        }
        fs::remove_file(&path).unwrap();
        fs::write(&path, kept).unwrap();
    }
}

#[test]
fn a_command_line_that_would_not_arrive_is_refused() {
    let stage = Stage::new();
    let long = "x".repeat(5000);
    stage
        .xtask("pass", &["run", "hello", "--append", &long])
        .output()
        .map(Done::of)
        .unwrap()
        .code(1)
        .complains("the kernel's command line has");
}

#[test]
fn a_medium_is_no_output() {
    let stage = Stage::new();
    for to in ["--iso", "--elf"] {
        let words = ["image", "--image", "image.elf", to, "-"];
        Done::of(stage.xtask("", &words).output().unwrap())
            .code(1)
            .complains("a medium is not written to stdout");
    }
    assert_eq!(stage.list("."), ["image.elf"]);
}
