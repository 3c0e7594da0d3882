//! Interrupts between every two steps of every operation of the ring, and interrupts of those interrupts.

use takt_tracer::ring::{self, Mode};

use crate::cpu::{Action, Cpu, Injector, SIZES, Size};
use crate::model::{Outcome, check};

const SUB: u32 = 128;
const N: u32 = 4;
const HEADER: u32 = 40;
const MODES: [Mode; 2] = [Mode::Overwrite, Mode::StopWhenFull];
/// Clock values from which the upper half changes in the first few readings of the run proper, or not at all.
const LATE_CLOCK: u64 = 7 << 32;
const B8: Action = Action::Write(Size::B8);

/// The state in which a run begins.
#[derive(Clone, Copy, Debug)]
struct Start {
    mode: Mode,
    /// Full sub-buffers before.
    subs: u32,
    /// Bytes used in the current sub-buffer: 0 or `HEADER + 8` and up in steps of 4.
    used: u32,
    /// Readings of the clock until its upper half changes.
    until_half: Option<u64>,
}

impl Start {
    fn cpu(self) -> Cpu<SUB, N> {
        Cpu::new(self.mode, LATE_CLOCK)
    }

    /// Brings the ring into the state.
    fn enter(self, run: &Injector<'_, SUB, N>) {
        for _ in 0..self.subs {
            run.run(Action::Write(Size::B8));
            run.run(Action::Close);
        }
        let mut left = self.used.saturating_sub(HEADER);
        while left > 0 {
            let size = if left.is_multiple_of(8) {
                Size::B8
            } else {
                Size::B12
            };
            run.run(Action::Write(size));
            left -= if left.is_multiple_of(8) { 8 } else { 12 };
        }
        if let Some(readings) = self.until_half {
            run.cpu
                .tsc
                .store((8 << 32) - readings, std::sync::atomic::Ordering::SeqCst);
        }
    }
}

/// Runs `action` from `start` with the interrupts of `plan`. `None` if it ended before all of them came.
fn run(start: Start, action: Action, plan: &[(usize, Action)]) -> Option<Outcome> {
    let cpu = start.cpu();
    let run = Injector::new(&cpu);
    start.enter(&run);
    run.plan(plan);
    run.run(action);
    if !run.is_done() {
        return None;
    }
    let before = run.steps.get();
    let outcome = check(&run, start.mode);
    assert!(before < 2000, "an operation takes {before} steps");

    // The ring must go on working, and in the end everything can be handed over.
    run.run(Action::TracingOn);
    run.run(Action::Consume);
    run.run(Action::Write(Size::B12));
    run.run(Action::Close);
    run.run(Action::Consume);
    run.run(Action::Close);
    run.run(Action::Consume);
    let end = check(&run, start.mode);
    assert_eq!(end.counters.in_buffer, 0, "something cannot be handed over");
    assert!(
        end.reads
            .last()
            .is_some_and(|read| read.serial as usize + 1 == run.attempts.borrow().len())
    );
    Some(outcome)
}

/// Runs with an interrupt before the first step, the second, and so on.
fn at_every_step(
    start: Start,
    action: Action,
    interrupt: Action,
    mut each: impl FnMut(Outcome),
) -> usize {
    for step in 1.. {
        let Some(outcome) = run(start, action, &[(step, interrupt)]) else {
            return step - 1;
        };
        each(outcome);
    }
    unreachable!()
}

/// Every use of the current sub-buffer that a record can leave.
fn uses() -> impl Iterator<Item = u32> {
    std::iter::once(0).chain((HEADER + 8..=SUB).step_by(4))
}

fn interrupts() -> impl Iterator<Item = Action> {
    SIZES.into_iter().map(Action::Write).chain([
        Action::TracingOff,
        Action::Close,
        Action::Consume,
        Action::HalfJump,
        Action::Storm(9),
    ])
}

#[test]
fn one_interrupt_at_every_step_of_every_write() {
    let mut runs = 0;
    for mode in MODES {
        for used in uses() {
            for size in SIZES {
                for (interrupt, until_half) in
                    interrupts().flat_map(|what| [(what, None), (what, Some(2))])
                {
                    let start = Start {
                        mode,
                        subs: 0,
                        used,
                        until_half,
                    };
                    runs += at_every_step(start, Action::Write(size), interrupt, |outcome| {
                        // Few records and a ring of four sub-buffers: there is no reason to lose anything.
                        let lost = outcome.counters.dropped + outcome.counters.commit_overrun;
                        assert_eq!(lost, 0, "{start:?} {size:?} {interrupt:?}");
                    });
                }
            }
        }
    }
    println!("{runs} runs");
    assert!(runs > 50_000);
}

/// Runs with all `interrupts`, in this order, at every ascending choice of steps; returns how many runs there were.
///
/// An interrupt that comes while another one is served interrupts that one; one that comes later, the first writer.
fn at_every_choice(
    start: Start,
    action: Action,
    interrupts: &[Action],
    plan: &mut Vec<(usize, Action)>,
) -> usize {
    let Some((first, rest)) = interrupts.split_first() else {
        let outcome = run(start, action, plan);
        if let Some(outcome) = &outcome {
            let lost = outcome.counters.dropped + outcome.counters.commit_overrun;
            assert_eq!(lost, 0, "{start:?} {action:?} {plan:?}");
        }
        return usize::from(outcome.is_some());
    };
    let mut runs = 0;
    for step in plan.last().map_or(0, |(step, _)| *step) + 1.. {
        plan.push((step, *first));
        let more = at_every_choice(start, action, rest, plan);
        plan.pop();
        if more == 0 {
            return runs;
        }
        runs += more;
    }
    unreachable!()
}

#[test]
fn two_interrupts_at_every_pair_of_steps() {
    const PAIRS: [[Action; 2]; 10] = [
        [B8, B8],
        [Action::Write(Size::B20), Action::Write(Size::B16)],
        [Action::HalfJump, B8],
        [B8, Action::HalfJump],
        [B8, Action::Close],
        [Action::Close, B8],
        [Action::TracingOff, Action::TracingOn],
        [Action::TracingOff, B8],
        [Action::Arm, B8],
        [B8, Action::Arm],
    ];
    let mut runs = 0;
    for used in uses() {
        for (number, pair) in PAIRS.iter().enumerate() {
            for size in [Size::B8, Size::B12, Size::B24, Size::Bytes(5)] {
                let until_half = (number % 3 == 0).then_some(3);
                let start = Start {
                    mode: MODES[number % 2],
                    subs: 0,
                    used,
                    until_half,
                };
                runs += at_every_choice(start, Action::Write(size), pair, &mut Vec::new());
            }
        }
    }
    println!("{runs} runs");
    assert!(runs > 50_000);
}

#[test]
fn three_interrupts_at_every_choice_of_steps() {
    const TRIPLES: [[Action; 3]; 3] = [
        [B8, B8, B8],
        [Action::HalfJump, B8, Action::HalfJump],
        [Action::TracingOff, Action::TracingOn, B8],
    ];
    let mut runs = 0;
    for left in [0, 8, 12, 20] {
        for triple in TRIPLES {
            let start = Start {
                mode: Mode::Overwrite,
                subs: 0,
                used: SUB - left,
                until_half: Some(3),
            };
            runs += at_every_choice(start, B8, &triple, &mut Vec::new());
        }
    }
    println!("{runs} runs");
    assert!(runs > 50_000);
}

#[test]
fn interrupts_while_the_ring_is_full() {
    let (mut dropped, mut overrun) = (0, 0);
    for (mode, subs) in [
        (Mode::StopWhenFull, 3),
        (Mode::StopWhenFull, 4),
        (Mode::Overwrite, 3),
        (Mode::Overwrite, 9),
    ] {
        for (used, size) in uses().flat_map(|used| SIZES.map(|size| (used, size))) {
            if mode == Mode::StopWhenFull && subs == 4 && used > 0 {
                continue; // cannot be reached
            }
            for interrupt in interrupts() {
                let start = Start {
                    mode,
                    subs,
                    used,
                    until_half: Some(4),
                };
                at_every_step(start, Action::Write(size), interrupt, |outcome| {
                    dropped += outcome.counters.dropped;
                    overrun += outcome.counters.overrun;
                });
            }
        }
    }
    assert!(dropped > 0 && overrun > 0);
}

#[test]
fn writes_at_every_step_of_everything_else() {
    let others = [
        Action::Close,
        Action::Consume,
        Action::TracingOn,
        Action::TracingOff,
        Action::AnnounceNext,
        Action::MakeRoom(SUB / 2),
    ];
    for (mode, subs) in [(Mode::StopWhenFull, 3), (Mode::Overwrite, 6)] {
        for used in uses() {
            let start = Start {
                mode,
                subs,
                used,
                until_half: Some(3),
            };
            for action in others {
                for interrupt in SIZES
                    .map(Action::Write)
                    .into_iter()
                    .chain([Action::Storm(9), Action::Storm(40)])
                {
                    assert!(at_every_step(start, action, interrupt, |_| {}) > 0);
                }
            }
        }
    }
}

/// What the idle thread does ahead of time costs nobody anything, also if something else happens first: records before
/// the announced half, of it, and of the half behind it keep their times, and none is lost.
#[test]
fn what_was_announced_comes_later_or_never() {
    let halves = [
        &[B8][..],
        &[Action::HalfJump, B8],
        &[B8, Action::HalfJump, B8],
        &[Action::HalfJump, Action::HalfJump, B8],
    ];
    for used in uses() {
        for what in halves {
            for ahead in [Action::AnnounceNext, Action::MakeRoom(SUB / 2)] {
                let cpu: Cpu<SUB, N> = Cpu::new(Mode::StopWhenFull, LATE_CLOCK);
                let run = Injector::new(&cpu);
                Start {
                    mode: Mode::StopWhenFull,
                    subs: 0,
                    used,
                    until_half: None,
                }
                .enter(&run);
                run.run(ahead);
                what.iter().for_each(|action| run.run(*action));
                let outcome = check(&run, Mode::StopWhenFull);
                assert_eq!(outcome.reads.len(), run.attempts.borrow().len());
            }
        }
    }
}

#[test]
fn room_is_made_only_where_little_is_left() {
    let pos_after = |used| {
        let cpu: Cpu<SUB, N> = Cpu::new(Mode::StopWhenFull, 0);
        let run = Injector::new(&cpu);
        let start = Start {
            mode: Mode::StopWhenFull,
            subs: 0,
            used,
            until_half: None,
        };
        start.enter(&run);
        run.run(Action::MakeRoom(32));
        check(&run, Mode::StopWhenFull);
        cpu.written()
    };
    assert_eq!(pos_after(SUB - 32), u64::from(SUB - 32));
    assert_eq!(pos_after(SUB - 28), u64::from(SUB + HEADER));
}

/// Announcing is one exchange and one record, whatever interrupts it; the measured path then finds the half noted.
#[test]
fn an_announced_half_is_noted() {
    let cpu: Cpu<SUB, N> = Cpu::new(Mode::StopWhenFull, LATE_CLOCK);
    let run = Injector::new(&cpu);
    run.run(B8);
    run.run(Action::AnnounceNext);
    let before = cpu.written();
    assert_eq!(cpu.word(ring::Word::TsHi), ring::noted(8));
    run.run(Action::Each(&[Action::HalfJump, B8]));
    assert_eq!(cpu.written(), before + 8);
    check(&run, Mode::StopWhenFull);
}

#[test]
fn tracing_goes_on_and_off_at_every_step() {
    for used in uses() {
        let start = Start {
            mode: Mode::Overwrite,
            subs: 1,
            used,
            until_half: Some(2),
        };
        for size in [Size::B8, Size::B24, Size::Bytes(5)] {
            let interrupt = Action::Each(&[Action::TracingOff, B8, Action::TracingOn, B8]);
            assert!(at_every_step(start, Action::Write(size), interrupt, |_| {}) > 5);
        }
    }
}

#[test]
fn nothing_is_recorded_while_tracing_is_off() {
    let cpu: Cpu<SUB, N> = Cpu::new(Mode::Overwrite, 5);
    let run = Injector::new(&cpu);
    run.run(Action::TracingOff);
    SIZES
        .into_iter()
        .for_each(|size| run.run(Action::Write(size)));
    let outcome = check(&run, Mode::Overwrite);
    assert_eq!(outcome.counters, ring::Counters::default());
}
