//! The event table (section `.takt.meta`), and records of events that it describes.
//!
//! Input: a byte of flags. With bit 0, the section as it is. Without, parts that end with `0xff` (which is in no
//! text): the first two bytes of a part are an event's id and the rest its text, and the last part are the records of
//! a sub-buffer. Bit 1 reads it as one that was cut by a crash.

use takt_decode::ftrace::Format;
use takt_decode::{EventTable, Item, Names, SubBuffer, Threads, write_item, write_json};
use takt_tracer::wire::{SUB_HEADER, SubHeader};

use crate::sample;

/// Bit 0 of the flags.
const RAW: u8 = 1;
/// Bit 1 of the flags.
const SALVAGE: u8 = 2;
/// Ends a part.
const END: u8 = 0xff;

/// Reads the metadata, and the records with it.
///
/// # Panics
///
/// If a property does not hold.
pub fn run(input: &[u8]) {
    let Some((flags, rest)) = input.split_first() else {
        return;
    };
    if flags & RAW != 0 {
        table(rest);
        return;
    }
    let mut parts: Vec<_> = rest.split(|byte| *byte == END).collect();
    let records = parts.pop().unwrap_or_default();
    let entry = |part: &[u8]| {
        let (id, text) = part.split_at_checked(2)?;
        let id = u16::from_le_bytes(id.try_into().ok()?);
        Some(sample::entry(id.into(), text))
    };
    let section: Vec<u8> = parts.into_iter().filter_map(entry).flatten().collect();
    if let Some(table) = table(&section) {
        decode(&table, records, flags & SALVAGE != 0);
    }
}

fn table(section: &[u8]) -> Option<EventTable> {
    match EventTable::parse(section) {
        Ok(table) => {
            for event in table.iter() {
                assert_eq!(table.get(event.id), Some(event));
                let same_name = table.by_name(&event.name).expect("it has that name");
                assert_eq!(same_name.name, event.name);
                assert!(event.name == event.event() || event.name.contains(':'));
                let format = Format::new(event);
                let mut end = 0;
                for field in &format.fields {
                    assert!(field.offset >= end, "fields do not overlap");
                    end = field.offset + field.size;
                    let found = format.field(&field.name).expect("it has that name");
                    assert_eq!(found, field, "names are taken once");
                }
                assert!(end <= format.size || format.fields.is_empty());
                assert!(
                    format
                        .text()
                        .lines()
                        .last()
                        .is_some_and(|line| line.starts_with("print fmt: "))
                );
            }
            Some(table)
        }
        Err(error) => {
            assert!(error.offset < section.len() as u64 && !error.reason.is_empty());
            None
        }
    }
}

fn decode(table: &EventTable, records: &[u8], is_salvage: bool) {
    let len = SUB_HEADER as usize + records.len();
    let header = SubHeader {
        version: SubHeader::VERSION,
        commit: len as u64,
        ..SubHeader::default()
    };
    let bytes = [&header.encode(), records].concat();
    let sub = if is_salvage {
        SubBuffer::salvage(bytes, 0, len as u32)
    } else {
        SubBuffer::new(bytes, 0)
    };
    let mut sub = sub.expect("the header is good");
    let mut names = Names::new(0, Threads::new(1));
    let mut items = 0;
    while let Some(item) = sub.next(table) {
        items += 1;
        if let Ok(record) = &item {
            assert_eq!(record.values.len(), record.event.fields.len());
            assert_eq!(record.ts, sub.last_ts());
            let format = Format::new(record.event);
            let bytes = format.payload(record, &names);
            assert!(bytes.len() >= format.size && bytes.len().is_multiple_of(4));
        }
        let item = item.map_or_else(Item::Damage, Item::Record);
        let mut json = Vec::new();
        write_item(std::io::sink(), &item, &mut names).expect("a sink takes anything");
        write_json(&mut json, &item, &mut names).expect("memory can be written");
        let json: Result<serde_json::Value, _> = serde_json::from_slice(&json);
        assert!(json.is_ok(), "a line is JSON");
    }
    assert!(
        items <= 2 * records.len() / 8 + 1,
        "no record is read twice"
    );
    assert!(sub.next(table).is_none(), "the end stays the end");
}

/// The sample's section, and its events with its records.
#[must_use]
pub fn seeds() -> Vec<Vec<u8>> {
    let part = |id: u32, text: &str| {
        let id = &id.to_le_bytes()[..2];
        [id, text.as_bytes(), &[END]].concat()
    };
    let parts = sample::texts().map(|(id, text)| part(id, &text)).concat();
    let records = sample::records().concat();
    let small = part(
        3,
        "event a:b\nclass c\nlayout wide\nfield x 64 x\nfield y 7 enum(1=A)\nprint {x:064} {y:pid} {current:comm}\n",
    );
    let record = sample::record(1, 3, &[1; 12]);
    vec![
        [&[RAW], &*sample::metadata()].concat(),
        [&[0], &*parts, &records].concat(),
        [&[SALVAGE], &*parts, &records].concat(),
        [&[0], &*small, &record, &record].concat(),
    ]
}
