//! Of which functions the rows consist. The image boots once more with every instruction on record; a row's are those
//! between the two readings of the time whose difference it is.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io::{BufRead, BufReader};
use std::ops::Range;

use anyhow::{Context, Result, bail};

use takt_guest::Elf;
use takt_guest::place::Names;
use takt_guest::symbolize::{SymbolNames, Symbolizer};
use takt_machine::qemu::executed::{Executed, logged};
use takt_machine::qemu::{self, pipe};
use takt_machine::run::once::Folder;
use takt_sweep::budget::file::Functions;

/// What the image calls with each row that it reports (`takt_bench::report`).
pub(super) const MARK: &str = "takt_bench_row";
/// The function that reads the time.
const STAMP: &str = "takt_bench::clock::stamp";
/// RDTSC.
const READING: [u8; 2] = [0x0f, 0x31];
/// Functions that wait for the clock at boot, some ten million instructions: nothing of interest.
const WAITS: [&str; 2] = ["takt_board::start::start", "__udivti3"];
/// Rows of records that begin a sub-buffer, and the one that stands for all.
const WORST: &str = "event-worst-";
const ONE_WORST: &str = "-text_one";
/// Readings that may lie between the two of a row: those of others, in handlers.
const BETWEEN: usize = 8;

/// The functions of each row of `rows` that is the difference of two readings. The others, averages and the like, have none.
pub(super) fn functions(
    elf: &Elf,
    folder: &Folder,
    rows: &[(String, u64)],
) -> Result<BTreeMap<String, Functions>> {
    let log = folder.path("executed");
    let version = qemu::version().unwrap_or_default();
    let ranges = ranges(elf)?;
    let reader = Reader::new(elf, rows)?;
    let (found, _) = pipe::read_along(
        &log,
        |file| reader.read(BufReader::with_capacity(1 << 20, file), elf),
        || folder.boot_counting(elf, |arguments| logged(arguments, &version, &ranges, &log)),
    )?;
    if found.nr != rows.len() {
        bail!(
            "the image reported {} rows, and {} with its instructions on record",
            rows.len(),
            found.nr
        );
    }
    let names = Names::new(elf);
    let functions = |counts| names.functions(counts).into_iter().collect();
    Ok(found
        .found
        .into_iter()
        .map(|(row, counts)| (row, functions(counts)))
        .collect())
}

/// The code without what waits at boot.
///
/// # Errors
/// If the image has no text.
pub(in crate::commands) fn ranges(elf: &Elf) -> Result<Vec<Range<u64>>> {
    let names = SymbolNames::new(elf);
    let mut begin = elf.symbol("__text_start")?;
    let mut ranges = Vec::new();
    for (address, name) in names.iter() {
        if WAITS.contains(&takt_guest::symbolize::without_hash(&name)) {
            ranges.push(begin..address);
            let size = names.find(address).map_or(0, |(_, _, size)| size);
            begin = address + size;
        }
    }
    ranges.push(begin..elf.code_end());
    Ok(ranges)
}

/// How often each instruction is executed.
type Counts = HashMap<u64, u32>;

/// Reads along.
#[derive(Debug)]
struct Reader<'r> {
    rows: &'r [(String, u64)],
    /// What two readings in a row differ by.
    own: u64,
    mark: u64,
    stamps: HashSet<u64>,
    /// What was executed since the first reading after a report.
    ips: Vec<u64>,
    /// Where in it the readings are.
    readings: Vec<usize>,
    /// The rows that were reported since the last reading.
    reported: Vec<&'r (String, u64)>,
    /// Rows so far.
    nr: usize,
    found: BTreeMap<String, Counts>,
}

impl<'r> Reader<'r> {
    fn new(elf: &Elf, rows: &'r [(String, u64)]) -> Result<Self> {
        let own = rows.iter().find(|(name, _)| name == "own-cost");
        Ok(Self {
            rows,
            own: own
                .context("the image has not said what a reading costs")?
                .1,
            mark: elf.symbol(MARK)?,
            stamps: stamps(elf)?,
            ips: Vec::new(),
            readings: Vec::new(),
            reported: Vec::new(),
            nr: 0,
            found: BTreeMap::new(),
        })
    }

    fn read(mut self, log: impl BufRead, elf: &Elf) -> Result<Self> {
        for ip in Executed::new(log, |ip| elf.code_at(ip)) {
            self.add(ip.context("cannot read what QEMU executes")?);
        }
        self.explain();
        Ok(self)
    }

    fn add(&mut self, ip: u64) {
        if ip == self.mark {
            self.reported.extend(self.rows.get(self.nr));
            self.nr += 1;
            return;
        }
        if self.stamps.contains(&ip) {
            if !self.reported.is_empty() {
                self.explain();
            }
            self.readings.push(self.ips.len());
        }
        self.ips.push(ip);
    }

    /// Finds the instructions of what was reported, and forgets them. Rows that are reported together were measured in that
    /// order: of several stretches that are as long as a row the last before the next row's is meant.
    fn explain(&mut self) {
        let mut next = self.ips.len();
        for (name, value) in std::mem::take(&mut self.reported).into_iter().rev() {
            let range = self.between(name, *value, next);
            let Some(ips) = range.clone().and_then(|range| self.ips.get(range)) else {
                continue;
            };
            let mut counts = Counts::new();
            for ip in ips {
                *counts.entry(*ip).or_default() += 1;
            }
            self.found.insert(name.clone(), counts);
            next = range.map_or(next, |range| range.start);
        }
        self.ips.clear();
        self.readings.clear();
    }

    /// The instructions between two readings that are as far apart as the row says: the last before `next`, else the last.
    fn between(&self, name: &str, value: u64, next: usize) -> Option<Range<usize>> {
        // An event that is off is one instruction, that of the place; and where a sub-buffer is full all go one way.
        if name.starts_with("event-off-") || name.starts_with(WORST) && !name.ends_with(ONE_WORST) {
            return None;
        }
        // Rows of events are without the reading's own cost, this one is the difference of two.
        let is_event = name.starts_with("event-") && !name.starts_with("event-bytes-");
        if name.starts_with("event-bytes-") || name.ends_with("-adds") {
            return None;
        }
        let apart = usize::try_from(value + if is_event { self.own } else { 0 }).ok()?;
        // As few readings in between as can be: two that are far from each other may be as far apart by chance.
        (1..=BETWEEN).find_map(|gap| {
            let pairs = || {
                let both = self.readings.iter().zip(self.readings.get(gap..)?);
                Some(both.filter(|(from, to)| *to - *from == apart).rev())
            };
            let before = pairs()?.find(|(from, _)| **from < next);
            let (from, to) = before.or_else(|| pairs()?.next())?;
            Some(*from..*to)
        })
    }
}

/// The readings of the time that the image makes itself.
pub(super) fn stamps(elf: &Elf) -> Result<HashSet<u64>> {
    let begin = elf.symbol("__text_start")?;
    let lines = Symbolizer::new(elf);
    let is_own = |ip: &u64| lines.lookup(*ip).iter().any(|it| it.starts_with(STAMP));
    let pairs = elf.code_at(begin).windows(READING.len());
    let found: HashSet<_> = (begin..)
        .zip(pairs)
        .filter(|(_, code)| *code == READING)
        .map(|(ip, _)| ip)
        .filter(is_own)
        .collect();
    if found.is_empty() {
        bail!("{} has no readings of the time", elf.path.display());
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MARK_AT: u64 = 1;
    const STAMP_AT: u64 = 2;

    fn read<'r>(rows: &'r [(String, u64)], ips: &[u64]) -> Reader<'r> {
        let mut reader = Reader {
            rows,
            own: 2,
            mark: MARK_AT,
            stamps: HashSet::from([STAMP_AT]),
            ips: Vec::new(),
            readings: Vec::new(),
            reported: Vec::new(),
            nr: 0,
            found: BTreeMap::new(),
        };
        ips.iter().for_each(|ip| reader.add(*ip));
        reader.explain();
        reader
    }

    #[test]
    fn a_row_is_what_lies_between_its_readings() {
        let rows = ["a", "b", "event-c", "average", "x-adds", "d", "e", "f"].map(str::to_owned);
        let rows: Vec<_> = rows.into_iter().zip([3, 5, 1, 7, 2, 3, 3, 4]).collect();
        let (s, m) = (STAMP_AT, MARK_AT);
        let ips = [
            9, s, 10, s, 11, 12, s, m, 80, // a: the last three; 11 and 12
            m, 81, // b: five, of the same readings: 10, 11, 12
            s, 20, 21, s, m, // c: without its own cost
            s, 30, s, m, // an average
            s, 40, s, m, s, 50, 51, s, s, 52, 53, s, 54, 55, 56,
            s, // a first round of d, e and f
            s, 60, 61, s, s, 62, 63, s, 64, 65, 66, s, m, m, m,
        ];
        let reader = read(&rows, &ips);
        assert_eq!(reader.nr, rows.len());
        let of = |name: &str| {
            let counts = reader.found.get(name)?;
            let mut ips: Vec<_> = counts.keys().copied().collect();
            ips.sort_unstable();
            Some(ips)
        };
        assert_eq!(of("a"), Some(vec![s, 11, 12]));
        assert_eq!(of("b"), Some(vec![s, 10, 11, 12]));
        assert_eq!(of("event-c"), Some(vec![s, 20, 21]));
        // Of the last round, in their order.
        assert_eq!(of("d"), Some(vec![s, 60, 61]));
        assert_eq!(of("e"), Some(vec![s, 62, 63]));
        assert_eq!(of("f"), Some(vec![s, 64, 65, 66]));
        assert_eq!((of("average"), of("x-adds")), (None, None));
    }
}
