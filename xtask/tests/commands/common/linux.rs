//! A stage for comparisons: Debian packages, and a Linux that is played.

use std::fs;
use std::process::Command;

use super::{Done, Stage, elf, event};

/// A stage with Debian packages and an image that has timerlat's events.
///
/// # Panics
/// Where packages cannot be made: a comparison that was not tested has not passed.
pub(crate) fn stage() -> Stage {
    if let Err(error) = Command::new("dpkg-deb").arg("--version").output() {
        panic!("cannot run dpkg-deb, which makes the packages of this test: {error}; install dpkg");
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
    // They need no library.
    package(
        &stage,
        "debs",
        "rt-tests",
        &[
            ("usr/bin/cyclictest", &elf(&[])),
            ("usr/bin/ptsematest", &elf(&[])),
        ],
    );
    stage
}

/// A kernel whose ELF file is not compressed.
pub(crate) fn boot_image() -> Vec<u8> {
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
pub(crate) fn package(stage: &Stage, folder: &str, name: &str, files: &[(&str, &[u8])]) {
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

/// `compare linux-rt` of ten activations into the folder `run`, with what was fetched into the folder `packages`.
pub(crate) fn compare(stage: &Stage, packages: &str) -> Command {
    let words = "compare linux-rt --image image.elf -o run --force -d 10ms --warm-up 0 --packages";
    let mut words: Vec<_> = words.split(' ').collect();
    words.push(packages);
    stage.xtask("pass", &words)
}

/// The same with the packages that the stage has, or those that are named, and a Linux that is played like this.
pub(crate) fn command(stage: &Stage, linux: &str, args: &[&str]) -> Command {
    let (packages, args) = match args {
        ["--packages", packages, rest @ ..] => (*packages, rest),
        args => ("debs", args),
    };
    let mut command = compare(stage, packages);
    command
        .arg("--no-install")
        .args(args)
        .env("FAKE_LINUX", linux);
    command
}

pub(crate) fn run(stage: &Stage, linux: &str, args: &[&str]) -> Done {
    Done::of(command(stage, linux, args).output().unwrap())
}

/// Nothing half-done lies about.
#[track_caller]
pub(crate) fn is_tidy(stage: &Stage) {
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
