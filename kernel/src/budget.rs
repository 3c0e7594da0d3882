//! Budgets: whose account the running thread is charged to, and until when it may go on.
//!
//! A thread of a task that has a budget is charged to the task's [`Account`] from the switch to it up to the next one. Who waits for
//! a task's reply lends it the budget with the priority: a task is charged to the account of the most important one that waits for it,
//! which may have that from another one in turn, all on one CPU. So a task does not run at another one's priority for nothing. What
//! the kernel does meanwhile is charged as well, and so is what it does between two lives, or a task that begins anew again and again
//! would run for nothing. The timer comes when nothing is left: `task::overrun`.
//!
//! Source: G. Lipari, G. Lamastra, L. Abeni, "Task Synchronization in Reservation-Based Real-Time Systems", IEEE Transactions on
//! Computers 53 (12), 2004 (bandwidth inheritance).
//!
//! A CPU with such a task has something to do at each switch ([`CpuSched::is_watched`](crate::cpu_sched::CpuSched::is_watched)), and
//! while one is charged messages do not go the short way. All of it is the CPU's own, with interrupts off.

use crate::arch::percpu::CpuRef;
use crate::arch::{jump_label, proof};
use crate::clock::Instant;
use crate::section::{self, Kernel, Scheduled};
use crate::task::account::Account;
use crate::task::object::Task;
use crate::thread::tcb::{Tcb, TcbRef};
use crate::timers;

type Charged = Option<&'static Account>;

/// The task of a thread.
#[inline(always)]
pub(crate) fn task_of(thread: &Tcb) -> Option<&'static Task> {
    // SAFETY: the space of a thread is a part of its task.
    (!thread.space.is_null()).then(|| unsafe { Task::of_space(thread.space) })
}

/// The task's own account, if it has a budget, from the first time on that it has come to ring 3.
#[inline(always)]
fn own(task: &'static Task) -> Charged {
    task.account().filter(|it| it.is_open())
}

/// The account that a thread is charged to from now on, if any. One step: whose account a thread that waits is charged to is noted,
/// since it was when it ran, and a walk along a chain of waits notes what has changed.
fn account_of(scheduled: &mut Scheduled, thread: TcbRef) -> Charged {
    let task = task_of(scheduled.look_at(thread))?;
    if !task.is_alive() {
        return own(task);
    }
    let lent = scheduled.with_chains(|kernel| {
        let waiter = task.port.served.first(kernel)?;
        lent_by(kernel, waiter)
    });
    lent.or_else(|| own(task))
}

/// What a thread that waits for a reply lends; not one that is dead, which has called its supervisor. What is noted of it may be of a call
/// that is over, and where a circle is about to be refused it would be noted from each other for ever: so it has to be the account of one
/// that lends it.
fn lent_by(kernel: &Kernel, waiter: TcbRef) -> Charged {
    let t = kernel.look_at(waiter);
    task_of(t).filter(|it| it.is_alive() && t.cpu == CpuRef::this())?;
    let account = t.account.filter(|it| it.is_open())?;
    Task::of_account(account).lends(kernel).then_some(account)
}

/// `prev` is left. Only what is noted of those that wait to be served is asked for, and the short ways of messages, which are not
/// charged, note nothing.
pub(crate) fn left(scheduled: &mut Scheduled, prev: TcbRef) {
    let lends = !scheduled.look_at(prev).blocked_on.is_null();
    scheduled.thread(prev).account = if lends {
        // Not the one that it was charged to: who lent that may have its reply by now.
        account_of(scheduled, prev)
    } else {
        None
    };
}

/// `next` is about to run.
#[inline(never)]
pub(crate) fn switch_budget(scheduled: &mut Scheduled, cpu: CpuRef, next: TcbRef, now: Instant) {
    let charged = account_of(scheduled, next);
    scheduled.thread(next).account = charged;
    change(scheduled, cpu, charged, now);
}

/// Who waits for the running thread may be another one.
pub(crate) fn recharge_running(scheduled: &mut Scheduled, cpu: CpuRef, now: Instant) {
    let running = TcbRef::of(scheduled.cpu(cpu).rq.current());
    switch_budget(scheduled, cpu, running, now);
}

/// Whether this CPU has to look whose account threads are charged to when others come to wait for them or do no longer.
#[inline(always)]
pub(crate) fn is_watched(scheduled: &mut Scheduled) -> bool {
    scheduled.cpu(CpuRef::this()).is_watched()
}

/// The same, some section later: this thread is charged to whoever lends to it now, and so will be those that it waits for, to which
/// the walk goes on.
#[cold]
#[inline(never)]
pub(crate) fn waiters_changed(thread: TcbRef) {
    proof::only_with!("counting at switches");
    let mut section = section::own();
    let cpu = CpuRef::this();
    if is_watched(&mut section) && section.look_at(thread).cpu == cpu {
        if section.cpu(cpu).rq.current() == thread.tid() {
            recharge_running(&mut section, cpu, Instant::now());
        } else if !section.look_at(thread).blocked_on.is_null() {
            let charged = account_of(&mut section, thread);
            section.thread(thread).account = charged;
        }
    }
    section.leave_quietly();
}

/// The running thread goes on although another one may have its reply: from here on not on that one's account. But as long as it
/// has a priority that it inherited, which it is about to lose, it is.
#[inline(always)]
pub(crate) fn replied(scheduled: &mut Scheduled, cpu: CpuRef) {
    let Some(charged) = scheduled.cpu(cpu).charged else {
        return;
    };
    let running = scheduled.running_on(cpu);
    let own = task_of(running).and_then(Task::account);
    let is_own = own.is_some_and(|own| core::ptr::eq(own, charged));
    if !is_own && running.prio == running.base {
        recharge_running(scheduled, cpu, Instant::now());
    }
}

/// The CPU charges another account from now on, or none.
fn change(scheduled: &mut Scheduled, cpu: CpuRef, to: Option<&'static Account>, now: Instant) {
    let charged = &mut scheduled.cpu(cpu).charged;
    let before = core::mem::replace(charged, to);
    match (before, to) {
        (None, None) => {}
        (Some(before), Some(to)) if core::ptr::eq(before, to) => {
            // The slice's timer has come for that, and is not armed any more.
            if to.is_used_up() {
                core::hint::cold_path();
                begin_again(scheduled, to, now);
            }
        }
        (Some(before), Some(to)) => {
            before.charge(now);
            timers::insert(scheduled, timers::SLICE, to.start(now));
        }
        (Some(before), None) => {
            before.charge(now);
            jump_label::listens(false);
            timers::cancel(scheduled, timers::SLICE);
        }
        (None, Some(to)) => {
            jump_label::listens(true);
            timers::insert(scheduled, timers::SLICE, to.start(now));
        }
    }
}

#[cold]
#[inline(never)]
fn begin_again(scheduled: &mut Scheduled, account: &'static Account, now: Instant) {
    account.charge(now);
    timers::insert(scheduled, timers::SLICE, account.exhaustion());
}
