//! Time: instants, sleeping, timers, the timer interrupt.
//!
//! Time is the TSC in cycles; nanoseconds exist at the edges only. Timers are tickless: each CPU has a queue of
//! deadlines, and its local APIC timer is set to the earliest.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use takt_scheduler::{Inserted, Insertion, ThreadId, TimerId};

use crate::arch::interrupts::{self, EARLY_TIMER_VECTOR, TIMER_VECTOR};
use crate::arch::percpu::{self, CpuRef};
use crate::arch::{apic, tsc};
use crate::config::MAX_THREADS;
use crate::error::Error;
use crate::quantum;
use crate::sched;
use crate::section::{self, Irq, Kernel, Kind, Section};
use crate::switch::{self, IrqExit};
use crate::thread::tcb::Wait;
use crate::trace::trace;
use crate::wait;

pub use crate::soft_timer::{Expiry, Timer};

/// Frequency of the TSC in Hz; set once at boot.
static TSC_HZ: AtomicU64 = AtomicU64::new(1_000_000_000);
/// Nanoseconds to cycles: `(ns * mult) >> shift`.
static CYCLES_MULT: AtomicU64 = AtomicU64::new(1 << 32);
/// Cycles to nanoseconds: `(cycles * mult) >> 32`.
static NANOS_MULT: AtomicU64 = AtomicU64::new(1 << 32);

/// A point in time, in cycles of the TSC.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Instant(u64);

impl Instant {
    /// Later than everything: no time-out.
    pub const NEVER: Self = Self(u64::MAX);

    /// Now.
    #[inline(always)]
    #[must_use]
    pub fn now() -> Self {
        Self(tsc::now())
    }

    /// The instant with this TSC value.
    #[inline(always)]
    #[must_use]
    pub const fn from_cycles(cycles: u64) -> Self {
        Self(cycles)
    }

    /// Its TSC value.
    #[inline(always)]
    #[must_use]
    pub const fn cycles(self) -> u64 {
        self.0
    }

    /// This many nanoseconds from now.
    #[must_use]
    pub fn after_nanos(nanos: u64) -> Self {
        Self::now() + nanos_to_cycles(nanos)
    }
}

impl core::ops::Add<u64> for Instant {
    type Output = Self;

    /// An instant that many cycles later.
    #[inline(always)]
    fn add(self, cycles: u64) -> Self {
        Self(self.0.saturating_add(cycles))
    }
}

/// Tells the kernel the frequency of the TSC. At boot, before any timer.
pub fn set_tsc_hz(hz: u64) {
    let hz = hz.max(1);
    TSC_HZ.store(hz, Relaxed);
    CYCLES_MULT.store(((u128::from(hz) << 32) / 1_000_000_000) as u64, Relaxed);
    NANOS_MULT.store(((1_000_000_000u128 << 32) / u128::from(hz)) as u64, Relaxed);
}

/// Frequency of the TSC in Hz.
#[must_use]
pub fn tsc_hz() -> u64 {
    TSC_HZ.load(Relaxed)
}

/// `(value * mult) >> 32`, or the largest number: what is too long to count never comes.
#[inline]
fn scale(value: u64, mult: &AtomicU64) -> u64 {
    let scaled = (u128::from(value) * u128::from(mult.load(Relaxed))) >> 32;
    u64::try_from(scaled).unwrap_or(u64::MAX)
}

/// Nanoseconds to cycles, rounded down; `u64::MAX` for what is more.
#[inline]
#[must_use]
pub fn nanos_to_cycles(nanos: u64) -> u64 {
    scale(nanos, &CYCLES_MULT)
}

/// Cycles to nanoseconds, rounded down; `u64::MAX` for what is more.
#[inline]
#[must_use]
pub fn cycles_to_nanos(cycles: u64) -> u64 {
    scale(cycles, &NANOS_MULT)
}

/// Sleeps until an absolute time; returns at once if that is past.
///
/// # Errors
/// [`Error::WrongContext`] in an interrupt handler or with preemption disabled.
pub fn sleep_until(deadline: Instant) -> Result<(), Error> {
    if !sched::may_block() {
        return Err(Error::WrongContext);
    }
    if deadline.0 > tsc::now() {
        let section = section::enter_thread();
        wait::wait_until(section, Wait::Sleep, None, deadline.0);
    }
    Ok(())
}

/// Sleeps for at least this many nanoseconds.
///
/// # Errors
/// As [`sleep_until`].
pub fn sleep_nanos(nanos: u64) -> Result<(), Error> {
    sleep_until(Instant::after_nanos(nanos))
}

/// Busy delay and sleep for embedded-hal drivers: sleeps where that is allowed, spins elsewhere.
#[derive(Clone, Copy, Debug, Default)]
pub struct Delay;

impl embedded_hal::delay::DelayNs for Delay {
    fn delay_ns(&mut self, ns: u32) {
        let end = Instant::after_nanos(u64::from(ns));
        // Waking a thread costs about a microsecond; below that spinning is more exact.
        if ns < 2_000 || sleep_until(end).is_err() {
            while Instant::now() < end {
                core::hint::spin_loop();
            }
        }
    }
}

/// Arms a timer of a CPU's queue, and the hardware if it is now the earliest. For the quantum's timer, which has a place of
/// its own in the queue: looking for another's takes the longer the more timers are armed.
#[inline(always)]
pub(crate) fn insert(kernel: &mut Kernel, cpu: CpuRef, id: TimerId, deadline: u64) {
    trace!(timer_start, id.raw(), deadline);
    if kernel.cpu(cpu).timers.insert(id, deadline) != Inserted::Later {
        arm_earliest(kernel, cpu);
    }
}

/// [`insert`] of any timer, as the last act of a section. Where others are armed, the place is looked for in sections of
/// their own, unless interrupts were off before.
#[inline(always)]
pub(crate) fn insert_and_leave<K: Kind>(
    mut section: Section<K>,
    cpu: CpuRef,
    id: TimerId,
    deadline: u64,
) {
    let timers = &mut section.cpu(cpu).timers;
    if !timers.is_empty() {
        return insert_among(section, cpu, id, deadline);
    }
    // At once, where it is known that no other is armed.
    let _: Inserted = timers.insert(id, deadline);
    trace!(timer_start, id.raw(), deadline);
    arm_first(&mut section, cpu, deadline);
    section.leave_quietly();
}

/// Where others are armed. A place among the earliest is at hand.
#[inline(never)]
fn insert_among<K: Kind>(mut section: Section<K>, cpu: CpuRef, id: TimerId, deadline: u64) {
    if deadline == u64::MAX {
        core::hint::cold_path();
        cancel(&mut section, cpu, id);
        return section.leave_quietly();
    }
    let mut insertion = Insertion::NEW;
    let timers = &mut section.cpu(cpu).timers;
    match timers.insert_in_front(id, deadline, &mut insertion) {
        Some(inserted) => end_insertion(section, cpu, id, deadline, inserted),
        None => insert_behind(section, cpu, id, deadline, &mut insertion),
    }
}

/// Looks for a timer's place, in sections of few steps each.
#[inline(never)]
fn insert_behind<K: Kind>(
    mut section: Section<K>,
    cpu: CpuRef,
    id: TimerId,
    deadline: u64,
    insertion: &mut Insertion,
) {
    loop {
        section = section.anew();
        let timers = &mut section.cpu(cpu).timers;
        if let Some(inserted) = timers.insert_step(id, deadline, insertion) {
            return end_insertion(section, cpu, id, deadline, inserted);
        }
    }
}

#[inline(always)]
fn end_insertion<K: Kind>(
    mut section: Section<K>,
    cpu: CpuRef,
    id: TimerId,
    deadline: u64,
    inserted: Inserted,
) {
    trace!(timer_start, id.raw(), deadline);
    if inserted != Inserted::Later {
        arm_earliest(&mut section, cpu);
    }
    section.leave_quietly();
}

/// Sets the hardware to a timer that is the earliest.
#[inline(always)]
fn arm_first(kernel: &mut Kernel, cpu: CpuRef, deadline: u64) {
    if crate::static_branch!(section::SMP) && cpu != CpuRef::this() {
        // Its timer can be set by its own CPU only: the interrupt makes it look.
        crate::smp::kick(cpu);
        return;
    }
    kernel.cpu(cpu).armed = deadline;
    apic::arm(deadline);
}

/// The earliest timer is another now, or has moved.
#[cold]
#[inline(never)]
fn arm_earliest(kernel: &mut Kernel, cpu: CpuRef) {
    if cpu != CpuRef::this() {
        crate::smp::kick(cpu);
        return;
    }
    let sched = kernel.cpu(cpu);
    sched.armed = sched.timers.earliest_deadline();
    apic::arm(sched.armed);
}

/// Disarms a timer. The hardware is left as it is: an interrupt for nothing costs less than setting it anew each time.
#[inline(always)]
pub(crate) fn cancel(kernel: &mut Kernel, cpu: CpuRef, id: TimerId) -> bool {
    let was_armed = kernel.cpu(cpu).timers.cancel(id).was_armed();
    if was_armed {
        trace!(timer_cancel, u32::from(id.raw()));
    }
    was_armed
}

/// The local APIC timer's interrupt; `at` is the time stamp taken by its third instruction.
pub(crate) extern "C" fn timer_interrupt(at: u64) -> IrqExit {
    switch::irq_exit(handle_timer(at))
}

/// The same when it found the idle thread waiting: nothing of that thread is kept, so this does not return to the stub.
/// Part of the entry, and not traced.
#[cfg_attr(
    feature = "function",
    patchable_function_entry(prefix_nops = 0, entry_nops = 0)
)]
pub(crate) extern "C" fn timer_interrupt_idle(at: u64) -> ! {
    switch::irq_exit_from_halt(handle_timer(at))
}

#[inline(always)]
fn handle_timer(at: u64) -> Section<Irq> {
    apic::end_of_interrupt();
    let cpu = CpuRef::this();
    let mut section = section::enter_irq();
    cpu.count_irq();
    crate::trace::timer_entry(at);
    expire(&mut section, cpu, at);
    trace!(irq_handler_exit, u32::from(TIMER_VECTOR));
    section
}

/// Runs every timer whose deadline is not after `at`, and sets the hardware to the next.
///
/// But it ends after the one under way when another interrupt is pending: that comes next, and the timers that are due go
/// on behind it. So several that expire at once keep no device waiting for more than one of them.
#[inline(always)]
pub(crate) fn expire(kernel: &mut Kernel, cpu: CpuRef, at: u64) {
    let first = kernel.cpu(cpu).timers.pop_expired(at);
    if let Some(first) = first
        && run(kernel, cpu, first, at)
    {
        expire_others(kernel, cpu, at);
    }
    let sched = kernel.cpu(cpu);
    sched.armed = sched.timers.earliest_deadline();
    // With nothing to wait for, whoever was woken will soon set it, or the idle thread will.
    if sched.armed != u64::MAX {
        apic::arm(sched.armed);
    }
}

/// Apart, since one timer at a time is what most interrupts find.
#[cold]
#[inline(never)]
fn expire_others(kernel: &mut Kernel, cpu: CpuRef, at: u64) {
    while !apic::is_other_pending() {
        let next = kernel.cpu(cpu).timers.pop_further_expired(at);
        if !next.is_some_and(|next| run(kernel, cpu, next, at)) {
            return;
        }
    }
}

/// Runs a timer that has expired; says whether the next one is due as well.
#[inline(always)]
fn run(kernel: &mut Kernel, cpu: CpuRef, (id, deadline): (TimerId, u64), at: u64) -> bool {
    trace!(timer_expire, id.raw(), deadline);
    let index = id.index();
    if index >= MAX_THREADS {
        crate::soft_timer::expired(kernel, id, Expiry { deadline, at });
    } else if id != quantum::TIMER {
        wait::timed_out(kernel, ThreadId::new(index as u8));
    } else {
        quantum::quantum_expired(kernel, cpu);
    }
    kernel.cpu(cpu).timers.earliest_deadline() <= at
}

/// The idle thread's care for the hardware timer: with nothing to wait for, the counter runs its length all the same,
/// as a sign of life every few seconds.
#[inline(always)]
fn arm_for_idle() {
    let mut section = section::enter_thread();
    if section.cpu(CpuRef::this()).armed == u64::MAX {
        apic::arm(u64::MAX);
    }
    section.leave_quietly();
}

/// How long before its deadline a halt ends, in cycles; 0 where a halt ends exactly.
static HALT_MARGIN: AtomicU64 = AtomicU64::new(0);
/// The idle thread looks up at least this often, in counts of the local APIC timer (it has 32 bits).
const LONGEST_HALT: u64 = 0xf000_0000;

/// Has every halt end that many cycles before the timer's deadline; the rest is spent going round. 0, as at the start,
/// has the CPU halt until the timer's interrupt itself.
///
/// For machines that do not wake up at the exact time, as QEMU under icount: it skips from the halt to the next
/// deadline, and may do so before it has counted the last instructions in front of the halt. The interrupt then comes
/// that many instructions late, once in some ten thousand times, and two runs are not the same.
pub fn set_halt_margin(cycles: u64) {
    HALT_MARGIN.store(cycles, Relaxed);
}

/// The idle thread clears up behind timers that have expired, a section for each step.
#[inline(always)]
fn tidy() {
    let cpu = CpuRef::this();
    // SAFETY: reads a byte; a stale one only has it done in vain or the next time.
    while unsafe { (*cpu.as_ptr()).sched.timers.wants_tidying() } {
        core::hint::cold_path();
        let mut section = section::enter_thread();
        section.cpu(cpu).timers.tidy();
        section.leave_quietly();
    }
}

/// The idle thread waits for an interrupt.
#[inline(always)]
pub(crate) fn idle_wait() {
    tidy();
    let margin = HALT_MARGIN.load(Relaxed);
    if margin == 0 {
        arm_for_idle();
        interrupts::disable();
        interrupts::idle_halt();
    } else {
        idle_wait_exactly(margin);
    }
}

#[inline(never)]
fn idle_wait_exactly(margin: u64) {
    interrupts::disable();
    // SAFETY: this CPU's own, with interrupts off; another CPU does not change it.
    let armed = || unsafe { (*percpu::this()).sched.armed };
    let now = tsc::now();
    let deadline = armed();
    let longest = now + LONGEST_HALT;
    let waking = wake_before(deadline.min(longest), margin);
    if waking > now + margin {
        apic::set_timer_vector(EARLY_TIMER_VECTOR);
        apic::arm(waking);
        interrupts::halt_early();
        let is_early = tsc::now() + margin < waking;
        apic::set_timer_vector(TIMER_VECTOR);
        apic::arm(armed());
        // An interrupt other than the early one ended the halt or changed the deadline, or that is farther away than a
        // halt can be long: halts anew, since going round until then would keep the idle thread from its other work.
        if armed() != deadline || deadline > longest || is_early {
            // SAFETY: the idle thread holds nothing.
            unsafe { interrupts::enable() };
            return;
        }
    }
    // A round is an instruction, and so at most a cycle where a halt is not exact.
    interrupts::idle_spin(deadline.saturating_sub(tsc::now()) + margin);
}

/// When to wake up for a deadline: `margin` before it at the latest, and with several CPUs each at times of its own,
/// `margin` apart. Two that woke up at once or one after the other, as an inexact halt has it, would be run in one order
/// or the other.
fn wake_before(deadline: u64, margin: u64) -> u64 {
    let latest = deadline.saturating_sub(margin);
    let nr_cpus = u64::from(crate::smp::nr_online());
    if nr_cpus == 1 {
        return latest;
    }
    let round = nr_cpus * margin;
    let mine = percpu::cpu() as u64 * margin;
    latest.saturating_sub(mine) / round * round + mine
}

/// The next deadline of this CPU; [`Instant::NEVER`] if there is none.
pub(crate) fn next_deadline() -> Instant {
    // SAFETY: reads one word of this CPU's own; a stale value only makes the caller choose another moment.
    Instant(unsafe { (*percpu::this()).sched.timers.earliest_deadline() })
}

/// Time from now to the next deadline of this CPU, in nanoseconds.
#[must_use]
pub fn nanos_until_next() -> u64 {
    cycles_to_nanos(next_deadline().0.saturating_sub(tsc::now()))
}
