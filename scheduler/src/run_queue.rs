//! The run queue of one CPU: the rules of `SCHED_FIFO` and `SCHED_RR`.
//!
//! # Invariants
//! * The running thread stays in the queue. It is the first of its level, unless a reschedule is
//!   due: so preemption moves nothing, and a preempted thread goes on before its equals. Only after
//!   [`RunQueue::leave_current`] it is not in it; a reschedule is due then.
//! * The idle thread is never in the queue: an empty queue means idle.
//! * `best` is the first of the most important level, or the idle thread: who is to run. A reschedule
//!   is due iff that is not the running thread. A thread preempts iff its level comes before the best
//!   one's: one comparison, idle included.
//!
//! # Source
//! IEEE Std 1003.1-2017, 2.8.4 Process Scheduling, SCHED_FIFO.

use crate::{Links, PrioQueue, Priority, ThreadId};

/// [`Runner::level`] of the idle thread: behind that of every priority.
const IDLE: u8 = PrioQueue::LAST as u8;

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
    /// Switch to this thread, which may be the idle thread.
    Switch(ThreadId),
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

/// A thread and the level at which it runs. Two bytes that are copied as one word.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(2))]
struct Runner {
    tid: ThreadId,
    /// Level of its priority, [`IDLE`] if it is the idle thread.
    level: u8,
}

impl Runner {
    #[cfg_attr(feature = "fast-paths", inline(always))]
    const fn new(tid: ThreadId, prio: Priority) -> Self {
        Self {
            tid,
            level: prio.rank(),
        }
    }

    #[cfg_attr(feature = "fast-paths", inline(always))]
    const fn is(self, other: Self) -> bool {
        self.tid.raw() == other.tid.raw()
    }

    /// Whether it is that thread at that level. The running one is known by the level that it had when it was picked: it may have been
    /// taken out of the queue since then and have come back at another one.
    #[cfg_attr(feature = "fast-paths", inline(always))]
    const fn is_as(self, other: Self) -> bool {
        self.word() == other.word()
    }

    #[cfg_attr(feature = "fast-paths", inline(always))]
    const fn word(self) -> u16 {
        (self.level as u16) << 8 | self.tid.raw() as u16
    }
}

/// The threads of one CPU that are ready to run, the running one included.
#[derive(Clone, Debug)]
// In this order: what each switch reads lies together.
#[repr(C)]
pub struct RunQueue {
    running: Runner,
    /// Who is to run.
    best: Runner,
    idle: ThreadId,
    queue: PrioQueue,
}

impl RunQueue {
    /// Where the queue is, for assembly.
    pub const QUEUE: usize = core::mem::offset_of!(Self, queue);
    /// Where the running thread is, for assembly: two bytes, its number and its level.
    pub const RUNNING: usize = core::mem::offset_of!(Self, running);
    /// Where the one that is to run is, likewise.
    pub const BEST: usize = core::mem::offset_of!(Self, best);

    /// The queue of a CPU which runs its idle thread.
    #[must_use]
    pub const fn new(idle: ThreadId) -> Self {
        let runner = Runner {
            tid: idle,
            level: IDLE,
        };
        Self {
            queue: PrioQueue::with_last(idle),
            running: runner,
            best: runner,
            idle,
        }
    }

    /// The running thread, by the last decision.
    #[cfg_attr(feature = "fast-paths", inline(always))]
    #[must_use]
    pub const fn current(&self) -> ThreadId {
        self.running.tid
    }

    /// The idle thread of this CPU.
    #[cfg_attr(feature = "fast-paths", inline(always))]
    #[must_use]
    pub const fn idle(&self) -> ThreadId {
        self.idle
    }

    /// Whether the idle thread runs.
    #[cfg_attr(feature = "fast-paths", inline(always))]
    #[must_use]
    pub const fn is_idle(&self) -> bool {
        self.running.level == IDLE
    }

    /// Priority of the running thread; `None` in the idle thread.
    #[cfg_attr(feature = "fast-paths", inline(always))]
    #[must_use]
    pub const fn current_priority(&self) -> Option<Priority> {
        if self.is_idle() {
            None
        } else {
            Some(Priority::from_level(self.running.level))
        }
    }

    /// The threads that are ready, the running one included.
    #[cfg_attr(feature = "fast-paths", inline(always))]
    #[must_use]
    pub const fn queue(&self) -> &PrioQueue {
        &self.queue
    }

    /// A thread has become ready: queues it behind its equals.
    #[cfg_attr(feature = "fast-paths", inline(always))]
    pub const fn wakeup<const N: usize, W: Copy>(
        &mut self,
        links: &Links<N, W>,
        tid: ThreadId,
        prio: Priority,
    ) -> Resched {
        self.queue.push_back(links, tid, prio);
        // Of equals the best one comes first.
        if prio.rank() < self.best.level {
            self.best = Runner::new(tid, prio);
            Resched::Preempt
        } else {
            Resched::Keep
        }
    }

    /// Who is to run: the first of the most important level, or the idle thread.
    #[cfg_attr(feature = "fast-paths", inline(always))]
    #[must_use]
    pub const fn best(&self) -> ThreadId {
        self.best.tid
    }

    /// Counts the best thread as running, and says which it is.
    #[cfg_attr(feature = "fast-paths", inline(always))]
    pub const fn pick_next(&mut self) -> Next {
        let best = self.best;
        let is_running = best.is(self.running);
        // Its level as well: it may have left, and have become ready with another priority before a switch.
        self.running = best;
        if is_running {
            return Next::Stay;
        }
        Next::Switch(best.tid)
    }

    /// [`pick_next`](Self::pick_next) where it is known that the best one is not the running thread.
    #[cfg_attr(feature = "fast-paths", inline(always))]
    pub const fn pick_other(&mut self) -> ThreadId {
        debug_assert!(!self.best.is(self.running), "no reschedule is due");
        self.running = self.best;
        self.running.tid
    }

    /// The running thread lets its equals go first.
    #[cfg_attr(feature = "fast-paths", inline(always))]
    pub const fn yield_current<const N: usize, W: Copy>(&mut self, links: &Links<N, W>) -> Next {
        if !self.best.is(self.running) {
            return self.yield_to_better(links);
        }
        match self.yield_to_equal(links) {
            Some(next) => Next::Switch(next),
            None => Next::Stay,
        }
    }

    /// [`yield_current`](Self::yield_current) where no reschedule is due.
    #[cfg_attr(feature = "fast-paths", inline(always))]
    const fn yield_to_equal<const N: usize, W: Copy>(
        &mut self,
        links: &Links<N, W>,
    ) -> Option<ThreadId> {
        let next = self.next_equal(links);
        if next.raw() == self.running.tid.raw() {
            return None;
        }
        self.yield_to(next);
        Some(next)
    }

    /// The thread that comes behind the running one among its equals: itself, if it has none. The idle thread has none.
    #[cfg_attr(feature = "fast-paths", inline(always))]
    #[must_use]
    pub const fn next_equal<const N: usize, W: Copy>(&self, links: &Links<N, W>) -> ThreadId {
        // The idle thread's links are never written.
        links.next(self.running.tid)
    }

    /// The running thread lets its equals go first, where no reschedule is due. `next` is another one, which
    /// [`next_equal`](Self::next_equal) gave; it counts as running.
    #[cfg_attr(feature = "fast-paths", inline(always))]
    pub const fn yield_to(&mut self, next: ThreadId) {
        debug_assert!(self.best.is(self.running), "a reschedule is due");
        // Nobody is more important, so the running one is the first of its level.
        self.queue
            .set_head(Priority::from_level(self.running.level), next);
        self.running.tid = next;
        self.best.tid = next;
    }

    /// Sends the running thread behind its equals, where a reschedule is due: one is more important, or it went behind when
    /// its quantum expired.
    #[cold]
    const fn yield_to_better<const N: usize, W: Copy>(&mut self, links: &Links<N, W>) -> Next {
        if !self.is_idle() {
            let prio = Priority::from_level(self.running.level);
            self.queue.remove(links, self.running.tid, prio);
            self.queue.push_back(links, self.running.tid, prio);
        }
        self.pick_next()
    }

    /// The running thread is no longer ready, but still counts as running: a reschedule is due.
    ///
    /// # Context
    /// Not in the idle thread, which cannot block.
    #[cfg_attr(feature = "fast-paths", inline(always))]
    pub const fn leave_current<const N: usize, W: Copy>(&mut self, links: &Links<N, W>) {
        debug_assert!(!self.is_idle(), "the idle thread cannot block");
        let prio = Priority::from_level(self.running.level);
        self.queue.remove(links, self.running.tid, prio);
        self.find_best();
    }

    /// The running thread is no longer ready. Says who is next, and counts that one as running.
    ///
    /// # Context
    /// As [`leave_current`](Self::leave_current).
    #[cfg_attr(feature = "fast-paths", inline(always))]
    pub const fn block_current<const N: usize, W: Copy>(
        &mut self,
        links: &Links<N, W>,
    ) -> ThreadId {
        self.leave_current(links);
        self.pick_other()
    }

    /// The running thread is no longer ready, and another one of this CPU, which is ready and less important, gets its
    /// priority: [`set_priority`](Self::set_priority) and [`leave_current`](Self::leave_current) in one. Nothing is done where the
    /// running thread has equals or a reschedule is due; says whether it is.
    ///
    /// # Context
    /// As [`leave_current`](Self::leave_current).
    #[cfg_attr(feature = "fast-paths", inline(always))]
    pub const fn leave_current_to<const N: usize, W: Copy>(
        &mut self,
        links: &Links<N, W>,
        heir: ThreadId,
        from: Priority,
    ) -> bool {
        debug_assert!(!self.is_idle(), "the idle thread cannot block");
        let me = self.running;
        if links.next(me.tid).raw() != me.tid.raw() || !self.best.is(me) {
            core::hint::cold_path();
            return false;
        }
        self.queue.remove(links, heir, from);
        // It takes the place of the only one of the level.
        self.queue.set_head(Priority::from_level(me.level), heir);
        self.best.tid = heir;
        true
    }

    /// A thread that becomes ready gets the running one's priority, which is `to` from now on, less important: the running
    /// thread is lowered to before its new equals as [`set_priority`](Self::set_priority) does it, and the other one queued, in
    /// one. A reschedule is due then. Nothing is done where the running thread has equals or a reschedule is due already; says
    /// whether it is.
    ///
    /// # Context
    /// Not in the idle thread.
    #[cfg_attr(feature = "fast-paths", inline(always))]
    pub const fn hand_priority_to<const N: usize, W: Copy>(
        &mut self,
        links: &Links<N, W>,
        heir: ThreadId,
        to: Priority,
    ) -> bool {
        debug_assert!(!self.is_idle(), "the idle thread's priority is nobody's");
        let Runner { tid, level } = self.running;
        if links.next(tid).raw() != tid.raw() || !self.best.is_as(self.running) {
            core::hint::cold_path();
            return false;
        }
        // It takes the place of the only one of the level.
        self.queue.set_head(Priority::from_level(level), heir);
        self.best.tid = heir;
        self.queue.push_front(links, tid, to);
        self.running.level = to.rank();
        true
    }

    /// Another thread may be the best one.
    #[cfg_attr(feature = "fast-paths", inline(always))]
    const fn find_best(&mut self) {
        let (tid, level) = self.queue.top_or_last();
        self.best = Runner {
            tid,
            level: level as u8,
        };
    }

    /// A ready thread other than the running one is no longer ready: it was suspended or ended.
    #[cfg_attr(feature = "fast-paths", inline(always))]
    pub const fn dequeue<const N: usize, W: Copy>(
        &mut self,
        links: &Links<N, W>,
        tid: ThreadId,
        prio: Priority,
    ) {
        self.queue.remove(links, tid, prio);
        if self.best.tid.raw() == tid.raw() {
            self.find_best();
        }
    }

    /// Moves a ready or running thread from one priority to another, or to the same anew.
    ///
    /// Another thread is never placed before the running one of the same priority, but behind it.
    pub const fn set_priority<const N: usize, W: Copy>(
        &mut self,
        links: &Links<N, W>,
        tid: ThreadId,
        old: Priority,
        new: Priority,
        placement: Placement,
    ) -> Resched {
        let is_current = tid.raw() == self.running.tid.raw();
        self.queue.remove(links, tid, old);
        match placement {
            Placement::Tail => self.queue.push_back(links, tid, new),
            Placement::Head if !is_current && self.queue.is_head(self.running.tid, new) => {
                self.push_second(links, tid, new);
            }
            Placement::Head => self.queue.push_front(links, tid, new),
        }
        if is_current {
            self.running.level = new.rank();
        }
        self.find_best();
        self.resched()
    }

    /// Whether another thread of the running one's priority waits: only then does a quantum
    /// need to be timed.
    #[cfg_attr(feature = "fast-paths", inline(always))]
    #[must_use]
    pub const fn has_peer<const N: usize, W: Copy>(&self, links: &Links<N, W>) -> bool {
        // The idle thread's links are never written.
        links.next(self.running.tid).raw() != self.running.tid.raw()
    }

    /// The running thread's quantum has expired: a round-robin thread goes behind its equals.
    #[cfg_attr(feature = "fast-paths", inline(always))]
    pub const fn quantum_expired<const N: usize, W: Copy>(
        &mut self,
        links: &Links<N, W>,
        policy: Policy,
    ) -> Resched {
        if matches!(policy, Policy::Fifo) || !self.has_peer(links) {
            return Resched::Keep;
        }
        let prio = Priority::from_level(self.running.level);
        // Not the first: it has gone behind already and the reschedule is due.
        if self.queue.is_head(self.running.tid, prio) {
            self.queue.rotate(links, prio);
            self.find_best();
        }
        Resched::Preempt
    }

    #[cfg_attr(feature = "fast-paths", inline(always))]
    const fn resched(&self) -> Resched {
        if self.best.is(self.running) {
            Resched::Keep
        } else {
            Resched::Preempt
        }
    }

    /// Queues a thread right behind the first of its level. In an empty level, whose head may be
    /// stale, it is the first.
    const fn push_second<const N: usize, W: Copy>(
        &mut self,
        links: &Links<N, W>,
        tid: ThreadId,
        prio: Priority,
    ) {
        self.queue.rotate(links, prio);
        self.queue.push_front(links, tid, prio);
        self.queue.rotate_back(links, prio);
    }
}
