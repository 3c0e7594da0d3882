//! The tracers `timerlat` and `osnoise`: threads of the tracer's own that measure what keeps a thread from running.
//!
//! | module | content |
//! |---|---|
//! | `timerlat` | a periodic thread on each CPU: latency of the timer's interrupt and of the thread |
//! | `sampler` | a thread on each CPU that reads the clock without end: each gap is noise |
//! | `threads` | what both have in common |
//! | `noise` | the events `osnoise:*_noise`: what each interrupt and each thread took, net |
//!
//! What they are set to is in `TAKT_OSNOISE`, where a host reads it. Threads are started when the tracer is chosen and
//! have ended when another one is.
//!
//! Source: Linux, `Documentation/trace/timerlat-tracer.rst` and `osnoise-tracer.rst`, for the terms.

pub(crate) mod noise;

pub(super) mod listening;
mod sampler;
mod threads;
mod timerlat;

use core::sync::atomic::Ordering::Relaxed;

use takt_tracer::control::osnoise::{Flag, Param};

use super::hwlat::LONGEST_WINDOW;
use super::tracer;
use crate::config::MAX_CPUS;
use crate::error::Error;
use crate::time::Nanos;

pub(super) use sampler::OSNOISE;
pub use threads::get;
pub(super) use timerlat::tracer::TIMERLAT;

use threads::{ENDS, TAKT_OSNOISE};

/// The shortest and the longest period of `timerlat`, in ns, as in Linux.
const TIMERLAT_PERIODS: core::ops::RangeInclusive<u64> = 100_000..=1_000_000_000;
/// The longest runtime of `osnoise`. With `OSNOISE_IRQ_DISABLE` nothing else runs meanwhile, so it is the hwlat detector's longest window.
pub const LONGEST_RUNTIME: Nanos = LONGEST_WINDOW;
/// The bits of all options.
const ALL_OPTIONS: u64 = Flag::Workload.bit()
    | Flag::PanicOnStop.bit()
    | Flag::PreemptDisable.bit()
    | Flag::IrqDisable.bit()
    | Flag::TimerlatAlign.bit();

/// Changes a parameter. It takes effect with the next activation or sampling; another set of CPUs, or the option
/// `OSNOISE_WORKLOAD`, has the threads started anew.
///
/// # Errors
/// [`Error::InvalidArgument`] for what is out of range: a runtime longer than the period or than [`LONGEST_RUNTIME`], a period of
/// `timerlat` that is not 100 µs to 1 s, no CPU that there may be, an option that there is not. Those of starting threads: the
/// parameter is as it was then, and the tracer is `nop`.
///
/// # Context
/// Threads, one at a time.
pub fn set(param: Param, value: u64) -> Result<(), Error> {
    let is_possible = match param {
        Param::Cpus => value & (u64::MAX >> (64 - MAX_CPUS)) != 0,
        Param::Period => value >= get(Param::Runtime),
        Param::Runtime => (1..=longest()).contains(&value),
        Param::TimerlatPeriod => TIMERLAT_PERIODS.contains(&value),
        Param::Options => value & !ALL_OPTIONS == 0,
        Param::StopTracing | Param::StopTracingTotal | Param::PrintStack => true,
    };
    if !is_possible {
        return Err(Error::InvalidArgument);
    }
    let before = get(param);
    TAKT_OSNOISE.set(param, value);
    let is_of_threads = match param {
        Param::Cpus => before != value,
        Param::Options => (before ^ value) & Flag::Workload.bit() != 0,
        _ => false,
    };
    if is_of_threads && let Err(error) = restart() {
        TAKT_OSNOISE.set(param, before);
        return Err(error);
    }
    Ok(())
}

/// The longest runtime that there may be now.
fn longest() -> u64 {
    get(Param::Period).min(LONGEST_RUNTIME.get())
}

/// Further CPUs are about to be started, which is nobody's noise: until [`cpus_started`] no thread samples.
pub fn cpus_starting() {
    ENDS.store(true, Relaxed);
}

/// Further CPUs run: those that are to have a thread get it, and all begin.
///
/// # Errors
/// Those of starting threads.
///
/// # Context
/// Threads, one at a time.
pub fn cpus_started() -> Result<(), Error> {
    restart()
}

/// Has the current tracer begin anew, if it is one of these. What was recorded stays.
fn restart() -> Result<(), Error> {
    let mut ours = [&TIMERLAT, &OSNOISE].into_iter();
    match ours.find(|tracer| tracer::is_current(tracer)) {
        Some(tracer) => tracer::choose(tracer),
        None => Ok(()),
    }
}
