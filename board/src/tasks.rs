//! The image's protected tasks, as xtask has packed them.

use takt_kernel::Error;
use takt_kernel::smp;
use takt_kernel::task::{self, Ended};
use takt_kernel::thread::{self, Thread};
use takt_kernel::time::Instant;

/// For what xtask makes of a manifest.
#[doc(hidden)]
pub use takt_tracer as tracer;

/// The same.
#[doc(hidden)]
pub use takt_kernel as kernel;

mod lines;
mod memory;
mod watchdog;

pub(crate) use lines::wire_all;
pub(crate) use memory::{check as check_devices, check_ram};

/// What a manifest says, as xtask has packed it. [`entry!`](crate::entry) declares it in the image's own crate, so that no other
/// crate is built anew for another manifest.
pub struct Declared {
    /// All tasks.
    pub tasks: &'static [task::Task],
    /// The semaphores that they share.
    pub semaphores: &'static [takt_kernel::sync::Semaphore],
    /// Their events.
    pub events: &'static [task::Event],
    /// What each task is told.
    pub arguments: &'static [u64],
    /// The task whose end is the image's; else that of all.
    pub until: Option<usize>,
    /// How many of them have a budget.
    pub nr_budgets: usize,
    /// The task that feeds the machine's watchdog, and after how many milliseconds that bites.
    pub feeder: Option<(usize, u32)>,
    /// Devices' memory without bus mastering: address and size.
    pub without_dma: &'static [(usize, usize)],
    /// Ports likewise, the first and the last.
    pub ports_without_dma: &'static [(u16, u16)],
}

impl Declared {
    /// The same.
    ///
    /// # Panics
    /// While it is compiled, if the image has too little for it.
    #[must_use]
    pub const fn checked(self) -> Self {
        assert!(
            !cfg!(feature = "log") || self.nr_budgets < takt_kernel::config::NR_LOG_MESSAGES,
            "as many threads may be throttled while they log as have a budget, and then nobody else logs: raise nr_log_messages in takt.toml"
        );
        self
    }
}

unsafe extern "Rust" {
    /// That of the image.
    safe static takt_declared: Declared;
}

/// For [`entry!`](crate::entry).
#[doc(hidden)]
#[macro_export]
macro_rules! __declared {
    () => {
        #[allow(unsafe_code, reason = "xtask has made it of the manifest")]
        mod takt_declared {
            // What the text names, whatever that means where this is called.
            #[allow(unused_imports, reason = "an image without tasks names less")]
            use {
                $crate as takt_board, $crate::__core as core, $crate::tasks::kernel as takt_kernel,
            };

            $crate::__core::include!($crate::__core::env!("TAKT_TASKS"));

            #[unsafe(no_mangle)]
            #[expect(non_upper_case_globals, reason = "the name of a symbol")]
            static takt_declared: $crate::tasks::Declared = $crate::tasks::Declared {
                tasks: &TASKS,
                semaphores: &SEMAPHORES,
                events: &EVENTS,
                arguments: ARGUMENTS,
                until: UNTIL,
                nr_budgets: NR_BUDGETS,
                feeder: FEEDER,
                without_dma: WITHOUT_DMA,
                ports_without_dma: PORTS_WITHOUT_DMA,
            }
            .checked();
        }
    };
}

/// Introduces them to the kernel.
///
/// # Safety
/// Once, after [`boot::memory`](takt_kernel::boot::memory).
pub(crate) unsafe fn install() {
    task::share(takt_declared.semaphores);
    // SAFETY: the caller's duty; xtask gives each task memory, a region and a stack of its own.
    unsafe { task::install(takt_declared.tasks, takt_declared.events) };
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
    task::start_all(takt_declared.arguments, started)
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
    if let Some((number, ms)) = takt_declared.feeder
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
        if takt_declared.until.is_some_and(|until| until != number) {
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
