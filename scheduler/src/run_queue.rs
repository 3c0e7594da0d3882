//! The run queue of one CPU: the rules of `SCHED_FIFO` and `SCHED_RR`.
//!
//! # Invariants
//! * The running thread stays in the queue. It is the first of its level, unless a reschedule is
//!   due: so preemption moves nothing, and a preempted thread goes on before its equals.
//! * After [`RunQueue::put_off`] it is not in it, and `level` may be another priority than its own.
//!   A reschedule is due then.
//! * The idle thread is never in the queue: an empty queue means idle.
//! * `level` is the running thread's, and one behind the last while the idle thread runs. A thread
//!   preempts iff its level comes before that: one comparison, idle included.
//!
//! # Source
//! IEEE Std 1003.1-2017, 2.8.4 Process Scheduling, SCHED_FIFO.

use crate::{Links, PrioQueue, Priority, ThreadId};

/// [`RunQueue::level`] of the idle thread: behind that of every priority.
const IDLE: u8 = 128;

/// Whether the CPU must choose anew.
#[must_use = "a due reschedule must be made known to the CPU"]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Resched {
    /// The running thread goes on.
    Keep,
    /// Another thread is due: call [`RunQueue::pick_next`] as soon as preemption is allowed.
    Preempt,
}

/// Which thread the CPU runs next.
#[must_use = "the run queue already counts this thread as running"]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Next {
    /// The running thread goes on.
    Stay,
    /// Switch to this thread.
    Switch(ThreadId),
    /// Switch to the idle thread.
    Idle,
}

/// What a thread does with equals that wait for the CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Policy {
    /// Runs until it blocks or yields (`SCHED_FIFO`).
    Fifo,
    /// Gives way when its quantum has expired (`SCHED_RR`).
    RoundRobin,
}

/// Where a thread stands among its new equals after a change of priority.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Placement {
    /// Behind them: the priority was set, or raised by inheritance.
    Tail,
    /// Before them: an inherited priority was lost. The thread did not ask to give way.
    Head,
}

/// The threads of one CPU that are ready to run, the running one included.
#[derive(Clone, Debug)]
pub struct RunQueue {
    queue: PrioQueue,
    current: ThreadId,
    idle: ThreadId,
    /// Level of the running thread's priority, [`IDLE`] if it is the idle thread.
    level: u8,
}

impl RunQueue {
    /// The queue of a CPU which runs its idle thread.
    #[must_use]
    pub const fn new(idle: ThreadId) -> Self {
        Self {
            queue: PrioQueue::new(),
            current: idle,
            idle,
            level: IDLE,
        }
    }

    /// The running thread, by the last decision.
    #[inline(always)]
    #[must_use]
    pub const fn current(&self) -> ThreadId {
        self.current
    }

    /// The idle thread of this CPU.
    #[inline(always)]
    #[must_use]
    pub const fn idle(&self) -> ThreadId {
        self.idle
    }

    /// Whether the idle thread runs.
    #[inline(always)]
    #[must_use]
    pub const fn is_idle(&self) -> bool {
        self.level == IDLE
    }

    /// Priority of the running thread; `None` in the idle thread.
    #[inline(always)]
    #[must_use]
    pub const fn current_priority(&self) -> Option<Priority> {
        if self.is_idle() {
            None
        } else {
            Some(Priority::from_level(self.level))
        }
    }

    /// The threads that are ready, the running one included.
    #[inline(always)]
    #[must_use]
    pub const fn queue(&self) -> &PrioQueue {
        &self.queue
    }

    /// A thread has become ready: queues it behind its equals.
    #[inline(always)]
    pub const fn wakeup<const N: usize>(
        &mut self,
        links: &mut Links<N>,
        tid: ThreadId,
        prio: Priority,
    ) -> Resched {
        self.queue.push_back(links, tid, prio);
        self.resched_for(prio)
    }

    /// Chooses the most important thread and counts it as running.
    #[inline(always)]
    pub const fn pick_next(&mut self) -> Next {
        match self.queue.top() {
            Some((tid, prio)) => {
                self.level = prio.rank();
                if tid.raw() == self.current.raw() {
                    Next::Stay
                } else {
                    self.current = tid;
                    Next::Switch(tid)
                }
            }
            None => {
                self.level = IDLE;
                if self.current.raw() == self.idle.raw() {
                    Next::Stay
                } else {
                    self.current = self.idle;
                    Next::Idle
                }
            }
        }
    }

    /// Counts a thread as running that [`wakeup`](Self::wakeup) has just queued as more important than the running one,
    /// which was the most important until then: what [`pick_next`](Self::pick_next) would choose.
    #[inline(always)]
    pub const fn pick_woken(&mut self, tid: ThreadId, prio: Priority) {
        debug_assert!(
            matches!(self.queue.top(), Some((top, _)) if top.raw() == tid.raw()),
            "another thread is more important"
        );
        self.level = prio.rank();
        self.current = tid;
    }

    /// Chooses the most important thread, or the idle thread, and counts it as running: [`pick_next`](Self::pick_next)
    /// where the running thread is not in the queue any more.
    #[inline(always)]
    pub const fn pick_other(&mut self) -> ThreadId {
        (self.current, self.level) = match self.queue.top() {
            Some((tid, prio)) => (tid, prio.rank()),
            None => (self.idle, IDLE),
        };
        self.current
    }

    /// Puts off what [`pick_other`](Self::pick_other) has chosen: the thread that is not in the queue any more runs on.
    /// A reschedule is due from now on.
    pub const fn put_off(&mut self, tid: ThreadId, prio: Priority) {
        self.level = prio.rank();
        self.current = tid;
    }

    /// The running thread lets its equals go first.
    #[inline(always)]
    pub const fn yield_current<const N: usize>(&mut self, links: &mut Links<N>) -> Next {
        if !self.is_idle() {
            let prio = Priority::from_level(self.level);
            if self.queue.is_head(self.current, prio) {
                self.queue.rotate(links, prio);
            } else {
                self.requeue_current(links, prio);
            }
        }
        self.pick_next()
    }

    /// Sends the running thread behind its equals when others are before it already.
    #[cold]
    const fn requeue_current<const N: usize>(&mut self, links: &mut Links<N>, prio: Priority) {
        self.queue.remove(links, self.current, prio);
        self.queue.push_back(links, self.current, prio);
    }

    /// The running thread is no longer ready. Says who is next.
    ///
    /// # Context
    /// Not in the idle thread, which cannot block.
    #[inline(always)]
    pub const fn block_current<const N: usize>(&mut self, links: &mut Links<N>) -> ThreadId {
        debug_assert!(!self.is_idle(), "the idle thread cannot block");
        let prio = Priority::from_level(self.level);
        self.queue.remove(links, self.current, prio);
        self.pick_other()
    }

    /// A ready thread other than the running one is no longer ready: it was suspended or ended.
    #[inline(always)]
    pub const fn dequeue<const N: usize>(
        &mut self,
        links: &mut Links<N>,
        tid: ThreadId,
        prio: Priority,
    ) {
        self.queue.remove(links, tid, prio);
    }

    /// Moves a ready or running thread from one priority to another, or to the same anew.
    ///
    /// Another thread is never placed before the running one of the same priority, but behind it.
    pub const fn set_priority<const N: usize>(
        &mut self,
        links: &mut Links<N>,
        tid: ThreadId,
        old: Priority,
        new: Priority,
        placement: Placement,
    ) -> Resched {
        let is_current = tid.raw() == self.current.raw();
        self.queue.remove(links, tid, old);
        match placement {
            Placement::Tail => self.queue.push_back(links, tid, new),
            Placement::Head if !is_current && self.queue.is_head(self.current, new) => {
                self.push_second(links, tid, new);
            }
            Placement::Head => self.queue.push_front(links, tid, new),
        }
        if !is_current {
            return self.resched_for(new);
        }
        self.level = new.rank();
        match self.queue.top() {
            Some((top, _)) if top.raw() == tid.raw() => Resched::Keep,
            _ => Resched::Preempt,
        }
    }

    /// Whether another thread of the running one's priority waits: only then does a quantum
    /// need to be timed.
    #[inline(always)]
    #[must_use]
    pub const fn has_peer<const N: usize>(&self, links: &Links<N>) -> bool {
        // The idle thread's links are never written.
        !self.is_idle() && links.next(self.current).raw() != self.current.raw()
    }

    /// The running thread's quantum has expired: a round-robin thread goes behind its equals.
    #[inline(always)]
    pub const fn quantum_expired<const N: usize>(
        &mut self,
        links: &Links<N>,
        policy: Policy,
    ) -> Resched {
        if matches!(policy, Policy::Fifo) || !self.has_peer(links) {
            return Resched::Keep;
        }
        let prio = Priority::from_level(self.level);
        // Not the first: it has gone behind already and the reschedule is due.
        if self.queue.is_head(self.current, prio) {
            self.queue.rotate(links, prio);
        }
        Resched::Preempt
    }

    #[inline(always)]
    const fn resched_for(&self, prio: Priority) -> Resched {
        if prio.rank() < self.level {
            Resched::Preempt
        } else {
            Resched::Keep
        }
    }

    /// Queues a thread right behind the first of its level. In an empty level, whose head may be
    /// stale, it is the first.
    const fn push_second<const N: usize>(
        &mut self,
        links: &mut Links<N>,
        tid: ThreadId,
        prio: Priority,
    ) {
        self.queue.rotate(links, prio);
        self.queue.push_front(links, tid, prio);
        self.queue.rotate_back(links, prio);
    }
}
