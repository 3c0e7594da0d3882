//! The rings' content: copied out of the guest's RAM, decoded, in the order of time.

use takt_decode::{EventTable, Record, SubBuffer};
use takt_tracer::control::{ControlView, MAX_CPUS};
use takt_tracer::ring::Word;
use takt_tracer::ring::observer::{Observed, Observer, RingView};
use takt_tracer::wire::{SUB_HEADER, SubHeader};

use super::counts::{entries_before, nr_opened};
use super::errno;
use super::guest::Guest;

/// A position in a CPU's ring: a sub-buffer, and how many of its records are before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// The sub-buffer's number.
    pub seq: u64,
    /// Records.
    pub index: u64,
}

/// How far a CPU's ring was read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Where reading goes on.
    pub place: Position,
    /// Records that the guest had written before that place since it booted.
    pub entries: u64,
    /// Events that it had lost by then, as far as its sub-buffers told.
    pub lost: Option<u32>,
}

/// What comes next in a ring.
#[derive(Clone, Debug)]
pub enum Entry<'t> {
    /// A record.
    Record(Record<'t>),
    /// Something is missing before what follows.
    Lost {
        /// On which CPU.
        cpu: u8,
        /// When reading goes on, in cycles.
        ts: u64,
        /// Events that the guest has lost or overwritten, or that are in a snapshot.
        events: u64,
    },
}

impl Entry<'_> {
    fn ts(&self) -> u64 {
        match self {
            Self::Record(record) => record.ts,
            Self::Lost { ts, .. } => *ts,
        }
    }
}

/// What was read of the rings.
#[derive(Debug, Default)]
pub struct Content<'t> {
    /// In the order of time.
    pub entries: Vec<Entry<'t>>,
    /// How far each CPU's ring was read.
    pub next: [Progress; MAX_CPUS],
    /// Records.
    pub nr_records: u64,
}

impl Content<'_> {
    /// Brings what was read into the order of time, and counts it.
    fn sort(&mut self) {
        // Stable: within a CPU the order is that of the ring.
        self.entries.sort_by_key(Entry::ts);
        let is_record = |entry: &&Entry<'_>| matches!(entry, Entry::Record(_));
        self.nr_records = self.entries.iter().filter(is_record).count() as u64;
    }
}

/// How a ring's past is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading {
    /// A look at what there is: what was overwritten before is no loss.
    Look,
    /// Going on where the last reading ended.
    GoOn,
}

/// Reads the rings of these CPUs from where an earlier reading has ended.
///
/// # Errors
///
/// If the guest's memory cannot be read.
pub fn read<'t>(
    guest: &Guest,
    view: &ControlView,
    table: &'t EventTable,
    cpus: impl IntoIterator<Item = usize>,
    from: &[Progress; MAX_CPUS],
    reading: Reading,
) -> super::Result<Content<'t>> {
    let mut content = Content {
        next: *from,
        ..Content::default()
    };
    for cpu in cpus {
        if let Some(ring) = guest.ring(view, cpu) {
            if reading == Reading::Look {
                // What was lost before is no business of who only looks.
                content.next[cpu].lost = None;
            }
            let mut lane = Lane {
                cpu: cpu as u8,
                table,
                progress: &mut content.next[cpu],
                entries: &mut content.entries,
            };
            lane.read(&ring, view, reading)?;
        }
    }
    content.sort();
    Ok(content)
}

/// Reads the snapshots of these CPUs.
///
/// # Errors
///
/// If the guest's memory cannot be read.
pub fn read_snapshot<'t>(
    guest: &Guest,
    view: &ControlView,
    table: &'t EventTable,
    cpus: impl IntoIterator<Item = usize>,
) -> super::Result<Content<'t>> {
    let mut content = Content::default();
    for cpu in cpus {
        let Some(ring) = guest.ring(view, cpu) else {
            continue;
        };
        let Some(observer) = Observer::new(view.sub_size, view.nr_subs) else {
            continue;
        };
        let mut lane = Lane {
            cpu: cpu as u8,
            table,
            progress: &mut Progress::default(),
            entries: &mut content.entries,
        };
        let mut copy = vec![0; view.sub_size as usize];
        let kept = observer.kept(&ring).map_err(|error| errno(&error))?;
        // What the guest has written is not to be trusted: no more than there can be.
        for seq in kept.take(view.nr_subs as usize) {
            let found = observer.copy_kept(&ring, seq, &mut copy);
            if found.map_err(|error| errno(&error))?.is_some() {
                lane.take(&copy, seq, 0);
            }
        }
    }
    content.sort();
    Ok(content)
}

/// Whether there is a snapshot, however empty, or one is asked for.
///
/// # Errors
///
/// If the guest's memory cannot be read.
pub fn has_snapshot(guest: &Guest, view: &ControlView) -> super::Result<bool> {
    let Some(ring) = guest.ring(view, 0) else {
        return Ok(false);
    };
    let load = |word| ring.load(word).map_err(|error| errno(&error));
    Ok(load(Word::Halves)? != 0 || load(Word::Wanted)? != load(Word::Taken)?)
}

/// One CPU's ring on its way into the content.
struct Lane<'c, 't> {
    cpu: u8,
    table: &'t EventTable,
    progress: &'c mut Progress,
    entries: &'c mut Vec<Entry<'t>>,
}

impl Lane<'_, '_> {
    fn read(
        &mut self,
        ring: &impl RingView<Error = std::io::Error>,
        view: &ControlView,
        reading: Reading,
    ) -> super::Result<()> {
        let Some(observer) = Observer::new(view.sub_size, view.nr_subs) else {
            return Ok(());
        };
        let load = |word| ring.load(word).map_err(|error| errno(&error));
        if reading == Reading::Look && load(Word::Wanted)? != load(Word::Taken)? {
            // All that stands there is the snapshot's: it is taken with the next record.
            return Ok(());
        }
        let wanted = self.progress.place.seq;
        let mut observer = observer.starting_at(oldest(ring, view)?.max(wanted));
        let mut copy = vec![0; view.sub_size as usize];
        // What the guest has written is not to be trusted: no more turns than there can be.
        for _ in 0..u64::from(view.nr_subs) * 2 {
            let seq = match observer
                .poll(ring, &mut copy)
                .map_err(|error| errno(&error))?
            {
                Observed::Full { seq } => seq,
                Observed::Overwritten => continue,
                // A writer is inside: whoever goes on waits for it.
                Observed::Busy { .. } if reading == Reading::GoOn => return Ok(()),
                Observed::Busy { .. } => {
                    observer.skip();
                    continue;
                }
                Observed::Nothing | Observed::Partial { .. } => break,
            };
            let Some(missed) = self.missed(ring, view, seq, reading)? else {
                // As if it had been overwritten before it was copied.
                observer = observer.starting_at(oldest(ring, view)?);
                continue;
            };
            self.take(&copy, seq, missed);
            self.progress.place = Position {
                seq: seq + 1,
                index: 0,
            };
        }
        let current = observer
            .poll_current(ring, &mut copy)
            .map_err(|error| errno(&error))?;
        if let Observed::Partial {
            seq,
            reserved,
            committed,
        } = current
            && seq >= self.progress.place.seq
            && committed >= SUB_HEADER
            && (committed == reserved || reading == Reading::Look)
        {
            // Otherwise it is read the next time.
            if let Some(missed) = self.missed(ring, view, seq, reading)? {
                let index = self.take(&copy, seq, missed);
                self.progress.place = Position { seq, index };
            }
        }
        Ok(())
    }

    /// How many records there were before sub-buffer `seq` that nobody has read; `None` if the guest has gone so far
    /// meanwhile that nobody can know.
    fn missed(
        &mut self,
        ring: &impl RingView<Error = std::io::Error>,
        view: &ControlView,
        seq: u64,
        reading: Reading,
    ) -> super::Result<Option<u64>> {
        if reading == Reading::Look || seq == self.progress.place.seq {
            return Ok(Some(0));
        }
        let Some(before) = entries_before(ring, view, seq)? else {
            return Ok(None);
        };
        let known = std::mem::replace(&mut self.progress.entries, before);
        Ok(Some(before.saturating_sub(known)))
    }

    /// Takes the records of a sub-buffer that were not read yet, and before it says how many were missed; returns how
    /// many there are in it.
    fn take(&mut self, copy: &[u8], seq: u64, missed: u64) -> u64 {
        let Ok(mut sub) = SubBuffer::new(copy.to_vec(), 0) else {
            return 0;
        };
        let header = *sub.header();
        let lost = (self.progress.lost).map_or(0, |before| header.lost.wrapping_sub(before));
        self.progress.lost = Some(header.lost);
        let events = missed + u64::from(lost);
        if events > 0 {
            self.entries.push(Entry::Lost {
                cpu: self.cpu,
                ts: header.ts,
                events,
            });
        }
        let skipped = match self.progress.place {
            place if place.seq == seq => place.index,
            _ => 0,
        };
        let mut nr = 0;
        // Damage is the end of what can be read: a record that is being written.
        while let Some(Ok(record)) = sub.next(self.table) {
            nr += 1;
            if nr > skipped {
                self.progress.entries += 1;
                self.entries.push(Entry::Record(record));
            }
        }
        nr
    }
}

/// The first sub-buffer that counts as being in the ring.
fn oldest(ring: &impl RingView<Error = std::io::Error>, view: &ControlView) -> super::Result<u64> {
    let opened = nr_opened(ring, view)?;
    let used = if view.is_overwrite {
        view.capacity
    } else {
        view.nr_subs
    };
    Ok(opened.saturating_sub(used.into()).max(live_start(ring)?))
}

/// The first sub-buffer that counts as recorded: since the last snapshot, or since the ring was cleared.
///
/// # Errors
///
/// If the guest's memory cannot be read.
pub fn live_start(ring: &impl RingView<Error = std::io::Error>) -> super::Result<u64> {
    ring.load(Word::LiveStart).map_err(|error| errno(&error))
}

/// The size of a header, so that a size in entries can be given in bytes.
#[must_use]
pub fn entries_of(sub_size: u32, entry: u32) -> u64 {
    u64::from(
        sub_size.saturating_sub(size_of::<SubHeader>().max(SUB_HEADER as usize) as u32) / entry,
    )
}
