//! What becomes of a task that has used its budget.
//!
//! The timer of the running thread's slice comes when nothing is left. A task that has used its own is throttled until its period
//! begins anew, or stopped by a fault. Where another task has used it that serves a call of its, the call ends with
//! [`Error::BudgetSpent`], and the other one goes on by its own. Either is told to the supervisor by a notification, once
//! a period at most. All of it takes the same time whatever else there is, but for what a chain of lent priorities takes.
//!
//! It is done in steps, an interrupt for each, so that whatever else is due comes in between: the task is throttled, or its call
//! ended; the timer for what is deferred arms that of the next period, tells the supervisor, and walks along the chain.

use core::sync::atomic::Ordering::Relaxed;

use takt_abi::{Error, FaultKind};

use super::account::NO_LIFE;
use super::object::{Task, all};
use super::program::{Budget, Overrun};
use crate::arch::interrupts;
use crate::arch::percpu::{self, CpuRef};
use crate::budget;
use crate::clock::{Cycles, Instant, Nanos};
use crate::deferred;
use crate::probe::trace;
use crate::sched;
use crate::section::{self, Kernel, Scheduled};
use crate::soft_timer::{self, Expiry};
use crate::sync::mutex_state::RawMutex;
use crate::thread::tcb::{THROTTLED, TcbRef};
use crate::timers;

/// In the record.
const THROTTLES: u32 = 0;
const STOPS: u32 = 1;
const ENDS_CALL: u32 = 2;

/// How soon it is looked again at a task that is to stop and runs, so that it may be about to wait.
const SOON: Nanos = Nanos::from_micros(20);
/// At one that others keep from running, or that has been woken. Where nothing is left of its budget it is looked at when it runs, too.
const LATER: Nanos = Nanos::from_millis(1);

/// The timer, among the kernel's own, by which a task's period begins anew, or it is looked at again.
const fn timer_of(number: usize) -> usize {
    1 + number
}

impl Task {
    /// A life begins in ring 3 at once, with interrupts off from here on.
    pub(super) fn begin_budget(&self, budget: &Budget) {
        let in_period = budget.time.to_cycles();
        let period = budget.period.to_cycles().max(Cycles::new(1));
        let cpu = CpuRef::this();
        interrupts::disable();
        let mut section = section::own_irq();
        let now = Instant::now();
        if let Some(account) = self.account() {
            account.begin(now, in_period, period);
            account.life.store(self.generation(), Relaxed);
        }
        if !self.is_watching.load(Relaxed) {
            self.is_watching.store(true, Relaxed);
            section.cpu(cpu).watch(true);
        }
        budget::recharge_running(&mut section, cpu, now);
        // What it ran since its last life may have been all: then it does not come to its first instruction in this period, unless
        // who waits for it lends it another account already.
        if let Some(account) = self.account() {
            let charged = section.cpu(cpu).charged;
            if charged.is_some_and(|it| core::ptr::eq(it, account)) {
                account.charge(now);
                timers::insert(&mut section, timers::SLICE, account.exhaustion());
            }
            account.begin_life();
        }
        section.release();
    }

    /// It has a thread: from now on it can be looked at again.
    pub(super) fn make_timer(&self) {
        // SAFETY: it was disarmed when the thread before was done with the task, and nobody else makes it.
        unsafe { soft_timer::init(timer_of(self.number()), refill, self.number()) };
    }

    /// Its thread is done with it.
    pub(super) fn end_budget(&self) {
        let cpu = CpuRef::this();
        let mut section = section::own_thread();
        // The next life may have another thread.
        let id = soft_timer::kernels(timer_of(self.number()));
        timers::cancel(&mut section, id);
        if !self.is_watching.load(Relaxed) {
            return section.leave_quietly();
        }
        if let Some(account) = self.account() {
            account.life.store(NO_LIFE, Relaxed);
        }
        budget::recharge_running(&mut section, cpu, Instant::now());
        section.cpu(cpu).watch(false);
        self.is_watching.store(false, Relaxed);
        section.leave_quietly();
    }
}

/// The slice of the running thread is over. Says whether that was its budget's.
#[inline(never)]
pub(crate) fn expired(scheduled: &mut Scheduled, cpu: CpuRef) -> bool {
    let now = Instant::now();
    let Some(account) = scheduled.cpu(cpu).charged else {
        return false;
    };
    if account.charge(now) {
        timers::insert_at_expiry(scheduled, timers::SLICE, account.exhaustion());
        return true;
    }
    let me = TcbRef::current();
    let task = Task::of_account(account);
    let is_own = core::ptr::eq(&raw const task.space, scheduled.look_at(me).space);
    // Who lent it may have died meanwhile, or wait no longer.
    let is_lent = scheduled.with_chains(|kernel| task.lends(kernel));
    if !is_own && !is_lent {
        // To another one: by now nobody lends this one.
        budget::recharge_running(scheduled, cpu, now);
        return true;
    }
    // Between two lives nothing can stop it. It begins the next one with its debt.
    if account.life.load(Relaxed) != task.port.life.load(Relaxed) {
        return true;
    }
    let is_first = account.tell();
    let what = match is_own {
        false => ENDS_CALL,
        // To begin anew once more would not make up for that.
        true if is_first && !account.is_owing() && task.faults_at_overrun() => STOPS,
        true if task.pending.is_some() => {
            task.look_again(scheduled);
            return true;
        }
        true => THROTTLES,
    };
    if is_first {
        percpu::count(&task.nr_overruns);
        trace!(budget_overrun, task.port.thread().tid().raw(), what);
    }
    match what {
        STOPS => {
            task.stop_at_next(me, FaultKind::BudgetOverrun);
            task.look_again(scheduled);
        }
        // It lends nothing any more, so the running thread is charged to another account, or none, before it goes on.
        ENDS_CALL => {
            if let Some(owner) = task.end_wait_only(scheduled, Error::BudgetSpent) {
                deferred::walk_at_expiry(scheduled, owner);
            }
            budget::recharge_running(scheduled, cpu, now);
        }
        _ => task.throttle(scheduled, cpu),
    }
    if is_first && what != STOPS {
        deferred::tell(scheduled, task.number());
    }
    true
}

/// Tells the supervisor of the task of this number that its budget is used up. In the interrupt for what is deferred.
pub(crate) fn tell(number: usize) {
    if let Some(task) = all().get(number) {
        task.tell_supervisor();
    }
}

/// The task of this number is throttled up to its period's end: the timer comes then. In the interrupt for what is deferred.
pub(crate) fn await_period(number: usize) {
    let Some(task) = all().get(number) else {
        return;
    };
    let mut section = section::own_irq();
    let is_throttled = section.look_at(task.port.thread()).state & THROTTLED != 0;
    if let (Some(account), true) = (task.account(), is_throttled) {
        let id = soft_timer::kernels(timer_of(number));
        timers::insert_at_expiry(&mut section, id, account.end());
    }
    section.release();
}

/// The period of this task begins anew, or it is looked at again.
fn refill(number: usize, _: Expiry) {
    let Some(task) = all().get(number) else {
        return;
    };
    let mut section = section::own_irq();
    if task.unthrottle(&mut section) {
        trace!(budget_refill, task.port.thread().tid().raw());
    }
    // It may have been about to wait when it was to be stopped.
    if task.pending.is_some() && task.is_alive() {
        task.have_stop(&mut section);
    }
    section.release();
}

impl Task {
    /// There is a fault in store for it, for which it waits no longer, whatever it waits for, and is looked at until it has come out of the
    /// kernel. Its thread belongs to this CPU.
    pub(super) fn have_stop(&self, scheduled: &mut Scheduled) {
        self.unthrottle(scheduled);
        self.end_wait(scheduled, Error::Dead);
        self.look_again(scheduled);
    }

    /// It is looked at again, unless it has come out of the kernel, where it may be about to wait.
    #[cold]
    #[inline(never)]
    fn look_again(&self, scheduled: &mut Scheduled) {
        let thread = self.port.thread();
        if Self::is_in_ring_3(thread) {
            return;
        }
        let time = match thread == TcbRef::current() {
            true => SOON,
            false => LATER,
        };
        let id = soft_timer::kernels(timer_of(self.number()));
        timers::insert(scheduled, id, Instant::now() + time.to_cycles());
    }

    /// If its thread, which belongs to this CPU, is throttled, it is no more. Says whether it was.
    pub(super) fn unthrottle(&self, scheduled: &mut Scheduled) -> bool {
        let thread = self.port.thread();
        let t = scheduled.thread(thread);
        if t.state & THROTTLED == 0 {
            return false;
        }
        t.state &= !THROTTLED;
        if t.state == 0 {
            sched::enqueue(scheduled, thread);
        }
        // It may have had preemption disabled, and run on.
        if thread == TcbRef::current() {
            budget::recharge_running(scheduled, CpuRef::this(), Instant::now());
        }
        true
    }

    fn faults_at_overrun(&self) -> bool {
        let budget = self.program.budget.as_ref();
        budget.is_some_and(|it| it.overrun == Overrun::Fault)
    }

    /// The running thread, which is the task's, does not run before the period's end, wherever it is.
    fn throttle(&self, scheduled: &mut Scheduled, cpu: CpuRef) {
        let me = TcbRef::current();
        let (tid, prio) = (me.tid(), me.prio());
        // With the lock of threads: another CPU may release it at this moment, if it is suspended.
        let was_ready = scheduled.with_chains(|kernel| {
            let t = kernel.thread(me);
            let was_ready = t.state == 0;
            t.state |= THROTTLED;
            was_ready
        });
        if was_ready {
            let (rq, links) = scheduled.ready(cpu);
            rq.dequeue(links, tid, prio);
        }
        percpu::set_need_resched();
        deferred::refill(scheduled, self.number());
    }

    /// Whether others may be charged to its account: it lives, on this CPU, and waits for a reply, or is about to. A budget's end ends
    /// just such a wait, and so the loan.
    pub(crate) fn lends(&self, kernel: &Kernel) -> bool {
        let thread = self.port.thread();
        self.is_alive()
            && kernel.look_at(thread).cpu == CpuRef::this()
            && kernel.mutex_of(thread).is_some_and(RawMutex::is_kept)
    }

    /// Its supervisor receives what the manifest says.
    fn tell_supervisor(&self) {
        let told = self.program.budget.as_ref().map_or(0, |it| it.notification);
        let supervisor = self.program.supervisor.and_then(|it| all().get(it));
        if let (Some(supervisor), true) = (supervisor, told != 0) {
            supervisor.port.raise(told);
        }
    }
}
