//! [`prove`]: a bound for each stretch with interrupts off, or why there is none.

use std::path::Path;

use anyhow::Result;
use iced_x86::Mnemonic;
use serde::Serialize;

use crate::calls::Calls;
use crate::explore::{Keys, Machine, Refusal};
use crate::image::Image;
use crate::live::Live;
use crate::looked::look_at_all;
use crate::marks::Marks;

/// Version of the document.
pub const SCHEMA: &str = "takt.prove/1";
/// All that is found out of an image.
#[derive(Debug, Serialize)]
pub struct Proof {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// Whether any static key may be on, or none is.
    pub any_keys: bool,
    /// States that were looked at.
    pub states: usize,
    /// The stretches, by where they begin.
    pub stretches: Vec<Stretch>,
}

/// A stretch with interrupts off.
#[derive(Debug, Serialize)]
pub struct Stretch {
    /// The instruction behind which it begins, or with which, where an interrupt comes in.
    pub begin: u64,
    /// Whether an interrupt comes in there.
    pub is_entry: bool,
    /// Instructions from there to the last one with interrupts off, at most. `None` if that is not proved, or if none of its
    /// ways comes to an end but by a fault report.
    pub bound: Option<u64>,
    /// Calls of functions on its ways that are not the kernel's, at most: what these take comes on top.
    pub handlers: u64,
    /// Why there is no bound, and the instruction.
    pub refused: Option<Refused>,
    /// The way that takes the bound: the first instructions of its blocks, then its last one.
    pub path: Vec<u64>,
}

/// Why there is no bound.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Refused {
    /// What is not known.
    pub why: Refusal,
    /// The instruction.
    pub at: u64,
}

/// Analyses an image.
///
/// # Errors
///
/// If it cannot be read or decoded.
pub fn prove(path: &Path, any_keys: bool) -> Result<Proof> {
    prove_image(&Image::open(path)?, any_keys)
}

pub(crate) fn prove_image(image: &Image, any_keys: bool) -> Result<Proof> {
    let marks = Marks::new(image)?;
    let found = look_at_all(Machine {
        image,
        calls: &Calls::new(image),
        live: &Live::new(image, |key| any_keys && !marks.is_off(key)),
        marks: &marks,
        keys: if any_keys { Keys::Any } else { Keys::Off },
    })?;
    let stretches = found.stretches.into_iter().map(|(begin, known)| {
        let (bound, path) = known.most.filter(|_| known.refused.is_none()).unzip();
        Stretch {
            begin,
            is_entry: image
                .at(begin)
                .is_some_and(|it| !matches!(it.it.mnemonic(), Mnemonic::Cli | Mnemonic::Popfq)),
            bound,
            handlers: known.handlers,
            refused: known.refused.map(|(why, at)| Refused { why, at }),
            path: path.unwrap_or_default(),
        }
    });
    Ok(Proof {
        schema: SCHEMA,
        any_keys,
        states: found.states,
        stretches: stretches.collect(),
    })
}
