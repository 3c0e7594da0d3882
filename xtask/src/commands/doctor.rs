//! `doctor`: what is there, what is missing, which accelerator would be used and why.

use std::process::{Command, ExitCode, Stdio};

use anyhow::Result;
use console::{Style, pad_str, style};

use takt_base::output;
use takt_base::paths::which;
use takt_base::setup;
use takt_base::setup::packages::{Manager, has_sudo, is_root};
use takt_guest::ram::free_bytes;
use takt_image::Recipe;
use takt_image::build::TARGET;
use takt_machine::counted::plugin::check_qemu;
use takt_machine::qemu::accel;
use takt_machine::qemu::accel::AccelChoice;
use takt_machine::qemu::command::RAM_MIB;
use takt_machine::qemu::{self, Accel};
use takt_machine::run::probe;

/// The state of one thing.
enum State {
    Ok,
    /// Not needed, only better.
    Optional,
    Missing,
}

/// One thing: its name, what was found, what to do.
struct Check {
    name: &'static str,
    state: State,
    found: String,
    advice: Option<String>,
}

/// Prints the table. Exit code 1 if something is missing that is needed.
pub(super) fn run() -> Result<ExitCode> {
    let checks = [
        toolchain(),
        target(),
        linker(),
        qemu_there(),
        plugins(),
        viewer("trace-cmd"),
        viewer("babeltrace2"),
        browser(),
        grub(),
        setpriv(),
        shared_memory(),
        git(),
        kvm(),
    ];
    for check in &checks {
        print(check)?;
    }
    let is_complete = !checks
        .iter()
        .any(|check| matches!(check.state, State::Missing));
    let accel = accel::select(AccelChoice::Auto, true, probe_image)?;
    output::line(format_args!(
        "\naccelerator  {} ({})",
        accel.accel.name(),
        accel.why
    ))?;
    output::line(format_args!("1 ns means   {}", accel.accel.ns_means()))?;
    Ok(if is_complete {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn print(check: &Check) -> Result<()> {
    let (word, color) = match check.state {
        State::Ok => ("ok", Style::new().green()),
        State::Optional => ("optional", Style::new().yellow()),
        State::Missing => ("missing", Style::new().red().bold()),
    };
    let word = pad_str(word, 8, console::Alignment::Left, None);
    output::line(format_args!(
        "{:<16} {}  {}",
        check.name,
        color.apply_to(word),
        check.found
    ))?;
    if let Some(advice) = &check.advice {
        output::line(format_args!(
            "{:<16} {}",
            "",
            style(format!("→ {advice}")).dim()
        ))?;
    }
    Ok(())
}

/// The first line that a program prints.
fn first_line(program: &str, args: &[&str]) -> Option<String> {
    let output = Command::new(program)
        .args(args)
        .stdin(Stdio::null())
        .output()
        .ok()?;
    let text = String::from_utf8_lossy(&output.stdout);
    output
        .status
        .success()
        .then(|| text.lines().next().unwrap_or_default().to_owned())
}

fn check(name: &'static str, found: Option<String>, advice: impl FnOnce() -> String) -> Check {
    match found {
        Some(found) => Check {
            name,
            state: State::Ok,
            found,
            advice: None,
        },
        None => Check {
            name,
            state: State::Missing,
            found: "not found".into(),
            advice: Some(advice()),
        },
    }
}

fn optional(name: &'static str, found: Option<String>, without: &str) -> Check {
    match found {
        Some(found) => Check {
            name,
            state: State::Ok,
            found,
            advice: None,
        },
        None => Check {
            name,
            state: State::Optional,
            found: without.into(),
            advice: None,
        },
    }
}

fn toolchain() -> Check {
    check("Rust", first_line("rustc", &["--version"]), || {
        "install rustup: https://rustup.rs".into()
    })
}

fn target() -> Check {
    let libs = first_line("rustc", &["--print", "target-libdir", "--target", TARGET]);
    let libs = libs.filter(|dir| std::path::Path::new(dir).is_dir());
    check("target", libs.map(|_| TARGET.into()), || {
        format!("rustup target add {TARGET}")
    })
}

fn linker() -> Check {
    let found = which("cc").map(|path| path.display().to_string());
    check("C linker", found, || by_hand(|manager| manager.linker))
}

fn qemu_there() -> Check {
    let mut found = check("QEMU", qemu::version(), || by_hand(|manager| manager.qemu));
    if matches!(found.state, State::Missing)
        && (is_root() || has_sudo())
        && Manager::find().is_some()
    {
        found.found = "not found; latency-run installs it".into();
    }
    found
}

fn plugins() -> Check {
    let found = check_qemu().ok().map(|()| "QEMU takes them".into());
    optional(
        "plugins",
        found,
        "this QEMU takes none: latency-run --verify needs one that does",
    )
}

fn viewer(name: &'static str) -> Check {
    let found = which(name).map(|path| path.display().to_string());
    optional(
        name,
        found,
        "not found: the tests that judge exports of traces need it, and install it",
    )
}

fn browser() -> Check {
    let found = setup::browser().map(|path| path.display().to_string());
    optional(
        "Chromium",
        found,
        "not found: the test that opens a report needs it, and installs it",
    )
}

fn grub() -> Check {
    let found = match setup::missing_grub() {
        None => Some("media for BIOS and UEFI can be made".into()),
        Some(_) => None,
    };
    optional(
        "GRUB's tools",
        found,
        "not all there: `image` needs them, and installs them",
    )
}

/// How to install something by hand.
fn by_hand(package: impl Fn(&Manager) -> &'static str) -> String {
    Manager::find().map_or_else(
        || "install it; no package manager known here was found".into(),
        |manager| manager.to_shell(package(&manager)),
    )
}

fn setpriv() -> Check {
    let found = which("setpriv").map(|_| "QEMU dies with xtask, whatever happens".into());
    optional(
        "setpriv",
        found,
        "not found: if xtask is killed, its QEMU lives on",
    )
}

fn shared_memory() -> Check {
    let room =
        free_bytes(std::path::Path::new("/dev/shm")).filter(|free| free >> 20 > RAM_MIB * 5 / 4);
    let found = room.map(|free| format!("{} MiB free", free >> 20));
    optional(
        "/dev/shm",
        found,
        "no room: the guest's RAM is a file in the run folder, on disk",
    )
}

fn git() -> Check {
    optional(
        "git",
        first_line("git", &["--version"]),
        "not found: runs do not know their revision",
    )
}

fn kvm() -> Check {
    match accel::kvm_looks_usable() {
        Ok(()) => Check {
            name: "KVM",
            state: State::Ok,
            found: "vmx or svm, and /dev/kvm".into(),
            advice: None,
        },
        Err(why) => Check {
            name: "KVM",
            state: State::Optional,
            found: why,
            advice: None,
        },
    }
}

/// Boots the image under KVM, where KVM looks usable.
fn probe_image() -> Result<(), String> {
    if qemu::version().is_none() {
        return Err("no probe boot without QEMU".into());
    }
    let built = Recipe::takt(0)
        .build()
        .map_err(|error| format!("no probe boot: {error:#}"))?;
    probe::probe(&built.path, Accel::Kvm)
}
