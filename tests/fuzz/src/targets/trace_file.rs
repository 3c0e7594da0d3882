//! The decoder of `trace.bin` and `log.bin`, from the frames to the lines of text, with the metadata of the sample.
//!
//! Input: one byte, bit 0 of which asks for repaired checksums, and the file.

use std::io::Cursor;
use std::sync::LazyLock;

use takt_decode::{
    Damage, Entry, EventTable, FrameReader, Item, Names, Role, Threads, TraceFile, write_item,
    write_json,
};
use takt_tracer::wire::FileHeader;

use crate::sample;

static TABLE: LazyLock<EventTable> =
    LazyLock::new(|| EventTable::parse(&sample::metadata()).expect("the sample is good"));

/// Reads the file in every way.
///
/// # Panics
///
/// If a property does not hold.
pub fn run(input: &[u8]) {
    let Some((flags, file)) = input.split_first() else {
        return;
    };
    let mut file = file.to_vec();
    if flags & 1 != 0 {
        let start = FileHeader::decode(&file).map_or(0, |(_, len)| len as usize);
        sample::repair(&mut file, start);
    }
    if let Ok(reader) = FrameReader::log(&*file) {
        frames(reader, file.len());
    }
    if let Ok(reader) = FrameReader::trace(&*file) {
        frames(reader, file.len());
    }
    let Ok(mut trace) = TraceFile::open(Cursor::new(&*file)) else {
        return;
    };
    let first = records(&mut trace, file.len());
    let second = records(&mut trace, file.len());
    assert_eq!(first, second, "reading again gives the same");
    // All but the last sub-buffer of each CPU is passed over.
    let range = u64::MAX..=u64::MAX;
    let mut end = TraceFile::open_range(Cursor::new(&*file), range, |_| true).expect("it was read");
    let (of_end, damages) = records(&mut end, file.len());
    assert!(of_end <= first.0);
    assert_eq!(damages, first.1, "what is passed over is checked");
    assert!(damages <= first.0 + file.len() as u64 / 40);
    for damage in trace.damage() {
        is_inside(damage, file.len());
    }
    let (read, damages) = first;
    if damages == 0 && trace.nr_damages() == 0 {
        assert_eq!(read, trace.nr_records(), "what the headers count is there");
    }
}

/// Every frame once, in order.
fn frames(mut reader: FrameReader<&[u8]>, len: usize) {
    let mut end = 0;
    while let Some(entry) = reader.next_entry().expect("memory can be read") {
        match entry {
            Entry::Frame(frame) => {
                assert!(frame.offset >= end, "frames do not overlap");
                assert_eq!(frame.header.sum_over(&frame.payload), frame.header.sum);
                end = frame.offset + 24 + frame.payload.len() as u64;
            }
            Entry::Damage(damage) => is_inside(&damage, len),
        }
    }
    assert!(end <= len as u64);
}

/// Reads all records; gives the numbers of records and of damages.
fn records(trace: &mut TraceFile<Cursor<&[u8]>>, len: usize) -> (u64, u64) {
    let mut names = Names::new(trace.header().tsc_hz, Threads::new(2));
    let (mut records, mut damages) = (0, 0);
    for item in trace.merge(&TABLE) {
        let item = item.expect("memory can be read");
        match &item {
            Item::Record(_) => records += 1,
            Item::Damage(damage) => {
                damages += 1;
                is_inside(damage, len);
            }
            Item::Lost { .. } => {}
        }
        print(&item, &mut names);
    }
    assert!(records <= len as u64 / 8, "no record is read twice");
    (records, damages)
}

/// Makes text and JSON of an item: harmless on a terminal, and well formed.
fn print(item: &Item<'_>, names: &mut Names) {
    let (mut text, mut json) = (Vec::new(), Vec::new());
    write_item(&mut text, item, names).expect("memory can be written");
    write_json(&mut json, item, names).expect("memory can be written");
    let text = String::from_utf8(text).expect("text is UTF-8");
    assert!(text.lines().all(|line| !line.contains(char::is_control)));
    let lines = text.lines().count();
    match item {
        Item::Lost {
            events,
            sub_buffers,
            ..
        } => {
            assert_eq!(
                lines,
                usize::from(*events > 0) + usize::from(*sub_buffers > 0)
            );
        }
        Item::Record(record) if matches!(record.event.role, Role::Stack { .. }) => {
            let mut callers = text.lines().skip(1);
            assert!(callers.all(|line| line.starts_with(" => ")), "{text}");
        }
        _ => assert_eq!(lines, 1, "{text}"),
    }
    assert_eq!(json.iter().filter(|byte| **byte == b'\n').count(), 1);
    let json: serde_json::Value = serde_json::from_slice(&json).expect("a line is JSON");
    assert!(json.is_object());
}

fn is_inside(damage: &Damage, len: usize) {
    let end = damage.offset.checked_add(damage.skipped);
    assert!(end.is_some_and(|end| end <= len as u64), "{damage:?}");
    assert!(!damage.to_string().is_empty());
}

/// A good file of each kind, with and without repair; and one with rubbish before its frames.
#[must_use]
pub fn seeds() -> Vec<Vec<u8>> {
    let (trace, log) = (sample::trace_file(), sample::log_file());
    let (head, frames) = trace.split_at(FileHeader::SIZE);
    vec![
        [&[0], &*trace].concat(),
        [&[1], &*trace].concat(),
        [&[0], &*log].concat(),
        [&[1], &*log].concat(),
        [&[1], head, b"TKF1 rubbish", frames].concat(),
    ]
}
