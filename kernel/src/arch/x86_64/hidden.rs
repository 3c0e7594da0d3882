//! How much time hooks of tracers have taken on a CPU, which is hidden from the system that they measure ([`timed`](super::timed)).

use core::sync::atomic::AtomicU64;

/// What the hooks of a CPU have taken. In its block, and changed by that CPU only.
#[derive(Debug)]
pub(crate) struct Hooks {
    /// The TSC when the one under way took its first time stamp.
    pub(super) entered: AtomicU64,
    /// What those before it have taken, in cycles.
    pub(super) before: AtomicU64,
    /// What all of them have taken, in cycles.
    /// Another CPU may read it, and then misses what a hook under way has taken.
    pub(super) hidden: AtomicU64,
}
