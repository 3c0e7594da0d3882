//! The writer against an observer on another CPU, under every order of their steps and every visibility of their
//! stores that the memory model allows.

use std::convert::Infallible;

use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering};
use takt_tracer::ring::observer::{Observed, Observer, RingView};
use takt_tracer::ring::{self, CpuRing, RingControl, Word, position};
use takt_tracer::wire::{SUB_HEADER, SubHeader};

const SUB: u32 = 64;
const N: u32 = 2;

/// A ring in loom's memory. Stores release and loads acquire, as on x86.
struct Cpu {
    control: [AtomicU64; size_of::<RingControl>() / 8],
    memory: Vec<AtomicU64>,
    tsc: std::sync::atomic::AtomicU64,
}

impl Cpu {
    fn new() -> Self {
        Self {
            control: std::array::from_fn(|_| AtomicU64::new(0)),
            memory: (0..SUB * N / 8).map(|_| AtomicU64::new(0)).collect(),
            tsc: std::sync::atomic::AtomicU64::new(1),
        }
    }

    fn word(&self, word: Word) -> &AtomicU64 {
        &self.control[word.offset() as usize / 8]
    }
}

impl CpuRing for &Cpu {
    const SUB_SIZE: u32 = SUB;
    const NR_SUBS: u32 = N;

    fn now(self) -> u64 {
        self.tsc.fetch_add(1, std::sync::atomic::Ordering::Relaxed)
    }
    fn ctx(self) -> u32 {
        0
    }
    fn cpu(self) -> u8 {
        0
    }
    fn load(self, word: Word) -> u64 {
        self.word(word).load(Ordering::Acquire)
    }
    fn store(self, word: Word, value: u64) {
        if word == Word::Limit {
            // Two CPUs write it. loom does not order a plain store against the other's exchange, as hardware does.
            self.word(word).swap(value, Ordering::AcqRel);
            return;
        }
        self.word(word).store(value, Ordering::Release);
    }
    fn add(self, word: Word, value: u64) {
        self.store(word, self.load(word) + value);
    }
    fn cas(self, word: Word, old: u64, new: u64) -> bool {
        if word == Word::Limit {
            return self
                .word(word)
                .compare_exchange(old, new, Ordering::AcqRel, Ordering::Acquire)
                .is_ok();
        }
        // Not locked: only this CPU writes.
        let is_old = self.load(word) == old;
        if is_old {
            self.store(word, new);
        }
        is_old
    }
    fn load64(self, offset: u32) -> u64 {
        self.memory[offset as usize / 8].load(Ordering::Acquire)
    }
    fn store32<const DISP: u32>(self, offset: u32, value: u32) {
        let offset = offset + DISP;
        let shift = offset % 8 * 8;
        let word = self.load64(offset & !7) & !(0xffff_ffff << shift) | u64::from(value) << shift;
        self.memory[offset as usize / 8].store(word, Ordering::Release);
    }
    fn store64<const DISP: u32>(self, offset: u32, value: u64) {
        assert_eq!((offset + DISP) % 8, 0);
        self.memory[(offset + DISP) as usize / 8].store(value, Ordering::Release);
    }
    fn add64<const DISP: u32>(self, offset: u32, value: u64) {
        let sum = self.load64(offset + DISP).wrapping_add(value);
        self.store64::<DISP>(offset, sum);
    }
}

struct View<'a>(&'a Cpu);

impl RingView for View<'_> {
    type Error = Infallible;

    fn load(&self, word: Word) -> Result<u64, Infallible> {
        Ok(self.0.load(word))
    }

    fn copy(&self, offset: u32, out: &mut [u8]) -> Result<(), Infallible> {
        for (at, place) in out.as_chunks_mut::<8>().0.iter_mut().enumerate() {
            *place = self.0.load64(offset + at as u32 * 8).to_le_bytes();
        }
        Ok(())
    }
}

/// Every record has a serial number in its word that is its time stamp's too: both come in the same order.
fn check(copy: &[u8], len: u32) -> u64 {
    let header = SubHeader::decode(copy).unwrap();
    assert_eq!(header.committed(), len);
    let word = |at: usize| u32::from_le_bytes(copy[at..at + 4].try_into().unwrap());
    let mut records = 0;
    for at in (SUB_HEADER as usize..len as usize).step_by(8) {
        if word(at + 4) == 0 {
            break;
        }
        assert_eq!(
            u64::from(word(at + 4) >> 8),
            header.seq * 3 + records,
            "a record of another life"
        );
        records += 1;
    }
    assert_eq!(header.records(), records);
    header.seq
}

fn model(writes: u32, setup: fn(&Cpu), observe: fn(&Cpu)) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(move || {
        let cpu = Arc::new(Cpu::new());
        ring::tracing_on(&*cpu);
        setup(&cpu);
        let writer = {
            let cpu = Arc::clone(&cpu);
            loom::thread::spawn(move || {
                let first = (position::bytes(cpu.load(Word::Pos), u64::from(SUB * N))
                    / u64::from(SUB)
                    * 3) as u32;
                (0..writes).for_each(|serial| ring::record8(&*cpu, 4 | (first + serial) << 8));
            })
        };
        observe(&cpu);
        writer.join().unwrap();
    });
}

fn fill(cpu: &Cpu) {
    (0..6).for_each(|serial| ring::record8(cpu, 4 | serial << 8));
}

#[test]
fn an_observer_finds_out_that_it_was_overtaken() {
    model(2, fill, |cpu| {
        let mut observer = Observer::new(SUB, N).unwrap();
        let mut copy = [0; SUB as usize];
        if let Ok(Observed::Full { seq }) = observer.poll(&View(cpu), &mut copy) {
            assert_eq!(check(&copy, SUB), seq);
        }
    });
}

#[test]
fn an_observer_sees_a_sub_buffer_when_it_is_complete() {
    model(
        4,
        |_| {},
        |cpu| {
            let mut observer = Observer::new(SUB, N).unwrap();
            let mut copy = [0; SUB as usize];
            if let Ok(Observed::Full { seq }) = observer.poll(&View(cpu), &mut copy) {
                assert_eq!(check(&copy, SUB), seq);
            }
        },
    );
}

#[test]
fn an_observer_sees_committed_records_of_the_current_sub_buffer() {
    model(
        4,
        |_| {},
        |cpu| {
            let observer = Observer::new(SUB, N).unwrap();
            let mut copy = [0; SUB as usize];
            match observer.poll_current(&View(cpu), &mut copy) {
                Ok(Observed::Partial {
                    seq,
                    reserved,
                    committed,
                }) if reserved == committed => {
                    assert_eq!(check(&copy, committed), seq);
                }
                _ => {}
            }
        },
    );
}

#[test]
fn tracing_off_from_another_cpu_stays_off() {
    loom::model(|| {
        let cpu = Arc::new(Cpu::new());
        // The limit is stale, so that the writer repairs it.
        ring::tracing_on(&*cpu);
        ring::record8(&*cpu, 4);
        ring::tracing_off(&*cpu);
        ring::tracing_on(&*cpu);
        let writer = {
            let cpu = Arc::clone(&cpu);
            loom::thread::spawn(move || ring::record8(&*cpu, 4))
        };
        ring::tracing_off(&*cpu);
        writer.join().unwrap();
        assert!(!ring::is_on(&*cpu));
    });
}
