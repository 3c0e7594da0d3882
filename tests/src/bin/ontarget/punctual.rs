//! How long after its deadline a timer's interrupt is entered: as long whichever way set the hardware, and never less.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use takt_kernel::Error;
use takt_kernel::thread;
use takt_kernel::time::{Cycles, Expiry, Instant, Timer};
use takt_tests::harness::Failure;
use takt_tests::worker::{after_us, burn};
use takt_tests::{check, check_eq, target_test};

/// From the deadline to the entry's time stamp where nothing holds the interrupt up: QEMU's timer counts one more than it is
/// told, and the stamp is the entry's third instruction.
const ENTRY: u64 = 4;
/// No entry was seen.
const NONE: u64 = u64::MAX;

/// How late each of two timers was.
static LATE: [AtomicU64; 2] = [const { AtomicU64::new(NONE) }; 2];
static TIMERS: spin::Once<[Timer; 2]> = spin::Once::new();
/// If not 0, the first timer's function arms the second so long after its own deadline.
static AGAIN: AtomicU64 = AtomicU64::new(0);

fn expired(number: usize, expiry: Expiry) {
    LATE[number % 2].store(
        expiry.at.cycles().wrapping_sub(expiry.deadline.cycles()),
        Relaxed,
    );
    let again = AGAIN.load(Relaxed);
    if number == 0 && again != 0 {
        timers()[1].arm(expiry.deadline + Cycles::new(again));
    }
}

fn timers() -> &'static [Timer; 2] {
    TIMERS.call_once(|| [0, 1].map(|n| Timer::new(expired, n).expect("there are timers left")))
}

/// How late the two are, once `arm` has armed them and `pass` has let time pass.
fn late(arm: fn(&[Timer; 2], Instant), pass: fn()) -> [u64; 2] {
    for late in &LATE {
        late.store(NONE, Relaxed);
    }
    arm(timers(), after_us(50));
    pass();
    [0, 1].map(|number| LATE[number].load(Relaxed))
}

/// Computes for as long as all of it takes.
fn computing() {
    burn(400_000);
}

/// Leaves the CPU to the idle thread for as long.
fn idling() {
    let _: Result<(), Error> = thread::park(after_us(400));
}

fn is_exact(what: &str, arm: fn(&[Timer; 2], Instant), expected: [u64; 2]) -> Result<(), Failure> {
    for (how, pass) in [("computing", computing as fn()), ("idle", idling)] {
        let late = late(arm, pass);
        check!(late == expected, "{what}, {how}: {late:?}");
    }
    Ok(())
}

target_test! {
    /// Wherever the hardware timer is set, the interrupt is entered as long after the deadline, to the instruction.
    fn every_way_of_arming_is_exact(Shared) {
        AGAIN.store(0, Relaxed);
        is_exact("alone", |timers, at| timers[0].arm(at), [ENTRY, NONE])?;
        // The interrupt of the first sets the hardware to the second.
        is_exact(
            "one after the other",
            |timers, at| {
                timers[0].arm(at);
                timers[1].arm(at + Cycles::new(3_001));
            },
            [ENTRY; 2],
        )?;
        is_exact(
            "in front of another",
            |timers, at| {
                timers[0].arm(at + Cycles::new(5_003));
                timers[1].arm(at);
            },
            [ENTRY; 2],
        )?;
        is_exact(
            "moved",
            |timers, at| {
                timers[0].arm(at + Cycles::new(5_003));
                timers[1].arm(at + Cycles::new(7_019));
                timers[0].arm(at + Cycles::new(1));
            },
            [ENTRY; 2],
        )?;
        // The interrupt for nothing sets the hardware to the one that is left.
        is_exact(
            "behind one that was cancelled",
            |timers, at| {
                timers[1].arm(at);
                timers[0].arm(at + Cycles::new(2_003));
                timers[1].cancel();
            },
            [ENTRY, NONE],
        )?;
        AGAIN.store(4_999, Relaxed);
        let result = is_exact("in an interrupt", |timers, at| timers[0].arm(at), [ENTRY; 2]);
        AGAIN.store(0, Relaxed);
        result
    }

    /// However near the deadline is when the timer is armed, and wherever between two instructions it comes to lie, the
    /// interrupt does not come before its time.
    fn armed_at_the_last_moment(Shared) {
        AGAIN.store(0, Relaxed);
        let timer = timers()[0];
        let mut nr_exact = 0;
        for distance in 0..200 {
            LATE[0].store(NONE, Relaxed);
            timer.arm(Instant::now() + Cycles::new(distance));
            burn(1_000);
            let late = LATE[0].load(Relaxed);
            check!((ENTRY..ENTRY + 300).contains(&late), "{distance} before: {late}");
            nr_exact += u32::from(late == ENTRY);
        }
        // The others were due before interrupts were on again.
        check!(nr_exact > 50, "{nr_exact}");
        Ok(())
    }

    /// A timer that falls due while the interrupt of another is being entered is handled by that one. Then its stamp is
    /// nearer to its deadline than an interrupt of its own could come, and never before it.
    fn due_while_another_is_entered(Shared) {
        AGAIN.store(0, Relaxed);
        let [first, second] = timers();
        for distance in 0..=2 * ENTRY {
            for late in &LATE {
                late.store(NONE, Relaxed);
            }
            let deadline = after_us(20);
            first.arm(deadline);
            second.arm(deadline + Cycles::new(distance));
            burn(50_000);
            check_eq!(LATE[0].load(Relaxed), ENTRY);
            let late = LATE[1].load(Relaxed);
            match ENTRY.checked_sub(distance) {
                Some(left) => check_eq!(late, left),
                // It was not due at that stamp, and has an interrupt of its own behind that one.
                None => check!((ENTRY..600).contains(&late), "{distance} behind: {late}"),
            }
        }
        Ok(())
    }
}
