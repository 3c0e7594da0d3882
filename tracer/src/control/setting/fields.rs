//! Values that are several, separated by commas, the last one with whatever is in it.

use core::fmt::{self, Display, Formatter};

use super::values::{decimal, nanoseconds};
use super::{Errno, Ids, Words};
use crate::control::osnoise::Param;
use crate::named::Named;
use crate::rules::Action;

/// A value of several.
pub(super) trait Composite<'a>: Display + Sized {
    /// Reads it.
    fn parse(value: &'a str) -> Result<Self, Errno>;
}

/// Words to be put where those of a filter or trigger are looked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Program<'a> {
    /// The first one's place.
    pub at: u32,
    /// The words.
    pub words: Words<'a>,
}

/// A filter of an event; none if it has no words.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EventFilter {
    /// The event's id.
    pub event: u32,
    /// Words of the program.
    pub len: u32,
    /// Words of its text, behind those.
    pub nr_text: u32,
}

/// A trigger.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EventTrigger {
    /// The event's id.
    pub event: u32,
    /// What it does.
    pub action: Action,
    /// How often at most; `None` for always.
    pub count: Option<u32>,
    /// The event that it switches; 0 if it does not.
    pub other: u32,
    /// Words that describe a histogram.
    pub nr_spec: u32,
    /// Words of the condition's program, behind those.
    pub nr_condition: u32,
    /// Words of its text, behind those.
    pub nr_text: u32,
}

/// How often a trigger acts from here on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EventTriggerCount {
    /// The event's id.
    pub event: u32,
    /// The trigger's place.
    pub place: u32,
    /// How often at most; `None` for always. With 0 a histogram pauses.
    pub count: Option<u32>,
}

/// A trigger that is taken away.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EventTriggerOff {
    /// The event's id.
    pub event: u32,
    /// The trigger's place.
    pub place: u32,
}

/// What is done at functions' entries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FunctionCommand<'a> {
    /// What.
    pub action: Action,
    /// How often at most; `None` for always, and 0 takes it away.
    pub count: Option<u32>,
    /// The functions.
    pub ids: Ids<'a>,
}

/// A parameter of the tracers `timerlat` and `osnoise`, and its value: a time in ns, or a number of bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Osnoise {
    /// Which.
    pub param: Param,
    /// What it is to be.
    pub value: u64,
}

/// What is left to read of a value.
struct Rest<'a>(&'a str);

impl<'a> Rest<'a> {
    fn word(&mut self) -> Result<&'a str, Errno> {
        let (word, rest) = self.0.split_once(',').ok_or(Errno::Invalid)?;
        self.0 = rest;
        Ok(word)
    }

    fn number(&mut self) -> Result<u32, Errno> {
        decimal::parse(self.word()?)
    }
}

impl<'a> Composite<'a> for Program<'a> {
    fn parse(value: &'a str) -> Result<Self, Errno> {
        let mut rest = Rest(value);
        Ok(Self {
            at: rest.number()?,
            words: Words::parse(rest.0)?,
        })
    }
}

impl Display for Program<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{},{}", self.at, self.words)
    }
}

impl Composite<'_> for EventFilter {
    fn parse(value: &str) -> Result<Self, Errno> {
        let mut rest = Rest(value);
        Ok(Self {
            event: rest.number()?,
            len: rest.number()?,
            nr_text: decimal::parse(rest.0)?,
        })
    }
}

impl Display for EventFilter {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{},{},{}", self.event, self.len, self.nr_text)
    }
}

/// Stands for a count that is none.
const ALWAYS: &str = "-";

/// A count, or none.
struct Count(Option<u32>);

impl Count {
    fn parse(word: &str) -> Result<Option<u32>, Errno> {
        match word {
            ALWAYS => Ok(None),
            count => decimal::parse(count).map(Some),
        }
    }
}

impl Display for Count {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(count) => write!(f, "{count}"),
            None => f.write_str(ALWAYS),
        }
    }
}

impl Composite<'_> for EventTrigger {
    fn parse(value: &str) -> Result<Self, Errno> {
        let mut rest = Rest(value);
        Ok(Self {
            event: rest.number()?,
            action: Action::from_name(rest.word()?).ok_or(Errno::Invalid)?,
            count: Count::parse(rest.word()?)?,
            other: rest.number()?,
            nr_spec: rest.number()?,
            nr_condition: rest.number()?,
            nr_text: decimal::parse(rest.0)?,
        })
    }
}

impl Display for EventTrigger {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self { event, other, .. } = self;
        let (action, count) = (self.action.name(), Count(self.count));
        write!(f, "{event},{action},{count},{other},")?;
        write!(f, "{},{},{}", self.nr_spec, self.nr_condition, self.nr_text)
    }
}

impl Composite<'_> for EventTriggerCount {
    fn parse(value: &str) -> Result<Self, Errno> {
        let mut rest = Rest(value);
        Ok(Self {
            event: rest.number()?,
            place: rest.number()?,
            count: Count::parse(rest.0)?,
        })
    }
}

impl Display for EventTriggerCount {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{},{},{}", self.event, self.place, Count(self.count))
    }
}

impl Composite<'_> for EventTriggerOff {
    fn parse(value: &str) -> Result<Self, Errno> {
        let mut rest = Rest(value);
        Ok(Self {
            event: rest.number()?,
            place: decimal::parse(rest.0)?,
        })
    }
}

impl Display for EventTriggerOff {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{},{}", self.event, self.place)
    }
}

impl<'a> Composite<'a> for FunctionCommand<'a> {
    fn parse(value: &'a str) -> Result<Self, Errno> {
        let mut rest = Rest(value);
        Ok(Self {
            action: Action::from_name(rest.word()?).ok_or(Errno::Invalid)?,
            count: Count::parse(rest.word()?)?,
            ids: Ids::parse(rest.0)?,
        })
    }
}

impl Display for FunctionCommand<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{},{},{}",
            self.action.name(),
            Count(self.count),
            self.ids
        )
    }
}

impl Composite<'_> for Osnoise {
    fn parse(value: &str) -> Result<Self, Errno> {
        let mut rest = Rest(value);
        Ok(Self {
            param: Param::from_name(rest.word()?).ok_or(Errno::Invalid)?,
            value: nanoseconds::parse(rest.0)?,
        })
    }
}

impl Display for Osnoise {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{},{}", self.param, self.value)
    }
}
