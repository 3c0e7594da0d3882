//! What a histogram is made of, as it is written: `keys=common_pid:vals=latency:sort=latency`.

use crate::filter::error::FilterError;
use takt_tracer::rules::{ENTRIES, MAX_KEYS, MAX_VALUES, STACKS};

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
    /// What is to be done about one that there is.
    pub command: Option<Command>,
}

/// What can be done about a histogram that there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// `:pause`. One that there is not begins paused.
    Pause,
    /// `:continue`.
    Continue,
    /// `:clear`.
    Clear,
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

    /// Whether it is a stack.
    #[must_use]
    pub fn is_stack(&self) -> bool {
        STACKTRACE.contains(&&*self.name)
    }

    /// How large its buckets are, if it is counted by them.
    #[must_use]
    pub fn bucket_size(&self) -> Option<u32> {
        let size = self.modifier.strip_prefix("buckets=")?;
        size.parse().ok().filter(|size| *size != 0)
    }
}

/// The value that every histogram has.
pub const HITCOUNT: &str = "hitcount";
/// The key that is a stack, and its name since Linux 6.
pub(super) const STACKTRACE: [&str; 2] = ["stacktrace", "common_stacktrace"];
/// The modifiers that there are.
const MODIFIERS: [&str; 6] = ["hex", "sym", "sym-offset", "execname", "log2", "buckets=N"];

impl Hist {
    pub(super) fn parse(text: &str, begin: usize) -> Result<Self, FilterError> {
        let mut hist = Self {
            keys: Vec::new(),
            values: Vec::new(),
            sort: Vec::new(),
            size: ENTRIES,
            command: None,
        };
        let (mut at, mut size_at) = (begin, begin);
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
                    hist.size = value.parse().unwrap_or(0);
                    size_at = value_at;
                }
                "pause" if value.is_empty() => hist.command = Some(Command::Pause),
                "continue" | "cont" if value.is_empty() => hist.command = Some(Command::Continue),
                "clear" if value.is_empty() => hist.command = Some(Command::Clear),
                "" if text.is_empty() => {}
                _ => {
                    let reason = format!(
                        "`{name}` is none of keys, vals, sort, size, pause, continue, clear"
                    );
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
        let by_stack = hist.keys.iter().any(Key::is_stack);
        let room = if by_stack { STACKS } else { ENTRIES };
        // How many there are if nothing is said.
        if size_at == begin {
            hist.size = room;
        }
        if !(1..=room).contains(&hist.size) {
            let reason = format!("this histogram has 1 to {room} places");
            return Err(FilterError::new(size_at, reason));
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
    pub(super) fn is_like(&self, other: &Self) -> bool {
        let same_size = |hist: &Self| Self {
            size: self.size,
            ..hist.clone()
        };
        self.text() == same_size(other).text()
    }

    /// As ftrace shows it.
    pub(super) fn text(&self) -> String {
        let names = |fields: &[Key]| fields.iter().map(Key::text).collect::<Vec<_>>();
        let mut values = vec![HITCOUNT.to_owned()];
        values.extend(names(&self.values));
        let sort: Vec<_> = match &*self.sort {
            [] => vec![HITCOUNT.to_owned()],
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
        let key = Key {
            name: name.to_owned(),
            modifier: modifier.to_owned(),
            at,
        };
        let is_modifier = MODIFIERS[..5].contains(&modifier) || key.bucket_size().is_some();
        if !(modifier.is_empty() || may_modify && is_modifier) {
            let reason = format!("`{modifier}` is none of {}", MODIFIERS.join(", "));
            return Err(FilterError::new(at + name.len() + 1, reason));
        }
        fields.push(key);
        at += part.len() + 1;
    }
    Ok(fields)
}
