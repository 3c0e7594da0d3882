//! Time-outs of everything that waits, and when exactly a sleeper wakes.

use core::sync::atomic::{AtomicBool, Ordering::Relaxed};

use takt_kernel::preempt;
use takt_kernel::sync::{Condvar, EventFlags, Mode, Mutex, Queue, Semaphore};
use takt_kernel::time::{Cycles, Instant, Nanos, Timer, sleep, sleep_until};
use takt_kernel::{thread, trace};
use takt_tests::harness::{Outcome, PRIORITY};
use takt_tests::journal::{note, take};
use takt_tests::worker::{after_ms, after_us, burn, join, spawn};
use takt_tests::{check, check_eq, check_err, interrupt, note, target_test};

static SEMAPHORE: Semaphore = Semaphore::new(0, 10);
static LOCK: Mutex<u32> = Mutex::new(0);
static FLAGS: EventFlags = EventFlags::new(0);
static QUEUE: Queue<u32, 2> = Queue::new();
static CHANGED: Condvar = Condvar::new();
static REFUSED_IN_IDLE: AtomicBool = AtomicBool::new(false);

/// How late a thread may run after its time-out, in nanoseconds, when nothing else runs.
const LATE: u64 = 1_000;

/// Demands that `wait`, given the time half a millisecond from now, comes back right after that time.
#[track_caller]
fn in_time(what: &str, wait: impl FnOnce(Instant) -> Outcome) -> Outcome {
    let deadline = after_us(500);
    wait(deadline)?;
    let now = Instant::now();
    check!(
        now >= deadline,
        "{what} came back {} ns early",
        deadline.cycles() - now.cycles()
    );
    let late = now.cycles() - deadline.cycles();
    check!(late <= LATE, "{what} came back {late} ns late");
    Ok(())
}

fn hold_for_2ms(_: usize) {
    let guard = LOCK.lock();
    let _ = sleep(Nanos::from_millis(2));
    drop(guard);
}

fn sleep_for_2ms(_: usize) {
    let _ = sleep(Nanos::from_millis(2));
}

fn waiter(number: usize) {
    let result = SEMAPHORE.take_until(after_us(100 * number as u64));
    note(number as u32 + if result.is_ok() { 100 } else { 0 });
}

fn joiner(target: usize) {
    // SAFETY: the test passes the address of a thread handle that lives until the joiner ended.
    let target = unsafe { &*(target as *const thread::Thread) };
    note(if target.join(after_us(100)).is_err() {
        1
    } else {
        2
    });
}

fn burn_300us(_: usize) {
    burn(300_000);
    note(3);
}

fn parker(_: usize) {
    note(if thread::park(after_us(100)).is_ok() {
        1
    } else {
        2
    });
    note(if thread::park(after_us(100)).is_ok() {
        3
    } else {
        4
    });
}

target_test! {
    /// Every object gives up at the time it was told, and not before.
    fn every_object_gives_up_in_time(Shared) {
        in_time("sleep", |until| Ok(sleep_until(until)?))?;
        in_time("Semaphore", |until| { check_err!(SEMAPHORE.take_until(until), TimedOut); Ok(()) })?;
        in_time("EventFlags", |until| { check_err!(FLAGS.wait(1, Mode::Any, until), TimedOut); Ok(()) })?;
        in_time("Queue::receive", |until| { check_err!(QUEUE.receive_until(until), TimedOut); Ok(()) })?;
        QUEUE.send(1)?;
        QUEUE.send(2)?;
        in_time("Queue::send", |until| {
            let (message, error) = QUEUE.send_until(3, until).err().unwrap_or((0, takt_kernel::Error::InvalidState));
            check_eq!((message, error), (3, takt_kernel::Error::TimedOut));
            Ok(())
        })?;
        check_eq!((QUEUE.receive()?, QUEUE.receive()?, QUEUE.len()), (1, 2, 0));
        in_time("park", |until| { check_err!(thread::park(until), TimedOut); Ok(()) })?;
        in_time("Condvar", |until| {
            let mut guard = LOCK.lock()?;
            check_err!(CHANGED.wait_until(&mut guard, until), TimedOut);
            Ok(())
        })?;
        let holder = spawn(0, PRIORITY + 1, hold_for_2ms, 0)?;
        in_time("Mutex", |until| { check_err!(LOCK.lock_until(until), TimedOut); Ok(()) })?;
        let sleeper = spawn(1, PRIORITY + 1, sleep_for_2ms, 0)?;
        in_time("join", |until| { check_err!(sleeper.join(until), TimedOut); Ok(()) })?;
        join(&[holder, sleeper])?;
        Ok(())
    }

    /// A sleeper wakes at the same distance after its time, whatever that time is: no tick, no rounding, no drift.
    fn wake_up_time_is_exact(Shared) {
        sleep_until(after_us(50))?;
        let mut least = u64::MAX;
        let mut most = 0;
        for i in 0..200u64 {
            let until = Instant::now() + Cycles::new(20_000 + 1_237 * i);
            sleep_until(until)?;
            let late = Instant::now().cycles() - until.cycles();
            (least, most) = (least.min(late), most.max(late));
        }
        note!("200 sleepers woke between {least} and {most} ns after their time");
        check!(most - least <= 8, "between {least} and {most} ns after the time");
        check!(most <= 400, "{most} ns after the time");
        Ok(())
    }

    /// A time that is past: sleeping returns at once, taking fails at once, and what is there is still taken.
    fn past_times(Shared) {
        let past = Instant::from_cycles(1);
        let before = Instant::now();
        sleep_until(past)?;
        check!(Instant::now() < before + Cycles::new(200), "sleeping until a past time took time");
        check_err!(SEMAPHORE.take_until(past), TimedOut);
        check_err!(FLAGS.wait(1, Mode::Any, past), TimedOut);
        check_err!(QUEUE.receive_until(past), TimedOut);
        check_err!(thread::park(past), TimedOut);
        SEMAPHORE.give()?;
        SEMAPHORE.take_until(past)?;
        QUEUE.send_until(7, past)?;
        check_eq!(QUEUE.receive_until(past)?, 7);
        Ok(())
    }

    /// Waiters with different time-outs leave in the order of those, the others stay and are served.
    fn time_outs_of_several_waiters(Shared) {
        let threads = [spawn(1, PRIORITY + 1, waiter, 9)?, spawn(2, PRIORITY + 2, waiter, 2)?, spawn(3, PRIORITY + 3, waiter, 1)?];
        sleep_until(after_us(500))?;
        check_eq!(take(), [1, 2]);
        SEMAPHORE.give()?;
        check_eq!(take(), [109]);
        check_eq!(SEMAPHORE.count(), 0);
        join(&threads)?;
        SEMAPHORE.give()?;
        check_eq!(SEMAPHORE.count(), 1);
        SEMAPHORE.take()?;
        Ok(())
    }

    /// A permit that comes after the time-out but before the waiter ran is not lost.
    fn permit_after_the_time_out(Shared) {
        let thread = spawn(1, PRIORITY - 1, waiter, 1)?;
        sleep_until(after_us(10))?;
        burn(200_000);
        SEMAPHORE.give()?;
        check_eq!(SEMAPHORE.count(), 1);
        join(&[thread])?;
        check_eq!(take(), [1]);
        SEMAPHORE.try_take()?;
        check_err!(SEMAPHORE.try_take(), WouldBlock);
        Ok(())
    }

    /// A thread ends after its joiner's time-out but before the joiner ran: woken once, and it can still be joined.
    fn end_after_the_joiners_time_out(Shared) {
        let target = spawn(0, PRIORITY + 5, burn_300us_after_sleep, 0)?;
        let less = spawn(1, PRIORITY - 5, joiner, &raw const target as usize)?;
        let other = spawn(2, PRIORITY - 5, burn_300us, 0)?;
        sleep_until(after_us(600))?;
        join(&[less, other])?;
        check_eq!(take(), [3, 3, 1]);
        check_eq!(target.join(after_ms(1))?, 0);
        Ok(())
    }

    /// A notification that comes after the time-out but before the thread ran is not lost.
    fn unpark_after_the_time_out(Shared) {
        let thread = spawn(0, PRIORITY - 5, parker, 0)?;
        sleep_until(after_us(10))?;
        burn(200_000);
        thread.unpark()?;
        join(&[thread])?;
        // Either the first call tells of it, or the second does.
        let seen = take();
        check!(seen.contains(&1) || seen.contains(&3), "the notification is lost: {seen:?}");
        Ok(())
    }

    /// Waiting where that is not allowed, or might be needed, is an error: in an interrupt, with preemption or
    /// interrupts disabled, in the idle thread.
    fn waiting_in_the_wrong_place(Shared) {
        let guard = preempt::disable();
        check_err!(SEMAPHORE.take(), WrongContext);
        check_err!(sleep(Nanos::new(10)), WrongContext);
        check_err!(QUEUE.receive(), WrongContext);
        check_err!(FLAGS.wait(1, Mode::Any, Instant::NEVER), WrongContext);
        check_err!(thread::park(Instant::NEVER), WrongContext);
        check_err!(thread::current().join(Instant::NEVER), WrongContext);
        check_err!(thread::current().suspend(), WrongContext);
        drop(guard);
        let guard = preempt::irq_save();
        check_err!(SEMAPHORE.take(), WrongContext);
        check_err!(sleep(Nanos::new(10)), WrongContext);
        check_err!(QUEUE.receive(), WrongContext);
        check_err!(FLAGS.wait(1, Mode::Any, Instant::NEVER), WrongContext);
        check_err!(thread::park(Instant::NEVER), WrongContext);
        check_err!(thread::current().suspend(), WrongContext);
        drop(guard);
        interrupt::raise(|| {
            let errors = [
                SEMAPHORE.take().err(), sleep(Nanos::new(10)).err(), QUEUE.receive().err(), thread::park(Instant::NEVER).err(),
                FLAGS.wait(1, Mode::Any, Instant::NEVER).err(), thread::current().suspend().err(),
                // What takes one of the kernel's own mutexes, also while nobody has it.
                trace::set_tracer("hwlat").err(), trace::set_buffer_size(2).err(), thread::count_times(true).err(),
            ];
            let right = errors.iter().filter(|error| **error == Some(takt_kernel::Error::WrongContext)).count();
            note(right as u32);
        });
        check_eq!(take(), [9]);
        takt_board::set_idle_hook(|| {
            let errors = [SEMAPHORE.take().err(), sleep(Nanos::new(10)).err(), thread::park(Instant::NEVER).err()];
            takt_kernel::yield_now();
            if errors.iter().all(|error| *error == Some(takt_kernel::Error::WrongContext)) {
                REFUSED_IN_IDLE.store(true, Relaxed);
            }
        });
        sleep(Nanos::from_micros(100))?;
        check!(REFUSED_IN_IDLE.load(Relaxed));
        Ok(())
    }

    /// A wait that is over before its time-out leaves no timer behind that ends the next wait.
    fn no_time_out_is_left_behind(Shared) {
        let giver = Timer::new(|_, _| { let _ = SEMAPHORE.give(); }, 0)?;
        for _ in 0..5 {
            giver.arm(after_us(50));
            SEMAPHORE.take_until(after_us(100))?;
            giver.arm(after_us(200));
            SEMAPHORE.take()?;
        }
        let unparker = Timer::waking(thread::current(), |_, _| {}, 0)?;
        unparker.arm(after_us(50));
        thread::park(after_us(100))?;
        unparker.arm(after_us(200));
        thread::park(Instant::NEVER)?;
        Ok(())
    }
}

/// Lets the others begin, then keeps the CPU past the joiner's time-out and ends.
fn burn_300us_after_sleep(number: usize) {
    let _ = sleep(Nanos::from_micros(60));
    burn_300us(number);
}
