//! The figures: the benchmark's rows, what a sweep of every primitive finds, and the bounds of sections.

use std::collections::BTreeMap;

use super::file::Functions;
use crate::document::{Document, Stretch};
use crate::prove::{Off, Proof, Whole};
use takt_guest::place::Kind;

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

/// The longest that a section may have, in instructions: with interrupts off, and with preemption off.
const SECTIONS: [(&str, u64); 2] = [("interrupts-off", 100), ("preemption-off", 300)];
/// From an interrupt's entry to the thread that it wakes, besides other interrupts and a section that come in between.
const WAKE: u64 = 250;

/// The figures of Takt's own sweep that no budget can allow, each with its limit.
#[must_use]
pub fn above_limits(figures: &BTreeMap<String, u64>) -> Vec<String> {
    let mut above = Vec::new();
    for (name, value) in figures {
        let Some((stretch, what)) = name
            .strip_prefix("sweep.")
            .and_then(|it| it.rsplit_once('.'))
        else {
            continue;
        };
        let of = |what: &str| {
            figures
                .get(&format!("sweep.{stretch}.{what}"))
                .unwrap_or(&0)
        };
        let limit = match SECTIONS.iter().find(|it| it.0 == what) {
            Some((_, limit)) => *limit,
            None if what == "wake-max" => {
                // Two may come in between: of what closes a circle, which leaves a walk to them; and a time-out's and a slice's.
                let nr_interrupts = if ["circle", "round-robin"].contains(&stretch) {
                    2
                } else {
                    1
                };
                WAKE + nr_interrupts * of("in-an-interrupt") + of("preemption-off")
            }
            None => continue,
        };
        if *value > limit {
            above.push(format!("{name} {value}, limit {limit}"));
        }
    }
    above
}

/// Bounds, and what has none.
const OF_PROOF: [&str; 8] = [
    "bound.",
    "unbounded.",
    "grows.",
    "guarded.",
    "switch.",
    "call.",
    "return.",
    "handler.",
];

/// Whether a figure is one of [`of_proof`].
#[must_use]
pub fn is_of_proof(name: &str) -> bool {
    OF_PROOF.iter().any(|it| name.starts_with(it))
}

/// The figures of bounds, by function: the longest of its stretches, what comes on top for each of what a loop counts, and how
/// many of them have no bound. Where they stand in
/// it says nothing, since that changes with each line.
#[must_use]
pub fn of_proof(proof: &Proof) -> BTreeMap<String, u64> {
    let [
        bound,
        unbounded,
        grows,
        guarded,
        switch,
        call,
        returns,
        handler,
    ] = OF_PROOF;
    let mut figures: BTreeMap<String, u64> = BTreeMap::new();
    let mut raise = |name: String, value: u64| {
        let longest = figures.entry(name).or_insert(0);
        *longest = value.max(*longest);
    };
    for it in proof.stretches.iter().filter(|it| it.is_entry) {
        for (kind, way) in [(returns, &it.same), (handler, &it.handler)] {
            if let Some(way) = way {
                raise(format!("{kind}{}", it.function()), way.bound);
            }
        }
    }
    for Whole { name, stretch } in &proof.calls {
        if let Some(way) = &stretch.thread {
            raise(format!("{call}{name}"), way.bound);
            for it in &way.grows {
                raise(format!("{grows}{name}, {}", it.counts), it.each);
            }
        }
    }
    for stretch in &proof.stretches {
        let function = stretch.function();
        for it in stretch.grows.iter().filter(|_| !stretch.to_thread) {
            let counted = figures.entry(format!("{grows}{function}, {}", it.counts));
            let most = counted.or_insert(0);
            *most = it.each.max(*most);
        }
        if let Some(most) = stretch.bound {
            let kind = match stretch.off {
                Off::Irqs if stretch.to_thread => switch,
                Off::Irqs => bound,
                Off::Preemption => guarded,
                // As a call below.
                Off::Nothing => continue,
            };
            let longest = figures.entry(format!("{kind}{function}")).or_insert(0);
            *longest = most.max(*longest);
        } else if stretch.refused.is_some() {
            *figures.entry(format!("{unbounded}{function}")).or_insert(0) += 1;
        }
    }
    for Whole { name, stretch } in &proof.calls {
        if stretch.refused.is_some() {
            *figures.entry(format!("{unbounded}{name}")).or_insert(0) += 1;
        }
    }
    figures
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::{Budget, changes};
    use crate::prove::{Growth, Stretch, Way, tests};

    /// One with a formula.
    fn stretch(place: &str, bound: Option<u64>) -> Stretch {
        let grows = bound.map(|each| Growth {
            counts: "rounds".into(),
            each,
            handlers: 0,
            waits: 0,
        });
        Stretch {
            grows: grows.into_iter().collect(),
            ..tests::stretch(place, bound, None)
        }
    }

    fn figures(stretches: Vec<Stretch>) -> BTreeMap<String, u64> {
        of_proof(&tests::proof(stretches))
    }

    #[test]
    fn an_entrys_ways_and_calls_that_block_have_figures() {
        let way = |bound| {
            Some(Way {
                bound,
                handlers: 0,
                waits: 0,
                grows: Vec::new(),
            })
        };
        let entry = Stretch {
            is_entry: true,
            same: way(95),
            handler: way(44),
            ..stretch("takt_irq_stubs", Some(415))
        };
        // A section that is none has such ways, too.
        let section = Stretch {
            is_entry: false,
            same: way(95),
            ..stretch("f::g (f.rs:1)", Some(9))
        };
        let call = |name: &str, bound: u64| Whole {
            name: name.into(),
            stretch: Stretch {
                off: Off::Nothing,
                thread: Some(Way {
                    grows: vec![Growth {
                        counts: "steps".into(),
                        each: 7,
                        handlers: 0,
                        waits: 0,
                    }],
                    ..way(bound).unwrap()
                }),
                ..stretch("f (f.rs:7)", Some(bound))
            },
        };
        let proof = Proof {
            calls: vec![call("park", 384), call("park", 1109)],
            ..tests::proof(vec![entry, section])
        };
        let found = of_proof(&proof);
        let is = |name: &str, value: u64| assert_eq!(found.get(name), Some(&value), "{found:?}");
        is("return.takt_irq_stubs", 95);
        is("handler.takt_irq_stubs", 44);
        is("call.park", 1109);
        is("grows.park, steps", 7);
        assert!(!found.contains_key("return.f::g"));
        assert!(found.keys().all(|it| is_of_proof(it)));
    }

    #[test]
    fn limits_hold_whatever_the_budget_says() {
        let figures = |wake: u64, off: u64| {
            [
                ("sweep.a.wake-max", wake),
                ("sweep.a.in-an-interrupt", 100),
                ("sweep.a.preemption-off", 30),
                ("sweep.b.interrupts-off", off),
                ("sweep.b.thread-max", 9_999),
                ("bench.b", 9_999),
            ]
            .map(|(name, value)| (name.to_owned(), value))
            .into()
        };
        assert!(above_limits(&figures(380, 100)).is_empty());
        assert_eq!(
            above_limits(&figures(381, 101)),
            [
                "sweep.a.wake-max 381, limit 380",
                "sweep.b.interrupts-off 101, limit 100"
            ]
        );
    }

    #[test]
    fn a_bound_that_grew_or_is_none_any_more_is_above_its_budget() {
        let all = |long, other| {
            figures(vec![
                stretch("f::g (f.rs:1)", Some(7)),
                stretch("f::g (f.rs:9)", long),
                stretch("f::h (f.rs:20)", other),
                stretch("takt_stub+0x4", None),
            ])
        };
        let before = all(Some(20), Some(3));
        let expected = [
            ("bound.f::g", 20),
            ("bound.f::h", 3),
            ("grows.f::g, rounds", 20),
            ("grows.f::h, rounds", 3),
            ("unbounded.takt_stub", 1),
        ];
        assert_eq!(
            before,
            expected.map(|(name, value)| (name.into(), value)).into()
        );
        assert!(before.keys().all(|it| is_of_proof(it)) && !is_of_proof("bench.bound"));
        let budget = Budget::new("r".into(), "c".into(), before.clone(), BTreeMap::new());
        let compare = |now| changes::find(&budget, &now, &BTreeMap::new());
        assert!(compare(before).is_kept());
        let found = compare(all(Some(21), Some(3)));
        let grown = found.grown.iter().map(|it| (&*it.name, it.now));
        assert_eq!(
            grown.collect::<Vec<_>>(),
            [("bound.f::g", 21), ("grows.f::g, rounds", 21)]
        );
        assert!(!compare(all(Some(20), None)).is_of_same());
    }
}
