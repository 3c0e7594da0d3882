//! [`IrqLock`]: what threads, interrupt handlers and other CPUs change, each alone.

use spin::Mutex;
use takt_kernel::{preempt, proof};

/// A spin lock that is held with interrupts off.
///
/// # Context
/// Any but NMIs.
#[derive(Debug)]
pub struct IrqLock<T>(Mutex<T>);

impl<T> IrqLock<T> {
    /// A lock of this value.
    #[must_use]
    pub const fn new(value: T) -> Self {
        Self(Mutex::new(value))
    }

    /// Calls `act`, which has to be short: nothing interrupts it, and it delays whatever is due meanwhile. It may not take the
    /// same lock.
    #[inline(always)]
    pub fn with<R>(&self, act: impl FnOnce(&mut T) -> R) -> R {
        let guard = preempt::irq_save();
        let mut value = loop {
            if let Some(value) = self.0.try_lock() {
                break value;
            }
            proof::waits_for_lock();
            core::hint::spin_loop();
        };
        let result = act(&mut value);
        drop(value);
        guard.restore();
        result
    }
}
