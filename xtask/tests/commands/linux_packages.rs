//! The packages that `compare linux-rt` needs: missing, wrong.

use std::fs;

use crate::common::linux::{boot_image, package, run, stage};

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
        "pool/main/r/rt-tests/rt-tests_2.4-1_amd64.deb",
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
