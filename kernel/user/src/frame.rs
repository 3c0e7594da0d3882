//! defmt's logger: a frame is made in a buffer of the thread's, as it is, and the kernel takes it from there. Which level is compiled in
//! is said by `DEFMT_LOG`, as for the kernel.
//!
//! Source: defmt book, "Global logger".

use core::arch::asm;

use crate::abi::{MAX_LOG, OWN};
use crate::syscall;

#[repr(C)]
struct Frame {
    bytes: [u8; MAX_LOG],
    /// More than there is room for if it is not whole.
    len: usize,
}

const _: () = assert!(size_of::<Frame>() <= OWN && align_of::<Frame>() <= 16);

/// Of a frame that another one was made in the middle of, by a value that logs while it is logged.
const LOST: usize = usize::MAX;

fn frame() -> &'static mut Frame {
    let frame: *mut Frame;
    // SAFETY: only reads the register, which the kernel has set.
    unsafe { asm!("rdfsbase {}", out(reg) frame, options(nomem, nostack, preserves_flags)) };
    // SAFETY: the thread has these bytes for this alone, and what it does with them calls nothing.
    unsafe { &mut *frame }
}

#[defmt::global_logger]
struct Logger;

// SAFETY: a thread has a frame of its own, and what is made in the middle of one makes that one lost.
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
