//! [`ThreadSet`]: a set of threads to which several CPUs, and handlers between any two instructions, may add at once without a lock.
//!
//! By it one context leaves word for another: whoever takes a thread out sees all that was written before it was put in.

use core::sync::atomic::{
    AtomicU64,
    Ordering::{AcqRel, Relaxed},
};

use takt_scheduler::ThreadId;

use crate::config::MAX_THREADS;

/// A bit for each thread; zeros are an empty set.
pub(crate) struct ThreadSet([AtomicU64; MAX_THREADS.div_ceil(64)]);

impl ThreadSet {
    /// Of no thread.
    pub(crate) const fn new() -> Self {
        Self([const { AtomicU64::new(0) }; MAX_THREADS.div_ceil(64)])
    }

    /// Whether no thread is in it, at a moment.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.iter().all(|word| word.load(Relaxed) == 0)
    }

    /// Puts a thread in; says whether it was not there. What was written before is seen by whoever finds it there.
    pub(crate) fn insert(&self, tid: ThreadId) -> bool {
        let index = tid.index() % MAX_THREADS;
        let bit = 1 << (index % 64);
        self.0[index / 64].fetch_or(bit, AcqRel) & bit == 0
    }

    /// Takes one out.
    pub(crate) fn take(&self) -> Option<ThreadId> {
        self.0.iter().enumerate().find_map(|(number, word)| {
            let bit = word.load(Relaxed).checked_ilog2()?;
            word.fetch_and(!(1 << bit), AcqRel);
            Some(thread(number, bit))
        })
    }

    /// Takes those out that are in it, and calls `act` for each.
    pub(crate) fn take_all(&self, mut act: impl FnMut(ThreadId)) {
        for (number, word) in self.0.iter().enumerate() {
            if word.load(Relaxed) == 0 {
                continue;
            }
            let mut bits = word.swap(0, AcqRel);
            while bits != 0 {
                act(thread(number, bits.trailing_zeros()));
                bits &= bits - 1;
            }
        }
    }
}

/// The thread of a bit in the word of that number.
const fn thread(number: usize, bit: u32) -> ThreadId {
    ThreadId::new((64 * number as u32 + bit) as u8)
}
