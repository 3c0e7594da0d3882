//! The log in memory and commands from the host, in SEGGER RTT's layout, so that debug probes understand it too.
//!
//! Up channel 0 takes defmt frames. A frame is staged and published as a whole; one that does not fit is dropped and
//! counted. Down channel 0 takes commands: `s` stops the measurement. Down channel 1 takes lines, which set what the
//! words of the command line set at boot.
//!
//! # Context
//! Logging disables interrupts for as long as one message takes: it is for set-up, tear-down and diagnostics, not for
//! measured paths. Never from NMI.
//!
//! Source: SEGGER RTT, UM08001, "RTT implementation"; defmt book, "Global logger".

use core::cell::UnsafeCell;
use core::sync::atomic::{
    AtomicBool, AtomicU32,
    Ordering::{Acquire, Relaxed, Release},
};

use takt_kernel::config::{
    RTT_DOWN_SIZE as DOWN_SIZE, RTT_LINES_SIZE as LINES_SIZE, RTT_UP_SIZE as UP_SIZE,
};
use takt_kernel::preempt::{self, IrqGuard};

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
#[used]
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

/// Log messages dropped because the buffer was full. The host reads this by the symbol: nothing in the log tells.
#[unsafe(no_mangle)]
pub(crate) static TAKT_LOG_DROPPED: AtomicU32 = AtomicU32::new(0);

/// Takes one command byte of the host, if there is one: two loads and a compare when there is none.
#[inline]
pub fn command() -> Option<u8> {
    let channel = &_SEGGER_RTT.down[0];
    let (write, read) = (channel.write.load(Acquire), channel.read.load(Relaxed));
    if write == read {
        return None;
    }
    let at = read as usize % DOWN_SIZE;
    // SAFETY: the host has written the bytes before `write`.
    let byte = unsafe { DOWN.0.get().cast::<u8>().wrapping_add(at).read_volatile() };
    channel
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
        let (write, read) = (
            channel.write.load(Acquire) as usize,
            channel.read.load(Relaxed) as usize,
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

/// A message in the making.
struct Message {
    guard: Option<IrqGuard>,
    encoder: defmt::Encoder,
    /// Where the next byte goes; published when the message is complete.
    at: usize,
    /// It does not fit.
    is_lost: bool,
}

struct State(UnsafeCell<Message>);

// SAFETY: used between `acquire` and `release` only, which exclude each other.
unsafe impl Sync for State {}

static STATE: State = State(UnsafeCell::new(Message {
    guard: None,
    encoder: defmt::Encoder::new(),
    at: 0,
    is_lost: false,
}));

/// Held while a message is written, by whichever CPU.
static BUSY: AtomicBool = AtomicBool::new(false);

fn put(bytes: &[u8]) {
    let channel = &_SEGGER_RTT.up[0];
    // SAFETY: between `acquire` and `release`.
    let message = unsafe { &mut *STATE.0.get() };
    for &byte in bytes {
        let next = (message.at + 1) % UP_SIZE;
        if message.is_lost || next == channel.read.load(Relaxed) as usize {
            message.is_lost = true;
            return;
        }
        // SAFETY: a byte that the reader does not look at before it is published.
        unsafe {
            UP.0.get()
                .cast::<u8>()
                .wrapping_add(message.at)
                .write_volatile(byte)
        };
        message.at = next;
    }
}

#[defmt::global_logger]
struct Logger;

// SAFETY: `acquire` disables interrupts and takes the lock, so messages do not mix.
unsafe impl defmt::Logger for Logger {
    fn acquire() {
        let guard = preempt::irq_save();
        while BUSY.swap(true, Acquire) {
            core::hint::spin_loop();
        }
        // SAFETY: interrupts are off and the lock is held.
        let message = unsafe { &mut *STATE.0.get() };
        // There is none: who has ended a message has taken it.
        core::mem::forget(message.guard.replace(guard));
        message.at = _SEGGER_RTT.up[0].write.load(Relaxed) as usize;
        message.is_lost = false;
        message.encoder.start_frame(put);
    }

    unsafe fn flush() {}

    unsafe fn release() {
        // SAFETY: between `acquire` and `release`.
        let message = unsafe { &mut *STATE.0.get() };
        message.encoder.end_frame(put);
        if message.is_lost {
            TAKT_LOG_DROPPED.fetch_add(1, Relaxed);
        } else {
            _SEGGER_RTT.up[0].write.store(message.at as u32, Release);
        }
        let guard = message.guard.take();
        BUSY.store(false, Release);
        if let Some(guard) = guard {
            guard.restore();
        }
    }

    unsafe fn write(bytes: &[u8]) {
        // SAFETY: between `acquire` and `release`.
        let message = unsafe { &mut *STATE.0.get() };
        message.encoder.write(bytes, put);
    }
}

defmt::timestamp!(
    "{=u64:us}",
    takt_kernel::time::cycles_to_nanos(takt_kernel::arch::tsc::now()) / 1000
);
