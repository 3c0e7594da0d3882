//! What a thread has in registers stays its own: general, floating point, rounding mode, and the red zone of its stack.

use core::arch::asm;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};

use takt_kernel::sync::Semaphore;
use takt_kernel::time::{Cycles, Expiry, Nanos, Timer, sleep_until};
use takt_kernel::{irq, yield_now};
use takt_tests::contents::{Contents, hold};
use takt_tests::harness::PRIORITY;
use takt_tests::journal::{note, take};
use takt_tests::worker::{after_ms, after_us, join, spawn, spawn_rr};
use takt_tests::{check, check_eq, note, target_test};

/// The rounding modes of MXCSR: nearest, down, up, towards zero, exceptions masked.
const ROUNDING: [u32; 4] = [0x1f80, 0x3f80, 0x5f80, 0x7f80];

fn set_mxcsr(value: u32) {
    // SAFETY: all exceptions stay masked in the values used here.
    unsafe { asm!("ldmxcsr [{}]", in(reg) &raw const value, options(nostack)) };
}

/// MXCSR without the flags that computing sets.
fn mxcsr() -> u32 {
    let mut value = 0u32;
    // SAFETY: stores into `value`.
    unsafe { asm!("stmxcsr [{}]", in(reg) &raw mut value, options(nostack)) };
    value & !0x3f
}

/// One third, rounded as the thread's mode says.
fn third() -> u32 {
    let mut third = 1.0f32;
    // SAFETY: divides two numbers.
    unsafe {
        asm!("divss {}, {}", inout(xmm_reg) third, in(xmm_reg) 3.0f32, options(nomem, nostack))
    };
    third.to_bits()
}

/// What [`third`] is in each mode.
const THIRDS: [u32; 4] = [0x3eaa_aaab, 0x3eaa_aaaa, 0x3eaa_aaab, 0x3eaa_aaaa];

static STOP: AtomicBool = AtomicBool::new(false);
static WRONG: AtomicU32 = AtomicU32::new(0);
static STORM: Semaphore = Semaphore::new(0, 100);

/// Holds its own contents again and again until told to stop, with a rounding mode of its own.
fn holder(number: usize) {
    let mode = number % 4;
    let seed = 1_000 * number as u64;
    let contents = Contents::new(seed);
    set_mxcsr(ROUNDING[mode]);
    while !STOP.load(Relaxed) {
        let rounds = 500 + 211 * number as u64;
        if hold(&contents, seed, rounds) != contents
            || mxcsr() != ROUNDING[mode]
            || third() != THIRDS[mode]
        {
            WRONG.fetch_add(1, Relaxed);
        }
    }
}

/// The same for a moment whenever the storm's interrupt says so.
fn visitor(number: usize) {
    let seed = 1_000 * number as u64;
    let contents = Contents::new(seed);
    set_mxcsr(ROUNDING[number % 4]);
    while STORM.take().is_ok() && !STOP.load(Relaxed) {
        if hold(&contents, seed, 20) != contents || mxcsr() != ROUNDING[number % 4] {
            WRONG.fetch_add(1, Relaxed);
        }
    }
}

static STORM_TIMER: spin::Once<Timer> = spin::Once::new();

/// Uses floating point in the interrupt, wakes the visitor every other time, and comes again after an odd time.
fn storm(_: usize, expiry: Expiry) {
    let count = irq::count(0);
    core::hint::black_box(core::hint::black_box(count as f64) * 1.5);
    if count.is_multiple_of(2) {
        let _ = STORM.give();
    }
    if !STOP.load(Relaxed)
        && let Some(timer) = STORM_TIMER.get()
    {
        timer.arm(expiry.at + Cycles::new(3_001 + count % 97));
    }
}

/// Yields many times with numbers alive across each call, in a rounding mode of its own.
fn yielder(number: usize) {
    set_mxcsr(ROUNDING[number]);
    let mut sums = [0.0f64; 12];
    for round in 0..200 {
        for (i, sum) in sums.iter_mut().enumerate() {
            *sum += core::hint::black_box((number * 100 + i) as f64);
        }
        yield_now();
        if mxcsr() != ROUNDING[number] || third() != THIRDS[number] {
            WRONG.fetch_add(1, Relaxed);
        }
        for (i, sum) in sums.iter().enumerate() {
            if *sum != ((number * 100 + i) * (round + 1)) as f64 {
                WRONG.fetch_add(1, Relaxed);
            }
        }
    }
}

fn notes_mxcsr(_: usize) {
    note(mxcsr());
}

target_test! {
    /// All general and vector registers, MXCSR and 128 bytes below the stack pointer survive thousands of interrupts,
    /// preemptions by a thread that uses them all, and the ends of quanta.
    fn kept_across_preemption(Shared) {
        WRONG.store(0, Relaxed);
        STOP.store(false, Relaxed);
        let threads = [
            spawn(0, PRIORITY + 10, visitor, 7)?,
            spawn_rr(1, PRIORITY - 1, Nanos::from_micros(50), holder, 1)?, spawn_rr(2, PRIORITY - 1, Nanos::from_micros(50), holder, 2)?,
            spawn_rr(3, PRIORITY - 1, Nanos::from_micros(50), holder, 3)?, spawn_rr(4, PRIORITY - 1, Nanos::from_micros(50), holder, 4)?,
        ];
        let before = irq::count(0);
        STORM_TIMER.call_once(|| Timer::new(storm, 0).expect("there are timers left")).arm(after_us(10));
        sleep_until(after_ms(30))?;
        STOP.store(true, Relaxed);
        STORM.give()?;
        join(&threads)?;
        let nr = irq::count(0) - before;
        note!("{nr} interrupts in 30 ms");
        check!(nr > 5_000, "only {nr} interrupts");
        check_eq!(WRONG.load(Relaxed), 0);
        while STORM.try_take().is_ok() {}
        Ok(())
    }

    /// Floating-point values and the rounding mode survive voluntary switches.
    fn kept_across_voluntary_switches(Shared) {
        WRONG.store(0, Relaxed);
        let threads = [spawn(0, PRIORITY, yielder, 0)?, spawn(1, PRIORITY, yielder, 1)?, spawn(2, PRIORITY, yielder, 2)?, spawn(3, PRIORITY, yielder, 3)?];
        join(&threads)?;
        check_eq!(WRONG.load(Relaxed), 0);
        check_eq!(mxcsr(), ROUNDING[0]);
        Ok(())
    }

    /// A new thread begins with the default rounding mode, whatever its creator's is.
    fn new_threads_round_to_nearest(Shared) {
        set_mxcsr(ROUNDING[3]);
        let thread = spawn(0, PRIORITY + 1, notes_mxcsr, 0)?;
        let mine = mxcsr();
        set_mxcsr(ROUNDING[0]);
        join(&[thread])?;
        check_eq!(mine, ROUNDING[3]);
        check_eq!(take(), [ROUNDING[0]]);
        Ok(())
    }
}
