//! [`prove`]: a bound for each stretch with interrupts off, or why there is none.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Result, bail};
use serde::Serialize;

use crate::calls::Calls;
use crate::config::{Config, Setting};
use crate::cost::Cost;
use crate::explore::{Explorer, Machine, Off, Refusal};
use crate::image::Image;
use crate::live::Live;
use crate::looked::{All, look_at_all};
use crate::marks::{Mark, Marks};

/// Version of the document.
pub const SCHEMA: &str = "takt.prove/3";
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
    /// Instructions that switch interrupts off to which nobody comes.
    pub unreached: Vec<u64>,
    /// What the sources say, by place.
    pub marks: Vec<Mark>,
}

/// What a bound grows with.
#[derive(Clone, Debug, Serialize)]
pub struct Growth {
    /// What n counts.
    pub counts: String,
    /// Instructions more for each.
    pub each: u64,
    /// Calls of functions more for each that are not the kernel's.
    pub handlers: u64,
}

/// A stretch with interrupts or preemption off.
#[derive(Debug, Serialize)]
pub struct Stretch {
    /// The instruction behind which it begins, or with which, where an interrupt comes in.
    pub begin: u64,
    /// What is off.
    pub off: Off,
    /// Whether it is only of an interrupt's ways to another thread, which goes on then.
    pub to_thread: bool,
    /// Whether an interrupt comes in there.
    pub is_entry: bool,
    /// Instructions from there to the last one with interrupts off, at most. `None` if that is not proved, or if none of its
    /// ways comes to an end but by a fault report.
    pub bound: Option<u64>,
    /// Calls of functions on its ways that are not the kernel's, at most: what these take comes on top.
    pub handlers: u64,
    /// What comes on top of both where loops go round as often as something happens.
    pub grows: Vec<Growth>,
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
pub fn prove(path: &Path, config: &Config) -> Result<Proof> {
    prove_all(&Image::open(path)?, config)
}

/// Both kinds of stretches.
pub(crate) fn prove_all(image: &Image, config: &Config) -> Result<Proof> {
    let (irqs, _) = prove_anew(image, config, &All::default())?;
    let (preemption, _) = prove_of(image, config, Off::Preemption, &All::default())?;
    let stretches = irqs.stretches.into_iter().chain(preemption.stretches);
    let unreached = irqs.unreached.into_iter().chain(preemption.unreached);
    Ok(Proof {
        unreached: unreached.collect(),
        states: irqs.states + preemption.states,
        stretches: stretches.collect(),
        ..irqs
    })
}

#[cfg(test)]
pub(crate) fn prove_image(image: &Image, any_keys: bool) -> Result<Proof> {
    let config = Config::new(any_keys, [])?;
    prove_anew(image, &config, &All::default()).map(|it| it.0)
}

/// The same where something is known of some roots.
pub(crate) fn prove_anew(image: &Image, config: &Config, before: &All) -> Result<(Proof, All)> {
    prove_of(image, config, Off::Irqs, before)
}

fn prove_of(image: &Image, config: &Config, off: Off, before: &All) -> Result<(Proof, All)> {
    let marks = Marks::new(image, config)?;
    let keys = match config.any_keys {
        true => Setting::Any,
        false => Setting::Off,
    };
    let machine = Machine {
        off,
        image,
        calls: &Calls::new(image),
        live: &Live::new(image, &marks, |key| {
            marks.key(key).unwrap_or(keys) != Setting::Off
        }),
        marks: &marks,
        keys,
    };
    let (found, all) = look_at_all(machine, before)?;
    // One mark may stand at several places, in functions that the compiler has made of one.
    let counted = |places: &BTreeSet<u64>| -> BTreeSet<usize> {
        places.iter().filter_map(|it| marks.rounds(*it)).collect()
    };
    if let Some(nr) = counted(&found.met)
        .difference(&counted(&found.needed))
        .next()
        && off == Off::Irqs
    {
        bail!(
            "a mark counts the rounds of no loop: {}",
            marks.counted(*nr)
        );
    }
    let stretch = |begin, most: Option<(Cost, Vec<u64>)>, refused: Option<_>, to_thread| {
        let (most, path) = most.filter(|_| refused.is_none()).unzip();
        let each = most.iter().flat_map(|it| it.each.iter().enumerate());
        let grows = each.filter(|(_, it)| **it != [0; 2]);
        Stretch {
            begin,
            off,
            to_thread,
            is_entry: image
                .at(begin)
                .is_some_and(|it| !Explorer::begins(machine, &it.it)),
            grows: grows
                .map(|(nr, [each, handlers])| Growth {
                    counts: marks.counted(nr).to_owned(),
                    each: *each,
                    handlers: *handlers,
                })
                .collect(),
            bound: most.as_ref().map(|it| it.own),
            handlers: most.map_or(0, |it| it.handlers),
            refused: refused.map(|(why, at)| Refused { why, at }),
            path: path.unwrap_or_default(),
        }
    };
    let stretches = found.stretches.into_iter().flat_map(|(begin, known)| {
        let all = stretch(begin, known.most, known.refused, false);
        let to_thread = known.other.filter(|_| all.is_entry && all.bound.is_some());
        let to_thread = to_thread.map(|it| stretch(begin, Some(it), None, true));
        std::iter::once(all).chain(to_thread)
    });
    let proof = Proof {
        schema: SCHEMA,
        any_keys: config.any_keys,
        states: found.states,
        stretches: stretches.collect(),
        unreached: found.unreached.into_iter().collect(),
        marks: marks.told.clone(),
    };
    Ok((proof, all))
}
