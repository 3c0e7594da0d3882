//! A wake-up is recorded once, whether a tracer hears of wake-ups or none does.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use takt_kernel::sync::Mutex;
use takt_kernel::thread;
use takt_kernel::time::{Nanos, sleep_until};
use takt_kernel::trace::{self, Event, events, latency, set_tracer};
use takt_tests::harness::{Failure, PRIORITY};
use takt_tests::worker::{after_us, join, spawn};
use takt_tests::{check, check_eq, target_test};

static MUTEXES: [Mutex<()>; 2] = [const { Mutex::new(()) }; 2];
static NR_HAD: AtomicU64 = AtomicU64::new(0);

fn locks(number: usize) {
    let guard = MUTEXES[number].lock();
    NR_HAD.fetch_add(1, Relaxed);
    drop(guard);
}

fn only_runs(_: usize) {}

/// The running thread has two mutexes, which others wait for, and gives them back: one to a thread that is less important than the
/// thread that waits for the other; and that other one, beside an equal of the priority that it has inherited. Gives how many
/// wake-ups and switches were recorded.
fn nr_recorded(tracer: &str) -> Result<u64, Failure> {
    // Those that the tracer switches on as well.
    let ids = [
        events::sched_wakeup::Event::id(),
        events::sched_switch::Event::id(),
    ];
    for id in ids {
        trace::enable(id.number(), true)?;
    }
    set_tracer(tracer)?;
    // A new maximum would have a record of its own.
    latency::set_max(Nanos::from_secs(1));
    trace::tracing_on();
    let before = trace::counters_of(0).entries;
    let [zero, one] = [MUTEXES[0].lock()?, MUTEXES[1].lock()?];
    let mut threads = [thread::current(); 3];
    for (slot, more) in [5, 3].into_iter().enumerate() {
        threads[slot] = spawn(slot, PRIORITY + more, locks, slot)?;
        sleep_until(after_us(20))?;
    }
    threads[2] = spawn(2, PRIORITY + 5, only_runs, 0)?;
    drop(one);
    drop(zero);
    join(&threads)?;
    let after = trace::counters_of(0).entries;
    trace::tracing_off();
    set_tracer("nop")?;
    for id in ids {
        trace::enable(id.number(), false)?;
    }
    Ok(after - before)
}

target_test! {
    /// Wake-ups by a contended mutex are recorded as often under the tracer `wakeup` as without one.
    fn by_a_mutex_that_is_given_back(Shared) {
        let without = nr_recorded("nop")?;
        check!(without >= 14, "{without} records");
        check_eq!(nr_recorded("wakeup")?, without);
        check_eq!(NR_HAD.load(Relaxed), 4);
        Ok(())
    }
}
