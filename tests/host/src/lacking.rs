//! Machines that lack something, and what their loader hands over wrong: each is told of, and none is said to have passed.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use super::Stage;
use super::stage::{Done, FIRST};
use takt_machine::qemu::{self, Accel, Machine, Process};

/// A QEMU that is given other arguments: `change` is a branch of a shell's `case` for each of them, in `$arg`.
fn changed(stage: &Stage, name: &str, change: &str) -> Result<String> {
    let path = stage.dir(name);
    let program = qemu::program();
    let script = format!(
        "#!/usr/bin/env bash\nargs=()\nfor arg; do\ncase \"$arg\" in\n{change};;\nesac\nargs+=(\"$arg\")\ndone\nexec {} \"${{args[@]}}\"\n",
        program.display()
    );
    fs::write(&path, script)?;
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
    Ok(path)
}

/// What `run` says of an example that ends well elsewhere.
fn run(stage: &Stage, name: &str, change: &str) -> Result<Done> {
    let words = ["ends", "-e", "ends", "--append", "end=well"];
    run_this(stage, &words, name, change)
}

/// The same of what these words name.
fn run_this(stage: &Stage, words: &[&str], name: &str, change: &str) -> Result<Done> {
    let qemu = changed(stage, &format!("qemu-{name}"), change)?;
    let dir = stage.dir(name);
    let words = [&["run", "-o", &dir], words].concat();
    let output = stage.command(&words).env("TAKT_QEMU", qemu).output()?;
    Ok(Done::of(&output))
}

/// CPUs without what the kernel needs from its first instructions on.
pub(super) fn cpus(stage: &Stage) -> Result<()> {
    for (feature, what) in [("nx", "NX"), ("lm", "long mode"), ("apic", "local APIC")] {
        run(stage, feature, &format!("max) arg=max,-{feature}"))?
            .code(1)?
            .says(&format!(
                "*** panic: this CPU has no {what}, which the kernel needs"
            ))?
            .complains("the guest ended in a panic or an exception")?;
    }
    let plant = ["--manifest", "board/examples/plant/takt.app.toml"];
    run_this(stage, &plant, "fsgsbase", "max) arg=max,-fsgsbase")?
        .code(1)?
        .says("*** panic: this CPU has no FSGSBASE, which an image with tasks needs")?
        .complains("the guest ended in a panic or an exception")?;
    Ok(())
}

/// A command line that is no text, or too long for the loader, by which way ever it comes.
pub(super) fn command_lines(stage: &Stage) -> Result<()> {
    run(stage, "text", "*end=well*) arg=\"$arg$(printf '\\377')\"")?
        .code(1)?
        .says("*** panic: the loader's command line is not UTF-8")?;
    // QEMU hands over nothing then.
    run(
        stage,
        "long",
        "*end=well*) arg=\"$arg$(printf 'x%.0s' {1..5000})\"",
    )?
    .code(1)?
    .says("*** panic: the loader speaks neither PVH nor Multiboot2")?;
    let long = format!("end=well{}", "x".repeat(5000));
    let words = [
        "run",
        "ends",
        "-e",
        "ends",
        "-o",
        &stage.dir("none"),
        "--append",
        &long,
    ];
    let refused = "bytes, and QEMU hands over at most 4096";
    stage.xtask(&words)?.code(1)?.complains(refused)?;
    Ok(())
}

/// RAM that ends before the image does.
pub(super) fn ram(stage: &Stage) -> Result<()> {
    let machine = Machine {
        image: Path::new(&stage.dir(FIRST)).join("takt.elf"),
        ram: PathBuf::from(stage.dir("ram")),
        dir: stage.path().to_owned(),
        cmdline: String::new(),
        smp: 1,
        accel: Accel::TcgIcount,
    };
    for mib in [2, 8] {
        let little = |arguments: Vec<std::ffi::OsString>| {
            let each = arguments.into_iter();
            each.map(|it| match it == "64M" {
                true => format!("{mib}M").into(),
                false => it,
            })
            .collect()
        };
        let started = Process::start_with(&machine, little, &stage.path().join("messages"));
        let error = started.err().context("it has started")?.to_string();
        let said = format!("MiB, and the machine has {mib} MiB");
        ensure!(error.contains(&said), "{error}");
    }
    Ok(())
}

/// The first instructions of a further CPU: `cli`, `cld`, `xor ax, ax`, `mov ds, ax`.
const TRAMPOLINE: [u8; 6] = [0xfa, 0xfc, 0x31, 0xc0, 0x8e, 0xd8];
/// `hlt`, and that again.
const HALTS: [u8; 3] = [0xf4, 0xeb, 0xfd];

/// CPUs that never start: the others do, and the run is not said to be good.
pub(super) fn cpus_that_never_start(stage: &Stage) -> Result<()> {
    let mut image = fs::read(Path::new(&stage.dir(FIRST)).join("takt.elf"))?;
    let at = image
        .windows(TRAMPOLINE.len())
        .position(|it| it == TRAMPOLINE);
    let at = at.context("the image has no trampoline")?;
    image[at..at + HALTS.len()].copy_from_slice(&HALTS);
    let planted = stage.dir("halts.elf");
    fs::write(&planted, image)?;
    stage
        .latency_run("halts", &format!("--image {planted} -d 10ms --smp 3"))?
        .code(3)?
        .says("1 of 3 CPUs have started, see the log")?;
    let log = stage.xtask(&["log", &stage.dir("halts")])?;
    log.says("the CPU with APIC id 1 did not start")?
        .says("the CPU with APIC id 2 did not start")?;
    Ok(())
}
