//! Near events: a time of which the lower half is recorded where the record's own time has the upper one.

use std::io::Cursor;

use proptest::prelude::*;
use takt_decode::filter::{Filter, Filters};
use takt_decode::{EventTable, FrameWriter, Item, Names, Record, Threads, TraceFile};
use takt_tracer::event::{EventClass, Id};
use takt_tracer::filter::program::{Program, Raw};
use takt_tracer::wire::{CHANNEL_TRACE, CLOCK_LEN, FileHeader, FrameHeader, SUB_HEADER, SubHeader};

use crate::world::{self, SUB, Sink, World, entry, file_header};

takt_tracer::event_class! {
    /// A timer and its deadline.
    class Deadline = "timer_deadline", near { timer: 11 u, expires: 64 cycles }
    print "timer={timer} expires={expires}";
}

const ID: u16 = 0xc001;
const HALF: u64 = 1 << 32;

fn table() -> EventTable {
    EventTable::parse(
        &[
            entry(2, "takt:clock", takt_tracer::event::builtin::Clock::TEXT),
            entry(ID.into(), "timer:timer_start", Deadline::TEXT),
        ]
        .concat(),
    )
    .unwrap()
}

/// What a near event is made of: gap to the one before, timer, deadline.
type Emitted = (u64, u16, u64);

/// The records of these, as they are read back.
fn read(emitted: &[Emitted], check: impl FnMut(&Record<'_>)) {
    let mut world = World::new(1);
    let mut now = 0;
    for (gap, timer, expires) in emitted {
        now += gap;
        world.at(0, now, 0x93, 77);
        Deadline::emit::<Sink>(Id::from_number(ID), *timer, *expires);
        world.hand_over();
    }
    let table = table();
    let mut trace = TraceFile::open(Cursor::new(world.finish())).unwrap();
    assert!(trace.is_complete());
    assert_eq!(trace.nr_records(), emitted.len() as u64);
    let records: Vec<_> = trace
        .merge(&table)
        .map(|item| match item.unwrap() {
            Item::Record(record) => record,
            other => panic!("{other:?}"),
        })
        .collect();
    records.iter().for_each(check);
}

fn numbers(record: &Record<'_>) -> (u64, u64, u64) {
    let number = |name| record.number(name).unwrap();
    (record.ts, number("timer"), number("expires"))
}

#[test]
fn a_record_is_as_long_as_need_be() {
    let at = 5 * HALF - 1000;
    let mut found = Vec::new();
    read(
        &[
            (at, 256, at + 500),
            // Another half, however near.
            (1, 0, 5 * HALF),
            (1, 2047, 5 * HALF + 7),
            (1, 1, 5 * HALF - 1),
            // The same lower half as the time of the record, one half away.
            (1, 2, 6 * HALF - 996),
            (1, 3, u64::MAX),
            (1, 4, 0),
            // In the next half: what is late is of the one before.
            (1000, 5, 5 * HALF - 1),
            (1, 6, 5 * HALF),
            (1, 7, 6 * HALF - 1),
            // After a long time without any record.
            (3 * HALF, 8, 8 * HALF + 1),
            (1, 9, 8 * HALF + 2),
        ],
        |record| {
            assert_eq!((record.context.0, record.tid), (0x93, 77));
            let (_, timer, expires) = numbers(record);
            found.push((timer, expires, record.len));
        },
    );
    assert_eq!(
        found,
        [
            // It begins the sub-buffer: on the slow path all of it is recorded.
            (256, 5 * HALF - 500, 16),
            (0, 5 * HALF, 16),
            (2047, 5 * HALF + 7, 16),
            (1, 5 * HALF - 1, 12),
            (2, 6 * HALF - 996, 16),
            (3, u64::MAX, 16),
            (4, 0, 16),
            (5, 5 * HALF - 1, 16),
            (6, 5 * HALF, 12),
            (7, 6 * HALF - 1, 12),
            // So it is where the record's own half is new.
            (8, 8 * HALF + 1, 16),
            (9, 8 * HALF + 2, 12),
        ]
    );
}

fn emitted() -> impl Strategy<Value = Emitted> {
    let gap = prop_oneof![0..2000u64, Just(HALF - 1), Just(HALF), HALF / 2..3 * HALF];
    let deadline = prop_oneof![0..40 * HALF, any::<u64>(), Just(0), Just(u64::MAX)];
    (gap, 0..2048u16, deadline)
}

proptest! {
    #[test]
    fn whatever_the_deadline_it_is_read_back(emitted in prop::collection::vec(emitted(), 1..60)) {
        let (mut now, mut nr) = (0, 0);
        let (mut halves, mut bytes, mut long) = (1, 0, 0);
        read(&emitted, |record| {
            let (gap, timer, expires) = emitted[nr];
            halves += u32::from((now + gap) >> 32 != now >> 32);
            now += gap;
            nr += 1;
            bytes += record.len;
            assert_eq!(numbers(record), (now, timer.into(), expires));
            let is_near = expires >> 32 == now >> 32;
            assert!(record.len == 16 || is_near && record.len == 12);
            long += u32::from(is_near && record.len == 16);
        });
        // Longer than need be are at most the first ones of each half and of each sub-buffer.
        let nr_subs = (bytes + halves * CLOCK_LEN) / (SUB - SUB_HEADER - 16 - CLOCK_LEN) + 1;
        prop_assert!(long <= halves + nr_subs, "{} of {}", long, nr);
    }

    #[test]
    fn a_program_sees_all_of_the_deadline(timer in 0..2048u32, expires in any::<u64>(), limit in any::<u64>(), ctx in any::<u16>()) {
        let table = table();
        let names = Names::new(1_000_000_000, Threads::new(1));
        let says = |text: &str| {
            let filter = Filter::parse(text).unwrap();
            let filters = Filters::bind(&[filter], &table).unwrap();
            let code = filters.compile(table.get(ID.into()).unwrap(), &names).unwrap().unwrap();
            // As the record function shows them: the whole time, and the word without what is decided later.
            let word = u32::from(ID) | timer << 1 | u32::from(ctx) << 16;
            let words = [word, expires as u32, (expires >> 32) as u32];
            let raw = Raw { words: &words, cpu: 0, tid: 1, ctx: 0 };
            Program::new(&code).unwrap().run(&raw)
        };
        prop_assert_eq!(says(&format!("expires >= {limit}")), expires >= limit);
        prop_assert_eq!(says(&format!("expires == {expires}")), true);
        prop_assert_eq!(says(&format!("timer == {timer}")), true);
        prop_assert_eq!(says(&format!("timer > {timer}")), false);
        prop_assert_eq!(says(&format!("timer < 1024 && expires < {limit}")), timer < 1024 && expires < limit);
    }
}

/// What a class of layout `near` must be.
#[test]
fn near_is_a_few_bits_and_a_time() {
    let refused = |id: u64, layout: &str, fields: &str| {
        let class = format!("class c\nlayout {layout}\n{fields}print x\n");
        EventTable::parse(&entry(id, "x:y", &class))
            .unwrap_err()
            .reason
    };
    let good = "field timer 11 u\nfield expires 64 cycles\n";
    for fields in [
        "",
        "field timer 11 u\n",
        "field timer 12 u\nfield expires 64 cycles\n",
        "field expires 64 cycles\nfield timer 11 u\n",
        "field a 64 u\nfield expires 64 cycles\n",
        "field low 32 u\nfield high 32 u\n",
        "field expires 64 cycles\nfield text * str\n",
    ] {
        let reason = refused(0x8001, "near", fields);
        assert!(reason.contains("layout `near`"), "{fields}: {reason}");
    }
    for (id, layout) in [
        (0x8001, "wide"),
        (0x7fff, "near"),
        (4, "near"),
        (0x8001, "core8"),
    ] {
        assert!(
            refused(id, layout, good).contains("does not fit"),
            "{id:#x}"
        );
    }
    for id in [0x8003, 0x9001, 0xffff, 0x8000] {
        assert!(refused(id, "near", good).contains("no event id"), "{id:#x}");
    }
    for id in [0x8001, 0xa001, 0xc001, 0xe001] {
        let class = format!("class c\nlayout near\n{good}print x\n");
        assert!(EventTable::parse(&entry(id, "x:y", &class)).is_ok());
    }
}

/// A trace of version 1 had no near events; it is read as ever.
#[test]
fn version_1_is_still_read() {
    let mut writer = FrameWriter::new(
        Vec::new(),
        &FileHeader {
            version: 1,
            ..file_header(1)
        },
    )
    .unwrap();
    let header = SubHeader {
        version: 1,
        ts: 7,
        commit: u64::from(SUB) + (1 << 24),
        ..SubHeader::default()
    };
    let mut sub = header.encode().to_vec();
    for word in [9u32, 4 | 3 << 8] {
        sub.extend_from_slice(&word.to_le_bytes());
    }
    sub.resize(SUB as usize, 0);
    let mut frame = FrameHeader::for_payload(CHANNEL_TRACE, 0, 0, &sub);
    frame.version = 1;
    frame.sum = frame.sum_over(&sub);
    writer.captured(&frame, &sub).unwrap();
    let bytes = writer.finish().unwrap();
    let table = world::table();
    let mut trace = TraceFile::open(Cursor::new(bytes)).unwrap();
    assert!(trace.is_complete());
    let Some(Ok(Item::Record(record))) = trace.merge(&table).next() else {
        panic!("no record");
    };
    assert_eq!((record.ts, record.number("next")), (9, Some(3)));
}
