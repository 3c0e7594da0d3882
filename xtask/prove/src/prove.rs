//! [`prove`]: a bound for each stretch with interrupts off, or why there is none.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Result, ensure};
use iced_x86::Mnemonic;
use serde::Serialize;

use crate::calls::Calls;
use crate::explore::{Explorer, Keys, Refusal, To};
use crate::image::Image;
use crate::live::Live;
use crate::longest::{Bound, Longest};
use crate::marks::Marks;
use crate::state::Interrupts;

/// Version of the document.
pub const SCHEMA: &str = "takt.prove/1";
/// States that are looked at from one function or entry.
const MOST_STATES: usize = 20_000;
/// The same while it is found out whose calls have to be followed.
const FEW_STATES: usize = 3_000;
/// How often it is begun anew with more calls followed.
const MOST_ROUNDS: usize = 24;

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

/// Where interrupts come in: a symbol, how many entries there are, and the bytes from one to the next.
const ENTRIES: [(&str, u64, u64); 6] = [
    ("takt_irq_timer", 1, 0),
    ("takt_irq_early_timer", 1, 0),
    ("takt_irq_kick", 1, 0),
    ("takt_irq_spurious", 1, 0),
    ("takt_irq_stubs", 33, 16),
    ("takt_call_stubs", 1, 0),
];

/// Analyses an image.
///
/// # Errors
///
/// If it cannot be read or decoded.
pub fn prove(path: &Path, any_keys: bool) -> Result<Proof> {
    prove_image(&Image::open(path)?, any_keys)
}

pub(crate) fn prove_image(image: &Image, any_keys: bool) -> Result<Proof> {
    let calls = Calls::new(image);
    let live = Live::new(image);
    let marks = Marks::new(image)?;
    let keys = if any_keys { Keys::Any } else { Keys::Off };
    let mut followed = BTreeSet::new();
    let mut most = FEW_STATES;
    for _ in 0..MOST_ROUNDS {
        let mut explorer = Explorer::new(image, &calls, &live, &marks, &followed, keys, most);
        explore(image, &calls, &followed, &mut explorer);
        let mut more = followed.clone();
        more.extend(explorer.returned_off.iter().filter(|it| **it != 0));
        if more == followed && most == FEW_STATES {
            most = MOST_STATES;
        } else if more == followed {
            return Ok(result(image, &explorer, &Longest::new(&explorer), any_keys));
        }
        drop(explorer);
        followed = more;
    }
    ensure!(
        false,
        "whose calls have to be followed is not found out in {MOST_ROUNDS} rounds"
    );
    unreachable!("ensured")
}

/// Looks at all that can be reached with interrupts off: from functions that switch them off, and from where interrupts come
/// in.
fn explore(image: &Image, calls: &Calls, followed: &BTreeSet<u64>, explorer: &mut Explorer<'_>) {
    let switches = |mnemonic| matches!(mnemonic, Mnemonic::Cli | Mnemonic::Popfq);
    let places: Vec<_> = image
        .all()
        .filter(|it| switches(it.it.mnemonic()))
        .map(|it| it.it.ip())
        .collect();
    let mut regions: BTreeSet<_> = places.iter().map(|it| image.region(*it)).collect();
    regions.extend(calls.callers(followed));
    let roots: BTreeSet<_> = regions.iter().flat_map(|it| calls.entries(*it)).collect();
    for root in roots {
        // A function all of whose calls are followed is looked at there.
        let is_inside =
            followed.contains(&root) && !calls.is_by_address(root) && calls.is_called(root);
        if !is_inside {
            explorer.root(root, Interrupts::On);
            explorer.run();
        }
    }
    for (name, nr, distance) in ENTRIES {
        let Some(first) = image.symbol(name) else {
            continue;
        };
        for nr in 0..nr {
            let entry = first + nr * distance;
            let state = explorer.root(entry, Interrupts::Off);
            explorer.start(entry, state);
            explorer.run();
        }
    }
    // Nothing is known of one that none of these has come to, or may not have come to in each way.
    for place in places {
        let is_known =
            explorer.visited.contains(&place) && !explorer.cut.contains(&image.region(place));
        if !is_known && let Some(it) = image.at(place) {
            explorer.begin_anywhere(place, it.it.next_ip());
            explorer.run();
        }
    }
}

fn result(image: &Image, explorer: &Explorer<'_>, longest: &Longest, any_keys: bool) -> Proof {
    let stretches = explorer.starts.iter().map(|(begin, states)| {
        let mut stretch = Stretch {
            begin: *begin,
            is_entry: image
                .at(*begin)
                .is_some_and(|it| !matches!(it.it.mnemonic(), Mnemonic::Cli | Mnemonic::Popfq)),
            bound: None,
            handlers: 0,
            refused: None,
            path: Vec::new(),
        };
        for state in states {
            match longest.of(*state) {
                Bound::Fatal => {}
                Bound::Refused(why, at) => {
                    stretch.refused = stretch.refused.or(Some(Refused { why, at }))
                }
                Bound::Most(most, _, handlers) => {
                    stretch.handlers = stretch.handlers.max(handlers);
                    if stretch.bound.is_none_or(|before| before < most) {
                        stretch.bound = Some(most);
                        stretch.path = way(explorer, longest, *state);
                    }
                }
            }
        }
        if stretch.refused.is_some() {
            stretch.bound = None;
            stretch.path = Vec::new();
        }
        stretch
    });
    Proof {
        schema: SCHEMA,
        any_keys,
        states: explorer.states.len(),
        stretches: stretches.collect(),
    }
}

/// The longest way from a state.
fn way(explorer: &Explorer<'_>, longest: &Longest, from: u32) -> Vec<u64> {
    let mut path = Vec::new();
    let mut state = from;
    while let Bound::Most(_, edge, _) = longest.of(state) {
        path.push(explorer.states[state as usize].ip);
        match explorer.edges[state as usize][edge as usize].to {
            To::State(to) => state = to,
            To::End(ip) => {
                path.push(ip);
                break;
            }
            To::Fatal(_) | To::Refused(..) => break,
        }
    }
    path
}
