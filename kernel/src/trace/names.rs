//! Names, told to a trace that begins after their owners.

use crate::irq;
use crate::probe::events;
use crate::thread::table::for_each_name;

/// Emits `thread_name` for every thread that exists and `irq_name` for every device interrupt that has a handler, so that a
/// trace which begins later knows their names.
///
/// # Context
/// Threads.
pub fn record_names() {
    irq::for_each(irq::record_name);
    for_each_name(|tid, name| {
        crate::trace_event!(events::thread_name, tid, name.as_bytes());
    });
}
