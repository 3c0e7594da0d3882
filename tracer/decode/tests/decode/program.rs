//! Filters as programs: they say the same as the host, whatever the filter and whatever the record.

use std::io::Cursor;

use proptest::prelude::*;
use takt_decode::filter::{Filter, Filters};
use takt_decode::{EventTable, Item, Names, Record, Threads, TraceFile};
use takt_tracer::event::{Id, Layout, Packed, Place, Placer};
use takt_tracer::filter::program::{MAX_WORDS, Program, Raw};

use crate::world::{Sink, World, entry};

/// Each once.
const WIDTHS: [(u32, usize); 8] = [
    (8, 1),
    (2, 1),
    (4, 1),
    (32, 1),
    (4, 1),
    (64, 1),
    (32, 1),
    (64, 1),
];

const CLASS: &str = "class sched_switch\nlayout wide\nfield next 8 tid\nfield prev_state 2 enum(0=R,1=S,2=T)\n\
    field a 4 u\nfield b 32 x\nfield c 4 i\nfield w 64 i\nfield took 32 cycles\nfield long 64 cycles\n\
    print prev_comm={current:comm} next_comm={next:comm} {next:pid}\n";

fn table() -> EventTable {
    EventTable::parse(&entry(5, "x:y", CLASS)).unwrap()
}

fn names(hz: u64) -> Names {
    let mut threads = Threads::new(2);
    threads.name(3, "ctrl");
    threads.name(4, "ctrl/4");
    Names::new(hz, threads)
}

/// The words that the record has, as a sink gets them.
fn words(values: [u64; 8], ctx: u8, tid: u8) -> Vec<u32> {
    let mut words = vec![5 | u32::from(ctx) << 16 | u32::from(tid) << 24];
    words.resize(1 + Placer::words_of(Layout::Wide, &WIDTHS), 0);
    for (number, value) in values.into_iter().enumerate() {
        let (width, _) = WIDTHS[number];
        let value = value & (u64::MAX >> (64 - width));
        match Placer::place_after(Layout::Wide, &WIDTHS[..number], width) {
            Place::Word(shift) => words[0] |= (value as u32) << shift,
            Place::Extra(at, shift) => {
                words[at + 1] |= (value as u32) << shift;
                if width == 64 {
                    words[at + 2] = (value >> 32) as u32;
                }
            }
        }
    }
    words
}

/// The same record, decoded.
fn with_record(values: [u64; 8], ctx: u8, tid: u8, cpu: u8, check: impl FnOnce(&Record<'_>)) {
    let table = table();
    let world = World::new(2);
    world.at(cpu.into(), 1000, ctx, tid);
    let mut packed = Packed::new(Id::from_number(5));
    for (number, value) in values.into_iter().enumerate() {
        let place = Placer::place_after(Layout::Wide, &WIDTHS[..number], WIDTHS[number].0);
        packed = packed.field(place, WIDTHS[number].0, value);
    }
    packed.send::<Sink>(Layout::Wide, Placer::words_of(Layout::Wide, &WIDTHS), None);
    let mut trace = TraceFile::open(Cursor::new(world.finish())).unwrap();
    let Some(Ok(Item::Record(record))) = trace.merge(&table).next() else {
        panic!("no record");
    };
    check(&record);
}

fn test() -> impl Strategy<Value = String> {
    let ops = prop::sample::select(vec!["==", "!=", "<", "<=", ">", ">=", "&"]);
    let numbers = prop_oneof![
        -10..20i128,
        Just(i128::from(i64::MIN)),
        Just(i128::from(i64::MAX)),
        Just(i128::from(u64::MAX)),
        0..=i128::from(u32::MAX),
    ];
    let fields = prop::sample::select(vec![
        "next_pid",
        "prev_state",
        "a",
        "b",
        "c",
        "w",
        "took",
        "long",
        "common_pid",
        "common_flags",
        "common_preempt_count",
        "common_type",
        "CPU",
        "nothing_if_it_is_alone",
    ]);
    let number = (fields, ops, numbers).prop_map(|(field, op, number)| match (field, op) {
        ("took" | "long", "&") => format!("{field} == {number}"),
        ("nothing_if_it_is_alone", _) => "prev_state == T".into(),
        _ => format!("{field} {op} {number}"),
    });
    let fields = prop::sample::select(vec!["next_comm", "prev_comm", "COMM"]);
    let ops = prop::sample::select(vec!["==", "!=", "~"]);
    let texts = prop::sample::select(vec!["ctrl", "ctrl*", "swapper/?", "<...>", "*"]);
    let text =
        (fields, ops, texts).prop_map(|(field, op, text)| format!("{field} {op} \"{text}\""));
    prop_oneof![3 => number, 1 => text]
}

fn filter() -> impl Strategy<Value = String> {
    test().prop_recursive(4, 16, 3, |inner| {
        prop_oneof![
            inner.clone().prop_map(|inner| format!("!({inner})")),
            prop::collection::vec(inner.clone(), 2..4)
                .prop_map(|all| format!("({})", all.join(" && "))),
            prop::collection::vec(inner, 2..4).prop_map(|all| format!("({})", all.join(" || "))),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn a_program_says_what_the_host_says(
        texts in prop::collection::vec(filter(), 1..3),
        small in (0..6u64, 0..4u64, 0..16u64, 0..16u64),
        big in (prop_oneof![0..16u64, any::<u64>()], any::<u64>(), prop_oneof![0..40u64, any::<u64>()], prop_oneof![0..40u64, any::<u64>()]),
        (ctx, tid, cpu) in (any::<u8>(), 0..6u8, 0..2u8),
        hz in prop::sample::select(vec![1_000_000_000u64, 3_000_000_000, 700_000_001]),
    ) {
        let values = [small.0, small.1, small.2, big.0, small.3, big.1, big.2, big.3];
        let table = table();
        let names = names(hz);
        let parsed: Vec<_> = texts.iter().map(|text| Filter::parse(text).unwrap()).collect();
        let filters = Filters::bind(&parsed, &table).unwrap();
        let code = match filters.compile(table.get(5).unwrap(), &names) {
            Ok(code) => code.expect("it is for every event"),
            Err(error) => {
                prop_assert!(error.to_string().contains("words long"), "{}", error);
                return Ok(());
            }
        };
        let program = Program::new(&code).expect("it is sound");
        let words = words(values, ctx, tid);
        let says = program.run(&Raw { words: &words, cpu, tid, ctx });
        let mut expected = None;
        with_record(values, ctx, tid, cpu, |record| expected = Some(filters.matches(record, &names)));
        prop_assert_eq!(Some(says), expected, "{:?} {:?}", texts, values);
    }

    #[test]
    fn any_program_is_refused_or_comes_to_an_end(
        mut code in prop::collection::vec(prop_oneof![0..0x400u32, any::<u32>(), Just(0xfffe_ffff)], 0..60),
        words in prop::collection::vec(any::<u32>(), 0..4),
        begin in any::<bool>(),
    ) {
        if begin && !code.is_empty() {
            code[0] = 1;
        }
        if let Some(program) = Program::new(&code) {
            let _ = program.run(&Raw { words: &words, cpu: 0, tid: 1, ctx: 0xc0 });
        }
    }
}

#[test]
fn what_is_damaged_is_refused() {
    let table = table();
    let filter = Filter::parse("a == 3 && (next_comm == ctrl || b & 4)").unwrap();
    let filters = Filters::bind(&[filter], &table).unwrap();
    let code = filters
        .compile(table.get(5).unwrap(), &names(0))
        .unwrap()
        .unwrap();
    assert_eq!(code.len(), 1 + 7 + (11 + 2) + 5);
    assert!(Program::new(&code).is_some());
    for len in 0..code.len() {
        assert!(Program::new(&code[..len]).is_none(), "{len} words");
    }
    for (at, word) in [
        (0, 0),
        (0, 2),
        (0, 0x1_0001),
        (1, 3),
        (1, 0x400),
        // Back to itself, and into the middle of a test.
        (2, 0xffff_0001),
        (2, 0xffff_0009),
        (9, 0x0001_ffff),
        // A name where there is none, of another length, of no kind, and one that is no text.
        (1, 0x1_0301),
        (8, 0x1_0300),
        (8, 0x102_0300),
        (19, 0x0005),
        (19, 0x0304),
        (20, 0xffff_ffff),
    ] {
        let mut bad = code.clone();
        bad[at] = word;
        assert!(Program::new(&bad).is_none(), "word {at} is {word:#x}");
    }
    assert!(Program::new(&vec![0xffff; MAX_WORDS + 1]).is_none());
    assert!(Program::<u32>::new(&[]).is_none());
    let raw = Raw {
        words: &[],
        cpu: 0,
        tid: 0,
        ctx: 0,
    };
    assert!(Program::new(&[0xffff]).unwrap().run(&raw));
    assert!(!Program::new(&[0xfffe]).unwrap().run(&raw));
}

#[test]
fn what_the_target_cannot_do_is_said() {
    let class =
        "class c\nlayout wide\nfield place 32 sym\nfield took 32 cycles\nfield text * str\n";
    let table = EventTable::parse(&entry(5, "x:y", class)).unwrap();
    let compile = |text: &str| {
        let filters = Filters::bind(&[Filter::parse(text).unwrap()], &table).unwrap();
        filters.compile(table.get(5).unwrap(), &names(0))
    };
    for text in ["text == x", "place ~ \"x*\"", "took & 4"] {
        assert!(compile(text).is_err(), "{text}");
    }
    assert!(compile("place == 0x1000").is_ok());
    let long = vec!["COMM == ctrl"; 90].join(" || ");
    assert!(
        compile(&long)
            .unwrap_err()
            .to_string()
            .contains("words long")
    );
    let other = Filters::bind(&[], &table).unwrap();
    assert_eq!(other.compile(table.get(5).unwrap(), &names(0)), Ok(None));
}
