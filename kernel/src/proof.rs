//! What code outside the kernel has to tell `cargo xtask prove` of its loops (see `docs/PROVE.md`). None of it is an instruction.

use crate::arch::proof;

/// While one CPU runs nobody comes here, where one waits for a lock that is only held with interrupts off.
///
/// # Context
/// Any but NMI, with interrupts off.
#[inline(always)]
pub fn waits_for_lock() {
    proof::not_alone!("a lock that is held with interrupts off is free");
}

/// A loop comes round that takes as long as its caller has asked for.
///
/// # Context
/// Any.
#[inline(always)]
pub fn goes_on_as_asked() {
    proof::bounded!("rounds in the time that was asked for");
}

/// A loop comes round for another part of a device, as it is set up.
///
/// # Context
/// Any.
#[inline(always)]
pub fn goes_over_parts() {
    proof::bounded!("parts of a device that is set up");
}
