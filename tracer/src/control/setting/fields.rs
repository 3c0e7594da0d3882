//! Values that are several, separated by commas, the last one with whatever is in it.

use core::fmt::{self, Display, Formatter};

use super::values::{decimal, nanoseconds};
use super::{Errno, Words};
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
pub struct EventFilter<'a> {
    /// The event's id.
    pub event: u32,
    /// Words of the program.
    pub len: u32,
    /// How it was written.
    pub text: &'a str,
}

/// A trigger.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EventTrigger<'a> {
    /// The event's id.
    pub event: u32,
    /// What it does.
    pub action: Action,
    /// How often at most; `None` for always.
    pub count: Option<u32>,
    /// Words that describe a histogram.
    pub nr_spec: u32,
    /// Words of the condition's program, behind those.
    pub nr_condition: u32,
    /// How it was written.
    pub text: &'a str,
}

/// A trigger that is taken away.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EventTriggerOff {
    /// The event's id.
    pub event: u32,
    /// The trigger's place.
    pub place: u32,
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

impl<'a> Composite<'a> for EventFilter<'a> {
    fn parse(value: &'a str) -> Result<Self, Errno> {
        let mut rest = Rest(value);
        Ok(Self {
            event: rest.number()?,
            len: rest.number()?,
            text: rest.0,
        })
    }
}

impl Display for EventFilter<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{},{},{}", self.event, self.len, self.text)
    }
}

/// Stands for a count that is none.
const ALWAYS: &str = "-";

impl<'a> Composite<'a> for EventTrigger<'a> {
    fn parse(value: &'a str) -> Result<Self, Errno> {
        let mut rest = Rest(value);
        Ok(Self {
            event: rest.number()?,
            action: Action::from_name(rest.word()?).ok_or(Errno::Invalid)?,
            count: match rest.word()? {
                ALWAYS => None,
                count => Some(decimal::parse(count)?),
            },
            nr_spec: rest.number()?,
            nr_condition: rest.number()?,
            text: rest.0,
        })
    }
}

impl Display for EventTrigger<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{},{},", self.event, self.action.name())?;
        match self.count {
            Some(count) => write!(f, "{count}")?,
            None => f.write_str(ALWAYS)?,
        }
        write!(f, ",{},{},{}", self.nr_spec, self.nr_condition, self.text)
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
