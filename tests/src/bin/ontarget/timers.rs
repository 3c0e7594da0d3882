//! Software timers: many of them, in order, moved, cancelled, from interrupts.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use takt_kernel::config::MAX_TIMERS;
use takt_kernel::time::{self, Cycles, Expiry, Instant, Nanos, Timer, sleep_until};
use takt_kernel::{machine, thread};
use takt_tests::journal::{note, take};
use takt_tests::worker::{after_ms, after_us, burn};
use takt_tests::{check, check_eq, check_err, interrupt, target_test};

fn noted(number: usize, _expiry: Expiry) {
    note(number as u32);
}

static EXPIRED: AtomicU32 = AtomicU32::new(0);
static OUT_OF_ORDER: AtomicU32 = AtomicU32::new(0);
static LATEST: AtomicU64 = AtomicU64::new(0);
static EARLY: AtomicU32 = AtomicU32::new(0);

/// Checks that deadlines come in ascending order and never early.
fn in_order(_: usize, expiry: Expiry) {
    EXPIRED.fetch_add(1, Relaxed);
    if LATEST.swap(expiry.deadline.cycles(), Relaxed) > expiry.deadline.cycles() {
        OUT_OF_ORDER.fetch_add(1, Relaxed);
    }
    if expiry.at < expiry.deadline {
        EARLY.fetch_add(1, Relaxed);
    }
}

static PERIODIC: spin::Once<Timer> = spin::Once::new();

/// Arms its timer anew, ten times.
fn rearms(_: usize, expiry: Expiry) {
    note(1);
    if takt_tests::journal::len() < 10
        && let Some(timer) = PERIODIC.get()
    {
        timer.arm(expiry.deadline + Cycles::new(10_000));
    }
}

static SHARED: spin::Once<[Timer; 2]> = spin::Once::new();

/// Notes its number; those of even number have a device interrupt as well.
fn interrupted(number: usize, _: Expiry) {
    note(number as u32);
    if number.is_multiple_of(2) {
        interrupt::request(|| note(99));
    }
}

static STORM: spin::Once<Timer> = spin::Once::new();
const STORM_LENGTH: u32 = 5_000;

/// Arms its timer anew, a microsecond later.
fn storms(_: usize, expiry: Expiry) {
    if EXPIRED.fetch_add(1, Relaxed) + 1 < STORM_LENGTH
        && let Some(timer) = STORM.get()
    {
        timer.arm(expiry.deadline + Nanos::from_micros(1).to_cycles());
    }
}

target_test! {
    /// A million interrupts a second: each comes, a thread keeps its deadlines beside them, and it computes in between.
    fn a_million_interrupts_a_second(Alone) {
        EXPIRED.store(0, Relaxed);
        let timer = match Timer::new(storms, 0) {
            Ok(timer) => STORM.call_once(|| timer),
            Err(error) => return Err(error.into()),
        };
        let begun = Instant::now();
        timer.arm(begun + Nanos::from_micros(1).to_cycles());
        let (mut due, mut latest) = (begun, Nanos::ZERO);
        for _ in 0..100 {
            due = due + Cycles::new(49_700);
            burn(10_000);
            sleep_until(due)?;
            latest = latest.max((Instant::now() - due).to_nanos());
        }
        sleep_until(begun + Nanos::from_millis(6).to_cycles())?;
        check_eq!(EXPIRED.load(Relaxed), STORM_LENGTH);
        check!(latest < Nanos::from_micros(1), "{latest:?} late");
        Ok(())
    }

    /// A device's interrupt comes before the timers that are due as well, and none of those is forgotten.
    fn devices_come_between_timers(Alone) {
        let mut timers = [None; 6];
        for (number, timer) in timers.iter_mut().enumerate() {
            *timer = Some(Timer::new(interrupted, number)?);
        }
        let deadline = after_us(50);
        for timer in timers.into_iter().flatten() {
            timer.arm(deadline);
        }
        sleep_until(after_us(200))?;
        check_eq!(take(), [0, 99, 1, 2, 99, 3, 4, 99, 5]);
        Ok(())
    }

    /// Timers expire in the order of their deadlines, not of their arming, and each once.
    fn order_of_deadlines(Shared) {
        let timers = [Timer::new(noted, 1)?, Timer::new(noted, 2)?, Timer::new(noted, 3)?];
        timers[0].arm(after_us(300));
        timers[1].arm(after_us(100));
        timers[2].arm(after_us(200));
        sleep_until(after_us(600))?;
        check_eq!(take(), [2, 3, 1]);
        Ok(())
    }

    /// Arming an armed timer moves it; cancelling says whether it was armed.
    fn moving_and_cancelling(Shared) {
        let timers = [Timer::new(noted, 1)?, Timer::new(noted, 2)?];
        timers[0].arm(after_us(100));
        timers[1].arm(after_us(150));
        timers[0].arm(after_us(200));
        sleep_until(after_us(300))?;
        check_eq!(take(), [2, 1]);
        timers[0].arm(after_us(100));
        timers[1].arm(after_us(200));
        check!(timers[0].cancel());
        check!(!timers[0].cancel());
        sleep_until(after_us(300))?;
        check_eq!(take(), [2]);
        check!(!timers[1].cancel());
        Ok(())
    }

    /// The earliest timer moved further away, or to never, leaves the next one in time.
    fn moving_the_earliest_leaves_the_others_in_time(Shared) {
        let timers = [Timer::new(noted, 1)?, Timer::new(noted, 2)?];
        for later in [after_ms(5), Instant::NEVER] {
            timers[0].arm(after_us(100));
            timers[1].arm(after_us(150));
            timers[0].arm(later);
            burn(150_500);
            check_eq!(take(), [2]);
            check_eq!(timers[0].cancel(), later != Instant::NEVER);
        }
        // Alone it moves as well.
        timers[0].arm(after_us(100));
        timers[0].arm(after_us(200));
        burn(150_000);
        check_eq!(take(), []);
        burn(50_500);
        check_eq!(take(), [1]);
        Ok(())
    }

    /// A deadline that is past expires at once.
    fn past_deadline(Shared) {
        let timer = Timer::new(noted, 1)?;
        timer.arm(Instant::from_cycles(1));
        takt_tests::worker::burn(1_000);
        check_eq!(take(), [1]);
        Ok(())
    }

    /// A timer's function may arm the timer anew; its deadlines do not drift.
    fn armed_in_its_own_function(Shared) {
        let timer = *PERIODIC.call_once(|| Timer::new(rearms, 0).expect("there are timers left"));
        let start = after_us(50);
        timer.arm(start);
        sleep_until(start + Cycles::new(95_000))?;
        check_eq!(take(), [1; 10]);
        check!(!timer.cancel());
        Ok(())
    }

    /// Interrupts arm and cancel timers.
    fn from_interrupts(Shared) {
        SHARED.call_once(|| [1, 2].map(|n| Timer::new(noted, n).expect("there are timers left")));
        interrupt::raise(|| {
            if let Some(timers) = SHARED.get() {
                timers[0].arm(after_us(50));
                timers[1].arm(after_us(60));
                note(u32::from(timers[0].cancel()) + 10);
            }
        });
        sleep_until(after_us(200))?;
        check_eq!(take(), [11, 2]);
        Ok(())
    }

    /// A timer wakes its thread after its function, and also if the thread does not wait yet.
    fn timer_that_wakes_a_thread(Shared) {
        let timer = Timer::waking(thread::current(), noted, 1)?;
        timer.arm(after_us(50));
        thread::park(Instant::NEVER)?;
        note(2);
        timer.arm(after_us(20));
        takt_tests::worker::burn(50_000);
        thread::park(Instant::NEVER)?;
        note(3);
        check_eq!(take(), [1, 2, 1, 3]);
        check_err!(thread::park(after_us(50)), TimedOut);
        Ok(())
    }

    /// Times of which no TSC comes to the end: conversions end at the largest number and do not begin anew.
    fn conversions_do_not_wrap(Alone) {
        let hz = time::tsc_hz();
        // SAFETY: nobody has a deadline meanwhile, here and below.
        let set_hz = |hz| unsafe { machine::set_tsc_hz(hz) };
        set_hz(2_000_000_000);
        let cycles = [1, 1 << 40, 1 << 63, u64::MAX].map(|nanos| Nanos::new(nanos).to_cycles().get());
        let never = Instant::after(Nanos::MAX);
        set_hz(500_000_000);
        let nanos = [1, 1 << 40, 1 << 63, u64::MAX].map(|cycles| Cycles::new(cycles).to_nanos().get());
        set_hz(hz);
        check_eq!(cycles, [2, 1 << 41, u64::MAX, u64::MAX]);
        check_eq!(nanos, [2, 1 << 41, u64::MAX, u64::MAX]);
        check_eq!(never, Instant::NEVER);
        Ok(())
    }

    /// As many timers as there can be, armed in a shuffled order, some cancelled, many with equal deadlines; one more
    /// is an error.
    fn a_thousand_timers(Alone) {
        let mut timers = heapless::Vec::<Timer, MAX_TIMERS>::new();
        while let Ok(timer) = Timer::new(in_order, 0) {
            let _ = timers.push(timer);
        }
        check_eq!(timers.len(), MAX_TIMERS);
        check_err!(Timer::new(in_order, 0), OutOfResources);
        for _ in 0..3 {
            EXPIRED.store(0, Relaxed);
            LATEST.store(0, Relaxed);
            let start = after_ms(2);
            for (i, timer) in timers.iter().enumerate() {
                // 389 is prime to 1024: every place once.
                timer.arm(start + Cycles::new((i as u64 * 389 % 1024) / 4 * 1_000));
            }
            let cancelled = timers.iter().step_by(3).filter(|timer| timer.cancel()).count();
            check_eq!(cancelled, MAX_TIMERS.div_ceil(3));
            sleep_until(start + Cycles::new(400_000))?;
            check_eq!(EXPIRED.load(Relaxed) as usize, MAX_TIMERS - cancelled);
            check_eq!((OUT_OF_ORDER.load(Relaxed), EARLY.load(Relaxed)), (0, 0));
        }
        Ok(())
    }
}
