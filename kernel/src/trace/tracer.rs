//! What a tracer is, and the current one.
//!
//! A tracer is a set of events and hooks that is switched on and off as one. There is one at a time; `nop` is the
//! one that does nothing, `sched_switch` the events of wake-ups and switches together. Single events are independent of
//! it.

use core::sync::atomic::{AtomicPtr, AtomicU32, Ordering::Relaxed};

use takt_tracer::control::Tracer as Name;
use takt_tracer::ring;

#[cfg(feature = "latency-tracers")]
use super::latency::{self, Listening};
use super::{enabled, needed, switching};
use crate::arch::jump_label::{self, Key, number};
use crate::compact::rolled;
use crate::config::TRACE_NR_SUBS;
use crate::error::Error;
#[cfg(feature = "latency-tracers")]
use crate::probe::places::Places;
use crate::probe::ring::RingOf;
use crate::sync::held::{Held, Right};
use crate::sync::raw_mutex::RawMutex;

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

/// What a tracer does that consists of events alone.
pub(super) fn nothing() -> Result<(), Error> {
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
    pub(super) const fn listening(self, places: Places, key: Key, watched: u8) -> Self {
        Self {
            latency: Some(Listening {
                places,
                key,
                watched,
            }),
            ..self
        }
    }

    /// Its name.
    pub(super) fn name(&self) -> &'static str {
        self.name.name()
    }

    /// Switches its events on, or off those that nobody else wants.
    #[inline(never)]
    pub(super) fn switch_events(&self, on: bool) -> Result<(), Error> {
        let mut bit = 1;
        for key in rolled(self.events) {
            let id = number(key);
            let is_on = enabled::is_enabled(id);
            let ours = OURS.load(Relaxed);
            // No short cuts: they would make two loops of it.
            if ((ours & bit != 0) != on) & !(on & is_on) {
                switching::set_event(id, on)?;
                OURS.store(ours ^ bit, Relaxed);
            }
            bit <<= 1;
        }
        Ok(())
    }

    fn start(&'static self) -> Result<(), Error> {
        #[cfg(feature = "latency-tracers")]
        if let Some(what) = &self.latency {
            latency::start(what)?;
        }
        self.switch_events(true)?;
        (self.begin)()?;
        #[cfg(feature = "latency-tracers")]
        if let Some(what) = &self.latency {
            #[cfg(feature = "function")]
            super::function::settings::beside_latency(true)?;
            let listens = latency::listen(what, true);
            #[cfg(feature = "function")]
            if listens.is_err() {
                super::function::settings::beside_latency(false)?;
            }
            listens?;
        }
        Ok(())
    }

    fn stop(&'static self) -> Result<(), Error> {
        #[cfg(feature = "latency-tracers")]
        if let Some(what) = &self.latency {
            latency::listen(what, false)?;
            #[cfg(feature = "function")]
            super::function::settings::beside_latency(false)?;
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

/// The right to choose a tracer, and to switch events.
enum OfTracer {}

impl Right for OfTracer {
    const MUTEX: &'static RawMutex = &CHOICE;
}

static CHOICE: RawMutex = RawMutex::new();

/// A bit for each of the current tracer's events that is on for the tracer alone.
#[unsafe(export_name = "TAKT_TRACER_EVENTS")]
static OURS: AtomicU32 = AtomicU32::new(0);

/// The one that does nothing.
pub(super) static NONE: Tracer = Tracer::new(Name::Nop, &[], nothing, nothing);

static CURRENT: AtomicPtr<Tracer> = AtomicPtr::new((&raw const NONE).cast_mut());

/// The current one.
pub(super) fn current() -> &'static Tracer {
    // SAFETY: only `set_current` stores there, and it stores tracers that are static.
    unsafe { &*CURRENT.load(Relaxed) }
}

fn set_current(tracer: &'static Tracer) {
    CURRENT.store(core::ptr::from_ref(tracer).cast_mut(), Relaxed);
    needed::set(&tracer.events);
}

/// Whether it is the current one.
pub(super) fn is_current(tracer: &Tracer) -> bool {
    core::ptr::eq(tracer, current())
}

/// Stops the current one and starts this one, also if it is the same.
///
/// # Errors
/// What makes the current one impossible to stop now: it goes on then. What makes the other one impossible to start now: then
/// none is the current one. Those of [`Mutex::lock`](crate::sync::Mutex::lock), if someone else is at it.
///
/// # Context
/// Threads that may block.
pub(super) fn choose(tracer: &'static Tracer) -> Result<(), Error> {
    let _choice = Held::<OfTracer>::wait()?;
    current().stop()?;
    set_current(&NONE);
    needed::set(&tracer.events);
    let started = tracer.start();
    match started {
        Ok(()) => set_current(tracer),
        // Its events are nobody's, and so is the snapshot.
        Err(_) => {
            set_current(&NONE);
            tracer.switch_events(false)?;
            #[cfg(feature = "latency-tracers")]
            if tracer.latency.is_some() {
                super::snapshot::reserve(false);
            }
        }
    }
    started
}

/// Switches an event on or off by its id; says at how many places it is emitted. One that the current tracer needs
/// goes on until another tracer is chosen; the tracer's events may be missing in the trace while this takes.
///
/// # Errors
/// [`Error::InvalidArgument`] if it is a static key of the kernel's and no event; those of
/// [`Mutex::lock`](crate::sync::Mutex::lock), if someone else switches events, chooses a tracer or rewrites code at the moment.
///
/// # Context
/// Threads that may block. All CPUs stand still meanwhile, for a time in proportion to the number of trace points.
pub fn enable(id: u32, on: bool) -> Result<usize, Error> {
    if jump_label::is_no_event(id) {
        return Err(Error::InvalidArgument);
    }
    let _choice = Held::<OfTracer>::wait()?;
    let tracer = current();
    if needed::has(id) {
        // What the tracer has on for itself is off meanwhile, so what is on afterwards is what was asked for, and the rest is
        // the tracer's again.
        tracer.switch_events(false)?;
        let done = switching::set_event(id, on);
        tracer.switch_events(true)?;
        done?;
    } else {
        switching::set_event(id, on)?;
    }
    Ok(jump_label::nr_uses(id))
}

/// Has each CPU use so many of its ring's [`TRACE_NR_SUBS`] sub-buffers, two at least.
///
/// # Errors
/// [`Error::OutOfResources`] if there are not so many; [`Error::InvalidArgument`] while a tracer other than `nop` is
/// chosen, or if it is none; those of [`enable`]. Everything stays as it was then.
///
/// # Context
/// Threads that may block.
pub fn set_buffer_size(nr_subs: usize) -> Result<(), Error> {
    let _choice = Held::<OfTracer>::wait()?;
    if nr_subs == 0 || !is_current(&NONE) {
        return Err(Error::InvalidArgument);
    }
    if nr_subs > TRACE_NR_SUBS {
        return Err(Error::OutOfResources);
    }
    RingOf::all().for_each(|ring| ring::set_capacity(ring, nr_subs.max(2) as u32));
    Ok(())
}
