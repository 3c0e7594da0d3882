//! What came of a storm of writers (`tests/src/bin/ontarget/storm.rs`): every record is as it was written, or counted as
//! lost.

use std::io::BufReader;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use takt_decode::{EventTable, Item, Record, TraceFile, Value};

use takt_guest::{Elf, events};
use takt_machine::run::demux::{FileFacts, Rest, demux};
use takt_machine::run::folder::TRACE;

/// Names of the writers, in the order of their numbers.
const WRITERS: [&str; 3] = ["thread", "interrupt", "nmi"];
/// The longest text.
const MAX_TEXT: u32 = 40;
/// In an 8-byte record there are so many bits for the number.
const NUMBER_BITS: u32 = 22;
/// Fewer NMIs than this are no storm.
const MIN_NMIS: u64 = 500;

/// The counts that the guest prints at the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Counts {
    /// What each writer recorded, or tried to.
    recorded: [u64; 3],
    entries: u64,
    dropped: u64,
    commit_overrun: u64,
    overrun: u64,
}

impl Counts {
    fn parse(serial: &str) -> Result<Self> {
        let line = serial
            .lines()
            .find_map(|line| line.split_once("storm: "))
            .context("the guest says nothing of its storm")?
            .1;
        let of = |name: &str| {
            line.split_whitespace()
                .filter_map(|word| word.split_once('='))
                .find(|(key, _)| *key == name)
                .and_then(|(_, value)| value.parse().ok())
                .with_context(|| format!("no number of {name} in `{line}`"))
        };
        Ok(Self {
            recorded: [of(WRITERS[0])?, of(WRITERS[1])?, of(WRITERS[2])?],
            entries: of("entries")?,
            dropped: of("dropped")?,
            commit_overrun: of("commit_overrun")?,
            overrun: of("overrun")?,
        })
    }
}

/// What was found so far.
#[derive(Debug, Default)]
struct Found {
    decoded: [u64; 3],
    /// The number that is due, once one was seen.
    next: [Option<u32>; 3],
    /// Numbers that are missing between two records of a writer.
    missing: u64,
    /// Events that the headers say are lost.
    lost: u64,
    ts: u64,
}

/// Judges the capture in `dir` of a guest that wrote this to the serial port; gives what was found.
///
/// # Errors
///
/// What is wrong: a record that is damaged, out of order or not what was written, or one that is missing and not counted.
pub(super) fn judge(image: &Elf, dir: &Path, serial: &str) -> Result<String> {
    let counts = Counts::parse(serial)?;
    let facts = FileFacts {
        tsc_hz: 1_000_000_000, // nobody asks for times in ns
        image: 0,
        nr_cpus: 1,
        nr_subs: 0,
    };
    let capture = demux(&dir.join("capture.bin"), dir, facts, &Rest::default())?;
    ensure!(
        capture.trace.missing == 0 && capture.damage == Default::default(),
        "the capture is damaged: {capture:?}"
    );
    let file = takt_base::input::open(dir.join(TRACE)).context("cannot open the trace")?;
    let mut trace = TraceFile::open(BufReader::new(file))?;
    ensure!(
        trace.nr_damages() == 0,
        "damaged frames: {:?}",
        trace.damage()
    );
    let table: EventTable = events::table(image)?;
    let mut found = Found::default();
    for item in trace.merge(&table) {
        match item? {
            Item::Record(record) => found.record(&record)?,
            Item::Lost {
                events,
                sub_buffers,
                ..
            } => found.lost(events, sub_buffers)?,
            Item::Damage(damage) => bail!("damaged: {damage:?}, after {found:?}"),
        }
    }
    found.settle(&counts)
}

impl Found {
    fn record(&mut self, record: &Record<'_>) -> Result<()> {
        let said = || format!("{} {:?} at {}", record.event.name, record.values, record.ts);
        ensure!(record.ts >= self.ts, "time goes back: {}", said());
        self.ts = record.ts;
        let writer = record.number("writer").context("no writer")?;
        let at = usize::try_from(writer)?;
        ensure!(at < WRITERS.len(), "an unknown writer: {}", said());
        let number = record.number("number").context("no number")?;
        let number = u32::try_from(number)?;
        // Of the shortest record the number is known modulo its bits.
        let mask = match record.event.name.as_str() {
            "storm:small" => (1 << NUMBER_BITS) - 1,
            _ => u32::MAX,
        };
        let due = self.next[at];
        let ahead = due.map_or(0, |due| number.wrapping_sub(due) & mask);
        // A number before the one that is due is as good as one very far behind it.
        ensure!(ahead < mask / 2, "out of order: {}, {due:?} is due", said());
        let number = due.map_or(number, |due| due + ahead);
        self.missing += u64::from(ahead);
        self.next[at] = Some(number + 1);
        self.decoded[at] += 1;
        ensure!(
            is_as_written(record, writer, number),
            "not what was written: {}",
            said()
        );
        Ok(())
    }

    fn lost(&mut self, events: u64, sub_buffers: u64) -> Result<()> {
        // The ring that overwrites begins with a gap; in the middle of anything there is none.
        ensure!(
            sub_buffers == 0 || self.decoded == [0; 3],
            "{sub_buffers} sub-buffers are missing after {self:?}"
        );
        self.lost += events;
        Ok(())
    }

    /// Holds all of it against the guest's counts.
    fn settle(self, counts: &Counts) -> Result<String> {
        let decoded: u64 = self.decoded.iter().sum();
        let recorded: u64 = counts.recorded.iter().sum();
        let lost = counts.dropped + counts.commit_overrun;
        let facts = format!("{decoded} decoded; {self:?}; {counts:?}");
        ensure!(
            decoded + counts.overrun + lost == recorded,
            "not every record is decoded or counted as lost: {facts}"
        );
        ensure!(
            decoded + counts.overrun == counts.entries,
            "not every entry is decoded or counted as overwritten: {facts}"
        );
        ensure!(self.lost == lost, "headers and counters differ: {facts}");
        // A header mentions a loss later than it happens: a short record may have found room where a long one had none.
        let behind: u64 = (0..WRITERS.len())
            .map(|at| {
                let next = self.next[at].map_or(0, u64::from);
                counts.recorded[at].abs_diff(next)
            })
            .sum();
        let gaps = self.missing + behind;
        ensure!(
            gaps == lost || counts.overrun > 0 && gaps < lost,
            "gaps do not add up to what is lost: {facts}"
        );
        ensure!(
            counts.recorded[2] >= MIN_NMIS && self.decoded.iter().all(|nr| *nr > 0),
            "no storm: {facts}"
        );
        Ok(format!(
            "{decoded} records are right, {lost} counted as lost, {} as overwritten",
            counts.overrun
        ))
    }
}

/// Whether a record is the writer's of that number: size, fields and context.
fn is_as_written(record: &Record<'_>, writer: u64, number: u32) -> bool {
    let mixed = (u64::from(number) << 2 | writer).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let is_mixed = |bits: u32| record.number("mixed") == Some(mixed & (u64::MAX >> (64 - bits)));
    let is_right = match (record.event.name.as_str(), number % 6) {
        // The class fixes its context.
        ("storm:small", 0) => return true,
        ("storm:one", 1) => true,
        ("storm:two", 2) => is_mixed(32),
        ("storm:three", 3) | ("storm:four", 4) => is_mixed(64),
        ("storm:text", 5) => {
            let text: Vec<u8> = (number..number + number / 6 % (MAX_TEXT + 1))
                .map(|at| b'a' + ((at + writer as u32) % 26) as u8)
                .collect();
            record.value("text") == Some(&Value::Bytes(text))
        }
        _ => false,
    };
    let context = record.context;
    let is_in_place = match WRITERS[writer as usize] {
        "thread" => !context.is_nmi() && !context.is_hardirq() && !context.is_irqs_off(),
        "interrupt" => !context.is_nmi() && context.is_hardirq() && context.is_irqs_off(),
        _ => context.is_nmi() && context.is_irqs_off(),
    };
    is_right && is_in_place
}

#[cfg(test)]
mod tests {
    use super::*;

    const COUNTS: &str = "x\nstorm: thread=900 interrupt=60 nmi=600 entries=1500 dropped=50 commit_overrun=10 overrun=0\n";

    fn found() -> Found {
        Found {
            decoded: [850, 60, 590],
            next: [Some(900), Some(60), Some(595)],
            missing: 55,
            lost: 60,
            ts: 0,
        }
    }

    #[test]
    fn counts_are_read() {
        let counts = Counts::parse(COUNTS).unwrap();
        assert_eq!(counts.recorded, [900, 60, 600]);
        assert_eq!((counts.dropped, counts.commit_overrun), (50, 10));
        assert!(Counts::parse("storm: thread=1").is_err());
        assert!(Counts::parse("").is_err());
    }

    #[test]
    fn what_does_not_add_up_is_noticed() {
        let counts = Counts::parse(COUNTS).unwrap();
        found().settle(&counts).unwrap();
        type Change = fn(&mut Found);
        let changes: [Change; 4] = [
            |found| found.decoded[0] -= 1,
            |found| found.lost -= 1,
            |found| found.missing -= 1,
            |found| found.next[1] = Some(61),
        ];
        for change in changes {
            let mut found = found();
            change(&mut found);
            assert!(found.settle(&counts).is_err());
        }
    }
}
