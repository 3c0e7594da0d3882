//! What a mutex consists of: who owns it, who waits for it, and what its owner inherits from them.

use core::cell::Cell;
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

use takt_scheduler::{Priority, ThreadId};

use crate::waiters::Waiters;

pub(super) const FREE: u32 = 0;
pub(super) const CONTENDED: u32 = 1 << 31;

/// The mutex without its data.
#[cfg_attr(feature = "tasks", repr(C))]
pub(crate) struct RawMutex {
    pub(super) waiters: Waiters,
    /// 0, or the owner's handle, + `CONTENDED` while someone waits.
    pub(super) word: AtomicU32,
    /// Priority of the most important waiter, as its owner has noted it.
    pub(super) top: Cell<Option<Priority>>,
    /// Next in the owner's list of contended mutexes.
    pub(super) next_held: Cell<*const RawMutex>,
    /// The one before it there, null for the first.
    pub(super) prev_held: Cell<*const RawMutex>,
    /// Its owner keeps it for good (see [`served`](super::served)): it is contended also while no one waits.
    #[cfg(feature = "tasks")]
    pub(super) is_kept: Cell<bool>,
}

// SAFETY: the word is an atomic. Whoever reaches the queue or a cell has a section with the lock of chains, as one CPU at a time has.
unsafe impl Sync for RawMutex {}
// SAFETY: not moved while anyone waits, since waiters borrow it.
unsafe impl Send for RawMutex {}

impl RawMutex {
    pub(crate) const fn new() -> Self {
        Self {
            word: AtomicU32::new(FREE),
            waiters: Waiters::new(),
            top: Cell::new(None),
            next_held: Cell::new(core::ptr::null()),
            prev_held: Cell::new(core::ptr::null()),
            #[cfg(feature = "tasks")]
            is_kept: Cell::new(false),
        }
    }

    /// Whether its owner keeps it for good.
    #[inline(always)]
    pub(crate) fn is_kept(&self) -> bool {
        #[cfg(feature = "tasks")]
        return self.is_kept.get();
        #[cfg(not(feature = "tasks"))]
        false
    }

    /// The owner; where someone waits, it has not ended.
    pub(crate) fn owner(&self) -> Option<ThreadId> {
        let word = self.word.load(Relaxed);
        (word != FREE).then(|| ThreadId::new(word as u8))
    }
}
