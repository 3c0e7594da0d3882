//! What operations between two CPUs take of a lock of the kernel's, from the image with on-target tests.

use std::io::{BufReader, Read};

use anyhow::{Context, Result, ensure};

use super::{Values, images};
use crate::commands::test::{self, waits};
use takt_base::input;
use takt_machine::counted::Plugin;
use takt_machine::counted::log::Log;
use takt_machine::run::once::Folder;
use takt_results::analysis::marks::Mark;
use waits::{Counts, Waits};

/// What the image calls where it begins and ends with an operation.
const BORDER: &str = "takt_stretch";
/// The test that has the operations.
const TEST: &str = "lock::operations_are_made_on_each_cpu";
/// The most CPUs that an image can have.
const MAX_CPUS: u64 = 8;

/// Notes how often the lock is taken and how long it is waited for, and for how long it is held at most.
pub(super) fn measure(folder: &Folder, values: &mut Values) -> Result<()> {
    let image = test::ontarget()?;
    let marks = waits::marks(&image);
    let addresses = marks.iter().map(|(address, _)| *address);
    let plugin = Plugin::with_marks(addresses.chain([image.symbol(BORDER)?]))?;
    let path = folder.path("locks");
    let words = format!("capture=off cpus=2 test={TEST}");
    let booted = folder.boot_on(2, &image, &words, |arguments| {
        plugin.added_to(arguments, &path, None)
    })?;
    let operations = images::lines(&booted.serial)?;
    let file = input::open(&path).context("cannot read the log of executed instructions")?;
    let found = find(Log::new(BufReader::new(file))?, &marks)?;
    ensure!(
        found.stretches.len() == operations.len(),
        "the image has done {} operations and reported {}",
        found.stretches.len(),
        operations.len()
    );
    for ((name, nr), counts) in operations.iter().zip(found.stretches) {
        let per_hundred = |count: u64| count * 100 / nr.max(&1);
        values.insert(format!("lock-{name}"), per_hundred(counts.acquired));
        values.insert(format!("lock-{name}-waited"), per_hundred(counts.waited));
    }
    values.insert("lock-held".into(), found.longest_held);
    values.insert("lock-wait".into(), (MAX_CPUS - 1) * found.longest_held);
    Ok(())
}

#[derive(PartialEq, Eq, Debug)]
struct Found {
    /// Of each operation, in their order.
    stretches: Vec<Counts>,
    longest_held: u64,
}

/// Mark `marks.len()` is where an operation begins, and where it ends.
fn find(mut log: Log<impl Read>, marks: &[(u64, Mark)]) -> Result<Found> {
    let (mut waits, mut stretches, mut begun) = (Waits::default(), Vec::new(), None);
    while let Some(event) = log.next_event()? {
        let number = event.mark.map(|number| number as usize);
        let mark = number.and_then(|number| marks.get(number));
        waits.see(&event, mark.map(|(_, mark)| *mark));
        if number == Some(marks.len()) {
            begun = match begun {
                None => Some(waits.counts),
                Some(Counts { acquired, waited }) => {
                    stretches.push(Counts {
                        acquired: waits.counts.acquired - acquired,
                        waited: waits.counts.waited - waited,
                    });
                    None
                }
            };
        }
    }
    Ok(Found {
        stretches,
        longest_held: waits.longest_held,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use takt_machine::counted::format::{Entry, MAGIC};

    #[test]
    fn what_lies_between_two_borders_is_an_operations() {
        let marks = [Mark::LockWait, Mark::Locked, Mark::Unlocked];
        let marks: Vec<_> = (0..).zip(marks).collect();
        let mut bytes = MAGIC.to_vec();
        for (instructions, mark) in [
            (5, 1),
            (9, 2),
            (4, 3),
            (3, 1),
            (7, 2),
            (2, 0),
            (2, 3),
            (8, 0),
            (1, 3),
            (1, 3),
        ] {
            Entry::Mark(mark).write(&mut bytes, instructions).unwrap();
        }
        Entry::End.write(&mut bytes, 1).unwrap();
        let found = find(Log::new(&bytes[..]).unwrap(), &marks).unwrap();
        let counts = |acquired, waits: u64| Counts {
            acquired,
            waited: 4 * waits,
        };
        let expected = Found {
            stretches: vec![counts(1, 1), counts(0, 0)],
            longest_held: 9,
        };
        assert_eq!(found, expected);
    }
}
