//! A whole `trace.bin`: checked and indexed.

use std::io::{Read, Seek, SeekFrom};
use std::ops::RangeInclusive;

use super::frames::{Entry, FrameReader};
use super::gaps::{Gaps, Shape};
use super::merge::Merge;
use super::meta::EventTable;
use super::names::TscClock;
use super::{Damage, Error, Fault, sub};
use takt_tracer::wire::{FileHeader, FrameHeader, SubHeader};

/// More damage than this is counted, but not kept.
const MAX_DAMAGE: usize = 1000;

/// Sub-buffers of the largest ring that is believed: what a file claims is not to decide how long it takes to read it.
const MAX_SUBS: u32 = 1 << 16;

/// A `trace.bin` that was read once from end to end: every frame is checked, and it is known where each sub-buffer is.
///
/// Takes 8 bytes of memory for each sub-buffer, and some for each gap, and for each damage up to a limit.
#[derive(Debug)]
pub struct TraceFile<R> {
    pub(super) input: R,
    header: FileHeader,
    pub(super) lanes: Vec<Lane>,
    damage: Vec<Damage>,
    nr_damages: u64,
    is_whole: bool,
}

/// The sub-buffers of one CPU.
#[derive(Debug, Default)]
pub(super) struct Lane {
    /// Where their payloads are, by ascending sequence number.
    pub(super) offsets: Vec<u64>,
    /// How many of them end before the time that is wanted begins.
    pub(super) nr_before: usize,
    pub(super) gaps: Gaps,
    summary: CpuSummary,
    last: Option<SubHeader>,
    /// It has shown a sub-buffer of after what is wanted.
    is_past: bool,
}

/// What the headers of one CPU's sub-buffers say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuSummary {
    /// Sub-buffers.
    pub sub_buffers: u64,
    /// Records in them.
    pub records: u64,
    /// Bytes in them, headers and padding included.
    pub bytes: u64,
    /// Events that the target has lost and said so (dropped, or no place because of a writer inside), and those in
    /// sub-buffers before the last one that are not there (overwritten by a flight recorder, or missing), as far as the
    /// counters of the others say how many there were.
    pub lost: u64,
    /// Sub-buffers before the last one that are not there, and had an unknown number of events.
    pub missing: u64,
}

impl<R: Read + Seek> TraceFile<R> {
    /// Reads a `trace.bin` once and checks it. The input is taken from its beginning.
    ///
    /// # Errors
    /// [`Error`] if it cannot be read or its header is unusable. Damage to frames is no error: see
    /// [`damage`](Self::damage).
    pub fn open(input: R) -> Result<Self, Error> {
        Self::open_range(input, 0..=u64::MAX, |_| true)
    }

    /// As [`open`](Self::open), but reads no further than it has to for what was recorded on the CPUs that are wanted in this
    /// time, in nanoseconds: until each of them has shown a sub-buffer that begins later. Where sub-buffers are missing
    /// it reads to the end, since how much they had is known further on only. [`is_whole`](Self::is_whole) says what came of
    /// it. Of sub-buffers before this time [`merge`](Self::merge) gives what gives names only, and what is damaged or lost.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_range(
        mut input: R,
        range_ns: RangeInclusive<u64>,
        is_wanted: impl Fn(u8) -> bool,
    ) -> Result<Self, Error> {
        input
            .seek(SeekFrom::Start(0))
            .map_err(|source| Error::Io { offset: 0, source })?;
        let mut frames = FrameReader::trace(&mut input)?;
        let header = *frames.header();
        let mut lanes: Vec<Lane> = Vec::new();
        lanes.resize_with(header.nr_cpus as usize, Lane::default);
        // Of a size that no ring has nothing follows.
        let ring = (1..=MAX_SUBS).contains(&header.nr_subs).then_some(Shape {
            nr_subs: header.nr_subs.into(),
            sub_size: header.sub_size.into(),
        });
        let (mut damage, mut nr_damages) = (Vec::new(), 0);
        let mut note = |what| {
            nr_damages += 1;
            if damage.len() < MAX_DAMAGE {
                damage.push(what);
            }
        };
        let clock = TscClock::new(header.tsc_hz);
        // Up to the last number that there is: a range without an end would count beyond it.
        for (cpu, lane) in (0..=u8::MAX).zip(&mut lanes) {
            lane.is_past = !is_wanted(cpu);
        }
        let mut is_whole = true;
        while let Some(entry) = frames.next_entry()? {
            match entry {
                Entry::Damage(what) => note(what),
                Entry::Frame(frame) => {
                    let offset = frame.offset + FrameHeader::SIZE as u64;
                    let lane = &mut lanes[usize::from(frame.header.cpu)];
                    if let Err(fault) = lane.add(offset, frame.header.cpu, &frame.payload, ring) {
                        note(Damage {
                            offset,
                            skipped: frame.payload.len() as u64,
                            fault,
                        });
                        continue;
                    }
                    let begins = lane.last.map_or(0, |last| clock.ns(last.ts));
                    if begins < *range_ns.start() {
                        lane.nr_before = lane.offsets.len() - 1;
                    }
                    if begins > *range_ns.end() {
                        lane.is_past = true;
                        let is_over = |lane: &Lane| lane.is_past && lane.gaps.all().is_empty();
                        if lanes.iter().all(is_over) {
                            is_whole = false;
                            break;
                        }
                    }
                }
            }
        }
        lanes.iter_mut().for_each(Lane::sum_up);
        Ok(Self {
            input,
            header,
            lanes,
            damage,
            nr_damages,
            is_whole,
        })
    }

    /// The records of all CPUs in the order of time, with memory for one sub-buffer per CPU.
    ///
    /// Can be called again to read once more.
    pub fn merge<'a>(&'a mut self, table: &'a EventTable) -> Merge<'a, R> {
        Merge::new(self, table)
    }
}

impl<R> TraceFile<R> {
    /// The header of the file.
    pub const fn header(&self) -> &FileHeader {
        &self.header
    }

    /// Whether all of the file was read; else what is said of it is of the part that was.
    pub const fn is_whole(&self) -> bool {
        self.is_whole
    }

    /// What is wrong with frames, in the order of the file, up to 1000 entries.
    pub fn damage(&self) -> &[Damage] {
        &self.damage
    }

    /// How much is wrong with frames.
    pub const fn nr_damages(&self) -> u64 {
        self.nr_damages
    }

    /// What the headers of each CPU's sub-buffers say, by CPU.
    pub fn cpus(&self) -> impl Iterator<Item = &CpuSummary> {
        self.lanes.iter().map(|lane| &lane.summary)
    }

    /// Records in the file, by its headers.
    pub fn nr_records(&self) -> u64 {
        self.cpus().map(|cpu| cpu.records).sum()
    }

    /// Events that were lost, as far as that is known ([`CpuSummary::lost`]).
    pub fn nr_lost(&self) -> u64 {
        self.cpus().map(|cpu| cpu.lost).sum()
    }

    /// Whether the trace is complete: nothing damaged, nothing lost, no sub-buffer missing that may have had events.
    pub fn is_complete(&self) -> bool {
        self.nr_damages == 0 && self.nr_lost() == 0 && self.cpus().all(|cpu| cpu.missing == 0)
    }
}

impl Lane {
    fn add(
        &mut self,
        offset: u64,
        cpu: u8,
        payload: &[u8],
        ring: Option<Shape>,
    ) -> Result<(), Fault> {
        let header = sub::header(payload)?;
        if header.cpu != cpu {
            return Err(Fault::SubCpu {
                found: header.cpu,
                expected: cpu,
            });
        }
        let last = self.last.map(|last| last.seq);
        if let Some(last) = last.filter(|last| header.seq <= *last) {
            return Err(Fault::SubOrder {
                cpu,
                found: header.seq,
                last,
            });
        }
        self.gaps.see(&header, ring);
        let summary = &mut self.summary;
        summary.lost = summary
            .lost
            .saturating_add(lost_since(self.last.as_ref(), &header));
        summary.sub_buffers += 1;
        summary.records = summary.records.saturating_add(header.records());
        summary.bytes = summary.bytes.saturating_add(header.committed().into());
        self.last = Some(header);
        self.offsets.push(offset);
        Ok(())
    }

    /// Adds what the gaps have lost, which is known behind them.
    fn sum_up(&mut self) {
        for gap in self.gaps.all() {
            self.summary.lost = self.summary.lost.saturating_add(gap.events);
            self.summary.missing = self.summary.missing.saturating_add(gap.unknown);
        }
    }
}

/// Events lost between two sub-buffers of a CPU, or before the first one.
pub(super) fn lost_since(last: Option<&SubHeader>, header: &SubHeader) -> u64 {
    header
        .lost
        .wrapping_sub(last.map_or(0, |last| last.lost))
        .into()
}
