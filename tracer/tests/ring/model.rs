//! What must hold after a run, whatever happened in it.

use std::collections::BTreeMap;

use takt_tracer::ring::{self, Mode, Word, position};
use takt_tracer::wire::{CLOCK_CURRENT, CLOCK_ID, SUB_HEADER, SubHeader};

use crate::cpu::{Attempt, Cpu, Injector, Size, extra, text, time};

/// A record as read back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Read {
    pub(crate) serial: u32,
    pub(crate) ts: u64,
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
}

/// Reads a sub-buffer of which `len` bytes are written, written independently of the library's own decoder.
pub(crate) fn read_sub(bytes: &[u8], len: usize, attempts: &[Attempt]) -> (SubHeader, Vec<Read>) {
    let header = SubHeader::decode(bytes).unwrap();
    assert_eq!(
        (header.cpu, header.current, header.ctx, header.version),
        (3, 5, 0x81, SubHeader::VERSION)
    );
    assert_eq!(header.committed() as usize, len, "{header:?}");
    let mut half = header.ts >> 32;
    let mut last = header.ts;
    let mut reads = Vec::new();
    let mut at = SUB_HEADER as usize;
    while at + 8 <= len {
        let word0 = word(bytes, at + 4);
        if word0 & 0xff == 0 {
            break;
        }
        if word0 & 0xff == CLOCK_ID {
            let current = word0 >> 24;
            assert_eq!(word0 & CLOCK_CURRENT != 0, current == 5, "who runs");
            // Its own time means nothing: it may have been written ahead of time.
            half = u64::from(word(bytes, at + 8));
            at += 12;
            continue;
        }
        let ts = half << 32 | u64::from(word(bytes, at));
        assert!(ts >= last, "time goes back from {last:#x} to {ts:#x}");
        last = ts;
        let is_near = word0 & 0x8001 == 0x8001;
        let serial = match is_near {
            true => word0 >> 1 & 0x7ff | word0 >> 16 << 11,
            false => word0 >> 8,
        };
        let attempt = attempts
            .get(serial as usize)
            .expect("a record that nobody wrote");
        let size = attempt.size;
        let is_far = is_near && word0 & 0x1000 != 0;
        let far = if is_far { 0x1000 } else { 0 };
        assert_eq!(word0, size.word(serial) | far, "record {serial} is damaged");
        let words = match size {
            Size::B8 => 0,
            Size::B12 => 1,
            Size::B16 => 2,
            Size::B20 => 3,
            Size::B24 => 4,
            Size::Bytes(_) => 1,
            Size::Near(_) => 0,
        };
        at += 8;
        for k in 0..words {
            assert_eq!(
                word(bytes, at),
                extra(serial, k),
                "record {serial}, word {k}"
            );
            at += 4;
        }
        if let Size::Bytes(count) = size {
            assert_eq!(word(bytes, at) as usize, count);
            assert_eq!(bytes[at + 4..at + 4 + count], text(serial, count));
            at += 4 + count.next_multiple_of(4);
        }
        if let Size::Near(upper) = size {
            let read = match is_far {
                true => word(bytes, at + 4).into(),
                false => half,
            };
            let found = read << 32 | u64::from(word(bytes, at));
            assert_eq!(found, time(serial, upper), "record {serial}");
            at += if is_far { 8 } else { 4 };
        }
        assert!(
            at <= len,
            "record {serial} reaches beyond the committed part"
        );
        assert!(
            (attempt.begin..attempt.end).contains(&ts),
            "record {serial} has the time {ts:#x}, but was written from {:#x} to {:#x}",
            attempt.begin,
            attempt.end
        );
        reads.push(Read { serial, ts });
    }
    assert_eq!(header.records(), reads.len() as u64, "{header:?}");
    (header, reads)
}

/// What a run has left behind.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// Records, delivered or still in the ring, in order.
    pub(crate) reads: Vec<Read>,
    pub(crate) counters: ring::Counters,
}

/// Checks everything that must hold when no writer is inside any more.
pub(crate) fn check<const SUB: u32, const N: u32>(
    run: &Injector<'_, SUB, N>,
    mode: Mode,
) -> Outcome {
    assert_eq!(
        ring::is_on(run.cpu.quiet()),
        run.is_on.get(),
        "tracing is on or off as it was told last"
    );
    check_parts(
        run.cpu,
        &run.attempts.borrow(),
        &run.delivered.borrow(),
        mode,
    )
}

/// The same for a run without an injector.
pub(crate) fn check_parts<const SUB: u32, const N: u32>(
    cpu: &Cpu<SUB, N>,
    attempts: &[Attempt],
    delivered: &[Vec<u8>],
    mode: Mode,
) -> Outcome {
    let counters = ring::counters(cpu.quiet());
    let pos = cpu.written();
    let opened = pos.div_ceil(u64::from(SUB));
    let consumed = cpu.word(Word::Consumed);
    let limit = position::bytes(cpu.word(Word::Limit), u64::from(SUB * N));
    assert!(
        limit <= ring::ARMED || limit <= opened * u64::from(SUB),
        "the limit {limit} lies beyond the sub-buffer of {pos}"
    );

    let mut subs = BTreeMap::new();
    for copy in delivered {
        let (header, reads) = read_sub(copy, SUB as usize, attempts);
        assert!(
            subs.insert(header.seq, (header, reads)).is_none(),
            "delivered twice"
        );
    }
    assert_eq!(
        counters.read,
        subs.values()
            .map(|(header, _)| header.records())
            .sum::<u64>()
    );
    let oldest = opened.saturating_sub(u64::from(N));
    let mut in_buffer = 0;
    for seq in oldest..opened {
        let copy = cpu.copy((seq % u64::from(N)) as u32 * SUB);
        if copy[..8] != seq.to_le_bytes() {
            assert_ne!(
                cpu.word(Word::Skipped),
                0,
                "sub-buffer {seq} is not in its slot"
            );
            continue;
        }
        let len = (pos - seq * u64::from(SUB)).min(u64::from(SUB));
        let (header, reads) = read_sub(&copy, len as usize, attempts);
        assert_eq!(header.seq, seq);
        if seq >= consumed.max(cpu.word(Word::LiveStart)) {
            in_buffer += header.records();
            assert!(subs.insert(seq, (header, reads)).is_none());
        }
    }
    assert_eq!(counters.in_buffer, in_buffer);
    assert_eq!(
        counters.entries,
        counters.in_buffer + counters.read + counters.overrun
    );
    let skipped = cpu.word(Word::Skipped);
    assert_eq!(
        counters.bytes + skipped,
        pos,
        "every reserved byte was committed"
    );

    let mut last = 0;
    let mut lost = 0;
    let mut seen = vec![false; attempts.len()];
    let mut all = Vec::new();
    for (header, reads) in subs.values() {
        assert!(header.ts >= last, "sub-buffers overlap in time");
        assert!(header.lost >= lost);
        lost = header.lost;
        for read in reads {
            assert!(
                !seen[read.serial as usize],
                "record {} is there twice",
                read.serial
            );
            seen[read.serial as usize] = true;
            last = read.ts;
        }
        all.extend_from_slice(reads);
    }
    assert!(u64::from(lost) <= counters.dropped + counters.commit_overrun);

    let missing = attempts
        .iter()
        .filter(|attempt| !seen[attempt.serial as usize]);
    let refused = missing.clone().filter(|attempt| attempt.is_off).count() as u64;
    let maybe = missing
        .clone()
        .filter(|attempt| !attempt.is_off && !attempt.is_on)
        .count() as u64;
    let lost = counters.dropped + counters.commit_overrun + counters.overrun;
    let missing = missing.count() as u64;
    assert!(
        (lost..=lost + maybe).contains(&(missing - refused)),
        "{missing} records are missing, {refused} of them refused, {maybe} perhaps; counted as lost: {counters:?}"
    );
    assert!(
        attempts
            .iter()
            .all(|attempt| !attempt.is_off || !seen[attempt.serial as usize]),
        "recorded while off"
    );
    match mode {
        Mode::Overwrite => assert_eq!(counters.dropped, 0),
        Mode::StopWhenFull => assert_eq!(counters.overrun, 0),
    }
    Outcome {
        reads: all,
        counters,
    }
}
