//! The lines that come out, against files: set `OVERWRITE=1` to accept what there is now.

use std::io::Cursor;
use std::path::Path;

use takt_decode::{
    Item, Names, Switches, Threads, TraceFile, write_header, write_item, write_json,
};

use crate::world::{CREATE, Create, Sink, WAKEUP, Wakeup, World, sample, sample_of_arrays, table};

pub(crate) fn snapshot(name: &str, found: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/decode/snapshots")
        .join(name);
    if std::env::var_os("OVERWRITE").is_some() {
        std::fs::write(&path, found).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    for (number, (found, expected)) in found.lines().zip(expected.lines()).enumerate() {
        assert_eq!(
            found,
            expected,
            "line {} of {name}; OVERWRITE=1 accepts it",
            number + 1
        );
    }
    assert_eq!(found, expected, "{name}; OVERWRITE=1 accepts it");
}

pub(crate) fn names() -> Names {
    let mut threads = Threads::new(2);
    threads.name(3, "main");
    Names::new(2_000_000_000, threads)
        .with_symbols(|address| (address == 0x20_1234).then(|| "do_timer+0x4".into()))
        .with_inlined(|address| match address {
            0x20_1234 => vec!["inner".into(), "outer".into()],
            _ => Vec::new(),
        })
}

#[test]
fn ftrace_text() {
    let table = table();
    let mut trace = TraceFile::open(Cursor::new(sample())).unwrap();
    let mut out = Vec::new();
    let entries = trace.nr_records();
    write_header(
        &mut out,
        "nop",
        entries,
        entries + trace.nr_lost(),
        trace.header().nr_cpus,
    )
    .unwrap();
    let mut names = names();
    for item in trace.merge(&table) {
        write_item(&mut out, &item.unwrap(), &mut names).unwrap();
    }
    snapshot("trace.txt", &String::from_utf8(out).unwrap());
}

/// As the tracer `sched_switch` shows them: who was not seen to be left was waiting.
#[test]
fn switches_and_wakeups() {
    let table = table();
    let mut trace = TraceFile::open(Cursor::new(sample())).unwrap();
    let mut out = Vec::new();
    let mut names = names().with_switches(Switches::new([(0, 120), (3, 50)]));
    for item in trace.merge(&table) {
        let item = item.unwrap();
        let is_sched =
            matches!(&item, Item::Record(record) if record.event.name.starts_with("sched:"));
        if is_sched {
            write_item(&mut out, &item, &mut names).unwrap();
        }
    }
    snapshot("switches.txt", &String::from_utf8(out).unwrap());
}

fn json_of(file: Vec<u8>) -> String {
    let table = table();
    let mut trace = TraceFile::open(Cursor::new(file)).unwrap();
    let mut out = Vec::new();
    let mut names = names();
    for item in trace.merge(&table) {
        write_json(&mut out, &item.unwrap(), &mut names).unwrap();
    }
    let out = String::from_utf8(out).unwrap();
    for line in out.lines() {
        let object: serde_json::Value = serde_json::from_str(line).unwrap();
        assert!(object["ts_ns"].is_u64());
    }
    out
}

#[test]
fn json_lines() {
    snapshot("trace.jsonl", &json_of(sample()));
    snapshot("arrays.jsonl", &json_of(sample_of_arrays()));
}

#[test]
fn json_has_no_control_characters() {
    let world = World::new(1);
    world.at(0, 5, 0xc0, 0);
    Create::emit::<Sink>(CREATE, 9u8, 1u8, 0u8, "a\u{7f}\u{9b}2J\x1b");
    let json = json_of(world.finish());
    assert!(json.contains(r"a\u007f\u009b2J\u001b"), "{json}");
    assert!(
        !json.contains(|c: char| c.is_control() && c != '\n'),
        "{json:?}"
    );
}

#[test]
fn arrays_and_stacks_as_text() {
    let table = table();
    let mut trace = TraceFile::open(Cursor::new(sample_of_arrays())).unwrap();
    let mut out = Vec::new();
    let mut names = names();
    for item in trace.merge(&table) {
        write_item(&mut out, &item.unwrap(), &mut names).unwrap();
    }
    snapshot("arrays.txt", &String::from_utf8(out).unwrap());
}

#[test]
fn a_stacks_functions_have_offsets_if_they_are_wanted() {
    let mut names = names();
    assert_eq!(names.frame(0x20_1234), "do_timer");
    names.offsets = true;
    assert_eq!(names.frame(0x20_1234), "do_timer+0x4");
    assert_eq!(names.frame(0x1000), "0x1000");
}

#[test]
fn losses_are_never_silent() {
    let world = World::new(1);
    world.at(0, 5, 0xc0, 0);
    Create::emit::<Sink>(CREATE, 9u8, 1u8, 0u8, "x");
    (0..100).for_each(|_| Wakeup::emit::<Sink>(WAKEUP, 9u8, 1u8, 0u8));
    let table = table();
    let mut trace = TraceFile::open(Cursor::new(world.finish())).unwrap();
    assert!(!trace.is_complete());
    let (records, lost) = (trace.nr_records(), trace.nr_lost());
    assert_eq!(records + lost, 101);
    assert!(lost > 0);
    let (mut text, mut json) = (Vec::new(), Vec::new());
    let mut names = names();
    for item in trace.merge(&table) {
        let item = item.unwrap();
        write_item(&mut text, &item, &mut names).unwrap();
        write_json(&mut json, &item, &mut names).unwrap();
    }
    let (text, json) = (
        String::from_utf8(text).unwrap(),
        String::from_utf8(json).unwrap(),
    );
    assert!(
        text.ends_with(&format!("CPU:0 [LOST {lost} EVENTS]\n")),
        "{text}"
    );
    assert!(json.contains(&format!("\"lost_events\":{lost}")), "{json}");
}
