//! Software timers while many are armed.

use takt_kernel::sync::Semaphore;
use takt_kernel::time::{Cycles, Expiry, Instant, Nanos, Timer};

use super::random_timers;
use crate::clock::{Value, stamp};
use crate::report::{fail, insn};
use crate::threads::must;

/// The most that are armed.
pub(super) const MOST: usize = 1000;

static FIRED: Semaphore = Semaphore::new(0, 1);
static EXPIRED: Value = Value::new();

/// From the interrupt's time stamp, its third instruction, to the timer's function.
fn expired(_: usize, expiry: Expiry) {
    EXPIRED.set(stamp().wrapping_sub(expiry.at.cycles() as u32));
    let _ = FIRED.give();
}

fn nothing(_: usize, _: Expiry) {}

fn timer(function: fn(usize, Expiry)) -> Timer {
    Timer::new(function, 0).unwrap_or_else(|error| fail("timer", error))
}

/// Timers that expire one after the other with nothing done in between: more than the queue keeps at hand.
const IN_A_ROW: u64 = 6;

/// The measured timer is the earliest: the longest way where it is armed.
pub(super) fn all() {
    let first = timer(expired);
    let mut others = [None::<Timer>; MOST];
    let far = Instant::after(Nanos::from_secs(3));
    let mut nr_armed = 1;
    for nr in [1, 10, 100, 1000] {
        while nr_armed < nr {
            let other = timer(nothing);
            other.arm(far + Cycles::new(1000 * nr_armed as u64));
            others[nr_armed] = Some(other);
            nr_armed += 1;
        }
        // Once not measured, so that the code is the same in every round.
        let (mut insert, mut cancel) = (0, 0);
        for _ in 0..2 {
            let deadline = Instant::now() + Cycles::new(1_000_000);
            let before = stamp();
            first.arm(deadline);
            let between = stamp();
            let was_armed = first.cancel();
            let after = stamp();
            insert = between.wrapping_sub(before);
            cancel = after.wrapping_sub(between);
            if !was_armed {
                fail("cancel", takt_kernel::Error::InvalidState);
            }
        }
        first.arm(Instant::after(Nanos::from_micros(100)));
        must(
            "expiry",
            FIRED.take_until(Instant::after(Nanos::from_millis(1))),
        );
        insn(format_args!("timer-insert-{nr}"), insert);
        insn(format_args!("timer-cancel-{nr}"), cancel);
        insn(format_args!("timer-expire-{nr}"), EXPIRED.get());
        if nr >= 100 {
            in_a_row(&others[1..=IN_A_ROW as usize], first);
            insn(format_args!("timer-expire-row-{nr}"), EXPIRED.get());
            for (number, other) in others.iter().enumerate().skip(1).take(IN_A_ROW as usize) {
                if let Some(other) = other {
                    other.arm(far + Cycles::new(1000 * number as u64));
                }
            }
        }
    }
    for timer in others.iter().flatten() {
        timer.cancel();
    }
    random_timers::all(first, &others, far);
}

/// Has some of the others expire first, then the measured timer: the interrupt then has to look for the next among all.
/// Does not wait meanwhile, since arming the time-out, or the idle thread, would have it done beforehand.
#[inline(never)]
fn in_a_row(others: &[Option<Timer>], last: Timer) {
    let begin = Instant::now() + Cycles::new(100_000);
    for (number, other) in others.iter().flatten().enumerate() {
        other.arm(begin + Cycles::new(2_000 * number as u64));
    }
    last.arm(begin + Cycles::new(2_000 * IN_A_ROW));
    while FIRED.try_take().is_err() {
        core::hint::spin_loop();
    }
}
