//! The page of several runs.
#![allow(missing_docs, reason = "a test")]

use crate::common::run;
use takt_machine::record::Run;
use takt_machine::record::{Figures, VerifiedRecord, WithoutTurns};
use takt_results::analysis::causes::Cause;
use takt_results::analysis::rows::{Breakdown, Group, Part, Row};
use takt_results::history::{Configuration, Setup};
use takt_results::page::{self, Reported};
use takt_results::source::Source;
use takt_results::{Buckets, json};

/// A run on this CPU, as the page takes it.
fn on_cpu(name: &str, cpu: u32, thread: &[u64]) -> Reported {
    let mut run = run("none", "tcg+icount", thread);
    run.record.slots[0].cpu = cpu;
    reported(name, run)
}

fn reported(name: &str, run: Run) -> Reported {
    let document = json::write(&run, None, None, Buckets::default()).unwrap();
    Reported {
        source: Source {
            name: name.into(),
            document: serde_json::from_str(&document).unwrap(),
            configuration: Configuration::new(&run.record, &Setup::default()),
            run,
            folder: None,
        },
        story: Err("a test".into()),
    }
}

/// The rows of the comparison: CPU, latency, run, count and what it has more.
fn compared(page: &str) -> Vec<String> {
    let end = page.find("<section class=\"run\"").unwrap();
    let rows = page[..end].split("<tr><th scope=\"row\">").skip(1);
    rows.map(|row| {
        let mut text = String::new();
        let mut is_tag = false;
        for c in row.chars() {
            match c {
                '<' => is_tag = true,
                '>' => is_tag = false,
                c if !is_tag => text.push(c),
                _ if !text.ends_with('|') => text.push('|'),
                _ => {}
            }
        }
        let cells: Vec<_> = text.split('|').filter(|it| *it != " ").take(5).collect();
        cells.join(" ")
    })
    .collect()
}

#[test]
fn what_stopped_a_run_has_the_rows_of_its_document() {
    let mut reported = on_cpu("a", 0, &[353]);
    let part = Part {
        cause: Cause::BlockingThread,
        who: "load/<plant>:9".into(),
        ns: 300,
    };
    let row = |group, part: Part| Row {
        group,
        ns: part.ns,
        parts: vec![part],
        sections: Vec::new(),
    };
    let switch = Part {
        cause: Cause::ContextSwitch,
        who: String::new(),
        ns: 53,
    };
    let analysis = Breakdown {
        cpu: 0,
        slot: 0,
        seqnum: 7,
        is_of_irq: false,
        thread_ns: None,
        latency_ns: 353,
        irq_ns: Some(4),
        rows: vec![row(Group::BlockingThread, part), row(Group::Switch, switch)],
        stack: vec!["plant::run (a.rs:7)".into()],
        from_idle: None,
        notes: Vec::new(),
    };
    let run = &reported.source.run;
    let document = json::write(run, Some(&analysis), None, Buckets::default()).unwrap();
    reported.source.document = serde_json::from_str(&document).unwrap();
    let page = page::write(&[reported], None).unwrap();
    for text in [
        "Blocking thread, load/&lt;plant&gt;:9: 300 of 353 ns (85.0 %)",
        "data-path=\"/analysis/rows/0/ns\">300<",
        "data-path=\"/analysis/rows/1/ns\">53<",
        "data-path=\"/analysis/latency_ns\">353<",
        "<code>plant::run (a.rs:7)</code>",
    ] {
        assert!(page.contains(text), "{text}");
    }
    let without = page::write(&[on_cpu("a", 0, &[353])], None).unwrap();
    assert!(!without.contains("What stopped the run"));
}

#[test]
fn what_runs_have_measured_is_compared_by_its_cpu() {
    let runs = [
        on_cpu("a", 0, &[353, 353]),
        on_cpu("b", 1, &[496]),
        on_cpu("c", 0, &[353]),
        on_cpu("d", 1, &[496]),
    ];
    let page = page::write(&runs, None).unwrap();
    assert_eq!(
        compared(&page),
        [
            "CPU 0 IRQ a 2 4",
            "CPU 0 IRQ c 1  -1",
            "CPU 0 thread a 2 353",
            "CPU 0 thread c 1  -1",
            "CPU 1 IRQ b 1 4",
            "CPU 1 IRQ d 1 4",
            "CPU 1 thread b 1 496",
            "CPU 1 thread d 1 496",
        ]
    );
    for shared in ["IRQ latency, CPU 0", "Thread latency, CPU 1"] {
        let title = format!("<figcaption>{shared}: percentiles");
        assert_eq!(page.matches(&title).count(), 1, "{shared}");
    }
    // The same figures of fewer samples are the same figures.
    assert!(page.contains("CPU 0 thread latency: different: -1 samples, the same figures"));
    assert!(page.contains("CPU 1 thread latency: only one of the runs has measured it"));
}

#[test]
fn what_was_counted_is_shown_beside_what_was_measured() {
    let plain = page::write(&[on_cpu("a", 0, &[353])], None).unwrap();
    assert!(!plain.contains("without turns") && !plain.contains("Verified by"));
    let mut run = run("none", "tcg+icount", &[353]);
    run.record.verified = Some(VerifiedRecord {
        activations: 12,
        verified: 11,
    });
    let figures = |max| Figures {
        max: Some(max),
        ..Figures::default()
    };
    run.record.without_turns = vec![WithoutTurns {
        cpu: run.record.slots[0].cpu,
        irq: figures(3),
        thread: figures(341),
    }];
    let page = page::write(&[reported("a", run)], None).unwrap();
    for (path, figure) in [
        ("/verified/verified", "11"),
        ("/verified/activations", "12"),
        ("/cpus/0/without_turns/irq/max", "3"),
        ("/cpus/0/without_turns/thread/max", "341"),
    ] {
        let at = page.find(path).unwrap_or_else(|| panic!("no {path}"));
        let text = page[at..].split_once('>').unwrap().1;
        assert!(text.starts_with(&format!("{figure}<")), "{path}");
    }
}

#[test]
fn a_run_that_was_edited_is_said_to_be() {
    let page = |is_edited| {
        let mut run = run("none", "tcg+icount", &[353]);
        run.record.is_edited = is_edited;
        page::write(&[reported("a", run)], None).unwrap()
    };
    assert!(page(true).contains("Edited: ") && !page(false).contains("Edited: "));
}
