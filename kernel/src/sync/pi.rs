//! Priority inheritance: showing the kernel's tables to the scheduler's policy and carrying out its changes.

use takt_scheduler::pi::{PiError, PiWorld, Walk};
use takt_scheduler::{Priority, ThreadId};

use super::mutex::RawMutex;
use crate::error::Error;
use crate::lock::Section;
use crate::sched;
use crate::thread::tcb::tcb;

/// The tables, inside a section.
pub(crate) struct World<'a>(pub(crate) &'a Section);

impl PiWorld for World<'_> {
    type Mutex = *const RawMutex;

    fn base(&self, tid: ThreadId) -> Priority {
        // SAFETY: inside a section.
        unsafe { (*tcb(tid)).base }
    }

    fn effective(&self, tid: ThreadId) -> Priority {
        // SAFETY: inside a section.
        unsafe { (*tcb(tid)).prio }
    }

    fn top_waiter(&self, tid: ThreadId) -> Option<Priority> {
        // SAFETY: inside a section.
        let mut mutex = unsafe { (*tcb(tid)).held };
        let mut top: Option<Priority> = None;
        while !mutex.is_null() {
            // SAFETY: the list holds contended mutexes, which their waiters borrow.
            let held = unsafe { &*mutex };
            if let Some(prio) = held.waiters().get(self.0).top_priority() {
                top = Some(top.map_or(prio, |top| Priority::max_important(top, prio)));
            }
            mutex = held.next_held();
        }
        top
    }

    fn blocked_on(&self, tid: ThreadId) -> Option<Self::Mutex> {
        // SAFETY: inside a section.
        let mutex = unsafe { (*tcb(tid)).blocked_on };
        (!mutex.is_null()).then_some(mutex)
    }

    fn owner_of(&self, mutex: Self::Mutex) -> Option<ThreadId> {
        // SAFETY: the mutex is one that a thread waits for, which borrows it.
        unsafe { (*mutex).owner() }
    }
}

/// Follows a chain of owners and gives each the priority it has to have.
pub(crate) fn walk(section: &mut Section, mut walk: Walk) -> Result<(), Error> {
    loop {
        match walk.step(&World(section)) {
            Ok(Some(change)) => sched::requeue(section, change.tid, change.to, change.placement),
            Ok(None) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
    }
}

impl From<PiError> for Error {
    fn from(error: PiError) -> Self {
        match error {
            PiError::Deadlock => Self::Deadlock,
            PiError::ChainTooLong => Self::ChainTooLong,
        }
    }
}
