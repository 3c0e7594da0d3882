//! The sections that kept an interrupt or a thread waiting.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::sweep::analysis::Kind;
use crate::sweep::names::Place;

/// A stretch with interrupts or preemption off.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Section {
    /// What was off.
    pub kind: Kind,
    /// Its instructions, those of interrupts that came in between not counted.
    pub length: u64,
    /// The instruction that began it.
    pub begun_by: Place,
    /// The one that ended it.
    pub ended_by: Option<Place>,
}

impl fmt::Display for Section {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kind, length) = (self.kind.name(), self.length);
        write!(f, "{kind} for {length} ns: {}", self.begun_by.line)?;
        match &self.ended_by {
            Some(end) if end.line != self.begun_by.line => write!(f, " … {}", end.line),
            _ => Ok(()),
        }
    }
}
