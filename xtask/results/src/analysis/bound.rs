//! [`Bound`]: what a thread latency takes at most by the proof of the run's image, beside the longest that was observed.
//!
//! `max(POID, DST) + interrupt + PAIE + PSD`, and what other interrupts take: after D. B. de Oliveira, Casini, de Oliveira, Cucinotta,
//! "Demystifying the Real-Time Linux Scheduling Latency", ECRTS 2020, whose tool is `rtsl`. `docs/DEADLINES.md` says what each is here.

use std::fmt::{self, Write};
use std::fs;
use std::io;
use std::path::Path;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::arrivals::Arrivals;
use takt_base::term::printable;
use takt_base::{input, output};
use takt_machine::run::folder;

/// Instructions that QEMU's timer is late.
const LATE: u64 = 1;
/// The thread's first instruction, with which the switch ends.
const FIRST: u64 = 1;
/// The quickest records: bytes, and the instructions that they take.
const RECORD: [u64; 2] = [24, 15];
/// Looks for a window that contains all that happens in it.
const MOST_ROUNDS: u32 = 1000;

/// A part of the bound.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// Instructions.
    pub instructions: u64,
    /// Where that begins: function and line.
    pub place: String,
}

/// What is proved of the image, as the run had it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parts {
    /// The longest section with interrupts off.
    pub irqs_off: Part,
    /// The longest with preemption off, which may begin within one of those.
    pub preempt_off: Part,
    /// The longest section with a switch between threads.
    pub switching: Part,
    /// The timer's interrupt, to the thread that it wakes, with the timer's function.
    pub interrupt: Part,
    /// Where preemption was off: from there, with both enabled, to the switch.
    pub enabled: Part,
    /// The switch to the thread, and the thread's way to its clock.
    pub switch: Part,
    /// Another timer that expires, with its function.
    pub timer: Part,
    /// What comes on top where a record finds its sub-buffer full, or an interrupt has made one in its place.
    pub full: u64,
    /// Bytes of a sub-buffer.
    pub sub_size: u64,
}

/// What other interrupts take at most in a window as long as the bound.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interference {
    /// Instructions of all of them.
    pub instructions: u64,
    /// How many timers expire.
    pub timers: u64,
    /// How many sub-buffers are full, or records begun again.
    pub full: u64,
    /// The window.
    pub window: u64,
}

/// The bound, and what was observed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bound {
    /// Its parts.
    #[serde(flatten)]
    pub parts: Parts,
    /// What comes between.
    pub interference: Interference,
    /// The longest thread latency of the run, in ns.
    pub observed: u64,
    /// What is not in it.
    pub without: Vec<String>,
}

/// What is kept in the run's folder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kept {
    /// The bound.
    #[serde(rename = "proved")]
    Bound(Box<Bound>),
    /// Why there is none.
    None(String),
}

impl Parts {
    /// The longest that is waited until the interrupt is taken and may switch, whichever it is.
    fn before(&self) -> u64 {
        let poid = self.irqs_off.instructions + self.preempt_off.instructions;
        poid.max(self.switching.instructions)
    }

    /// All but what others do.
    fn own(&self) -> u64 {
        let behind = [&self.interrupt, &self.enabled, &self.switch];
        LATE + FIRST + self.before() + behind.map(|it| it.instructions).iter().sum::<u64>()
    }
}

impl Bound {
    /// Of these parts, where timers expire as the trace says. `None` if no window is long enough that is shorter than `period`.
    #[must_use]
    pub fn new(
        parts: Parts,
        arrivals: &Arrivals,
        period: u64,
        observed: u64,
        without: Vec<String>,
    ) -> Option<Self> {
        let own = parts.own();
        let each = parts.timer.instructions;
        // One is full when it has been written to for so long, and one more for a turn of the clock's upper half; each interrupt can
        // come in the middle of a record, which is begun again then.
        let [bytes, instructions] = RECORD;
        let to_full = (parts.sub_size / bytes * instructions).max(1);
        let nr_full = |takes: u64, timers: u64| match parts.full {
            0 => 0,
            _ => 2 + timers + takes / to_full,
        };
        let mut interference = Interference::default();
        for _ in 0..MOST_ROUNDS {
            // One that came before may run yet, and each may have been put off for as long as interrupts can be off.
            let window = own + interference.instructions + each + 2 * parts.before();
            if window > period {
                return None;
            }
            let timers = arrivals.most(window);
            let full = nr_full(own + interference.instructions, timers);
            let next = Interference {
                instructions: timers * each + full * parts.full,
                timers,
                full,
                window,
            };
            if next.instructions <= interference.instructions {
                return Some(Self {
                    parts,
                    interference: next,
                    observed,
                    without,
                });
            }
            interference = next;
        }
        None
    }

    /// The bound, in instructions.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.parts.own() + self.interference.instructions
    }

    /// Whether nothing longer was observed.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.observed <= self.total()
    }

    /// The bound as a multiple of what was observed.
    #[must_use]
    pub fn ratio(&self) -> f64 {
        self.total() as f64 / self.observed.max(1) as f64
    }

    /// Its rows: what, instructions, and where.
    #[must_use]
    pub fn rows(&self) -> Vec<(&'static str, u64, &str)> {
        let of = &self.parts;
        let mut rows: Vec<(&'static str, u64, &str)> = [
            ("Interrupts off (POID)", &of.irqs_off),
            ("Preemption off (POID)", &of.preempt_off),
            ("Switch between threads (DST)", &of.switching),
            ("Timer interrupt", &of.interrupt),
            ("Both enabled before the switch (PAIE)", &of.enabled),
            ("Switch to the thread (PSD)", &of.switch),
        ]
        .map(|(name, part)| (name, part.instructions, &*part.place))
        .into();
        let Interference { timers, full, .. } = self.interference;
        if timers > 0 {
            let all = timers * of.timer.instructions;
            rows.push(("Other timers", all, &of.timer.place));
        }
        if full > 0 {
            rows.push(("Records that take longer", full * of.full, ""));
        }
        rows
    }

    /// The sum in words.
    #[must_use]
    pub fn formula(&self) -> String {
        let others = match self.interference {
            Interference { timers: 0, .. } => String::new(),
            Interference { timers, window, .. } => {
                format!(", and {timers} that expire at most in any {window} ns of the trace")
            }
        };
        format!(
            "max(POID, DST) + interrupt + PAIE + PSD + {}{others}",
            LATE + FIRST
        )
    }
}

impl Kept {
    /// As it is printed.
    #[must_use]
    pub fn text(&self) -> String {
        let mut out = String::new();
        // Writing to a String does not fail.
        let _ = self.write_into(&mut out);
        printable(out.as_bytes())
    }

    fn write_into(&self, out: &mut String) -> fmt::Result {
        let bound = match self {
            Self::Bound(it) => it,
            Self::None(why) => return writeln!(out, "There is no proved bound: {why}.\n"),
        };
        writeln!(
            out,
            "## Proved bound of the thread latency, in instructions of 1 ns ##"
        )?;
        for (name, instructions, place) in bound.rows() {
            writeln!(
                out,
                "  {:<40}{instructions:>8}  {place}",
                format!("{name}:")
            )?;
        }
        writeln!(out, "{}", "-".repeat(50))?;
        writeln!(
            out,
            "  {:<40}{:>8}  {}",
            "Bound:",
            bound.total(),
            bound.formula()
        )?;
        writeln!(
            out,
            "  {:<40}{:>8}  the bound is {:.2} times that",
            "Observed maximum:",
            bound.observed,
            bound.ratio()
        )?;
        if !bound.holds() {
            writeln!(out, "{REFUTED}")?;
        }
        for it in &bound.without {
            writeln!(out, "  not in it: {it}")?;
        }
        writeln!(out)
    }

    /// Whether something longer was observed.
    #[must_use]
    pub fn is_refuted(&self) -> bool {
        matches!(self, Self::Bound(it) if !it.holds())
    }

    /// Reads it from a run's folder; `None` if it was not asked for.
    ///
    /// # Errors
    ///
    /// If the file is not what it should be.
    pub fn read(dir: &Path) -> Result<Option<Self>> {
        let path = dir.join(folder::BOUND);
        let text = match input::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => {
                return Err(error).with_context(|| format!("cannot read {}", path.display()));
            }
        };
        serde_json::from_str(&text)
            .map(Some)
            .with_context(|| format!("{} is damaged", path.display()))
    }

    /// Keeps it there.
    ///
    /// # Errors
    ///
    /// If it cannot be written.
    pub fn keep(&self, dir: &Path) -> Result<()> {
        let path = dir.join(folder::BOUND);
        fs::write(&path, output::json_pretty(self)?)
            .with_context(|| format!("cannot write {}", path.display()))
    }
}

/// What is said where the analysis is wrong.
pub const REFUTED: &str = "  More was observed than the bound: the analysis is wrong.";

#[cfg(test)]
mod tests {
    use super::*;

    fn parts() -> Parts {
        let part = |instructions| Part {
            instructions,
            place: "f (f.rs:1)".into(),
        };
        Parts {
            irqs_off: part(100),
            preempt_off: part(50),
            switching: part(170),
            interrupt: part(300),
            enabled: part(10),
            switch: part(60),
            timer: part(200),
            full: 0,
            sub_size: 4096,
        }
    }

    fn bound(at: &[u64], observed: u64) -> Option<Bound> {
        Bound::new(parts(), &Arrivals::at(at), 100_000, observed, Vec::new())
    }

    #[test]
    fn the_longer_wait_counts_and_what_others_do_comes_on_top() {
        let own = LATE + FIRST + 170 + 300 + 10 + 60;
        let alone = bound(&[], 500).unwrap();
        assert_eq!(alone.total(), own);
        assert!(alone.holds());
        // Three in a window of that length, and with them it is longer: then there are four.
        let window = own + 200 + 2 * 170;
        let some = [7, window - 1, window + 200, 50_000];
        let found = bound(&some, 500).unwrap();
        assert_eq!(found.interference.timers, 3);
        assert_eq!(found.total(), own + 3 * 200);
        // They would never end.
        let all: Vec<u64> = (0..1000).map(|nr| nr * 150).collect();
        assert_eq!(bound(&all, 500), None);
    }

    #[test]
    fn a_sub_buffer_may_be_full_each_time_that_so_much_can_have_been_written() {
        let parts = Parts {
            full: 300,
            ..parts()
        };
        let found =
            Bound::new(parts.clone(), &Arrivals::default(), 100_000, 1, Vec::new()).unwrap();
        assert_eq!(found.interference.full, 2);
        assert_eq!(found.total(), LATE + FIRST + 170 + 300 + 10 + 60 + 2 * 300);
        let small = Parts {
            sub_size: 1200,
            ..parts
        };
        let found = Bound::new(small, &Arrivals::default(), 100_000, 1, Vec::new()).unwrap();
        assert!(found.interference.full > 2);
    }

    #[test]
    fn a_bound_below_what_was_observed_is_refuted_and_says_so() {
        let own = LATE + FIRST + 170 + 300 + 10 + 60;
        let text = |observed| Kept::Bound(Box::new(bound(&[], observed).unwrap()));
        assert!(!text(own).is_refuted());
        assert!(!text(own).text().contains(REFUTED));
        let refuted = text(own + 1);
        assert!(refuted.is_refuted());
        assert!(refuted.text().contains(REFUTED), "{}", refuted.text());
        let none = Kept::None("there are 2 CPUs".into());
        assert!(!none.is_refuted());
        assert!(none.text().contains("no proved bound: there are 2 CPUs."));
    }
}
