//! What a task that is in the kernel has left at its thread's stack's top: there the assembly of `entry_task` puts it, and there
//! others leave a message for it, or a reply.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use takt_abi::{Error, WORDS};

use crate::thread::tcb::TcbRef;

/// What a call goes back by. Others change it inside sections only, while its thread waits.
#[repr(C)]
pub(crate) struct Frame {
    /// The call's number, of a traced one.
    pub(super) number: AtomicU64,
    /// The call's result: 0, or an error's number.
    pub(crate) status: AtomicU64,
    /// Its value.
    pub(crate) value: AtomicU64,
    /// The message.
    pub(crate) words: [AtomicU64; WORDS],
    pub(crate) rflags: AtomicU64,
    pub(crate) rip: AtomicU64,
    pub(crate) rsp: AtomicU64,
}

impl Frame {
    /// A task's thread's.
    #[inline(always)]
    pub(crate) fn of(task: TcbRef) -> &'static Self {
        let frame = task.stack_top() - size_of::<Self>();
        // SAFETY: a task's stack in the kernel is static and aligned, and nothing else uses its top. All fields are atomics.
        unsafe { &*(frame as *const Self) }
    }

    /// The call's result.
    #[inline(always)]
    pub(super) fn give(&self, result: Result<u64, Error>) {
        let (status, value) = match result {
            Ok(value) => (0, value),
            Err(error) => (error as u64, 0),
        };
        self.status.store(status, Relaxed);
        self.value.store(value, Relaxed);
    }

    /// The words of another one's message.
    #[inline(always)]
    pub(super) fn copy(&self, from: &Self) {
        for (to, from) in self.words.iter().zip(&from.words) {
            to.store(from.load(Relaxed), Relaxed);
        }
    }

    /// The message.
    pub(super) fn message(&self) -> [u64; WORDS] {
        core::array::from_fn(|place| self.words[place].load(Relaxed))
    }

    /// Has another message.
    pub(super) fn set_message(&self, words: &[u64; WORDS]) {
        for (to, word) in self.words.iter().zip(words) {
            to.store(*word, Relaxed);
        }
    }
}
