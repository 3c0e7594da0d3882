//! Writers that are stopped inside a write for long, and resume in any order: preempted threads.

use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Condvar, Mutex};

use takt_tracer::ring::{self, Mode};

use crate::cpu::{Action, Attempt, Cpu, Hook, Injector, Size, TestRing, write};
use crate::model::{check, check_parts};

const SUB: u32 = 128;
const N: u32 = 4;

#[test]
fn a_stalled_writer_keeps_its_place_while_others_lap_the_ring() {
    let (mut with_overrun, mut without) = (0, 0);
    for mode in [Mode::Overwrite, Mode::StopWhenFull] {
        for fill in 0..12 {
            for size in [Size::B8, Size::B24, Size::Bytes(33)] {
                for step in 1.. {
                    let cpu: Cpu<SUB, N> = Cpu::new(mode, 1000);
                    let run = Injector::new(&cpu);
                    (0..fill).for_each(|_| run.run(Action::Write(Size::B8)));
                    run.plan(&[(step, Action::Storm(100))]);
                    run.run(Action::Write(size));
                    if !run.is_done() {
                        break;
                    }
                    let outcome = check(&run, mode);
                    if outcome.counters.commit_overrun > 0 {
                        with_overrun += 1;
                        // The stalled writer had its place, so nobody may have taken it.
                        let stalled = outcome.reads.iter().any(|read| read.serial == fill);
                        assert!(stalled, "{mode:?} {size:?} at step {step}");
                    } else {
                        without += 1;
                    }
                    // And the ring recovers.
                    (0..50).for_each(|_| run.run(Action::Write(Size::B16)));
                    let recovered = check(&run, mode);
                    assert_eq!(
                        recovered.counters.commit_overrun,
                        outcome.counters.commit_overrun
                    );
                }
            }
        }
    }
    assert!(
        with_overrun > 100 && without > 100,
        "{with_overrun} and {without}"
    );
}

/// Whose turn it is: two threads of one CPU, one of which runs at a time.
struct Cpu2 {
    state: Mutex<Turn>,
    moved: Condvar,
}

struct Turn {
    running: usize,
    /// Steps until the next switch; beyond the last one threads run to their end.
    switches: Vec<usize>,
    is_done: [bool; 2],
    unused: bool,
}

impl Turn {
    fn switch(&mut self) {
        if !self.is_done[1 - self.running] {
            self.running = 1 - self.running;
        }
    }
}

/// The hook of one of the two threads.
struct Thread<'a> {
    cpu: &'a Cpu2,
    number: usize,
}

impl Hook for Thread<'_> {
    fn step(&self) {
        let mut turn = self.cpu.state.lock().unwrap();
        if turn.running == self.number {
            match turn.switches.first_mut() {
                Some(0) => {
                    turn.switches.remove(0);
                    turn.switch();
                    self.cpu.moved.notify_all();
                }
                Some(left) => *left -= 1,
                None => {}
            }
        }
        drop(
            self.cpu
                .moved
                .wait_while(turn, |turn| turn.running != self.number)
                .unwrap(),
        );
    }
}

impl Thread<'_> {
    fn end(&self) {
        let mut turn = self.cpu.state.lock().unwrap();
        turn.is_done[self.number] = true;
        if turn.running == self.number {
            // The slice was longer than the thread.
            turn.unused |= !turn.switches.is_empty();
            turn.switches.clear();
            turn.switch();
        }
        self.cpu.moved.notify_all();
    }
}

/// Runs two threads with one list of writes each, preempting after the given numbers of steps. Returns whether all
/// slices were used up.
fn interleave(used: u32, writes: [&[Size]; 2], slices: &[usize]) -> bool {
    let cpu: Cpu<SUB, N> = Cpu::new(Mode::Overwrite, (8 << 32) - 4 - u64::from(used) / 8);
    let attempts = Mutex::new(Vec::new());
    let one_write = |ring: TestRing<'_, _, SUB, N>, size| {
        let serial = {
            let mut attempts = attempts.lock().unwrap();
            let serial = attempts.len() as u32;
            let begin = cpu.tsc.load(SeqCst);
            attempts.push(Attempt {
                serial,
                size,
                begin,
                end: u64::MAX,
                is_off: false,
                is_on: true,
            });
            serial
        };
        write(ring, serial, size);
        attempts.lock().unwrap()[serial as usize].end = cpu.tsc.load(SeqCst);
    };
    let turn = Cpu2 {
        state: Mutex::new(Turn {
            running: 0,
            switches: Vec::new(),
            is_done: [true; 2],
            unused: false,
        }),
        moved: Condvar::new(),
    };
    let first = Thread {
        cpu: &turn,
        number: 0,
    };
    (0..used / 8).for_each(|_| {
        one_write(
            TestRing {
                cpu: &cpu,
                hook: &first,
            },
            Size::B8,
        )
    });
    *turn.state.lock().unwrap() = Turn {
        running: 0,
        switches: slices.to_vec(),
        is_done: [false; 2],
        unused: false,
    };
    std::thread::scope(|scope| {
        for (number, sizes) in writes.into_iter().enumerate() {
            let (turn, cpu, one_write) = (&turn, &cpu, &one_write);
            scope.spawn(move || {
                let thread = Thread { cpu: turn, number };
                for size in sizes {
                    one_write(TestRing { cpu, hook: &thread }, *size);
                }
                thread.end();
            });
        }
    });
    let attempts = attempts.into_inner().unwrap();
    let outcome = check_parts(&cpu, &attempts, &[], Mode::Overwrite);
    assert_eq!(outcome.reads.len(), attempts.len(), "nothing is lost");
    ring::close(cpu.quiet());
    !turn.state.lock().unwrap().unused
}

#[test]
fn two_threads_preempt_each_other_three_times_at_every_choice_of_steps() {
    let mut runs = 0;
    // Records before: none; so many that the first sub-buffer has room for one more, for 8 bytes, for none.
    for (used, sizes) in [
        (0, [Size::B8, Size::B12]),
        (64, [Size::B8, Size::B24]),
        (80, [Size::B8, Size::B16]),
        (88, [Size::Bytes(5), Size::B8]),
    ] {
        let [first, second] = sizes;
        for one in 0.. {
            if !interleave(used, [&[first], &[second]], &[one]) {
                break;
            }
            for two in 0.. {
                if !interleave(used, [&[first], &[second]], &[one, two]) {
                    break;
                }
                for three in 0.. {
                    runs += 1;
                    if !interleave(used, [&[first], &[second]], &[one, two, three]) {
                        break;
                    }
                }
            }
        }
    }
    println!("{runs} runs");
    assert!(runs > 2_000);
}
