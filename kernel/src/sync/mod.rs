//! Objects that threads wait for, each with a time-out.
//!
//! | object | from interrupts | wakes |
//! |---|---|---|
//! | [`Semaphore`] | `give`, `try_take` | the most important waiter |
//! | [`Mutex`] | no | the most important waiter, which then owns it |
//! | [`EventFlags`] | `set`, `clear`, `get`, `try_wait` | every waiter whose condition holds, the most important first |
//! | [`Queue`] | `try_send`, `try_receive` | the most important waiter |
//! | [`Condvar`] | `notify_one`, `notify_all` | the most important waiter, or all |
//!
//! [`SetOnce`] is a value that is set once; nobody waits for it.
//!
//! All are `const`-constructible statics. A waiting thread borrows the object, so it cannot go away meanwhile.

pub(crate) mod held;
pub(crate) mod mutex_state;
pub(crate) mod pi;
pub(crate) mod raw_mutex;
#[cfg(feature = "tasks")]
pub(crate) mod served;

#[cfg(any(feature = "mutex", doc))]
mod condvar;
mod event_flags;
#[cfg(any(feature = "mutex", doc))]
mod mutex;
mod queue;
mod semaphore;
mod set_once;

#[cfg(any(feature = "mutex", doc))]
pub use condvar::Condvar;
pub use event_flags::{EventFlags, Mode};
#[cfg(any(feature = "mutex", doc))]
pub use mutex::{Mutex, MutexGuard};
pub use queue::Queue;
pub use semaphore::Semaphore;
pub use set_once::SetOnce;
