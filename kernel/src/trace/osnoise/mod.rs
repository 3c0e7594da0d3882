//! The tracers `timerlat` and `osnoise`: threads of the tracer's own that measure what keeps a thread from running.
//!
//! | module | content |
//! |---|---|
//! | `timerlat` | a periodic thread on each CPU: latency of the timer's interrupt and of the thread |
//! | `sampler` | a thread on each CPU that reads the clock without end: each gap is noise |
//! | `noise` | the events `osnoise:*_noise`: what each interrupt and each thread took, net |
//!
//! What they are set to is in `TAKT_OSNOISE`, where a host reads it. Threads are started when the tracer is chosen and
//! have ended when another one is.
//!
//! Source: Linux, `Documentation/trace/timerlat-tracer.rst` and `osnoise-tracer.rst`, for the terms.

pub(crate) mod noise;
mod sampler;
mod timerlat;

use core::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};

use takt_tracer::control::osnoise::{Flag, OsnoiseBlock, Param};
use takt_tracer::event::Event;

use super::control;
use super::tracer::{self, Tracer};
use crate::config::MAX_CPUS;
use crate::error::Error;
use crate::thread::{Builder, Stack, Thread};
use crate::time::{self, Instant};
use crate::{smp, thread_stack};

pub(super) use sampler::OSNOISE;
pub(super) use timerlat::TIMERLAT;

/// What the tracers are set to.
#[unsafe(no_mangle)]
static TAKT_OSNOISE: OsnoiseBlock = OsnoiseBlock::new();

/// The shortest and the longest period of `timerlat`, in ns, as in Linux.
const TIMERLAT_PERIODS: core::ops::RangeInclusive<u64> = 100_000..=1_000_000_000;
/// The bits of all options.
const ALL_OPTIONS: u64 = Flag::Workload.bit()
    | Flag::PanicOnStop.bit()
    | Flag::PreemptDisable.bit()
    | Flag::IrqDisable.bit()
    | Flag::TimerlatAlign.bit();

/// Whether an event is what these tracers record themselves.
pub(super) fn is_record(id: u32) -> bool {
    let ids = [
        sampler::osnoise::Event::id(),
        timerlat::timerlat::Event::id(),
    ];
    ids.iter().any(|event| event.number() == id)
}

/// The highest priority that there is.
const HIGHEST: u8 = 99;

thread_stack!(static STACKS: [16384; MAX_CPUS]);

/// The threads' handles; 0 where there is none.
static THREADS: [AtomicU32; MAX_CPUS] = [const { AtomicU32::new(0) }; MAX_CPUS];
/// Whether they are to end.
static ENDS: AtomicBool = AtomicBool::new(false);

/// A parameter.
///
/// # Context
/// Any.
#[must_use]
pub fn get(param: Param) -> u64 {
    TAKT_OSNOISE.get(param)
}

/// Changes a parameter. It takes effect with the next activation or sampling; another set of CPUs, or the option
/// `OSNOISE_WORKLOAD`, has the threads started anew.
///
/// # Errors
/// [`Error::InvalidArgument`] for what is out of range: a runtime longer than the period, a period of `timerlat` that is
/// not 100 µs to 1 s, no CPU that there may be, an option that there is not. Those of starting threads: the parameter is as it
/// was then, and the tracer is `nop`.
///
/// # Context
/// Threads, one at a time.
pub fn set(param: Param, value: u64) -> Result<(), Error> {
    let is_possible = match param {
        Param::Cpus => value & (u64::MAX >> (64 - MAX_CPUS)) != 0,
        Param::Period => value >= get(Param::Runtime),
        Param::Runtime => value != 0 && value <= get(Param::Period),
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
    if is_of_threads && let Err(error) = tracer::restart(&[&TIMERLAT, &OSNOISE]) {
        TAKT_OSNOISE.set(param, before);
        return Err(error);
    }
    Ok(())
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
    tracer::restart(&[&TIMERLAT, &OSNOISE])
}

fn has(flag: Flag) -> bool {
    get(Param::Options) & flag.bit() != 0
}

/// Whether what took so many cycles reaches a limit, which 0 is not.
fn reaches(param: Param, cycles: u64) -> bool {
    let limit = get(param);
    limit != 0 && time::cycles_to_nanos(cycles) >= limit
}

/// A limit was reached: recording stops, so that the trace ends with what led to it.
#[cold]
fn stop(cpu: usize) {
    // Stopped already, by another CPU or by the user: then this is not what led to it.
    if !control::is_wanted() {
        return;
    }
    // Whether markers are on or not: it says why there is no more.
    super::format_marker(format_args!("stop tracing hit on cpu {cpu}"));
    control::tracing_off();
    assert!(!has(Flag::PanicOnStop), "stop tracing hit on cpu {cpu}");
}

/// Starts a thread on each CPU that has one. `counts`: it asks how often something came between.
fn start(
    names: &[&'static str; MAX_CPUS],
    prio: u8,
    counts: bool,
    entry: fn(usize),
) -> Result<(), Error> {
    ENDS.store(false, Relaxed);
    noise::begin(counts)?;
    if !has(Flag::Workload) {
        return Ok(());
    }
    let started = smp::bits(smp::online() & get(Param::Cpus) as u32).try_for_each(|cpu| {
        let stack: &'static Stack<16384> = &STACKS[cpu];
        let thread = Builder::new(names[cpu], prio)?
            .cpu(cpu)
            .create(stack, entry, cpu)?;
        // Before it runs: it is nobody's noise.
        THREADS[cpu].store(thread.handle(), Relaxed);
        thread.start()
    });
    if started.is_err() {
        end()?;
    }
    started
}

/// Has the threads end, and waits until they have.
fn end() -> Result<(), Error> {
    ENDS.store(true, Relaxed);
    for thread in &THREADS {
        let it = Thread::of_handle(thread.load(Relaxed));
        // Fails only for a thread that has ended, or if there was none. Whatever computes meanwhile does not keep it from
        // coming to its end.
        let _ = it.set_priority(HIGHEST);
        let _ = it.unpark();
        let _ = it.join(Instant::NEVER);
        thread.store(0, Relaxed);
    }
    noise::end()
}

/// Names of threads, `$prefix/0` up.
macro_rules! names {
    ($prefix:literal) => {{
        const NAMES: [&str; 8] = [
            concat!($prefix, "/0"),
            concat!($prefix, "/1"),
            concat!($prefix, "/2"),
            concat!($prefix, "/3"),
            concat!($prefix, "/4"),
            concat!($prefix, "/5"),
            concat!($prefix, "/6"),
            concat!($prefix, "/7"),
        ];
        let mut names = [""; crate::config::MAX_CPUS];
        let mut cpu = 0;
        while cpu < names.len() {
            names[cpu] = NAMES[cpu % NAMES.len()];
            cpu += 1;
        }
        names
    }};
}
use names;
