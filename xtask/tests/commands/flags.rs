//! `latency-run`'s flags of rtla: actions, and what the report leaves out.

use std::fs;

use crate::common::Stage;

#[test]
fn actions_are_done_in_order_and_the_first_that_fails_is_the_last() {
    let stage = Stage::new();
    let threshold = "--on-threshold";
    stage
        .run(
            "threshold",
            &[
                "-T",
                "0.08",
                "-q",
                "-t=saved.txt",
                threshold,
                "shell,command=test -s saved.txt && echo one, > order",
                threshold,
                "shell,command=echo two >> order; kill -0 $PPID",
                "--on-end",
                "trace,file=end.txt",
            ],
        )
        .code(2)
        .complains("Saved the trace to saved.txt");
    assert_eq!(
        fs::read_to_string(stage.path("order")).unwrap(),
        "one,\ntwo\n"
    );
    let saved = fs::read_to_string(stage.path("saved.txt")).unwrap();
    assert!(saved.contains("tick: n="), "{saved}");
    assert_eq!(saved, fs::read_to_string(stage.path("end.txt")).unwrap());
    // Nothing was hit.
    stage
        .run(
            "pass",
            &[
                "-d",
                "10ms",
                "-t=none.txt",
                threshold,
                "shell,command=false",
            ],
        )
        .code(0);
    assert!(!stage.path("none.txt").exists());
    stage
        .run(
            "threshold",
            &[
                "-T",
                "0.08",
                threshold,
                "shell,command=false",
                threshold,
                "trace,file=none.txt",
            ],
        )
        .code(1)
        .complains("`false` failed");
    assert!(!stage.path("none.txt").exists());
    // Who ends the command by Ctrl-C ends all.
    stage
        .run(
            "pass",
            &["-d", "10ms", "--on-end", "shell,command=kill -INT $$"],
        )
        .code(130)
        .complains("interrupted");
    stage
        .run(
            "pass",
            &["-d", "10ms", "--on-end", "signal,num=10,pid=4000000"],
        )
        .code(1)
        .complains("signal 10 was not sent");
}

#[test]
fn the_report_leaves_out_what_is_not_wanted() {
    let stage = Stage::new();
    let done = stage.run(
        "pass",
        &["-d", "10ms", "--no-irq", "--no-header", "-b", "1"],
    );
    done.code(0)
        .says("CPU 0    thread")
        .says("hint         Thread latency: all are in one bucket");
    assert!(
        !done.stdout.contains("IRQ") && !done.stdout.contains("accelerator"),
        "{done:?}"
    );
    let done = stage.run("threshold", &["--aa-only", "0.08"]);
    done.code(2).says("stopped by   thread latency of 90 ns");
    assert!(!done.stdout.contains("latency in ns"), "{done:?}");
    let done = stage.run("threshold", &["-T", "0.08", "--no-aa"]);
    assert!(!done.code(2).stdout.contains("cause"), "{done:?}");
}
