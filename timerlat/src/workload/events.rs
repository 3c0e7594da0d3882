//! timerlat's two samples as trace events. The sequence number relates them.

use takt_tracer::{event, event_class};

event_class! {
    /// A latency of one activation.
    pub class Sample = "timerlat_sample", core8 { slot: 8 u, seqnum: 32 u, timer_latency: 32 cycles }
    print "#{seqnum} slot={slot} timer_latency={timer_latency} ns";
}
event! {
    /// Emitted in the timer's interrupt; the latency is that of the time stamp taken by the entry's third instruction.
    pub timerlat_irq: Sample = core "timerlat:timerlat_irq";
}
event! {
    /// Emitted by the thread, after it has taken the time; the latency is not that of this record's time stamp.
    pub timerlat_thread: Sample = core "timerlat:timerlat_thread";
}

#[cfg(feature = "tasks")]
event_class! {
    /// The end of an activation's work in user space.
    pub class Returned = "timerlat_returned", core8 { slot: 8 u, seqnum: 32 u, timer_latency: 32 cycles }
    print "#{seqnum} context user-ret slot={slot} timer_latency={timer_latency} ns";
}
#[cfg(feature = "tasks")]
event! {
    /// Emitted by the thread of a task when it has come back from user space, of which the time was taken before.
    pub timerlat_user: Returned = core "timerlat:timerlat_user";
}
