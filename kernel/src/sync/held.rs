//! The kernel's own mutexes, which have no data of their own: what each of them is the right to is held by a type.

use core::marker::PhantomData;

use super::raw_mutex::{Long, RawMutex};
use crate::arch::{interrupts, percpu};
use crate::clock::Instant;
use crate::error::Error;
use crate::sched;
use crate::thread::tcb::{NEVER_WAITS, TcbRef};

/// What one of the kernel's own mutexes is the right to.
pub(crate) trait Right {
    /// The mutex.
    const MUTEX: &'static RawMutex;
}

/// The running thread holds the mutex of this right until this is dropped.
#[must_use = "the mutex is given back at once"]
pub(crate) struct Held<R: Right> {
    /// Not `Send`: the owner is a thread.
    _not_send: PhantomData<*const R>,
}

impl<R: Right> Held<R> {
    /// Waits until no one else has it.
    ///
    /// # Errors
    /// Those of [`Mutex::lock`](crate::sync::Mutex::lock). [`Error::WrongContext`] also where nobody has it: what it is the right
    /// to may take waiting.
    ///
    /// # Context
    /// Threads that may block, and the boot context, in which nobody else is.
    #[inline(never)]
    pub(crate) fn wait() -> Result<Self, Error> {
        if !sched::may_block() && !is_boot() {
            return Err(Error::WrongContext);
        }
        R::MUTEX.lock(Instant::NEVER, Long::Refused)?;
        Ok(Self {
            _not_send: PhantomData,
        })
    }
}

/// Whether this is the boot context: the idle thread before anyone else runs, with interrupts off that no guard of its counts.
fn is_boot() -> bool {
    let me = TcbRef::current();
    !interrupts::are_enabled()
        && me.atomic() == NEVER_WAITS
        && percpu::preempt_byte() & !percpu::NO_RESCHED == 1
}

impl<R: Right> Drop for Held<R> {
    /// Not inlined: each right has several holders.
    #[inline(never)]
    fn drop(&mut self) {
        // This thread owns it, so that cannot fail.
        let result = R::MUTEX.unlock();
        debug_assert!(result.is_ok());
    }
}
