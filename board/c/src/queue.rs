//! Message queues: two semaphores count what is free and what is there, a mutex guards the ring. So messages may be of any
//! size: they are copied with interrupts and preemption on.

use core::ffi::c_void;
use core::ptr;

use takt_kernel::Error;
use takt_kernel::sync::{Mutex, Semaphore};
use takt_kernel::time::Instant;

use crate::object::{Body, Object};
use crate::result::{TAKT_INVALID_ARGUMENT, TAKT_OK, code, flatten};

/// A queue of messages of one size: a static variable, at first all zeros.
#[repr(C)]
pub struct TaktQueue {
    storage: [u64; 80],
}

/// What is inside.
struct Queue {
    free: Semaphore,
    filled: Semaphore,
    ring: Mutex<Ring>,
}

/// Room for `capacity` messages of `size` bytes.
struct Ring {
    room: *mut u8,
    size: usize,
    capacity: usize,
    /// The place of the first message.
    head: usize,
    len: usize,
}

// SAFETY: the room is the ring's alone.
unsafe impl Send for Ring {}

impl Body for Queue {
    type Storage = TaktQueue;
    const MAGIC: u32 = u32::from_le_bytes(*b"queu");
}

impl Ring {
    /// # Safety
    /// `message` has `size` bytes, and there is a place that is free.
    unsafe fn push(&mut self, message: *const u8) {
        let at = (self.head + self.len) % self.capacity;
        // SAFETY: inside the room.
        let place = unsafe { self.room.add(at * self.size) };
        // SAFETY: the caller's duty; nobody else's message is in the room.
        unsafe { ptr::copy_nonoverlapping(message, place, self.size) };
        self.len += 1;
    }

    /// # Safety
    /// `message` has room for `size` bytes, and there is a message.
    unsafe fn pop(&mut self, message: *mut u8) {
        // SAFETY: inside the room.
        let place = unsafe { self.room.add(self.head * self.size) };
        // SAFETY: the caller's duty; nobody else's message is in the room.
        unsafe { ptr::copy_nonoverlapping(place, message, self.size) };
        self.head = (self.head + 1) % self.capacity;
        self.len -= 1;
    }
}

/// Takes one of `from`, has `step` done to the ring, and gives one to `to`; what cannot be done changes nothing.
fn pass(
    queue: &Queue,
    [from, to]: [&Semaphore; 2],
    deadline: u64,
    step: impl FnOnce(&mut Ring),
) -> Result<(), Error> {
    from.take_until(Instant::from_cycles(deadline))?;
    match queue.ring.lock() {
        Ok(mut ring) => step(&mut ring),
        Err(error) => {
            from.give()?;
            return Err(error);
        }
    }
    to.give()
}

/// Initialises a queue of up to `capacity` messages of `message_size` bytes, which lie in `memory`. `TAKT_OK`,
/// `TAKT_INVALID_STATE`, `TAKT_INVALID_ARGUMENT` (no message, more than INT32_MAX, more than memory can be).
///
/// # Safety
/// The queue is static and nothing else writes to it. `memory` has `capacity * message_size` bytes, is static, and the queue's
/// alone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn takt_queue_init(
    queue: *mut TaktQueue,
    memory: *mut c_void,
    message_size: usize,
    capacity: u32,
) -> i32 {
    let bytes = message_size.checked_mul(capacity as usize);
    let is_there = bytes.is_some_and(|bytes| bytes > 0 && bytes <= isize::MAX as usize);
    if memory.is_null() || !is_there || capacity > i32::MAX as u32 {
        return TAKT_INVALID_ARGUMENT;
    }
    let body = Queue {
        free: Semaphore::new(capacity, capacity),
        filled: Semaphore::new(0, capacity),
        ring: Mutex::new(Ring {
            room: memory.cast(),
            size: message_size,
            capacity: capacity as usize,
            head: 0,
            len: 0,
        }),
    };
    // SAFETY: the caller's duty.
    let done = unsafe { Object::init(queue, body) };
    flatten(done.map(|()| TAKT_OK))
}

/// Sends a copy of the message, waiting for room until `deadline` at most: cycles, or TAKT_NEVER. Threads only.
/// `TAKT_OK`, `TAKT_TIMED_OUT`, `TAKT_WRONG_CONTEXT`, `TAKT_CHAIN_TOO_LONG`, `TAKT_NOT_INITIALISED`, `TAKT_INVALID_ARGUMENT`.
///
/// # Safety
/// As takt_queue_init; `message` has `message_size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn takt_queue_send(
    queue: *mut TaktQueue,
    message: *const c_void,
    deadline: u64,
) -> i32 {
    if message.is_null() {
        return TAKT_INVALID_ARGUMENT;
    }
    // SAFETY: the caller's duty.
    let queue = unsafe { Object::<Queue>::get(queue) };
    flatten(queue.map(|(_, it)| {
        // SAFETY: the caller's duty; the semaphore counts the places that are free.
        let step = |ring: &mut Ring| unsafe { ring.push(message.cast()) };
        code(pass(it, [&it.free, &it.filled], deadline, step))
    }))
}

/// Receives the oldest message into `message`, waiting for one until `deadline` at most: cycles, or TAKT_NEVER. Threads only.
/// `TAKT_OK`, `TAKT_TIMED_OUT`, `TAKT_WRONG_CONTEXT`, `TAKT_CHAIN_TOO_LONG`, `TAKT_NOT_INITIALISED`, `TAKT_INVALID_ARGUMENT`.
///
/// # Safety
/// As takt_queue_init; `message` has room for `message_size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn takt_queue_receive(
    queue: *mut TaktQueue,
    message: *mut c_void,
    deadline: u64,
) -> i32 {
    if message.is_null() {
        return TAKT_INVALID_ARGUMENT;
    }
    // SAFETY: the caller's duty.
    let queue = unsafe { Object::<Queue>::get(queue) };
    flatten(queue.map(|(_, it)| {
        // SAFETY: the caller's duty; the semaphore counts the messages that are there.
        let step = |ring: &mut Ring| unsafe { ring.pop(message.cast()) };
        code(pass(it, [&it.filled, &it.free], deadline, step))
    }))
}
