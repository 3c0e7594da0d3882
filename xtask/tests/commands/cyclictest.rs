//! What `cyclictest` prints, against files that have the form of rt-tests 2.4's output: set `OVERWRITE=1` to accept what
//! there is now.

use std::fs;

use crate::common::{Done, Stage, snapshot};

fn cyclictest(stage: &Stage, words: &str) -> Done {
    let fixed = "cyclictest --image image.elf --accel tcg --event fake --output run --force";
    let words: Vec<_> = fixed
        .split_whitespace()
        .chain(words.split_whitespace())
        .collect();
    Done::of(stage.xtask("cyclictest", &words).output().unwrap())
}

#[test]
fn every_form_of_output() {
    let stage = Stage::new();
    let mut all = String::new();
    for words in [
        "-q -l 10",
        "-q -l 10 -N",
        "-l 10 -b 40",
        "-q -l 10 -h 3",
        "-N -l 10 -h 80",
        "-q -l 10 -N -H 80 --histfile hist.txt",
    ] {
        let done = cyclictest(&stage, words);
        all += &format!("$ cyclictest {words}\n{}", done.code(0).stdout);
    }
    all += &format!(
        "$ cat hist.txt\n{}",
        fs::read_to_string(stage.path("hist.txt")).unwrap()
    );
    let done = cyclictest(&stage, "-l 10 -q -N -h 100 --json -");
    // What was typed is not the same on every stage.
    let json = done
        .code(0)
        .stdout
        .lines()
        .filter(|line| !line.contains("cmdline"));
    json.for_each(|line| all += &format!("{line}\n"));
    snapshot("cyclictest.txt", &all);
}

#[test]
fn the_verdict_is_on_stderr() {
    let stage = Stage::new();
    let done = cyclictest(&stage, "-l 10");
    done.code(0)
        .complains("result       passed")
        .complains("run folder");
    assert!(!done.stdout.contains("passed"), "{done:?}");
    let done = cyclictest(&stage, "-l 10 -q");
    assert_eq!(done.code(0).stderr, "");
    // Ten came, a thousand were due.
    let done = cyclictest(&stage, "-l 10 -q -i 1 --histfile /nowhere/hist");
    done.code(1).complains("/nowhere/hist");
}
