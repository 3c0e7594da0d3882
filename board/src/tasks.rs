//! The image's protected tasks, as xtask has packed them.

use takt_kernel::Error;
use takt_kernel::smp;
use takt_kernel::task::{self, Ended};
use takt_kernel::thread::{self, Thread};
use takt_kernel::time::Instant;

mod lines;
mod memory;
mod watchdog;

pub(crate) use lines::wire_all;
pub(crate) use memory::{check as check_devices, check_ram};

mod packed {
    include!(concat!(env!("OUT_DIR"), "/tasks.rs"));

    pub(super) fn all() -> &'static [Task] {
        &TASKS
    }

    pub(super) fn events() -> &'static [takt_kernel::task::Event] {
        &EVENTS
    }

    pub(super) const fn arguments() -> &'static [u64] {
        ARGUMENTS
    }

    pub(super) const fn without_dma() -> &'static [(usize, usize)] {
        WITHOUT_DMA
    }

    pub(super) const fn ports_without_dma() -> &'static [(u16, u16)] {
        PORTS_WITHOUT_DMA
    }

    const _: () = assert!(
        !cfg!(feature = "log") || NR_BUDGETS < takt_kernel::config::NR_LOG_MESSAGES,
        "as many threads may be throttled while they log as have a budget, and then nobody else logs: raise nr_log_messages in takt.toml"
    );

    pub(super) const fn feeder() -> Option<(usize, u32)> {
        FEEDER
    }

    pub(super) const fn until() -> Option<usize> {
        UNTIL
    }
}

/// Introduces them to the kernel.
///
/// # Safety
/// Once, after [`boot::memory`](takt_kernel::boot::memory).
pub(crate) unsafe fn install() {
    // SAFETY: the caller's duty; xtask gives each task memory, a region and a stack of its own.
    unsafe { takt_kernel::task::install(packed::all(), packed::events()) };
}

/// Below the priority at which a task begins to live, and above all others.
const STARTING: u8 = 98;

/// How many tasks the image has.
#[must_use]
pub fn count() -> usize {
    task::all().len()
}

/// Starts all tasks as the manifest says, each with its argument; none of them runs before all live. `started` is told each one's
/// thread, in the order of the manifest.
///
/// # Errors
/// As [`task::start_all`]. If a task's CPU is not there the log says so.
///
/// # Context
/// As [`task::start_all`].
pub fn start_all(started: impl FnMut(Thread)) -> Result<(), (usize, Error)> {
    for task in task::all().iter().filter(|it| !smp::is_online(it.cpu())) {
        let (name, cpu) = (task.name(), task.cpu() as u32);
        defmt::error!(
            "task '{=str}' is for CPU {=u32}, which is not there",
            name,
            cpu
        );
    }
    task::start_all(packed::arguments(), started)
}

/// Starts the CPUs that the tasks are for, and every task, and waits for the end of the one that the manifest names as `until`, or
/// of all.
///
/// # Panics
/// If a task cannot be started, or is to feed the machine's watchdog and there is none that may reset the machine; behind the wait, if
/// one that was waited for did not end with code 0.
///
/// # Context
/// The main thread, whose priority it lowers.
pub fn run() {
    let tasks = task::all();
    let nr_cpus = tasks.iter().map(|it| it.cpu() + 1).max().unwrap_or(1);
    crate::smp::start(nr_cpus);
    if let Some((number, ms)) = packed::feeder()
        && watchdog::start(number, ms).is_none()
    {
        let name = tasks[number].name();
        panic!(
            "task '{name}' is to feed the machine's watchdog, and there is none that may bite after {ms} ms"
        );
    }
    // All are there before one of them runs.
    let _ = thread::current().set_priority(STARTING);
    let mut threads: heapless::Vec<_, { task::MAX_TASKS }> = heapless::Vec::new();
    let started = start_all(|thread| {
        // There are no more tasks than that.
        let _ = threads.push(thread);
    });
    if let Err((number, error)) = started {
        panic!("task '{}' does not start: {error:?}", tasks[number].name());
    }
    let _ = thread::current().set_priority(0);
    let mut failed = None;
    for (number, thread) in threads.iter().enumerate() {
        if packed::until().is_some_and(|until| until != number) {
            continue;
        }
        let _ = thread.join(Instant::NEVER);
        let ended = tasks[number].ended();
        if !matches!(ended, Some(Ended::Exited(0))) {
            // All others go on.
            defmt::error!("task '{=str}' has failed", tasks[number].name());
            failed = failed.or(Some((tasks[number].name(), ended)));
        }
    }
    watchdog::stop();
    match failed {
        None => {}
        Some((name, Some(Ended::Exited(code)))) => panic!("task '{name}' ended with {code}"),
        Some((name, Some(Ended::Stopped(fault)))) => panic!("task '{name}' was stopped: {fault}"),
        Some((name, None)) => panic!("task '{name}' has not ended"),
    }
}
