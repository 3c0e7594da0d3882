//! The two sides of a comparison: the named runs and, in real time, those that count with them.
//!
//! Runs count together (they are replicates) if they differ in nothing that is known: configuration, revision, host,
//! QEMU. A revision with changes that are not committed, or an image of the user's own, does not say what was measured, so
//! nothing is counted with such a run unless the user names it.

use std::collections::BTreeSet;

use crate::history::{Entry, History};
use anyhow::{Result, anyhow};
use takt_base::term::{WithHelp, note};

use super::select;

/// One side.
#[derive(Debug)]
pub(super) struct Side {
    /// Its runs; the first is the one that was named, or named first, unless that is unsound.
    pub(super) runs: Vec<Entry>,
    /// Named runs that did not pass, or were interrupted, and so are no evidence of the system.
    pub(super) unsound: Vec<Entry>,
    /// The id of the run that was named, or named first.
    first: String,
    /// Whether the user named several.
    pub(super) is_list: bool,
    /// Runs of the same system that did not pass, and do not count.
    pub(super) nr_left_out: usize,
}

impl Side {
    /// The runs that are named: one, or several with commas in between.
    pub(super) fn named(history: &History, names: &str) -> Result<Self> {
        let mut runs: Vec<Entry> = Vec::new();
        for name in names.split(',') {
            let place = select::one(history, name.trim())?;
            refuse_twice(&runs, &place.id)?;
            runs.push(history.entry(&place)?);
        }
        Ok(Self {
            first: runs.first().map(|run| run.id.clone()).unwrap_or_default(),
            is_list: runs.len() > 1,
            runs,
            unsound: Vec::new(),
            nr_left_out: 0,
        })
    }

    /// The run that was named.
    pub(super) fn first(&self) -> &Entry {
        match self.unsound.iter().find(|run| run.id == self.first) {
            Some(unsound) => unsound,
            None => &self.runs[0],
        }
    }

    /// Puts aside what was named and is no evidence, unless the user insists.
    pub(super) fn leave_out_unsound(&mut self, is_forced: bool) {
        if !is_forced {
            let runs = std::mem::take(&mut self.runs);
            (self.runs, self.unsound) = runs.into_iter().partition(|run| run.record.has_passed());
        }
    }

    /// Adds what the history has of the same system and the other side does not.
    fn add_replicates(&mut self, history: &History, other: &Self) -> Result<()> {
        if self.is_list {
            return Ok(());
        }
        let named = self.first();
        let Some(system) = System::of(named) else {
            return Ok(());
        };
        let mut replicates = Vec::new();
        let mut nr_left_out = 0;
        for place in history.of_configuration(&named.configuration().key())? {
            let id = &place.id;
            if *id == named.id || other.runs.iter().any(|run| run.id == *id) {
                continue;
            }
            let Some(entry) = history.sound_entry(&place)? else {
                continue;
            };
            if System::of(&entry).as_ref() != Some(&system) {
                continue;
            }
            if entry.record.has_passed() {
                replicates.push(entry);
            } else {
                nr_left_out += 1;
            }
        }
        self.nr_left_out = nr_left_out;
        self.runs.extend(replicates);
        Ok(())
    }
}

/// Refuses a run that is among these already.
pub(super) fn refuse_twice(runs: &[Entry], id: &str) -> Result<()> {
    if runs.iter().any(|run| run.id == id) {
        return Err(anyhow!("run {} is named twice", select::short(id)))
            .help("name each run once: cargo xtask history list");
    }
    Ok(())
}

/// Refuses runs of different configurations unless the user insists, and says what differs.
pub(super) fn check_alike(a: &Entry, b: &Entry, is_forced: bool) -> Result<()> {
    let differences = a.configuration().differences(&b.configuration());
    if differences.is_empty() {
        return Ok(());
    }
    let lines: Vec<_> = differences
        .iter()
        .map(|(field, ours, theirs)| format!("{field}: {ours} and {theirs}"))
        .collect();
    let said = format!(
        "{} and {} have different configurations: {}",
        select::short(&a.id),
        select::short(&b.id),
        lines.join("; ")
    );
    if is_forced {
        note(said);
        return Ok(());
    }
    Err(anyhow!(said)).help("--force does it all the same")
}

/// Refuses a run that is on both sides.
pub(super) fn check_distinct(a: &Side, b: &Side) -> Result<()> {
    match b.runs.iter().find(|b| a.runs.iter().any(|a| a.id == b.id)) {
        None => Ok(()),
        Some(both) => Err(anyhow!(
            "A and B are the same run, {}: there is nothing to compare",
            select::short(&both.id)
        ))
        .help("name two runs, as in `history compare latest~1 latest`; cargo xtask history list"),
    }
}

/// Adds the replicates to both sides. Two single runs of the same system have none: there is one group, not two.
pub(super) fn add_replicates(history: &History, a: &mut Side, b: &mut Side) -> Result<()> {
    if are_same_system(a, b) {
        return Ok(());
    }
    a.add_replicates(history, b)?;
    b.add_replicates(history, a)
}

/// Whether both sides are one run each, and nothing known tells these apart.
pub(super) fn are_same_system(a: &Side, b: &Side) -> bool {
    let is_listed = a.is_list || b.is_list;
    let (first, second) = (System::of(a.first()), System::of(b.first()));
    !is_listed && first.is_some() && first == second
}

/// Whether it is known what a run has measured.
fn is_known(entry: &Entry) -> bool {
    System::of(entry).is_some()
}

/// What no test can know.
pub(super) fn caveats(a: &Side, b: &Side, is_tested: bool) -> Vec<String> {
    let mut caveats = Vec::new();
    for (name, side) in [("A", a), ("B", b)] {
        let revisions: BTreeSet<_> = side.runs.iter().map(|run| &*run.record.git).collect();
        if revisions.len() > 1 {
            let revisions: Vec<_> = revisions.into_iter().collect();
            caveats.push(format!(
                "{name} has runs of several revisions: {}.",
                revisions.join(", ")
            ));
        }
        let forced = side.runs.iter().filter(|run| !run.record.has_passed());
        let forced: Vec<_> = forced.map(|run| select::short(&run.id)).collect();
        if !forced.is_empty() {
            caveats.push(format!(
                "Of {name}, {} did not pass or come to an end, and counts by --force.",
                forced.join(", ")
            ));
        }
        let unsound: Vec<_> = side
            .unsound
            .iter()
            .map(|it| select::short(&it.id))
            .collect();
        if !unsound.is_empty() {
            caveats.push(format!(
                "Of {name}, {} did not pass or come to an end, and is no evidence (--force counts it).",
                unsound.join(", ")
            ));
        }
        if side.nr_left_out != 0 {
            caveats.push(format!(
                "{} of {name}'s runs are left out: they did not pass, or were interrupted.",
                side.nr_left_out
            ));
        }
        if !side.is_list && !is_known(side.first()) {
            caveats.push(format!(
                "Revision {} does not say what {name} has measured, so no other run counts with it; name the runs \
                 yourself, with commas in between.",
                side.first().record.git
            ));
        }
    }
    let times = |side: &Side| {
        let times = side.runs.iter().map(|run| run.finished_unix_ns);
        (times.clone().min(), times.max())
    };
    let (a, b) = (times(a), times(b));
    if is_tested && (a.1 < b.0 || b.1 < a.0) {
        caveats.push(
            "All runs of one side were made before those of the other: what changed on the host in between looks like a \
             difference of the systems. Make them in turns."
                .into(),
        );
    } else {
        caveats.push(
            "It takes runs of A and B made in turns, on a host that does the same all the while."
                .into(),
        );
    }
    if is_tested {
        caveats.push(
            "The level is for one look: who goes on until a difference is shown will see one. Decide how many runs it \
             takes beforehand."
                .into(),
        );
    }
    caveats
}

/// What was measured, and where.
#[derive(PartialEq, Eq)]
struct System {
    configuration: String,
    revision: String,
    host: [String; 3],
}

impl System {
    /// That of a run; `None` if it is not known.
    fn of(entry: &Entry) -> Option<Self> {
        let record = &entry.record;
        let is_known = record.git != "unknown"
            && !record.git.ends_with("-dirty")
            && entry.setup.image.is_none();
        let host = &record.host;
        is_known.then(|| Self {
            configuration: entry.configuration().key(),
            revision: record.git.clone(),
            host: [&host.cpu, &host.kernel, &host.qemu].map(String::clone),
        })
    }
}
