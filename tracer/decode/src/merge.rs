//! The records of all CPUs in the order of time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::io::{Read, Seek, SeekFrom};

use super::file::{Lane, TraceFile, lost_since};
use super::gaps::Gaps;
use super::meta::EventTable;
use super::record::{Record, Value};
use super::sub::SubBuffer;
use super::{Damage, Error};
use takt_tracer::wire::SubHeader;

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
    lanes: Lanes<'a>,
}

/// The CPUs. What is done for each record is done without knowing what kind of input it is, so that it is compiled once.
#[derive(Debug)]
struct Lanes<'a> {
    table: &'a EventTable,
    sub_size: usize,
    cursors: Vec<Cursor<'a>>,
    /// The lanes that have something, by the time of it and the CPU.
    ready: BinaryHeap<Reverse<(u64, usize)>>,
    /// Where in the input reading has ended.
    at: Option<u64>,
    /// The memory of the values of a record that nobody needs any more.
    spare: Vec<Value>,
    is_started: bool,
}

/// Where sub-buffers are read from.
trait Input: Read + Seek {}
impl<R: Read + Seek> Input for R {}

/// How far one CPU was read.
#[derive(Debug)]
struct Cursor<'a> {
    offsets: &'a [u64],
    /// How many of them are before the time that is wanted.
    nr_before: usize,
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
            nr_before: lane.nr_before,
            gaps: &lane.gaps,
            sub: None,
            last: None,
            head: None,
        };
        Self {
            lanes: Lanes {
                table,
                sub_size,
                cursors: file.lanes.iter().map(cursor).collect(),
                ready: BinaryHeap::new(),
                at: None,
                spare: Vec::new(),
                is_started: false,
            },
            input: &mut file.input,
        }
    }
}

impl<R> Merge<'_, R> {
    /// Takes back a record that was looked at: the next one gets its memory.
    pub fn give_back(&mut self, record: Record<'_>) {
        self.lanes.spare = record.values;
    }
}

impl<'a> Lanes<'a> {
    fn step(&mut self, input: &mut dyn Input) -> Result<Option<Item<'a>>, Error> {
        let mut source = Source {
            input,
            at: &mut self.at,
            sub_size: self.sub_size,
        };
        if !self.is_started {
            self.is_started = true;
            for number in 0..self.cursors.len() {
                let first =
                    self.cursors[number].advance(self.table, &mut self.spare, &mut source)?;
                self.ready.extend(first.map(|ts| Reverse((ts, number))));
            }
        }
        let Some(mut first) = self.ready.peek_mut() else {
            return Ok(None);
        };
        let Reverse((_, number)) = *first;
        let cursor = &mut self.cursors[number];
        let item = cursor.head.take();
        match cursor.advance(self.table, &mut self.spare, &mut source)? {
            Some(ts) => *first = Reverse((ts, number)),
            None => drop(PeekMut::pop(first)),
        }
        Ok(item)
    }

    fn stop(&mut self) {
        self.ready.clear();
        self.cursors.clear();
    }
}

impl<'a> Cursor<'a> {
    /// Finds the next item; gives its time.
    fn advance(
        &mut self,
        table: &'a EventTable,
        spare: &mut Vec<Value>,
        source: &mut Source<'_>,
    ) -> Result<Option<u64>, Error> {
        loop {
            if let Some(sub) = &mut self.sub
                && let Some(item) = sub.next_with(table, spare)
            {
                let ts = sub.last_ts();
                self.head = Some(item.map_or_else(Item::Damage, Item::Record));
                return Ok(Some(ts));
            }
            let Some((offset, rest)) = self.offsets.split_first() else {
                self.sub = None;
                return Ok(None);
            };
            self.offsets = rest;
            let is_before = self.nr_before > 0;
            self.nr_before = self.nr_before.saturating_sub(1);
            let bytes = source.load(*offset)?;
            let mut sub = match SubBuffer::new(bytes, *offset) {
                Ok(sub) => sub,
                Err(damage) => {
                    self.head = Some(Item::Damage(damage));
                    return Ok(Some(self.last.map_or(0, |last| last.ts)));
                }
            };
            let header = *sub.header();
            if is_before {
                sub.pass_over();
            }
            self.sub = Some(sub);
            let told = lost_since(self.last.as_ref(), &header);
            let gap = self.gaps.before(header.seq);
            let events = told.saturating_add(gap.map_or(0, |gap| gap.events));
            let sub_buffers = gap.map_or(0, |gap| gap.unknown);
            self.last = Some(header);
            if events > 0 || sub_buffers > 0 {
                self.head = Some(Item::Lost {
                    cpu: header.cpu,
                    ts: header.ts,
                    events,
                    sub_buffers,
                });
                return Ok(Some(header.ts));
            }
        }
    }
}

impl<'a, R: Read + Seek> Iterator for Merge<'a, R> {
    type Item = Result<Item<'a>, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let step = self.lanes.step(self.input);
        if step.is_err() {
            self.lanes.stop();
        }
        step.transpose()
    }
}

/// Where sub-buffers are read from, while it is lent.
struct Source<'s> {
    input: &'s mut dyn Input,
    at: &'s mut Option<u64>,
    sub_size: usize,
}

impl Source<'_> {
    fn load(&mut self, offset: u64) -> Result<Vec<u8>, Error> {
        let mut bytes = vec![0; self.sub_size];
        // What a reader has in its buffer is not read again for a sub-buffer that is near the last one.
        let sought = match self.at.take() {
            Some(at) => self
                .input
                .seek_relative(offset.wrapping_sub(at).cast_signed()),
            None => self.input.seek(SeekFrom::Start(offset)).map(drop),
        };
        let read = sought.and_then(|()| self.input.read_exact(&mut bytes));
        read.map_err(|source| {
            let source = std::io::Error::new(
                source.kind(),
                format!("the file has changed while it was read: {source}"),
            );
            Error::Io { offset, source }
        })?;
        *self.at = Some(offset + self.sub_size as u64);
        Ok(bytes)
    }
}
