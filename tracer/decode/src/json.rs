//! JSON lines: one object for each item.

use std::io::{self, Write};

use super::Damage;
use super::merge::Item;
use super::meta::FieldDef;
use super::names::{Names, signed};
use super::put;
use super::record::{Record, Value};
use super::types::FieldType;
use takt_base::term::is_control;

/// Writes an item as one line of JSON, and learns thread names on the way.
///
/// A record has `cpu`, `ts_ns`, `task`, `pid`, `flags` (the four columns of ftrace), `event` and `fields`, which are in
/// the order of the class. Numbers are numbers (`cycles` in nanoseconds, `tid` as pid, joined by the name in a field
/// with `_comm` appended, and `irq` as vector with a `_name`); `enum`, `flags` and `sym` fields are strings; an array is an
/// array. A field whose end was not recorded is followed by a `true` with `_is_cut` appended. What is lost has `cpu`, `ts_ns`,
/// `lost_events` and `lost_sub_buffers`; damage has `damage`, `offset` and `skipped`.
///
/// # Errors
/// Those of `out`.
pub fn write_json(mut out: impl Write, item: &Item<'_>, names: &mut Names) -> io::Result<()> {
    let mut line = core::mem::take(&mut names.line);
    line.clear();
    put_json(&mut line, item, names);
    let written = out.write_all(line.as_bytes());
    names.line = line;
    written
}

/// Puts what [`write_json`] writes behind `out`.
fn put_json(out: &mut String, item: &Item<'_>, names: &mut Names) {
    match item {
        Item::Record(record) => {
            names.learn(record);
            out.push_str("{\"cpu\":");
            put::decimal(out, record.cpu);
            out.push_str(",\"ts_ns\":");
            put::decimal(out, names.clock.ns(record.ts));
            out.push_str(",\"task\":");
            put_json_string(out, names.threads.task(record.tid));
            out.push_str(",\"pid\":");
            put::decimal(out, names.threads.pid(record.tid));
            out.push_str(",\"flags\":\"");
            record.context.put_columns(out);
            out.push_str("\",\"event\":");
            put_json_string(out, &record.event.name);
            out.push_str(",\"fields\":{");
            put_json_fields(out, record, names);
            out.push_str("}}\n");
        }
        Item::Lost {
            cpu,
            ts,
            events,
            sub_buffers,
        } => {
            let ts = names.clock.ns(*ts);
            out.push_str(&format!(
                "{{\"cpu\":{cpu},\"ts_ns\":{ts},\"lost_events\":{events},\"lost_sub_buffers\":{sub_buffers}}}\n"
            ));
        }
        Item::Damage(damage) => {
            out.push_str("{\"damage\":");
            put_json_string(out, &damage.fault.to_string());
            let Damage {
                offset, skipped, ..
            } = damage;
            out.push_str(&format!(",\"offset\":{offset},\"skipped\":{skipped}}}\n"));
        }
    }
}

/// Puts the fields of a record behind `out` as the members of a JSON object, without its braces, as [`write_json`] does.
pub fn put_json_fields(out: &mut String, record: &Record<'_>, names: &Names) {
    for (number, (field, value)) in record.fields().enumerate() {
        if number > 0 {
            out.push(',');
        }
        put_key(out, field, "");
        if let Some(elements) = value.elements() {
            put_array(out, field, elements, names);
            put_cut(out, record, field);
            continue;
        }
        let bits = value.number().unwrap_or(0);
        match &field.ty {
            FieldType::Unsigned | FieldType::Hex | FieldType::Prio => put::decimal(out, bits),
            FieldType::Signed => put::signed(out, signed(field, bits)),
            FieldType::Cycles => put::decimal(out, names.clock.ns(bits)),
            FieldType::Tid => {
                let tid = bits as u8;
                put::decimal(out, names.threads.pid(tid));
                out.push(',');
                put_key(out, field, "_comm");
                put_json_string(out, names.threads.comm(tid));
            }
            FieldType::Enum(_)
            | FieldType::Flags(_)
            | FieldType::Symbol
            | FieldType::Block { .. } => {
                put_string_of(out, |out| names.put_value(out, field, value));
            }
            FieldType::Irq => {
                put::decimal(out, bits);
                out.push(',');
                put_key(out, field, "_name");
                put_json_string(out, names.irqs.shown(bits as u8));
            }
            FieldType::Str(_) => {
                // As bytes; what could do harm is escaped.
                if let Value::Bytes(bytes) = value {
                    put_json_string(out, &String::from_utf8_lossy(bytes));
                } else {
                    out.push_str("\"\"");
                }
                put_cut(out, record, field);
            }
        }
    }
}

/// A field's name, with a suffix, and the colon.
fn put_key(out: &mut String, field: &FieldDef, suffix: &str) {
    put_string_of(out, |out| {
        out.push_str(&field.name);
        out.push_str(suffix);
    });
    out.push(':');
}

/// A member that says that the rest of a dynamic field was cut.
fn put_cut(out: &mut String, record: &Record<'_>, field: &FieldDef) {
    if record.is_cut && field.slot.is_dynamic() {
        out.push(',');
        put_key(out, field, "_is_cut");
        out.push_str("true");
    }
}

/// Elements of an array, as a field of their type is written.
fn put_array(out: &mut String, field: &FieldDef, elements: &[u64], names: &Names) {
    out.push('[');
    for (number, element) in elements.iter().enumerate() {
        if number > 0 {
            out.push(',');
        }
        match field.ty {
            FieldType::Symbol => put_string_of(out, |out| names.put_symbol(out, *element)),
            FieldType::Signed => put::signed(out, signed(field, *element)),
            _ => put::decimal(out, *element),
        }
    }
    out.push(']');
}

/// Puts a text behind `out` as a string of JSON, with no control character as it is.
pub fn put_json_string(out: &mut String, text: &str) {
    put_string_of(out, |out| out.push_str(text));
}

/// What `put` puts as a string.
fn put_string_of(out: &mut String, put: impl FnOnce(&mut String)) {
    out.push('"');
    let begin = out.len();
    put(out);
    let is_plain = |byte: &u8| matches!(byte, b' '..=b'~') && !matches!(byte, b'"' | b'\\');
    if !out.as_bytes()[begin..].iter().all(is_plain) {
        let text = out.split_off(begin);
        // A string can always be written.
        let json = serde_json::to_string(&text).unwrap_or_default();
        out.pop();
        // JSON may have DEL and what follows it as they are, but a terminal would act on them.
        for c in json.chars() {
            match is_control(c) {
                true => out.push_str(&format!("\\u{:04x}", u32::from(c))),
                false => out.push(c),
            }
        }
        return;
    }
    out.push('"');
}
