//! What several CPUs do at the kernel's locks, counted from outside, under icount: while the random stress runs, and for `bench`.

use std::io::BufReader;
use std::path::Path;

use anyhow::{Context, Result, ensure};

use takt_guest::Elf;
use takt_machine::counted::log::{Event, Log};
use takt_results::analysis::marks::{Mark, Marks};

/// Instructions of a round of waiting: PAUSE, a jump, a comparison and another jump.
const ROUND: u64 = 4;
/// In instructions, for how long one section may keep other CPUs out. With N CPUs a wait is at most N - 1 times that.
const LONGEST: u64 = 142;
/// How often the lock may be taken in 100 operations on objects, and for how many instructions it may be waited for.
const MOST: (u64, u64) = (400, 100);

/// The instructions of an image at which something becomes of the lock.
pub(in crate::commands) fn marks(image: &Elf) -> Vec<(u64, Mark)> {
    let marks = Marks::of(image);
    (0..)
        .map_while(|number| marks.get(number))
        .filter(|(_, mark)| matches!(mark, Mark::LockWait | Mark::Locked | Mark::Unlocked))
        .collect()
}

/// How often the lock was taken, and for how many instructions it was waited for.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(in crate::commands) struct Counts {
    pub(in crate::commands) acquired: u64,
    pub(in crate::commands) waited: u64,
}

/// What the CPUs did.
#[derive(Default)]
pub(in crate::commands) struct Waits {
    pub(in crate::commands) counts: Counts,
    pub(in crate::commands) longest_held: u64,
    /// Of each CPU: the instructions that it has executed, and had when its section began.
    cpus: Vec<(u64, Option<u64>)>,
    /// Whose turn it is, since when.
    turn: (usize, u64),
}

impl Waits {
    /// Something was executed, which has this mark.
    pub(in crate::commands) fn see(&mut self, event: &Event, mark: Option<Mark>) {
        let cpu = event.cpu as usize;
        self.cpus.resize(self.cpus.len().max(cpu + 1), (0, None));
        let (running, since) = std::mem::replace(&mut self.turn, (cpu, event.at));
        self.cpus[running].0 += event.at - since;
        let (executed, begun) = &mut self.cpus[cpu];
        match mark {
            Some(Mark::LockWait) => self.counts.waited += ROUND,
            Some(Mark::Locked) => {
                self.counts.acquired += 1;
                *begun = Some(*executed);
            }
            Some(Mark::Unlocked) => {
                let held = begun.take().map_or(0, |begun| *executed - begun);
                self.longest_held = self.longest_held.max(held);
            }
            _ => {}
        }
    }
}

/// What the plugin has logged of a guest, in words; `notes` are the guest's, which begin with how many operations it did.
///
/// # Errors
/// If the lock was held for too long; or, for a stress of objects, taken or waited for too often.
pub(super) fn describe(
    log: &Path,
    marks: &[(u64, Mark)],
    notes: &str,
    is_of_objects: bool,
) -> Result<String> {
    let operations = notes.trim_start_matches([' ', '(']).split(' ').next();
    let operations: u64 = operations
        .and_then(|number| number.parse().ok())
        .with_context(|| format!("no number of operations in `{notes}`"))?;
    let file =
        takt_base::input::open(log).context("cannot read the log of executed instructions")?;
    let mut log = Log::new(BufReader::new(file))?;
    let mut waits = Waits::default();
    while let Some(event) = log.next_event()? {
        let mark = event.mark.and_then(|number| marks.get(number as usize));
        waits.see(&event, mark.map(|(_, mark)| *mark));
    }
    let Counts { acquired, waited } = waits.counts;
    ensure!(
        acquired > 0 && operations > 0,
        "nobody has taken a lock of the kernel's"
    );
    let longest = waits.longest_held;
    ensure!(
        longest <= LONGEST,
        "others were kept out for {longest} instructions"
    );
    ensure!(
        !is_of_objects
            || acquired * 100 <= MOST.0 * operations && waited * 100 <= MOST.1 * operations,
        "{acquired} acquisitions and {waited} instructions waited in {operations} operations"
    );
    let each = |count: u64| {
        format!(
            "{}.{:02}",
            count / operations,
            count * 100 / operations % 100
        )
    };
    Ok(format!(
        " (kernel's locks: {} acquisitions and {} instructions waited an operation, held for {longest} at most)",
        each(acquired),
        each(waited)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_another_cpu_executes_in_between_is_not_held() {
        let mut waits = Waits::default();
        let event = |at, cpu| Event {
            at,
            cpu,
            mark: None,
        };
        for (at, cpu, mark) in [
            (10, 0, Some(Mark::Locked)),
            (15, 1, None),
            (18, 1, Some(Mark::LockWait)),
            (20, 0, None),
            (27, 0, Some(Mark::Unlocked)),
        ] {
            waits.see(&event(at, cpu), mark);
        }
        assert_eq!(
            (waits.counts, waits.longest_held),
            (
                Counts {
                    acquired: 1,
                    waited: ROUND
                },
                12
            )
        );
    }
}
