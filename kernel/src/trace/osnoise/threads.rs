//! What the two tracers have in common: what they are set to, and their threads.

use core::sync::atomic::{AtomicBool, Ordering::Relaxed};

use takt_tracer::control::osnoise::{Flag, OsnoiseBlock, Param};

use super::listening;
use super::noise::THREADS;
use crate::clock::Cycles;
use crate::config::MAX_CPUS;
use crate::error::Error;
use crate::thread::create::Builder;
use crate::thread::handle::Thread;
use crate::thread::stack::Stack;
use crate::trace::ending::wait_for_end;
use crate::trace::{control, marker};
use crate::{cpus, thread_stack};

/// What the tracers are set to.
#[unsafe(no_mangle)]
pub(super) static TAKT_OSNOISE: OsnoiseBlock = OsnoiseBlock::new();

thread_stack!(static STACKS: [16384; MAX_CPUS]);

/// Whether they are to end.
pub(super) static ENDS: AtomicBool = AtomicBool::new(false);

/// A parameter.
///
/// # Context
/// Any.
#[must_use]
pub fn get(param: Param) -> u64 {
    TAKT_OSNOISE.get(param)
}

/// Whether an option is on.
pub(super) fn has(flag: Flag) -> bool {
    get(Param::Options) & flag.bit() != 0
}

/// Whether what took so long reaches a limit, which 0 is not.
pub(super) fn reaches(param: Param, time: Cycles) -> bool {
    let limit = get(param);
    limit != 0 && time.to_nanos().get() >= limit
}

/// A limit was reached: recording stops, so that the trace ends with what led to it.
#[cold]
pub(super) fn stop(cpu: usize) {
    // Stopped already, by another CPU or by the user: then this is not what led to it.
    if !control::is_wanted() {
        return;
    }
    // Whether markers are on or not: it says why there is no more.
    marker::format_marker(format_args!("stop tracing hit on cpu {cpu}"));
    control::tracing_off();
    assert!(!has(Flag::PanicOnStop), "stop tracing hit on cpu {cpu}");
}

/// Starts a thread on each CPU that has one. `counts`: it asks how often something came between.
pub(super) fn start(
    names: &[&'static str; MAX_CPUS],
    prio: u8,
    counts: bool,
    entry: fn(usize),
) -> Result<(), Error> {
    ENDS.store(false, Relaxed);
    listening::begin(counts)?;
    if !has(Flag::Workload) {
        return Ok(());
    }
    let started = cpus::bits(cpus::online() & get(Param::Cpus) as u32).try_for_each(|cpu| {
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
pub(super) fn end() -> Result<(), Error> {
    ENDS.store(true, Relaxed);
    for thread in &THREADS {
        wait_for_end(Thread::of_handle(thread.load(Relaxed)));
        thread.store(0, Relaxed);
    }
    listening::end()
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
pub(super) use names;
