//! [`prove`]: a bound for each stretch with interrupts off, or why there is none.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Result, bail, ensure};
use serde::Serialize;

use crate::calls::Calls;
use crate::config::{Config, Setting};
use crate::explore::clock::{behind_guards, behind_switches};
use crate::explore::{Explorer, Machine, Off, Refusal};
use crate::image::{Image, demangled};
use crate::live::Live;
use crate::longest::Goal;
use crate::looked::{All, Found, Known, Root, look_at_all, look_at_wholes};
use crate::marks::{Mark, Marks};
use crate::waits::calls;

/// Version of the document.
pub const SCHEMA: &str = "takt.prove/4";
/// All that is found out of an image.
#[derive(Debug, Serialize)]
pub struct Proof {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// Whether any static key may be on, or none is.
    pub any_keys: bool,
    /// How many CPUs run at most.
    pub cpus: u32,
    /// How long a CPU has a lock for which others wait, if there are several.
    pub hold: Option<Way>,
    /// Why that is not known.
    pub hold_refused: Option<Refused>,
    /// States that were looked at.
    pub states: usize,
    /// The stretches, by where they begin.
    pub stretches: Vec<Stretch>,
    /// Calls that block: [`Stretch::thread`] is from the first instruction to the switch.
    pub calls: Vec<Whole>,
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
    /// Waits more for each for a lock.
    pub waits: u64,
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
    /// Waits on its ways for a lock that another CPU may have, at most: what these take comes on top, too.
    pub waits: u64,
    /// What comes on top of all three where loops go round as often as something happens.
    pub grows: Vec<Growth>,
    /// Why there is no bound, and the instruction.
    pub refused: Option<Refused>,
    /// Of those of its ways at whose end another thread goes on.
    pub thread: Option<Way>,
    /// Of the others.
    pub same: Option<Way>,
    /// To the first call of a function that is not the kernel's, which is the last instruction of it.
    pub handler: Option<Way>,
    /// The way that takes the bound: the first instructions of its blocks, then its last one.
    pub path: Vec<u64>,
}

/// A function or an entry, whatever is off.
#[derive(Debug, Serialize)]
pub struct Whole {
    /// Its name, or which call that blocks begins there.
    pub name: String,
    /// From its first instruction on.
    #[serde(flatten)]
    pub stretch: Stretch,
}

/// What some of the ways take at most.
#[derive(Clone, Debug, Serialize)]
pub struct Way {
    /// Instructions.
    pub bound: u64,
    /// As [`Stretch::handlers`].
    pub handlers: u64,
    /// As [`Stretch::waits`].
    pub waits: u64,
    /// As [`Stretch::grows`].
    pub grows: Vec<Growth>,
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
        calls: prove_calls(image, config)?,
        ..irqs
    })
}

/// Calls that block, from their first instructions to the switch.
pub(crate) fn prove_calls(image: &Image, config: &Config) -> Result<Vec<Whole>> {
    let calls = calls(image).into_iter();
    let roots = calls.map(|(name, at)| (name.to_owned(), Root::Call(at)));
    prove_wholes(image, config, roots.collect())
}

/// All instructions of functions and entries, whatever is off, from their first ones to where they come back (`same`) and to the
/// switch to another thread (`thread`): of each that has one of these names, a symbol or a path in Rust. Behind `clock:` the name is
/// that of a thread's function: all from where it goes on behind a switch that it has carried out to its reading of the clock.
/// `records` are all functions that record events without a text, `guards` all places where preemption is enabled and a switch is
/// due, up to where that switches interrupts off.
///
/// # Errors
///
/// If the image cannot be read or decoded, or there is none of a name.
pub fn whole(path: &Path, config: &Config, names: &[String]) -> Result<Vec<Whole>> {
    let image = Image::open(path)?;
    let mut roots = Vec::new();
    for name in names {
        let before = roots.len();
        let marks = Marks::new(&image, config)?;
        if name == GUARDS {
            let places = behind_guards(&image, &marks).into_iter();
            roots.extend(places.map(|at| (name.clone(), Root::BehindGuard(at))));
            continue;
        }
        if name == RECORDS {
            let records = image.regions().filter(|(_, it)| is_record(it));
            roots.extend(records.map(|(at, _)| (name.clone(), Root::Whole(at))));
            continue;
        }
        if let Some(function) = name.strip_prefix(CLOCK) {
            let of = image.regions().filter(|(_, it)| demangled(it) == *function);
            let places = of.flat_map(|(at, _)| behind_switches(&image, &marks, at));
            roots.extend(places.map(|at| (name.clone(), Root::BehindSwitch(at))));
            ensure!(roots.len() > before, "{function:?} carries out no switch");
            continue;
        }
        let named = image
            .regions()
            .filter(|(_, it)| it == name || demangled(it) == *name);
        roots.extend(named.map(|(at, _)| (name.clone(), Root::Whole(at))));
        ensure!(roots.len() > before, "the image has no function {name:?}");
    }
    prove_wholes(&image, config, roots)
}

/// What stands before the name of a thread's function whose clock is meant.
const CLOCK: &str = "clock:";
/// Where preemption was off by a guard.
const GUARDS: &str = "guards";
/// What records events.
const RECORDS: &str = "records";

/// Whether that is where a record function (`takt_kernel::arch::record`) begins, of those for records without a text.
fn is_record(symbol: &str) -> bool {
    let name = symbol.strip_prefix("takt_rec");
    let name = name.and_then(|it| it.strip_suffix("_ctx"));
    name.is_some_and(|it| !matches!(it, "_text" | "_bytes"))
}

pub(crate) fn prove_wholes(
    image: &Image,
    config: &Config,
    roots: Vec<(String, Root)>,
) -> Result<Vec<Whole>> {
    prove_with(image, config, Off::Nothing, |machine| {
        let places: Vec<_> = roots.iter().map(|it| it.1).collect();
        let found = look_at_wholes(machine, &places);
        let named =
            roots.into_iter().map(|(name, root)| {
                let (Root::Call(at)
                | Root::Whole(at)
                | Root::BehindSwitch(at)
                | Root::BehindGuard(at)) = root
                else {
                    unreachable!("no whole")
                };
                Whole {
                    name,
                    stretch: told(machine, at, &found[&root], Goal::End),
                }
            });
        Ok(named.collect())
    })
}

#[cfg(test)]
pub(crate) fn prove_image(image: &Image, any_keys: bool) -> Result<Proof> {
    let config = Config::new(any_keys, [])?;
    prove_anew(image, &config, &All::default()).map(|it| it.0)
}

/// Stretches with interrupts off, where something is known of some roots.
pub(crate) fn prove_anew(image: &Image, config: &Config, before: &All) -> Result<(Proof, All)> {
    prove_of(image, config, Off::Irqs, before)
}

/// Calls with what is to be looked at.
fn prove_with<R>(
    image: &Image,
    config: &Config,
    off: Off,
    look: impl FnOnce(Machine<'_>) -> Result<R>,
) -> Result<R> {
    let marks = Marks::new(image, config)?;
    let keys = match config.any_keys {
        true => Setting::Any,
        false => Setting::Off,
    };
    look(Machine {
        off,
        image,
        calls: &Calls::new(image),
        live: &Live::new(image, &marks, |key| {
            marks.key(key).unwrap_or(keys) != Setting::Off
        }),
        marks: &marks,
        keys,
    })
}

pub(crate) fn prove_of(
    image: &Image,
    config: &Config,
    off: Off,
    before: &All,
) -> Result<(Proof, All)> {
    prove_with(image, config, off, |machine| {
        let (found, all) = look_at_all(machine, before)?;
        Ok((proof_of(machine, config, found)?, all))
    })
}

/// Stretches with names of what they count.
fn proof_of(machine: Machine<'_>, config: &Config, found: Found) -> Result<Proof> {
    let marks = machine.marks;
    // One mark may stand at several places, in functions that the compiler has made of one.
    let counted = |places: &BTreeSet<u64>| -> BTreeSet<usize> {
        places.iter().filter_map(|it| marks.rounds(*it)).collect()
    };
    if let Some(nr) = counted(&found.met)
        .difference(&counted(&found.needed))
        .find(|it| !marks.is_by_others(**it))
        && machine.off == Off::Irqs
        && !config.says_something()
    {
        bail!(
            "a mark counts the rounds of no loop: {}",
            marks.counted(*nr)
        );
    }
    let stretches = found.stretches.iter().flat_map(|(begin, known)| {
        let all = told(machine, *begin, known, Goal::End);
        let is_other = all.is_entry && all.thread.is_some();
        let to_thread = is_other.then(|| told(machine, *begin, known, Goal::Thread));
        std::iter::once(all).chain(to_thread)
    });
    Ok(Proof {
        schema: SCHEMA,
        any_keys: config.any_keys,
        cpus: config.cpus(),
        hold: way(marks, &found.holds, Goal::End),
        hold_refused: found.holds.refused[Goal::End as usize].map(|(why, at)| Refused { why, at }),
        states: found.states,
        stretches: stretches.collect(),
        calls: Vec::new(),
        unreached: found.unreached.into_iter().collect(),
        marks: marks.told.clone(),
    })
}

/// What is known of the ways of a stretch that lead there.
fn told(machine: Machine<'_>, begin: u64, known: &Known, goal: Goal) -> Stretch {
    let way = |goal: Goal| way(machine.marks, known, goal);
    let (most, refused) = (way(goal), known.refused[goal as usize]);
    let path = known.most[goal as usize]
        .as_ref()
        .filter(|_| most.is_some());
    let is_entry = machine.image.at(begin);
    let is_entry = is_entry.is_some_and(|it| !Explorer::begins(machine, &it.it));
    Stretch {
        begin,
        off: machine.off,
        to_thread: goal == Goal::Thread,
        is_entry,
        bound: most.as_ref().map(|it| it.bound),
        handlers: most.as_ref().map_or(0, |it| it.handlers),
        waits: most.as_ref().map_or(0, |it| it.waits),
        grows: most.map_or(Vec::new(), |it| it.grows),
        refused: refused.map(|(why, at)| Refused { why, at }),
        thread: way(Goal::Thread),
        same: way(Goal::Return),
        handler: way(Goal::Handler),
        path: path.map_or(Vec::new(), |it| it.1.clone()),
    }
}

/// What the ways that lead there take at most, if that is known.
fn way(marks: &Marks, known: &Known, goal: Goal) -> Option<Way> {
    let (most, _) = known.most[goal as usize].as_ref()?;
    if known.refused[goal as usize].is_some() {
        return None;
    }
    let each = most.each.iter().enumerate();
    let grows = each.filter(|(_, it)| **it != [0; 3]);
    Some(Way {
        bound: most.own,
        handlers: most.handlers,
        waits: most.waits,
        grows: grows
            .map(|(nr, [each, handlers, waits])| Growth {
                counts: marks.counted(nr).to_owned(),
                each: *each,
                handlers: *handlers,
                waits: *waits,
            })
            .collect(),
    })
}
