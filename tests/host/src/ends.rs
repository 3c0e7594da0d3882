//! `run` of guests that do not end well: nothing that they left is lost, and it is said what happened.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use super::Stage;
use super::stage::{Done, wait_until};

/// `run` of the example with this end and these flags.
fn run(stage: &Stage, end: &str, flags: &[&str]) -> Result<Done> {
    let append = format!("end={end}");
    let dir = stage.dir(end);
    let words = ["run", "ends", "-e", "ends", "-o", &dir, "--append", &append];
    stage.xtask(&[&words, flags].concat())
}

/// The application's own events are recorded without being asked for, beside the kernel's.
pub(super) fn own_events_are_recorded(stage: &Stage) -> Result<()> {
    let words = ["run", "hello", "-o", &stage.dir("hello")];
    stage
        .xtask(&words)?
        .code(0)?
        .says(": reading_stored: channel=1 value=16")?
        .says(": sched_switch: ")?;
    Ok(())
}

/// The trace is there up to the end.
fn has_trace(stage: &Stage, end: &str) -> Result<()> {
    let steps = stage.trace(end)?;
    ensure!(steps.len() == 5, "{} records: {steps:?}", steps.len());
    Ok(())
}

/// Neither bytes that are no text hide the report, nor does the panic lose the trace.
pub(super) fn panic_is_reported_whole(stage: &Stage) -> Result<()> {
    run(stage, "panic", &[])?
        .code(1)?
        .says("step: number=4")?
        .says("\\xff\\u{1b}[2J\nat board/examples/ends.rs:")?
        .says("\n*** panic: as it was asked for")?
        .says("  ends::main (board/examples/ends.rs:")?
        .complains("the guest ended in a panic or an exception")?;
    has_trace(stage, "panic")
}

/// Words for a machine of another kind are refused: the control thread would leave no time to anybody.
pub(super) fn gate_is_needed(stage: &Stage) -> Result<()> {
    let words = ["run", "fields", "-e", "none", "-o", &stage.dir("gate")];
    stage
        .xtask(&[&words[..], &["--append", "control_gate=1"]].concat())?
        .code(1)?
        .says(
            "*** panic: control_gate=1 is for a machine that cargo xtask tracefs --icount has made",
        )?;
    Ok(())
}

/// What timed out, and where the guest stood.
pub(super) fn time_out_says_where(stage: &Stage) -> Result<()> {
    run(stage, "hang", &["--timeout", "5"])?
        .code(1)?
        .says("step: number=4")?
        .complains("the guest did not end within 5 s of real time (--timeout)")?
        .complains("CPU 0  thread 8 `main`, interrupts off, at 0x")?
        .complains("  ends::hang (board/examples/ends.rs:")?;
    has_trace(stage, "hang")
}

/// Each message is in the log or counted, and the run is not said to be good.
pub(super) fn flood_is_counted(stage: &Stage) -> Result<()> {
    let done = run(stage, "flood", &[])?.code(3)?;
    let shown = done.stdout.matches(" INFO  message ").count();
    let told = format!("note: {} log messages found no room", 200_000 - shown);
    ensure!(shown > 100, "only {shown} are shown");
    done.complains(&told)?;
    let log = stage.xtask(&["log", &stage.dir("flood")])?;
    log.code(0)?.complains(&told)?;
    Ok(())
}

/// Messages that others interrupt at each of their instructions are in the log, all of them and whole.
pub(super) fn loggers_do_not_mix(stage: &Stage) -> Result<()> {
    let done = run(stage, "loggers", &[])?.code(0)?;
    for who in ["thread", "handler", "woken"] {
        for number in 0..2_000 {
            let message = format!(" INFO  {who} {number}  (");
            let times = done.stdout.matches(&message).count();
            ensure!(times == 1, "`{message}` is there {times} times");
        }
    }
    Ok(())
}

/// Nothing that a guest logs reaches the terminal as it is.
pub(super) fn log_is_printable(stage: &Stage) -> Result<()> {
    run(stage, "well", &[])?
        .code(0)?
        .says("end=well: bell \\u{7}, clear \\u{1b}[2J  (")?;
    Ok(())
}

/// Ctrl-C ends the guest and keeps what it left; nothing else is left behind.
pub(super) fn ctrl_c_keeps_the_run(stage: &Stage) -> Result<()> {
    let parent = stage.dir("interrupted");
    fs::create_dir(&parent)?;
    let dir = format!("{parent}/run");
    let words = [
        "run", "ends", "-e", "ends", "-o", &dir, "--append", "end=hang",
    ];
    let child = stage
        .command(&words)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let id = child.id();
    let ram = format!("takt-{id}-");
    let hangs = || {
        let said = |entry: fs::DirEntry| fs::read(entry.path().join("serial.txt")).ok();
        let folders = fs::read_dir(&parent).into_iter().flatten().flatten();
        folders
            .filter_map(said)
            .any(|said| said.starts_with(b"hanging\n"))
    };
    wait_until(hangs).context("the guest does not say that it hangs")?;
    let status = Command::new("kill")
        .args(["-INT", &id.to_string()])
        .status()?;
    ensure!(status.success(), "kill: {status}");
    Done::of(&child.wait_with_output()?)
        .code(130)?
        .says("step: number=4")?
        .complains("interrupted: the guest was stopped; run folder")?
        .complains("  ends::hang (board/examples/ends.rs:")?;
    let left = names(Path::new(&parent))?;
    ensure!(left == ["run"], "there is {left:?}");
    let left = names(Path::new("/dev/shm"))?;
    ensure!(!left.iter().any(|name| name.starts_with(&ram)), "{left:?}");
    Ok(())
}

/// The guest does not outlive a tool that is killed.
pub(super) fn killed_tool_ends_the_guest(stage: &Stage) -> Result<()> {
    let dir = stage.dir("killed");
    let words = [
        "run", "ends", "-e", "ends", "-o", &dir, "--append", "end=hang",
    ];
    let mut child = stage
        .command(&words)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    let ram = format!("takt-{}-", child.id());
    // Whether QEMU is there, whose memory has this name.
    let runs = || {
        let command = |entry: fs::DirEntry| fs::read(entry.path().join("cmdline")).ok();
        let mut commands = fs::read_dir("/proc")
            .into_iter()
            .flatten()
            .flatten()
            .filter_map(command);
        commands.any(|it| String::from_utf8_lossy(&it).contains(&ram))
    };
    wait_until(runs).context("QEMU does not start")?;
    child.kill()?;
    child.wait()?;
    wait_until(|| !runs()).context("QEMU goes on")
}

fn names(dir: &Path) -> Result<Vec<String>> {
    let names = fs::read_dir(dir)?.map(|entry| Ok(entry?.file_name().to_string_lossy().into()));
    names.collect()
}

/// A reader that has seen enough ends nothing badly; a full disk does, in one line.
pub(super) fn output_that_cannot_be_written(stage: &Stage) -> Result<()> {
    let dir = stage.dir("full");
    let words = ["run", "ends", "-e", "ends", "--force", "-o", &dir];
    let full = fs::File::options().write(true).open("/dev/full")?;
    let output = stage
        .command(&words)
        .stdout(full)
        .stderr(Stdio::piped())
        .spawn()?;
    Done::of(&output.wait_with_output()?)
        .code(1)?
        .complains("the guest ended well")?
        .complains("cannot write to stdout")?;
    let mut child = stage
        .command(&words)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let mut first = String::new();
    let stdout = child.stdout.take().context("no stdout")?;
    BufReader::with_capacity(1, stdout).read_line(&mut first)?;
    ensure!(first == "# log\n", "{first}");
    Done::of(&child.wait_with_output()?)
        .code(0)?
        .complains("the guest ended well")?;
    Ok(())
}
