//! [`Threads`]: of which threads events are recorded.

use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

use crate::named;

named! {
    /// A list of threads.
    pub enum ThreadList {
        /// Those of which events are recorded; of all if there are none: `set_event_pid`.
        Only = "event_pid",
        /// Those of which they are not: `set_event_notrace_pid`.
        Not = "event_notrace_pid",
    }
}

/// Words of a set of threads, with a bit for each.
pub(super) const WORDS: usize = 8;

/// The lists of threads.
#[repr(C)]
#[derive(Debug)]
pub struct Threads {
    /// By [`ThreadList`].
    pub(super) lists: [[AtomicU32; WORDS]; 2],
    /// 1 for each list that has a thread.
    nr: [AtomicU32; 2],
}

impl Threads {
    pub(super) const fn new() -> Self {
        Self {
            lists: [const { [const { AtomicU32::new(0) }; WORDS] }; 2],
            nr: [const { AtomicU32::new(0) }; 2],
        }
    }

    /// Replaces a list.
    ///
    /// # Context
    /// While nobody else runs.
    pub fn set(&self, list: ThreadList, threads: impl Iterator<Item = u8>) {
        let (words, nr) = (&self.lists[list as usize], &self.nr[list as usize]);
        words.iter().for_each(|word| word.store(0, Relaxed));
        nr.store(0, Relaxed);
        for tid in threads {
            words[usize::from(tid / 32)].fetch_or(1 << (tid % 32), Relaxed);
            nr.store(1, Relaxed);
        }
    }

    /// Whether no list has a thread.
    ///
    /// # Context
    /// Any.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.nr.iter().all(|nr| nr.load(Relaxed) == 0)
    }

    /// Whether a thread's events are not recorded.
    ///
    /// # Context
    /// Any, NMI included.
    #[must_use]
    #[inline(never)]
    pub fn leave_out(&self, tid: u8) -> bool {
        let has = |list: ThreadList| {
            let word = &self.lists[list as usize][usize::from(tid / 32)];
            word.load(Relaxed) >> (tid % 32) & 1 != 0
        };
        let is_chosen = self.nr[0].load(Relaxed) == 0 || has(ThreadList::Only);
        !is_chosen || has(ThreadList::Not)
    }
}
