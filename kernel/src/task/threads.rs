//! Further threads of a task, beside the first one.
//!
//! All threads of a task have its memory; each has a stack, a port, handles, a budget and a watchdog of its own. They live and die
//! together: what stops one of them stops the task. The first thread prepares each life, with all others at rest, and ends it: it
//! waits until they are at rest again, and tells the supervisor what has stopped the task, whichever thread that was. So there is
//! one place where a task begins anew, and nobody writes to its memory meanwhile. A further thread that returns rests as well,
//! until the next life; the task goes on.
//!
//! All of them run on one CPU, so that each can be stopped from the others.
//!
//! # Invariants
//! * What stops a task is written down once a life, by the thread that it stopped, inside a section.
//! * Each further thread gives [`AT_REST`] once before the first life, and once at the end of each.

use core::sync::atomic::Ordering::Relaxed;

use takt_abi::{Error as Refused, FaultKind};

use super::fault::{Ended, Fault, Pending};
use super::life::{TOP, stop_for};
use super::object::{Task, all};
use crate::arch::interrupts;
use crate::clock::{Instant, Nanos};
use crate::config::MAX_TASKS;
use crate::error::Error;
use crate::section;
use crate::sync::Semaphore;
use crate::thread::tcb::TcbRef;
use crate::thread::{Builder, Thread};
use crate::time;

/// How soon it is looked again at threads that are to stop, which may have been about to wait.
const AGAIN: Nanos = Nanos::from_micros(100);

/// By the number of a task: its further threads that are at rest, and have not been counted yet.
static AT_REST: [Semaphore; MAX_TASKS] = [const { Semaphore::new(0, MAX_TASKS as u32) }; MAX_TASKS];
/// By the number of a further thread: it may begin a life.
static GO: [Semaphore; MAX_TASKS] = [const { Semaphore::new(0, 1) }; MAX_TASKS];

impl Task {
    /// The task that this is a thread of.
    fn first(&self) -> &'static Task {
        &all()[self.program.first]
    }

    /// Whether this is a further thread of a task.
    pub(super) fn is_further(&self) -> bool {
        self.program.first != self.number()
    }

    /// Whether this is a thread of a task that has several.
    #[inline(always)]
    pub(super) fn has_others(&self) -> bool {
        self.program.has_threads
    }

    fn at_rest(&self) -> &'static Semaphore {
        &AT_REST[self.number()]
    }

    fn go(&self) -> &'static Semaphore {
        &GO[self.number()]
    }

    /// The further threads of this task.
    fn further(&self) -> impl Iterator<Item = &'static Task> {
        self.program.threads.iter().map(|it| &all()[*it])
    }

    /// Creates the task's further threads, on the CPU of its first one; they rest.
    ///
    /// # Errors
    /// Those of [`Builder::spawn`]; then there are none of them.
    pub(super) fn spawn_further(&self, cpu: usize) -> Result<(), Error> {
        self.group.is_over.store(false, Relaxed);
        // Of an earlier life.
        self.group.is_stopping.store(false, Relaxed);
        for (nr, number) in self.program.threads.iter().enumerate() {
            let task = &all()[*number];
            let spawned = Builder::new(task.program.name, TOP)
                .and_then(|it| it.cpu(cpu).spawn(task.program.stack, live_further, *number));
            match spawned {
                Ok(thread) => task.group.handle.store(thread.handle(), Relaxed),
                Err(error) => {
                    self.dismiss(nr);
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// The first so many of the task's further threads, which rest, end.
    fn dismiss(&self, nr: usize) {
        self.group.is_over.store(true, Relaxed);
        for task in self.further().take(nr) {
            // As in `set_out`.
            let _ = task.go().give();
            let thread = Thread::of_handle(task.group.handle.load(Relaxed));
            while thread.join(Instant::NEVER) == Err(Error::InvalidState) {
                // Somebody else joins it.
                let _ = time::sleep(AGAIN);
            }
            // Counted by nobody.
            let _ = self.at_rest().try_take();
        }
    }

    /// The task's first thread has done with it: so have all others.
    pub(super) fn dismiss_further(&self) {
        self.dismiss(self.program.threads.len());
    }

    /// Whether its first thread is to end at once, since a further one could not be created.
    pub(super) fn is_over(&self) -> bool {
        self.group.is_over.load(Relaxed)
    }

    /// Waits until all further threads rest: nobody has the task's memory any more.
    pub(super) fn await_rest(&'static self) {
        for _ in self.program.threads {
            while self.at_rest().take_until(Instant::after(AGAIN)) == Err(Error::TimedOut) {
                if self.group.is_stopping.load(Relaxed) {
                    self.stop_others();
                }
            }
        }
    }

    /// The further threads, which rest, live as the first one is about to, but do not run yet.
    pub(super) fn prepare_further(&self) {
        // SAFETY: they rest.
        unsafe { self.program.refresh_stacks() };
        // Before anyone lives whom a late look would stop.
        self.group.is_stopping.store(false, Relaxed);
        for task in self.further() {
            task.generation.store(self.generation(), Relaxed);
            task.port.open_for(self.generation());
        }
    }

    /// Whether the task's threads are to stop.
    pub(super) fn is_stopping(&self) -> bool {
        self.first().group.is_stopping.load(Relaxed)
    }

    /// If the task's threads are to stop: the next instructions in ring 3 of all others raise a fault, what they wait for ends, and they
    /// are as important as this one is now at least, until they rest: whoever begins the next life waits for that.
    pub(super) fn stop_others(&'static self) {
        let first = self.first();
        let others = core::iter::once(first).chain(first.further());
        for other in others.filter(|it| !core::ptr::eq(*it, self)) {
            let mut section = section::own_thread();
            // The next life may have begun in between.
            if !first.group.is_stopping.load(Relaxed) {
                section.leave_quietly();
                continue;
            }
            let thread = other.port.thread();
            let noted = other.group.handle.load(Relaxed);
            // One that has ended has left its block to others.
            if other.is_further() && section.look_at(thread).handle != noted {
                section.leave_quietly();
                continue;
            }
            if other.is_alive() {
                other.stop_at_next(thread, FaultKind::WithTask);
                other.unthrottle(&mut section);
                other.end_wait(&mut section, Refused::Dead);
            }
            let (handle, base) = (section.look_at(thread).handle, section.look_at(thread).base);
            let own = section.look_at(TcbRef::current()).prio;
            // A first one that has ended is as important as it lets its supervisor be.
            let rests = other.is_further() || other.is_alive();
            section.leave();
            if rests && own.is_more_important_than(base) {
                // It may have ended meanwhile.
                let _ = Thread::of_handle(handle).set_priority(own.raw());
            }
        }
    }

    /// This thread ends the task: its others are to stop. Gives what has stopped one of them before.
    pub(super) fn begin_exit(&'static self) -> Option<(&'static Task, Fault)> {
        begin_stop(self, None).1
    }

    /// This thread, of a task that has others, was stopped by a fault.
    pub(super) fn stop_all(&'static self, fault: &Fault) -> ! {
        stop_all(self, fault)
    }

    /// A further thread has returned, and rests.
    pub(super) fn end_alone(&'static self, code: u64) -> ! {
        self.end(Ended::Exited(code));
        self.port.release_callers();
        self.wait_for_life(false)
    }

    /// The way to ring 3 begins, with interrupts off from here on: of the further threads as well, if this is the first one. Gives
    /// where it leads: to a fault at once if the task is stopped already, which begins with an empty stack as any.
    pub(super) fn set_out(&'static self) -> usize {
        for task in self.further() {
            // It cannot overflow: whoever rests has taken what was given.
            let _ = task.go().give();
        }
        interrupts::disable();
        if !self.is_stopping() && !self.pending.is_some() {
            return self.program.entry;
        }
        self.have_in_store(FaultKind::WithTask, self.program.entry as u64);
        Pending::PLACE as usize
    }

    /// A further thread rests until its next life, which it begins. One that has stopped the task looks meanwhile whether the first one
    /// does stop, which may have been about to wait.
    fn wait_for_life(&'static self, mut looks: bool) -> ! {
        let first = self.first();
        // As in `set_out`.
        let _ = first.at_rest().give();
        loop {
            looks = looks && first.group.is_stopping.load(Relaxed) && first.is_alive();
            let deadline = match looks {
                true => Instant::after(AGAIN),
                false => Instant::NEVER,
            };
            if self.go().take_until(deadline).is_ok() {
                break;
            }
            self.stop_others();
        }
        if first.group.is_over.load(Relaxed) {
            self.quit(0)
        }
        self.run()
    }
}

/// A further thread of a task.
fn live_further(number: usize) {
    if let Some(task) = all().get(number) {
        task.adopt_thread();
        task.wait_for_life(false)
    }
}

/// This thread was stopped by a fault, or ends the task: all others are to stop. Says whether it is the first of them to be
/// stopped; the task's first thread is given what has stopped another one before.
// The compiler copies faults by more SSE registers than interrupts keep elsewhere (see `sse`).
#[inline(never)]
#[unsafe(link_section = ".text.sse.task_begin_stop")]
#[cfg_attr(
    feature = "function",
    patchable_function_entry(prefix_nops = 0, entry_nops = 0)
)]
fn begin_stop(
    task: &'static Task,
    fault: Option<&Fault>,
) -> (bool, Option<(&'static Task, Fault)>) {
    let group = &task.first().group;
    let section = section::enter_thread();
    let is_first = !group.is_stopping.load(Relaxed);
    group.is_stopping.store(true, Relaxed);
    // SAFETY: inside a section, on the one CPU of these threads.
    let cause = unsafe { &mut *group.cause.get() };
    let mut before = None;
    if !task.is_further() {
        before = cause.take();
    } else if is_first {
        *cause = fault.map(|it| (task.number(), *it));
    }
    section.leave_quietly();
    (
        is_first,
        before.map(|(number, fault)| (&all()[number], fault)),
    )
}

/// [`Task::stop_all`].
// As of `begin_stop`.
#[inline(never)]
#[unsafe(link_section = ".text.sse.task_stop_all")]
#[cfg_attr(
    feature = "function",
    patchable_function_entry(prefix_nops = 0, entry_nops = 0)
)]
fn stop_all(task: &'static Task, fault: &Fault) -> ! {
    let (is_first, before) = begin_stop(task, Some(fault));
    // Not of one that was stopped for another one's sake.
    if is_first || fault.kind != FaultKind::WithTask {
        task.trace_fault(fault);
    }
    if task.is_further() {
        task.end(Ended::Stopped(*fault));
        task.stop_others();
        task.port.release_callers();
        task.wait_for_life(is_first)
    }
    match before {
        Some((thread, fault)) => stop_for(task, thread, &fault, false),
        None => stop_for(task, task, fault, false),
    }
}
