//! Nothing of a guest's controls the terminal, and nothing that cannot be written ends in a panic.

use std::fs::File;
use std::process::{Command, Stdio};

use crate::common::{Done, Stage};

fn full() -> Stdio {
    File::options()
        .write(true)
        .open("/dev/full")
        .unwrap()
        .into()
}

/// A pipe that nobody reads.
fn closed() -> Stdio {
    std::io::pipe().unwrap().1.into()
}

fn output(command: &mut Command) -> Done {
    Done::of(command.spawn().unwrap().wait_with_output().unwrap())
}

#[test]
fn names_of_threads_are_escaped() {
    let stage = Stage::new();
    let shown = "tick\\u{1b}[2Jer";
    stage.run("pass", &["-d", "10ms", "-v"]).code(0).says(shown);
    for format in ["text", "latency", "csv", "flamegraph", "graph"] {
        let done = output(&mut stage.xtask("", &["trace", "run", "--format", format]));
        done.code(0);
        let lines = done.stdout.replace("\r\n", "\n");
        let is_raw = lines.contains(|c: char| c.is_control() && c != '\n' && c != '\t');
        assert!(!is_raw, "{format}: {done:#?}");
        // Where the guest's own text is.
        if format != "flamegraph" && format != "graph" {
            done.says(shown);
        }
    }
}

#[test]
fn a_stderr_that_takes_nothing_ends_nothing() {
    let stage = Stage::new();
    for stderr in [full, closed] {
        // A note, an error, advice.
        for (args, code) in [
            (
                &[
                    "latency-run",
                    "--image",
                    "image.elf",
                    "-e",
                    "fake",
                    "--accel",
                    "tcg",
                    "-d",
                    "10ms",
                ][..],
                0,
            ),
            (&["trace", "nowhere"], 1),
            (&["latency-sweep", "--workload", "nothing"], 1),
        ] {
            let done = output(stage.xtask("pass", args).stderr(stderr()));
            done.code(code);
        }
    }
}

#[test]
fn a_stdout_that_takes_nothing_is_said_once() {
    let stage = Stage::new();
    stage.run("pass", &["-d", "10ms"]).code(0);
    let done = output(stage.xtask("", &["trace", "run"]).stdout(full()));
    assert_eq!(
        done.code(1).stderr,
        "error: cannot write to stdout\n  because: No space left on device (os error 28)\n"
    );
}
