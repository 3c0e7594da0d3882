//! Whose stack it is that has overflowed, for reports of page faults.
//!
//! Below each stack lie addresses that no memory backs, its guard. A fault on one of them is an overflow of the stack above it.

use core::fmt;

use crate::arch::descriptors::{self, GUARD};
use crate::thread::stack::for_each_stack;
use crate::thread::table::name_by_guard;

/// Whether one of the two words of a frame lies on one.
pub(crate) fn is_guarded(frame: usize) -> bool {
    guard_owner(frame).is_some() || guard_owner(frame + 8).is_some()
}

/// Whose stack ends at this guard.
pub(crate) struct Owner(&'static str, &'static str);

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} '{}'", self.0, self.1)
    }
}

/// Whose it is, if the address lies on one.
pub(crate) fn guard_owner(address: usize) -> Option<Owner> {
    let holds = |guard: usize| (guard..guard + GUARD).contains(&address);
    let mut owner = None;
    descriptors::for_each_guard(|guard, name| {
        if holds(guard) {
            owner = Some(Owner("the CPU's stack", name));
        }
    });
    for_each_stack(|guard| {
        if holds(guard) {
            owner = Some(Owner("thread", name_by_guard(guard).unwrap_or("(ended)")));
        }
    });
    owner
}
