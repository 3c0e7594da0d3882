//! The figures: the benchmark's rows, and what a sweep of every primitive finds.

use std::collections::BTreeMap;

use super::file::Functions;
use crate::sweep::analysis::Kind;
use crate::sweep::document::{Document, Stretch};

/// The figures of a sweep: latencies and lengths by workload, the longest sections, and what the paths consist of.
#[must_use]
pub fn of_sweep(document: &Document) -> (BTreeMap<String, u64>, BTreeMap<String, Functions>) {
    let mut figures = BTreeMap::new();
    let mut functions = BTreeMap::new();
    for stretch in &document.results {
        for (what, value) in values(stretch) {
            figures.insert(format!("sweep.{}.{what}", stretch.name), value);
        }
        let of_path = stretch.functions.iter();
        functions.insert(
            stretch.name.clone(),
            of_path
                .map(|(name, count)| (name.clone(), *count))
                .collect(),
        );
    }
    for (name, kind) in KINDS {
        let longest = document.results.iter().map(|it| longest(it, kind)).max();
        figures.insert(format!("section.{name}"), longest.unwrap_or(0));
    }
    (figures, functions)
}

const KINDS: [(&str, Kind); 3] = [
    ("interrupts-off", Kind::IrqsOff),
    ("in-an-interrupt", Kind::Interrupt),
    ("preemption-off", Kind::PreemptOff),
];

fn values(stretch: &Stretch) -> impl Iterator<Item = (&'static str, u64)> {
    let sections = KINDS.map(|(name, kind)| (name, longest(stretch, kind)));
    [
        ("length", u64::from(stretch.length)),
        ("irq-max", stretch.irq.max.into()),
        ("thread-max", stretch.thread.max.into()),
        ("wake-max", stretch.wake.max.into()),
    ]
    .into_iter()
    .chain(sections)
}

fn longest(stretch: &Stretch, kind: Kind) -> u64 {
    let of_kind = stretch.sections.iter().filter(|it| it.kind == kind);
    of_kind.map(|it| u64::from(it.length)).max().unwrap_or(0)
}
