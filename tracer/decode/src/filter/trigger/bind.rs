//! Triggers with the fields of an event: the words for the target.

use super::{Key, Trigger};
use crate::filter::bind::{Filters, Operand, operand};
use crate::filter::compile::{Unsupported, place_of};
use crate::filter::error::FilterError;
use crate::filter::tree::{Filter, Spanned};
use crate::ftrace::{CommonField, Content, Format, Whose};
use crate::{EventDef, EventTable, FieldType, Names};
use takt_tracer::filter::program::{FROM_CPU, FROM_FIELD, FROM_TID, SIGNED};
use takt_tracer::rules::{BUCKETS, FROM_STACK, LOG2};

/// A trigger with the fields of its event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BoundTrigger {
    /// The program of its condition; empty if there is none.
    pub condition: Vec<u32>,
    /// The description of its histogram; empty if there is none.
    pub spec: Vec<u32>,
    /// The event that it switches; 0 if it does not.
    pub other: u32,
    /// What the keys are.
    pub keys: Vec<Quantity>,
    /// What the values are.
    pub values: Vec<Quantity>,
}

/// What a number of a histogram is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Quantity {
    /// A number without a sign.
    Unsigned,
    /// A number with a sign.
    Signed,
    /// Cycles.
    Cycles,
    /// A thread, of which the number is shown.
    Pid,
    /// A thread, of which the name is shown.
    Comm,
    /// A stack.
    Stack,
    /// An interrupt, of which the handler's name is shown.
    IrqName,
    /// A number that stands for another: a task's state.
    State(Vec<(u64, u64)>),
}

impl Trigger {
    /// Looks up the fields of `event`.
    ///
    /// # Errors
    /// [`FilterError`] with the place, if the event has not such fields or the target cannot work it out.
    pub fn bind(
        &self,
        event: &EventDef,
        table: &EventTable,
        names: &Names,
    ) -> Result<BoundTrigger, FilterError> {
        let mut bound = BoundTrigger {
            condition: Vec::new(),
            spec: Vec::new(),
            other: 0,
            keys: Vec::new(),
            values: Vec::new(),
        };
        if let Some((at, text)) = &self.condition {
            let further = |error: FilterError| FilterError::new(error.at + at, error.reason);
            bound.condition = condition(text, event, table, names).map_err(further)?;
        }
        if let Some((at, name)) = &self.other {
            let other = table.iter().find(|event| event.name == *name);
            let error = || FilterError::new(*at, format!("there is no event `{name}`"));
            bound.other = other.ok_or_else(error)?.id;
        }
        if let Some(hist) = &self.hist {
            let (keys, values) = (hist.keys.len() as u32, hist.values.len() as u32);
            bound
                .spec
                .push(keys | values << 8 | (hist.size as u32) << 16);
            let format = Format::new(event);
            let mut sizes = Vec::new();
            for key in &hist.keys {
                let (source, field, content) = source(key, event, &format)?;
                let how = match (key.bucket_size(), &*key.modifier) {
                    (Some(_), _) => BUCKETS,
                    (None, "log2") => LOG2,
                    _ => 0,
                };
                let is_number = !matches!(
                    content,
                    Quantity::Signed
                        | Quantity::Comm
                        | Quantity::IrqName
                        | Quantity::State(_)
                        | Quantity::Stack
                );
                if how == BUCKETS && !is_number {
                    let reason = format!("`{}` is no number that has buckets", key.name);
                    return Err(FilterError::new(key.at, reason));
                }
                bound.spec.extend([source | how, field]);
                sizes.push(bucket_size(key, &content, names));
                bound.keys.push(content);
            }
            for value in &hist.values {
                let (source, field, content) = source(value, event, &format)?;
                if !matches!(
                    content,
                    Quantity::Unsigned | Quantity::Signed | Quantity::Cycles
                ) {
                    let reason = format!("`{}` is nothing to add up", value.name);
                    return Err(FilterError::new(value.at, reason));
                }
                bound.spec.extend([source, field]);
                bound.values.push(content);
            }
            if hist.keys.iter().any(|key| key.bucket_size().is_some()) {
                bound.spec.extend(sizes);
            }
        }
        Ok(bound)
    }
}

/// How large a key's buckets are for the target, which counts time in cycles.
fn bucket_size(key: &Key, content: &Quantity, names: &Names) -> u32 {
    let size = key.bucket_size().unwrap_or(1);
    match content {
        Quantity::Cycles => names.clock.cycles_of_bucket(size) as u32,
        _ => size,
    }
}

/// The program of a filter for one event.
///
/// # Errors
/// [`FilterError`] with the place, if it cannot be understood, the event has not such fields, or the target cannot work it
/// out.
pub fn condition(
    text: &str,
    event: &EventDef,
    table: &EventTable,
    names: &Names,
) -> Result<Vec<u32>, FilterError> {
    let mut filter = Filter::parse(text)?;
    if let Some(of) = filter.event {
        return Err(FilterError::new(of.at, "this is for one event already"));
    }
    filter.event = Some(Spanned {
        at: 0,
        node: event.name.clone(),
    });
    let bound = Filters::bind(core::slice::from_ref(&filter), table).map_err(|(error, _)| error)?;
    let unsupported = |error: Unsupported| FilterError::new(0, error.to_string());
    Ok(bound
        .compile(event, names)
        .map_err(unsupported)?
        .unwrap_or_default())
}

/// Where the target finds a field, and what it is.
fn source(
    key: &Key,
    event: &EventDef,
    format: &Format<'_>,
) -> Result<(u32, u32, Quantity), FilterError> {
    let error = |reason: String| FilterError::new(key.at, reason);
    if key.is_stack() {
        return Ok((FROM_STACK, 0, Quantity::Stack));
    }
    let found = operand(&key.name, format)
        .ok_or_else(|| error(format!("`{}` has no field `{}`", event.name, key.name)))?;
    let fixed = |number: usize| {
        let no_number = || format!("`{}` is no number, which only the host counts by", key.name);
        place_of(event, number).ok_or_else(|| error(no_number()))
    };
    let thread = |whose, content| match whose {
        Whose::Current => Ok((FROM_TID, 0, content)),
        Whose::Field(number) => Ok((FROM_FIELD, fixed(number)?.0, content)),
    };
    match found {
        Operand::Cpu => Ok((FROM_CPU, 0, Quantity::Unsigned)),
        Operand::Comm => thread(Whose::Current, Quantity::Comm),
        Operand::Common(CommonField::Pid) => thread(Whose::Current, Quantity::Pid),
        Operand::Common(_) => Err(error(format!("`{}` is no key", key.name))),
        Operand::Field(field) => match field.content {
            Content::Pid(whose) => thread(whose, Quantity::Pid),
            Content::Comm(whose) => thread(whose, Quantity::Comm),
            Content::IrqName(number) => Ok((FROM_FIELD, fixed(number)?.0, Quantity::IrqName)),
            Content::Length(_) => Err(error(format!("`{}` is no key", key.name))),
            Content::State(number, _) => {
                let (place, bits) = fixed(number)?;
                let states = (0..1u64 << bits.min(8))
                    .map(|raw| (raw, field.number_of_raw(raw)))
                    .collect();
                Ok((FROM_FIELD, place, Quantity::State(states)))
            }
            Content::Value(number, def) => {
                let (place, _) = fixed(number)?;
                let content = match def.ty {
                    FieldType::Signed => {
                        return Ok((FROM_FIELD, place | SIGNED, Quantity::Signed));
                    }
                    FieldType::Cycles => Quantity::Cycles,
                    _ => Quantity::Unsigned,
                };
                Ok((FROM_FIELD, place, content))
            }
        },
    }
}
