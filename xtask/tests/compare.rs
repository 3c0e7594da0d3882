//! `compare linux-rt` with a Linux that is played: the verdict, and every way in which it, its packages or the user can
//! go wrong.

mod common;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use common::{Done, Stage, elf, event};
use serde_json::Value;

/// A stage with Debian packages and an image that has timerlat's events; `None` where packages cannot be made.
fn stage() -> Option<Stage> {
    let is_there = Command::new("dpkg-deb").arg("--version").output();
    if is_there.is_err() {
        eprintln!("NOT TESTED: there is no dpkg-deb");
        return None;
    }
    let stage = Stage::new();
    let text = |name: &str| {
        format!("event {name}\nclass tick\nlayout wide\nfield n 32 u\nprint n={{n}}\n")
    };
    let mut events = event(1, &text("fake:tick"));
    events.extend(event(3, &text("timerlat:sample")));
    fs::write(stage.path("image.elf"), elf(&events)).unwrap();

    let config = "CONFIG_PREEMPT_RT=y\nCONFIG_PVH=y\nCONFIG_TIMERLAT_TRACER=y\nCONFIG_BLK_DEV_INITRD=y\n\
                  CONFIG_DEVTMPFS=y\nCONFIG_SERIAL_8250_CONSOLE=y\nCONFIG_TMPFS=y\nCONFIG_HZ=250\n";
    package(
        &stage,
        "debs",
        "linux-image-6.1.0-fake",
        &[
            ("boot/config-6.1", config.as_bytes()),
            ("boot/vmlinuz-6.1", &boot_image()),
        ],
    );
    package(
        &stage,
        "debs",
        "busybox-static",
        &[("bin/busybox", b"busybox")],
    );
    // It needs no library.
    package(
        &stage,
        "debs",
        "rt-tests",
        &[("usr/bin/cyclictest", &elf(&[]))],
    );
    Some(stage)
}

/// A kernel whose ELF file is not compressed.
fn boot_image() -> Vec<u8> {
    let payload = b"\x7fELF of a kernel";
    let mut image = vec![0; 1024];
    image[0x1f1] = 1;
    image[0x202..0x206].copy_from_slice(b"HdrS");
    image[0x206..0x208].copy_from_slice(&0x20fu16.to_le_bytes());
    image[0x24c..0x250].copy_from_slice(&(payload.len() as u32).to_le_bytes());
    image.extend(payload);
    image
}

/// Makes a Debian package in a folder of the stage.
fn package(stage: &Stage, folder: &str, name: &str, files: &[(&str, &[u8])]) {
    let root = stage.path("package");
    let control = format!(
        "Package: {name}\nVersion: 1.0\nArchitecture: all\nMaintainer: none\nDescription: fake\n"
    );
    for (path, bytes) in files
        .iter()
        .copied()
        .chain([("DEBIAN/control", control.as_bytes())])
    {
        fs::create_dir_all(root.join(path).parent().unwrap()).unwrap();
        fs::write(root.join(path), bytes).unwrap();
    }
    fs::create_dir_all(stage.path(folder)).unwrap();
    let built = Command::new("dpkg-deb")
        .args(["-Znone", "--root-owner-group", "--build"])
        .arg(&root)
        .arg(stage.path(folder).join(format!("{name}_1.0_all.deb")))
        .output()
        .unwrap();
    assert!(built.status.success(), "{built:?}");
    fs::remove_dir_all(root).unwrap();
}

/// `compare linux-rt` of ten activations into the folder `run`.
fn command(stage: &Stage, linux: &str, args: &[&str]) -> Command {
    let mut command = stage.xtask(
        "pass",
        &[
            "compare",
            "linux-rt",
            "--image",
            "image.elf",
            "-o",
            "run",
            "-d",
            "10ms",
            "--warm-up",
            "0",
        ],
    );
    command
        .arg("--no-install")
        .args(
            (!args.contains(&"--packages"))
                .then_some(["--packages", "debs"])
                .into_iter()
                .flatten(),
        )
        .args(args)
        .env("FAKE_LINUX", linux);
    command
}

fn run(stage: &Stage, linux: &str, args: &[&str]) -> Done {
    Done::of(command(stage, linux, args).output().unwrap())
}

/// Nothing half-done lies about.
#[track_caller]
fn is_tidy(stage: &Stage) {
    let hidden = |name: &&String| name.starts_with('.');
    assert_eq!(
        stage.list(".").iter().filter(hidden).count(),
        0,
        "{:?}",
        stage.list(".")
    );
    assert_eq!(stage.list("debs").iter().filter(hidden).count(), 0);
    assert!(stage.is_qemu_gone());
}

#[test]
fn both_stand_side_by_side_and_everything_is_kept() {
    let Some(stage) = stage() else { return };
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
    assert_eq!(json["limits"].as_array().unwrap().len(), 4);
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
    let Some(stage) = stage() else { return };
    let done = run(&stage, "fast", &[]);
    done.code(2)
        .says("IRQ latency, median           7   85/10 = 8.5             holds")
        .says("IRQ latency, max              9   85/10 = 8.5             does not hold")
        .says("threshold: not every limit holds");
}

#[test]
fn what_cannot_be_trusted_is_exit_code_3() {
    let Some(stage) = stage() else { return };
    for (linux, why) in [
        ("lost", "Linux lost 3 records of timerlat"),
        ("priority", "Linux's timerlat did not have FIFO 95"),
    ] {
        run(&stage, linux, &[]).code(3).says(why).says("tainted");
    }
}

#[test]
fn every_bad_end_of_linux_is_named_and_kept() {
    let Some(stage) = stage() else { return };
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
    let Some(stage) = stage() else { return };
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
    let Some(stage) = stage() else { return };
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
        .code(1)
        .complains("interrupted: nothing was compared");
    assert!(!stage.path("run").exists());
    is_tidy(&stage);
}

#[test]
fn a_takt_that_fails_is_an_error_too() {
    let Some(stage) = stage() else { return };
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

#[test]
fn packages_that_are_missing_or_wrong_are_said_before_anything_is_booted() {
    let Some(stage) = stage() else { return };
    let fails = |args: &[&str], why: &str| {
        let done = run(&stage, "pass", args);
        done.code(1).complains(why);
        assert!(!stage.path("pid").exists(), "{done:#?}");
        assert!(!stage.path("run").exists());
    };
    fails(
        &["--packages", "nowhere"],
        "apt-get download busybox-static rt-tests",
    );
    fs::write(stage.path("bad.deb"), "no package").unwrap();
    fails(&["--kernel", "bad.deb"], "bad.deb is no Debian package");
    fails(
        &["--kernel", "debs/busybox-static_1.0_all.deb"],
        "busybox-static 1.0 holds no kernel",
    );
    let ordinary = [
        ("boot/config-6.1", &b"CONFIG_HZ=250\n"[..]),
        ("boot/vmlinuz-6.1", &boot_image()),
    ];
    package(&stage, "other", "linux-image-ordinary", &ordinary);
    fails(
        &["--kernel", "other/linux-image-ordinary_1.0_all.deb"],
        "it is no PREEMPT_RT kernel",
    );
    fs::copy(
        stage.path("other/linux-image-ordinary_1.0_all.deb"),
        stage.path("debs/second.deb"),
    )
    .unwrap();
    fails(&[], "there are several kernels");
}

/// Puts programs of ours before those of the system.
fn with_apt(stage: &Stage, command: &mut Command, apt_cache: &str, apt_get: &str) {
    let bin = stage.path("bin");
    fs::create_dir_all(&bin).unwrap();
    for (name, text) in [("apt-cache", apt_cache), ("apt-get", apt_get)] {
        fs::write(bin.join(name), format!("#!/bin/sh\n{text}\n")).unwrap();
        fs::set_permissions(bin.join(name), fs::Permissions::from_mode(0o755)).unwrap();
    }
    let path = std::env::var("PATH").unwrap();
    command.env("PATH", format!("{}:{path}", bin.display()));
}

/// An apt whose archive is the folder `debs`.
const APT_CACHE: &str = r#"for name; do :; done
case $name in
    linux-image-rt-amd64) echo "Package: $name\nVersion: 1.0\nDepends: linux-image-6.1.0-fake (= 1.0)\nSHA256: 0"; exit;;
esac
[ -e debs/${name}_1.0_all.deb ] || { echo "E: No packages found" >&2; exit 100; }
echo "Package: $name\nVersion: 1.0\nSHA256: $(sha256sum debs/${name}_1.0_all.deb | cut -d ' ' -f 1)""#;
const APT_GET: &str = r#"for name; do :; done
case $name in update) exit 0;; esac
cp "$DEBS/${name%=1.0}_1.0_all.deb" ."#;

#[test]
fn packages_are_fetched_once_checked_and_fetched_again_if_they_changed() {
    let Some(stage) = stage() else { return };
    let compare = |apt_get: &str| {
        let mut command = stage.xtask(
            "pass",
            &[
                "compare",
                "linux-rt",
                "--image",
                "image.elf",
                "-o",
                "run",
                "-d",
                "10ms",
                "--warm-up",
                "0",
            ],
        );
        command
            .args(["--packages", "kept"])
            .env("DEBS", stage.path("debs"));
        with_apt(&stage, &mut command, APT_CACHE, apt_get);
        Done::of(command.output().unwrap())
    };
    let done = compare(APT_GET);
    done.code(0)
        .complains("fetching rt-tests 1.0 from the system's apt sources");
    assert!(stage.list("kept").contains(&"packages.json".to_owned()));
    let broken = "echo 'E: Could not resolve the host' >&2; exit 100";
    let done = compare(broken);
    assert!(!done.code(0).stderr.contains("fetching"), "{done:#?}");

    fs::write(stage.path("kept/rt-tests_1.0_all.deb"), "tampered").unwrap();
    compare(broken)
        .code(1)
        .complains("Could not resolve the host")
        .complains("apt-get download");
    compare(APT_GET).code(0).complains("they are fetched again");
}

#[test]
fn a_package_with_another_checksum_is_refused() {
    let Some(stage) = stage() else { return };
    let mut command = stage.xtask(
        "pass",
        &[
            "compare",
            "linux-rt",
            "--image",
            "image.elf",
            "--packages",
            "kept",
        ],
    );
    command.env("DEBS", stage.path("debs"));
    with_apt(
        &stage,
        &mut command,
        APT_CACHE,
        &format!("{APT_GET}\necho x >> \"${{name%=1.0}}_1.0_all.deb\""),
    );
    let done = Done::of(command.output().unwrap());
    done.code(1).complains("apt's lists say");
    assert!(!stage.path("kept/packages.json").exists());
    assert!(!stage.path("pid").exists());
}
