//! Registers under a storm of interrupts whose handler changes all SSE registers.

use core::arch::asm;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};

use takt_kernel::irq;
use takt_kernel::sync::Semaphore;
use takt_kernel::time::{Cycles, Expiry, Instant, Nanos, Timer, sleep_until};
use takt_tests::contents::{Contents, hold};
use takt_tests::harness::{Outcome, PRIORITY};
use takt_tests::worker::{after_ms, after_us, join, spawn, spawn_rr};
use takt_tests::{check, check_eq, note, target_test};

static STOP: AtomicBool = AtomicBool::new(false);
static WRONG: AtomicU32 = AtomicU32::new(0);
static STORM: Semaphore = Semaphore::new(0, 100);
static TIMER: spin::Once<Timer> = spin::Once::new();

/// Changes all SSE registers, has the visitor preempt whoever runs every other time, and comes again after an odd time.
fn storm(_: usize, expiry: Expiry) {
    crate::clobber();
    let count = irq::count(0);
    if count.is_multiple_of(2) {
        let _ = STORM.give();
    }
    if !STOP.load(Relaxed)
        && let Some(timer) = TIMER.get()
    {
        timer.arm(expiry.at + Cycles::new(3_001 + count % 97));
    }
}

/// Holds two SSE registers in code behind the border, for so many rounds; says whether they are what they were.
#[inline(never)]
fn hold_two(seed: u64, rounds: u64) -> bool {
    let (a, b, c, d): (u64, u64, u64, u64);
    // SAFETY: declares what it changes.
    unsafe {
        asm!(
            "movq xmm0, {first}",
            "movq xmm1, {second}",
            "punpcklqdq xmm0, xmm0",
            "punpcklqdq xmm1, xmm1",
            "2:",
            "dec {rounds}",
            "jnz 2b",
            "movq {first}, xmm0",
            "movq {second}, xmm1",
            "punpckhqdq xmm0, xmm0",
            "punpckhqdq xmm1, xmm1",
            "movq {rounds}, xmm0",
            "movq {fourth}, xmm1",
            first = inout(reg) seed => a,
            second = inout(reg) !seed => b,
            rounds = inout(reg) rounds => c,
            fourth = out(reg) d,
            out("xmm0") _, out("xmm1") _,
            options(nomem, nostack),
        );
    }
    // One by one: comparing arrays takes a third SSE register.
    a == seed && b == !seed && c == seed && d == !seed
}

fn holder_of_two(number: usize) {
    let seed = 0x1234_5678_9abc_def1 * number as u64;
    while !STOP.load(Relaxed) {
        if !hold_two(seed, 500 + 211 * number as u64) {
            WRONG.fetch_add(1, Relaxed);
        }
    }
}

fn holder(number: usize) {
    let seed = 1_000 * number as u64;
    let contents = Contents::new(seed);
    while !STOP.load(Relaxed) {
        if hold(&contents, seed, 500 + 211 * number as u64) != contents {
            WRONG.fetch_add(1, Relaxed);
        }
    }
}

fn visitor(number: usize) {
    let seed = 1_000 * number as u64;
    let contents = Contents::new(seed);
    while STORM.take().is_ok() && !STOP.load(Relaxed) {
        if hold(&contents, seed, 20) != contents {
            WRONG.fetch_add(1, Relaxed);
        }
    }
}

/// Four such threads by turns, under the storm.
fn under_the_storm(body: fn(usize)) -> Outcome {
    WRONG.store(0, Relaxed);
    STOP.store(false, Relaxed);
    let threads = [
        spawn(0, PRIORITY + 10, visitor, 7)?,
        spawn_rr(1, PRIORITY - 1, Nanos::from_micros(50), body, 1)?,
        spawn_rr(2, PRIORITY - 1, Nanos::from_micros(50), body, 2)?,
        spawn_rr(3, PRIORITY - 1, Nanos::from_micros(50), body, 3)?,
        spawn_rr(4, PRIORITY - 1, Nanos::from_micros(50), body, 4)?,
    ];
    let before = irq::count(0);
    let timer = TIMER.call_once(|| Timer::new(storm, 0).expect("there are timers left"));
    timer.arm(after_us(10));
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

/// What both images' `clobber` consists of, wherever it lies: changes all SSE registers.
#[inline(always)]
pub(crate) fn change_all() {
    // SAFETY: declares what it changes.
    unsafe {
        asm!(
            ".irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15",
            "pcmpeqd xmm\\n, xmm\\n",
            ".endr",
            out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _,
            out("xmm4") _, out("xmm5") _, out("xmm6") _, out("xmm7") _,
            out("xmm8") _, out("xmm9") _, out("xmm10") _, out("xmm11") _,
            out("xmm12") _, out("xmm13") _, out("xmm14") _, out("xmm15") _,
            options(nomem, nostack, preserves_flags),
        );
    }
}

target_test! {
    /// Two SSE registers survive interrupts and preemptions anywhere.
    fn two_are_kept_of_any_code(Shared) {
        under_the_storm(holder_of_two)
    }

    /// All registers and 128 bytes below the stack pointer survive them in code that may use more.
    fn all_are_kept_of_code_that_may_use_more(Shared) {
        under_the_storm(holder)
    }
}
