//! Fields that were cut, and the names of interrupts, as the formats show them.

use takt_decode::filter::{Filter, Filters};
use takt_decode::ftrace::Format;
use takt_decode::{EventTable, Item, Names, Record, SubBuffer, Threads, write_item, write_json};
use takt_tracer::wire::{COMMIT_RECORD, MAX_BYTES, SUB_HEADER, SubHeader};

use crate::world::entry;

const ENTRY: u32 = 4;
const NAME: u32 = 6;
const TEXT: u32 = 8;
const LIST: u32 = 10;
const SHORT: u32 = 12;

fn table() -> EventTable {
    let event = |id: u32, name, class| entry(id.into(), name, class);
    let metadata = [
        event(
            ENTRY,
            "irq:irq_handler_entry",
            "class irq_vector\nlayout core8\nfield vector 8 irq\nprint irq={vector} name={vector:name}\n",
        ),
        event(
            NAME,
            "irq:irq_name",
            "class irq_name\nlayout core8\nfield vector 8 u\nfield name * str\nprint irq={vector} name={name}\n",
        ),
        event(
            TEXT,
            "test:text",
            "class text\nlayout core8\nfield text * str\nprint text={text}\n",
        ),
        event(
            LIST,
            "test:list",
            "class list\nlayout core8\nfield list [64] x\nprint list={list}\n",
        ),
        event(
            SHORT,
            "test:short",
            "class short\nlayout core8\nfield text * str(4)\nprint text={text}\n",
        ),
    ];
    EventTable::parse(&metadata.concat()).unwrap()
}

/// A record with a dynamic field.
fn dynamic(id: u32, field: u32, bytes: &[u8]) -> Vec<u32> {
    let words = bytes.chunks(4).map(|chunk| {
        let mut word = [0; 4];
        word[..chunk.len()].copy_from_slice(chunk);
        u32::from_le_bytes(word)
    });
    [1, id | field << 8, bytes.len() as u32]
        .into_iter()
        .chain(words)
        .collect()
}

fn records<'t>(table: &'t EventTable, records: &[Vec<u32>]) -> Vec<Record<'t>> {
    let words: Vec<u8> = records
        .concat()
        .iter()
        .flat_map(|word| word.to_le_bytes())
        .collect();
    let len = u64::from(SUB_HEADER) + words.len() as u64;
    let header = SubHeader {
        version: SubHeader::VERSION,
        commit: len + COMMIT_RECORD * records.len() as u64,
        ..SubHeader::default()
    };
    let mut sub = SubBuffer::new([&header.encode()[..], &words].concat(), 0).unwrap();
    let read: Vec<_> = std::iter::from_fn(|| sub.next(table))
        .map(Result::unwrap)
        .collect();
    assert_eq!(read.len(), records.len());
    read
}

/// The message of a record, and its line of JSON from its fields on.
fn shown(record: &Record<'_>, names: &mut Names) -> (String, String) {
    let item = Item::Record(record.clone());
    let (mut line, mut json) = (Vec::new(), Vec::new());
    write_item(&mut line, &item, names).unwrap();
    write_json(&mut json, &item, names).unwrap();
    let line = String::from_utf8(line).unwrap();
    let json = String::from_utf8(json).unwrap();
    let (_, message) = line
        .trim_end()
        .split_once(&format!("{}: ", record.event.event()))
        .unwrap();
    let (_, fields) = json.trim_end().split_once("\"fields\":").unwrap();
    (
        message.to_owned(),
        fields.strip_suffix('}').unwrap().to_owned(),
    )
}

fn names() -> Names {
    Names::new(1_000_000_000, Threads::new(1))
}

#[test]
fn what_was_cut_is_marked_and_what_just_fits_is_not() {
    let table = table();
    let mut names = names();
    for len in [0, MAX_BYTES - 1, MAX_BYTES, MAX_BYTES + 1] {
        let bytes = vec![b'x'; len];
        let read = records(
            &table,
            &[dynamic(TEXT, 0, &bytes), dynamic(LIST, 0, &bytes)],
        );
        let is_cut = len > MAX_BYTES;
        let (mark, more) = if is_cut { ("…", ",…") } else { ("", "") };
        let xs = "x".repeat(len.min(MAX_BYTES));
        let (text, json) = shown(&read[0], &mut names);
        assert_eq!(text, format!("text={xs}{mark}").trim_end());
        let member = if is_cut { ",\"text_is_cut\":true" } else { "" };
        assert_eq!(json, format!("{{\"text\":\"{xs}\"{member}}}"));
        let (list, json) = shown(&read[1], &mut names);
        let elements = vec!["0x7878787878787878"; len.min(MAX_BYTES) / 8].join(",");
        assert_eq!(list, format!("list={{{elements}{more}}}"));
        assert_eq!(json.contains(",\"list_is_cut\":true}"), is_cut);
    }
}

#[test]
fn a_text_with_a_bound_is_cut_before_a_character() {
    let table = table();
    let mut names = names();
    let of = |text: &str| dynamic(SHORT, 0, &text.as_bytes()[..text.len().min(5)]);
    let texts = ["abcd", "abcde", "abc\u{20ac}", "ab\u{e4}", "ab\u{e4}c"];
    let read = records(&table, &texts.map(of));
    let shown: Vec<_> = read
        .iter()
        .map(|record| shown(record, &mut names).0)
        .collect();
    let expected = ["abcd", "abcd…", "abc…", "abä", "abä…"].map(|text| format!("text={text}"));
    assert_eq!(shown, expected);
    let format = Format::new(read[1].event);
    assert_eq!(format.fields[0].text(&read[1], &names).unwrap(), "abcd…");
    let payload = format.payload(&read[1], &names);
    assert_eq!(
        &payload[format.fields[0].offset..][..8],
        "abcd…\0".as_bytes()
    );
}

#[test]
fn interrupts_have_names() {
    let table = table();
    let mut names = names();
    let entry = |vector: u32| vec![1, ENTRY | vector << 8];
    let read = records(
        &table,
        &[
            entry(80),
            entry(81),
            entry(99),
            dynamic(NAME, 99, b"eth0"),
            entry(99),
        ],
    );
    let shown: Vec<_> = read
        .iter()
        .map(|record| shown(record, &mut names))
        .collect();
    let messages: Vec<_> = shown.iter().map(|(message, _)| message.as_str()).collect();
    let expected = [
        "irq=80 name=local_timer",
        "irq=81 name=reschedule",
        "irq=99 name=<...>",
        "irq=99 name=eth0",
        "irq=99 name=eth0",
    ];
    assert_eq!(messages, expected);
    assert_eq!(shown[4].1, r#"{"vector":99,"vector_name":"eth0"}"#);
    let format = Format::new(read[0].event);
    let text = format.text();
    assert!(
        text.contains("\tfield:char name[32];\toffset:9;\tsize:32;\tsigned:1;"),
        "{text}"
    );
    assert!(
        text.ends_with("print fmt: \"irq=%u name=%s\", REC->vector, REC->name\n"),
        "{text}"
    );
    let payload = format.payload(&read[4], &names);
    assert_eq!(&payload[9..14], b"eth0\0");
    let filters = Filters::bind(&[Filter::parse("name == local_timer").unwrap()], &table).unwrap();
    let kept: Vec<_> = read
        .iter()
        .map(|record| filters.matches(record, &names))
        .collect();
    assert_eq!(kept, [true, false, false, false, false]);
}
