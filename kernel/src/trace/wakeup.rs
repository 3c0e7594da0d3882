//! The tracers `wakeup` and `wakeup_rt`: the longest time from a thread's wake-up until it runs.
//!
//! On each CPU the most important thread is followed that was woken and does not run yet; one that is not more important
//! than the running thread is not, since it is meant to wait. All threads of Takt but the idle ones are real-time
//! threads, so the two are the same.
//!
//! # Context
//! The hooks: inside a section of the CPU that schedules the thread, and so one at a time for each CPU.

use core::sync::atomic::Ordering::Relaxed;

use takt_scheduler::ThreadId;

use super::{latency, snapshot};
use crate::arch::percpu::{self, CpuRef};
use crate::arch::{jump_label, timed};
use crate::clock::Instant;
use crate::probe::state::Followed;
use crate::thread::tcb::{Tcb, TcbRef};

jump_label::keys! {
    /// One of these tracers is the current one.
    pub(crate) WAKEUP;
}

/// There is a thread.
const SOME: u32 = 0x100;

impl Followed {
    fn of(t: &Tcb) -> &'static Self {
        &t.cpu.block().followed
    }

    /// The thread that is followed and still waits to run.
    fn thread(&self) -> Option<TcbRef> {
        let tid = self.tid.load(Relaxed);
        if tid == 0 {
            return None;
        }
        let t = TcbRef::of(ThreadId::new(tid as u8));
        // Else it was suspended or has ended meanwhile.
        (t.state_now() == 0).then_some(t)
    }
}

/// When the place was passed whose hook is under way: by this CPU's time stamp, without what hooks have taken on `cpu`.
fn now(cpu: CpuRef) -> Instant {
    // The other's may be a hook old.
    cpu.hooks.without_hooks(percpu::this().hooks.passed())
}

/// `t` becomes ready at `place`.
#[inline(never)]
pub(super) fn woken(place: u32, t: &Tcb) {
    let cpu = Followed::of(t);
    let current = TcbRef::of(t.cpu.running());
    let is_first = cpu
        .thread()
        // Itself: it was suspended meanwhile.
        .is_none_or(|other| other.tid() == t.tid || t.prio.rank() < other.prio_now().rank());
    if t.prio.rank() < current.prio_now().rank() && is_first {
        cpu.tid.store(u32::from(t.tid.raw()) | SOME, Relaxed);
        cpu.place.store(place, Relaxed);
        cpu.since.store(now(t.cpu));
    } else if cpu.tid.load(Relaxed) == u32::from(t.tid.raw()) | SOME {
        // It was suspended meanwhile, and is meant to wait now.
        cpu.tid.store(0, Relaxed);
    }
}

/// At `place` `next` is about to run on this CPU. Has `record` record it in between, so that the switch is in the snapshot.
#[inline(never)]
pub(super) fn switched(place: u32, prev: &Tcb, next: &Tcb, record: fn(&Tcb, &Tcb)) {
    let is_kept = note(place, next, now(next.cpu));
    record(prev, next);
    if is_kept {
        snapshot::keep_if_reserved();
    }
}

#[inline(always)]
fn note(place: u32, next: &Tcb, now: Instant) -> bool {
    let cpu = Followed::of(next);
    let tid = next.tid.raw();
    if cpu.tid.load(Relaxed) != u32::from(tid) | SOME {
        return false;
    }
    cpu.tid.store(0, Relaxed);
    latency::note(
        timed::between(cpu.since.load(), now),
        cpu.place.load(Relaxed),
        place,
        tid,
    )
}
