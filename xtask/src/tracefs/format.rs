//! Records as plain numbers (options raw, hex, bin), and the text of `format` files.

use std::fmt::Write as _;
use std::io::Write;

use takt_tracer::decode::{EventDef, FieldType, Names, Record, Slot, Value};

use super::options::Options;

/// A record's numbers, in this order: number of the thread, CPU, time in ns, id of the event, fields. `bin`: 8 bytes
/// each, little endian, a text with its length before it; `hex`: the same as hexadecimal words; `raw`: decimal.
pub(super) fn plain_numbers(
    out: &mut Vec<u8>,
    record: &Record<'_>,
    names: &mut Names,
    options: Options,
) {
    names.threads.learn(record);
    let head = [
        names.threads.pid(record.tid).into(),
        record.cpu.into(),
        names.clock.ns(record.ts),
        record.event.id.into(),
    ];
    let values = head.map(Value::Number);
    let all = values.iter().chain(&record.values);
    if options.bin {
        for value in all {
            match value {
                Value::Number(number) => out.extend(number.to_le_bytes()),
                Value::Bytes(bytes) => {
                    out.extend((bytes.len() as u64).to_le_bytes());
                    out.extend(bytes);
                }
            }
        }
        return;
    }
    let one = |value: &Value| match value {
        Value::Number(number) if options.hex => format!("{number:016x}"),
        Value::Number(number) => number.to_string(),
        Value::Bytes(bytes) if options.hex => {
            bytes.iter().fold(String::new(), |mut text, byte| {
                // Writing to a String does not fail.
                let _ = write!(text, "{byte:02x}");
                text
            })
        }
        Value::Bytes(_) => format!("\"{}\"", value.text()),
    };
    let words: Vec<_> = all.map(one).collect();
    // Writing to a Vec does not fail.
    let _ = writeln!(out, "{}", words.join(" "));
}

/// ftrace's description of an event: its fields as if they stood one after the other, and how they are printed.
pub(super) fn event_format(event: &EventDef) -> String {
    let mut common = Layout::default();
    common.add("unsigned short", "common_type", 2, false);
    common.add("unsigned char", "common_flags", 1, false);
    common.add("unsigned char", "common_preempt_count", 1, false);
    common.add("int", "common_pid", 4, true);
    let mut own = Layout {
        offset: common.offset,
        ..Layout::default()
    };
    let (mut print, mut arguments) = (Vec::new(), String::new());
    for field in &event.fields {
        let name = &field.name;
        let (ty, size, directive) = match field.slot {
            Slot::Dynamic => ("__data_loc char[]", 4, "%s"),
            Slot::Fixed { bits, .. } => kind(&field.ty, bits),
        };
        own.add(ty, name, size, matches!(field.ty, FieldType::Signed));
        print.push(format!("{name}={directive}"));
        arguments += &match field.slot {
            Slot::Dynamic => format!(", __get_str({name})"),
            Slot::Fixed { .. } => format!(", REC->{name}"),
        };
    }
    format!(
        "name: {}\nID: {}\nformat:\n{}\n{}\nprint fmt: \"{}\"{arguments}\n",
        event.event(),
        event.id,
        common.text,
        own.text,
        print.join(" "),
    )
}

/// Fields one after the other.
#[derive(Default)]
struct Layout {
    text: String,
    offset: u32,
}

impl Layout {
    fn add(&mut self, ty: &str, name: &str, size: u32, signed: bool) {
        let offset = self.offset.next_multiple_of(size);
        // Writing to a String does not fail.
        let _ = writeln!(
            self.text,
            "\tfield:{ty} {name};\toffset:{offset};\tsize:{size};\tsigned:{};",
            u8::from(signed)
        );
        self.offset = offset + size;
    }
}

/// C's type of a field of so many bits, its size and how it is printed.
fn kind(ty: &FieldType, bits: u32) -> (&'static str, u32, &'static str) {
    let is_hex = matches!(ty, FieldType::Hex | FieldType::Symbol | FieldType::Flags(_));
    match (ty, bits) {
        (FieldType::Signed, 0..=8) => ("s8", 1, "%d"),
        (FieldType::Signed, 9..=16) => ("s16", 2, "%d"),
        (FieldType::Signed, 17..=32) => ("s32", 4, "%d"),
        (FieldType::Signed, _) => ("s64", 8, "%lld"),
        (_, 0..=8) => ("u8", 1, if is_hex { "0x%x" } else { "%u" }),
        (_, 9..=16) => ("u16", 2, if is_hex { "0x%x" } else { "%u" }),
        (_, 17..=32) => ("u32", 4, if is_hex { "0x%x" } else { "%u" }),
        (_, _) => ("u64", 8, if is_hex { "0x%llx" } else { "%llu" }),
    }
}
