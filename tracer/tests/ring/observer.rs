//! The observer from outside, who only reads.

use std::cell::{Cell, RefCell};
use std::convert::Infallible;
use std::sync::atomic::Ordering::SeqCst;

use takt_tracer::ring::observer::{Observed, Observer, RingView};
use takt_tracer::ring::{Mode, Word};
use takt_tracer::wire::SubHeader;

use crate::cpu::{Action, Attempt, Cpu, Hook, Injector, Size, TestRing, write};
use crate::model::read_sub;

const SUB: u32 = 128;
const N: u32 = 4;
type TestCpu = Cpu<SUB, N>;

/// A view that reads word by word, with something happening before each.
pub(crate) struct View<'a, F, const S: u32, const M: u32> {
    cpu: &'a Cpu<S, M>,
    step: F,
}

impl<'a, const S: u32, const M: u32> View<'a, fn(), S, M> {
    pub(crate) fn of(cpu: &'a Cpu<S, M>) -> Self {
        Self { cpu, step: || {} }
    }
}

impl<F: Fn(), const S: u32, const M: u32> RingView for View<'_, F, S, M> {
    type Error = Infallible;

    fn load(&self, word: Word) -> Result<u64, Infallible> {
        (self.step)();
        Ok(self.cpu.word(word))
    }

    fn copy(&self, offset: u32, out: &mut [u8]) -> Result<(), Infallible> {
        let first = offset as usize / 4;
        for (at, place) in out.as_chunks_mut::<4>().0.iter_mut().enumerate() {
            (self.step)();
            *place = self.cpu.memory[first + at].load(SeqCst).to_le_bytes();
        }
        Ok(())
    }
}

/// How often what was seen.
#[derive(Debug, Default)]
struct Seen {
    full: u32,
    partial: u32,
    hole: u32,
    busy: u32,
    overwritten: u32,
}

impl Seen {
    /// Takes everything there is, and checks it against what writers did so far.
    fn take<F: Fn()>(
        &mut self,
        observer: &mut Observer,
        view: &View<'_, F, SUB, N>,
        attempts: impl Fn() -> Vec<Attempt>,
    ) {
        let mut copy = vec![0; SUB as usize];
        let mut last = 0;
        loop {
            let Ok(observed) = observer.poll(view, &mut copy);
            match observed {
                Observed::Full { seq } => {
                    self.full += 1;
                    let (header, reads) = read_sub(&copy, SUB as usize, &attempts());
                    assert_eq!(header.seq, seq);
                    assert!(header.ts >= last, "records of another life of the slot");
                    last = reads.last().map_or(last, |read| read.ts);
                }
                Observed::Busy { .. } => {
                    self.busy += 1;
                    observer.skip();
                }
                Observed::Overwritten => self.overwritten += 1,
                Observed::Nothing => break,
                Observed::Partial { .. } => unreachable!("{observed:?}"),
            }
        }
        let Ok(observed) = observer.poll_current(view, &mut copy);
        match observed {
            Observed::Partial {
                seq,
                reserved,
                committed,
            } if reserved == committed => {
                self.partial += 1;
                assert_eq!(read_sub(&copy, committed as usize, &attempts()).0.seq, seq);
            }
            Observed::Partial { seq, committed, .. } => {
                self.hole += 1;
                let header = SubHeader::decode(&copy).unwrap();
                assert_eq!((header.seq, header.committed()), (seq, committed));
            }
            _ => {}
        }
    }
}

/// A hook that does something once, before a given step.
struct Once<F> {
    steps: Cell<usize>,
    at: usize,
    what: F,
}

impl<F: Fn()> Hook for Once<F> {
    fn step(&self) {
        self.steps.set(self.steps.get() + 1);
        if self.steps.get() == self.at {
            (self.what)();
        }
    }
}

#[test]
fn an_observer_in_the_middle_of_a_write_sees_nothing_half_done() {
    let seen = RefCell::new(Seen::default());
    for (before, nested) in (0..14)
        .chain(40..60)
        .flat_map(|before| [0, 1, 6, 30].map(|nested| (before, nested)))
    {
        for size in [Size::B8, Size::B24, Size::Bytes(5), Size::Bytes(72)] {
            for step in 1.. {
                let cpu = TestCpu::new(Mode::Overwrite, (3 << 32) - u64::from(before) / 2);
                let run = Injector::new(&cpu);
                (0..before).for_each(|_| run.run(Action::Write(Size::B8)));
                run.attempts.borrow_mut().push(Attempt {
                    serial: before,
                    size,
                    begin: 0,
                    end: u64::MAX,
                    is_off: false,
                    is_on: true,
                });
                let observe = || {
                    run.run(Action::Storm(nested));
                    let mut observer = Observer::new(SUB, N).unwrap();
                    let attempts = || run.attempts.borrow().clone();
                    seen.borrow_mut()
                        .take(&mut observer, &View::of(&cpu), attempts);
                };
                let hook = Once {
                    steps: Cell::new(0),
                    at: step,
                    what: observe,
                };
                write(
                    TestRing {
                        cpu: &cpu,
                        hook: &hook,
                    },
                    before,
                    size,
                );
                if hook.steps.get() < step {
                    break;
                }
            }
        }
    }
    let seen = seen.into_inner();
    assert!(
        seen.full > 100 && seen.partial > 100 && seen.hole > 100 && seen.busy > 100,
        "{seen:?}"
    );
}

#[test]
fn writers_at_every_step_of_an_observer_spoil_nothing() {
    let mut seen = Seen::default();
    for (before, nested) in (0..30).flat_map(|before| [1, 5, 17, 40].map(|nested| (before, nested)))
    {
        for step in 1.. {
            let cpu = TestCpu::new(Mode::Overwrite, 0);
            let run = Injector::new(&cpu);
            run.run(Action::Storm(before));
            let steps = Cell::new(0);
            let write = || {
                steps.set(steps.get() + 1);
                if steps.get() == step {
                    run.run(Action::Storm(nested));
                }
            };
            let mut observer = Observer::new(SUB, N).unwrap();
            seen.take(
                &mut observer,
                &View {
                    cpu: &cpu,
                    step: write,
                },
                || run.attempts.borrow().clone(),
            );
            let total = cpu.written() / u64::from(SUB);
            if steps.get() < step {
                break;
            }
            assert!(observer.missed() <= total);
        }
    }
    assert!(
        seen.full > 100 && seen.partial > 100 && seen.overwritten > 100,
        "{seen:?}"
    );
}

#[test]
fn a_damaged_control_word_does_no_harm() {
    let cpu = TestCpu::new(Mode::Overwrite, 0);
    let mut copy = vec![0; SUB as usize];
    for pos in [1, 127, 128, u64::MAX, u64::MAX - 127, 1 << 63] {
        cpu.control.pos.store(pos, SeqCst);
        let mut observer = Observer::new(SUB, N).unwrap();
        assert!(!matches!(
            observer.poll(&View::of(&cpu), &mut copy),
            Ok(Observed::Full { .. })
        ));
        assert!(observer.poll_current(&View::of(&cpu), &mut copy).is_ok());
    }
    assert!(Observer::new(100, 4).is_none());
    assert!(Observer::new(32, 4).is_none());
    assert!(Observer::new(128, 0).is_none());
    assert!(Observer::new(1 << 30, 4).is_none());
}
