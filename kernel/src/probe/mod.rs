//! What the kernel tells of itself: its events, and the places where tracers listen.
//!
//! A place is one instruction while no one listens. Its event is recorded by the code around it; a tracer's hook, which the
//! layers above provide ([`hooks`](crate::trace::hooks)), is called by the place itself (see [`place`](crate::arch::place)).

pub mod events;
#[cfg(feature = "tasks")]
pub(crate) mod flags;
#[cfg_attr(not(feature = "latency-tracers"), path = "places/events_only.rs")]
pub(crate) mod places;
pub(crate) mod ring;
pub(crate) mod sink;
pub(crate) mod state;

use crate::arch::interrupts;
use crate::arch::place::{place, recorded_place};
use crate::clock::Instant;
use crate::thread::tcb::Tcb;

pub(crate) use takt_tracer::event::Event;

/// A trace point of the kernel's own events, whose records go to this sink.
macro_rules! trace_to {
    ($sink:ident, $event:ident $(, $value:expr)* $(,)?) => {
        if $crate::static_branch!($crate::probe::events::$event::ID) {
            <$crate::probe::events::$event::Event as $crate::probe::Event>::Class::emit::<$crate::probe::sink::$sink>(
                <$crate::probe::events::$event::Event as $crate::probe::Event>::id() $(, $value)*
            );
        }
    };
}
pub(crate) use trace_to;

/// With interrupts off.
macro_rules! trace {
    ($($what:tt)*) => {
        $crate::probe::trace_to!(IrqsOffSink, $($what)*)
    };
}
pub(crate) use trace;

/// With interrupts on.
#[cfg(feature = "tasks")]
macro_rules! trace_irqs_on {
    ($($what:tt)*) => {
        $crate::probe::trace_to!(IrqsOnSink, $($what)*)
    };
}
#[cfg(feature = "tasks")]
pub(crate) use trace_irqs_on;

/// The handling of an interrupt begins: records it, if that is on.
#[inline(always)]
pub(crate) fn irq_recorded(vector: u32) {
    trace!(irq_handler_entry, vector);
}

/// Trace point where the handling of the timer's interrupt begins, whose entry took the time stamp `at`.
#[inline(always)]
pub(crate) fn timer_entry(at: Instant) {
    if recorded_place!(places::IRQ_ENTRY, "takt_hook_timer_irq", at.cycles()) {
        irq_recorded(u32::from(interrupts::TIMER_VECTOR));
    }
}

/// The same of a kick.
#[inline(always)]
pub(crate) fn kick_entry(at: Instant) {
    if recorded_place!(places::IRQ_ENTRY, "takt_hook_kick_irq", at.cycles()) {
        irq_recorded(u32::from(interrupts::KICK_VECTOR));
    }
}

/// Trace point where a thread is about to be put into its run queue, inside a section: whether the caller is to record it
/// (see [`record_wakeup`]).
#[inline(always)]
pub(crate) fn is_wakeup_recorded(t: &Tcb) -> bool {
    recorded_place!(places::WAKEUP, "takt_hook_woken", core::ptr::from_ref(t))
}

/// Trace point where another thread is about to run, inside a section: whether the caller is to record it (see
/// [`record_switch`]).
#[inline(always)]
pub(crate) fn is_switch_recorded(next: &Tcb) -> bool {
    recorded_place!(
        places::SWITCH,
        "takt_hook_switched",
        core::ptr::from_ref(next)
    )
}

/// Records that a thread is about to be put into its run queue, if that is on.
#[inline(always)]
pub(crate) fn record_wakeup(t: &Tcb) {
    trace!(sched_wakeup, t.tid.raw(), t.prio.rank(), t.cpu.number());
}

/// Records that `next` is about to run, if that is on.
#[inline(always)]
pub(crate) fn record_switch(prev: &Tcb, next: &Tcb) {
    let word = next.word();
    trace!(
        sched_switch,
        word.tid(),
        word.prio(),
        prev_state(prev.state),
        prev.prio.rank()
    );
}

/// Trace point of the kernel's own sections, right after interrupts were switched off where they were on.
#[inline(always)]
pub(crate) fn section_begun() {
    place!(places::IRQ_OFF, "irq_disabled");
}

/// The same where they were on only if they are in `flags`.
#[inline(always)]
pub(crate) fn section_begun_with(flags: u64) {
    place!(places::IRQ_OFF, "irq_disabled", flags);
}

/// Trace point of the kernel's own sections, right before interrupts are switched on.
#[inline(always)]
pub(crate) fn section_ends() {
    place!(places::IRQ_ON, "irq_enabling");
}

/// Not a section of the kernel's: it is traced by those that call this. As long whether they were enabled or not.
#[cfg(any(
    feature = "latency-tracers",
    feature = "function",
    all(feature = "rules", feature = "stacktrace")
))]
#[inline(always)]
pub(crate) fn without_interrupts<T>(act: impl FnOnce() -> T) -> T {
    let flags = crate::arch::interrupts::flags();
    crate::arch::interrupts::disable();
    let result = act();
    // SAFETY: the flags of the beginning: whoever had interrupts off has them off again.
    unsafe { crate::arch::interrupts::set_flags(flags) };
    result
}

/// Trace point right after preemption was disabled.
#[inline(always)]
pub(crate) fn preemption_disabled() {
    place!(places::PREEMPT_OFF, "preempt_disabled");
}

/// Trace point right before preemption is enabled.
#[inline(always)]
pub(crate) fn preemption_enabling() {
    place!(places::PREEMPT_ON, "preempt_enabling");
}

/// The letter of a thread that is left: 0 R, 1 S, 2 T, 3 X.
#[inline(always)]
pub(crate) fn prev_state(state: u8) -> u32 {
    /// Two bits for each state.
    const LETTERS: u32 = {
        use crate::thread::tcb::{EXITED, SUSPENDED, WAITING};
        let (mut letters, mut state) = (0, 0);
        while state < 16 {
            let letter = match state {
                s if s & EXITED != 0 => 3,
                s if s & SUSPENDED != 0 => 2,
                s if s & WAITING != 0 => 1,
                _ => 0,
            };
            letters |= letter << (2 * state);
            state += 1;
        }
        letters
    };
    LETTERS.wrapping_shr(2 * u32::from(state)) & 3
}
