//! Event flags: every mode, from threads and interrupts.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use takt_kernel::Error;
use takt_kernel::sync::{EventFlags, Mode};
use takt_kernel::thread::Thread;
use takt_kernel::time::{Expiry, Instant, Nanos, Timer};
use takt_tests::harness::PRIORITY;
use takt_tests::journal::{note, take};
use takt_tests::worker::{self, join, spawn};
use takt_tests::{check, check_eq, check_err, interrupt, target_test};

static FLAGS: EventFlags = EventFlags::new(0);

/// What the waiters want: mask and mode by number.
const WANTS: [(u32, Mode); 5] = [
    (0b0011, Mode::Any),
    (0b0011, Mode::All),
    (0b0110, Mode::AnyClear),
    (0b1100, Mode::AllClear),
    (0b0100, Mode::Any),
];

/// Waits for what its number says and notes the number and the flags it was given.
fn waiter(number: usize) {
    let (mask, mode) = WANTS[number];
    let flags = FLAGS.wait(mask, mode, Instant::NEVER).unwrap_or(99);
    note(100 * number as u32 + flags);
}

/// Waits for the bit of its number.
fn waits_for_its_bit(number: usize) {
    let _ = FLAGS.wait(1 << number, Mode::All, Instant::NEVER);
}

/// A waiter that is moved time and again, and what has it moved.
static VICTIM: spin::Once<Thread> = spin::Once::new();
static MOVER: spin::Once<Timer> = spin::Once::new();
static PERIOD: AtomicU64 = AtomicU64::new(0);
static NR_MOVES: AtomicU32 = AtomicU32::new(0);
const MAX_MOVES: u32 = 3000;

/// Moves it from behind the others to before them, or back.
fn moves(_: usize, _: Expiry) {
    let nr = NR_MOVES.fetch_add(1, Relaxed);
    let (Some(victim), Some(timer)) = (VICTIM.get(), MOVER.get()) else {
        return;
    };
    let _ = victim.set_priority(PRIORITY + if nr.is_multiple_of(2) { 3 } else { 1 });
    if nr < MAX_MOVES {
        timer.arm(Instant::after(Nanos::new(PERIOD.load(Relaxed))));
    }
}

target_test! {
    /// Flags that are set already: no waiting, and the modes that clear take them.
    fn without_waiting(Shared) {
        FLAGS.set(0b0111);
        check_eq!(FLAGS.get(), 0b0111);
        check_eq!(FLAGS.wait(0b1001, Mode::Any, Instant::NEVER)?, 0b0111);
        check_eq!(FLAGS.wait(0b0011, Mode::All, Instant::NEVER)?, 0b0111);
        check_err!(FLAGS.wait(0b1001, Mode::All, Instant::from_cycles(0)), TimedOut);
        check_eq!(FLAGS.wait(0b1001, Mode::AnyClear, Instant::NEVER)?, 0b0111);
        check_eq!(FLAGS.get(), 0b0110);
        check_eq!(FLAGS.wait(0b0110, Mode::AllClear, Instant::NEVER)?, 0b0110);
        check_eq!(FLAGS.get(), 0);
        check_err!(FLAGS.wait(0, Mode::Any, Instant::NEVER), InvalidArgument);
        FLAGS.set(0b1100);
        check_eq!(FLAGS.clear(0b0110), 0b1100);
        check_eq!(FLAGS.clear(u32::MAX), 0b1000);
        Ok(())
    }

    /// Asking instead of waiting: in every mode it gives and clears what waiting would, also in an interrupt.
    fn without_wanting_to_wait(Shared) {
        FLAGS.set(0b0111);
        check_eq!(FLAGS.try_wait(0b1001, Mode::Any)?, 0b0111);
        check_eq!(FLAGS.try_wait(0b0011, Mode::All)?, 0b0111);
        check_err!(FLAGS.try_wait(0b1000, Mode::Any), WouldBlock);
        check_err!(FLAGS.try_wait(0b1001, Mode::All), WouldBlock);
        check_err!(FLAGS.try_wait(0b1000, Mode::AnyClear), WouldBlock);
        check_err!(FLAGS.try_wait(0b1001, Mode::AllClear), WouldBlock);
        check_eq!(FLAGS.get(), 0b0111);
        check_eq!(FLAGS.try_wait(0b1001, Mode::AnyClear)?, 0b0111);
        check_eq!(FLAGS.get(), 0b0110);
        check_err!(FLAGS.try_wait(0, Mode::Any), InvalidArgument);
        interrupt::raise(|| {
            note(match FLAGS.wait(0b1000, Mode::Any, Instant::from_cycles(0)) {
                Err(Error::WrongContext) => 1,
                _ => 2,
            });
            note(match FLAGS.try_wait(0b1000, Mode::Any) {
                Err(Error::WouldBlock) => 3,
                _ => 4,
            });
            note(FLAGS.try_wait(0b0110, Mode::AllClear).unwrap_or(99));
        });
        check_eq!(take(), [1, 3, 0b0110]);
        check_eq!(FLAGS.get(), 0);
        Ok(())
    }

    /// One set wakes all whose condition holds, the most important first, and a waiter that clears takes the flags
    /// from those after it.
    fn waiters_by_importance(Shared) {
        let threads = [
            spawn(0, PRIORITY + 1, waiter, 0)?, spawn(1, PRIORITY + 2, waiter, 1)?, spawn(2, PRIORITY + 4, waiter, 2)?,
            spawn(3, PRIORITY + 3, waiter, 3)?, spawn(4, PRIORITY + 5, waiter, 4)?,
        ];
        // 2 takes bits 1 and 2; 0 is content with bit 0.
        FLAGS.set(0b0011);
        check_eq!(take(), [203, 1]);
        check_eq!(FLAGS.get(), 0b0001);
        // 4 looks, 3 takes bits 2 and 3; 1 still lacks bit 1.
        FLAGS.set(0b1100);
        check_eq!(take(), [413, 313]);
        check_eq!(FLAGS.get(), 0b0001);
        FLAGS.set(0b0010);
        check_eq!(take(), [103]);
        check_eq!(FLAGS.clear(u32::MAX), 0b0011);
        join(&threads)?;
        Ok(())
    }

    /// A search among the waiters ends however often one of them is moved meanwhile.
    fn while_a_waiter_is_moved(Shared) {
        let victim = spawn(0, PRIORITY + 1, waits_for_its_bit, 0)?;
        let mut threads = [victim; worker::NR];
        for (number, thread) in threads.iter_mut().enumerate().skip(1) {
            *thread = spawn(number, PRIORITY + 2, waits_for_its_bit, number)?;
        }
        VICTIM.call_once(|| victim);
        let timer = Timer::new(moves, 0)?;
        let timer = MOVER.call_once(|| timer);
        for period in (300..1200).step_by(50) {
            PERIOD.store(period, Relaxed);
            NR_MOVES.store(0, Relaxed);
            timer.arm(Instant::after(Nanos::new(period)));
            FLAGS.set(1 << 31);
            let nr = NR_MOVES.load(Relaxed);
            timer.cancel();
            check!(nr < MAX_MOVES, "not over after {nr} moves, every {period} ns");
        }
        FLAGS.set((1 << worker::NR) - 1);
        join(&threads)?;
        FLAGS.clear(u32::MAX);
        Ok(())
    }

    /// Flags set in an interrupt wake threads when it returns.
    fn from_an_interrupt(Shared) {
        let threads = [spawn(0, PRIORITY + 1, waiter, 3)?, spawn(1, PRIORITY + 2, waiter, 4)?];
        interrupt::raise(|| {
            FLAGS.set(0b0100);
            note(1);
        });
        check_eq!(take(), [1, 404]);
        interrupt::raise(|| FLAGS.set(0b1000));
        check_eq!(take(), [312]);
        check_eq!(FLAGS.get(), 0);
        join(&threads)?;
        Ok(())
    }
}
