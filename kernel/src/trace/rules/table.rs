//! The table of filters and triggers, and what follows from it for an event's places.

use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

use takt_tracer::filter::program::change_set;
use takt_tracer::rules::Rules;

use crate::arch::jump_label::keys;
use crate::section;

/// What the host reads.
#[unsafe(no_mangle)]
pub(super) static TAKT_RULES: Rules = Rules::new();

keys! {
    /// Rules are about threads' names.
    pub(crate) NAMES;
}

/// How often rules were changed.
static CHANGES: AtomicU32 = AtomicU32::new(0);

/// Rules are changed, and are told of all threads.
///
/// # Context
/// While nobody else runs.
pub(super) fn changed() {
    CHANGES.fetch_add(1, Relaxed);
}

/// A thread was created, and has this name. To compare names takes long, so that is done with interrupts on.
///
/// # Context
/// Any but NMIs, while [`NAMES`] is on, and outside of sections.
pub(crate) fn thread_named(tid: u8, name: &str) {
    let before = CHANGES.load(Relaxed);
    TAKT_RULES.named_in_steps(tid, name, &mut |word, bit, is_in| {
        // Whoever changes rules waits for its end.
        let section = section::own();
        if CHANGES.load(Relaxed) == before {
            change_set(word, bit, is_in);
        }
        section.leave_quietly();
    });
}

/// Whether the event's places stay on for triggers.
#[cfg(feature = "osnoise")]
pub(in crate::trace) fn is_kept(event: u32) -> bool {
    TAKT_RULES.is_kept(event)
}
