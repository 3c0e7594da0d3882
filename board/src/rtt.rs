//! The log in memory and commands from the host, in SEGGER RTT's layout, so that debug probes understand it too.
//!
//! Up channel 0 takes defmt frames, each published as a whole (see [`log`](crate::log)). Down channel 0 takes commands: `s` stops
//! the measurement. Down channel 1 takes lines, which set what the words of the command line set at boot. The trace is no channel:
//! one write offset cannot describe sub-buffers that are overwritten.
//!
//! Source: SEGGER RTT, UM08001, "RTT implementation".

use core::cell::UnsafeCell;
use core::sync::atomic::{
    AtomicU32,
    Ordering::{Acquire, Relaxed, Release},
};

use takt_kernel::config::{
    RTT_DOWN_SIZE as DOWN_SIZE, RTT_LINES_SIZE as LINES_SIZE, RTT_UP_SIZE as UP_SIZE,
};

use crate::log::messages::Log;

#[repr(C)]
struct Channel {
    name: *const u8,
    buffer: *mut u8,
    size: u32,
    write: AtomicU32,
    read: AtomicU32,
    flags: u32,
}

#[repr(C)]
struct ControlBlock {
    id: [u8; 16],
    nr_up: i32,
    nr_down: i32,
    up: [Channel; 1],
    down: [Channel; 2],
}

// SAFETY: the pointers are to statics; the offsets are atomics.
unsafe impl Sync for ControlBlock {}

struct Buffer<const N: usize>(UnsafeCell<[u8; N]>);

// SAFETY: bytes are written by the side that owns them by the offsets.
unsafe impl<const N: usize> Sync for Buffer<N> {}

static UP: Buffer<UP_SIZE> = Buffer(UnsafeCell::new([0; UP_SIZE]));
static DOWN: Buffer<DOWN_SIZE> = Buffer(UnsafeCell::new([0; DOWN_SIZE]));
static LINES: Buffer<LINES_SIZE> = Buffer(UnsafeCell::new([0; LINES_SIZE]));

#[unsafe(no_mangle)]
#[cfg_attr(feature = "log", used)]
static _SEGGER_RTT: ControlBlock = ControlBlock {
    id: *b"SEGGER RTT\0\0\0\0\0\0",
    nr_up: 1,
    nr_down: 2,
    up: [Channel {
        name: c"defmt".as_ptr().cast(),
        buffer: UP.0.get().cast(),
        size: UP_SIZE as u32,
        write: AtomicU32::new(0),
        read: AtomicU32::new(0),
        flags: 0, // skip when full: never block
    }],
    down: [
        Channel {
            name: c"commands".as_ptr().cast(),
            buffer: DOWN.0.get().cast(),
            size: DOWN_SIZE as u32,
            write: AtomicU32::new(0),
            read: AtomicU32::new(0),
            flags: 0,
        },
        Channel {
            name: c"settings".as_ptr().cast(),
            buffer: LINES.0.get().cast(),
            size: LINES_SIZE as u32,
            write: AtomicU32::new(0),
            read: AtomicU32::new(0),
            flags: 0,
        },
    ],
};

/// Takes one command byte of the host, if there is one: two loads and a compare when there is none.
#[inline]
pub fn command() -> Option<u8> {
    let channel = &_SEGGER_RTT.down[0];
    let (write, read) = (channel.write.load(Acquire), channel.read.load(Relaxed));
    if write == read {
        return None;
    }
    take_command(write, read)
}

/// The rest of [`command`], away from who finds nothing.
#[cold]
#[inline(never)]
fn take_command(write: u32, read: u32) -> Option<u8> {
    // The host may have put anything there, which is never met.
    if write as usize >= DOWN_SIZE {
        return None;
    }
    let at = read as usize % DOWN_SIZE;
    // SAFETY: the host has written the bytes before `write`.
    let byte = unsafe { DOWN.0.get().cast::<u8>().wrapping_add(at).read_volatile() };
    _SEGGER_RTT.down[0]
        .read
        .store((at + 1) as u32 % DOWN_SIZE as u32, Release);
    Some(byte)
}

/// Takes one byte of the lines of the host, if there is one.
#[cfg_attr(not(feature = "image"), expect(dead_code, reason = "for `control`"))]
pub(crate) fn line_byte() -> Option<u8> {
    let channel = &_SEGGER_RTT.down[1];
    let (write, read) = (channel.write.load(Acquire), channel.read.load(Relaxed));
    if write == read {
        return None;
    }
    // The host may have put anything there, which is never met.
    if write as usize >= LINES_SIZE {
        return None;
    }
    let at = read as usize % LINES_SIZE;
    // SAFETY: the host has written the bytes before `write`.
    let byte = unsafe { LINES.0.get().cast::<u8>().wrapping_add(at).read_volatile() };
    channel
        .read
        .store((at + 1) as u32 % LINES_SIZE as u32, Release);
    Some(byte)
}

/// Puts a command there as the host does, for a host that cannot.
pub(crate) fn put_command(byte: u8) {
    let channel = &_SEGGER_RTT.down[0];
    let write = channel.write.load(Relaxed) as usize % DOWN_SIZE;
    let next = (write + 1) % DOWN_SIZE;
    if next == channel.read.load(Acquire) as usize {
        return; // as many wait to be read as there is room for
    }
    // SAFETY: the reader does not look at it before `write` has moved.
    unsafe {
        DOWN.0
            .get()
            .cast::<u8>()
            .wrapping_add(write)
            .write_volatile(byte)
    };
    channel.write.store(next as u32, Release);
}

/// Hands what was logged to `deliver` in pieces of up to `most` bytes and frees what it takes.
pub(crate) fn drain(most: usize, mut deliver: impl FnMut(&[u8]) -> bool) {
    let channel = &_SEGGER_RTT.up[0];
    loop {
        crate::log::pump();
        let (write, read) = (
            channel.write.load(Acquire) as usize,
            // The host may have put anything there.
            channel.read.load(Relaxed) as usize % UP_SIZE,
        );
        if write == read {
            return;
        }
        let end = if write > read { write } else { UP_SIZE };
        let end = end.min(read.saturating_add(most));
        // SAFETY: the logger leaves what lies between `read` and `write` alone.
        let piece = unsafe {
            core::slice::from_raw_parts(UP.0.get().cast::<u8>().wrapping_add(read), end - read)
        };
        if !deliver(piece) {
            return;
        }
        channel.read.store((end % UP_SIZE) as u32, Release);
    }
}

/// Whether something was logged that was not handed over.
pub(crate) fn has_data() -> bool {
    let channel = &_SEGGER_RTT.up[0];
    channel.write.load(Relaxed) != channel.read.load(Relaxed)
}

/// Whether so much was logged that was not handed over that it is to be soon: what comes then is lost when there is no room.
pub(crate) fn is_filling() -> bool {
    let channel = &_SEGGER_RTT.up[0];
    room(channel.write.load(Relaxed), channel.read.load(Relaxed)) < UP_SIZE / 4 * 3
}

/// The log's writing end. It is used by one at a time, which [`Messages`](crate::log) sees to.
pub(crate) struct Up;

impl Log for Up {
    #[inline(always)]
    fn has_room(&self, len: usize) -> bool {
        let channel = &_SEGGER_RTT.up[0];
        len < room(channel.write.load(Relaxed), channel.read.load(Acquire))
    }

    #[inline(always)]
    #[expect(
        clippy::multiple_unsafe_ops_per_block,
        reason = "the same for three widths"
    )]
    fn put(&mut self, done: usize, bytes: &[u8]) -> usize {
        let at = around(_SEGGER_RTT.up[0].write.load(Relaxed) as usize + done);
        let to = UP.0.get().cast::<u8>().wrapping_add(at);
        // As many at once as there are, and are room for up to the buffer's end: no loop.
        let room = bytes.len().min(UP_SIZE - at);
        let from = bytes.as_ptr();
        // SAFETY: there is room for all, which the reader does not look at before the message ends.
        unsafe {
            if room >= 16 {
                to.cast::<[u64; 2]>()
                    .write_unaligned(from.cast::<[u64; 2]>().read_unaligned());
                16
            } else if room >= 4 {
                to.cast::<u32>()
                    .write_unaligned(from.cast::<u32>().read_unaligned());
                4
            } else {
                to.write(from.read());
                1
            }
        }
    }

    #[inline(always)]
    fn end(&mut self, len: usize) {
        let channel = &_SEGGER_RTT.up[0];
        let end = around(channel.write.load(Relaxed) as usize + len);
        channel.write.store(end as u32, Release);
    }
}

/// The room in the log, and one byte that stays free. The host may have put anything in `read`: then it is anything, and messages
/// that nobody has read are written over, or none are written.
#[inline(always)]
const fn room(write: u32, read: u32) -> usize {
    let used = write
        .wrapping_add(if write < read { UP_SIZE as u32 } else { 0 })
        .wrapping_sub(read);
    UP_SIZE.wrapping_sub(used as usize)
}

/// A place in the log, where it may be behind its end by less than its size.
#[inline(always)]
fn around(at: usize) -> usize {
    if at < UP_SIZE { at } else { at - UP_SIZE }
}

#[cfg(test)]
mod tests {
    use super::{UP_SIZE, room};

    #[test]
    fn the_host_may_put_anything_in_its_index() {
        let size = UP_SIZE as u32;
        for (write, read) in [(0, 0), (size - 1, size - 1)] {
            assert_eq!(room(write, read), UP_SIZE);
        }
        assert_eq!((room(7, 3), room(3, 7)), (UP_SIZE - 4, 4));
        for read in [size, size + 1, 3 * size, u32::MAX / 2, u32::MAX] {
            for write in [0, 1, size - 1] {
                room(write, read);
            }
        }
    }
}
