//! Who runs: preemption by priority, first in first out, yielding, and keeping the CPU for a while.

use takt_kernel::sync::Semaphore;
use takt_kernel::{irq, preempt, yield_now};
use takt_tests::harness::PRIORITY;
use takt_tests::journal::{note, take};
use takt_tests::worker::{after_us, burn, join, spawn};
use takt_tests::{check, check_eq, interrupt, target_test};

const MORE: u8 = PRIORITY + 10;
const LESS: u8 = PRIORITY - 10;

static GO: Semaphore = Semaphore::new(0, 100);

/// Waits for its permit, then notes its number.
fn waiter(number: usize) {
    note(number as u32);
    let _ = GO.take();
    note(100 + number as u32);
}

fn noter(number: usize) {
    note(number as u32);
}

/// Notes its number three times and lets its equals go first in between.
fn yielder(number: usize) {
    for _ in 0..3 {
        note(number as u32);
        yield_now();
    }
}

fn give() {
    let _ = GO.give();
}

target_test! {
    /// A more important thread runs in the middle of the call that wakes it.
    fn more_important_runs_at_once(Shared) {
        let thread = spawn(0, MORE, waiter, 1)?;
        note(2);
        GO.give()?;
        note(3);
        join(&[thread])?;
        check_eq!(take(), [1, 2, 101, 3]);
        Ok(())
    }

    /// A less important thread does not run before this one waits, nor does an equal one.
    fn less_important_and_equal_do_not(Shared) {
        let less = spawn(0, LESS, noter, 1)?;
        let equal = spawn(1, PRIORITY, noter, 2)?;
        note(3);
        join(&[equal, less])?;
        check_eq!(take(), [3, 2, 1]);
        Ok(())
    }

    /// A more important thread that an interrupt wakes runs when the handler returns; an equal one waits.
    fn woken_from_interrupt(Shared) {
        let more = spawn(0, MORE, waiter, 1)?;
        interrupt::raise(|| {
            note(2);
            give();
            note(3);
        });
        note(4);
        let equal = spawn(1, PRIORITY, waiter, 5)?;
        yield_now();
        interrupt::raise(give);
        note(6);
        join(&[more, equal])?;
        check_eq!(take(), [1, 2, 3, 101, 4, 5, 6, 105]);
        Ok(())
    }

    /// A less important thread woken from an interrupt leaves the interrupted one alone.
    fn less_important_woken_from_interrupt(Shared) {
        let less = spawn(0, LESS, waiter, 1)?;
        takt_kernel::time::sleep_until(after_us(10))?;
        interrupt::raise(give);
        note(2);
        join(&[less])?;
        check_eq!(take(), [1, 2, 101]);
        Ok(())
    }

    /// Equals run in the order in which they became ready; waiters of equal priority are served in the order of coming.
    fn first_in_first_out(Shared) {
        let mut threads = heapless::Vec::<_, 6>::new();
        for number in 1..=6 {
            let _ = threads.push(spawn(number, PRIORITY, waiter, number)?);
        }
        yield_now();
        for _ in 0..6 {
            GO.give()?;
        }
        join(&threads)?;
        check_eq!(take(), [1, 2, 3, 4, 5, 6, 101, 102, 103, 104, 105, 106]);
        Ok(())
    }

    /// A preempted thread goes on before its equals: preemption moves it nowhere.
    fn preempted_stays_first(Shared) {
        let more = spawn(0, MORE, waiter, 1)?;
        let equal = spawn(1, PRIORITY, noter, 2)?;
        GO.give()?;
        note(3);
        join(&[more, equal])?;
        check_eq!(take(), [1, 101, 3, 2]);
        Ok(())
    }

    /// Yielding takes turns among equals and gives nothing to the less important.
    fn yielding_takes_turns(Shared) {
        let less = spawn(0, LESS, noter, 9)?;
        let threads = [spawn(1, PRIORITY, yielder, 1)?, spawn(2, PRIORITY, yielder, 2)?, spawn(3, PRIORITY, yielder, 3)?];
        join(&threads)?;
        check_eq!(take(), [1, 2, 3, 1, 2, 3, 1, 2, 3]);
        join(&[less])?;
        check_eq!(take(), [9]);
        Ok(())
    }

    /// With preemption disabled a wake-up waits for the outermost guard, wherever it came from.
    fn preempt_guards_nest(Shared) {
        let threads = [spawn(0, MORE, waiter, 1)?, spawn(1, MORE, waiter, 2)?];
        let outer = preempt::disable();
        let inner = preempt::disable();
        check_eq!(preempt::depth(), 2);
        GO.give()?;
        interrupt::raise(give);
        note(3);
        drop(outer);
        note(4);
        drop(inner);
        note(5);
        check_eq!(preempt::depth(), 0);
        join(&threads)?;
        check_eq!(take(), [1, 2, 3, 4, 101, 102, 5]);
        Ok(())
    }

    /// A timer's interrupt comes with preemption disabled, but the thread that it wakes waits for the guard.
    fn interrupts_come_without_preemption(Shared) {
        let thread = spawn(0, MORE, waiter, 1)?;
        let guard = preempt::disable();
        interrupt::after_us(20, || {
            note(2);
            give();
        });
        burn(100_000);
        note(3);
        drop(guard);
        note(4);
        join(&[thread])?;
        check_eq!(take(), [1, 2, 3, 101, 4]);
        Ok(())
    }

    /// With interrupts off neither interrupts nor threads come, and both do when the outermost guard is dropped.
    fn irq_guards_nest(Shared) {
        let thread = spawn(0, MORE, waiter, 1)?;
        let outer = preempt::irq_save();
        let inner = preempt::irq_save();
        check!(!irq::are_enabled());
        GO.give()?;
        interrupt::after_us(20, || note(2));
        burn(100_000);
        note(3);
        drop(inner);
        check!(!irq::are_enabled(), "the inner guard enabled interrupts");
        note(4);
        drop(outer);
        check!(irq::are_enabled());
        note(5);
        join(&[thread])?;
        // The woken thread is switched to first; the pending interrupt comes as soon as that thread has them on.
        let order = take();
        check_eq!(order[..3], [1, 3, 4]);
        check_eq!(order.len(), 6);
        check_eq!(order[5], 5);
        Ok(())
    }

    /// Guards that end in another order than they began: the last one enables interrupts.
    fn irq_guards_end_in_any_order(Shared) {
        let (first, second) = (preempt::irq_save(), preempt::irq_save());
        drop(first);
        check!(!irq::are_enabled(), "the first guard enabled interrupts under the second");
        drop(second);
        check!(irq::are_enabled());
        Ok(())
    }

    /// Yielding with preemption or interrupts disabled keeps the CPU.
    fn yielding_under_a_guard(Shared) {
        let equal = spawn(0, PRIORITY, noter, 1)?;
        let guard = preempt::disable();
        yield_now();
        drop(guard);
        let guard = preempt::irq_save();
        yield_now();
        check!(!irq::are_enabled());
        drop(guard);
        note(2);
        yield_now();
        join(&[equal])?;
        check_eq!(take(), [2, 1]);
        Ok(())
    }

    /// A switch that is due when preemption is enabled with interrupts off waits for the interrupts.
    fn preempt_guard_inside_irq_guard(Shared) {
        let thread = spawn(0, MORE, waiter, 1)?;
        let irqs = preempt::irq_save();
        let preemption = preempt::disable();
        GO.give()?;
        drop(preemption);
        note(2);
        check!(!irq::are_enabled());
        drop(irqs);
        note(3);
        join(&[thread])?;
        check_eq!(take(), [1, 2, 101, 3]);
        Ok(())
    }
}
