//! Events as ftrace describes and stores them: the text of `events/SYSTEM/EVENT/format`, and the bytes that it
//! describes.
//!
//! [`Format`] is made from an [`EventDef`] and from nothing else, so that the format text, the bytes and the names that
//! a filter may use agree. Threads become what ftrace has for them: a pid and a name. The names of these fields come
//! from the print template (`prev_comm={current:comm}` is field `prev_comm`), so that the scheduler's events have the
//! fields that ftrace's viewers look for.
//!
//! [`EventDef`]: super::EventDef

mod common;
mod format;
mod layout;
mod payload;
mod print;

pub use common::{COMMON_SIZE, common_flags};
pub use layout::{CommonField, Content, Field, Format, Whose};
