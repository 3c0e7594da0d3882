//! Handing over what is recorded: complete sub-buffers are copied out of a CPU's ring.
//!
//! A ring is written to at any time, and where the oldest is overwritten a sub-buffer may be too while it is read. So nobody
//! is lent the ring's memory. What was overwritten while it was copied is not shown; the sequence numbers of the sub-buffers
//! show that it is missing.
//!
//! ```compile_fail,E0521
//! use takt_kernel::trace::{self, SUB_BUFFER, SubBuffer};
//! let (mut kept, mut room): (&SubBuffer, _) = (&SUB_BUFFER, SUB_BUFFER);
//! trace::drain(0, &mut room, |sub_buffer| kept = sub_buffer);
//! ```
//! ```no_run
//! use takt_kernel::trace::{self, SUB_BUFFER};
//! let mut room = SUB_BUFFER;
//! while let Some(copied) = trace::copy_full(0, &mut room) {
//!     // Hand it over here.
//!     copied.consume();
//! }
//! ```

use takt_tracer::ring;

use crate::config::TRACE_SUB_SIZE;
use crate::probe::ring::RingOf;

/// What a sub-buffer is copied to.
pub type SubBuffer = [u8; TRACE_SUB_SIZE];

/// An empty one.
pub const SUB_BUFFER: SubBuffer = [0; TRACE_SUB_SIZE];

/// A complete sub-buffer that was copied, and is still in its ring.
#[derive(Debug)]
#[must_use = "hand it over, then consume it"]
pub struct Copied {
    ring: RingOf,
    full: ring::Full,
}

impl Copied {
    /// Gives it back to the writers. If one has taken it already, it counts as overwritten, and was handed over all the same.
    pub fn consume(self) {
        let _ = ring::consume(self.ring, self.full);
    }
}

/// Copies the oldest complete sub-buffer of a CPU's ring that was not consumed; `None` if there is none.
///
/// # Panics
/// If `cpu` is not below [`MAX_CPUS`](crate::config::MAX_CPUS).
///
/// # Context
/// Threads; one at a time for each CPU, and the image's capture is one. Of two, both get what is there, and its records count
/// twice as read.
pub fn copy_full(cpu: usize, to: &mut SubBuffer) -> Option<Copied> {
    let ring = RingOf::new(cpu);
    loop {
        let full = ring::peek_full(ring)?;
        ring.copy(full.offset, to);
        // Else a writer took it meanwhile.
        if ring::peek_full(ring) == Some(full) {
            return Some(Copied { ring, full });
        }
    }
}

/// Hands a copy of every complete sub-buffer of a CPU to `deliver`, one after the other in the same `room`.
///
/// # Panics
/// As [`copy_full`].
///
/// # Context
/// As [`copy_full`].
pub fn drain(cpu: usize, room: &mut SubBuffer, mut deliver: impl FnMut(&SubBuffer)) {
    while let Some(copied) = copy_full(cpu, room) {
        deliver(room);
        copied.consume();
    }
}

/// Gives every complete sub-buffer of a CPU back to the writers, unread.
///
/// # Panics
/// As [`copy_full`].
///
/// # Context
/// As [`copy_full`].
pub fn discard(cpu: usize) {
    let ring = RingOf::new(cpu);
    while let Some(full) = ring::peek_full(ring) {
        Copied { ring, full }.consume();
    }
}
