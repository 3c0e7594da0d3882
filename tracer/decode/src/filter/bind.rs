//! From the tree to the fields of events.

use std::collections::{BTreeMap, BTreeSet};

use super::error::FilterError;
use super::tree::{Expr, Filter, Literal, Op, Test};
use crate::ftrace::{CommonField, Field, Format};
use crate::{EventTable, FieldType};

/// Filters with the fields of each event. An event gets through if every filter that is for it holds.
#[derive(Clone, Debug)]
pub struct Filters<'t> {
    /// By the event's id.
    pub(super) events: BTreeMap<u32, Vec<Bound<'t>>>,
}

/// An expression about one event.
#[derive(Clone, Debug)]
pub(super) enum Bound<'t> {
    /// The event has no such field.
    No,
    Number(Operand<'t>, Op, i128),
    Text(Operand<'t>, Op, String),
    Not(Box<Self>),
    All(Vec<Self>),
    Any(Vec<Self>),
}

/// What is compared.
#[derive(Clone, Debug)]
pub(super) enum Operand<'t> {
    Common(CommonField),
    Cpu,
    Comm,
    Field(Field<'t>),
}

impl<'t> Filters<'t> {
    /// Looks up the fields of each event. The second part of an error is the number of the filter.
    ///
    /// # Errors
    /// [`FilterError`] with the place, if a filter is for an event that is not in the table, names a field that the
    /// event does not have (without an event: that none has), or compares a field with something that it cannot be.
    pub fn bind(filters: &[Filter], table: &'t EventTable) -> Result<Self, (FilterError, usize)> {
        let mut events: BTreeMap<u32, Vec<Bound<'t>>> = BTreeMap::new();
        let formats: Vec<_> = table.iter().map(Format::new).collect();
        for (number, filter) in filters.iter().enumerate() {
            let mut binder = Binder::default();
            let mut is_for_any = false;
            for format in formats.iter().filter(|format| is_for(filter, format)) {
                is_for_any = true;
                let bound = binder
                    .expr(&filter.expr, format)
                    .map_err(|error| (error, number))?;
                events.entry(format.event.id).or_default().push(bound);
            }
            if let Some(event) = filter.event.as_ref().filter(|_| !is_for_any) {
                let reason = format!("there is no event `{}`", event.node);
                return Err((FilterError::new(event.at, reason), number));
            }
            let mut unknown = binder.unknown.iter();
            if let Some((at, reason)) = unknown.find(|(at, _)| !binder.found.contains(at)) {
                return Err((FilterError::new(*at, reason.clone()), number));
            }
        }
        Ok(Self { events })
    }
}

/// Whether the filter is for this event: by its name, with or without its system, or by its system.
fn is_for(filter: &Filter, format: &Format<'_>) -> bool {
    let event = format.event;
    filter.event.as_ref().is_none_or(|wanted| {
        [&*event.name, event.event(), event.system()].contains(&wanted.node.as_str())
    })
}

/// The fields that were found in some event and those that were not, by their places in the text.
#[derive(Debug, Default)]
struct Binder {
    found: BTreeSet<usize>,
    unknown: BTreeMap<usize, String>,
}

impl Binder {
    fn expr<'t>(&mut self, expr: &Expr, format: &Format<'t>) -> Result<Bound<'t>, FilterError> {
        let mut each = |parts: &[Expr]| {
            let bound = parts.iter().map(|part| self.expr(part, format));
            bound.collect::<Result<Vec<_>, _>>()
        };
        match expr {
            Expr::Test(test) => self.test(test, format),
            Expr::Not(inner) => Ok(Bound::Not(Box::new(self.expr(inner, format)?))),
            Expr::All(parts) => each(parts).map(Bound::All),
            Expr::Any(parts) => each(parts).map(Bound::Any),
        }
    }

    fn test<'t>(&mut self, test: &Test, format: &Format<'t>) -> Result<Bound<'t>, FilterError> {
        let Some(operand) = operand(&test.field.node, format) else {
            let reason = || format!("no event has a field `{}`", test.field.node);
            self.unknown.entry(test.field.at).or_insert_with(reason);
            return Ok(Bound::No);
        };
        if operand.is_array() {
            // Another event may have a number of that name.
            let reason = format!("`{}` is an array, which no filter is for", test.field.node);
            self.unknown.insert(test.field.at, reason);
            return Ok(Bound::No);
        }
        self.found.insert(test.field.at);
        let op = test.op.node;
        let at_op = |reason: String| FilterError::new(test.op.at, reason);
        let at_value = |reason: String| FilterError::new(test.value.at, reason);
        let name = &test.field.node;
        match (&test.value.node, operand.is_text()) {
            (Literal::Text(text), true) => text_test(operand, op, text)
                .ok_or_else(|| at_op(format!("`{name}` is a string, which ==, != and ~ are for"))),
            // ftrace compares a name with a number by its digits.
            (Literal::Number(number), true) => text_test(operand, op, &format!("{number}"))
                .ok_or_else(|| at_op(format!("`{name}` is a string, which ==, != and ~ are for"))),
            _ if op == Op::Glob && !operand.is_symbol() => {
                Err(at_op(format!("`{name}` is a number, which has no pattern")))
            }
            (Literal::Number(_), false) if op == Op::Glob => {
                Err(at_value("a pattern is a string".into()))
            }
            (Literal::Number(number), false) => Ok(Bound::Number(operand, op, *number)),
            (Literal::Text(text), false) => match operand.value_of(text) {
                Some(number) => Ok(Bound::Number(operand, op, number.into())),
                None if operand.is_symbol() => text_test(operand, op, text).ok_or_else(|| {
                    at_op(format!("`{name}` has names, which ==, != and ~ are for"))
                }),
                None => Err(at_value(operand.no_value(name, text))),
            },
        }
    }
}

fn text_test<'t>(operand: Operand<'t>, op: Op, text: &str) -> Option<Bound<'t>> {
    let is_for_text = matches!(op, Op::Eq | Op::Ne | Op::Glob);
    is_for_text.then(|| Bound::Text(operand, op, text.to_owned()))
}

/// What a name means in an event.
pub(super) fn operand<'t>(name: &str, format: &Format<'t>) -> Option<Operand<'t>> {
    if let Some(field) = format.field(name) {
        return Some(Operand::Field(field.clone()));
    }
    let mut common = CommonField::ALL.iter();
    if let Some((field, ..)) = common.find(|common| common.1 == name) {
        return Some(Operand::Common(*field));
    }
    match name {
        "CPU" | "cpu" | "common_cpu" => Some(Operand::Cpu),
        "COMM" | "comm" => Some(Operand::Comm),
        _ => None,
    }
}

impl Operand<'_> {
    fn is_text(&self) -> bool {
        match self {
            Self::Common(_) | Self::Cpu => false,
            Self::Comm => true,
            Self::Field(field) => field.is_text(),
        }
    }

    fn is_array(&self) -> bool {
        matches!(self, Self::Field(field) if field.element_size().is_some())
    }

    fn is_symbol(&self) -> bool {
        matches!(self, Self::Field(field) if field.ty().is_some_and(FieldType::is_place))
    }

    /// The values that have names: of an enumeration, or masks of flags.
    fn names(&self) -> Vec<(u64, &str)> {
        let Self::Field(field) = self else {
            return Vec::new();
        };
        match field.ty() {
            Some(FieldType::Flags(flags)) => flags
                .masks
                .iter()
                .map(|(mask, name)| (*mask, name.as_str()))
                .collect(),
            _ => field.names().unwrap_or_default(),
        }
    }

    /// The number that a name stands for; flags may be joined, `A|B`.
    fn value_of(&self, text: &str) -> Option<u64> {
        let names = self.names();
        let one = |wanted: &str| {
            let mut names = names.iter();
            names
                .find(|(_, name)| *name == wanted)
                .map(|(value, _)| *value)
        };
        let is_flags =
            matches!(self, Self::Field(field) if matches!(field.ty(), Some(FieldType::Flags(_))));
        if !is_flags {
            return one(text);
        }
        let mut parts = text.split('|').map(|part| one(part.trim()));
        parts.try_fold(0, |sum, mask| mask.map(|mask| sum | mask))
    }

    /// Why a text is no value of it.
    fn no_value(&self, field: &str, text: &str) -> String {
        let names: Vec<_> = self.names().iter().map(|(_, name)| *name).collect();
        if names.is_empty() {
            format!("`{field}` is a number, and `{text}` is none")
        } else {
            format!(
                "`{field}` is never `{text}`, but one of {}",
                names.join(", ")
            )
        }
    }
}
