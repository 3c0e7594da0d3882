//! Activations as timerlat's, each delayed by known causes: what an analysis of latencies has to name, all of it.
//!
//! | word | meaning |
//! |---|---|
//! | `cases=N` | how many |
//! | `smp=2` | all by one more cause: a lock that the other CPU holds, a thread's or the kernel's |
#![no_std]
#![no_main]

use core::arch::asm;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};

use takt_board::cmdline::CommandLine;
use takt_kernel::sync::{Mutex, Queue, Semaphore};
use takt_kernel::thread::Builder;
use takt_kernel::time::{Cycles, Expiry, Instant, Timer};
use takt_kernel::{
    Error, irq, preempt, thread, thread_stack, trace_event_irqs_off, trace_event_irqs_on,
};
use takt_timerlat::workload::events;

mod plan;

takt_board::entry!(main);

/// Vector of the interrupt that is made pending, and the command that makes it so: asserted, to the CPU itself.
const VECTOR: u8 = 0x61;
const REQUEST: u32 = VECTOR as u32 | 1 << 14 | 1 << 18;

/// Interrupts off, from behind the `cli` on: two instructions a round, `sti` and the one in its shadow.
#[inline(never)]
fn planted_irqs_off(rounds: u32) {
    // SAFETY: interrupts are on before and after it, and nothing is touched in between.
    unsafe { asm!("cli", "2:", "dec {0:e}", "jnz 2b", "sti", "nop", inout(reg) rounds => _) };
}

/// The same, and another interrupt becomes pending: one instruction more.
#[inline(never)]
fn planted_irqs_off_with_irq(rounds: u32) {
    // SAFETY: as above; the local APIC's register takes a command, and the handler is registered.
    unsafe {
        asm!("cli", "mov dword ptr [__lapic_page + 0x300], {request}", "2:", "dec {0:e}", "jnz 2b", "sti", "nop",
            inout(reg) rounds => _, request = const REQUEST);
    }
}

/// As many rounds with everything on.
#[inline(always)]
fn spend(rounds: u32) {
    // SAFETY: touches nothing.
    unsafe { asm!("2:", "dec {0:e}", "jnz 2b", inout(reg) rounds => _, options(nomem, nostack)) };
}

#[inline(never)]
fn planted_preempt_off(case: &plan::Case) {
    let _guard = preempt::disable();
    planted(case);
    spend(case.preempt_off);
    // Behind what the deadline falls into: it has sections of its own.
    if case.more_important > 0 {
        let _ = WAKE.give();
    }
}

fn planted(case: &plan::Case) {
    match (case.irqs_off, case.has_irq) {
        (0, _) => {}
        (rounds, false) => planted_irqs_off(rounds),
        (rounds, true) => planted_irqs_off_with_irq(rounds),
    }
}

static WAKE: Semaphore = Semaphore::new(0, 1);
static ROUNDS: AtomicU32 = AtomicU32::new(0);

/// A thread above the measured one.
fn more_important(_: usize) {
    while WAKE.take().is_ok() {
        spend(ROUNDS.load(Relaxed));
    }
}

static WANT: Semaphore = Semaphore::new(0, 1);
static LOCK: Mutex<()> = Mutex::new(());

/// One that lends its priority to whoever holds the mutex.
fn lender(_: usize) {
    while WANT.take().is_ok() {
        let _ = LOCK.lock();
    }
}

#[inline(never)]
fn planted_inherited(rounds: u32) {
    let guard = LOCK.lock();
    let _ = WANT.give();
    spend(rounds);
    drop(guard);
}

/// Which activation's lock is to be taken on the other CPU, whether it is the kernel's, and whether it is held.
static WANTED: AtomicU32 = AtomicU32::new(0);
static IS_KERNELS: AtomicBool = AtomicBool::new(false);
static IS_HELD: AtomicBool = AtomicBool::new(false);

/// Holds the lock for some rounds, each of 20 instructions. Between them it pauses, for under icount the CPU
/// that waits would have no turn otherwise.
fn hold() {
    IS_HELD.store(true, Release);
    // SAFETY: touches nothing.
    unsafe {
        asm!("2:", "mov {inner:e}, 8", "3:", "dec {inner:e}", "jnz 3b", "pause", "dec {rounds:e}", "jnz 2b",
            rounds = inout(reg) ROUNDS.load(Relaxed) => _, inner = out(reg) _, options(nomem, nostack));
    }
    IS_HELD.store(false, Release);
}

/// Whose sections are long as sections go.
static QUEUE: Queue<[u64; 16], 1> = Queue::new();

/// Takes a lock of the kernel's again and again, for some rounds. The deadline mostly comes in one of them, since the CPU that
/// waits for it pauses.
fn hold_kernels() {
    IS_HELD.store(true, Release);
    for _ in 0..ROUNDS.load(Relaxed) {
        let _ = QUEUE.try_send([0; 16]);
        let _ = QUEUE.try_receive();
        core::hint::spin_loop();
    }
    IS_HELD.store(false, Release);
}

/// On the other CPU: takes the lock when it is told to.
fn holder(_: usize) {
    let mut last = 0;
    loop {
        let wanted = WANTED.load(Acquire);
        if wanted != last {
            last = wanted;
            match IS_KERNELS.load(Relaxed) {
                true => hold_kernels(),
                false => hold(),
            }
        }
        core::hint::spin_loop();
    }
}

/// The deadline comes while the other CPU is in a section or between two.
#[inline(never)]
fn planted_kernel_wait() {
    while IS_HELD.load(Acquire) {
        core::hint::spin_loop();
    }
}

/// Waits for the lock with interrupts off.
#[inline(never)]
fn planted_lock_wait() {
    let guard = preempt::irq_save();
    while IS_HELD.load(Acquire) {
        core::hint::spin_loop();
    }
    guard.restore();
}

/// The deadline comes while the lock is waited for.
fn wait_for_lock(seq: u32, case: &plan::Case) {
    IS_KERNELS.store(case.is_kernels(), Relaxed);
    WANTED.store(seq, Release);
    while !IS_HELD.load(Acquire) {
        core::hint::spin_loop();
    }
    match case.is_kernels() {
        true => planted_kernel_wait(),
        false => planted_lock_wait(),
    }
}

static GO: Semaphore = Semaphore::new(0, 1);
static DEADLINE: AtomicU64 = AtomicU64::new(0);
static SEQ: AtomicU32 = AtomicU32::new(0);

/// In the timer's interrupt.
fn expired(_: usize, expiry: Expiry) {
    let latency = expiry.at.cycles().wrapping_sub(expiry.deadline.cycles());
    trace_event_irqs_off!(
        events::timerlat_irq,
        0u32,
        SEQ.load(Relaxed),
        latency as u32
    );
    if IS_KERNELS.load(Relaxed) {
        let _ = QUEUE.len();
    }
}

fn measured(_: usize) {
    let _ = measure();
}

fn measure() -> Result<(), Error> {
    let timer = Timer::waking(thread::current(), expired, 0)?;
    loop {
        GO.take()?;
        let deadline = DEADLINE.load(Relaxed);
        timer.arm(Instant::from_cycles(deadline));
        thread::park(Instant::NEVER)?;
        let latency = Instant::now().cycles().wrapping_sub(deadline);
        trace_event_irqs_on!(
            events::timerlat_thread,
            0u32,
            SEQ.load(Relaxed),
            latency as u32
        );
    }
}

extern "C" fn handler(_: usize, _: Instant) {}

thread_stack!(static STACKS: [16384; 4]);

fn start() -> Result<(), Error> {
    irq::register(VECTOR, "planted", handler, 0)?;
    Builder::new("measured", 95)?.spawn(&STACKS[0], measured, 0)?;
    Builder::new("above", 97)?.spawn(&STACKS[1], more_important, 0)?;
    Builder::new("lender", 98)?.spawn(&STACKS[2], lender, 0)?;
    thread::current().set_priority(2)
}

/// From the order to measure to the deadline, in cycles: until then the thread has armed its timer and waits.
const AHEAD: u64 = 4000;
/// In cycles: more than a round of [`hold_kernels`] takes.
const PHASES: u32 = 997;

/// The thread on the other CPU, if there is one; says whether there is.
fn start_holder(nr_cpus: u64) -> Result<bool, Error> {
    if nr_cpus < 2 || takt_board::smp::start(nr_cpus as usize) < 2 {
        return Ok(false);
    }
    Builder::new("holder", 2)?
        .cpu(1)
        .spawn(&STACKS[3], holder, 0)?;
    Ok(true)
}

fn main(text: &'static str) {
    let line = CommandLine(text);
    let nr = line.number("cases", 10).unwrap_or(10);
    let holder = start_holder(line.number("smp", 1).unwrap_or(1));
    let (Ok(has_holder), Ok(())) = (holder, start()) else {
        defmt::error!("the threads could not be started");
        return;
    };
    for (case, seq) in plan::cases(nr as u32).zip(1..) {
        SEQ.store(seq, Relaxed);
        ROUNDS.store(case.more_important, Relaxed);
        // Its own phase for each, since both CPUs go round in the same number of instructions every time.
        let ahead = AHEAD + u64::from(case.offset % PHASES);
        let deadline = Instant::now() + Cycles::new(ahead);
        DEADLINE.store(deadline.cycles(), Relaxed);
        let _ = GO.give();
        if has_holder {
            ROUNDS.store(case.held(), Relaxed);
            wait_for_lock(seq, &case);
            takt_board::capture::hand_over();
            continue;
        }
        let begin = Instant::from_cycles(deadline.cycles() - u64::from(case.offset));
        while Instant::now() < begin {}
        if case.preempt_off > 0 {
            planted_preempt_off(&case);
        } else if case.inherited > 0 {
            planted_inherited(case.inherited);
        } else if case.more_important > 0 {
            let _ = WAKE.give();
        } else {
            planted(&case);
        }
        takt_board::capture::hand_over();
    }
}
