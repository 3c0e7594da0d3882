//! Watchdogs of tasks: one that does not feed its own in time is stopped by a fault, whatever it does or waits for.
//!
//! To feed it is to note a later time. The timer is not moved for that: it comes, and is armed for the time of now if that is not over.

use spin::Once;
use takt_abi::{Error, FaultKind};

use super::object::{Task, all};
use crate::arch::interrupts;
use crate::clock::{Instant, Nanos};
use crate::config::MAX_TASKS;
use crate::preempt;
use crate::section;
use crate::soft_timer::{self, Expiry};
use crate::timers;

/// The timer, among the kernel's own, of a task's watchdog.
const fn timer_of(number: usize) -> usize {
    1 + MAX_TASKS + number
}

/// The machine's watchdog: which task feeds it, and how that is done.
static MACHINES: Once<(usize, fn())> = Once::new();

/// Has the task of this number feed the machine's watchdog as well, which `feed` does, whenever it feeds its own. Once.
///
/// # Safety
/// The machine's watchdog is the caller's. `feed` is called in the task's thread, inside a call of its: it waits for nothing, since what
/// stops a task knows of no such wait.
///
/// # Context
/// Any but NMI.
pub unsafe fn set_machine_watchdog(number: usize, feed: fn()) {
    // Nobody comes in between who would wait for the end of this.
    let alone = preempt::irq_save();
    MACHINES.call_once(|| (number, feed));
    drop(alone);
}

impl Task {
    /// A life begins in ring 3 at once: its watchdog has the whole time, if it has one. With interrupts off from here on, since what
    /// stops the task changes where it goes on there.
    pub(super) fn begin_watchdog(&self) {
        if self.program.watchdog == Nanos::ZERO {
            return;
        }
        let number = self.number();
        interrupts::disable();
        // SAFETY: it was disarmed at the end of the life before, and nobody else makes it.
        unsafe { soft_timer::init(timer_of(number), bite, number) };
        self.put_off_bite();
        let id = soft_timer::kernels(timer_of(number));
        timers::insert_and_leave(section::own(), id, self.bites_at.load());
    }

    /// Its life ends: its thread is not to be stopped on the way to the next one.
    pub(super) fn end_watchdog(&self) {
        if self.program.watchdog == Nanos::ZERO {
            return;
        }
        let mut section = section::own_thread();
        timers::cancel(&mut section, soft_timer::kernels(timer_of(self.number())));
        section.leave_quietly();
    }

    /// [`Call::Feed`](takt_abi::Call::Feed).
    pub(super) fn feed(&self) -> Result<(), Error> {
        let machines = MACHINES.get().filter(|it| it.0 == self.number());
        if let Some((_, feed)) = machines {
            feed();
        }
        match self.program.watchdog {
            Nanos::ZERO if machines.is_some() => Ok(()),
            Nanos::ZERO => Err(Error::InvalidArgument),
            _ => {
                self.put_off_bite();
                Ok(())
            }
        }
    }

    fn put_off_bite(&self) {
        let time = self.program.watchdog.to_cycles();
        self.bites_at.store(Instant::now() + time);
    }
}

/// The watchdog of this task bites, unless it was fed.
fn bite(number: usize, _: Expiry) {
    let Some(task) = all().get(number).filter(|it| it.is_alive()) else {
        return;
    };
    let mut section = section::own_irq();
    let bites_at = task.bites_at.load();
    if bites_at > Instant::now() {
        let id = soft_timer::kernels(timer_of(number));
        timers::insert_at_expiry(&mut section, id, bites_at);
    } else {
        task.stop_at_next(task.port.thread(), FaultKind::Watchdog);
        task.have_stop(&mut section);
    }
    section.release();
}
