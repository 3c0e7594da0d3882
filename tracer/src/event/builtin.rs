//! The one event that the ring itself writes.
#![expect(
    unsafe_code,
    reason = "an event's id and metadata are statics in sections of their own; nothing reads them"
)]

crate::event_class! {
    /// The upper half of the TSC has changed. Written by the ring itself, never emitted.
    pub class Clock = "clock", core24(0x80) {
        half: 32 x,
    }
    print "tsc_hi={half}";
}

crate::event! {
    /// Written by the ring when the upper half of the TSC has changed.
    pub clock: Clock = first "takt:clock";
}
