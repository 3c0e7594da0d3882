//! Triggers as ftrace writes them: `traceoff:3 if prio < 10`, `hist:keys=common_pid:vals=latency:sort=latency`.
//!
//! ```text
//!  text ──parse──> Trigger ──bind──> BoundTrigger: the words for the target, and how a histogram is shown
//! ```

use std::borrow::ToOwned;
use std::format;
use std::string::{String, ToString};
use std::vec::Vec;

use super::bind::{Filters, Operand, operand};
use super::compile::{Unsupported, place_of};
use super::error::FilterError;
use super::program::{FROM_CPU, FROM_FIELD, FROM_TID, SIGNED};
use super::tree::Filter;
use crate::decode::ftrace::{CommonField, Content, Format, Whose};
use crate::decode::{EventDef, EventTable, FieldType, Names};
use crate::rules::{Action, ENTRIES, LOG2, MAX_KEYS, MAX_VALUES};

/// A trigger, read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trigger {
    /// What it does.
    pub action: Action,
    /// How often at most.
    pub count: Option<u64>,
    /// What a histogram is made of.
    pub hist: Option<Hist>,
    /// What has to hold, and where it begins in the text.
    pub condition: Option<(usize, String)>,
}

/// What a histogram is made of, by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hist {
    /// What it counts by.
    pub keys: Vec<Key>,
    /// What it adds up, beside the hits.
    pub values: Vec<Key>,
    /// By what it is sorted, and whether the greatest comes first.
    pub sort: Vec<(String, bool)>,
    /// Its places.
    pub size: usize,
    /// What it has counted is to be forgotten: `:clear`.
    pub is_clear: bool,
}

/// A field of a histogram.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    /// Its name.
    pub name: String,
    /// How it is shown, as ftrace calls it; empty for as it is.
    pub modifier: String,
    /// Where it stands in the text.
    pub at: usize,
}

impl Key {
    /// Its name with its modifier.
    #[must_use]
    pub fn text(&self) -> String {
        match self.modifier.as_str() {
            "" => self.name.clone(),
            modifier => format!("{}.{modifier}", self.name),
        }
    }
}

/// The value that every histogram has.
pub const HITCOUNT: &str = "hitcount";
/// The modifiers that there are.
const MODIFIERS: [&str; 5] = ["hex", "sym", "sym-offset", "execname", "log2"];

impl Trigger {
    /// Reads a trigger, without a `!` before it.
    ///
    /// # Errors
    /// [`FilterError`] with the place, if it cannot be understood.
    pub fn parse(text: &str) -> Result<Self, FilterError> {
        // What is missing at the end has its place there.
        let inside = |error: FilterError| FilterError::new(error.at.min(text.len()), error.reason);
        Self::read(text).map_err(inside)
    }

    fn read(text: &str) -> Result<Self, FilterError> {
        let (head, condition) = match text.find(" if ") {
            Some(at) => {
                let begin = at + " if ".len();
                let condition = &text[begin..];
                let skipped = condition.len() - condition.trim_start().len();
                (
                    &text[..at],
                    Some((begin + skipped, condition.trim().to_owned())),
                )
            }
            None => (text, None),
        };
        let head_at = head.len() - head.trim_start().len();
        let head = head.trim();
        let (name, rest) = head.split_once(':').unwrap_or((head, ""));
        let rest_at = head_at + name.len() + 1;
        let action = Action::from_name(name).ok_or_else(|| {
            let names: Vec<_> = Action::ALL.iter().map(|(_, name)| *name).collect();
            let reason = format!("there is no trigger `{name}`, but {}", names.join(", "));
            FilterError::new(head_at, reason)
        })?;
        let (hist, count) = match action {
            Action::Hist => (Some(Hist::parse(rest, rest_at)?), None),
            _ => (None, count(head, rest, rest_at)?),
        };
        Ok(Self {
            action,
            count,
            hist,
            condition,
        })
    }

    /// How ftrace shows it, with so many times left.
    #[must_use]
    pub fn text(&self, left: Option<u64>) -> String {
        let name = Action::ALL
            .iter()
            .find(|(action, _)| *action == self.action);
        let name = name.map_or("", |(_, name)| name);
        let what = match (&self.hist, left) {
            (Some(hist), _) => hist.text(),
            (None, None) => "unlimited".to_owned(),
            (None, Some(left)) => format!("count={left}"),
        };
        let condition = self.condition.as_ref();
        let condition = condition.map_or_else(String::new, |(_, text)| format!(" if {text}"));
        match &self.hist {
            Some(_) => format!("{name}:{what}{condition} [active]"),
            None => format!("{name}:{what}{condition}"),
        }
    }

    /// Whether the other one is the same, so that there cannot be both and one takes the other away: count and condition do
    /// not matter. Of histograms there may be several that differ in keys, values, order or condition, as in Linux.
    #[must_use]
    pub fn is_like(&self, other: &Self) -> bool {
        let condition = |trigger: &Self| {
            let condition = trigger.condition.as_ref();
            condition.map(|(_, text)| text.clone())
        };
        self.action == other.action
            && match (&self.hist, &other.hist) {
                (Some(hist), Some(of)) => hist.is_like(of) && condition(self) == condition(other),
                _ => true,
            }
    }

    /// Whether both are histograms with the same keys.
    #[must_use]
    pub fn has_keys_of(&self, other: &Self) -> bool {
        let keys = |hist: &Hist| hist.keys.iter().map(Key::text).collect::<Vec<_>>();
        let (hist, of) = (self.hist.as_ref(), other.hist.as_ref());
        hist.is_some() && hist.map(keys) == of.map(keys)
    }
}

/// The number behind a trigger's name, which is at least 1.
fn count(head: &str, rest: &str, at: usize) -> Result<Option<u64>, FilterError> {
    if !head.contains(':') || rest == "unlimited" {
        return Ok(None);
    }
    let digits = rest.strip_prefix("count=").unwrap_or(rest);
    let is_plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    match digits.parse() {
        Ok(count) if is_plain && count > 0 => Ok(Some(count)),
        _ => Err(FilterError::new(
            at,
            format!("`{rest}` is no number of times"),
        )),
    }
}

impl Hist {
    fn parse(text: &str, begin: usize) -> Result<Self, FilterError> {
        let mut hist = Self {
            keys: Vec::new(),
            values: Vec::new(),
            sort: Vec::new(),
            size: ENTRIES,
            is_clear: false,
        };
        let mut at = begin;
        for part in text.split(':') {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            let value_at = at + name.len() + 1;
            match name {
                "keys" | "key" => hist.keys = fields(value, value_at, true)?,
                "values" | "vals" | "val" => {
                    hist.values = fields(value, value_at, false)?;
                    hist.values.retain(|field| field.name != HITCOUNT);
                }
                "sort" => {
                    for word in value.split(',') {
                        let descending = word.strip_suffix(".descending");
                        let ascending = word.strip_suffix(".ascending");
                        let name = descending.or(ascending).unwrap_or(word);
                        hist.sort.push((name.to_owned(), descending.is_some()));
                    }
                }
                "size" => {
                    let size = value
                        .parse()
                        .ok()
                        .filter(|size| (1..=ENTRIES).contains(size));
                    let reason = || format!("a histogram has 1 to {ENTRIES} places");
                    hist.size = size.ok_or_else(|| FilterError::new(value_at, reason()))?;
                }
                "clear" if value.is_empty() => hist.is_clear = true,
                "" if text.is_empty() => {}
                _ => {
                    let reason = format!("`{name}` is none of keys, vals, sort, size, clear");
                    return Err(FilterError::new(at, reason));
                }
            }
            at += part.len() + 1;
        }
        if hist.keys.is_empty() {
            return Err(FilterError::new(begin, "a histogram has keys: keys=FIELD"));
        }
        if hist.keys.len() > MAX_KEYS || hist.values.len() > MAX_VALUES {
            let reason = format!("a histogram has {MAX_KEYS} keys and {MAX_VALUES} values at most");
            return Err(FilterError::new(begin, reason));
        }
        for (name, _) in &hist.sort {
            let mut fields = hist.keys.iter().chain(&hist.values);
            if name != HITCOUNT && !fields.any(|field| field.name == *name) {
                let at = text.find("sort=").map_or(begin, |at| begin + at + 5);
                return Err(FilterError::new(
                    at,
                    format!("`{name}` is neither key nor value"),
                ));
            }
        }
        Ok(hist)
    }

    /// Whether the other one counts and shows the same.
    fn is_like(&self, other: &Self) -> bool {
        let same_size = |hist: &Self| Self {
            size: self.size,
            ..hist.clone()
        };
        self.text() == same_size(other).text()
    }

    /// As ftrace shows it.
    fn text(&self) -> String {
        let names = |fields: &[Key]| fields.iter().map(Key::text).collect::<Vec<_>>();
        let mut values = std::vec![HITCOUNT.to_owned()];
        values.extend(names(&self.values));
        let sort: Vec<_> = match &*self.sort {
            [] => std::vec![HITCOUNT.to_owned()],
            sort => sort
                .iter()
                .map(|(name, is_descending)| match is_descending {
                    true => format!("{name}.descending"),
                    false => name.clone(),
                })
                .collect(),
        };
        format!(
            "keys={}:vals={}:sort={}:size={}",
            names(&self.keys).join(","),
            values.join(","),
            sort.join(","),
            self.size
        )
    }
}

/// Names separated by commas, each perhaps with a modifier.
fn fields(text: &str, begin: usize, may_modify: bool) -> Result<Vec<Key>, FilterError> {
    let mut at = begin;
    let mut fields = Vec::new();
    for part in text.split(',') {
        let (name, modifier) = part.split_once('.').unwrap_or((part, ""));
        if name.is_empty() {
            return Err(FilterError::new(at, "a field's name is missing"));
        }
        if !(modifier.is_empty() || may_modify && MODIFIERS.contains(&modifier)) {
            let reason = format!("`{modifier}` is none of {}", MODIFIERS.join(", "));
            return Err(FilterError::new(at + name.len() + 1, reason));
        }
        fields.push(Key {
            name: name.to_owned(),
            modifier: modifier.to_owned(),
            at,
        });
        at += part.len() + 1;
    }
    Ok(fields)
}

/// A trigger with the fields of its event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BoundTrigger {
    /// The program of its condition; empty if there is none.
    pub condition: Vec<u32>,
    /// The description of its histogram; empty if there is none.
    pub spec: Vec<u32>,
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
            keys: Vec::new(),
            values: Vec::new(),
        };
        if let Some((at, text)) = &self.condition {
            let further = |error: FilterError| FilterError::new(error.at + at, error.reason);
            bound.condition = condition(text, event, table, names).map_err(further)?;
        }
        if let Some(hist) = &self.hist {
            let (keys, values) = (hist.keys.len() as u32, hist.values.len() as u32);
            bound
                .spec
                .push(keys | values << 8 | (hist.size as u32) << 16);
            let format = Format::new(event);
            for key in &hist.keys {
                let (source, field, content) = source(key, event, &format)?;
                let log2 = if key.modifier == "log2" { LOG2 } else { 0 };
                bound.spec.extend([source | log2, field]);
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
        }
        Ok(bound)
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
    filter.event = Some(super::tree::Spanned {
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
            Content::Length(_) | Content::IrqName(_) => {
                Err(error(format!("`{}` is no key", key.name)))
            }
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
