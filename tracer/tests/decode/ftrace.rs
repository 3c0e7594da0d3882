//! Events in ftrace's view: the format texts against a file, and records read back by what the texts say.

use std::collections::BTreeMap;
use std::io::Cursor;

use takt_tracer::decode::ftrace::{Format, common_flags};
use takt_tracer::decode::{EventTable, Item, Names, TraceFile};

use crate::formats::{names, snapshot};
use crate::world::{entry, sample, table};

#[test]
fn format_texts() {
    let texts: Vec<_> = table()
        .iter()
        .map(|event| Format::new(event).text())
        .collect();
    snapshot("formats.txt", &texts.join("\n"));
}

/// A field as a reader of the text finds it.
struct Parsed {
    offset: usize,
    size: usize,
    is_signed: bool,
    is_text: bool,
    is_dynamic: bool,
}

fn parse(text: &str) -> BTreeMap<String, Parsed> {
    let fields = text
        .lines()
        .filter_map(|line| line.strip_prefix("\tfield:"));
    fields
        .map(|line| {
            let mut parts = line.split(";\t");
            let declaration = parts.next().unwrap();
            let mut number = |key: &str| {
                let part = parts.next().unwrap().trim_end_matches(';');
                part.strip_prefix(key).unwrap().parse::<usize>().unwrap()
            };
            let name = declaration.rsplit(' ').next().unwrap();
            let (name, is_array) = name
                .split_once('[')
                .map_or((name, false), |(name, _)| (name, true));
            let parsed = Parsed {
                offset: number("offset:"),
                size: number("size:"),
                is_signed: number("signed:") == 1,
                is_text: is_array,
                is_dynamic: declaration.starts_with("__data_loc"),
            };
            (name.to_owned(), parsed)
        })
        .collect()
}

/// Reads a field by its description: a number or a text, as text.
fn read(field: &Parsed, bytes: &[u8]) -> String {
    let text = |bytes: &[u8]| {
        let len = bytes.iter().position(|byte| *byte == 0).unwrap();
        String::from_utf8(bytes[..len].to_vec()).unwrap()
    };
    let bytes_of = &bytes[field.offset..field.offset + field.size];
    if field.is_text {
        return text(bytes_of);
    }
    let mut wide = [0; 8];
    wide[..field.size].copy_from_slice(bytes_of);
    let number = u64::from_le_bytes(wide);
    if field.is_dynamic {
        let (at, len) = (number as usize & 0xffff, number as usize >> 16);
        return text(&bytes[at..at + len]);
    }
    let unused = 64 - 8 * field.size as u32;
    if field.is_signed {
        ((number << unused).cast_signed() >> unused).to_string()
    } else {
        number.to_string()
    }
}

#[test]
fn records_are_what_the_texts_say() {
    let table = table();
    let mut trace = TraceFile::open(Cursor::new(sample())).unwrap();
    let mut names: Names = names();
    let mut shown = Vec::new();
    for item in trace.merge(&table) {
        let Item::Record(record) = item.unwrap() else {
            continue;
        };
        names.threads.learn(&record);
        let format = Format::new(record.event);
        let fields = parse(&format.text());
        let bytes = format.payload(&record, &names);
        assert!(bytes.len().is_multiple_of(4) && bytes.len() >= format.size);
        let field = |name: &str| read(&fields[name], &bytes);
        assert_eq!(field("common_type"), record.event.id.to_string());
        assert_eq!(
            field("common_flags"),
            common_flags(record.context).to_string()
        );
        assert_eq!(
            field("common_preempt_count"),
            record.context.depth().to_string()
        );
        assert_eq!(
            field("common_pid"),
            names.threads.pid(record.tid).to_string()
        );
        for described in &format.fields {
            let value = match described.text(&record, &names) {
                Some(text) => text,
                None => {
                    let number = described.number(&record, &names).unwrap();
                    match described.is_signed() {
                        true => number.cast_signed().to_string(),
                        false => number.to_string(),
                    }
                }
            };
            assert_eq!(field(&described.name), value, "{}", described.name);
        }
        match record.event.event() {
            "sched_switch" => shown.push(format!(
                "{} {} {} {}",
                field("prev_comm"),
                field("prev_state"),
                field("next_comm"),
                field("next_pid")
            )),
            "everything" => shown.push(format!(
                "{} {} {} {}",
                field("small"),
                field("big"),
                field("negative"),
                field("text")
            )),
            "timer_latency" => shown.push(field("latency")),
            _ => {}
        }
    }
    assert_eq!(
        shown,
        [
            "main 1 swapper/0 0",
            "10",
            "swapper/0 0 timerlat/0 4",
            "90",
            "-3 18446744073709551615 -9223372036854775808 end",
            "timerlat/0 1 swapper/0 0",
        ]
    );
}

#[test]
fn names_of_fields_are_taken_once() {
    // `pid` is a field already, so the thread's pid has another name; and so has a field that would hide a common one.
    let class = "class c\nlayout wide\nfield pid 32 u\nfield tid 8 tid\nfield common_pid 32 u\nfield tid_comm 8 tid\n\
                 print pid={tid:pid} {pid} {tid:comm} \"100%\" {current:comm}:{current:pid} {tid_comm:pid}\n";
    let table = EventTable::parse(&entry(5, "a:b", class)).unwrap();
    let format = Format::new(table.get(5).unwrap());
    let fields: Vec<_> = format
        .fields
        .iter()
        .map(|field| field.name.as_str())
        .collect();
    assert_eq!(
        fields,
        [
            "tid_pid",
            "pid",
            "tid_comm_",
            "current_comm",
            "current_pid",
            "tid_comm_pid",
            "common_pid_",
            "tid_comm_comm"
        ]
    );
    let text = format.text();
    let (_, print) = text.split_once("print fmt: ").unwrap();
    assert_eq!(
        print,
        "\"pid=%d %u %s \\\"100%%\\\" %s:%d %d\", REC->tid_pid, REC->pid, REC->tid_comm_, \
         REC->current_comm, REC->current_pid, REC->tid_comm_pid\n"
    );
}
