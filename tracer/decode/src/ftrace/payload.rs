//! A record as the bytes that its format describes.

use std::borrow::Cow;

use super::common::common_flags;
use super::layout::{Content, Field, Format, Whose, linux_state};
use crate::names::{Names, signed};
use crate::record::{REST, Record, Value};
use crate::types::FieldType;

/// What a field holds.
enum Shown<'r> {
    Number(u64),
    Text(Cow<'r, str>),
    /// Elements, signed ones extended.
    Numbers(Vec<u64>),
}

impl Format<'_> {
    /// A record of this event as bytes, little-endian, a multiple of 4 long. Texts have no control characters and end
    /// with a zero.
    pub fn payload(&self, record: &Record<'_>, names: &Names) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.size);
        self.encode(&mut out, record, names);
        out
    }

    /// As [`payload`](Self::payload), in the place of what is in `out`.
    pub fn encode(&self, out: &mut Vec<u8>, record: &Record<'_>, names: &Names) {
        out.clear();
        out.extend((self.event.id as u16).to_le_bytes());
        out.extend([common_flags(record.context), record.context.depth()]);
        out.extend(i32::from(names.threads.pid(record.tid)).to_le_bytes());
        out.resize(self.size, 0);
        for field in &self.fields {
            let at = field.offset..field.offset + field.size;
            match field.shown(record, names) {
                Shown::Number(number) => {
                    out[at].copy_from_slice(&number.to_le_bytes()[..field.size]);
                }
                Shown::Text(text) if field.is_dynamic() => {
                    let place = (out.len() as u32) | (text.len() as u32 + 1) << 16;
                    out[at].copy_from_slice(&place.to_le_bytes());
                    out.extend(text.bytes());
                    out.resize((out.len() + 1).next_multiple_of(4), 0);
                }
                Shown::Numbers(numbers) => {
                    let size = field.element_size().unwrap_or(8);
                    let mut bytes = Vec::with_capacity(numbers.len() * size);
                    for number in &numbers {
                        bytes.extend(&number.to_le_bytes()[..size]);
                    }
                    if field.is_dynamic() {
                        let place = (out.len() as u32) | (bytes.len() as u32) << 16;
                        out[at].copy_from_slice(&place.to_le_bytes());
                        out.extend(bytes);
                    } else if field.size == 0 {
                        out.extend(bytes);
                    } else {
                        let len = bytes.len().min(field.size);
                        out[at][..len].copy_from_slice(&bytes[..len]);
                    }
                    out.resize(out.len().next_multiple_of(4), 0);
                }
                Shown::Text(text) => {
                    let len = text.floor_char_boundary(field.size - 1);
                    out[at][..len].copy_from_slice(&text.as_bytes()[..len]);
                }
            }
        }
    }
}

impl Field<'_> {
    /// The number in it, if it holds one: threads as pids, cycles in ns, signed ones extended.
    pub fn number(&self, record: &Record<'_>, names: &Names) -> Option<u64> {
        match self.shown(record, names) {
            Shown::Number(number) => Some(number),
            Shown::Text(_) | Shown::Numbers(_) => None,
        }
    }

    /// The elements in it, if it holds an array: signed ones extended.
    pub fn numbers(&self, record: &Record<'_>, names: &Names) -> Option<Vec<u64>> {
        match self.shown(record, names) {
            Shown::Numbers(numbers) => Some(numbers),
            Shown::Text(_) | Shown::Number(_) => None,
        }
    }

    /// The text in it, if it holds one.
    pub fn text<'n>(&self, record: &Record<'_>, names: &'n Names) -> Option<Cow<'n, str>> {
        match self.shown(record, names) {
            Shown::Number(_) | Shown::Numbers(_) => None,
            Shown::Text(text) => Some(text),
        }
    }

    /// What a state's raw number is with Linux's bits; any other field's is itself.
    pub(crate) fn number_of_raw(&self, raw: u64) -> u64 {
        match self.content {
            // A state without a letter shows as a number that no letter has.
            Content::State(_, known) => FieldType::name_of(known, raw)
                .and_then(linux_state)
                .unwrap_or(0x100),
            _ => raw,
        }
    }

    fn shown<'r>(&self, record: &Record<'_>, names: &'r Names) -> Shown<'r> {
        let tid = |whose| match whose {
            Whose::Current => record.tid,
            Whose::Field(number) => number_of(record, number) as u8,
        };
        match self.content {
            Content::Value(number, field) if self.element_size().is_some() => {
                let elements = record.values.get(number).and_then(Value::elements);
                let one = |element: &u64| match field.ty {
                    FieldType::Signed => signed(field, *element).cast_unsigned(),
                    _ => *element,
                };
                Shown::Numbers(elements.unwrap_or_default().iter().map(one).collect())
            }
            Content::Length(number) => {
                let elements = record.values.get(number).and_then(Value::elements);
                Shown::Number(elements.unwrap_or_default().len() as u64)
            }
            Content::Value(number, field) => {
                let value = number_of(record, number);
                match &field.ty {
                    FieldType::Block { .. } => Shown::Number(field.ty.address_or_number(value)),
                    FieldType::Signed => Shown::Number(signed(field, value).cast_unsigned()),
                    FieldType::Cycles => Shown::Number(names.clock.ns(value)),
                    FieldType::Str(_) => {
                        let text = record.values.get(number).map(Value::text);
                        let mut text = text.unwrap_or_default();
                        if record.is_cut {
                            text.push(REST);
                        }
                        Shown::Text(text.into())
                    }
                    _ => Shown::Number(value),
                }
            }
            Content::State(number, _) => {
                Shown::Number(self.number_of_raw(number_of(record, number)))
            }
            Content::Pid(whose) => Shown::Number(names.threads.pid(tid(whose)).into()),
            Content::IrqName(number) => {
                let vector = number_of(record, number) as u8;
                Shown::Text(names.irqs.shown(vector).into())
            }
            Content::Comm(whose) => Shown::Text(names.threads.comm(tid(whose)).into()),
        }
    }
}

fn number_of(record: &Record<'_>, number: usize) -> u64 {
    let value = record.values.get(number);
    value.and_then(Value::number).unwrap_or(0)
}
