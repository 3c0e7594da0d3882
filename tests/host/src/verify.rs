//! `latency-run --verify`: every latency against the count of executed instructions, and what it costs the guest: nothing.

use std::fs;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use super::Stage;

/// The end of the interrupt entry's time stamp: `shl rdx, 32`, `lea rdi, [rax + rdx]`.
const STAMP: [u8; 8] = [0x48, 0xc1, 0xe2, 0x20, 0x48, 0x8d, 0x3c, 0x10];
/// In as many instructions the same while the time has 32 bits, but one more: `lea rdi, [rax + 1]`, `nop`.
const ONE_MORE: [u8; 8] = [0x48, 0x8d, 0x78, 0x01, 0x0f, 0x1f, 0x40, 0x00];

/// Each load on one CPU and on two. A guest that is counted does the same as one that is not.
pub(super) fn every_load(stage: &Stage) -> Result<()> {
    for load in ["none", "cpu", "irq", "lock", "plant", "mix"] {
        for (smp, all) in [(1, "50 of 50"), (2, "100 of 100")] {
            let flags = format!("-d 50ms --smp {smp} --load {load}");
            stage
                .latency_run("counted", &format!("{flags} --verify"))?
                .code(0)?
                .says(&format!("verified     {all} activations"))?;
            if load == "mix" {
                stage.latency_run("uncounted", &flags)?.code(0)?;
                ["hist.csv", "trace.bin", "log.bin"]
                    .iter()
                    .try_for_each(|file| stage.same(file, "counted", "uncounted"))?;
            }
        }
    }
    let document = stage.document("counted")?;
    ensure!(
        document["verified"]["activations"] == 100 && document["verified"]["verified"] == 100,
        "{}",
        document["verified"]
    );
    for cpu in document["cpus"].as_array().context("no CPUs")? {
        for which in ["irq", "thread"] {
            let (with, without) = (&cpu[which]["max"], &cpu["without_turns"][which]["max"]);
            ensure!(
                without.as_u64() <= with.as_u64() && without.is_u64(),
                "{which} {without} without turns, {with} with them"
            );
        }
    }
    // Functions that are traced on the way, no other event, the warm-up.
    for (flags, all) in [
        ("-d 20ms --tracer function", 20),
        ("-d 20ms -p 100 -e none", 200),
        ("-d 20ms --warm-up 10ms", 30),
    ] {
        stage
            .latency_run("counted", &format!("{flags} --verify"))?
            .code(0)?
            .says(&format!("verified     {all} of {all} activations"))?;
    }
    // What stops a run is verified, too, though tracing ends with it.
    for limit in ["-i 0.001", "-T 0.05"] {
        stage
            .latency_run("counted", &format!("-d 20ms {limit} --verify"))?
            .code(2)?
            .says("verified     1 of 1 activations")?;
    }
    Ok(())
}

/// The analysis has the other CPUs' turns from a run of its own, and they are what the table takes off the same latency. That is
/// the only one of its CPU at one of these limits: which of them depends on where the image's timers meet.
pub(super) fn agrees_with_analysis(stage: &Stage) -> Result<()> {
    for limit in ["0.5", "1", "2", "0.1"] {
        if is_agreed_on(stage, limit)? {
            return Ok(());
        }
    }
    bail!("no limit is exceeded by a first activation that another CPU's turn is part of")
}

/// Whether the first activation of its CPU is above this limit, and has other CPUs' turns in it. Then they have to agree.
fn is_agreed_on(stage: &Stage, limit: &str) -> Result<bool> {
    let flags = format!("-d 100ms --smp 2 --load mix -a {limit} --verify --json -");
    let run = stage.latency_run("both", &flags)?.code(2)?.json()?;
    let number = |value: &Value| value.as_u64().context("no number");
    let rows = run["analysis"]["rows"].as_array().context("no analysis")?;
    // What another CPU did with a lock of the kernel's, which this one waited for, has a row of its own.
    let turns = rows
        .iter()
        .filter(|row| row["group"] == "other-cpus" || row["group"] == "kernel-lock")
        .map(|row| number(&row["ns"]))
        .sum::<Result<u64>>()?;
    let cpu = &run["cpus"][number(&run["analysis"]["cpu"])? as usize];
    // The last activation is the first above the limit, so the longest.
    let with = number(&cpu["thread"]["max"])?;
    let without = number(&cpu["without_turns"]["thread"]["max"])?;
    ensure!(
        with == number(&run["analysis"]["latency_ns"])?,
        "{with} in the table, {} in the analysis",
        run["analysis"]["latency_ns"]
    );
    if cpu["thread"]["count"] != 1 || turns == 0 {
        return Ok(false);
    }
    ensure!(
        with - without == turns,
        "{with} with turns, {without} without, and the analysis says {turns}"
    );
    Ok(true)
}

/// A guest whose interrupt takes a time stamp of one nanosecond more than there is: each IRQ latency is one too long.
pub(super) fn planted_error(stage: &Stage) -> Result<()> {
    let mut image = stage.read("first", "takt.elf")?;
    let places: Vec<_> = (0..image.len() - STAMP.len())
        .filter(|&at| image[at..].starts_with(&STAMP))
        .collect();
    ensure!(!places.is_empty(), "the image's time stamp is another one");
    for at in places {
        image[at..at + STAMP.len()].copy_from_slice(&ONE_MORE);
    }
    let path = stage.dir("false.elf");
    fs::write(&path, image)?;
    let flags = format!("-d 20ms --image {path}");
    stage.latency_run("false", &flags)?.code(0)?;
    stage
        .latency_run("false", &format!("{flags} --verify"))?
        .code(1)?
        .says("verified     0 of 20 activations")?
        .says("activation 1 on CPU 0: its IRQ latency was measured as 5 ns, and is 4")?;
    Ok(())
}

/// What cannot be verified is refused before anything is measured.
pub(super) fn refused(stage: &Stage) -> Result<()> {
    let done = stage.latency_run("refused", "-d 10ms --verify --no-icount")?;
    let done = done.code(1)?;
    ensure!(done.stderr.contains("--accel tcg"), "{}", done.stderr);
    Ok(())
}
