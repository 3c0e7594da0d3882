//! [`IrqLock`]: what threads, interrupt handlers and other CPUs change, each alone.

use core::fmt;

use spin::RelaxStrategy;
use spin::mutex::{TicketMutex, TicketMutexGuard};
use takt_kernel::{machine, preempt, proof};

/// A spin lock that is held with interrupts off. CPUs get it in the order in which they came: each waits for the others once.
///
/// # Context
/// Any but NMIs.
pub struct IrqLock<T>(TicketMutex<T, Serve>);

/// What a CPU does while it waits: what others ask of it. An [`IrqLock`] is waited for with interrupts off.
struct Serve;

impl RelaxStrategy for Serve {
    fn relax() {
        // SAFETY: `IrqLock::with` has switched interrupts off, and NMIs take no such lock.
        let _ = unsafe { machine::serve_other_cpus() };
    }
}

impl<T> IrqLock<T> {
    /// A lock of this value.
    #[must_use]
    pub const fn new(value: T) -> Self {
        Self(TicketMutex::new(value))
    }

    /// Calls `act`, which has to be short: nothing interrupts it, and it delays whatever is due meanwhile. It may not take the
    /// same lock, nor another that is held around this one elsewhere. What it calls may wait for another CPU, which does what it is
    /// asked while it waits for this lock.
    ///
    /// # Panics
    /// Where a fault or panic is reported, or the run ended, if the lock is that of a CPU that has halted for that, or of this one: what
    /// it protects may be half changed, and is still lent. On one CPU, if it is taken twice.
    #[inline(always)]
    pub fn with<R>(&self, act: impl FnOnce(&mut T) -> R) -> R {
        let guard = preempt::irq_save();
        let mut value = match self.0.try_lock() {
            Some(value) => value,
            None => self.wait(),
        };
        let result = act(&mut value);
        drop(value);
        guard.restore();
        result
    }

    #[cold]
    #[inline(never)]
    fn wait(&self) -> TicketMutexGuard<'_, T, Serve> {
        // SAFETY: as in `relax`.
        let others_go_on = unsafe { machine::serve_other_cpus() };
        // What prints a panic's message may come here, in the middle of `act`.
        assert!(others_go_on, "a lock that a halted CPU has, or this one");
        proof::waits_for_lock();
        self.0.lock()
    }
}

/// Without the value: it would be read for as long as whoever formats it likes, with interrupts on.
impl<T> fmt::Debug for IrqLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IrqLock").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use core::fmt;
    use std::format;

    use super::IrqLock;

    struct Value;

    impl fmt::Debug for Value {
        fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
            panic!("read without the lock, or for how long nobody knows")
        }
    }

    #[test]
    fn to_format_a_lock_is_not_to_take_it() {
        assert_eq!(format!("{:?}", IrqLock::new(Value)), "IrqLock { .. }");
    }
}
