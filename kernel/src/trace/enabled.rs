//! Whether an event is on.

use crate::arch::jump_label;

/// Whether an event is on: whether any of its places is, and not for its triggers only.
///
/// # Context
/// Any.
#[must_use]
#[inline(never)]
pub fn is_enabled(id: u32) -> bool {
    #[cfg(feature = "rules")]
    if super::rules::soft::is_soft(id) {
        return false;
    }
    jump_label::is_on(id)
}
