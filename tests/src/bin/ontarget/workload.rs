//! What a program that runs a workload itself may do wrong.

use core::sync::atomic::Ordering::Relaxed;

use takt_kernel::thread::{self, Thread};
use takt_kernel::time::Instant;
use takt_tests::{check_eq, check_err, target_test};
use takt_timerlat::config::{Config, Workload};
use takt_timerlat::stats::{RunState, Status};
use takt_timerlat::workload::{Hooks, run};

static STATUS: [Status; 2] = [const { Status::new() }; 2];

static MEASURED: spin::Once<Thread> = spin::Once::new();

const HOOKS: Hooks = Hooks {
    // In the measured thread: its wait for the next activation is over at once.
    command: || {
        let _ = MEASURED.call_once(thread::current).unpark();
        None
    },
    hand_over: || {},
};

target_test! {
    /// A measured thread that is woken before its activation has no latency, whatever the threshold; and a workload runs once: a
    /// second one's samples would be the first one's.
    fn woken_too_early_and_run_twice(Alone) {
        let config = Config { duration_ns: 20_000_000, stop_thread_ns: 1_000, ..Config::default() };
        let threads = Config { workload: Workload::Cyclictest, threads: 9, ..config };
        check_err!(run(&threads, &STATUS[0], HOOKS), InvalidArgument);
        run(&config, &STATUS[0], HOOKS)?;
        check_eq!(STATUS[0].state.load(Relaxed), RunState::Done as u32);
        let negative = STATUS[0].slot(0).map(|slot| slot.negative.load(Relaxed));
        check_eq!(negative, Some(20));
        check_err!(run(&config, &STATUS[1], HOOKS), InvalidState);
        check_eq!(STATUS[1].state.load(Relaxed), STATUS[1].slot(0).map_or(1, |slot| slot.active.load(Relaxed)));
        if let Some(measured) = MEASURED.get() {
            measured.join(Instant::NEVER)?;
        }
        Ok(())
    }
}
