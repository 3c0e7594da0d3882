//! The commands of `history`: naming, comparing, merging and drawing runs.
#![allow(missing_docs, reason = "a test")]

use std::fs;
use std::path::Path;

use crate::common::{collect, done, history, run};
use proptest::prelude::*;
use takt_results::history::commands::compare::Comparison;
use takt_results::history::commands::merge::merge;
use takt_results::history::{Entry, Setup, store};

/// A history with one run for each of these: load, accelerator, revision, latencies.
fn filled(runs: &[(&str, &str, &str, &[u64])]) -> (tempfile::TempDir, Vec<String>) {
    let dir = tempfile::tempdir().unwrap();
    let mut ids = Vec::new();
    for (nr, (load, accel, git, samples)) in runs.iter().enumerate() {
        let mut run = run(load, accel, samples);
        run.record.git = (*git).into();
        let mut entry = Entry::new(&run, Path::new("/nowhere"), Setup::default()).unwrap();
        entry.finished_unix_ns = nr as u64 + 1;
        store::write(dir.path(), &entry).unwrap();
        ids.push(entry.id);
    }
    (dir, ids)
}

const ICOUNT: &str = "tcg+icount";

#[test]
fn runs_are_named_by_prefix_and_by_age() {
    let (dir, ids) = filled(&[("none", ICOUNT, "aaa", &[1]), ("none", ICOUNT, "bbb", &[2])]);
    let show = |name: &str| done(history(dir.path(), &["show", name]));
    assert!(show("latest").1.contains(&ids[1]));
    assert!(show("latest~1").1.contains(&ids[0]));
    assert!(show(&ids[0][..6]).1.contains("aaa"));
    let (code, _, stderr) = show("latest~2");
    assert!(
        code == Some(1) && stderr.contains("the history has 2"),
        "{stderr}"
    );
    let (code, _, stderr) = show("zzzz");
    assert!(
        code == Some(1) && stderr.contains("history list"),
        "{stderr}"
    );
}

#[test]
fn lists_are_filtered_by_configuration() {
    let (dir, ids) = filled(&[
        ("none", ICOUNT, "aaa", &[1]),
        ("mix", ICOUNT, "bbb", &[2]),
        ("none", "tcg", "ccc", &[3]),
    ]);
    let list = |args: &[&str]| {
        let args = [&["list", "--json"], args].concat();
        let (code, stdout, stderr) = done(history(dir.path(), &args));
        assert_eq!(code, Some(0), "{stderr}");
        let list: serde_json::Value = serde_json::from_str(&stdout).unwrap();
        let runs = list["runs"].as_array().unwrap().clone();
        runs.iter()
            .map(|run| run["id"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(list(&[]), [&*ids[2], &*ids[1], &*ids[0]]);
    assert_eq!(list(&["--config", "load=mix"]), [&*ids[1]]);
    assert_eq!(
        list(&["--config", "load=none", "--config", "accel=tcg"]),
        [&*ids[2]]
    );
    assert_eq!(list(&["--like", &ids[0]]), [&*ids[0]]);
    assert_eq!(list(&["-n", "1"]), [&*ids[2]]);
    let (code, _, stderr) = done(history(dir.path(), &["list", "--config", "laod=mix"]));
    assert!(
        code == Some(1) && stderr.contains("there are: accel, append"),
        "{stderr}"
    );
}

#[test]
fn exact_runs_are_compared_by_the_instruction() {
    let (dir, ids) = filled(&[
        ("none", ICOUNT, "aaa", &[376, 376, 380]),
        ("none", ICOUNT, "bbb", &[376, 376, 380]),
        ("none", ICOUNT, "ccc", &[377, 377, 380]),
        ("mix", ICOUNT, "ccc", &[377, 377, 380]),
    ]);
    let compare = |a: usize, b: usize, more: &[&str]| {
        let args = [&["compare", &ids[a], &ids[b]], more].concat();
        done(history(dir.path(), &args))
    };
    let (code, stdout, stderr) = compare(0, 1, &[]);
    assert_eq!(code, Some(0), "{stderr}");
    assert_eq!(
        stdout
            .matches("identical: every sample is the same")
            .count(),
        2,
        "{stdout}"
    );
    let (code, stdout, _) = compare(0, 2, &[]);
    assert_eq!(code, Some(2), "{stdout}");
    assert!(
        stdout.contains("+1 insn") && stdout.contains("different: min +1, p50 +1 instructions"),
        "{stdout}"
    );
    let (code, _, stderr) = compare(2, 3, &[]);
    assert_eq!(code, Some(1));
    assert!(
        stderr.contains("load: none and mix") && stderr.contains("--force"),
        "{stderr}"
    );
    let (code, stdout, stderr) = compare(2, 3, &["--force", "--json"]);
    assert_eq!(code, Some(0), "{stderr}");
    let document: serde_json::Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!(document["is_different"], false);
    // Several exact runs a side say no more than one.
    let several = format!("{},{}", ids[0], ids[1]);
    let (code, _, stderr) = done(history(dir.path(), &["compare", &several, &ids[2]]));
    assert!(
        code == Some(1) && stderr.contains("sample by sample") && stderr.contains("help: "),
        "{stderr}"
    );
}

#[test]
fn a_metric_is_drawn_over_the_runs_of_one_configuration() {
    let (dir, _) = filled(&[
        ("none", ICOUNT, "aaa", &[376]),
        ("mix", ICOUNT, "bbb", &[900]),
        ("none", ICOUNT, "ccc", &[370]),
    ]);
    let (code, stdout, stderr) = done(history(dir.path(), &["plot", "thread-max"]));
    assert_eq!(code, Some(0), "{stderr}");
    let svg = fs::read_to_string(dir.path().join("thread-max.svg")).unwrap();
    assert_eq!(svg.matches("<circle class=\"f20\"").count(), 2, "{svg}");
    assert!(
        svg.contains("aaa") && svg.contains("ccc") && !svg.contains("bbb"),
        "{svg}"
    );
    assert!(stdout.contains("376") && stdout.contains("370"), "{stdout}");
    // Several configurations: a colour for each, and what it stands for.
    let args = ["plot", "thread-max", "--config", "accel=tcg+icount"];
    let (code, stdout, stderr) = done(history(dir.path(), &args));
    assert_eq!(code, Some(0), "{stderr}");
    let svg = fs::read_to_string(dir.path().join("thread-max.svg")).unwrap();
    let dots = |class: &str| svg.matches(&format!("<circle class=\"{class}\"")).count();
    assert_eq!((dots("f20"), dots("f21")), (3, 2), "{svg}");
    for row in stdout.lines().filter(|row| row.contains("bbb")) {
        let key = row.split_whitespace().nth(3).unwrap();
        assert!(svg.contains(key), "no {key} in {svg}");
    }
    let (code, _, stderr) = done(history(dir.path(), &["plot", "thread-max", "-o", "x.pdf"]));
    assert!(code == Some(1) && stderr.contains(".svg"), "{stderr}");
}

#[test]
fn merging_is_for_equal_configurations() {
    let (dir, ids) = filled(&[
        ("none", ICOUNT, "aaa", &[376, 380]),
        ("none", ICOUNT, "bbb", &[370]),
        ("mix", ICOUNT, "bbb", &[370]),
    ]);
    let (code, stdout, stderr) = done(history(dir.path(), &["merge", "--json", &ids[0], &ids[1]]));
    assert_eq!(code, Some(0), "{stderr}");
    let document: serde_json::Value = serde_json::from_str(&stdout).unwrap();
    let hist = serde_json::json!([[370, 1], [376, 1], [380, 1]]);
    assert_eq!(document["slots"][0]["thread"]["hist"], hist);
    assert_eq!(
        done(history(dir.path(), &["merge", &ids[0], &ids[2]])).0,
        Some(1)
    );
    assert_eq!(
        done(history(dir.path(), &["merge", &ids[0], &ids[0]])).0,
        Some(1)
    );
}

proptest! {
    #[test]
    fn merged_is_as_if_both_were_one(
        a in prop::collection::vec(0u64..1 << 41, 1..200),
        b in prop::collection::vec(0u64..1 << 41, 1..200),
    ) {
        let both = [run("none", ICOUNT, &a), run("none", ICOUNT, &b)];
        let merged = merge(&both).unwrap();
        let all = collect(&[a, b].concat());
        prop_assert_eq!(&merged.distributions[0].thread, &all);
        prop_assert_eq!(merged.record.slots[0].thread, (&all).into());
        // And it survives the way through the history.
        let entry = Entry::new(&merged, Path::new("/nowhere"), Setup::default()).unwrap();
        let read = Entry::parse(&serde_json::to_string(&entry).unwrap()).unwrap();
        prop_assert_eq!(&read.run().unwrap().distributions[0].thread, &all);
        prop_assert!(!Comparison::new(&merged, &read.run().unwrap()).is_different());
    }
}
