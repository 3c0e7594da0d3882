//! JSON lines: one object for each item.

use std::format;
use std::io::{self, Write};
use std::string::{String, ToString};

use super::merge::Item;
use super::meta::FieldDef;
use super::names::{Names, signed};
use super::record::{Record, Value};
use super::types::FieldType;

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
    match item {
        Item::Record(record) => {
            names.learn(record);
            write!(
                out,
                "{{\"cpu\":{},\"ts_ns\":{}",
                record.cpu,
                names.clock.ns(record.ts)
            )?;
            write!(
                out,
                ",\"task\":{}",
                string(&names.threads.task(record.tid))?
            )?;
            write!(out, ",\"pid\":{}", names.threads.pid(record.tid))?;
            write!(out, ",\"flags\":{}", string(&record.context.flags())?)?;
            write!(
                out,
                ",\"event\":{},\"fields\":{{",
                string(&record.event.name)?
            )?;
            write_json_fields(&mut out, record, names)?;
            out.write_all(b"}}\n")
        }
        Item::Lost {
            cpu,
            ts,
            events,
            sub_buffers,
        } => {
            let ts = names.clock.ns(*ts);
            write!(out, "{{\"cpu\":{cpu},\"ts_ns\":{ts}")?;
            writeln!(
                out,
                ",\"lost_events\":{events},\"lost_sub_buffers\":{sub_buffers}}}"
            )
        }
        Item::Damage(damage) => {
            let what = string(&damage.fault.to_string())?;
            writeln!(
                out,
                "{{\"damage\":{what},\"offset\":{},\"skipped\":{}}}",
                damage.offset, damage.skipped
            )
        }
    }
}

/// Writes the fields of a record as the members of a JSON object, without its braces, as [`write_json`] does.
///
/// # Errors
/// Those of `out`.
pub fn write_json_fields(
    mut out: impl Write,
    record: &Record<'_>,
    names: &Names,
) -> io::Result<()> {
    for (number, (field, value)) in record.fields().enumerate() {
        let comma = if number == 0 { "" } else { "," };
        write!(out, "{comma}{}:", string(&field.name)?)?;
        if let Some(elements) = value.elements() {
            write_array(&mut out, field, elements, names)?;
            write_cut(&mut out, record, field)?;
            continue;
        }
        let bits = value.number().unwrap_or(0);
        match &field.ty {
            FieldType::Unsigned | FieldType::Hex | FieldType::Prio => write!(out, "{bits}")?,
            FieldType::Signed => write!(out, "{}", signed(field, bits))?,
            FieldType::Cycles => write!(out, "{}", names.clock.ns(bits))?,
            FieldType::Tid => {
                let tid = bits as u8;
                let comm = string(&names.threads.comm(tid))?;
                let name = string(&format!("{}_comm", field.name))?;
                write!(out, "{},{name}:{comm}", names.threads.pid(tid))?;
            }
            FieldType::Enum(_)
            | FieldType::Flags(_)
            | FieldType::Symbol
            | FieldType::Block { .. } => {
                write!(out, "{}", string(&names.show(field, value))?)?;
            }
            FieldType::Irq => {
                let irq = string(names.irqs.shown(bits as u8))?;
                write!(
                    out,
                    "{bits},{}:{irq}",
                    string(&format!("{}_name", field.name))?
                )?;
            }
            FieldType::Str(_) => {
                write!(out, "{}", string(&text(value))?)?;
                write_cut(&mut out, record, field)?;
            }
        }
    }
    Ok(())
}

/// A member that says that the rest of a dynamic field was cut.
fn write_cut(mut out: impl Write, record: &Record<'_>, field: &FieldDef) -> io::Result<()> {
    if !record.is_cut || !field.slot.is_dynamic() {
        return Ok(());
    }
    write!(out, ",{}:true", string(&format!("{}_is_cut", field.name))?)
}

/// Elements of an array, as a field of their type is written.
fn write_array(
    mut out: impl Write,
    field: &FieldDef,
    elements: &[u64],
    names: &Names,
) -> io::Result<()> {
    out.write_all(b"[")?;
    for (number, element) in elements.iter().enumerate() {
        let comma = if number == 0 { "" } else { "," };
        match field.ty {
            FieldType::Symbol => write!(out, "{comma}{}", string(&names.symbol(*element))?)?,
            FieldType::Signed => write!(out, "{comma}{}", signed(field, *element))?,
            _ => write!(out, "{comma}{element}")?,
        }
    }
    out.write_all(b"]")
}

/// The bytes as text; [`string`] escapes what could do harm.
fn text(value: &Value) -> String {
    match value {
        Value::Number(_) | Value::Array(_) => String::new(),
        Value::Bytes(bytes) => String::from_utf8_lossy(bytes).into_owned(),
    }
}

fn string(text: &str) -> io::Result<String> {
    Ok(escape_json_controls(serde_json::to_string(text)?))
}

/// Escapes DEL and the C1 control characters of a JSON text. JSON allows them raw, but a terminal that shows them acts on
/// them. They can only be inside of strings, where an escape means the same.
pub fn escape_json_controls(json: String) -> String {
    if !json.contains(is_raw_control) {
        return json;
    }
    let mut out = String::with_capacity(json.len() + 8);
    for c in json.chars() {
        if is_raw_control(c) {
            out.push_str(&format!("\\u{:04x}", u32::from(c)));
        } else {
            out.push(c);
        }
    }
    out
}

/// Control characters that a serializer of JSON leaves as they are.
const fn is_raw_control(c: char) -> bool {
    matches!(c, '\u{7f}'..='\u{9f}')
}
