//! Trace points of the kernel and of applications.
//!
//! [`trace_event!`](crate::trace_event) is a trace point: one instruction while its event is off. [`events`] lists the
//! kernel's own. [`enable`] switches an event on by its id (the host knows names, the target does not), [`tracing_on`]
//! and [`tracing_off`] start and stop recording as such. [`marker`] is for a word of the application's own. With feature
//! `function`, `function` is the function tracer.

pub mod control;
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
pub mod tracers;

#[cfg(feature = "latency-tracers")]
mod critical;
mod enabled;
#[cfg(feature = "latency-tracers")]
mod ending;
pub(crate) mod hooks;
mod marker;
mod names;
mod needed;
mod reader;
pub mod snapshot;
mod switching;
mod tracer;
#[cfg(feature = "latency-tracers")]
mod wakeup;

pub use crate::probe::events;
pub use crate::probe::sink::{IrqsOffSink, IrqsOnSink, KernelSink};
pub use control::{
    Counters, buffer_size, close, counters_of, cpumask, forget, has_full, is_on, is_overwriting,
    is_wanted, nr_full, place_of, prepare, set_cpumask, tracing_off, tracing_on,
};
pub use enabled::is_enabled;
pub use marker::{format_marker, marker, record_marker};
pub use names::record_names;
pub use reader::{Copied, SUB_BUFFER, SubBuffer, copy_full, discard, drain};
pub use snapshot::set_mode;
pub use takt_tracer::event::Event;
pub use takt_tracer::ring::Mode;
pub use tracer::{enable, set_buffer_size};
pub use tracers::set_tracer;

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
