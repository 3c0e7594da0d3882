//! Sub-buffers whose frame is good, but not what is in them; and those of a system that has died.

use std::io::Cursor;

use proptest::prelude::*;
use takt_decode::{Damage, Fault, FrameWriter, Item, SubBuffer, TraceFile};
use takt_tracer::ring;
use takt_tracer::wire::{CHANNEL_TRACE, FileHeader, FrameHeader, SUB_HEADER, SubHeader};

use crate::corruption::read;
use crate::world::{Ring, SUB, SWITCH, Sink, Switch, World, file_header, table};

/// A file with one frame that holds this sub-buffer, with a good sum.
fn with_sub(payload: &[u8]) -> Vec<u8> {
    let mut writer = FrameWriter::new(Vec::new(), &file_header(2)).unwrap();
    writer.frame(CHANNEL_TRACE, 0, payload).unwrap();
    writer.finish().unwrap()
}

fn sub(words: &[u32], header: SubHeader) -> Vec<u8> {
    let mut bytes = header.encode().to_vec();
    bytes.extend(words.iter().flat_map(|word| word.to_le_bytes()));
    bytes.resize(SUB as usize, 0);
    bytes
}

#[test]
fn a_wrong_sub_buffer_is_damage_with_its_offset() {
    let start = (FileHeader::SIZE + FrameHeader::SIZE) as u64;
    let good = SubHeader {
        version: SubHeader::VERSION,
        commit: u64::from(SUB),
        ..SubHeader::default()
    };
    let fault = |words: &[u32], header| {
        let (numbers, damage) = read(&with_sub(&sub(words, header))).unwrap();
        let damage = damage.into_iter().next().unwrap();
        (numbers.len(), damage.offset - start, damage.fault)
    };
    let at = u64::from(SUB_HEADER);
    let one = SubHeader {
        commit: good.commit + (1 << 24),
        ..good
    };
    assert_eq!(
        fault(&[], SubHeader { version: 3, ..good }),
        (0, 0, Fault::Version { found: 3, known: 2 })
    );
    assert_eq!(
        fault(&[], SubHeader { cpu: 1, ..good }),
        (
            0,
            0,
            Fault::SubCpu {
                found: 1,
                expected: 0
            }
        )
    );
    let committed = |committed| Fault::Committed {
        committed,
        size: SUB.into(),
    };
    assert_eq!(
        fault(&[], SubHeader { commit: 39, ..good }),
        (0, 0, committed(39))
    );
    assert_eq!(
        fault(
            &[],
            SubHeader {
                commit: 257,
                ..good
            }
        ),
        (0, 0, committed(257))
    );
    assert_eq!(
        fault(&[5, 0xfe], good),
        (0, at, Fault::UnknownEvent { id: 0xfe })
    );
    assert_eq!(
        fault(&[5, 0x0104, 6, 0xfe], one),
        (1, at + 8, Fault::UnknownEvent { id: 0xfe })
    );
    let short = SubHeader {
        commit: 40 + 8,
        ..good
    };
    assert_eq!(
        fault(&[5, 0x06], short),
        (
            0,
            at,
            Fault::ShortRecord {
                id: 6,
                need: 12,
                have: 8
            }
        )
    );
    assert_eq!(
        fault(&[5, 0x02], short),
        (
            0,
            at,
            Fault::ShortRecord {
                id: 2,
                need: 12,
                have: 8
            }
        )
    );
    let long = Fault::ShortRecord {
        id: 8,
        need: 0x1_0000_0010,
        have: 216,
    };
    assert_eq!(fault(&[5, 0x08, 0, 0xffff_ffff], good), (0, at, long));
    let count = Fault::Count {
        found: 1,
        counted: 0,
    };
    assert_eq!(fault(&[5, 0x04], good), (1, at + 8, count));
    let (numbers, damage) = read(&with_sub(&sub(
        &[9, 0x0104, 5, 0x0204, 7, 0x0304],
        SubHeader {
            commit: good.commit + (3 << 24),
            ..good
        },
    )))
    .unwrap();
    assert_eq!(
        numbers,
        [1, 2, 3],
        "a record that is older is delivered all the same"
    );
    assert!(
        matches!(
            damage[..],
            [Damage {
                fault: Fault::TimeBack { by: 4 },
                ..
            }]
        ),
        "{damage:?}"
    );
}

#[test]
fn a_hole_ends_what_can_be_salvaged() {
    // Two records, a hole with a record of the past in it, one more record.
    let words = [100, 0x0104, 110, 0x0204, 40, 0x6304, 130, 0x0404];
    let header = SubHeader {
        version: SubHeader::VERSION,
        ts: 90,
        commit: 40 + 24 + (3 << 24),
        ..SubHeader::default()
    };
    let table = table();
    let mut salvaged = SubBuffer::salvage(sub(&words, header), 1000, 40 + 32).unwrap();
    let mut numbers = Vec::new();
    let damage = loop {
        match salvaged.next(&table).unwrap() {
            Ok(record) => numbers.extend(record.number("next")),
            Err(damage) => break damage,
        }
    };
    assert_eq!(numbers, [1, 2]);
    assert_eq!(
        damage,
        Damage {
            offset: 1056,
            skipped: 16,
            fault: Fault::TimeBack { by: 70 }
        }
    );
    assert!(salvaged.next(&table).is_none());

    // In a file nothing says how much was reserved: what is committed is read, and no record of the past.
    let (numbers, damage) = read(&with_sub(&sub(&words, header))).unwrap();
    assert_eq!(numbers, [1, 2]);
    assert!(
        matches!(
            damage[..],
            [Damage {
                skipped: 8,
                fault: Fault::TimeBack { by: 70 },
                ..
            }]
        ),
        "{damage:?}"
    );

    // A hole that was never written before ends it as well.
    let mut words = words;
    words[4..6].fill(0);
    let mut salvaged = SubBuffer::salvage(sub(&words, header), 1000, 40 + 32).unwrap();
    let items: Vec<_> = std::iter::from_fn(|| {
        salvaged
            .next(&table)
            .map(|item| item.map(|record| record.ts))
    })
    .collect();
    assert_eq!(items[..2], [Ok(100), Ok(110)]);
    assert_eq!(
        items[2..],
        [Err(Damage {
            offset: 1056,
            skipped: 16,
            fault: Fault::Hole { bytes: 8 }
        })]
    );
}

#[test]
fn a_half_announced_ahead_of_time_is_no_time() {
    // The idle thread announces half 1; then something comes before it, and says half 0 again.
    let clock = |low, half| [low, 2, half];
    let words = [
        &[100, 0x0104][..],
        &clock(50, 1),
        &clock(120, 0),
        &[120, 0x0204],
        &clock(50, 1),
        &[50, 0x0304],
    ]
    .concat();
    let header = SubHeader {
        version: SubHeader::VERSION,
        ts: 90,
        commit: u64::from(SUB) + (3 << 24),
        ..SubHeader::default()
    };
    let mut trace = TraceFile::open(Cursor::new(with_sub(&sub(&words, header)))).unwrap();
    let table = table();
    let times: Vec<_> = trace
        .merge(&table)
        .map(|item| match item.unwrap() {
            Item::Record(record) => record.ts,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(times, [100, 120, (1 << 32) + 50]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn any_payload_with_a_good_sum_is_survived(
        words in prop::collection::vec(prop_oneof![any::<u32>(), 0..300u32, Just(SWITCH.number()), Just(2), Just(8), Just(0x103)], 0..54),
        (seq, ts, commit, base) in (0..3u64, any::<u64>(), prop_oneof![any::<u64>(), 0..300u64], prop_oneof![Just(0), any::<u64>()]),
        reserved in any::<u32>(),
    ) {
        let header = SubHeader { seq, ts, commit, base, version: SubHeader::VERSION, ..SubHeader::default() };
        let payload = sub(&words, header);
        let _ = read(&with_sub(&payload)).unwrap();
        if let Ok(mut salvaged) = SubBuffer::salvage(payload, 0, reserved % 300) {
            let table = table();
            prop_assert!(std::iter::from_fn(|| salvaged.next(&table)).count() < 100);
        }
    }
}

#[test]
fn switches_say_who_runs() {
    let world = World::new(1);
    world.at(0, 5, 0xc0, 7);
    for next in [8u8, 9, 10] {
        Switch::emit::<Sink>(SWITCH, next, 0u8, 0u8, 0u8);
    }
    let table = table();
    let mut trace = TraceFile::open(Cursor::new(world.finish())).unwrap();
    let tids: Vec<_> = trace
        .merge(&table)
        .map(|item| match item.unwrap() {
            Item::Record(record) => record.tid,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(tids, [7, 8, 9]);
}

/// A switch does not say who ran; what was not recorded in between is made up for when recording goes on.
#[test]
fn who_runs_is_told_anew_when_recording_goes_on() {
    let world = World::new(1);
    world.at(0, 5, 0xc0, 7);
    Switch::emit::<Sink>(SWITCH, 8u8, 0u8, 0u8, 0u8);
    ring::tracing_off(Ring);
    world.at(0, 6, 0xc0, 8);
    Switch::emit::<Sink>(SWITCH, 9u8, 0u8, 0u8, 0u8);
    ring::tracing_on(Ring);
    world.at(0, 7, 0xc0, 9);
    Switch::emit::<Sink>(SWITCH, 10u8, 0u8, 0u8, 0u8);
    world.at(0, 8, 0xc0, 10);
    Switch::emit::<Sink>(SWITCH, 11u8, 0u8, 0u8, 0u8);
    let counters = ring::counters(Ring);
    let table = table();
    let mut trace = TraceFile::open(Cursor::new(world.finish())).unwrap();
    let tids: Vec<_> = trace
        .merge(&table)
        .map(|item| match item.unwrap() {
            Item::Record(record) => (record.ts, record.tid),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(tids, [(5, 7), (7, 9), (8, 10)]);
    // Three records of 8 bytes, the header, and once who runs.
    assert_eq!((counters.entries, counters.bytes), (3, 40 + 3 * 8 + 12));
}
