//! Interrupts, by software: `int` takes the same gate and stub as a device's.

use core::arch::asm;

use takt_kernel::irq;
use takt_kernel::irq::FIRST_DEVICE_VECTOR;
use takt_kernel::sync::Semaphore;
use takt_kernel::time::Instant;

use super::ROUNDS;
use crate::clock::{START, Value};
use crate::report::insn;
use crate::threads::{MAIN, join, must, spawn};

const VECTOR: u8 = FIRST_DEVICE_VECTOR;
const VECTOR_WAKE: u8 = FIRST_DEVICE_VECTOR + 1;

/// Causes an interrupt of this vector.
#[inline(always)]
pub(super) fn cause<const N: u8>() {
    // SAFETY: a device vector with a handler. The entry stub runs on a stack of its own and keeps every register.
    unsafe { asm!("int {}", const N, options(nostack)) };
}

static ENTRY: Value = Value::new();
static RESULT: Value = Value::new();
static WOKEN: Semaphore = Semaphore::new(0, 1);

extern "C" fn handler(_: usize, _: Instant) {
    ENTRY.take();
    START.set();
}

extern "C" fn wake(_: usize, _: Instant) {
    // Someone waits for it: it cannot overflow.
    let _ = WOKEN.give();
    START.set();
}

pub(super) fn all() {
    must("register", irq::register(VECTOR, "handler", handler, 0));
    must("register", irq::register(VECTOR_WAKE, "wake", wake, 0));
    to_same_thread();
    to_other_thread();
}

/// From the interrupted thread to the handler, and from the handler's end back to the thread.
fn to_same_thread() {
    for _ in 0..ROUNDS {
        START.set();
        cause::<VECTOR>();
        RESULT.take();
    }
    insn("interrupt-entry", ENTRY.get());
    insn("interrupt-to-same", RESULT.get());
}

/// From the handler's end to a more important thread that it has woken.
fn to_other_thread() {
    let other = spawn(0, MAIN + 1, |_| {
        for _ in 0..ROUNDS {
            let taken = WOKEN.take();
            RESULT.take();
            must("take", taken);
        }
    });
    for _ in 0..ROUNDS {
        cause::<VECTOR_WAKE>();
    }
    insn("interrupt-to-other", RESULT.get());
    join(other);
}
