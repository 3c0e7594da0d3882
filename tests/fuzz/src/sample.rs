//! A small trace of two CPUs, made by the writers of its format, and repairing what mutation has broken.

use takt_decode::FrameWriter;
use takt_tracer::event::EventClass;
use takt_tracer::event::builtin::Clock;
use takt_tracer::wire::{
    CHANNEL_LOG, CHANNEL_TRACE, CLOCK_ID, COMMIT_RECORD, FILE_MAGIC_LOG, FILE_MAGIC_TRACE,
    FRAME_MAGIC, FileHeader, FrameHeader, NEAR_FAR, SUB_HEADER, SubHeader, VERSION,
};

takt_tracer::event_class! {
    /// From one thread to another.
    pub(crate) class Switch = "sched_switch", core24(0x80) {
        next: 8 tid,
        prev_prio: 7 prio,
        next_prio: 7 prio,
        prev_state: 2 enum("0=R,1=S,2=T,3=X"),
    }
    print "prev_comm={current:comm} prev_pid={current:pid} prev_state={prev_state} ==> next_comm={next:comm} next_pid={next:pid} next_prio={next_prio}";
}
takt_tracer::event_class! {
    /// A thread begins.
    pub(crate) class Create = "thread_name", core8 { tid: 8 tid, prio: 8 prio, comm: * str }
    print "comm={comm} pid={tid:pid} prio={prio}";
}
takt_tracer::event_class! {
    /// One of everything.
    pub(crate) class Everything = "everything", wide {
        small: 5 i,
        mask: 4 flags("1=A,2=B"),
        hex: 12 x,
        place: 64 sym,
        time: 64 cycles,
        odd: 31 u,
        text: * str,
    }
    print "small={small} mask={mask:6} hex={hex:04} place={place} time={time:9} odd={odd} text={text} {{done}}";
}

takt_tracer::event_class! {
    /// Arrays of a fixed length and of any.
    pub(crate) class Arrays = "arrays", wide { bytes: [8; 3] i, flag: 1 u, list: [16] x }
    print "bytes={bytes} flag={flag} list={list:12}";
}
takt_tracer::event_class! {
    /// Who called whom.
    pub(crate) class Stack = "kernel_stack", core8 { caller: [32] sym }
    print "{caller}";
}
takt_tracer::event_class! {
    /// A string that has a maximum.
    pub(crate) class Bounded = "bounded", core8 { nr: 8 u, name: * str(5) }
    print "nr={nr} name={name}";
}

takt_tracer::event_class! {
    /// A time near the record's own, or far from it.
    pub(crate) class Near = "near", near { timer: 11 u, expires: 64 cycles }
    print "timer={timer} expires={expires}";
}

/// Ids of the events.
pub(crate) const SWITCH: u32 = 4;
pub(crate) const CREATE: u32 = 8;
pub(crate) const EVERYTHING: u32 = 0x103;
pub(crate) const ARRAYS: u32 = 0x105;
pub(crate) const STACK: u32 = 10;
pub(crate) const BOUNDED: u32 = 12;
pub(crate) const NEAR: u32 = 0x8001;

/// Bytes of a sub-buffer in the samples.
pub(crate) const SUB: usize = 256;

/// The texts of the events, with their ids.
pub(crate) fn texts() -> [(u32, String); 8] {
    [
        (CLOCK_ID, format!("event takt:clock\n{}", Clock::TEXT)),
        (SWITCH, format!("event sched:switch\n{}", Switch::TEXT)),
        (CREATE, format!("event sched:create\n{}", Create::TEXT)),
        (
            EVERYTHING,
            format!("event test:all\n{}doc Always.\n", Everything::TEXT),
        ),
        (ARRAYS, format!("event test:arrays\n{}", Arrays::TEXT)),
        (STACK, format!("event ftrace:kernel_stack\n{}", Stack::TEXT)),
        (BOUNDED, format!("event test:bounded\n{}", Bounded::TEXT)),
        (NEAR, format!("event test:near\n{}", Near::TEXT)),
    ]
}

/// An entry of the metadata, as the linker lays it out.
pub(crate) fn entry(id: u32, text: &[u8]) -> Vec<u8> {
    let mut entry = u64::from(id).to_le_bytes().to_vec();
    entry.extend((text.len() as u64).to_le_bytes());
    entry.extend(text);
    entry.resize(entry.len().next_multiple_of(8), 0);
    entry
}

/// The metadata of the samples.
pub(crate) fn metadata() -> Vec<u8> {
    let entries = texts().map(|(id, text)| entry(id, text.as_bytes()));
    entries.concat()
}

/// A record: time stamp, word and what follows.
pub(crate) fn record(ts: u32, word: u32, rest: &[u8]) -> Vec<u8> {
    [&ts.to_le_bytes(), &word.to_le_bytes(), rest].concat()
}

/// A dynamic field.
fn dynamic(text: &str) -> Vec<u8> {
    let mut bytes = (text.len() as u32).to_le_bytes().to_vec();
    bytes.extend(text.bytes());
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

/// Records of every kind.
pub(crate) fn records() -> Vec<Vec<u8>> {
    let context = 0xc0 << 16;
    let everything = [&[0xd5, 0x71, 0x0f, 0][..], &[7; 8], &[9; 8], &[1; 4]].concat();
    vec![
        record(100, CREATE | 9 << 8 | context, &[dynamic("timer")].concat()),
        record(200, SWITCH | 0x00c5_0900, &[]),
        record(
            300,
            EVERYTHING | context,
            &[everything, dynamic("end\x1b")].concat(),
        ),
        record(
            400,
            ARRAYS | context,
            &[1, 0xff, 3, 1, 4, 0, 0, 0, 0x34, 0x12, 7, 0],
        ),
        record(
            500,
            STACK | context,
            &[8, 0, 0, 0, 0, 0x10, 0x20, 0, 4, 0x10, 0x20, 0],
        ),
        record(600, BOUNDED | 9 << 8 | context, &dynamic("bound")),
        record(700, NEAR | 300 << 1 | context, &800u32.to_le_bytes()),
        record(
            800,
            NEAR | NEAR_FAR | context,
            &(7u64 << 32 | 5).to_le_bytes(),
        ),
        record(50, CLOCK_ID | 0x80 << 8, &6u32.to_le_bytes()),
        record(60, SWITCH | 0x0005_0300, &[]),
    ]
}

/// A sub-buffer of [`SUB`] bytes with these records, the clock's not counted.
pub(crate) fn sub(cpu: u8, seq: u64, lost: u32, records: &[Vec<u8>]) -> Vec<u8> {
    let is_counted = |record: &&Vec<u8>| record[4] != CLOCK_ID as u8;
    let nr_records = records.iter().filter(is_counted).count() as u64;
    let header = SubHeader {
        seq,
        ts: (5 << 32) + 10 * seq,
        lost,
        cpu,
        current: cpu,
        ctx: 0xc0,
        version: SubHeader::VERSION,
        commit: nr_records * COMMIT_RECORD + SUB as u64,
        base: 0,
    };
    let mut sub = header.encode().to_vec();
    sub.extend(records.concat());
    assert!(sub.len() <= SUB && header.committed() > SUB_HEADER);
    sub.resize(SUB, 0);
    sub
}

fn header(magic: [u8; 8]) -> FileHeader {
    FileHeader {
        magic,
        version: VERSION.into(),
        tsc_hz: 2_000_000_000,
        image: 7,
        sub_size: SUB as u32,
        nr_cpus: 2,
        nr_subs: 4,
    }
}

/// A `trace.bin`.
pub(crate) fn trace_file() -> Vec<u8> {
    let mut writer = FrameWriter::new(Vec::new(), &header(FILE_MAGIC_TRACE)).expect("memory");
    for (cpu, seq, lost) in [(0, 0, 0), (1, 0, 0), (0, 1, 0), (1, 2, 3)] {
        let sub = sub(cpu, seq, lost, &records());
        writer.frame(CHANNEL_TRACE, cpu, &sub).expect("memory");
    }
    writer.finish().expect("memory")
}

/// A `log.bin`.
pub(crate) fn log_file() -> Vec<u8> {
    let mut writer = FrameWriter::new(Vec::new(), &header(FILE_MAGIC_LOG)).expect("memory");
    for payload in [&b"abc"[..], b"", b"defg"] {
        writer.frame(CHANNEL_LOG, 0, payload).expect("memory");
    }
    writer.finish().expect("memory")
}

/// Gives every frame from `start` on the checksum it should have: no mutation would find it.
pub(crate) fn repair(bytes: &mut [u8], start: usize) {
    let mut at = start;
    while let Some(rest) = bytes
        .get(at..)
        .filter(|rest| rest.len() >= FRAME_MAGIC.len())
    {
        let Some(header) = FrameHeader::decode(rest) else {
            at += 1;
            continue;
        };
        let payload = rest[FrameHeader::SIZE..].get(..header.len as usize);
        let Some(sum) = payload.map(|payload| header.sum_over(payload)) else {
            at += 1;
            continue;
        };
        bytes[at + FrameHeader::SIZE - 8..][..8].copy_from_slice(&sum.to_le_bytes());
        at += FrameHeader::SIZE + header.len as usize;
    }
}
