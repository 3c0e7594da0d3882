//! The examples of drivers, in machines that have the devices.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::Stage;
use super::stage::{Done, wait_until};

/// `run` of an example with these words and QEMU's.
fn run(stage: &Stage, name: &str, append: &str, qemu: &str) -> Result<Done> {
    let dir = stage.dir(name);
    let words = ["run", name, "-e", "none", "-o", &dir, "--force"];
    stage.xtask(&[&words[..], &["--append", append, "--qemu", qemu]].concat())
}

pub(super) fn examples(stage: &Stage) -> Result<()> {
    run(stage, "eeprom", "", "")?
        .code(0)?
        .says("memory module: Err(Kind(0))")?
        .says("read back: Takt was here, and will be again")?;
    let rng = "-object rng-builtin,id=rng -device virtio-rng-pci,rng=rng";
    let dice = run(stage, "random", "", rng)?.code(0)?;
    let nr = dice.stdout.matches("(board/examples/random.rs").count();
    ensure!(nr == 5, "{nr} rolls:\n{}", dice.stdout);
    // The capture has its port: it is not opened, and nobody waits for what is typed.
    run(stage, "echo", "capture=com1", "")?.code(1)?;
    run(stage, "clock", "", "")?
        .code(0)?
        .says("it is DateTime { year: 2026, month: 1, day: 1,")?
        .says(" ticks later")?;
    run(
        stage,
        "tones",
        "",
        "-chardev null,id=par -parallel chardev:par",
    )?
    .code(0)?
    .says("659 Hz")?;
    Ok(())
}

/// A driver in an image makes no interrupt longer: two SSE registers are kept.
pub(super) fn keep_two_registers(stage: &Stage) -> Result<()> {
    for name in ["clock", "echo", "eeprom", "random", "tones", "watchdog"] {
        let built = stage.xtask(&["build", "--example", name])?.code(0)?;
        ensure!(
            !built.stderr.contains("interrupts keep all"),
            "{}",
            built.stderr
        );
    }
    Ok(())
}

/// A machine that is no more fed begins anew, and knows why; so does one that has lost a tick, by which it would be fed.
pub(super) fn watchdogs_reset(stage: &Stage) -> Result<()> {
    let told = "the watchdog has reset the machine";
    for (word, device) in [
        ("tco tick=lost", "-global ICH9-LPC.noreboot=false"),
        ("i6300esb", "-device i6300esb"),
    ] {
        let append = format!("watchdog={word}");
        let qemu = format!("{device} -action reboot=reset");
        run(stage, "watchdog", &append, &qemu)?
            .code(0)?
            .says(told)?
            .complains("the guest began anew 1 times: log and trace are those of its last boot")?;
    }
    // A single one is enough. The CPU goes round until it comes, so that the watchdog's seconds are real ones: it is
    // not waited for, and stopped at any place of a round.
    let dir = stage.dir("swallowed");
    let words = [
        "run",
        "watchdog",
        "-e",
        "none",
        "-o",
        &dir,
        "--timeout",
        "5",
    ];
    let append = [
        "--append",
        "tick=swallowed",
        "--qemu",
        "-global ICH9-LPC.noreboot=false",
    ];
    stage
        .xtask(&[&words[..], &append].concat())?
        .code(1)?
        .says("it bites after 6000 ms")?
        .complains("the guest did not end within 5 s of real time (--timeout)")?
        .complains("CPU 0  thread 0 `idle`, interrupts o")?;
    // A machine that is strapped so that it does not.
    run(stage, "watchdog", "", "")?
        .code(1)?
        .says("the watchdog does not bite")?;
    Ok(())
}

/// What is typed comes back, more at a time than rings and buffers hold.
pub(super) fn echo(stage: &Stage) -> Result<()> {
    echoed(stage, "com2", "-serial chardev:typed")?
        .says("Counts { overruns: 0, parity: 0, framing: 0, breaks: 0 }")?;
    let console = "-device virtio-serial-pci,max_ports=1,id=second \
                   -device virtconsole,bus=second.0,chardev=typed";
    echoed(stage, "virtio", console)?;
    Ok(())
}

fn echoed(stage: &Stage, port: &str, device: &str) -> Result<Done> {
    let socket = stage.path().join(format!("{port}.socket"));
    let qemu = format!(
        "-chardev socket,id=typed,path={},server=on {device}",
        socket.display()
    );
    let append = format!("port={port}");
    let words = ["run", "echo", "-e", "none", "-o", &stage.dir(port)];
    let words = [&words[..], &["--append", &append, "--qemu", &qemu]].concat();
    let child = stage
        .command(&words)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let talk = || {
        wait_until(|| socket.exists()).context("QEMU does not listen")?;
        let mut typed = UnixStream::connect(&socket)?;
        typed.set_read_timeout(Some(Duration::from_secs(60)))?;
        let mut answer = vec![0; "type something\r\n".len()];
        typed.read_exact(&mut answer)?;
        let text = "typed in one go; ".repeat(100);
        typed.write_all(text.as_bytes())?;
        let mut answer = vec![0; text.len()];
        typed.read_exact(&mut answer)?;
        ensure!(
            answer == text.to_uppercase().as_bytes(),
            "{}",
            answer.escape_ascii()
        );
        typed.write_all(b"bye\x04")?;
        let mut answer = Vec::new();
        typed.read_to_end(&mut answer)?;
        ensure!(answer == b"BYE", "{}", answer.escape_ascii());
        Ok(())
    };
    let talked = talk();
    let done = Done::of(&child.wait_with_output()?);
    talked.with_context(|| format!("{}{}", done.stdout, done.stderr))?;
    done.code(0)
}
