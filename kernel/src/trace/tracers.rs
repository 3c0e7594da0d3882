//! The list of tracers that an image has, by the names of ftrace's `current_tracer`.

use takt_tracer::control::Tracer as Name;

#[cfg(feature = "function")]
use super::function;
use super::tracer::{self, Tracer, nothing};
#[cfg(feature = "latency-tracers")]
use super::{critical, hwlat, latency, wakeup};
#[cfg(feature = "latency-tracers")]
use crate::arch::jump_label::Key;
use crate::error::Error;
use crate::probe::events;
#[cfg(feature = "latency-tracers")]
use crate::probe::places::Places;

static SCHED_SWITCH: Tracer = Tracer::new(
    Name::SchedSwitch,
    &[&events::sched_wakeup::ID, &events::sched_switch::ID],
    nothing,
    nothing,
);

/// One of the three that look for sections.
#[cfg(feature = "latency-tracers")]
const fn of_sections(name: Name, places: Places, watched: u8) -> Tracer {
    Tracer::new(name, &[MAXIMUM], critical::calibrate, nothing).listening(
        places,
        &critical::CRITICAL,
        watched,
    )
}

/// One of the two that look for threads that are woken. Their events show who had the CPU in between; the wake-up is
/// recorded right before the latency begins and the switch right after it ends, so neither is part of it.
#[cfg(feature = "latency-tracers")]
const fn of_wakeups(name: Name) -> Tracer {
    const EVENTS: &[Key] = &[
        MAXIMUM,
        &events::sched_wakeup::ID,
        &events::sched_switch::ID,
    ];
    Tracer::new(name, EVENTS, critical::calibrate, nothing).listening(
        Places::THREADS,
        &wakeup::WAKEUP,
        0,
    )
}

#[cfg(feature = "latency-tracers")]
const MAXIMUM: Key = &latency::latency_max::ID;
#[cfg(feature = "latency-tracers")]
static IRQSOFF: Tracer = of_sections(Name::Irqsoff, Places::IRQS, latency::IRQS);
#[cfg(feature = "latency-tracers")]
static PREEMPTOFF: Tracer = of_sections(Name::Preemptoff, Places::PREEMPTION, latency::PREEMPT);
#[cfg(feature = "latency-tracers")]
static PREEMPTIRQSOFF: Tracer = of_sections(
    Name::Preemptirqsoff,
    Places::ALL,
    latency::IRQS | latency::PREEMPT,
);
#[cfg(feature = "latency-tracers")]
static WAKEUP: Tracer = of_wakeups(Name::Wakeup);
#[cfg(feature = "latency-tracers")]
static WAKEUP_RT: Tracer = of_wakeups(Name::WakeupRt);
#[cfg(feature = "latency-tracers")]
static HWLAT: Tracer = Tracer::new(
    Name::Hwlat,
    &[MAXIMUM, &hwlat::hwlat::ID],
    hwlat::begin,
    hwlat::end,
);

/// `function` as the current tracer.
#[cfg(feature = "function")]
static FUNCTION: Tracer = Tracer::new(Name::Function, &[], function::start, function::stop);

/// `function_graph` as the current tracer. Its events tell whose time it was.
#[cfg(feature = "function")]
static FUNCTION_GRAPH: Tracer = Tracer::new(
    Name::FunctionGraph,
    &[
        &events::sched_switch::ID,
        &events::irq_handler_entry::ID,
        &events::irq_handler_exit::ID,
    ],
    function::start_graph,
    function::stop,
);

/// All that are compiled in.
static TRACERS: &[&Tracer] = &[
    &tracer::NONE,
    &SCHED_SWITCH,
    #[cfg(feature = "latency-tracers")]
    &IRQSOFF,
    #[cfg(feature = "latency-tracers")]
    &PREEMPTOFF,
    #[cfg(feature = "latency-tracers")]
    &PREEMPTIRQSOFF,
    #[cfg(feature = "latency-tracers")]
    &WAKEUP,
    #[cfg(feature = "latency-tracers")]
    &WAKEUP_RT,
    #[cfg(feature = "latency-tracers")]
    &HWLAT,
    #[cfg(feature = "osnoise")]
    &super::osnoise::TIMERLAT,
    #[cfg(feature = "osnoise")]
    &super::osnoise::OSNOISE,
    #[cfg(feature = "function")]
    &FUNCTION,
    #[cfg(feature = "function")]
    &FUNCTION_GRAPH,
];

/// The names of all tracers, as `available_tracers` lists them.
///
/// # Context
/// Any.
pub fn available() -> impl Iterator<Item = &'static str> {
    TRACERS.iter().map(|tracer| tracer.name())
}

/// The name of the current one.
///
/// # Context
/// Any.
#[must_use]
pub fn current() -> &'static str {
    tracer::current().name()
}

/// The place of the current one in [`available`].
///
/// # Context
/// Any.
#[must_use]
pub fn current_number() -> usize {
    TRACERS
        .iter()
        .position(|tracer| tracer::is_current(tracer))
        .unwrap_or_default()
}

/// Chooses a tracer: stops the current one and starts this one. The current one is started anew too.
///
/// # Errors
/// [`Error::InvalidArgument`] if there is none of that name, and what makes the current one impossible to stop now: it goes
/// on then. What makes the other one impossible to start now: then `nop` is the current one. Those of
/// [`Mutex::lock`](crate::sync::Mutex::lock), if someone else is at it.
///
/// # Context
/// Threads that may block.
pub fn set_tracer(name: &str) -> Result<(), Error> {
    let tracer = TRACERS
        .iter()
        .find(|tracer| tracer.name() == name)
        .ok_or(Error::InvalidArgument)?;
    tracer::choose(tracer)
}
