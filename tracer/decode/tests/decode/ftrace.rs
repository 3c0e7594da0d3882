//! Events in ftrace's view: the format texts against a file, and records read back by what the texts say.

use std::collections::BTreeMap;
use std::io::Cursor;

use takt_decode::ftrace::{Format, common_flags};
use takt_decode::{EventTable, Item, Names, TraceFile};

use crate::formats::{names, snapshot};
use crate::world::{entry, sample, sample_of_arrays, table};

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
    /// How many bytes an element has, if it is an array of numbers.
    element: Option<usize>,
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
            let name = name.split_once('[').map_or(name, |(name, _)| name);
            let is_char = declaration.contains("char ") || declaration.contains("char[");
            let bits = |ty: &str| ty.trim_end_matches("[]")[1..].parse::<usize>().unwrap();
            let ty = declaration.trim_start_matches("__data_loc ");
            let element = match ty.split(' ').next() {
                _ if !ty.contains('[') || is_char => None,
                Some("unsigned") => Some(8),
                ty => ty.map(|ty| bits(ty) / 8),
            };
            let parsed = Parsed {
                offset: number("offset:"),
                size: number("size:"),
                is_signed: number("signed:") == 1,
                element,
                is_text: is_char && ty.contains('['),
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
    let number = |bytes: &[u8]| {
        let mut wide = [0; 8];
        wide[..bytes.len()].copy_from_slice(bytes);
        u64::from_le_bytes(wide)
    };
    let shown = |bytes: &[u8]| {
        let unused = 64 - 8 * bytes.len() as u32;
        if field.is_signed {
            ((number(bytes) << unused).cast_signed() >> unused).to_string()
        } else {
            number(bytes).to_string()
        }
    };
    let bytes_of = match number(&bytes_of[..bytes_of.len().min(8)]) as usize {
        place if field.is_dynamic => &bytes[place & 0xffff..][..place >> 16],
        // A stack goes on to the end of the record.
        _ if field.size == 0 => &bytes[field.offset..],
        _ => bytes_of,
    };
    match field.element {
        Some(size) => {
            let elements: Vec<_> = bytes_of.chunks(size).map(shown).collect();
            elements.join(" ")
        }
        None if field.is_text => text(bytes_of),
        None => shown(bytes_of),
    }
}

#[test]
fn records_are_what_the_texts_say() {
    let table = table();
    let mut traces =
        [sample(), sample_of_arrays()].map(|file| TraceFile::open(Cursor::new(file)).unwrap());
    let mut names: Names = names();
    let mut shown = Vec::new();
    for item in traces.iter_mut().flat_map(|trace| trace.merge(&table)) {
        let Item::Record(record) = item.unwrap() else {
            continue;
        };
        names.learn(&record);
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
            let shown = |number: u64| match described.is_signed() {
                true => number.cast_signed().to_string(),
                false => number.to_string(),
            };
            let text = described.text(&record, &names);
            let number = described.number(&record, &names).map(shown);
            let numbers = described.numbers(&record, &names).map(|numbers| {
                let numbers: Vec<_> = numbers.into_iter().map(shown).collect();
                numbers.join(" ")
            });
            let text = text.map(Into::into);
            let value: String = text.or(number).or(numbers).unwrap();
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
            "arrays" => shown.push(format!(
                "{}; {}; {}; {}; {}; {}",
                field("before"),
                field("bytes"),
                field("small"),
                field("words"),
                field("after"),
                field("list")
            )),
            "places" => shown.push(format!("{}; {}", field("pair"), field("name"))),
            "kernel_stack" => shown.push(format!("{}: {}", field("size"), field("caller"))),
            "long" => shown.push(format!("[{}]", field("values"))),
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
            "9; 1 2 255 4; -4 -1 0 1 3; 3735928559 7; 21; 4660 65535 1",
            "2101812 5; ends h…",
            "2: 2101812 4096",
            "[-1 1]",
            "[]",
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

#[test]
fn a_name_in_the_print_template_is_a_fields_if_it_is_one_of_c() {
    let class = "class c\nlayout wide\nfield a 32 u\nfield b 32 u\nfield d 32 u\n\
                 print \u{e9}comm={a:comm} 9comm={b:comm} its_comm={d:comm}\n";
    let table = EventTable::parse(&entry(5, "a:b", class)).unwrap();
    let format = Format::new(table.get(5).unwrap());
    let fields = format.fields.iter().map(|field| field.name.as_str());
    assert_eq!(
        fields.collect::<Vec<_>>(),
        ["comm", "b_comm", "its_comm", "a", "b", "d"]
    );
}
