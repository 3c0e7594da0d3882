//! What is known of sub-buffers that are not in a file.

use std::io::Cursor;

use proptest::prelude::*;
use takt_decode::{Item, TraceFile};

use crate::world::{N, Sink, WAKEUP, Wakeup, World, table};

/// A sub-buffer: whether it gets into the file, and its events, as far as they fit.
type Subs = [(bool, u8)];

/// Sub-buffers that are missing in one place.
#[derive(Clone, Copy, Debug, Default)]
struct Gap {
    first: u64,
    end: u64,
    events: u64,
}

/// A file, and its gaps; behind the last sub-buffer that is there nobody sees one.
fn file(subs: &Subs) -> (Vec<u8>, Vec<Gap>) {
    let mut world = World::new(1);
    let mut gaps = Vec::new();
    let mut gap = Gap::default();
    for (seq, (is_wanted, nr_events)) in (0u64..).zip(subs) {
        world.at(0, seq * 1000, 0xc0, 9);
        for _ in 0..=nr_events % 16 {
            Wakeup::emit::<Sink>(WAKEUP, 1u8, 2u8, 0u8);
        }
        gap.end = seq;
        if *is_wanted && gap.first < gap.end {
            gaps.push(gap);
        }
        let events = world.end_sub(*is_wanted);
        match is_wanted {
            true => {
                gap = Gap {
                    first: seq + 1,
                    ..Gap::default()
                }
            }
            false => gap.events += events,
        }
    }
    (world.finish(), gaps)
}

/// What the file says is missing: events, and sub-buffers with an unknown number of events.
fn told(bytes: Vec<u8>) -> Vec<(u64, u64)> {
    let table = table();
    let mut trace = TraceFile::open(Cursor::new(bytes)).unwrap();
    let lost = trace.nr_lost();
    let unknown: u64 = trace.cpus().map(|cpu| cpu.missing).sum();
    let is_complete = trace.is_complete();
    let found: Vec<_> = trace
        .merge(&table)
        .filter_map(|item| match item.unwrap() {
            Item::Lost {
                events,
                sub_buffers,
                ..
            } => Some((events, sub_buffers)),
            Item::Record(_) => None,
            Item::Damage(damage) => panic!("{damage}"),
        })
        .collect();
    assert_eq!(found.iter().map(|(events, _)| events).sum::<u64>(), lost);
    assert_eq!(found.iter().map(|(_, subs)| subs).sum::<u64>(), unknown);
    assert_eq!(is_complete, found.is_empty());
    found
}

/// So many sub-buffers with that many events each.
fn some(is_wanted: bool, nr: u32, events: u8) -> Vec<(bool, u8)> {
    vec![(is_wanted, events - 1); nr as usize]
}

#[test]
fn the_events_of_a_gap_are_known_once_the_ring_has_gone_round() {
    for nr in 1..3 * N {
        // In the middle, and before the first as with a flight recorder.
        for first in [0, N, 2 * N + 1] {
            let before = some(true, first, 3);
            for behind in 1..=N {
                let subs = [&before[..], &some(false, nr, 7), &some(true, behind, 5)].concat();
                let turns = |slot| (0..nr).filter(|sub| sub % N == slot % N).count() as u64;
                let known = (nr..nr + behind).map(turns).sum::<u64>();
                let all = u64::from(nr);
                assert_eq!(
                    told(file(&subs).0),
                    [(7 * known, all - known)],
                    "{first} {nr}"
                );
                assert!(behind < N || known == all);
            }
        }
    }
}

proptest! {
    #[test]
    fn what_is_told_is_what_is_missing(
        subs in prop::collection::vec((any::<bool>(), any::<u8>()), 0..40),
    ) {
        let sum = |gaps: &[Gap]| gaps.iter().map(|gap| gap.events).sum::<u64>();
        let (bytes, gaps) = file(&subs);
        prop_assert!(told(bytes).iter().map(|(events, _)| events).sum::<u64>() <= sum(&gaps));
        // When each slot is there at the end, nothing is unknown in all, and what is missing once in N right in its place.
        let (bytes, gaps) = file(&[&subs[..], &some(true, N, 1)].concat());
        let told = told(bytes);
        prop_assert_eq!(told.len(), gaps.len());
        prop_assert_eq!(told.iter().map(|(events, _)| events).sum::<u64>(), sum(&gaps));
        for (index, (said, gap)) in told.iter().zip(&gaps).enumerate() {
            prop_assert!(said.1 <= gap.end - gap.first);
            let is_far = |gap: &Gap, next: &Gap| next.first - gap.end >= u64::from(N);
            let is_apart = gaps.get(index + 1).is_none_or(|next| is_far(gap, next))
                && index.checked_sub(1).is_none_or(|before| is_far(&gaps[before], gap));
            if is_apart {
                prop_assert_eq!(*said, (gap.events, 0));
            }
        }
    }
}
