//! Tracers: what is chosen by ftrace's `current_tracer`.
//!
//! A tracer is a set of events and hooks that is switched on and off as one. There is one at a time; `nop` is the
//! one that does nothing, `sched_switch` the events of wake-ups and switches together. Single events are independent of
//! it.

use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering::Relaxed};

use takt_tracer::control::Tracer as Name;

use super::compact::rolled;
use super::{control, events};
#[cfg(feature = "latency-tracers")]
use super::{critical, hwlat, latency, places::Places, wakeup};
use crate::arch::jump_label::{Key, number};
use crate::error::Error;

/// A tracer: what is done when it is chosen and when another one is.
pub(super) struct Tracer {
    /// Its name, as in `available_tracers`.
    name: Name,
    /// Events that it needs on, in the order of [`Name::events`]; off again when it ends, if nobody else wants them.
    events: &'static [Key],
    /// What it does then, on a thread, one at a time.
    begin: Act,
    /// What it does before they are switched off. What was recorded stays.
    end: Act,
    /// It looks for the longest latency.
    #[cfg(feature = "latency-tracers")]
    latency: Option<Listening>,
}

/// Something that may not be possible now.
type Act = fn() -> Result<(), Error>;

/// What a tracer of latencies listens to.
#[cfg(feature = "latency-tracers")]
pub(super) struct Listening {
    /// The places of the kernel that it has hooks at.
    pub(super) places: Places,
    /// The key that is on meanwhile, if there are any.
    pub(super) key: Key,
    /// For the tracers of sections: which ones.
    pub(super) watched: u8,
}

fn nothing() -> Result<(), Error> {
    Ok(())
}

impl Tracer {
    /// One that consists of events, and of what these functions begin and end.
    pub(super) const fn new(name: Name, events: &'static [Key], begin: Act, end: Act) -> Self {
        Self {
            name,
            events,
            begin,
            end,
            #[cfg(feature = "latency-tracers")]
            latency: None,
        }
    }

    /// The same as a tracer of latencies.
    #[cfg(feature = "latency-tracers")]
    const fn listening(self, places: Places, key: Key, watched: u8) -> Self {
        Self {
            latency: Some(Listening {
                places,
                key,
                watched,
            }),
            ..self
        }
    }

    /// Whether an event is one of its own.
    pub(super) fn needs(&self, id: u32) -> bool {
        rolled(self.events).any(|key| number(key) == id)
    }

    /// Switches its events on, or off those that nobody else wants.
    #[inline(never)]
    pub(super) fn switch_events(&self, on: bool) -> Result<(), Error> {
        let mut bit = 1;
        for key in rolled(self.events) {
            let id = number(key);
            let is_on = control::is_enabled(id);
            let ours = OURS.load(Relaxed);
            // No short cuts: they would make two loops of it.
            if ((ours & bit != 0) != on) & !(on & is_on) {
                control::set_event(id, on)?;
                OURS.store(ours ^ bit, Relaxed);
            }
            bit <<= 1;
        }
        Ok(())
    }

    fn start(&self) -> Result<(), Error> {
        #[cfg(feature = "latency-tracers")]
        if let Some(what) = &self.latency {
            latency::start(what)?;
        }
        self.switch_events(true)?;
        (self.begin)()?;
        #[cfg(feature = "latency-tracers")]
        if let Some(what) = &self.latency {
            #[cfg(feature = "function")]
            super::function::beside_latency(true)?;
            let listens = latency::listen(what, true);
            #[cfg(feature = "function")]
            if listens.is_err() {
                super::function::beside_latency(false)?;
            }
            listens?;
        }
        Ok(())
    }

    fn stop(&self) -> Result<(), Error> {
        #[cfg(feature = "latency-tracers")]
        if let Some(what) = &self.latency {
            latency::listen(what, false)?;
            #[cfg(feature = "function")]
            super::function::beside_latency(false)?;
        }
        (self.end)()?;
        self.switch_events(false)?;
        #[cfg(feature = "latency-tracers")]
        if self.latency.is_some() {
            super::snapshot::reserve(false);
        }
        Ok(())
    }
}

/// A bit for each of the current tracer's events that is on for the tracer alone.
#[unsafe(export_name = "TAKT_TRACER_EVENTS")]
static OURS: AtomicU32 = AtomicU32::new(0);

/// The number of the tracer that does nothing.
const NOP: usize = 0;

static NONE: Tracer = Tracer::new(Name::Nop, &[], nothing, nothing);
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
static IRQSOFF: Tracer = of_sections(Name::Irqsoff, Places::IRQS, critical::IRQS);
#[cfg(feature = "latency-tracers")]
static PREEMPTOFF: Tracer = of_sections(Name::Preemptoff, Places::PREEMPTION, critical::PREEMPT);
#[cfg(feature = "latency-tracers")]
static PREEMPTIRQSOFF: Tracer = of_sections(
    Name::Preemptirqsoff,
    Places::ALL,
    critical::IRQS | critical::PREEMPT,
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

/// All that are compiled in.
static TRACERS: &[&Tracer] = &[
    &NONE,
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
    &super::function::FUNCTION,
    #[cfg(feature = "function")]
    &super::function::FUNCTION_GRAPH,
];

static CURRENT: AtomicUsize = AtomicUsize::new(NOP);

/// The names of all tracers, as `available_tracers` lists them.
///
/// # Context
/// Any.
pub fn available() -> impl Iterator<Item = &'static str> {
    TRACERS.iter().map(|tracer| tracer.name.name())
}

/// The name of the current one.
///
/// # Context
/// Any.
#[must_use]
pub fn current() -> &'static str {
    current_tracer().name.name()
}

/// Does what holds the CPUs up, while the current tracer does not listen if it is one of latencies.
#[cfg(all(feature = "latency-tracers", feature = "function"))]
#[inline(never)]
pub(super) fn unheard(act: impl FnOnce() -> Result<(), Error>) -> Result<(), Error> {
    let Some(what) = &current_tracer().latency else {
        return act();
    };
    latency::listen(what, false)?;
    let done = act();
    latency::listen(what, true)?;
    done
}

/// Has the current tracer begin anew, if it is one of these. What was recorded stays.
#[cfg(feature = "osnoise")]
pub(super) fn restart(which: &[&'static Tracer]) -> Result<(), Error> {
    let current = current_tracer();
    match which.iter().any(|tracer| core::ptr::eq(*tracer, current)) {
        true => set_tracer(current.name.name()),
        false => Ok(()),
    }
}

pub(super) fn current_tracer() -> &'static Tracer {
    TRACERS[CURRENT.load(Relaxed)]
}

/// The place of the current one in [`available`].
///
/// # Context
/// Any.
#[must_use]
pub fn current_number() -> usize {
    CURRENT.load(Relaxed)
}

/// Chooses a tracer: stops the current one and starts this one. The current one is started anew too.
///
/// # Errors
/// [`Error::InvalidArgument`] if there is none of that name, and what makes the current one impossible to stop now: it goes
/// on then. What makes the other one impossible to start now: then `nop` is the current one.
///
/// # Context
/// Threads, one at a time.
pub fn set_tracer(name: &str) -> Result<(), Error> {
    let number = TRACERS
        .iter()
        .position(|tracer| tracer.name.name() == name)
        .ok_or(Error::InvalidArgument)?;
    current_tracer().stop()?;
    CURRENT.store(NOP, Relaxed);
    let tracer = TRACERS[number];
    let started = tracer.start();
    match started {
        Ok(()) => CURRENT.store(number, Relaxed),
        // Its events are nobody's, and so is the snapshot.
        Err(_) => {
            tracer.switch_events(false)?;
            #[cfg(feature = "latency-tracers")]
            if tracer.latency.is_some() {
                super::snapshot::reserve(false);
            }
        }
    }
    started
}
