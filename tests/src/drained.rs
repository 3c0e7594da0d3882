//! What is recorded, read on the target.

use takt_kernel::trace::{self, SUB_BUFFER, SubBuffer};

static ROOM: spin::Mutex<SubBuffer> = spin::Mutex::new(SUB_BUFFER);

/// Ends the current sub-buffer of CPU 0, where tests run.
///
/// # Panics
/// On another CPU that finds CPU 0 recording.
pub fn close() {
    trace::close(0).expect("tests run on CPU 0");
}

/// Calls `read` with each complete sub-buffer of a CPU, which then is in the ring no more.
pub fn drain(cpu: usize, mut read: impl FnMut(&[u8])) {
    trace::drain(cpu, &mut ROOM.lock(), |sub_buffer| read(sub_buffer));
}
