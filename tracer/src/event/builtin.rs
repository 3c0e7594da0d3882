//! The one event that the ring itself writes.
#![expect(
    unsafe_code,
    reason = "an event's id and metadata are statics in sections of their own; nothing reads them"
)]

use super::{EventClass, Layout};

/// The class of [`mod@clock`]: an event that is never emitted, so there is nothing to pack.
#[derive(Clone, Copy, Debug)]
pub struct Clock;

impl EventClass for Clock {
    const LAYOUT: Layout = Layout::Core24(0x80);
    const EXTRA: usize = 1;
    const TEXT: &'static str =
        "class clock\nlayout core24 0x80\nfield half 32 x\nprint tsc_hi={half}\n";
}

crate::event! {
    /// Written by the ring when the upper half of the TSC has changed.
    pub clock: Clock = first "takt:clock";
}
