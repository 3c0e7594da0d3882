//! Lists of numbers.

use core::fmt::{self, Display, Formatter};
use core::ops::RangeInclusive;

use super::Errno;
use super::values::{decimal, hexadecimal};
use crate::named;
use crate::named::Named;

/// Hexadecimal numbers separated by commas.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Words<'a>(&'a str);

impl<'a> Words<'a> {
    /// Reads them.
    ///
    /// # Errors
    /// If one is no number.
    pub fn parse(text: &'a str) -> Result<Self, Errno> {
        text.split(',')
            .try_for_each(|word| hexadecimal::parse(word).map(|_| ()))?;
        Ok(Self(text))
    }

    /// The numbers.
    pub fn iter(self) -> impl Iterator<Item = u32> + use<'a> {
        let words = self.0.split(',');
        words.filter_map(|word| hexadecimal::parse(word).ok())
    }
}

impl Display for Words<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

/// Numbers separated by commas, and ranges of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ids<'a>(&'a str);

impl<'a> Ids<'a> {
    /// Reads them.
    ///
    /// # Errors
    /// If one is no number.
    pub fn parse(text: &'a str) -> Result<Self, Errno> {
        let mut parts = text.split(',').filter(|part| !part.is_empty());
        if parts.all(|part| range(part).is_some()) {
            Ok(Self(text))
        } else {
            Err(Errno::Invalid)
        }
    }

    /// The numbers.
    pub fn iter(self) -> impl Iterator<Item = u32> + Clone + use<'a> {
        self.0.split(',').filter_map(range).flatten()
    }
}

impl Display for Ids<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

/// The greatest id of anything: a longer range would be gone through number by number all the same.
const MAX_ID: u32 = 0xffff;

/// `7` or `7-12`, both ends included.
fn range(text: &str) -> Option<RangeInclusive<u32>> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last) = (decimal::parse(first).ok()?, decimal::parse(last).ok()?);
    (first <= last && last <= MAX_ID).then_some(first..=last)
}

named! {
    /// A list of functions.
    pub enum List {
        /// Those that are traced: `ftrace_filter=`, `set_ftrace_filter`.
        Filter = "ftrace_filter",
        /// Those that are not, although the filter has them: `ftrace_notrace=`, `set_ftrace_notrace`.
        Notrace = "ftrace_notrace",
        /// Those whose calls `function_graph` follows: `ftrace_graph_filter=`, `set_graph_function`.
        GraphFilter = "ftrace_graph_filter",
        /// Those that it leaves out with all that they call: `ftrace_graph_notrace=`, `set_graph_notrace`.
        GraphNotrace = "ftrace_graph_notrace",
        /// Those at whose entry the stack tracer looks: `stacktrace_filter=`, `stack_trace_filter`.
        StackFilter = "stack_trace_filter",
    }
}

impl List {
    /// Whether it says which functions are meant, and may be all of them; else it says which are not.
    #[must_use]
    pub const fn is_of_wanted(self) -> bool {
        !matches!(self, Self::Notrace | Self::GraphNotrace)
    }
}

/// What is to stand in a list of functions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Chosen<'a> {
    /// All functions: `*`.
    All,
    /// These.
    Only(Ids<'a>),
    /// These as well, `+=`: a line has no room for many.
    More(Ids<'a>),
}

/// Stands for all functions.
const ALL: &str = "*";

impl<'a> Chosen<'a> {
    /// Reads the value of the list of that name; `None` if there is no such list.
    pub(super) fn parse(name: &str, value: &'a str) -> Option<(List, Result<Self, Errno>)> {
        if let Some(name) = name.strip_suffix('+') {
            return Some((List::from_name(name)?, Ids::parse(value).map(Self::More)));
        }
        let list = List::from_name(name)?;
        Some((
            list,
            match value {
                ALL if list.is_of_wanted() => Ok(Self::All),
                _ => Ids::parse(value).map(Self::Only),
            },
        ))
    }

    pub(super) fn print(self, list: List, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => write!(f, "{list}={ALL}"),
            Self::Only(ids) => write!(f, "{list}={ids}"),
            Self::More(ids) => write!(f, "{list}+={ids}"),
        }
    }
}
