//! The life of threads: start, end, join, suspend and resume, priorities, times.

use takt_kernel::config::{MAX_CPUS, MAX_THREADS};
use takt_kernel::sync::Semaphore;
use takt_kernel::thread::{self, Builder, Thread};
use takt_kernel::time::{Cycles, Instant, Nanos, sleep, sleep_until};
use takt_kernel::{Error, thread_stack, yield_now};
use takt_tests::harness::PRIORITY;
use takt_tests::journal::{len, note, take};
use takt_tests::worker::{after_ms, after_us, burn, create, join, spawn, times};
use takt_tests::{check, check_eq, check_err, interrupt, note, target_test};

static GO: Semaphore = Semaphore::new(0, 1000);

fn noter(number: usize) {
    note(number as u32);
}

fn ends_with(code: usize) {
    // SAFETY: there is nothing to drop.
    unsafe { thread::exit(code) };
}

fn waiter(number: usize) {
    let _ = GO.take();
    note(number as u32);
}

fn sleeper(number: usize) {
    let _ = sleep(Nanos::from_micros(100));
    note(number as u32);
}

fn timed_waiter(number: usize) {
    let result = GO.take_until(after_us(100));
    note(number as u32 + if result.is_ok() { 0 } else { 50 });
}

fn suspends_itself(number: usize) {
    note(number as u32);
    let _ = thread::current().suspend();
    note(10 + number as u32);
}

fn sleeps_after_burning(_: usize) {
    for _ in 0..10 {
        burn(100_000);
        let _ = sleep(Nanos::from_micros(50));
    }
}

fn exits_after_100us(code: usize) {
    let _ = sleep(Nanos::from_micros(100));
    // SAFETY: there is nothing to drop.
    unsafe { thread::exit(code) };
}

/// Threads that there can be besides the runner and the one that runs the test.
const NR_FREE: usize = MAX_THREADS - MAX_CPUS - 2;

thread_stack!(static MANY: [4096; NR_FREE]);
thread_stack!(static ONE_MORE: 4096);

target_test! {
    /// A created thread runs when it is started, once.
    fn create_and_start(Shared) {
        let thread = create(0, PRIORITY + 1, noter, 1)?;
        check_eq!(take(), []);
        check_eq!(thread.name()?, "w0");
        check_eq!(thread.priority()?, PRIORITY + 1);
        thread.start()?;
        check_eq!(take(), [1]);
        check_err!(thread.start(), InvalidState);
        join(&[thread])?;
        check_err!(thread.start(), NoSuchThread);
        check_err!(thread.priority(), NoSuchThread);
        check_err!(Builder::new("x", 100), InvalidArgument);
        Ok(())
    }

    /// Exit codes reach whoever joins, before or after the end; a stack is free again then, and was not before.
    fn join_and_exit_codes(Shared) {
        let ended = spawn(0, PRIORITY + 1, ends_with, 42)?;
        check_eq!(ended.join(Instant::NEVER)?, 42);
        check_err!(ended.join(Instant::NEVER), NoSuchThread);
        let running = spawn(0, PRIORITY + 1, exits_after_100us, 43)?;
        check_err!(create(0, PRIORITY, noter, 0), StackInUse);
        check_eq!(running.join(Instant::NEVER)?, 43);
        let returns = spawn(0, PRIORITY - 1, noter, 1)?;
        check_eq!(returns.join(Instant::NEVER)?, 0);
        check_err!(thread::current().join(Instant::NEVER), Deadlock);
        Ok(())
    }

    /// Only one thread waits for the end of another; the second is told so.
    fn one_joiner(Shared) {
        static TARGET: spin::Mutex<Option<Thread>> = spin::Mutex::new(None);
        fn second(_: usize) {
            let target = *TARGET.lock();
            let result = target.map(|thread| thread.join(Instant::NEVER));
            note(u32::from(result == Some(Err(Error::InvalidState))));
        }
        let target = spawn(0, PRIORITY + 1, exits_after_100us, 7)?;
        *TARGET.lock() = Some(target);
        let second = spawn(1, PRIORITY - 1, second, 0)?;
        check_eq!(target.join(Instant::NEVER)?, 7);
        join(&[second])?;
        // It ran while this thread waited.
        check_eq!(take(), [1]);
        Ok(())
    }

    /// A suspended thread that is ready does not run until resumed.
    fn suspend_a_ready_thread(Shared) {
        let thread = spawn(0, PRIORITY - 1, noter, 1)?;
        thread.suspend()?;
        sleep_until(after_us(100))?;
        check_eq!(take(), []);
        check_err!(create(0, PRIORITY, noter, 0), StackInUse);
        thread.resume()?;
        check_err!(thread.resume(), InvalidState);
        join(&[thread])?;
        check_eq!(take(), [1]);
        check_err!(thread.suspend(), NoSuchThread);
        Ok(())
    }

    /// A thread that suspends itself goes on behind that call when resumed, from a thread or an interrupt.
    fn suspend_itself(Shared) {
        static TARGET: spin::Mutex<Option<Thread>> = spin::Mutex::new(None);
        let threads = [spawn(0, PRIORITY + 1, suspends_itself, 1)?, spawn(1, PRIORITY + 1, suspends_itself, 2)?];
        check_eq!(take(), [1, 2]);
        threads[1].resume()?;
        check_eq!(take(), [12]);
        *TARGET.lock() = Some(threads[0]);
        interrupt::raise(|| {
            let _ = TARGET.lock().map(|thread| thread.resume());
            note(3);
        });
        check_eq!(take(), [3, 11]);
        join(&threads)?;
        Ok(())
    }

    /// Suspended while it waits: what it waits for still comes to it, and it runs once both have happened.
    fn suspend_while_waiting(Shared) {
        let threads = [spawn(0, PRIORITY + 1, waiter, 1)?, spawn(1, PRIORITY + 1, sleeper, 2)?, spawn(2, PRIORITY + 1, timed_waiter, 3)?];
        for thread in &threads {
            thread.suspend()?;
        }
        GO.give()?;
        check_eq!(GO.count(), 0);
        sleep_until(after_us(300))?;
        check_eq!(take(), []);
        for thread in &threads {
            thread.resume()?;
        }
        check_eq!(take(), [1, 2, 53]);
        // Resumed before the event: it goes on waiting.
        let thread = spawn(3, PRIORITY + 1, waiter, 4)?;
        thread.suspend()?;
        thread.resume()?;
        check_eq!(take(), []);
        GO.give()?;
        check_eq!(take(), [4]);
        join(&[threads[0], threads[1], threads[2], thread])?;
        Ok(())
    }

    /// Suspending a thread that is not started yet: it needs both the start and the resumption.
    fn suspend_a_created_thread(Shared) {
        let thread = create(0, PRIORITY + 1, noter, 1)?;
        thread.suspend()?;
        thread.start()?;
        check_eq!(take(), []);
        thread.resume()?;
        check_eq!(take(), [1]);
        join(&[thread])?;
        Ok(())
    }

    /// Raised above this thread it runs at once; this thread lowered below others lets them go first.
    fn change_of_priority_of_ready_threads(Shared) {
        let threads = [spawn(0, PRIORITY - 1, noter, 1)?, spawn(1, PRIORITY - 2, noter, 2)?, spawn(2, PRIORITY - 3, noter, 3)?];
        threads[2].set_priority(PRIORITY + 1)?;
        check_eq!(take(), [3]);
        thread::current().set_priority(PRIORITY - 2)?;
        // Lowered by itself it stands before its equals, after those above it.
        note(4);
        check_eq!(take(), [1, 4]);
        yield_now();
        check_eq!(take(), [2]);
        thread::current().set_priority(PRIORITY)?;
        check_err!(threads[0].set_priority(100), InvalidArgument);
        join(&threads)?;
        check_err!(threads[0].set_priority(1), NoSuchThread);
        Ok(())
    }

    /// Waiters are woken by the priorities that they have when the wake-up comes.
    fn change_of_priority_of_waiters(Shared) {
        let threads = [spawn(0, PRIORITY + 1, waiter, 1)?, spawn(1, PRIORITY + 2, waiter, 2)?, spawn(2, PRIORITY + 3, waiter, 3)?];
        threads[0].set_priority(PRIORITY + 9)?;
        threads[2].set_priority(PRIORITY - 9)?;
        for _ in 0..3 {
            GO.give()?;
        }
        check_eq!(take(), [1, 2]);
        join(&threads)?;
        check_eq!(take(), [3]);
        Ok(())
    }

    /// All threads that there can be run at once; one more is an error, not a panic, and all can be used again.
    fn all_threads_at_once(Alone) {
        for round in 0..2 {
            let mut threads = heapless::Vec::<Thread, NR_FREE>::new();
            for (number, stack) in MANY.iter().enumerate() {
                let thread = Builder::new("many", PRIORITY + 1 + (number % 40) as u8)?.spawn(stack, waiter, number)?;
                let _ = threads.push(thread);
            }
            check_eq!(threads.len() + 2, 248);
            check_err!(Builder::new("more", 1)?.create(&ONE_MORE, noter, 0), OutOfResources);
            for _ in &threads {
                GO.give()?;
            }
            // The most important waiter first, and those of equal priority in the order of coming.
            let order = take();
            check_eq!(order.len(), NR_FREE);
            let rank = |number: &u32| (39 - number % 40) * 1000 + number;
            check!(order.iter().map(rank).is_sorted(), "round {round}: {:?}", &order[..20]);
            for thread in &threads {
                thread.join(after_ms(10))?;
            }
        }
        check_eq!(len(), 0);
        Ok(())
    }

    /// Run time is what was used, to the instruction but for the kernel's own, and every switch counts; while they are
    /// counted, and from then on.
    fn times_and_switches(Shared) {
        check_eq!(thread::current().times()?, None);
        for _ in 0..2 {
            thread::count_times(true)?;
            let thread = spawn(0, PRIORITY + 1, sleeps_after_burning, 0)?;
            sleep_until(after_ms(2))?;
            let counted = times(&thread)?;
            let took = counted.cycles.get();
            note!("10 bursts of 100,000 instructions took {took} ns and {} switches", counted.switches);
            check_eq!(counted.switches, 11);
            check!((1_000_000..1_010_000).contains(&took), "{took} ns");
            join(&[thread])?;
            let before = times(&thread::current())?;
            check!(before.switches <= 12 && before.cycles < Cycles::new(10_000), "{before:?}");
            burn(50_000);
            let after = times(&thread::current())?;
            check!((50_000..50_500).contains(&(after.cycles - before.cycles).get()));
            check_eq!(after.switches, before.switches);
            thread::count_times(false)?;
            check_eq!(thread::current().times()?, None);
        }
        Ok(())
    }
}
