//! [`CpuSched`]: what one CPU schedules, which are its run queue, its timers, and who is charged for its time.
//!
//! Only that CPU reaches it, with interrupts off; so it needs no lock. A section lends it
//! ([`Scheduled::cpu`](crate::section::Scheduled::cpu)).

use core::sync::atomic::{AtomicBool, Ordering::Relaxed};

use takt_scheduler::{Links, RunQueue, ThreadId};

use crate::clock::Instant;
use crate::config::{MAX_THREADS, TIMER_IDS};
use crate::parts::WATCHERS;

/// Whether threads' run times are counted.
pub(crate) static COUNTS_TIMES: AtomicBool = AtomicBool::new(false);

/// A CPU's armed timers.
#[cfg(feature = "many-timers")]
type Timers = takt_scheduler::TimerQueue<Instant, TIMER_IDS>;
#[cfg(not(feature = "many-timers"))]
type Timers = takt_scheduler::FewTimers<Instant, TIMER_IDS>;

/// The scheduling state of one CPU. What each switch looks at is in the first cache line.
#[repr(C, align(64))]
pub(crate) struct CpuSched {
    /// For how many reasons something is to be done at each switch: one for each round-robin thread that belongs to the
    /// CPU, one for each task with a budget that lives, and one while run times are counted.
    pub(crate) nr_watchers: u32,
    pub(crate) rq: RunQueue,
    /// What the hardware timer is set to, or [`Instant::NEVER`].
    pub(crate) armed: Instant,
    /// Of the run queue, with the address of each thread's control block. A table for each CPU, since each changes its own at any
    /// time; and apart from that of the wait queues, since a thread may stand in both.
    pub(crate) links: Links<MAX_THREADS, u32>,
    pub(crate) timers: Timers,
    /// When the quantum of the running thread ends, or [`Instant::NEVER`] if it is not timed. The slice's timer is armed for
    /// that time or an earlier one.
    pub(crate) quantum_end: Instant,
    /// The account that the running thread is charged to.
    #[cfg(feature = "tasks")]
    pub(crate) charged: Option<&'static crate::task::account::Account>,
    /// A bit for each task that was throttled and whose next period is yet to be waited for.
    #[cfg(feature = "tasks")]
    pub(crate) to_refill: u64,
}

impl CpuSched {
    /// Whether something is to be done at each switch.
    #[inline(always)]
    pub(crate) fn is_watched(&self) -> bool {
        WATCHERS && self.nr_watchers != 0
    }

    /// The deadline of the earliest timer; [`Instant::NEVER`] if none is armed.
    #[inline(always)]
    pub(crate) fn earliest_deadline(&self) -> Instant {
        self.timers.earliest_deadline()
    }

    /// There is one more reason for that, or one less.
    pub(crate) fn watch(&mut self, on: bool) {
        self.nr_watchers = if on {
            self.nr_watchers + 1
        } else {
            self.nr_watchers - 1
        };
    }

    /// Gives the state of a CPU that runs nothing yet, but for the links; whatever the bytes were before.
    pub(crate) fn reset(&mut self) {
        self.rq = RunQueue::new(ThreadId::new(0));
        self.timers.reset();
        self.nr_watchers = u32::from(COUNTS_TIMES.load(Relaxed));
        self.armed = Instant::NEVER;
        self.quantum_end = Instant::NEVER;
        #[cfg(feature = "tasks")]
        {
            self.charged = None;
            self.to_refill = 0;
        }
    }
}
