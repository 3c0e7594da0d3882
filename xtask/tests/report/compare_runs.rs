//! `history compare` in real time: runs are the observations, and what is no evidence is not called so.
#![allow(missing_docs, reason = "a test")]

use std::path::Path;

use crate::common::{done, history, run};
use serde_json::Value;
use takt_results::history::{Entry, Setup, store};

/// A history of real-time runs, in this order: revision, and by how much all of its latencies are longer.
struct Runs {
    dir: tempfile::TempDir,
    ids: Vec<String>,
}

impl Runs {
    fn new(runs: &[(&str, u64)]) -> Self {
        Self::changed(runs, |_, _| {})
    }

    /// With a change of what each is.
    fn changed(runs: &[(&str, u64)], change: impl Fn(usize, &mut Entry)) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut ids = Vec::new();
        for (nr, (git, offset)) in runs.iter().enumerate() {
            let samples: Vec<_> = (0..400).map(|at| 5000 + offset + at * 13 % 997).collect();
            let run = run("none", "tcg", &samples);
            let mut entry = Entry::new(&run, Path::new("/nowhere"), Setup::default()).unwrap();
            entry.record.git = (*git).into();
            entry.finished_unix_ns = nr as u64 + 1;
            change(nr, &mut entry);
            store::write(dir.path(), &entry).unwrap();
            ids.push(entry.id);
        }
        Self { dir, ids }
    }

    fn compare(&self, a: &str, b: &str) -> (Option<i32>, String, String) {
        done(history(self.dir.path(), &["compare", a, b]))
    }

    fn verdict(&self, a: &str, b: &str) -> (Option<i32>, Value) {
        let (code, stdout, stderr) = done(history(self.dir.path(), &["compare", "--json", a, b]));
        let document: Value = serde_json::from_str(&stdout).unwrap_or_else(|_| panic!("{stderr}"));
        assert_eq!(document["is_different"], code == Some(2), "{document}");
        (code, document["replication"].clone())
    }

    fn list(&self, which: impl IntoIterator<Item = usize>) -> String {
        let ids: Vec<_> = which.into_iter().map(|nr| &*self.ids[nr]).collect();
        ids.join(",")
    }
}

/// Two revisions in turns, four runs of each; the second's latencies are longer by this, and every run by something else.
fn in_turns(shift: u64) -> Vec<(&'static str, u64)> {
    let offsets = [0, 40, 90, 20, 60, 100, 30, 10];
    let of = |(nr, offset)| match nr % 2 {
        0 => ("aaa", offset),
        _ => ("bbb", offset + shift),
    };
    offsets.into_iter().enumerate().map(of).collect()
}

#[test]
fn one_run_a_side_is_no_evidence_however_far_apart_they_are() {
    let runs = Runs::new(&[("aaa", 0), ("bbb", 3000)]);
    let (code, stdout, stderr) = runs.compare(&runs.ids[0], &runs.ids[1]);
    assert_eq!(code, Some(0), "{stdout}{stderr}");
    for words in [
        "this is how far these two runs are apart",
        "D = 1.0000; a sample of the second is larger with probability 1.000",
        "No verdict: 1 of A and 1 of B are too few runs, it takes 4 of each",
        "not whether the systems differ",
        "made in turns",
    ] {
        assert!(stdout.contains(words), "no `{words}` in {stdout}");
    }
    let (_, replication) = runs.verdict(&runs.ids[0], &runs.ids[1]);
    assert_eq!(replication["verdict"], "too-few-runs");
}

#[test]
fn runs_of_one_system_are_two_runs_of_one_system() {
    let runs = Runs::new(&[("aaa", 0), ("aaa", 3000), ("aaa", 10), ("aaa", 20)]);
    let (code, stdout, stderr) = runs.compare(&runs.ids[0], &runs.ids[1]);
    assert_eq!(code, Some(0), "{stdout}{stderr}");
    assert!(
        stdout.contains("they do so as two runs of one system"),
        "{stdout}"
    );
    let (_, replication) = runs.verdict(&runs.ids[0], &runs.ids[1]);
    assert_eq!(replication["verdict"], "same-system");
}

#[test]
fn four_runs_a_side_are_tested_as_eight_observations() {
    let runs = Runs::new(&in_turns(800));
    let (code, stdout, stderr) = runs.compare(&runs.ids[0], "latest");
    assert_eq!(code, Some(2), "{stdout}{stderr}");
    for words in [
        "and 3 further runs",
        "4 runs of A and 4 of B, geometric mean over the runs in ns",
        "A difference is shown at the level of 5 %: p50 of CPU 0 thread latency +14",
        "Test: permutation of runs, each of which is one observation",
        "in all ways (70) to divide the runs",
        "It takes runs of A and B made in turns",
    ] {
        assert!(stdout.contains(words), "no `{words}` in {stdout}");
    }
    let (_, replication) = runs.verdict(&runs.ids[0], "latest");
    let metrics = replication["metrics"].as_array().unwrap();
    let thread = metrics
        .iter()
        .find(|it| it["latency"] == "CPU 0 thread latency" && it["figure"] == "max");
    let p = thread.unwrap()["p"].as_f64().unwrap();
    assert!((p - 2.0 / 70.0).abs() < 1e-9, "{p}");
    // What never changes is no difference.
    let irq = metrics
        .iter()
        .find(|it| it["latency"] == "CPU 0 IRQ latency");
    assert_eq!(irq.unwrap()["p"], 1.0);
}

#[test]
fn runs_that_vary_as_much_as_the_revisions_show_no_difference() {
    let runs = Runs::new(&in_turns(20));
    let (code, stdout, stderr) = runs.compare(&runs.ids[0], &runs.ids[1]);
    assert_eq!(code, Some(0), "{stdout}{stderr}");
    assert!(
        stdout.contains("No difference is shown at the level of 5 % by 4 runs of A and 4 of B"),
        "{stdout}"
    );
    assert_eq!(
        runs.verdict(&runs.ids[0], &runs.ids[1]).1["verdict"],
        "not-shown"
    );
}

#[test]
fn runs_that_were_not_made_in_turns_are_told_so() {
    let mut one_after_the_other = in_turns(800);
    one_after_the_other.sort_unstable();
    let runs = Runs::new(&one_after_the_other);
    let (code, stdout, _) = runs.compare(&runs.ids[0], "latest");
    assert_eq!(code, Some(2), "{stdout}");
    assert!(
        stdout.contains("All runs of one side were made before those of the other"),
        "{stdout}"
    );
}

#[test]
fn only_runs_of_the_same_system_count_together() {
    let all: Vec<_> = in_turns(800);
    // One of B's was made on another host, one of A's did not pass.
    let runs = Runs::changed(&all, |nr, entry| match nr {
        1 => entry.record.host.kernel = "another".into(),
        2 => entry.record.is_interrupted = true,
        _ => {}
    });
    let (code, stdout, stderr) = runs.compare(&runs.ids[0], "latest");
    assert_eq!(code, Some(0), "{stdout}{stderr}");
    for words in [
        "No verdict: 3 of A and 3 of B",
        "1 of A's runs are left out: they did not pass",
    ] {
        assert!(stdout.contains(words), "no `{words}` in {stdout}");
    }
    let (_, stdout, _) = runs.compare(&runs.list([0, 2]), &runs.list([3, 5]));
    let named = format!(
        "Of A, {} did not pass or come to an end, and is no evidence",
        &runs.ids[2][..8]
    );
    for words in [
        &named,
        "No verdict: 1 of A and 2 of B",
        "passed, interrupted",
    ] {
        let is_there = stdout.contains(words);
        assert_eq!(
            is_there,
            words != "passed, interrupted",
            "`{words}` in {stdout}"
        );
    }
    // Whichever is named, it is no evidence; the two are compared all the same.
    let (_, stdout, _) = runs.compare(&runs.ids[2], "latest");
    for words in [
        "passed, interrupted",
        "and is no evidence",
        "No verdict: 3 of A and 3 of B",
    ] {
        assert!(stdout.contains(words), "no `{words}` in {stdout}");
    }
}

#[test]
fn bad_runs_are_evidence_only_if_the_user_insists() {
    let runs = Runs::changed(&in_turns(800), |nr, entry| {
        if nr % 2 == 1 {
            entry.record.result = takt_machine::record::Verdict::Tainted;
        }
    });
    let (a, b) = (runs.list([0, 2, 4, 6]), runs.list([1, 3, 5, 7]));
    let (code, stdout, _) = runs.compare(&a, &b);
    assert_eq!(code, Some(0), "{stdout}");
    assert!(stdout.contains("No verdict: 4 of A and 0 of B"), "{stdout}");
    let (code, stdout, stderr) = done(history(runs.dir.path(), &["compare", "--force", &a, &b]));
    assert_eq!(code, Some(2), "{stderr}");
    for words in [
        "tainted",
        "and counts by --force",
        "The level is for one look",
    ] {
        assert!(stdout.contains(words), "no `{words}` in {stdout}");
    }
}

#[test]
fn what_not_all_have_measured_is_not_tested() {
    let runs = Runs::changed(&in_turns(800), |nr, entry| {
        if nr % 2 == 1 {
            entry.record.slots[0].cpu = 1;
        }
    });
    let (code, stdout, stderr) = runs.compare(&runs.ids[0], "latest");
    assert_eq!(code, Some(2), "{stderr}");
    for words in [
        "No verdict: there is no latency that all of these runs have measured",
        "Not tested, since not every run has measured it: CPU 0 IRQ latency, CPU 0 thread latency, CPU 1 IRQ",
        "Exit code 2: only one of the two runs has measured CPU 1 IRQ latency",
    ] {
        assert!(stdout.contains(words), "no `{words}` in {stdout}");
    }
    let (_, replication) = runs.verdict(&runs.ids[0], "latest");
    assert_eq!(replication["verdict"], "nothing-in-common");
    assert_eq!(replication["ways"], 0);
}

#[test]
fn what_a_revision_does_not_say_the_user_does() {
    // All are of one revision with changes, which ones nobody knows.
    let dirty: Vec<_> = in_turns(800)
        .iter()
        .map(|(_, offset)| ("aaa-dirty", *offset))
        .collect();
    let runs = Runs::new(&dirty);
    let (code, stdout, stderr) = runs.compare(&runs.ids[0], "latest");
    assert_eq!(code, Some(0), "{stdout}{stderr}");
    for words in [
        "No verdict: 1 of A and 1 of B",
        "aaa-dirty does not say what A has measured",
        "name the runs yourself, with commas",
    ] {
        assert!(stdout.contains(words), "no `{words}` in {stdout}");
    }
    let (a, b) = (runs.list([0, 2, 4, 6]), runs.list([1, 3, 5, 7]));
    let (code, replication) = runs.verdict(&a, &b);
    assert_eq!(
        (code, &replication["verdict"]),
        (Some(2), &"different".into())
    );
    let runs = Runs::new(&in_turns(0));
    let (_, stdout, stderr) = runs.compare(&runs.list([0, 1]), &runs.list([2, 4]));
    assert!(
        stdout.contains("A has runs of several revisions: aaa, bbb.")
            && !stdout.contains("B has runs of several"),
        "{stdout}{stderr}"
    );
    // Also of one known system, of which a side has no more than was named.
    let runs = Runs::new(&[("aaa", 1); 9]);
    let (_, replication) = runs.verdict(&runs.list([0, 2, 4, 6]), &runs.list([1, 3, 5]));
    assert_eq!(replication["verdict"], "too-few-runs");
}

#[test]
fn a_run_is_not_compared_with_itself() {
    let runs = Runs::new(&[("aaa", 0), ("bbb", 0)]);
    for (a, b) in [
        ("latest", "latest"),
        (&*runs.ids[1], "latest"),
        (&*runs.list([0, 1]), "latest~1"),
    ] {
        let (code, stdout, stderr) = runs.compare(a, b);
        assert_eq!((code, &*stdout), (Some(1), ""), "{stderr}");
        assert!(
            stderr.contains("A and B are the same run") && stderr.contains("help: "),
            "{stderr}"
        );
    }
    let twice = format!("{0},{0}", runs.ids[0]);
    let (code, _, stderr) = runs.compare(&twice, "latest");
    assert!(
        code == Some(1) && stderr.contains("named twice") && stderr.contains("help: "),
        "{stderr}"
    );
}
