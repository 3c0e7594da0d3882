//! The consumer on the ring's CPU, and the modes and counters.

use std::sync::atomic::Ordering::SeqCst;

use takt_tracer::ring::observer::{Observed, Observer};
use takt_tracer::ring::{self, Mode, Overwritten, position};
use takt_tracer::wire::{CLOCK_CURRENT, CLOCK_ID, SubHeader};

use crate::cpu::{Action, Cpu, Injector, SIZES, Size};
use crate::model::{check, read_sub};
use crate::observer::View;

const SUB: u32 = 128;
const N: u32 = 4;
type TestCpu = Cpu<SUB, N>;

#[test]
fn a_consumer_that_keeps_up_loses_nothing() {
    let cpu = TestCpu::new(Mode::StopWhenFull, (1 << 32) - 150);
    let run = Injector::new(&cpu);
    for round in 0..200 {
        run.run(Action::Write(SIZES[round % SIZES.len()]));
        if round % 3 == 0 {
            run.run(Action::Consume);
        }
    }
    let outcome = check(&run, Mode::StopWhenFull);
    assert_eq!(outcome.reads.len(), 200);
    assert!(outcome.counters.read > 150);
}

#[test]
fn a_full_ring_drops_the_newest_and_says_how_many() {
    let cpu = TestCpu::new(Mode::StopWhenFull, 0);
    let run = Injector::new(&cpu);
    run.run(Action::Storm(100));
    let outcome = check(&run, Mode::StopWhenFull);
    assert_eq!(
        (outcome.counters.entries, outcome.counters.dropped),
        (20, 80)
    );
    assert!(outcome.reads.iter().map(|read| read.serial).eq(0..20));

    // Everything is handed over; then closing once more tells of the loss.
    let last_lost = |run: &Injector<'_, SUB, N>| {
        let delivered = run.delivered.borrow();
        SubHeader::decode(delivered.last().unwrap()).unwrap().lost
    };
    run.run(Action::TracingOff);
    run.run(Action::Close);
    run.run(Action::Consume);
    assert_eq!(last_lost(&run), 0);
    run.run(Action::Close);
    run.run(Action::Consume);
    assert_eq!(last_lost(&run), 80);
    assert_eq!(run.delivered.borrow().len(), 5);
    run.run(Action::Close);
    run.run(Action::Consume);
    assert_eq!(run.delivered.borrow().len(), 5, "closing is idempotent");
    check(&run, Mode::StopWhenFull);
}

#[test]
fn a_flight_recorder_keeps_the_newest() {
    let cpu = TestCpu::new(Mode::Overwrite, 0);
    let run = Injector::new(&cpu);
    run.run(Action::Storm(103));
    let outcome = check(&run, Mode::Overwrite);
    assert_eq!(outcome.counters.entries, 103);
    assert_eq!(outcome.counters.overrun, 85);
    assert!(outcome.reads.iter().map(|read| read.serial).eq(85..103));
}

#[test]
fn a_sub_buffer_that_was_overwritten_is_not_consumed() {
    let cpu = TestCpu::new(Mode::Overwrite, 0);
    let run = Injector::new(&cpu);
    run.run(Action::Storm(10));
    let full = ring::peek_full(cpu.quiet()).unwrap();
    assert_eq!((full.seq, full.offset, full.records), (0, 0, 5));
    run.run(Action::Storm(10));
    assert_eq!(
        ring::peek_full(cpu.quiet()),
        Some(full),
        "the ring is full, but nothing overwritten yet"
    );
    run.run(Action::Storm(1));
    assert_eq!(ring::consume(cpu.quiet(), full), Err(Overwritten));
    assert_eq!(ring::peek_full(cpu.quiet()).unwrap().seq, 1);
    check(&run, Mode::Overwrite);
}

#[test]
fn the_commit_counter_may_wrap() {
    // A slot's byte count is kept modulo 2^24: 2^17 lives of a slot of 128 bytes.
    let cpu: Cpu<128, 2> = Cpu::new(Mode::Overwrite, 0);
    let lives = (1u64 << 24) / 128;
    let pos = (lives - 1) * 2 * 128;
    cpu.control.pos.store(position::after(pos, 2 * 128), SeqCst);
    for slot in 0..2 {
        let bytes = (lives - 1) * 128;
        let commit = bytes + (77 << 24);
        cpu.memory[slot * 32 + 6].store(commit as u32, SeqCst);
        cpu.memory[slot * 32 + 7].store((commit >> 32) as u32, SeqCst);
    }
    let before = ring::counters(cpu.quiet());
    assert_eq!((before.entries, before.bytes), (154, pos));
    let run = Injector::new(&cpu);
    run.run(Action::Storm(40));
    let counters = ring::counters(cpu.quiet());
    assert_eq!(
        (counters.entries, counters.dropped, counters.commit_overrun),
        (194, 0, 0)
    );
    assert_eq!(counters.bytes, cpu.written());
    let mut observer = Observer::new(128, 2).unwrap();
    let mut copy = vec![0; 128];
    assert!(matches!(
        observer.poll(&View::of(&cpu), &mut copy),
        Ok(Observed::Full { .. })
    ));
    assert_eq!(read_sub(&copy, 128, &run.attempts.borrow()).1.len(), 5);
}

/// Who was told to say who runs does so once, before its record, and loses nothing.
#[test]
fn the_next_record_says_who_runs() {
    let tells = |cpu: &TestCpu, tid: u32| {
        let copy = cpu.copy(0);
        let words = copy[..cpu.written() as usize].as_chunks().0.iter();
        let words: Vec<_> = words.map(|word| u32::from_le_bytes(*word)).collect();
        let tells = |word: &&u32| **word == CLOCK_ID | CLOCK_CURRENT | tid << 24;
        words.iter().filter(tells).count()
    };
    for is_toggled in [false, true] {
        let cpu = TestCpu::new(Mode::Overwrite, 0);
        let run = Injector::new(&cpu);
        run.run(Action::Write(Size::B8));
        assert_eq!(tells(&cpu, 5), 0, "the header has told it");
        if is_toggled {
            run.run(Action::TracingOff);
            run.run(Action::Write(Size::B8));
            run.run(Action::Arm);
            run.run(Action::TracingOn);
        } else {
            run.run(Action::Arm);
        }
        run.run(Action::Write(Size::B8));
        assert_eq!(tells(&cpu, 5), 1);
        run.run(Action::Write(Size::B8));
        assert_eq!(tells(&cpu, 5), 1);
        assert_eq!(check(&run, Mode::Overwrite).reads.len(), 3);
        // The first CPU's idle thread has the number 0, which is a number as any other.
        run.run(Action::Arm);
        cpu.tid.store(0, SeqCst);
        run.run(Action::Write(Size::B8));
        assert_eq!(tells(&cpu, 0), 1);
    }
}
