//! Snapshots: what was recorded before stays, whatever happens then.

use takt_tracer::ring::observer::Observer;
use takt_tracer::ring::{self, Mode, Word, snapshot};

use crate::cpu::{Action, Cpu, Injector, SIZES, Size};
use crate::model::{Read, check, read_sub};
use crate::observer::View;

const SUB: u32 = 128;
const N: u32 = 8;
const B8: Action = Action::Write(Size::B8);
/// Records of 8 bytes in a sub-buffer.
const IN_SUB: u32 = (SUB - 40) / 8;

type TestCpu = Cpu<SUB, N>;

/// The records of the snapshot, oldest first.
fn kept(cpu: &TestCpu, run: &Injector<'_, SUB, N>) -> Vec<Read> {
    let observer = Observer::new(SUB, N).unwrap();
    let view = View::of(cpu);
    let mut copy = vec![0; SUB as usize];
    let mut reads = Vec::new();
    let Ok(kept) = observer.kept(&view);
    for seq in kept {
        let Ok(found) = observer.copy_kept(&view, seq, &mut copy);
        if let Some(len) = found {
            let (_, mut records) = read_sub(&copy, len as usize, &run.attempts.borrow());
            reads.append(&mut records);
        }
    }
    reads
}

/// The records that an observer from outside finds in what is recorded now, and how many sub-buffers it missed.
fn live(cpu: &TestCpu, run: &Injector<'_, SUB, N>, from: u64) -> (Vec<Read>, u64) {
    let mut observer = Observer::new(SUB, N).unwrap().starting_at(from);
    let view = View::of(cpu);
    let mut copy = vec![0; SUB as usize];
    let mut reads = Vec::new();
    while let Ok(ring::observer::Observed::Full { .. }) = observer.poll(&view, &mut copy) {
        let (_, mut records) = read_sub(&copy, SUB as usize, &run.attempts.borrow());
        reads.append(&mut records);
    }
    (reads, observer.missed())
}

fn write_subs(run: &Injector<'_, SUB, N>, subs: u32) {
    for _ in 0..subs * IN_SUB {
        run.run(B8);
    }
}

fn serials(reads: &[Read]) -> Vec<u32> {
    reads.iter().map(|read| read.serial).collect()
}

/// From whatever place in the ring and however often: the snapshot is half a ring of what was recorded last.
#[test]
fn half_a_ring_is_kept() {
    for before in 0..=2 * N {
        for rest in [0, 1, IN_SUB - 1] {
            let cpu = TestCpu::new(Mode::Overwrite, 5);
            let run = Injector::new(&cpu);
            write_subs(&run, before);
            let mut since = 0;
            for turn in 0..4 {
                (0..rest).for_each(|_| run.run(B8));
                run.run(Action::Snapshot);
                let nr = run.attempts.borrow().len() as u32;
                let pending = kept(&cpu, &run);
                run.run(B8);
                check(&run, Mode::Overwrite);
                let found = serials(&kept(&cpu, &run));
                assert_eq!(found, serials(&pending), "before and after");
                // The last ones, all that were recorded since the last snapshot or what half a ring has room for.
                let first = found.first().copied().unwrap_or(nr);
                assert!(found.iter().copied().eq(first..nr), "none is missing");
                assert!(first >= since);
                let room = (N / 2 - 1) * IN_SUB;
                assert!(
                    found.len() as u32 >= room.min(nr - since),
                    "{before} {rest} {turn}"
                );
                since = nr;
                // Whatever is recorded then leaves it alone.
                write_subs(&run, turn * turn * N / 4);
                assert_eq!(serials(&kept(&cpu, &run)), found);
                check(&run, Mode::Overwrite);
                let (reads, _) = live(&cpu, &run, cpu.word(Word::LiveStart));
                assert!(reads.iter().all(|read| read.serial >= nr));
            }
        }
    }
}

/// An observer that follows knows how many sub-buffers it missed: those that were passed over are none.
#[test]
fn an_observer_counts_what_was_there() {
    let cpu = TestCpu::new(Mode::Overwrite, 5);
    let run = Injector::new(&cpu);
    write_subs(&run, 3);
    run.run(Action::Snapshot);
    run.run(B8);
    let from = cpu.word(Word::LiveStart);
    for subs in [0, 1, 3, 4, 5, 8, 9, 40] {
        write_subs(&run, subs);
        let (reads, missed) = live(&cpu, &run, from);
        let written = run.attempts.borrow().len() as u32 - 3 * IN_SUB;
        let there = reads.len() as u32 / IN_SUB;
        assert_eq!(reads.len() as u32 % IN_SUB, 0);
        assert_eq!(
            u64::from(written / IN_SUB),
            missed + u64::from(there),
            "{subs}"
        );
    }
}

#[test]
fn a_released_ring_is_one_again() {
    for (before, after) in [(1, 2), (5, 3), (9, 6), (20, 11)] {
        let cpu = TestCpu::new(Mode::Overwrite, 5);
        let run = Injector::new(&cpu);
        write_subs(&run, before);
        run.run(Action::Snapshot);
        write_subs(&run, after);
        run.run(Action::TracingOff);
        snapshot::release(cpu.quiet());
        run.run(Action::TracingOn);
        assert_eq!(kept(&cpu, &run).len(), 0);
        write_subs(&run, 2 * N);
        let outcome = check(&run, Mode::Overwrite);
        assert!(outcome.counters.in_buffer >= u64::from((N - 1) * IN_SUB));
        // A consumer gets over what was passed over.
        run.run(Action::Close);
        run.run(Action::Consume);
        assert_eq!(check(&run, Mode::Overwrite).counters.in_buffer, 0);
    }
}

/// A snapshot that is pending goes with all that it would hold; what comes then is recorded as ever.
#[test]
fn what_is_forgotten_is_not_taken() {
    for subs in [0, 2, 5, 9, 20] {
        for rest in [0, 3] {
            let cpu = TestCpu::new(Mode::Overwrite, 5);
            let run = Injector::new(&cpu);
            write_subs(&run, subs);
            (0..rest).for_each(|_| run.run(B8));
            run.run(Action::Snapshot);
            run.run(Action::TracingOff);
            snapshot::forget(cpu.quiet());
            run.run(Action::TracingOn);
            let before = run.attempts.borrow().len() as u32;
            write_subs(&run, 3);
            assert_eq!(kept(&cpu, &run).len(), 0);
            let outcome = check(&run, Mode::Overwrite);
            assert_eq!(outcome.counters.in_buffer, u64::from(3 * IN_SUB));
            let (reads, _) = live(&cpu, &run, cpu.word(Word::LiveStart));
            assert!(serials(&reads).into_iter().eq(before..before + 3 * IN_SUB));
        }
    }
}

/// Whenever a snapshot is asked for, at every step of a write and with writes around it: it is taken once, before the
/// next record of who was not under way, and nothing is lost or damaged.
#[test]
fn asked_for_at_every_step() {
    let interrupts = [
        Action::Snapshot,
        Action::Each(&[Action::Snapshot, B8]),
        Action::Each(&[B8, Action::Snapshot, B8, Action::Snapshot, B8]),
        Action::Each(&[Action::Storm(9), Action::Snapshot, Action::Storm(9)]),
        Action::Each(&[Action::TracingOff, Action::Snapshot, Action::TracingOn]),
    ];
    let (mut runs, mut nr_complete) = (0, 0);
    for subs in [0, 1, 4, 5, 9] {
        for used in 0..IN_SUB {
            for earlier in [false, true] {
                for size in SIZES {
                    for interrupt in interrupts {
                        for step in 1.. {
                            let cpu = TestCpu::new(Mode::Overwrite, 7 << 32);
                            let run = Injector::new(&cpu);
                            if earlier {
                                write_subs(&run, 2);
                                run.run(Action::Snapshot);
                            }
                            write_subs(&run, subs);
                            (0..used).for_each(|_| run.run(B8));
                            run.asked.borrow_mut().clear();
                            run.plan(&[(step, interrupt)]);
                            run.run(Action::Write(size));
                            if !run.is_done() {
                                break;
                            }
                            let asked = *run.asked.borrow().last().unwrap();
                            run.run(B8);
                            let outcome = check(&run, Mode::Overwrite);
                            let lost = outcome.counters.commit_overrun;
                            // Where someone is inside a sub-buffer that comes round again or is passed over, or about to
                            // pass over the one that comes next.
                            let may_lose = match interrupt {
                                Action::Each([Action::Storm(_), _, Action::Storm(nr)]) => *nr,
                                _ => 3,
                            };
                            assert!(
                                lost <= u64::from(may_lose),
                                "{subs} {used} {size:?} {interrupt:?} {step}"
                            );
                            if lost == 0 {
                                assert_eq!(cpu.word(Word::Wanted), cpu.word(Word::Taken));
                                nr_complete += 1;
                            }
                            // No one who began after it was asked for is in it, and everyone who ended before is in it.
                            let found = kept(&cpu, &run);
                            let attempts = run.attempts.borrow();
                            for read in &found {
                                assert!(
                                    attempts[read.serial as usize].begin <= asked,
                                    "{subs} {used} {size:?} {interrupt:?} {step}: {read:?} {asked}"
                                );
                            }
                            let last = found.iter().map(|read| read.serial).max();
                            let ended = attempts
                                .iter()
                                .rfind(|one| one.end < asked && one.end > 0 && !one.is_off);
                            // Two snapshots in one: the last one may have been taken with nothing in it.
                            if let (Some(ended), Some(last), 0) = (ended, last, lost) {
                                assert!(
                                    last >= ended.serial || found.len() < 3,
                                    "{subs} {used} {earlier} {size:?} {interrupt:?} {step}: {:?} {last} {ended:?} {asked}",
                                    found.len()
                                );
                            }
                            runs += 1;
                        }
                    }
                }
            }
        }
    }
    println!("{runs} runs, {nr_complete} without a loss");
    assert!(runs > 50_000 && nr_complete > runs / 10 * 9);
}

/// A snapshot for which the other half is not free, since a writer is still inside, is taken as soon as it is.
#[test]
fn what_was_refused_is_taken_later() {
    // Round to the fourth sub-buffer; the next snapshot needs the first one, then.
    const MEANWHILE: Action = Action::Each(&[
        Action::Storm(18),
        Action::Snapshot,
        B8,
        Action::Snapshot,
        B8,
    ]);
    let mut nr_refused = 0;
    for step in 1.. {
        let cpu = TestCpu::new(Mode::Overwrite, 5);
        let run = Injector::new(&cpu);
        run.run(B8);
        run.plan(&[(step, MEANWHILE)]);
        run.run(B8);
        if !run.is_done() {
            break;
        }
        let refused = check(&run, Mode::Overwrite).counters.commit_overrun;
        let is_pending = || cpu.word(Word::Taken) != cpu.word(Word::Wanted);
        assert_eq!(is_pending(), refused > 0, "step {step}");
        run.run(B8);
        assert!(!is_pending(), "step {step}");
        assert_eq!(cpu.word(Word::LiveStart), u64::from(N), "step {step}");
        nr_refused += refused;
    }
    assert!(nr_refused > 0);
}

/// A writer that has taken a snapshot upon itself is interrupted by some who take later ones: it takes none that nobody asked for, and
/// what it could not do is not asked for again.
#[test]
fn others_were_faster() {
    const MEANWHILE: Action = Action::Each(&[B8, Action::Snapshot, B8, B8, Action::Snapshot, B8]);
    let mut nr_complete = 0;
    for subs in [0, 1, 4, 5, 9] {
        for used in 0..IN_SUB {
            for step in 1.. {
                let cpu = TestCpu::new(Mode::Overwrite, 7 << 32);
                let run = Injector::new(&cpu);
                write_subs(&run, subs);
                (0..used).for_each(|_| run.run(B8));
                run.run(Action::Snapshot);
                let outer = run.attempts.borrow().len() as u32;
                run.plan(&[(step, MEANWHILE)]);
                run.run(B8);
                if !run.is_done() {
                    break;
                }
                if check(&run, Mode::Overwrite).counters.commit_overrun != 0 {
                    continue;
                }
                nr_complete += 1;
                let has = |serial| kept(&cpu, &run).iter().any(|read| read.serial == serial);
                assert!(has(outer + 3), "{subs} {used} {step}");
                run.run(B8);
                assert!(has(outer + 3), "{subs} {used} {step}: and later");
            }
        }
    }
    assert!(nr_complete > 1_000);
}

/// One who is interrupted by someone who forgets all snapshots asks for none when it gives back what it has taken upon itself.
#[test]
fn forgotten_while_it_is_taken() {
    // Round to where the next snapshot needs the sub-buffer in which someone is.
    const MEANWHILE: Action = Action::Each(&[
        Action::Storm(18),
        Action::Snapshot,
        B8,
        Action::Snapshot,
        B8,
    ]);
    const FORGET: Action = Action::Each(&[Action::TracingOff, Action::Forget]);
    let mut runs = 0;
    for step in 1..30 {
        for later in 1.. {
            let cpu = TestCpu::new(Mode::Overwrite, 5);
            let run = Injector::new(&cpu);
            run.run(B8);
            run.plan(&[(step, MEANWHILE), (step + later, FORGET)]);
            run.run(B8);
            if !run.is_done() {
                break;
            }
            if !run.asked.borrow().is_empty() {
                continue; // asked for again
            }
            let [wanted, taken] = [Word::Wanted, Word::Taken].map(|word| cpu.word(word));
            assert_eq!(wanted, taken, "{step} {later}");
            runs += 1;
        }
    }
    assert!(runs > 100);
}
