//! Threads of tasks that timerlat measures: when that is possible, what is recorded, and that they end with it.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use takt_abi::{Error, FaultKind};
use takt_kernel::task::Ended;
use takt_kernel::time::{self, Instant, Nanos};
use takt_kernel::trace;
use takt_tests::harness::{Failure, print};
use takt_tests::{check, check_eq, note, target_test, worker};
use takt_tracer::control::osnoise::{Flag, Param};

use crate::{CLIENT, SERVER, start};

/// The role.
const MEASURED: u64 = 7;
/// What it is told besides the CPU: see the task.
const WAITS: u32 = 0x100;
const IS_LATE: u32 = 0x200;
const SLEEPS: u32 = 0x400;
const SPINS: u32 = 0x800;
const KEEPS: u32 = 0x1000;
const RECEIVES: u32 = 0x2000;

/// What it takes at most that a thread of a task goes on in ring 3, and not in the kernel.
const RING_3: u64 = 15;

/// Opens a CPU's timerlat; gives the error's number, or 0.
fn open(cpu: u32) -> Result<u64, Failure> {
    match start((CLIENT.0, MEASURED), cpu)?.end()? {
        Ended::Exited(code) => Ok(code),
        Ended::Stopped(fault) => Err(Failure::new(format_args!("{fault}"))),
    }
}

/// How late a thread is at most that sleeps in user space, in instructions.
fn lateness() -> Result<u64, Failure> {
    open(SLEEPS)
}

/// How late a thread of the kernel was at most that does the same.
static LATE: AtomicU64 = AtomicU64::new(0);

/// The same of a thread of the kernel, as important as that task's.
fn lateness_in_kernel() -> Result<u64, Failure> {
    worker::join(&[worker::spawn(0, 40, sleep_in_kernel, 0)?])?;
    Ok(LATE.load(Relaxed))
}

fn sleep_in_kernel(_: usize) {
    let now = || Instant::now().cycles();
    let begun = now().next_multiple_of(1_000_000);
    let late = (1..10).map(|nr| {
        let deadline = Instant::from_cycles(begun + nr * 1_000_000);
        let is_asleep = time::sleep_until(deadline).is_ok();
        // Nobody is so late.
        if is_asleep {
            now() - deadline.cycles()
        } else {
            u64::MAX
        }
    });
    LATE.store(late.max().unwrap_or(u64::MAX), Relaxed);
}

fn set_workload(on: bool) -> Result<(), Failure> {
    let options = if on { Flag::Workload.bit() } else { 0 };
    Ok(trace::osnoise::set(Param::Options, options)?)
}

target_test! {
    /// Only while the tracer runs, without a workload of its own, on the thread's CPU, and for one thread at a time.
    fn timerlat_is_opened_where_linux_opens_it(Shared) {
        check_eq!(open(0)?, Error::InvalidArgument as u64);
        trace::set_tracer("timerlat")?;
        check_eq!(open(0)?, Error::InvalidArgument as u64);
        set_workload(false)?;
        check_eq!(open(1)?, Error::NotPermitted as u64);
        check_eq!(open(0)?, 0);
        let owner = start((SERVER.0, MEASURED), WAITS)?;
        time::sleep(Nanos::from_millis(3))?;
        check_eq!(open(0)?, Error::Busy as u64);
        // The workload is switched on again.
        set_workload(true)?;
        let ended = owner.end()?;
        check_eq!(open(0)?, Error::InvalidArgument as u64);
        trace::set_tracer("nop")?;
        check_eq!(killed(ended), true);
        Ok(())
    }

    /// Whoever has it open when the tracer ends is stopped, in whatever it does: then another one may open it.
    fn timerlat_is_no_ones_for_ever(Shared) {
        set_workload(false)?;
        for what in [KEEPS, KEEPS | SLEEPS, KEEPS | SPINS] {
            trace::set_tracer("timerlat")?;
            let owner = start((SERVER.0, MEASURED), what)?;
            time::sleep(Nanos::from_millis(1))?;
            check_eq!(open(0)?, Error::Busy as u64);
            trace::set_tracer("nop")?;
            check_eq!(killed(owner.end()?), true);
            trace::set_tracer("timerlat")?;
            check_eq!(open(0)?, 0);
            trace::set_tracer("nop")?;
        }
        set_workload(true)
    }

    /// Also one that is about to wait just then, and without an end.
    fn who_is_about_to_wait_is_stopped(Alone) {
        set_workload(false)?;
        for later in (0..1000).step_by(20) {
            trace::set_tracer("timerlat")?;
            let ms = (Instant::now() - Instant::ZERO).to_nanos().get() / 1_000_000 + 2;
            let owner = start((SERVER.0, MEASURED), (ms as u32) << 16 | RECEIVES | KEEPS)?;
            time::sleep_until(Instant::ZERO + Nanos::new(ms * 1_000_000 + later).to_cycles())?;
            trace::set_tracer("nop")?;
            let ended = owner.end().map_err(|_| {
                Failure::new(format_args!("{later} ns later it was not stopped"))
            })?;
            check_eq!(killed(ended), true);
        }
        set_workload(true)
    }

    /// Exact instructions from a deadline to the thread that waits for it in user space, while the CPU is idle and beside one that
    /// computes there, and to a thread of the kernel beside both.
    fn deadlines_reach_user_space(Alone) {
        let idle = [lateness_in_kernel()?, lateness()?];
        let spinner = start((SERVER.0, MEASURED), SPINS)?;
        let busy = [lateness_in_kernel()?, lateness()?];
        spinner.succeeds()?;
        for (name, [kernel, user]) in [("idle", idle), ("beside another", busy)] {
            note!("{name}: a thread of the kernel {kernel}, of a task {user} instructions");
            check!(user <= kernel + RING_3, "{name}: a deadline reaches ring 3 after {user} instructions, a thread after {kernel}");
        }
        check!(idle < busy, "{idle:?}, {busy:?}");
        print(format_args!("bench task-deadline-busy insn {}\n", busy[1]));
        print(format_args!("bench task-deadline-busy-kernel insn {}\n", busy[0]));
        Ok(())
    }

    /// Three records an activation; what comes while the thread is at work is skipped; the tracer's end stops it, wherever it is.
    fn timerlat_measures_up_to_user_space(Shared) {
        set_workload(false)?;
        trace::set_tracer("timerlat")?;
        for (what, records) in [(WAITS, 18), (WAITS | IS_LATE, 9)] {
            let owner = start((SERVER.0, MEASURED), what)?;
            time::sleep(Nanos::from_micros(3_250))?;
            trace::tracing_on();
            let before = trace::counters_of(0).entries;
            time::sleep(Nanos::from_millis(6))?;
            let nr = trace::counters_of(0).entries - before;
            // Of six periods, which may cut an activation at either end.
            check!((records - 2..=records + 2).contains(&nr), "{nr} records");
            trace::set_tracer("nop")?;
            check_eq!(killed(owner.end()?), true);
            trace::set_tracer("timerlat")?;
        }
        trace::set_tracer("nop")?;
        set_workload(true)
    }
}

fn killed(ended: Ended) -> bool {
    matches!(ended, Ended::Stopped(fault) if fault.kind == FaultKind::Killed)
}
