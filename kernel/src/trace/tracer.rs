//! Tracers: what is chosen by ftrace's `current_tracer`.
//!
//! A tracer is a set of events and hooks that is switched on and off as one. There is one at a time; `nop` is the
//! one that does nothing. Single events are independent of it.

use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering::Relaxed};

use super::control;
#[cfg(feature = "latency-tracers")]
use super::{critical, wakeup::Wakeup};
use crate::error::Error;

/// What a tracer does when it is chosen and when another one is.
pub trait Tracer: Sync {
    /// Its name, as in `available_tracers`.
    fn name(&self) -> &'static str;

    /// Switches its events and hooks on.
    ///
    /// # Errors
    /// If that is not possible now; nothing is switched on then.
    ///
    /// # Context
    /// Threads, one at a time.
    fn start(&self) -> Result<(), Error>;

    /// Switches them off. What was recorded stays.
    ///
    /// # Errors
    /// If that is not possible now; it goes on then.
    ///
    /// # Context
    /// Threads, one at a time.
    fn stop(&self) -> Result<(), Error>;
}

/// Events that a tracer switches on, and off again if they were off before.
pub(super) struct Events {
    /// Their ids.
    ids: &'static [fn() -> u32],
    /// A bit for each that the tracer has switched on.
    ours: AtomicU32,
}

impl Events {
    pub(super) const fn new(ids: &'static [fn() -> u32]) -> Self {
        Self {
            ids,
            ours: AtomicU32::new(0),
        }
    }

    /// The word with a bit for each that the tracer has switched on.
    #[cfg(feature = "function")]
    pub(super) const fn ours(&self) -> &AtomicU32 {
        &self.ours
    }

    #[inline(never)]
    pub(super) fn start(&self) -> Result<(), Error> {
        for (bit, id) in self.ids.iter().enumerate() {
            if !control::is_enabled(id()) {
                control::enable(id(), true)?;
                self.ours.fetch_or(1 << bit, Relaxed);
            }
        }
        Ok(())
    }

    #[inline(never)]
    pub(super) fn stop(&self) -> Result<(), Error> {
        for (bit, id) in self.ids.iter().enumerate() {
            if self.ours.load(Relaxed) & 1 << bit != 0 {
                control::enable(id(), false)?;
            }
        }
        self.ours.store(0, Relaxed);
        Ok(())
    }
}

struct Nop;

impl Tracer for Nop {
    fn name(&self) -> &'static str {
        "nop"
    }

    fn start(&self) -> Result<(), Error> {
        Ok(())
    }

    fn stop(&self) -> Result<(), Error> {
        Ok(())
    }
}

/// The number of the tracer that does nothing.
const NOP: usize = 0;

/// All that are compiled in.
static TRACERS: &[&dyn Tracer] = &[
    &Nop,
    &super::sched_switch::SchedSwitch,
    #[cfg(feature = "latency-tracers")]
    &critical::IRQSOFF,
    #[cfg(feature = "latency-tracers")]
    &critical::PREEMPTOFF,
    #[cfg(feature = "latency-tracers")]
    &critical::PREEMPTIRQSOFF,
    #[cfg(feature = "latency-tracers")]
    &Wakeup("wakeup"),
    #[cfg(feature = "latency-tracers")]
    &Wakeup("wakeup_rt"),
    #[cfg(feature = "latency-tracers")]
    &super::hwlat::Hwlat,
    #[cfg(feature = "function")]
    &super::function::Function,
    #[cfg(feature = "function")]
    &super::function::FunctionGraph,
];

static CURRENT: AtomicUsize = AtomicUsize::new(NOP);

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
    TRACERS[CURRENT.load(Relaxed)].name()
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
/// [`Error::InvalidArgument`] if there is none of that name, and what [`Tracer::stop`] says: the current one goes on. What
/// [`Tracer::start`] says: then `nop` is the current one.
///
/// # Context
/// Threads, one at a time.
pub fn set_tracer(name: &str) -> Result<(), Error> {
    let number = TRACERS
        .iter()
        .position(|tracer| tracer.name() == name)
        .ok_or(Error::InvalidArgument)?;
    TRACERS[CURRENT.load(Relaxed)].stop()?;
    CURRENT.store(NOP, Relaxed);
    TRACERS[number].start()?;
    CURRENT.store(number, Relaxed);
    Ok(())
}
