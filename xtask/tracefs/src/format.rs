//! Records as plain numbers: options raw, hex and bin.

use std::fmt::Write as _;
use std::io::Write;

use takt_decode::{FieldDef, Names, Record, Value};

use takt_guest::options::Options;

/// A value as it means something without its event's description.
fn plain(field: &FieldDef, value: &Value) -> Value {
    match value {
        Value::Number(number) => Value::Number(field.ty.address_or_number(*number)),
        _ => value.clone(),
    }
}

/// A record's numbers, in this order: number of the thread, CPU, time in ns, id of the event, fields, of which places in the
/// code are addresses. `bin`: 8 bytes each, little endian, a text or an array with its length before it; `hex`: the same as
/// hexadecimal words; `raw`: decimal.
pub(super) fn plain_numbers(
    out: &mut Vec<u8>,
    record: &Record<'_>,
    names: &mut Names,
    options: Options,
) {
    names.learn(record);
    let head = [
        names.threads.pid(record.tid).into(),
        record.cpu.into(),
        names.clock.ns(record.ts),
        record.event.id.into(),
    ];
    let values = head.map(Value::Number);
    let fields: Vec<_> = record
        .fields()
        .map(|(field, value)| plain(field, value))
        .collect();
    let all = values.iter().chain(&fields);
    if options.bin {
        for value in all {
            match value {
                Value::Number(number) => out.extend(number.to_le_bytes()),
                Value::Bytes(bytes) => {
                    out.extend((bytes.len() as u64).to_le_bytes());
                    out.extend(bytes);
                }
                Value::Array(elements) => {
                    out.extend((elements.len() as u64).to_le_bytes());
                    out.extend(elements.iter().flat_map(|element| element.to_le_bytes()));
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
        Value::Array(elements) => {
            let one = |element: &u64| match options.hex {
                true => format!("{element:016x}"),
                false => element.to_string(),
            };
            let elements: Vec<_> = elements.iter().map(one).collect();
            format!("{{{}}}", elements.join(","))
        }
    };
    let words: Vec<_> = all.map(one).collect();
    // Writing to a Vec does not fail.
    let _ = writeln!(out, "{}", words.join(" "));
}
