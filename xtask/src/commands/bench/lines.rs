//! How many cache lines of the kernel's data a switch touches: the image boots once more with its accesses to memory counted, but for
//! those to stacks, and to where the benchmark notes the time.

use std::io::{BufReader, Read};

use anyhow::{Context, Result};

use super::executed::{MARK, stamps};
use takt_guest::Elf;
use takt_machine::counted::Plugin;
use takt_machine::counted::log::Log;
use takt_machine::run::once::Folder;

/// The row whose accesses are counted: from before one thread's yield to after the other's.
const ROW: &str = "yield";
/// Where the time is noted (`takt_bench::clock::START`).
const NOTED: &str = "takt_bench_start";

/// The lines that a yield to an equal touches; `rows` is what the image has said of itself.
pub(super) fn of_yield(elf: &Elf, folder: &Folder, rows: &[(String, u64)]) -> Result<u64> {
    let marks = std::iter::once(elf.symbol(MARK)?).chain(stamps(elf)?);
    let noted = elf.symbol(NOTED)?;
    let stacks = elf.symbol("__window_start")?..elf.symbol("__window_end")?;
    let others = [noted..noted + 4, stacks];
    let plugin = Plugin::with_marks(marks)?.counting_lines(&others);
    let path = folder.path("lines");
    folder.boot_counting(elf, |arguments| plugin.added_to(arguments, &path, None))?;
    let file =
        takt_base::input::open(&path).context("cannot read the log of accesses to memory")?;
    find(Log::new(BufReader::new(file))?, rows)
}

/// Mark 0 is the report of a row, each other one a reading of the time. The last two before a row's report that are as far apart
/// as the row says are those that it was measured by.
fn find(mut log: Log<impl Read>, rows: &[(String, u64)]) -> Result<u64> {
    let place = rows.iter().position(|(name, _)| name == ROW);
    let place = place.with_context(|| format!("the image has no row `{ROW}`"))?;
    let (mut nr_reported, mut last, mut found) = (0, None, None);
    while let Some(event) = log.next_event()? {
        match event.mark {
            Some(0) if nr_reported == place => {
                return found
                    .context("no two readings of the time are as far apart as the row says");
            }
            Some(0) => nr_reported += 1,
            Some(_) => {
                let apart = last.replace(event.at).map(|last| event.at - last);
                if apart == Some(rows[place].1) {
                    found = Some(u64::from(log.lines()));
                }
            }
            None => {}
        }
    }
    anyhow::bail!("the image has reported {nr_reported} rows with its accesses counted")
}

#[cfg(test)]
mod tests {
    use super::*;
    use takt_machine::counted::format::{Entry, MAGIC};

    #[test]
    fn the_last_stretch_before_the_report_counts() {
        let rows = [("x", 4), ("yield", 4)].map(|(name, value)| (name.to_owned(), value));
        let marks = [
            (3, 0, 1),
            (4, 9, 2),
            (7, 9, 0),
            (2, 9, 1),
            (4, 6, 2),
            (4, 5, 1),
            (3, 2, 2),
            (1, 9, 0),
            (5, 1, 0),
        ];
        let mut bytes = MAGIC.to_vec();
        for (instructions, lines, mark) in marks {
            Entry::Lines(lines).write(&mut bytes, instructions).unwrap();
            Entry::Mark(mark).write(&mut bytes, 0).unwrap();
        }
        let log = || Log::new(&bytes[..]).unwrap();
        assert_eq!(find(log(), &rows).unwrap(), 5);
        assert!(find(log(), &rows[..1]).is_err());
    }
}
