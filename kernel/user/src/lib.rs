//! For protected tasks: the kernel's calls as safe functions, the entry, the panic handler.
//!
//! ```ignore
//! #![no_std]
//! #![no_main]
//!
//! takt_user::entry!(main);
//!
//! const SERVER: takt_user::Peer = takt_user::Peer::new(0);
//!
//! fn main(_: u64) {
//!     let answer = SERVER.call([1, 2, 3, 4, 5, 6]);
//!     takt_user::log!("{answer:?}");
//! }
//! ```
#![no_std]

pub mod device;
#[cfg(feature = "task")]
mod frame;
mod lease;
#[cfg(feature = "task")]
#[path = "../../../board/src/memory.rs"]
mod memory;
mod syscall;
mod text;
mod time;
pub mod timerlat;
mod trace;

/// For macros: a path from the root is the caller's to say what it means.
#[doc(hidden)]
pub use core as __core;
pub use lease::{Info, Lease, Leased};
pub use syscall::{exit, feed, null, receive, reply, reply_and_receive, sleep_until, yield_now};
pub use takt_abi as abi;
pub use takt_abi::{Error, FaultKind};
/// What events are declared with; `event!` and `event_class!` do it.
pub use takt_tracer as tracer;
pub use takt_tracer::{event, event_class};
pub use text::log;
pub use time::{Cycles, Instant, Nanos};
pub use trace::TaskSink;

/// A message: six words, which are copied from task to task.
pub type Message = [u64; abi::WORDS];

/// Another task, by the number of the handle: its place among the `peers` that the manifest gives this task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Peer(u32);

impl Peer {
    /// The one of this number. Whether there is one shows when it is used.
    #[must_use]
    pub const fn new(number: u32) -> Self {
        Self(number)
    }

    const fn number(self) -> u32 {
        self.0
    }

    /// Sends it a message and waits for the reply. It runs with the caller's priority meanwhile, if its own is lower.
    ///
    /// # Errors
    /// [`Error::NoHandle`], [`Error::NoRight`], [`Error::Stale`], [`Error::Dead`], [`Error::Deadlock`].
    pub fn call(self, message: Message) -> Result<Message, Error> {
        syscall::call(self.0, message)
    }

    /// As [`call`](Self::call), but waits for the reply until `deadline` at most. The other one may still receive
    /// the message then, and its reply goes nowhere.
    ///
    /// # Errors
    /// [`Error::TimedOut`], and those of [`call`](Self::call).
    pub fn call_until(self, message: Message, deadline: Instant) -> Result<Message, Error> {
        syscall::call_until(self.0, message, deadline)
    }

    /// Has it receive these notifications; those that it has not received yet are added to.
    ///
    /// # Errors
    /// [`Error::NoHandle`], [`Error::NoRight`], [`Error::Stale`], [`Error::Dead`];
    /// [`Error::InvalidArgument`] for other bits than [`abi::NOTIFICATIONS`].
    pub fn notify(self, bits: u32) -> Result<(), Error> {
        syscall::notify(self.0, bits)
    }

    /// From now on means the life that the task lives now.
    ///
    /// # Errors
    /// [`Error::NoHandle`]; [`Error::Dead`] if it does not live.
    pub fn renew(self) -> Result<(), Error> {
        syscall::renew(self.0)
    }
}

/// A semaphore, by the number of the handle: its place among the `semaphores` that the manifest gives this task. It keeps its permits
/// whoever dies; one that a task had taken which was stopped is lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Semaphore(u32);

impl Semaphore {
    /// The one of this number. Whether there is one shows when it is used.
    #[must_use]
    pub const fn new(number: u32) -> Self {
        Self(number)
    }

    /// Takes a permit, waiting for it until `deadline` at most; with [`Instant::ZERO`] only if there is one.
    ///
    /// # Errors
    /// [`Error::TimedOut`], [`Error::NoHandle`], [`Error::NoRight`].
    pub fn take(self, deadline: Instant) -> Result<(), Error> {
        syscall::take(self.0, deadline)
    }

    /// Gives a permit, which the most important one of those who wait has.
    ///
    /// # Errors
    /// [`Error::Overflow`] if it has as many as it may have; [`Error::NoHandle`], [`Error::NoRight`].
    pub fn give(self) -> Result<(), Error> {
        syscall::give(self.0)
    }
}

/// What was received.
#[derive(Clone, Copy, Debug)]
pub struct Received {
    /// Notifications; there may be some beside a message.
    pub bits: u32,
    /// The message, of a task that waits for a reply.
    pub call: Option<Incoming>,
}

/// A message that was received.
#[derive(Clone, Copy, Debug)]
pub struct Incoming {
    /// Who sent it: the badge that the manifest gave the sender's handle; of a fault the number of the task.
    pub badge: u32,
    /// Whether it is a [`fault`](abi::fault).
    pub is_fault: bool,
    /// Its words.
    pub message: Message,
}

/// Declares the task's main function, `fn(u64)`, which is told the number that the task was started with. When it returns, the
/// task has ended.
#[macro_export]
macro_rules! entry {
    ($main:path) => {
        #[unsafe(no_mangle)]
        extern "C" fn takt_task_main(argument: $crate::__core::primitive::u64) -> ! {
            let main: fn($crate::__core::primitive::u64) = $main;
            main(argument);
            $crate::exit(0)
        }

        $crate::__core::arch::global_asm!(
            ".section .text.start, \"ax\"",
            ".global takt_task_start",
            "takt_task_start:",
            "xor ebp, ebp",
            "call takt_task_main",
            "ud2",
            ".text",
        );
    };
}

/// Declares the main function, `fn(u64)`, of a further thread of the task, by the thread's name in the manifest (with `_` for `-`); it
/// is told the number that stands there. When it returns, that thread has ended, and the task goes on.
///
/// ```ignore
/// takt_user::thread!(poller, poll);
///
/// fn poll(_: u64) {}
/// ```
#[macro_export]
macro_rules! thread {
    ($name:ident, $main:path) => {
        const _: () = {
            extern "C" fn main(argument: $crate::__core::primitive::u64) -> ! {
                let main: fn($crate::__core::primitive::u64) = $main;
                main(argument);
                $crate::exit(0)
            }

            #[unsafe(naked)]
            #[unsafe(export_name = $crate::__core::concat!("takt_thread_", $crate::__core::stringify!($name)))]
            #[unsafe(link_section = ".text.thread")]
            extern "C" fn start() -> ! {
                $crate::__core::arch::naked_asm!(
                    "xor ebp, ebp",
                    "call {main}",
                    "ud2",
                    main = sym main,
                )
            }
        };
    };
}

/// Writes a line to the log, as `format!` makes it; it is cut behind [`abi::MAX_LOG`] bytes.
#[macro_export]
macro_rules! log {
    ($($text:tt)+) => { $crate::log($crate::__core::format_args!($($text)+)) };
}

#[cfg(feature = "task")]
#[panic_handler]
fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
    log!("{info}");
    syscall::panicked()
}
