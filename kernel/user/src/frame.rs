//! defmt's logger: a frame is made in a buffer of the task's, as it is, and the kernel takes it from there. Which level is compiled in
//! is said by `DEFMT_LOG`, as for the kernel.
//!
//! Source: defmt book, "Global logger".

use core::cell::UnsafeCell;

use crate::abi::MAX_LOG;
use crate::syscall;

struct Frame {
    bytes: [u8; MAX_LOG],
    /// More than there is room for if it is not whole.
    len: usize,
}

struct Own(UnsafeCell<Frame>);

// SAFETY: a task has one thread.
unsafe impl Sync for Own {}

static FRAME: Own = Own(UnsafeCell::new(Frame {
    bytes: [0; MAX_LOG],
    len: 0,
}));

/// Of a frame that another one was made in the middle of, by a value that logs while it is logged.
const LOST: usize = usize::MAX;

fn frame() -> &'static mut Frame {
    // SAFETY: the task's one thread does, and what it does with it calls nothing.
    unsafe { &mut *FRAME.0.get() }
}

#[defmt::global_logger]
struct Logger;

// SAFETY: a task has one thread, and what is made in the middle of a frame makes that one lost.
unsafe impl defmt::Logger for Logger {
    fn acquire() {
        frame().len = 0;
    }

    unsafe fn flush() {}

    unsafe fn release() {
        let frame = frame();
        syscall::log_frame(frame.bytes.as_ptr(), frame.len);
        frame.len = LOST;
    }

    unsafe fn write(bytes: &[u8]) {
        let frame = frame();
        let end = frame.len.saturating_add(bytes.len());
        if let Some(room) = frame.bytes.get_mut(frame.len..end) {
            room.copy_from_slice(bytes);
        }
        frame.len = end;
    }
}
