//! Decoding one sub-buffer.

use super::meta::{EventDef, EventTable, Role, Slot};
use super::record::{Context, Record, Value, beginning};
use super::{Damage, Fault};
use takt_tracer::event::{Layout, Place};
use takt_tracer::wire::{
    CLOCK_CURRENT, CLOCK_ID, CLOCK_LEN, Event, SUB_HEADER, SubHeader, VERSION, event_of,
    is_readable, u32_at, u64_at,
};

/// A sub-buffer, and how far it was read.
///
/// It is a lending iterator in spirit: [`next`](Self::next) takes the event table, so that the sub-buffer can be kept
/// beside it.
#[derive(Clone, Debug)]
pub struct SubBuffer {
    bytes: Vec<u8>,
    header: SubHeader,
    /// Where in the input it begins.
    offset: u64,
    /// Where the next record begins, and where the records end.
    at: usize,
    end: usize,
    /// The upper half of the time, the time of the last record, the running thread.
    half: u64,
    last: u64,
    current: u8,
    /// Context and thread of the last record of a function that named them.
    function: (Context, u8),
    records: u64,
    /// The record at `at` was reported to be older than the one before it.
    is_back_known: bool,
    /// The bytes may have holes.
    is_salvage: bool,
    /// Only records that give names are wanted.
    is_passed_over: bool,
}

/// The header of a sub-buffer, if it makes sense.
pub(super) fn header(bytes: &[u8]) -> Result<SubHeader, Fault> {
    let size = bytes.len() as u64;
    let header = SubHeader::decode(bytes).ok_or(Fault::Length {
        found: size as u32,
        expected: SUB_HEADER,
    })?;
    if !is_readable(header.version.into()) {
        return Err(Fault::Version {
            found: header.version.into(),
            known: VERSION,
        });
    }
    let committed = header.committed();
    if committed < SUB_HEADER || u64::from(committed) > size {
        return Err(Fault::Committed { committed, size });
    }
    Ok(header)
}

impl SubBuffer {
    /// A sub-buffer that stands at `offset` of the input. It may be written only in part: what its header counts as
    /// committed is read.
    ///
    /// # Errors
    /// [`Damage`] if the header makes no sense.
    pub fn new(bytes: Vec<u8>, offset: u64) -> Result<Self, Damage> {
        let len = bytes.len() as u64;
        let damage = |fault| Damage {
            offset,
            skipped: len,
            fault,
        };
        let header = header(&bytes).map_err(damage)?;
        let committed = header.committed();
        Ok(Self::at_start(bytes, offset, header, committed as usize))
    }

    /// A sub-buffer in which a writer was stopped for good, as [`Observed::Partial`](takt_tracer::ring::observer::Observed)
    /// finds it after a crash: `reserved` bytes are in use, but not all of them are written.
    ///
    /// What is before the hole is read. What stands in the hole may look like a record of the past; so reading ends
    /// where time goes back or an event is unknown.
    ///
    /// # Errors
    /// [`Damage`] if the header makes no sense.
    pub fn salvage(bytes: Vec<u8>, offset: u64, reserved: u32) -> Result<Self, Damage> {
        let len = bytes.len() as u64;
        let damage = |fault| Damage {
            offset,
            skipped: len,
            fault,
        };
        let header = SubHeader::decode(&bytes)
            .filter(|_| u64::from(reserved) <= len && reserved >= SUB_HEADER);
        let Some(header) = header else {
            return Err(damage(Fault::Length {
                found: len as u32,
                expected: reserved.max(SUB_HEADER),
            }));
        };
        if !is_readable(header.version.into()) {
            return Err(damage(Fault::Version {
                found: header.version.into(),
                known: VERSION,
            }));
        }
        let mut sub = Self::at_start(bytes, offset, header, reserved as usize);
        sub.is_salvage = header.committed() != reserved;
        Ok(sub)
    }

    fn at_start(bytes: Vec<u8>, offset: u64, header: SubHeader, end: usize) -> Self {
        Self {
            bytes,
            header,
            offset,
            at: SUB_HEADER as usize,
            end,
            half: header.ts >> 32,
            last: header.ts,
            current: header.current,
            function: (Context(header.ctx), header.current),
            records: 0,
            is_back_known: false,
            is_salvage: false,
            is_passed_over: false,
        }
    }

    /// Checks all of it, and gives those records only that give names: it is before the time that is wanted.
    pub(super) const fn pass_over(&mut self) {
        self.is_passed_over = true;
    }

    /// Its header.
    pub const fn header(&self) -> &SubHeader {
        &self.header
    }

    /// The time of the last record, in cycles; that of the header before the first.
    pub const fn last_ts(&self) -> u64 {
        self.last
    }

    /// The next record, or what is wrong with it.
    ///
    /// After damage the rest is passed over. If only a record's time is wrong, it follows all the same, provided that the
    /// sub-buffer was written to its end.
    pub fn next<'t>(&mut self, table: &'t EventTable) -> Option<Result<Record<'t>, Damage>> {
        self.next_with(table, &mut Vec::new())
    }

    /// As [`next`](Self::next), with the memory of the values of a record that nobody needs any more.
    pub(super) fn next_with<'t>(
        &mut self,
        table: &'t EventTable,
        spare: &mut Vec<Value>,
    ) -> Option<Result<Record<'t>, Damage>> {
        loop {
            let word = match self.word_at(4) {
                Some(word) if event_of(word) != Event::Padding => word,
                _ => return self.finish().map(Err),
            };
            let low = self.word_at(0)?;
            let id = event_of(word).id();
            let step = if id == CLOCK_ID {
                self.clock()
            } else {
                self.record(low, word, id, table, spare)
            };
            match step {
                Ok(None) => {}
                Ok(Some(record)) => return Some(Ok(record)),
                Err(Fault::TimeBack { by }) if self.is_whole() => {
                    return Some(Err(self.damage(0, Fault::TimeBack { by })));
                }
                Err(fault) => {
                    let damage = self.damage((self.end - self.at) as u64, fault);
                    self.stop();
                    return Some(Err(damage));
                }
            }
        }
    }

    fn record<'t>(
        &mut self,
        low: u32,
        word: u32,
        id: u32,
        table: &'t EventTable,
        spare: &mut Vec<Value>,
    ) -> Result<Option<Record<'t>>, Fault> {
        let event = table.get(id).ok_or(Fault::UnknownEvent { id })?;
        let words = match event_of(word) {
            Event::Near { is_far: false, .. } => event.words - 1,
            _ => event.words,
        };
        let fixed = 8 + 4 * words;
        let dynamic = if event.has_dynamic() {
            let bytes = self
                .word_at(fixed)
                .ok_or_else(|| self.short(id, fixed as u64 + 4))?;
            Some(bytes as usize)
        } else {
            None
        };
        let len = fixed as u64 + dynamic.map_or(0, |bytes| 4 + (bytes as u64).next_multiple_of(4));
        let body = self.bytes.get(self.at..self.end).unwrap_or_default();
        if len > body.len() as u64 {
            return Err(self.short(id, len));
        }
        let ts = self.half << 32 | u64::from(low);
        self.advance_time(ts)?;
        if self.is_passed_over && !event.gives_name() {
            self.at += len as usize;
            self.records += 1;
            return Ok(None);
        }

        let [_, _, ctx, tid] = word.to_le_bytes();
        let (context, tid) = match event.layout {
            _ if event.role == Role::Function => self.function,
            Layout::Core24(ctx) => (Context(ctx), self.current),
            Layout::Core8 | Layout::Wide | Layout::Near => (Context(ctx), tid),
        };
        if event.role == Role::FunctionContext {
            self.function = (context, tid);
        }
        let body = &self.bytes[self.at..self.at + len as usize];
        let mut values = core::mem::take(spare);
        take_values(&mut values, event, word, body, fixed, dynamic.unwrap_or(0));
        if words < event.words
            && let Some(time) = values.last_mut()
        {
            // Where all of the time would be there is its lower half.
            *time = Value::Number(self.half << 32 | u32_at(body, 8).map_or(0, u64::from));
        }
        self.current = match event.role {
            Role::Switch { next } => values.get(next).and_then(Value::number).unwrap_or(0) as u8,
            _ => tid,
        };
        self.at += len as usize;
        self.records += 1;
        Ok(Some(Record {
            cpu: self.header.cpu,
            ts,
            context,
            tid,
            len: len as u32,
            event,
            values,
            is_cut: dynamic.is_some_and(|bytes| bytes > event.max_bytes()),
        }))
    }

    /// A `clock` record, which may name the running thread. Its own time is not judged: it may have been written ahead of
    /// time, and then something else that comes first says the present half again.
    fn clock<'t>(&mut self) -> Result<Option<Record<'t>>, Fault> {
        let Some(half) = self.word_at(8) else {
            return Err(self.short(CLOCK_ID, CLOCK_LEN.into()));
        };
        self.half = half.into();
        let word = self.word_at(4).unwrap_or(0);
        if word & CLOCK_CURRENT != 0 {
            [.., self.current] = word.to_le_bytes();
        }
        self.at += CLOCK_LEN as usize;
        Ok(None)
    }

    /// Takes the time of the record at `at`; complains once if it is older than the last one.
    fn advance_time(&mut self, ts: u64) -> Result<(), Fault> {
        if ts < self.last && !self.is_back_known {
            self.is_back_known = true;
            return Err(Fault::TimeBack { by: self.last - ts });
        }
        self.is_back_known = false;
        self.last = ts;
        Ok(())
    }

    /// At the end: do the counts agree?
    fn finish(&mut self) -> Option<Damage> {
        if self.at > self.end {
            return None; // said already
        }
        let rest = (self.end - self.at) as u64;
        let fault = if self.is_salvage {
            Fault::Hole {
                bytes: (self.end as u64).saturating_sub(self.header.committed().into()),
            }
        } else if self.records != self.header.records() {
            Fault::Count {
                found: self.records,
                counted: self.header.records(),
            }
        } else {
            self.stop();
            return None;
        };
        let damage = self.damage(if self.is_salvage { rest } else { 0 }, fault);
        self.stop();
        Some(damage)
    }

    fn stop(&mut self) {
        self.at = self.end + 1;
    }

    /// Whether every byte was written, so that no record of the past can stand between the others.
    fn is_whole(&self) -> bool {
        !self.is_salvage && self.end == self.bytes.len()
    }

    fn damage(&self, skipped: u64, fault: Fault) -> Damage {
        Damage {
            offset: self.offset + self.at as u64,
            skipped,
            fault,
        }
    }

    fn short(&self, id: u32, need: u64) -> Fault {
        Fault::ShortRecord {
            id,
            need,
            have: self.end.saturating_sub(self.at) as u64,
        }
    }

    /// The word so many bytes into the record at `at`.
    fn word_at(&self, bytes: usize) -> Option<u32> {
        u32_at(self.bytes.get(..self.end)?, self.at.checked_add(bytes)?)
    }
}

/// Takes the values out of a record; `fixed` is where its dynamic field begins, `dynamic` how long it is.
fn take_values(
    values: &mut Vec<Value>,
    event: &EventDef,
    word: u32,
    body: &[u8],
    fixed: usize,
    dynamic: usize,
) {
    let bytes = || {
        body.get(fixed + 4..)
            .and_then(|rest| rest.get(..dynamic))
            .unwrap_or(&[])
    };
    let number = |bits: u32, place| {
        let (from, shift) = match place {
            Place::Word(shift) => (Some(word.into()), shift),
            Place::Extra(at, _) if bits == 64 => (u64_at(body, 8 + 4 * at), 0),
            Place::Extra(at, shift) => (u32_at(body, 8 + 4 * at).map(u64::from), shift),
        };
        from.unwrap_or(0) >> shift & (u64::MAX >> (64 - bits))
    };
    let max = event.max_bytes();
    let one = |slot| match slot {
        Slot::Dynamic => Value::Bytes(beginning(bytes(), max).into()),
        Slot::Fixed { bits, place } => Value::Number(number(bits, place)),
        Slot::Array {
            bits,
            len,
            mut placer,
        } => Value::Array((0..len).map(|_| number(bits, placer.place(bits))).collect()),
        Slot::Sequence { bits } => {
            Value::Array(elements(bytes().get(..max).unwrap_or(bytes()), bits))
        }
    };
    values.clear();
    values.extend(event.fields.iter().map(|field| one(field.slot)));
}

/// Elements of so many bits, a multiple of 8; what is left of the bytes is none.
fn elements(bytes: &[u8], bits: u32) -> Vec<u64> {
    let one = |element: &[u8]| {
        let mut wide = [0; 8];
        wide[..element.len()].copy_from_slice(element);
        u64::from_le_bytes(wide)
    };
    bytes.chunks_exact(bits as usize / 8).map(one).collect()
}
