//! Rules over records: what is asked before a record is made, and told after it.
//!
//! While a pair of functions is registered here, the record functions are diverted
//! (`arch::divert_records`); while none is, they cost nothing more. [`events`] registers itself
//! while an event has a filter or a trigger.

pub mod events;
pub(super) mod soft;
pub(crate) mod table;

mod diverted;
mod judge;

pub use diverted::{After, Arguments, Before, register, unregister};
