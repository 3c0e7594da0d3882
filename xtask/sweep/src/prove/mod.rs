//! What `takt-prove` has found out of an image: bounds by address, and here with names, beside what a sweep has met.

mod limits;
mod mutations;
mod program;
mod ratios;
mod table;

use std::path::Path;

use anyhow::{Result, anyhow, ensure};
use serde::{Deserialize, Serialize};

pub use limits::above_limits;
pub use mutations::Mutations;
pub use program::{prove_image, run_on, wholes};
pub use ratios::Ratios;
pub use table::{Shown, refutation, text};

use crate::document::Document;
use takt_base::term::{WithHelp, note};
use takt_guest::Elf;
use takt_guest::place::Kind;
use takt_guest::place::Names;

/// Version of what `takt-prove` writes.
const FOUND: &str = "takt.prove/4";
/// Version of the document with names.
pub const SCHEMA: &str = "takt.proof/4";

/// What `takt-prove` writes.
#[derive(Debug, Deserialize)]
struct Found {
    schema: String,
    any_keys: bool,
    cpus: u32,
    hold: Option<Way>,
    hold_refused: Option<FoundRefused>,
    states: usize,
    stretches: Vec<FoundStretch>,
    calls: Vec<FoundWhole>,
    unreached: Vec<u64>,
    marks: Vec<FoundMark>,
}

#[derive(Debug, Deserialize)]
struct FoundMark {
    at: u64,
    text: String,
}

/// What a bound grows with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Growth {
    /// What n counts.
    pub counts: String,
    /// Instructions more for each.
    pub each: u64,
    /// Calls of handlers more for each.
    pub handlers: u64,
    /// Waits more for each for a lock.
    pub waits: u64,
}

#[derive(Debug, Deserialize)]
struct FoundStretch {
    begin: u64,
    off: Off,
    to_thread: bool,
    is_entry: bool,
    bound: Option<u64>,
    handlers: u64,
    waits: u64,
    grows: Vec<Growth>,
    refused: Option<FoundRefused>,
    thread: Option<Way>,
    same: Option<Way>,
    handler: Option<Way>,
    path: Vec<u64>,
}

#[derive(Debug, Deserialize)]
struct FoundWhole {
    name: String,
    #[serde(flatten)]
    stretch: FoundStretch,
}

/// What some of a stretch's ways take at most.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
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

#[derive(Debug, Deserialize)]
struct FoundRefused {
    why: Why,
    at: u64,
}

/// What is off in a stretch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Off {
    /// Interrupts.
    Irqs,
    /// Preemption, by a guard.
    Preemption,
    /// Whatever is: a function or an entry from its first instruction on.
    Nothing,
}

/// Why there is no bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Why {
    /// An indirect jump.
    Jump,
    /// An indirect call.
    Call,
    /// A function that calls itself.
    Recursion,
    /// Calls within each other.
    Depth,
    /// A return with another stack pointer.
    Return,
    /// A return with interrupts off to a caller that is not known.
    Caller,
    /// Flags of which interrupts' is not known.
    Flags,
    /// A repeated instruction.
    Repeat,
    /// An instruction that is not known.
    Instruction,
    /// No code.
    NoCode,
    /// A loop.
    Loop,
    /// Too many states.
    States,
}

impl Why {
    /// As the table says it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Jump => "an indirect jump",
            Self::Call => "an indirect call",
            Self::Recursion => "recursion",
            Self::Depth => "too many calls within each other",
            Self::Return => "a return by another stack pointer",
            Self::Caller => "a return to a caller that is not known",
            Self::Flags => "flags that are not known",
            Self::Repeat => "a repeated instruction without a bound",
            Self::Instruction => "an instruction that is not known",
            Self::NoCode => "no code of 64 bits",
            Self::Loop => "a loop without a bound",
            Self::States => "too many states",
        }
    }
}

/// What is proved of an image, and what is not.
#[derive(Debug, Serialize)]
pub struct Proof {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// Whether any static key may be on.
    pub any_keys: bool,
    /// What is known of the system besides its image.
    pub config: Vec<String>,
    /// How many CPUs run at most.
    pub cpus: u32,
    /// How long a CPU has a lock for which others wait, if there are several: a wait takes that once for each of the others.
    pub hold: Option<Way>,
    /// Why that is not known.
    pub hold_refused: Option<Refused>,
    /// States that were looked at.
    pub states: usize,
    /// How close the bounds are, if there was a sweep.
    pub ratios: Option<Ratios>,
    /// The stretches: those without a bound first, then the longest first.
    pub stretches: Vec<Stretch>,
    /// Calls that block: [`Stretch::thread`] is from the first instruction to the switch.
    pub calls: Vec<Whole>,
    /// Where interrupts are switched off, but nobody comes to.
    pub unreached: Vec<String>,
    /// What the sources say.
    pub marks: Vec<Mark>,
}

/// What the sources say of a place.
#[derive(Debug, Serialize)]
pub struct Mark {
    /// Function and line.
    pub place: String,
    /// What they say.
    pub text: String,
}

/// A stretch with interrupts or preemption off.
#[derive(Debug, Serialize)]
pub struct Stretch {
    /// The instruction that it begins behind, or with where an interrupt comes in.
    pub begin: u64,
    /// Function and line.
    pub place: String,
    /// What is off.
    pub off: Off,
    /// Whether it is only of an interrupt's ways to another thread, which goes on then.
    pub to_thread: bool,
    /// Whether an interrupt comes in there.
    pub is_entry: bool,
    /// Instructions, at most.
    pub bound: Option<u64>,
    /// Calls of handlers, at most: what they take comes on top.
    pub handlers: u64,
    /// Waits for a lock that another CPU may have, at most: what these take comes on top, too.
    pub waits: u64,
    /// What comes on top of all three for each of what loops count.
    pub grows: Vec<Growth>,
    /// Why there is no bound.
    pub refused: Option<Refused>,
    /// Of those of its ways at whose end another thread goes on.
    pub thread: Option<Way>,
    /// Of the others.
    pub same: Option<Way>,
    /// To the first call of a handler, which is the last instruction of it.
    pub handler: Option<Way>,
    /// The longest that a sweep has met from the same line on.
    pub witness: Option<u64>,
    /// The stretch on which it was.
    pub workload: Option<String>,
    /// Where it ended.
    pub witness_end: Option<String>,
    /// The way that takes the bound.
    pub path: Vec<String>,
}

/// A function or an entry from its first instruction on, whatever is off.
#[derive(Debug, Serialize)]
pub struct Whole {
    /// Its name, or which call that blocks begins there.
    pub name: String,
    /// What it takes.
    #[serde(flatten)]
    pub stretch: Stretch,
}

impl FoundRefused {
    fn named(self, names: &Names) -> Refused {
        Refused {
            why: self.why,
            at: place_of(names, self.at),
        }
    }
}

impl FoundWhole {
    fn named(self, names: &Names) -> Whole {
        Whole {
            name: self.name,
            stretch: self.stretch.named(names),
        }
    }
}

impl FoundStretch {
    fn named(self, names: &Names) -> Stretch {
        let place = |ip| place_of(names, ip);
        Stretch {
            begin: self.begin,
            place: place(self.begin),
            off: self.off,
            to_thread: self.to_thread,
            is_entry: self.is_entry,
            bound: self.bound,
            handlers: self.handlers,
            waits: self.waits,
            grows: self.grows,
            refused: self.refused.map(|it| it.named(names)),
            thread: self.thread,
            same: self.same,
            handler: self.handler,
            witness: None,
            workload: None,
            witness_end: None,
            path: steps(self.path.into_iter().map(place)),
        }
    }
}

impl Stretch {
    /// The bound as a multiple of the longest that was met.
    #[must_use]
    pub fn ratio(&self) -> Option<f64> {
        let (met, bound) = self.witness.zip(self.bound)?;
        Some(bound as f64 / met as f64)
    }

    /// The function that it begins in.
    #[must_use]
    pub fn function(&self) -> &str {
        let function = self.place.split(" (").next().unwrap_or_default();
        function.split('+').next().unwrap_or_default()
    }
}

/// Why there is no bound.
#[derive(Debug, Serialize)]
pub struct Refused {
    /// What is not known.
    pub why: Why,
    /// Function and line.
    pub at: String,
}

impl Proof {
    /// Gives names to what `takt-prove` has written of `elf`.
    ///
    /// # Errors
    ///
    /// If it is something else.
    pub fn read(json: &[u8], elf: &Elf) -> Result<Self> {
        let found: Found = serde_json::from_slice(json)?;
        ensure!(
            found.schema == FOUND,
            "takt-prove has written {}",
            found.schema
        );
        let names = Names::new(elf);
        let place = |ip| place_of(&names, ip);
        let named = found.stretches.into_iter().map(|it| it.named(&names));
        let mut stretches: Vec<_> = named.collect();
        stretches.sort_by(|a, b| {
            let rank = |it: &Stretch| (it.refused.is_none(), std::cmp::Reverse(it.bound));
            let of = |it: &Stretch| (it.to_thread, it.place.clone());
            rank(a).cmp(&rank(b)).then_with(|| of(a).cmp(&of(b)))
        });
        // The stubs of devices' interrupts are all the same.
        stretches.dedup_by(|a, b| {
            a.is_entry
                && b.is_entry
                && a.place.split('+').next() == b.place.split('+').next()
                && (a.to_thread, a.bound, a.handlers, &a.grows)
                    == (b.to_thread, b.bound, b.handlers, &b.grows)
        });
        let marks = found.marks.into_iter().map(|it| Mark {
            place: place(it.at),
            text: it.text,
        });
        Ok(Self {
            schema: SCHEMA,
            any_keys: found.any_keys,
            config: Vec::new(),
            cpus: found.cpus,
            hold: found.hold,
            hold_refused: found.hold_refused.map(|it| it.named(&names)),
            states: found.states,
            ratios: None,
            stretches,
            calls: found.calls.into_iter().map(|it| it.named(&names)).collect(),
            unreached: found.unreached.into_iter().map(place).collect(),
            marks: marks.collect(),
        })
    }

    /// Puts beside each stretch the longest one that a sweep of the same image has met from that line on.
    ///
    /// # Errors
    ///
    /// If the sweep cannot be read, or none of its stretches is one of the image.
    pub fn compare(&mut self, sweep: &Path) -> Result<()> {
        let path = if sweep.is_dir() {
            sweep.join(crate::document::FILE)
        } else {
            sweep.into()
        };
        let document = Document::read(&takt_base::input::read(&path)?)?;
        if !document.edited.is_empty() {
            note(format_args!(
                "of the sweep were edited: {}; what was changed by hand was not measured",
                document.edited.join(", ")
            ));
        }
        self.compare_with(&document);
        let is_met = self.stretches.iter().any(|it| it.witness.is_some());
        if !is_met && !document.sections.is_empty() {
            return Err(anyhow!("none of its stretches is one of this image")).help(
                "give the image that was swept, where it was built: --image FOLDER/takt.elf",
            );
        }
        Ok(())
    }

    /// The same of a sweep that is at hand, of the same image.
    pub fn compare_with(&mut self, sweep: &Document) {
        for section in &sweep.sections {
            let off = match section.kind {
                Kind::IrqsOff => Off::Irqs,
                Kind::PreemptOff => Off::Preemption,
                Kind::Interrupt | Kind::KernelLock => continue,
            };
            let met = self
                .stretches
                .iter_mut()
                .filter(|it| it.place == section.begin && it.off == off && !it.to_thread);
            let length = u64::from(section.length);
            for stretch in met.filter(|it| it.witness.is_none_or(|before| before < length)) {
                stretch.witness = Some(length);
                stretch.workload = Some(section.stretch.clone());
                stretch.witness_end = Some(section.end.clone());
            }
        }
        self.ratios = Some(Ratios::of(&self.stretches));
    }

    /// Leaves what has a text in its place.
    pub fn keep(&mut self, text: &str) {
        self.stretches.retain(|it| it.place.contains(text));
    }

    /// Stretches that took longer than their bound. There is none, or the analysis is wrong.
    ///
    /// Of several with the same line the longest bound counts: which of them was met is not known.
    #[must_use]
    pub fn refuted(&self) -> Vec<&Stretch> {
        let bound = |one: &Stretch| {
            let is_same =
                |it: &&Stretch| it.place == one.place && it.off == one.off && !it.to_thread;
            let same = self.stretches.iter().filter(is_same);
            let bounds: Option<Vec<_>> = same
                .map(|it| {
                    it.bound
                        .filter(|_| it.handlers == 0 && it.waits == 0 && it.grows.is_empty())
                })
                .collect();
            bounds.and_then(|it| it.into_iter().max())
        };
        let is_longer = |it: &&Stretch| {
            it.witness
                .zip(bound(it))
                .is_some_and(|(met, bound)| met > bound)
        };
        self.stretches.iter().filter(is_longer).collect()
    }
}

/// Places without those that repeat the one before.
fn steps(places: impl Iterator<Item = String>) -> Vec<String> {
    let mut steps: Vec<String> = places.collect();
    steps.dedup();
    steps
}

/// Where an instruction is: function and line, or the function alone.
fn place_of(names: &Names, ip: u64) -> String {
    let place = names.place(ip);
    if place.line.is_empty() {
        place.function
    } else {
        place.line
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn stretch(place: &str, bound: Option<u64>, witness: Option<u64>) -> Stretch {
        Stretch {
            begin: 0x100,
            place: place.into(),
            off: Off::Irqs,
            to_thread: false,
            is_entry: false,
            bound,
            handlers: 0,
            waits: 0,
            grows: Vec::new(),
            thread: None,
            same: None,
            handler: None,
            refused: bound.is_none().then(|| Refused {
                why: Why::Loop,
                at: "g (g.rs:2)".into(),
            }),
            witness,
            workload: None,
            witness_end: None,
            path: Vec::new(),
        }
    }

    pub(crate) fn proof(stretches: Vec<Stretch>) -> Proof {
        Proof {
            schema: SCHEMA,
            any_keys: false,
            config: Vec::new(),
            cpus: 1,
            hold: None,
            hold_refused: None,
            states: 1,
            ratios: None,
            stretches,
            calls: Vec::new(),
            unreached: Vec::new(),
            marks: Vec::new(),
        }
    }

    #[test]
    fn what_took_longer_than_its_bound_is_found() {
        let mut met = stretch("a", Some(5), Some(6));
        (met.workload, met.witness_end) = (Some("mix".into()), Some("z".into()));
        met.path = vec!["b".into(), "c".into()];
        let proof_of_it = proof(vec![met]);
        let [refuted] = &proof_of_it.refuted()[..] else {
            panic!("it is not found");
        };
        let text = refutation(refuted);
        for part in ["from a", "bound is 5", "took 6", "`mix`", "to z", "b\n  c"] {
            assert!(text.contains(part), "{text}");
        }
        for stretches in [
            vec![stretch("a", Some(5), Some(5))],
            vec![stretch("a", None, Some(6))],
            vec![stretch("a", Some(5), None)],
            // What comes on top is not known.
            vec![Stretch {
                grows: vec![Growth {
                    counts: "timers".into(),
                    each: 3,
                    handlers: 0,
                    waits: 0,
                }],
                ..stretch("a", Some(5), Some(6))
            }],
            // Of two from the same line, the other may have been met.
            vec![
                stretch("a", Some(5), Some(6)),
                stretch("a", Some(7), Some(6)),
            ],
            vec![stretch("a", Some(5), Some(6)), stretch("a", None, Some(6))],
        ] {
            assert!(proof(stretches).refuted().is_empty());
        }
    }

    #[test]
    fn an_entrys_ways_and_calls_that_block_have_parts_of_their_own() {
        let way = |bound| {
            Some(Way {
                bound,
                handlers: 0,
                waits: 0,
                grows: Vec::new(),
            })
        };
        let entry = Stretch {
            is_entry: true,
            same: way(95),
            handler: way(44),
            ..stretch("takt_irq_stubs", Some(415), None)
        };
        let call = |name: &str, thread: Option<Way>| Whole {
            name: name.into(),
            stretch: Stretch {
                off: Off::Nothing,
                bound: thread.as_ref().map(|it| it.bound),
                refused: None,
                thread,
                ..stretch("f (f.rs:7)", None, None)
            },
        };
        let proof = Proof {
            calls: vec![call("sleep", way(384)), call("never", None)],
            ..proof(vec![entry])
        };
        let text = text(&proof, Shown::default());
        for part in [
            "to its return to what it came upon\n\n bound  begins at\n    95  takt_irq_stubs\n",
            "to the call of its handler\n\n bound  begins at\n    44  takt_irq_stubs\n",
            "interrupts come on top\n\n bound  begins at\n   384  sleep: f (f.rs:7)\n",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(!text.contains("never"), "{text}");
    }

    #[test]
    fn with_several_cpus_a_wait_for_a_lock_is_as_long_as_all_others_have_it() {
        let with = |hold: Option<u64>| {
            let hold = hold.map(|bound| Way {
                bound,
                handlers: 0,
                waits: 0,
                grows: Vec::new(),
            });
            let why = || Refused {
                why: Why::Loop,
                at: "g (g.rs:2)".into(),
            };
            let waits = Stretch {
                waits: 2,
                ..stretch("f (f.rs:7)", Some(50), Some(60))
            };
            let proof = Proof {
                cpus: 4,
                hold_refused: hold.is_none().then(why),
                hold,
                ..proof(vec![waits])
            };
            // What they take comes on top.
            assert!(proof.refuted().is_empty());
            text(&proof, Shown::default())
        };
        let known = with(Some(80));
        for part in [
            "4 CPUs",
            "A wait for a lock takes 240 at most: 3 others have it for 80 each",
            "    50  f (f.rs:7), and 2 waits for locks\n",
        ] {
            assert!(known.contains(part), "{known}");
        }
        assert!(with(None).contains("not known, because of a loop without a bound: g (g.rs:2)"));
    }

    #[test]
    fn what_has_no_bound_is_said_apart() {
        let proof = proof(vec![
            stretch("f (f.rs:1)", None, None),
            stretch("h (h.rs:3)", Some(7), Some(7)),
        ]);
        let shown = Shown {
            path: false,
            witness: true,
        };
        let text = text(&proof, shown);
        assert!(
            text.contains("     7        7   1.00  h (h.rs:3)\n"),
            "{text}"
        );
        assert!(
            text.contains("  f (f.rs:1)\n      a loop without a bound: g (g.rs:2)\n"),
            "{text}"
        );
        assert!(
            text.ends_with("1 of 2 stretches bounded, 1 states\n"),
            "{text}"
        );
    }
}
