//! The packages that `compare linux-rt` needs: missing, wrong, fetched, changed.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use crate::common::linux::{boot_image, compare, package, run, stage};
use crate::common::{Done, Stage};

#[test]
fn packages_that_are_missing_or_wrong_are_said_before_anything_is_booted() {
    let stage = stage();
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
    let stage = stage();
    let fetched_by = |apt_get: &str| {
        let mut command = compare(&stage, "kept");
        command.env("DEBS", stage.path("debs"));
        with_apt(&stage, &mut command, APT_CACHE, apt_get);
        Done::of(command.output().unwrap())
    };
    let done = fetched_by(APT_GET);
    done.code(0)
        .complains("fetching rt-tests 1.0 from the system's apt sources");
    assert!(stage.list("kept").contains(&"packages.json".to_owned()));
    let broken = "echo 'E: Could not resolve the host' >&2; exit 100";
    let done = fetched_by(broken);
    assert!(!done.code(0).stderr.contains("fetching"), "{done:#?}");

    fs::write(stage.path("kept/rt-tests_1.0_all.deb"), "tampered").unwrap();
    fetched_by(broken)
        .code(1)
        .complains("Could not resolve the host")
        .complains("apt-get download");
    fetched_by(APT_GET)
        .code(0)
        .complains("they are fetched again");
}

#[test]
fn a_package_with_another_checksum_is_refused() {
    let stage = stage();
    let mut command = compare(&stage, "kept");
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
