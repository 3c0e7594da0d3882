//! The records of all CPUs in the order of time.

use std::collections::BTreeSet;
use std::io::{Read, Seek, SeekFrom};
use std::vec::Vec;
use std::{format, vec};

use super::file::{Lane, TraceFile, lost_since};
use super::gaps::Gaps;
use super::meta::EventTable;
use super::record::Record;
use super::sub::SubBuffer;
use super::{Damage, Error};
use crate::wire::SubHeader;

/// What comes next in a trace.
#[derive(Clone, Debug)]
pub enum Item<'t> {
    /// A record.
    Record(Record<'t>),
    /// Something is missing here.
    Lost {
        /// On which CPU.
        cpu: u8,
        /// When reading goes on, in cycles.
        ts: u64,
        /// Events that the target has lost, and those of sub-buffers that are not in the file, as far as the counters of
        /// the others say how many there were.
        events: u64,
        /// Sub-buffers that are not in the file and had an unknown number of events. Where sub-buffers of the same slot are
        /// missing in several places, with none between them that is there, the last place tells the events of all.
        sub_buffers: u64,
    },
    /// Something is damaged here.
    Damage(Damage),
}

/// A merge of all CPUs of a trace. Within a CPU the order is that of the ring, which is the order of time.
///
/// After an [`Error`] it is at its end.
#[derive(Debug)]
pub struct Merge<'a, R> {
    input: &'a mut R,
    table: &'a EventTable,
    sub_size: usize,
    lanes: Vec<Cursor<'a>>,
    /// The lanes that have something, by the time of it and the CPU.
    ready: BTreeSet<(u64, usize)>,
    is_started: bool,
}

/// How far one CPU was read.
#[derive(Debug)]
struct Cursor<'a> {
    offsets: &'a [u64],
    gaps: &'a Gaps,
    sub: Option<SubBuffer>,
    last: Option<SubHeader>,
    head: Option<Item<'a>>,
}

impl<'a, R: Read + Seek> Merge<'a, R> {
    pub(super) fn new(file: &'a mut TraceFile<R>, table: &'a EventTable) -> Self {
        let sub_size = file.header().sub_size as usize;
        let cursor = |lane: &'a Lane| Cursor {
            offsets: lane.offsets.as_slice(),
            gaps: &lane.gaps,
            sub: None,
            last: None,
            head: None,
        };
        let lanes = file.lanes.iter().map(cursor).collect();
        Self {
            input: &mut file.input,
            table,
            sub_size,
            lanes,
            ready: BTreeSet::new(),
            is_started: false,
        }
    }

    fn step(&mut self) -> Result<Option<Item<'a>>, Error> {
        if !self.is_started {
            self.is_started = true;
            for lane in 0..self.lanes.len() {
                self.advance(lane)?;
            }
        }
        let Some((_, lane)) = self.ready.pop_first() else {
            return Ok(None);
        };
        let item = self.lanes[lane].head.take();
        self.advance(lane)?;
        Ok(item)
    }

    /// Finds the next item of a lane.
    fn advance(&mut self, number: usize) -> Result<(), Error> {
        let lane = &mut self.lanes[number];
        loop {
            if let Some(item) = lane.sub.as_mut().and_then(|sub| sub.next(self.table)) {
                let ts = lane.sub.as_ref().map_or(0, SubBuffer::last_ts);
                lane.head = Some(item.map_or_else(Item::Damage, Item::Record));
                self.ready.insert((ts, number));
                return Ok(());
            }
            let Some((offset, rest)) = lane.offsets.split_first() else {
                lane.sub = None;
                return Ok(());
            };
            lane.offsets = rest;
            let bytes = load(self.input, *offset, self.sub_size)?;
            let sub = match SubBuffer::new(bytes, *offset) {
                Ok(sub) => sub,
                Err(damage) => {
                    lane.head = Some(Item::Damage(damage));
                    self.ready
                        .insert((lane.last.map_or(0, |last| last.ts), number));
                    return Ok(());
                }
            };
            let header = *sub.header();
            lane.sub = Some(sub);
            let told = lost_since(lane.last.as_ref(), &header);
            let gap = lane.gaps.before(header.seq);
            let events = told.saturating_add(gap.map_or(0, |gap| gap.events));
            let sub_buffers = gap.map_or(0, |gap| gap.unknown);
            lane.last = Some(header);
            if events > 0 || sub_buffers > 0 {
                lane.head = Some(Item::Lost {
                    cpu: header.cpu,
                    ts: header.ts,
                    events,
                    sub_buffers,
                });
                self.ready.insert((header.ts, number));
                return Ok(());
            }
        }
    }
}

impl<'a, R: Read + Seek> Iterator for Merge<'a, R> {
    type Item = Result<Item<'a>, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let step = self.step();
        if step.is_err() {
            self.ready.clear();
            self.lanes.clear();
        }
        step.transpose()
    }
}

fn load<R: Read + Seek>(input: &mut R, offset: u64, len: usize) -> Result<Vec<u8>, Error> {
    let mut bytes = vec![0; len];
    let read = input
        .seek(SeekFrom::Start(offset))
        .and_then(|_| input.read_exact(&mut bytes));
    read.map_err(|source| {
        let source = std::io::Error::new(
            source.kind(),
            format!("the file has changed while it was read: {source}"),
        );
        Error::Io { offset, source }
    })?;
    Ok(bytes)
}
