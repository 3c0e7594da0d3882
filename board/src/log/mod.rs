//! defmt's logger: messages are made with interrupts on, and come into the log in short steps.
//!
//! A message is encoded in a buffer of its own, wherever it is logged: in a thread, which may be preempted at any
//! instruction, in an interrupt's handler or in an NMI's. When it is complete it is queued, and the queue is emptied into
//! the log ([`rtt`](crate::rtt)), some bytes at a time with interrupts off (see `messages`). So logging with interrupts on
//! keeps none waiting for longer than one such step, and no thread at all. With interrupts off, as in a handler, what is queued is copied
//! at once.
//!
//! A message for which there is no buffer, or that is longer than one, is dropped. The next message has one before it that says
//! how many were dropped since boot.
//!
//! Source: defmt book, "Global logger".

pub(crate) mod messages;

/// What `messages` is written with; a model checker has its own.
mod atomic {
    pub(super) use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering};

    /// A cell whose contents are reached by pointers.
    pub(super) struct Cell<T>(core::cell::UnsafeCell<T>);

    impl<T> Cell<T> {
        #[cfg(test)]
        pub(super) const fn new(value: T) -> Self {
            Self(core::cell::UnsafeCell::new(value))
        }

        #[inline(always)]
        pub(super) fn with<R>(&self, act: impl FnOnce(*const T) -> R) -> R {
            act(self.0.get())
        }

        #[inline(always)]
        pub(super) fn with_mut<R>(&self, act: impl FnOnce(*mut T) -> R) -> R {
            act(self.0.get())
        }
    }
}

use core::cell::UnsafeCell;
use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicU8, AtomicU32, Ordering::Relaxed};

use takt_kernel::config::{LOG_MESSAGE_SIZE, NR_LOG_MESSAGES, RTT_UP_SIZE};
use takt_kernel::context::{self, NR_CONTEXTS};
use takt_kernel::preempt;
use takt_kernel::time::Instant;

use crate::rtt::Up;
use messages::{Messages, Step};

const _: () = assert!(
    LOG_MESSAGE_SIZE < RTT_UP_SIZE,
    "a message fits into the log"
);

// SAFETY: all zeros is one without messages.
static MESSAGES: Messages<NR_LOG_MESSAGES, LOG_MESSAGE_SIZE> =
    unsafe { MaybeUninit::zeroed().assume_init() };

/// The state of each buffer's encoding.
struct Encoders([UnsafeCell<defmt::Encoder>; NR_LOG_MESSAGES]);

// SAFETY: each belongs to who has taken the buffer of its number.
unsafe impl Sync for Encoders {}

static ENCODERS: Encoders =
    Encoders([const { UnsafeCell::new(defmt::Encoder::new()) }; NR_LOG_MESSAGES]);

/// Stands for the buffer of a message about messages that were dropped.
const NOTICE: u8 = u8::MAX;

/// The number of the buffer that each context has taken, from 1 on; 0 is none.
static CURRENT: [AtomicU8; NR_CONTEXTS] = [const { AtomicU8::new(0) }; NR_CONTEXTS];

/// Messages that were dropped since boot. The host reads it by the symbol.
#[unsafe(no_mangle)]
pub(crate) static TAKT_LOG_DROPPED: AtomicU32 = AtomicU32::new(0);
/// As many of them as the log tells of.
static TOLD: AtomicU32 = AtomicU32::new(0);

/// Brings what is queued into the log, as far as there is room.
pub(crate) fn pump() {
    // SAFETY: copies bytes.
    while unsafe { preempt::without_irqs(|| MESSAGES.step(&mut Up)) } == Step::More {}
}

/// The same at the end of the run, wherever the others stopped.
///
/// # Context
/// Interrupts off, for good.
pub(crate) fn pump_last() {
    // SAFETY: other CPUs have halted, and what was interrupted on this one does not go on.
    unsafe { MESSAGES.take_over(100_000) };
    pump();
}

/// The buffer of the message that this context is making.
#[inline]
fn current() -> Option<usize> {
    usize::from(CURRENT[context::number()].load(Relaxed)).checked_sub(1)
}

/// Encodes into a buffer that this context has taken.
#[inline(always)]
fn encode(buffer: usize, act: impl FnOnce(&mut defmt::Encoder, &mut dyn FnMut(&[u8]))) {
    // SAFETY: the buffer is this context's own.
    let encoder = unsafe { &mut *ENCODERS.0[buffer].get() };
    // SAFETY: this context took the buffer and has not published it.
    act(encoder, &mut |bytes| unsafe {
        MESSAGES.push(buffer, bytes)
    });
}

/// Drops a message that this context is making.
fn give_up(buffer: usize) {
    // SAFETY: this context has taken it, and now has not.
    unsafe { MESSAGES.give_up(buffer) };
    TAKT_LOG_DROPPED.fetch_add(1, Relaxed);
}

#[cfg_attr(feature = "log", defmt::global_logger)]
struct Logger;

// SAFETY: each context has a buffer of its own, so messages do not mix.
unsafe impl defmt::Logger for Logger {
    fn acquire() {
        let mine = &CURRENT[context::number()];
        let before = mine.load(Relaxed);
        if before != 0 && before != NOTICE {
            // A panic, or what a message prints of itself logs: the outer one will not be whole.
            give_up(usize::from(before) - 1);
        }
        let Some(buffer) = MESSAGES.take() else {
            mine.store(0, Relaxed);
            if before == NOTICE {
                // To be told again.
                TOLD.fetch_sub(1, Relaxed);
            } else {
                TAKT_LOG_DROPPED.fetch_add(1, Relaxed);
            }
            return;
        };
        let dropped = TAKT_LOG_DROPPED.load(Relaxed);
        if before != NOTICE && TOLD.swap(dropped, Relaxed) != dropped {
            mine.store(NOTICE, Relaxed);
            defmt::warn!("{=u32} log messages were dropped up to here", dropped);
        }
        mine.store(buffer as u8 + 1, Relaxed);
        encode(buffer, |encoder, push| {
            *encoder = defmt::Encoder::new();
            encoder.start_frame(push);
        });
    }

    unsafe fn flush() {
        pump();
    }

    unsafe fn release() {
        if let Some(buffer) = current() {
            encode(buffer, |encoder, push| encoder.end_frame(push));
            CURRENT[context::number()].store(0, Relaxed);
            // SAFETY: this context's own until here.
            if unsafe { MESSAGES.is_whole(buffer) } {
                // SAFETY: this context's own until here.
                let publish = || unsafe { MESSAGES.publish(buffer) };
                // SAFETY: it calls nothing of the kernel's.
                unsafe { preempt::without_irqs(publish) };
            } else {
                give_up(buffer);
            }
        }
        pump();
    }

    unsafe fn write(bytes: &[u8]) {
        if let Some(buffer) = current() {
            encode(buffer, |encoder, push| encoder.write(bytes, push));
        }
    }
}

/// The logger of an image without a log.
#[cfg(not(feature = "log"))]
#[defmt::global_logger]
struct Nobody;

// SAFETY: nothing is written.
#[cfg(not(feature = "log"))]
unsafe impl defmt::Logger for Nobody {
    fn acquire() {}
    unsafe fn flush() {}
    unsafe fn release() {}
    unsafe fn write(_: &[u8]) {}
}

defmt::timestamp!(
    "{=u64:us}",
    (Instant::now() - Instant::ZERO).to_nanos().get() / 1000
);
