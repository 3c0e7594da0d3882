//! The events that the current tracer needs.

use core::sync::atomic::{AtomicPtr, Ordering::Relaxed};

use crate::arch::jump_label::{Key, number};
use crate::compact::rolled;

static NEEDED: AtomicPtr<&'static [Key]> = AtomicPtr::new(core::ptr::null_mut());

pub(super) fn set(events: &'static &'static [Key]) {
    NEEDED.store(core::ptr::from_ref(events).cast_mut(), Relaxed);
}

/// Whether an event is one of them.
pub(super) fn has(id: u32) -> bool {
    // SAFETY: null, or what `set` was given.
    let events = unsafe { NEEDED.load(Relaxed).as_ref() };
    events.is_some_and(|events| rolled(events).any(|key| number(key) == id))
}
