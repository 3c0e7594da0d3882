//! The idle thread: what a CPU does while no other thread is ready.

use crate::arch::apic;
use crate::arch::interrupts::{self, EARLY_TIMER_VECTOR, TIMER_VECTOR};
use crate::arch::percpu::{self, CpuRef};
use crate::clock::{AtomicCycles, Cycles, Instant, Nanos};
use crate::parts::TRACE;
use crate::trace::control;
use crate::{cpus, machine, section, timers};

/// The idle thread's care for the hardware timer: with nothing to wait for, the counter runs its length all the same,
/// as a sign of life every few seconds.
#[inline(always)]
fn arm_for_idle() {
    let mut section = section::own_thread();
    if section.cpu(CpuRef::this()).armed == Instant::NEVER {
        apic::arm(Instant::NEVER);
    }
    section.leave_quietly();
}

/// How long before its deadline a halt ends; [`Cycles::ZERO`] where a halt ends exactly.
static HALT_MARGIN: AtomicCycles = AtomicCycles::new(Cycles::ZERO);
const MAX_HALT_MARGIN: Nanos = Nanos::from_millis(1);
/// The idle thread looks up at least this often, in counts of the local APIC timer (it has 32 bits).
const LONGEST_HALT: Cycles = Cycles::new(0xf000_0000);

/// Has every halt end so long before the timer's deadline; the rest is spent going round. [`Cycles::ZERO`], as at the start,
/// has the CPU halt until the timer's interrupt itself. More than a millisecond counts as one.
///
/// For machines that do not wake up at the exact time, as QEMU under icount: it skips from the halt to the next
/// deadline, and may do so before it has counted the last instructions in front of the halt. The interrupt then comes
/// that many instructions late, once in some ten thousand times, and two runs are not the same.
pub fn set_halt_margin(margin: Cycles) {
    HALT_MARGIN.store(margin.min(MAX_HALT_MARGIN.to_cycles()));
}

/// The idle thread waits for an interrupt.
#[inline(always)]
fn idle_wait() {
    let margin = HALT_MARGIN.load();
    if margin == Cycles::ZERO {
        arm_for_idle();
        interrupts::disable();
        interrupts::idle_halt();
    } else {
        idle_wait_exactly(margin);
    }
}

#[inline(never)]
fn idle_wait_exactly(margin: Cycles) {
    interrupts::disable();
    let armed = || {
        let mut section = section::own_irq();
        let armed = section.cpu(CpuRef::this()).armed;
        section.release();
        armed
    };
    let now = Instant::now();
    let deadline = armed();
    let longest = now.wrapping_add(LONGEST_HALT);
    let waking = wake_before(deadline.min(longest), margin);
    if waking > now.wrapping_add(margin) {
        apic::set_timer_vector(EARLY_TIMER_VECTOR);
        apic::arm(waking);
        interrupts::halt_early();
        let is_early = Instant::now().wrapping_add(margin) < waking;
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
    interrupts::idle_spin((deadline - Instant::now()).get() + margin.get());
}

/// When to wake up for a deadline: `margin` before it at the latest, and with several CPUs each at times of its own,
/// `margin` apart. Two that woke up at once or one after the other, as an inexact halt has it, would be run in one order
/// or the other.
fn wake_before(deadline: Instant, margin: Cycles) -> Instant {
    let latest = deadline - margin;
    let nr_cpus = u64::from(cpus::nr_online());
    if nr_cpus == 1 {
        return latest;
    }
    let round = Cycles::new(margin.get() * nr_cpus);
    let mine = Cycles::new(margin.get() * percpu::cpu() as u64);
    (latest - mine)
        .previous_multiple_of(round)
        .wrapping_add(mine)
}

/// The idle thread. Begins anew whenever the timer interrupt found it waiting.
pub(crate) extern "C" fn idle() -> ! {
    // The entry stub comes here with interrupts off and nothing held.
    section::own_irqs_off().leave_quietly();
    idle_loop()
}

#[inline(always)]
pub(crate) fn idle_loop() -> ! {
    loop {
        if TRACE {
            control::prepare(timers::next_deadline());
        }
        machine::idle();
        idle_wait();
    }
}
