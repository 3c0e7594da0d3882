//! Whether a record gets through.

use super::bind::{Bound, Filters, Operand};
use super::tree::Op;
use crate::ftrace::{CommonField, common_flags};
use crate::{Names, Record};
use takt_tracer::filter::glob;

impl Filters<'_> {
    /// Whether the record gets through: whether all filters that are for its event hold.
    pub fn matches(&self, record: &Record<'_>, names: &Names) -> bool {
        let bound = self.events.get(&record.event.id);
        bound.is_none_or(|all| all.iter().all(|one| one.holds(record, names)))
    }
}

impl Bound<'_> {
    fn holds(&self, record: &Record<'_>, names: &Names) -> bool {
        match self {
            Self::No => false,
            Self::Number(operand, op, value) => compare(operand.number(record, names), *op, *value),
            Self::Text(operand, op, value) => operand.with_text(record, names, |text| match op {
                Op::Glob => glob::matches(value.as_bytes(), text.as_bytes()),
                Op::Ne => text != value,
                _ => text == value,
            }),
            Self::Not(inner) => !inner.holds(record, names),
            Self::All(parts) => parts.iter().all(|part| part.holds(record, names)),
            Self::Any(parts) => parts.iter().any(|part| part.holds(record, names)),
        }
    }
}

pub(super) fn compare(number: i128, op: Op, value: i128) -> bool {
    match op {
        Op::Eq => number == value,
        Op::Ne => number != value,
        Op::Lt => number < value,
        Op::Le => number <= value,
        Op::Gt => number > value,
        Op::Ge => number >= value,
        Op::Bits => number as u64 & value as u64 != 0,
        Op::Glob => false,
    }
}

impl Operand<'_> {
    fn number(&self, record: &Record<'_>, names: &Names) -> i128 {
        match self {
            Self::Common(CommonField::Type) => record.event.id.into(),
            Self::Common(CommonField::Flags) => common_flags(record.context).into(),
            Self::Common(CommonField::PreemptCount) => record.context.depth().into(),
            Self::Common(CommonField::Pid) => names.threads.pid(record.tid).into(),
            Self::Cpu => record.cpu.into(),
            Self::Comm => 0,
            Self::Field(field) => {
                let number = field.number(record, names).unwrap_or(0);
                match field.is_signed() {
                    true => number.cast_signed().into(),
                    false => number.into(),
                }
            }
        }
    }

    fn with_text(
        &self,
        record: &Record<'_>,
        names: &Names,
        check: impl FnOnce(&str) -> bool,
    ) -> bool {
        match self {
            Self::Common(_) | Self::Cpu => false,
            Self::Comm => check(names.threads.comm(record.tid)),
            Self::Field(field) => match field.text(record, names) {
                Some(text) => check(&text),
                // An address, by its symbol.
                None => {
                    let number = field.number(record, names).unwrap_or(0);
                    check(&names.symbol(number))
                }
            },
        }
    }
}
