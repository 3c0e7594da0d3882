//! The end of a tracer's thread.

use crate::clock::{Instant, Nanos};
use crate::error::Error;
use crate::thread::handle::Thread;
use crate::time;

/// The highest priority that there is.
const HIGHEST: u8 = 99;

/// How long a thread is waited for before it is let go on once more.
const AGAIN: Nanos = Nanos::from_millis(10);

/// Waits until a tracer's thread, which was told to end, has ended. Others may have its handle, which a handler that interrupts
/// it is given: whoever suspends or lowers it keeps nobody here.
///
/// # Context
/// Threads that may block.
pub(super) fn wait_for_end(thread: Thread) {
    loop {
        // Each fails for a thread that has ended, or if there was none. Whatever computes meanwhile does not keep it from
        // coming to its end.
        let _ = thread.resume();
        let _ = thread.set_priority(HIGHEST);
        let _ = thread.unpark();
        match thread.join(Instant::after(AGAIN)) {
            Err(Error::TimedOut) => {}
            // Somebody else joins it.
            Err(Error::InvalidState) => {
                let _ = time::sleep(AGAIN);
            }
            _ => return,
        }
    }
}
