//! One recorded event on the host, in cycles of the TSC: Takt's ring, defmt's encoder, and the least that any could do.
//!
//! `cargo bench -p takt-bench`, or with `-- --quick` for a first look. All of them record the same: what happened, and
//! two arguments of 32 bits; 16 bytes with the time stamp.

use std::arch::asm;
use std::cell::UnsafeCell;
use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use criterion::measurement::{Measurement, ValueFormatter};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use takt_tracer::ring::{self, CpuRing, RingControl, Word};
use takt_tracer::wire;

const SUB_SIZE: usize = 4096;
const NR_SUBS: usize = 64;

#[repr(C, align(4096))]
struct Memory(UnsafeCell<[u8; SUB_SIZE * NR_SUBS]>);

// SAFETY: one thread of the benchmark writes.
unsafe impl Sync for Memory {}

static CONTROL: RingControl = RingControl::new();
static MEMORY: Memory = Memory(UnsafeCell::new([0; SUB_SIZE * NR_SUBS]));

/// The ring of the only CPU there is. As on the target, a step is an ordinary instruction without `lock`.
#[derive(Clone, Copy)]
struct HostRing;

impl HostRing {
    #[inline(always)]
    fn at(offset: u32) -> *mut u8 {
        MEMORY.0.get().cast::<u8>().wrapping_add(offset as usize)
    }
}

impl CpuRing for HostRing {
    const SUB_SIZE: u32 = SUB_SIZE as u32;
    const NR_SUBS: u32 = NR_SUBS as u32;

    #[inline(always)]
    fn now(self) -> u64 {
        // SAFETY: reads the TSC.
        unsafe { std::arch::x86_64::_rdtsc() }
    }

    #[inline(always)]
    fn ctx(self) -> u32 {
        // The target reads it from its per-CPU block.
        black_box(0x0180_0000)
    }

    #[inline(always)]
    fn cpu(self) -> u8 {
        0
    }

    #[inline(always)]
    fn load(self, word: Word) -> u64 {
        CONTROL.word(word).load(Relaxed)
    }

    #[inline(always)]
    fn store(self, word: Word, value: u64) {
        CONTROL.word(word).store(value, Relaxed);
    }

    #[inline(always)]
    fn add(self, word: Word, value: u64) {
        self.store(word, self.load(word).wrapping_add(value));
    }

    #[inline(always)]
    fn cas(self, word: Word, old: u64, new: u64) -> bool {
        let seen: u64;
        // SAFETY: a control word.
        unsafe {
            asm!("cmpxchg [{word}], {new}", word = in(reg) CONTROL.word(word).as_ptr(), new = in(reg) new,
                 inout("rax") old => seen, options(nostack));
        }
        seen == old
    }

    #[inline(always)]
    fn load64(self, offset: u32) -> u64 {
        // SAFETY: inside the ring.
        unsafe { Self::at(offset).cast::<u64>().read_volatile() }
    }

    #[inline(always)]
    fn store32<const DISP: u32>(self, offset: u32, value: u32) {
        // SAFETY: inside the ring, in bytes that the caller has reserved.
        unsafe { Self::at(offset + DISP).cast::<u32>().write_volatile(value) };
    }

    #[inline(always)]
    fn store64<const DISP: u32>(self, offset: u32, value: u64) {
        let at = Self::at(offset + DISP);
        // SAFETY: as `store32`; 4-aligned only, which `mov` does not mind.
        unsafe {
            asm!("mov [{}], {}", in(reg) at, in(reg) value, options(nostack, preserves_flags))
        };
    }

    #[inline(always)]
    fn add64<const DISP: u32>(self, offset: u32, value: u64) {
        let at = Self::at(offset + DISP);
        // SAFETY: a commit counter.
        unsafe { asm!("add qword ptr [{}], {}", in(reg) at, in(reg) value, options(nostack)) };
    }
}

/// Out of line, as a trace point's functions are.
#[inline(never)]
fn takt(word: u32, arguments: u64) {
    ring::record16_ctx(HostRing, word, arguments);
}

static DEFMT_POS: AtomicU64 = AtomicU64::new(0);

/// Puts bytes into a ring without any question.
#[inline(always)]
fn put(bytes: &[u8]) {
    let pos = DEFMT_POS.load(Relaxed);
    DEFMT_POS.store(pos + bytes.len() as u64, Relaxed);
    let offset = pos as usize % (SUB_SIZE * NR_SUBS - 64);
    // SAFETY: 64 bytes from `offset` are inside, and no one writes more.
    unsafe {
        HostRing::at(offset as u32).copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
    }
}

/// A defmt frame as `defmt::info!` makes it: index, time stamp, arguments.
#[inline(never)]
fn defmt(encoder: &mut defmt::Encoder, index: u16, first: u32, second: u32) {
    // SAFETY: reads the TSC.
    let time = unsafe { std::arch::x86_64::_rdtsc() };
    encoder.start_frame(put);
    encoder.write(&index.to_le_bytes(), put);
    encoder.write(&time.to_le_bytes(), put);
    encoder.write(&first.to_le_bytes(), put);
    encoder.write(&second.to_le_bytes(), put);
    encoder.end_frame(put);
}

/// Time stamp and 16 bytes: the least.
#[inline(never)]
fn plain(word: u32, arguments: u64) {
    // SAFETY: reads the TSC.
    let time = unsafe { std::arch::x86_64::_rdtsc() };
    let mut record = [0; 16];
    record[..4].copy_from_slice(&(time as u32).to_le_bytes());
    record[4..8].copy_from_slice(&word.to_le_bytes());
    record[8..].copy_from_slice(&arguments.to_le_bytes());
    put(&record);
}

/// The same without the time: what `rdtsc` takes is the machine's matter.
#[inline(never)]
fn copy(record: &[u8; 16]) {
    put(record);
}

/// Reads the TSC.
fn tsc() -> u64 {
    // SAFETY: reads the TSC.
    unsafe { std::arch::x86_64::_rdtsc() }
}

/// Cycles of the TSC.
struct Cycles;

impl Measurement for Cycles {
    type Intermediate = u64;
    type Value = u64;

    fn start(&self) -> u64 {
        tsc()
    }

    fn end(&self, start: u64) -> u64 {
        tsc().saturating_sub(start)
    }

    fn add(&self, first: &u64, second: &u64) -> u64 {
        first + second
    }

    fn zero(&self) -> u64 {
        0
    }

    fn to_f64(&self, value: &u64) -> f64 {
        *value as f64
    }

    fn formatter(&self) -> &dyn ValueFormatter {
        self
    }
}

impl ValueFormatter for Cycles {
    fn scale_values(&self, _: f64, _: &mut [f64]) -> &'static str {
        "cycles"
    }

    fn scale_throughputs(&self, _: f64, _: &Throughput, _: &mut [f64]) -> &'static str {
        "cycles"
    }

    fn scale_for_machines(&self, _: &mut [f64]) -> &'static str {
        "cycles"
    }
}

fn record(c: &mut Criterion<Cycles>) {
    ring::tracing_on(HostRing);
    let mut group = c.benchmark_group("record");
    group.bench_function("takt ring", |b| b.iter(|| takt(black_box(4), black_box(7))));
    let mut encoder = defmt::Encoder::new();
    group.bench_function("defmt rzcobs", |b| {
        b.iter(|| defmt(&mut encoder, black_box(4), black_box(7), black_box(0)));
    });
    group.bench_function("rdtsc and memcpy", |b| {
        b.iter(|| plain(black_box(4), black_box(7)))
    });
    group.bench_function("memcpy", |b| b.iter(|| copy(black_box(&[7; 16]))));
    group.bench_function("rdtsc", |b| {
        b.iter(tsc);
    });
    group.finish();
    let counters = ring::counters(HostRing);
    assert_eq!(
        counters.dropped + counters.commit_overrun,
        0,
        "every event was recorded"
    );
    assert!(counters.bytes > 0 && wire::SUB_HEADER > 0);
}

criterion_group! {
    name = benches;
    config = Criterion::default().with_measurement(Cycles);
    targets = record
}
criterion_main!(benches);
