//! Stretches of odd lengths under every tracer of sections and of wake-ups. The host holds each length against a count of the
//! instructions that the same stretch consists of without a tracer.

use core::arch::asm;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use takt_kernel::sync::Semaphore;
use takt_kernel::thread::Thread;
use takt_kernel::time::{Expiry, Nanos, Timer};
use takt_kernel::trace::latency;
use takt_kernel::{Error, preempt};
use takt_tests::harness::{PRIORITY, is_untraced, print};
use takt_tests::worker::{after_us, burn, join, spawn};
use takt_tests::{interrupt, target_test};

use super::choose;

/// What the host looks for in its log: the stretches lie between these.
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn takt_counted_mark() {
    // SAFETY: does nothing. So that it is not taken for another empty function.
    unsafe { asm!("nop", "nop", options(nomem, nostack)) };
}

/// Odd numbers of instructions.
macro_rules! odd {
    ($instructions:expr) => {
        burn($instructions - 1);
        // SAFETY: does nothing.
        unsafe { asm!("nop", options(nomem, nostack)) };
    };
}

static SEMAPHORE: Semaphore = Semaphore::new(0, 10);
static TIMER: spin::Once<Timer> = spin::Once::new();
static LINGERS: AtomicU64 = AtomicU64::new(0);

fn timer() -> &'static Timer {
    TIMER.call_once(|| Timer::new(expired, 0).expect("there are timers left"))
}

/// Takes its time, and wakes whoever waits if that is odd.
fn expired(_: usize, _: Expiry) {
    let instructions = LINGERS.load(Relaxed);
    burn(instructions & !1);
    if instructions & 1 != 0 {
        let _ = SEMAPHORE.give();
    }
}

fn interrupted(instructions: u64) {
    LINGERS.store(instructions, Relaxed);
    timer().arm(after_us(3));
    burn(10_000);
}

#[inline(never)]
fn irqs() {
    let guard = preempt::irq_save();
    odd!(1_001);
    drop(guard);
}

#[inline(never)]
fn preemption() {
    let guard = preempt::disable();
    odd!(1_003);
    drop(guard);
}

/// Sections inside sections, and calls of the kernel that have some.
#[inline(never)]
fn nested_irqs() {
    let outer = preempt::irq_save();
    odd!(901);
    irqs();
    let _ = SEMAPHORE.give();
    preemption();
    let _ = SEMAPHORE.try_take();
    let inner = preempt::irq_save();
    odd!(53);
    drop(inner);
    drop(outer);
}

#[inline(never)]
fn nested_preemption() {
    let outer = preempt::disable();
    odd!(903);
    preemption();
    irqs();
    let _ = SEMAPHORE.give();
    let _ = SEMAPHORE.try_take();
    drop(outer);
}

/// Guards that end in the order in which they began.
#[inline(never)]
fn out_of_order() {
    let first = preempt::irq_save();
    odd!(703);
    let second = preempt::irq_save();
    let third = preempt::irq_save();
    drop(first);
    odd!(51);
    drop(second);
    drop(third);
}

/// The one reaches over the end of the other.
#[inline(never)]
fn irqs_then_preemption() {
    let irqs = preempt::irq_save();
    odd!(1_005);
    let preemption = preempt::disable();
    odd!(807);
    drop(irqs);
    odd!(609);
    drop(preemption);
}

#[inline(never)]
fn preemption_then_irqs() {
    let preemption = preempt::disable();
    odd!(1_007);
    let irqs = preempt::irq_save();
    odd!(809);
    drop(preemption);
    odd!(611);
    drop(irqs);
}

/// A timer's interrupt.
fn interrupt() {
    interrupted(2_002);
}

/// A device's.
fn device() {
    interrupt::raise(|| {
        odd!(3_003);
    });
}

/// Interrupts inside a stretch without preemption.
#[inline(never)]
fn interrupts_in_preemption() {
    let guard = preempt::disable();
    interrupted(500);
    device();
    drop(guard);
}

/// The interrupt's stretch ends in the thread that it wakes.
fn interrupt_that_wakes() {
    interrupted(1_101);
}

fn wakes_at_once() {
    let _ = SEMAPHORE.give();
}

/// The thread has to wait until preemption is enabled.
#[inline(never)]
fn wakes_and_keeps_the_cpu() {
    let guard = preempt::disable();
    let _ = SEMAPHORE.give();
    odd!(1_009);
    drop(guard);
}

fn takes(_: usize) {
    let _ = SEMAPHORE.take();
}

/// What is done, and whether a thread waits that is woken by it.
const PLANTS: [(&str, fn(), bool); 12] = [
    ("irqs", irqs, false),
    ("preemption", preemption, false),
    ("nested_irqs", nested_irqs, false),
    ("nested_preemption", nested_preemption, false),
    ("out_of_order", out_of_order, false),
    ("irqs_then_preemption", irqs_then_preemption, false),
    ("preemption_then_irqs", preemption_then_irqs, false),
    ("interrupt", interrupt, false),
    ("device", device, false),
    ("interrupts_in_preemption", interrupts_in_preemption, false),
    ("interrupt_that_wakes", interrupt_that_wakes, true),
    ("wakes_and_keeps_the_cpu", wakes_and_keeps_the_cpu, true),
];

const TRACERS: [&str; 4] = ["irqsoff", "preemptoff", "preemptirqsoff", "wakeup"];

/// One stretch under a tracer, or without.
fn one(tracer: &str, name: &str, plant: fn(), wakes: bool) -> Result<(), Error> {
    let waiter: Option<Thread> = match wakes {
        true => Some(spawn(0, PRIORITY + 5, takes, 0)?),
        false => None,
    };
    if !is_untraced() {
        choose(tracer)?;
        latency::set_max(Nanos::ZERO);
    }
    takt_counted_mark();
    core::hint::black_box(plant)();
    takt_counted_mark();
    if !is_untraced() {
        let last = latency::last();
        choose("nop")?;
        if let Some(last) = last {
            print(format_args!(
                "counted: {tracer} {name} {} {:#x} {:#x}\n",
                last.cycles, last.started_at, last.ended_at
            ));
        } else {
            print(format_args!("counted: {tracer} {name} none\n"));
        }
    }
    waiter.map_or(Ok(()), |waiter| join(&[waiter]))
}

target_test! {
    /// Every length is the number of instructions that are executed without a tracer between the same two places.
    fn lengths_are_counts(Counted) {
        interrupted(0);
        for tracer in TRACERS {
            for (name, plant, wakes) in PLANTS {
                one(tracer, name, plant, wakes)?;
            }
        }
        one("wakeup", "wakes_at_once", wakes_at_once, true)?;
        Ok(())
    }
}
