//! How much time hooks of tracers have taken on a CPU, which is hidden from the system that they measure ([`timed`](super::timed)).

use crate::clock::{AtomicCycles, AtomicInstant};

/// What the hooks of a CPU have taken. In its block, and changed by that CPU only.
#[derive(Debug)]
pub(crate) struct Hooks {
    /// The TSC when the one under way took its first time stamp.
    pub(super) entered: AtomicInstant,
    /// What those before it have taken.
    pub(super) before: AtomicCycles,
    /// What all of them have taken.
    /// Another CPU may read it, and then misses what a hook under way has taken.
    pub(super) hidden: AtomicCycles,
}
