//! Events that tasks emit. A task looks at a flag in its own memory before it calls, so an event that is off costs it two
//! instructions; whoever switches an event has the flags follow. What the task itself writes there is its own affair: the kernel
//! records what is on.

use core::cell::UnsafeCell;

use spin::Once;

use crate::arch::jump_label::{Key, number};
use crate::arch::proof;

/// An event of a task, as xtask packs it. Those of the same name are one event, with a flag in each task.
pub struct Event {
    /// Its id.
    pub id: Key,
    /// Whether it is on: the place in the kernel that all of that name have.
    pub is_on: fn() -> bool,
    /// Extra words of its records.
    pub words: usize,
    /// Whether they have a dynamic field.
    pub has_bytes: bool,
    /// The task's data and stack.
    pub memory: &'static UnsafeCell<[u8]>,
    /// Where its flag is in there.
    pub flag: usize,
}

// SAFETY: of the memory only the flag is written to, at once.
unsafe impl Sync for Event {}

static EVENTS: Once<&'static [Event]> = Once::new();

/// Introduces those of all tasks.
pub(crate) fn install(events: &'static [Event]) {
    EVENTS.call_once(|| events);
}

impl Event {
    /// Has its flag say whether it is on.
    pub(crate) fn set_flag(&self, on: bool) {
        let memory: *mut u8 = self.memory.get().cast();
        // SAFETY: inside the memory, which is the task's: it may write there as well, a byte at once.
        unsafe { memory.wrapping_add(self.flag).write_volatile(on.into()) };
    }
}

/// The event of this id is on from now on, or off.
pub(crate) fn follow(id: u32, on: bool) {
    for event in EVENTS.get().copied().unwrap_or_default() {
        proof::bounded!("events of tasks");
        if number(event.id) == id {
            event.set_flag(on);
        }
    }
}
