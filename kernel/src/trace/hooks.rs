//! What happens at the kernel's places while someone listens there: their events are recorded, and the tracers of latencies told.
//!
//! # Context
//! Any but NMI. A hook may have interrupts off where they are on at its place.

use crate::arch::interrupts;
use crate::clock::Instant;
use crate::irq;
use crate::probe::sink::{IrqsOffSink, IrqsOnSink};
use crate::probe::{self, Event, events, trace};
#[cfg(feature = "latency-tracers")]
use crate::thread::tcb::{Tcb, TcbRef};

#[cfg(feature = "latency-tracers")]
use super::{critical, wakeup};

/// What a tracer does at a place of the kernel, while the tracer's key is on; nothing if no tracer is compiled in.
#[cfg(feature = "latency-tracers")]
macro_rules! hook {
    ($key:path, $module:ident::$act:ident($($value:expr),*)) => {
        if $crate::static_branch!($key) {
            $module::$act($($value),*);
        }
    };
}
#[cfg(not(feature = "latency-tracers"))]
macro_rules! hook {
    ($key:path, $module:ident::$act:ident($($value:expr),*)) => {
        $(let _ = $value;)*
    };
}

/// Interrupts were switched off at `place`, if they were on in `flags`. A hook.
extern "C" fn irq_disabled(place: u32, flags: u64) {
    // Else it is inside another section.
    if interrupts::are_enabled_in(flags) {
        trace!(irq_disable, place);
        hook!(critical::CRITICAL, critical::irqs_off(place));
    }
}

/// Interrupts are about to be switched on at `place`. A hook.
extern "C" fn irq_enabling(place: u32) {
    hook!(critical::CRITICAL, critical::irqs_on(place));
    trace!(irq_enable, place);
}

/// Records an event of preemption; a hook may have interrupts off where they are on at its place.
macro_rules! trace_preemption {
    ($event:ident, $place:expr, $irqs:expr) => {
        if $crate::static_branch!(events::$event::ID) {
            let record = if $irqs {
                <events::$event::Event as Event>::Class::emit::<IrqsOnSink>
            } else {
                <events::$event::Event as Event>::Class::emit::<IrqsOffSink>
            };
            record(<events::$event::Event as Event>::id(), $place);
        }
    };
}

/// Preemption was disabled at `place`, where these are the flags. A hook.
extern "C" fn preempt_disabled(place: u32, _: u64, _: u64, flags: u64) {
    let irqs = interrupts::are_enabled_in(flags);
    trace_preemption!(preempt_disable, place, irqs);
    hook!(critical::CRITICAL, critical::preempt_off(place, irqs));
}

/// Preemption is about to be enabled at `place`, where these are the flags. A hook.
extern "C" fn preempt_enabling(place: u32, _: u64, _: u64, flags: u64) {
    let irqs = interrupts::are_enabled_in(flags);
    hook!(critical::CRITICAL, critical::preempt_on(place, irqs));
    trace_preemption!(preempt_enable, place, irqs);
}

/// The handling of an interrupt begins, whose entry took the time stamp `at`. In a hook.
#[inline(never)]
fn irq_entered(vector: u32, at: Instant) {
    hook!(critical::CRITICAL, critical::irq_entered(vector, at));
    probe::irq_recorded(vector);
}

/// The beginning of the timer's. A hook.
#[cfg(feature = "latency-tracers")]
extern "C" fn timer_irq_entered(_: u32, at: Instant) {
    irq_entered(u32::from(interrupts::TIMER_VECTOR), at);
}

/// The same of a kick's. A hook.
#[cfg(feature = "latency-tracers")]
extern "C" fn kick_irq_entered(_: u32, at: Instant) {
    irq_entered(u32::from(interrupts::KICK_VECTOR), at);
}

/// The same of a device's, whose handler is in this slot. A hook.
pub(crate) extern "C" fn device_irq_entered(_: u32, at: Instant, slot: &irq::Slot) {
    irq_entered(irq::vector_of(slot), at);
}

/// A thread is about to be put into its run queue, inside a section. A hook.
#[cfg(feature = "latency-tracers")]
extern "C" fn thread_woken(place: u32, t: &Tcb) {
    probe::record_wakeup(t);
    hook!(wakeup::WAKEUP, wakeup::woken(place, t));
}

/// Another thread is about to run, inside a section. A hook.
#[cfg(feature = "latency-tracers")]
extern "C" fn thread_switched(place: u32, next: &Tcb) {
    // SAFETY: the running thread's own block, of which nothing is changed meanwhile.
    let prev = unsafe { &*TcbRef::current().as_ptr() };
    if crate::static_branch!(wakeup::WAKEUP) {
        return wakeup::switched(place, prev, next, probe::record_switch);
    }
    probe::record_switch(prev, next);
}

// What places call: by a way of its own, or, where the code around a place may record its event, by name.
#[cfg(feature = "trace")]
core::arch::global_asm!(
    ".section .text.thunk, \"ax\"",
    ".macro TAKT_PLACE name, function",
    "takt_place_\\name:",
    "push offset \\function",
    "jmp takt_place_hook",
    ".endm",
    "TAKT_PLACE irq_disabled, {irq_disabled}",
    "TAKT_PLACE irq_enabling, {irq_enabling}",
    "TAKT_PLACE preempt_disabled, {preempt_disabled}",
    "TAKT_PLACE preempt_enabling, {preempt_enabling}",
    ".text",
    irq_disabled = sym irq_disabled,
    irq_enabling = sym irq_enabling,
    preempt_disabled = sym preempt_disabled,
    preempt_enabling = sym preempt_enabling,
);

#[cfg(feature = "latency-tracers")]
core::arch::global_asm!(
    ".set takt_hook_timer_irq, {timer_irq}",
    ".set takt_hook_kick_irq, {kick_irq}",
    ".set takt_hook_woken, {woken}",
    ".set takt_hook_switched, {switched}",
    timer_irq = sym timer_irq_entered,
    kick_irq = sym kick_irq_entered,
    woken = sym thread_woken,
    switched = sym thread_switched,
);
