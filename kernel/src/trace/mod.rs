//! Trace points of the kernel and of applications.
//!
//! [`trace_event!`](crate::trace_event) is a trace point: one instruction while its event is off. [`events`] lists the
//! kernel's own. [`enable`] switches an event on by its id (the host knows names, the target does not), [`tracing_on`]
//! and [`tracing_off`] start and stop recording as such. [`marker`] is for a word of the application's own. With feature
//! `function`, `function` is the function tracer.

pub mod control;
pub mod events;
#[cfg(feature = "function")]
pub mod function;
#[cfg(feature = "latency-tracers")]
pub mod hwlat;
#[cfg(feature = "latency-tracers")]
pub mod latency;
#[cfg(feature = "osnoise")]
pub mod osnoise;
#[cfg(feature = "rules")]
pub mod rules;
#[cfg(feature = "stacktrace")]
pub mod stack;
pub mod tracer;

mod compact;
#[cfg(feature = "latency-tracers")]
mod critical;
#[cfg_attr(not(feature = "latency-tracers"), path = "places/events_only.rs")]
mod places;
mod ring;
pub mod snapshot;
#[cfg(feature = "latency-tracers")]
mod wakeup;

pub use control::{
    Counters, buffer_size, close, counters_of, cpumask, drain, enable, forget, has_full,
    is_enabled, is_on, is_overwriting, is_wanted, nr_full, place_of, prepare, set_buffer_size,
    set_cpumask, set_mode, tracing_off, tracing_on,
};
pub(crate) use ring::record_bytes;
pub use ring::{IrqsOffSink, IrqsOnSink, KernelRing, KernelSink};
pub use takt_tracer::ring::Mode;
pub use tracer::set_tracer;

/// A trace point: records the event with these field values if it is on, costs one instruction if not. The values are
/// evaluated only if it is on.
///
/// # Context
/// Any, NMI included.
#[macro_export]
macro_rules! trace_event {
    ($($event:ident)::+ $(, $value:expr)* $(,)?) => {
        if $crate::static_branch!($($event)::+::ID) {
            <$($event)::+::Event as $crate::trace::Event>::Class::emit::<$crate::trace::KernelSink>(
                <$($event)::+::Event as $crate::trace::Event>::id() $(, $value)*
            );
        }
    };
}

use crate::arch::place::{place, recorded_place};
use crate::arch::{interrupts, percpu};
use crate::thread::tcb::Tcb;
pub use takt_tracer::event::Event;

/// A trace point where interrupts are known to be off, as in interrupt handlers and timer functions: four instructions
/// shorter than [`trace_event!`](crate::trace_event), since the flags need not be read.
///
/// # Context
/// Interrupts off; else the record says so all the same.
#[macro_export]
macro_rules! trace_event_irqs_off {
    ($($event:ident)::+ $(, $value:expr)* $(,)?) => {
        if $crate::static_branch!($($event)::+::ID) {
            <$($event)::+::Event as $crate::trace::Event>::Class::emit::<$crate::trace::IrqsOffSink>(
                <$($event)::+::Event as $crate::trace::Event>::id() $(, $value)*
            );
        }
    };
}

/// A trace point where interrupts are known to be on, as in a thread that has not disabled them: four instructions shorter
/// than [`trace_event!`](crate::trace_event), since the flags need not be read.
///
/// # Context
/// Interrupts on; else the record says so all the same.
#[macro_export]
macro_rules! trace_event_irqs_on {
    ($($event:ident)::+ $(, $value:expr)* $(,)?) => {
        if $crate::static_branch!($($event)::+::ID) {
            <$($event)::+::Event as $crate::trace::Event>::Class::emit::<$crate::trace::IrqsOnSink>(
                <$($event)::+::Event as $crate::trace::Event>::id() $(, $value)*
            );
        }
    };
}

/// A trace point of the kernel's own events, with interrupts off.
macro_rules! trace {
    ($event:ident $(, $value:expr)* $(,)?) => {
        $crate::trace_event_irqs_off!($crate::trace::events::$event $(, $value)*)
    };
}
pub(crate) use trace;

#[cfg(feature = "rules")]
pub(crate) use compact::rolled;
pub(crate) use compact::{counted, opaque};
#[cfg(feature = "latency-tracers")]
pub(crate) use critical::{Cpu, irq_returns};
pub(crate) use places::{IRQ_ENTRY, SWITCH, WAKEUP};
#[cfg(feature = "latency-tracers")]
pub(crate) use wakeup::Followed;

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
pub(crate) extern "C" fn irq_disabled(place: u32, flags: u64) {
    // Else it is inside another section.
    if interrupts::are_enabled_in(flags) {
        trace!(irq_disable, place);
        hook!(critical::CRITICAL, critical::irqs_off(place));
    }
}

/// Interrupts are about to be switched on at `place`. A hook.
pub(crate) extern "C" fn irq_enabling(place: u32) {
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
pub(crate) extern "C" fn preempt_disabled(place: u32, _: u64, _: u64, flags: u64) {
    let irqs = interrupts::are_enabled_in(flags);
    trace_preemption!(preempt_disable, place, irqs);
    hook!(critical::CRITICAL, critical::preempt_off(place, irqs));
}

/// Preemption is about to be enabled at `place`, where these are the flags. A hook.
pub(crate) extern "C" fn preempt_enabling(place: u32, _: u64, _: u64, flags: u64) {
    let irqs = interrupts::are_enabled_in(flags);
    hook!(critical::CRITICAL, critical::preempt_on(place, irqs));
    trace_preemption!(preempt_enable, place, irqs);
}

/// The handling of an interrupt begins, whose entry took the time stamp `at`. In a hook.
#[inline(never)]
pub(crate) fn irq_entered(vector: u32, at: u64) {
    hook!(critical::CRITICAL, critical::irq_entered(vector, at));
    irq_recorded(vector);
}

/// The same while no hook is timed: records it, if that is on.
#[inline(always)]
pub(crate) fn irq_recorded(vector: u32) {
    trace!(irq_handler_entry, vector);
}

/// The beginning of the timer's. A hook.
extern "C" fn timer_irq_entered(_: u32, at: u64) {
    irq_entered(u32::from(interrupts::TIMER_VECTOR), at);
}

/// The same of a kick's. A hook.
extern "C" fn kick_irq_entered(_: u32, at: u64) {
    irq_entered(u32::from(interrupts::KICK_VECTOR), at);
}

/// Trace point where the handling of the timer's interrupt begins, whose entry took the time stamp `at`.
#[inline(always)]
pub(crate) fn timer_entry(at: u64) {
    if recorded_place!(IRQ_ENTRY, timer_irq_entered, at) {
        irq_recorded(u32::from(interrupts::TIMER_VECTOR));
    }
}

/// The same of a kick.
#[inline(always)]
pub(crate) fn kick_entry(at: u64) {
    if recorded_place!(IRQ_ENTRY, kick_irq_entered, at) {
        irq_recorded(u32::from(interrupts::KICK_VECTOR));
    }
}

/// A thread is about to be put into its run queue, inside a section. A hook.
extern "C" fn thread_woken(place: u32, t: &Tcb) {
    record_wakeup(t);
    hook!(wakeup::WAKEUP, wakeup::woken(place, t));
}

/// Another thread is about to run, inside a section. A hook.
extern "C" fn thread_switched(place: u32, next: &Tcb) {
    // SAFETY: the running thread's own block, of which nothing is changed meanwhile.
    let prev = unsafe { &*percpu::current() };
    #[cfg(feature = "latency-tracers")]
    if crate::static_branch!(wakeup::WAKEUP) {
        return wakeup::switched(place, prev, next, record_switch);
    }
    #[cfg(not(feature = "latency-tracers"))]
    let _ = place;
    record_switch(prev, next);
}

/// Trace point where a thread is about to be put into its run queue, inside a section: whether the caller is to record it
/// (see [`record_wakeup`]).
#[inline(always)]
pub(crate) fn is_wakeup_recorded(t: &Tcb) -> bool {
    recorded_place!(WAKEUP, thread_woken, core::ptr::from_ref(t))
}

/// Trace point where another thread is about to run, inside a section: whether the caller is to record it (see
/// [`record_switch`]).
#[inline(always)]
pub(crate) fn is_switch_recorded(next: &Tcb) -> bool {
    recorded_place!(SWITCH, thread_switched, core::ptr::from_ref(next))
}

/// Records that a thread is about to be put into its run queue, if that is on.
#[inline(always)]
pub(crate) fn record_wakeup(t: &Tcb) {
    trace!(sched_wakeup, t.tid.raw(), t.prio.rank(), t.cpu.number());
}

/// Records that `next` is about to run, if that is on.
#[inline]
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
fn without_interrupts<T>(act: impl FnOnce() -> T) -> T {
    let flags = crate::arch::interrupts::flags();
    crate::arch::interrupts::disable();
    let result = act();
    // SAFETY: as they were.
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

/// Records a text of the application's own, as writing to ftrace's `trace_marker` does.
///
/// # Context
/// Any, NMI included.
#[inline]
pub fn marker(text: &str) {
    crate::trace_event!(crate::trace::events::print, text.as_bytes());
}

/// Records a text of the application's own, with values in it as in `format!`: [`marker`] in a macro's form (Linux:
/// `trace_printk`). The text is made only while markers are on; what does not fit into a record is cut.
///
/// # Context
/// Any, NMI included; the stack has to have room for the text, a little more than
/// [`MAX_BYTES`](takt_tracer::wire::MAX_BYTES).
#[macro_export]
macro_rules! trace_marker {
    ($($text:tt)+) => {
        if $crate::static_branch!($crate::trace::events::print::ID) {
            $crate::trace::format_marker(::core::format_args!($($text)+));
        }
    };
}

/// What [`trace_marker!`](crate::trace_marker) records while markers are on.
///
/// # Context
/// As [`trace_marker!`](crate::trace_marker).
#[doc(hidden)]
#[cold]
pub fn format_marker(text: core::fmt::Arguments<'_>) {
    if let Some(text) = text.as_str() {
        return record_marker(text);
    }
    let mut out = Text::new();
    // What does not fit is cut.
    let _ = core::fmt::write(&mut Cut(&mut out), text);
    record_marker(&out);
}

/// A text, with room for one character more than is recorded: by it a reader knows that it was cut.
type Text = heapless::String<{ takt_tracer::wire::MAX_BYTES + 4 }>;

/// Takes what fits, to the character.
struct Cut<'s>(&'s mut Text);

impl core::fmt::Write for Cut<'_> {
    fn write_str(&mut self, text: &str) -> core::fmt::Result {
        text.chars()
            .try_for_each(|c| self.0.push(c).map_err(|_| core::fmt::Error))
    }
}

/// As [`marker`], whether the event is on or not: what a host writes to `trace_marker` is always wanted.
///
/// # Context
/// Any, NMI included.
pub fn record_marker(text: &str) {
    use events::print::Event as Marker;
    <Marker as Event>::Class::emit::<KernelSink>(<Marker as Event>::id(), text.as_bytes());
}

/// Emits `thread_name` for every thread that exists and `irq_name` for every device interrupt that has a handler, so that a
/// trace which begins later knows their names.
///
/// # Context
/// Threads.
pub fn record_names() {
    crate::irq::for_each(record_irq_name);
    crate::thread::for_each(|info| {
        if usize::from(info.id) < crate::config::MAX_CPUS {
            return; // an idle thread: the decoder knows them
        }
        crate::trace_event!(
            crate::trace::events::thread_name,
            info.id,
            info.name.as_bytes()
        );
    });
}

/// Tells what a device interrupt's handler is called.
pub(crate) fn record_irq_name(vector: u8, name: &str) {
    crate::trace_event!(crate::trace::events::irq_name, vector, name.as_bytes());
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
