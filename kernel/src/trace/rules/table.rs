//! The table of filters and triggers, and what follows from it for an event's places.

use takt_tracer::rules::Rules;

use crate::arch::jump_label::keys;

/// What the host reads.
#[unsafe(no_mangle)]
pub(super) static TAKT_RULES: Rules = Rules::new();

keys! {
    /// Rules are about threads' names.
    pub(crate) NAMES;
}

/// A thread was created, and has this name.
///
/// # Context
/// Inside a section, while [`NAMES`] is on.
pub(crate) fn thread_named(tid: u8, name: &str) {
    TAKT_RULES.named(tid, name);
}

/// Whether the event's places stay on for triggers.
#[cfg(feature = "osnoise")]
pub(in crate::trace) fn is_kept(event: u32) -> bool {
    TAKT_RULES.is_kept(event)
}
