//! What is recorded, read on the target.

use takt_kernel::trace::{self, SUB_BUFFER, SubBuffer};

static ROOM: spin::Mutex<SubBuffer> = spin::Mutex::new(SUB_BUFFER);

/// Calls `read` with each complete sub-buffer of a CPU, which then is in the ring no more.
pub fn drain(cpu: usize, mut read: impl FnMut(&[u8])) {
    trace::drain(cpu, &mut ROOM.lock(), |sub_buffer| read(sub_buffer));
}
