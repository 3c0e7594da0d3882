//! Rules over records: what is asked before a record is made, and told after it.
//!
//! While a pair of functions is registered here, the record functions are diverted
//! (`arch::divert_records`); while none is, they cost nothing more. [`events`] registers itself
//! while an event has a filter or a trigger.
//!
//! What they are shown is made by the record functions alone, since its text is memory that somebody else lends:
//!
//! ```compile_fail,E0451
//! use takt_kernel::trace::rules::Arguments;
//! Arguments { words: [0; 9], nr: 0, text: 0x10 as *const u8, len: 16 }.text();
//! ```
//! They run in NMIs and inside the kernel's sections, and it is for whoever registers them to promise that they may:
//!
//! ```compile_fail,E0133
//! takt_kernel::trace::rules::register(|_| 1, |_| {});
//! ```
//! ```compile_fail,E0133
//! takt_kernel::trace::rules::unregister();
//! ```
//! ```no_run
//! // SAFETY: they do nothing.
//! unsafe { takt_kernel::trace::rules::register(|_| 1, |_| {}) };
//! ```
//! ```no_run
//! use takt_kernel::trace::rules::Arguments;
//! fn length(record: &Arguments) -> Option<usize> {
//!     record.text().map(<[u8]>::len)
//! }
//! ```

pub mod events;
pub(super) mod soft;
pub(crate) mod table;

mod diverted;
mod judge;

pub use diverted::{After, Arguments, Before, register, unregister};
