//! Which thread ids are free: a stack of them, so that one is taken or given back in a few instructions.
//!
//! An id is the index of a control block. The ids of idle threads, one for each CPU, are never in it.

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

// SAFETY: reached by `free_ids` only, with the lock of threads held, which one CPU has at a time.
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

/// The free ids, which a section protects.
#[inline(always)]
fn free_ids(_: &mut Kernel) -> &mut FreeIds {
    // SAFETY: reached here only, and the reference ends with the borrow of the section.
    unsafe { &mut *FREE_IDS.0.get() }
}

/// The next free id.
#[inline(always)]
pub(super) fn take_id(kernel: &mut Kernel) -> Option<ThreadId> {
    let free = free_ids(kernel);
    free.nr = free.nr.checked_sub(1)?;
    Some(ThreadId::new(free.ids[free.nr & (MAX_THREADS - 1)]))
}

/// A thread's id is free again.
pub(super) fn give_id_back(kernel: &mut Kernel, tid: ThreadId) {
    let free = free_ids(kernel);
    free.ids[free.nr & (MAX_THREADS - 1)] = tid.raw();
    free.nr += 1;
}
