//! JSON lines: one object for each item.

use std::format;
use std::io::{self, Write};

use serde_json::{Map, Number, Value as Json};

use super::merge::Item;
use super::names::{Names, signed};
use super::record::{Record, Value};
use super::types::FieldType;

/// Writes an item as one line of JSON, and learns thread names on the way.
///
/// A record has `cpu`, `ts_ns`, `task`, `pid`, `flags` (the four columns of ftrace), `event` and `fields`. Numbers are
/// numbers (`cycles` in nanoseconds), `enum`, `flags` and `sym` fields are strings, and a `tid` field `x` is joined by
/// `x_comm`. What is lost has `cpu`, `ts_ns`, `lost_events` and `lost_sub_buffers`; damage has `damage`, `offset` and
/// `skipped`.
///
/// # Errors
/// Those of `out`.
pub fn write_json(mut out: impl Write, item: &Item<'_>, names: &mut Names) -> io::Result<()> {
    let line = match item {
        Item::Record(record) => {
            names.threads.learn(record);
            object([
                ("cpu", record.cpu.into()),
                ("ts_ns", names.clock.ns(record.ts).into()),
                ("task", names.threads.task(record.tid).into()),
                ("pid", names.threads.pid(record.tid).into()),
                ("flags", record.context.flags().into()),
                ("event", record.event.name.as_str().into()),
                ("fields", fields(record, names)),
            ])
        }
        Item::Lost {
            cpu,
            ts,
            events,
            sub_buffers,
        } => object([
            ("cpu", (*cpu).into()),
            ("ts_ns", names.clock.ns(*ts).into()),
            ("lost_events", (*events).into()),
            ("lost_sub_buffers", (*sub_buffers).into()),
        ]),
        Item::Damage(damage) => object([
            ("damage", format!("{}", damage.fault).into()),
            ("offset", damage.offset.into()),
            ("skipped", damage.skipped.into()),
        ]),
    };
    serde_json::to_writer(&mut out, &line)?;
    out.write_all(b"\n")
}

fn object<const N: usize>(members: [(&str, Json); N]) -> Json {
    Json::Object(
        members
            .into_iter()
            .map(|(name, value)| (name.into(), value))
            .collect(),
    )
}

fn fields(record: &Record<'_>, names: &Names) -> Json {
    let mut fields = Map::new();
    for (field, value) in record.fields() {
        let json = match (&field.ty, value) {
            (FieldType::Signed, Value::Number(number)) => {
                Json::Number(signed(field, *number).into())
            }
            (FieldType::Cycles, Value::Number(number)) => {
                Json::Number(names.clock.ns(*number).into())
            }
            (FieldType::Unsigned | FieldType::Hex | FieldType::Prio, Value::Number(number)) => {
                Json::Number(Number::from(*number))
            }
            (FieldType::Tid, Value::Number(number)) => {
                let tid = *number as u8;
                fields.insert(
                    format!("{}_comm", field.name),
                    names.threads.comm(tid).into(),
                );
                names.threads.pid(tid).into()
            }
            _ => names.show(field, value).into(),
        };
        fields.insert(field.name.clone(), json);
    }
    Json::Object(fields)
}
