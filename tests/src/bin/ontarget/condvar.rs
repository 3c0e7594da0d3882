//! Condition variables with their mutex.

use takt_kernel::sync::{Condvar, Mutex};
use takt_kernel::time::sleep_until;
use takt_tests::harness::PRIORITY;
use takt_tests::journal::{note, take};
use takt_tests::worker::{after_us, join, spawn};
use takt_tests::{check, check_eq, interrupt, target_test};

static LOCK: Mutex<u32> = Mutex::new(0);
static CHANGED: Condvar = Condvar::new();

/// Waits until the number under the mutex is its own, then notes it.
fn wait_for(number: usize) {
    let Ok(mut value) = LOCK.lock() else { return };
    while *value != number as u32 {
        if CHANGED.wait(&mut value).is_err() {
            return;
        }
        note(1000 + *value);
    }
    note(number as u32);
}

/// Waits once, whatever for.
fn wait_once(number: usize) {
    let Ok(mut value) = LOCK.lock() else { return };
    let result = CHANGED.wait(&mut value);
    note(if result.is_ok() { number as u32 } else { 99 });
    *value += 1;
}

fn wait_until_100us(_: usize) {
    let Ok(mut value) = LOCK.lock() else { return };
    let result = CHANGED.wait_until(&mut value, after_us(100));
    note(if result.is_ok() { 1 } else { 2 });
    *value += 1;
}

fn set(number: u32) -> Result<(), takt_kernel::Error> {
    *LOCK.lock()? = number;
    Ok(())
}

target_test! {
    /// Waiting gives the mutex up, and has it again when it returns.
    fn waiting_gives_the_mutex_up(Shared) {
        set(0)?;
        let thread = spawn(1, PRIORITY + 1, wait_for, 7)?;
        let mut value = LOCK.try_lock()?;
        *value = 7;
        check!(CHANGED.notify_one());
        // The woken thread wants the mutex: this one inherits its priority meanwhile.
        check_eq!(takt_kernel::thread::current().priority()?, PRIORITY + 1);
        check_eq!(take(), []);
        drop(value);
        check_eq!(take(), [1007, 7]);
        join(&[thread])?;
        check!(!CHANGED.notify_one());
        Ok(())
    }

    /// One notification wakes one waiter, the most important; notifying all wakes all in that order.
    fn most_important_first(Shared) {
        let threads = [
            spawn(1, PRIORITY + 1, wait_once, 1)?, spawn(2, PRIORITY + 3, wait_once, 2)?,
            spawn(3, PRIORITY + 2, wait_once, 3)?, spawn(4, PRIORITY + 2, wait_once, 4)?,
        ];
        check!(CHANGED.notify_one());
        check_eq!(take(), [2]);
        check_eq!(CHANGED.notify_all(), 3);
        check_eq!(take(), [3, 4, 1]);
        join(&threads)?;
        check_eq!(CHANGED.notify_all(), 0);
        Ok(())
    }

    /// Notifying all wakes those who wait now: a waiter that finds its condition not fulfilled and waits again is not
    /// woken over and over.
    fn notify_all_comes_to_an_end(Shared) {
        set(0)?;
        let threads = [spawn(1, PRIORITY + 1, wait_for, 5)?, spawn(2, PRIORITY + 2, wait_for, 6)?];
        set(6)?;
        check_eq!(CHANGED.notify_all(), 2);
        check_eq!(take(), [1006, 6, 1006]);
        set(5)?;
        check_eq!(CHANGED.notify_all(), 1);
        check_eq!(take(), [1005, 5]);
        join(&threads)?;
        Ok(())
    }

    /// A waiter whose time-out comes has the mutex again, also if it first has to wait for that.
    fn time_out_with_the_mutex_taken(Shared) {
        set(0)?;
        let thread = spawn(1, PRIORITY + 1, wait_until_100us, 0)?;
        let value = LOCK.lock()?;
        sleep_until(after_us(300))?;
        check_eq!(take(), []);
        check_eq!(*value, 0);
        drop(value);
        check_eq!(take(), [2]);
        check_eq!(*LOCK.lock()?, 1);
        join(&[thread])?;
        Ok(())
    }

    /// Interrupts may notify.
    fn from_an_interrupt(Shared) {
        let threads = [spawn(1, PRIORITY + 1, wait_once, 1)?, spawn(2, PRIORITY + 2, wait_once, 2)?];
        interrupt::raise(|| {
            CHANGED.notify_all();
            note(3);
        });
        join(&threads)?;
        check_eq!(take(), [3, 2, 1]);
        Ok(())
    }
}
