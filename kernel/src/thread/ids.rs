//! The ids of threads that no one has.

use core::cell::UnsafeCell;

use takt_scheduler::ThreadId;

use crate::config::{MAX_CPUS, MAX_THREADS};
use crate::section::Kernel;

/// The free thread ids, a stack: the one on top is the next to be used.
struct FreeIds {
    nr: usize,
    ids: [u8; MAX_THREADS],
}

struct FreeIdsCell(UnsafeCell<FreeIds>);

// SAFETY: reached inside a section only.
unsafe impl Sync for FreeIdsCell {}

/// At first all but the idle threads', the lowest on top.
static FREE_IDS: FreeIdsCell = FreeIdsCell(UnsafeCell::new({
    let mut free = FreeIds {
        nr: MAX_THREADS - MAX_CPUS,
        ids: [0; MAX_THREADS],
    };
    let mut i = 0;
    while i < free.nr {
        free.ids[i] = (MAX_THREADS - 1 - i) as u8;
        i += 1;
    }
    free
}));

/// The next free id.
#[inline(always)]
pub(super) fn take_id(_: &mut Kernel) -> Option<ThreadId> {
    // SAFETY: reached inside a section only, and here and in the function beside it only.
    let free = unsafe { &mut *FREE_IDS.0.get() };
    free.nr = free.nr.checked_sub(1)?;
    Some(ThreadId::new(free.ids[free.nr & (MAX_THREADS - 1)]))
}

/// A thread's id is free again.
pub(super) fn give_id_back(_: &mut Kernel, tid: ThreadId) {
    // SAFETY: reached inside a section only, and here and in the function beside it only.
    let free = unsafe { &mut *FREE_IDS.0.get() };
    free.ids[free.nr & (MAX_THREADS - 1)] = tid.raw();
    free.nr += 1;
}
