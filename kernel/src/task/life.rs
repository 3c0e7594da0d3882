//! A task's lives: how it begins, is stopped, and begins anew.

use core::sync::atomic::Ordering::{Relaxed, Release};

use takt_abi::{WORDS, fault};

use super::fault::{Ended, Fault};
use super::ipc::About;
use super::object::{Task, all};
use super::timerlat;
use crate::arch::{percpu, ring3};
use crate::clock::Instant;
use crate::error::Error;
use crate::probe::trace;
use crate::section;
use crate::sync::raw_mutex::Long;
use crate::thread::tcb::TcbRef;
use crate::thread::{self, Builder, Thread};
use crate::time;

/// The highest priority.
const TOP: u8 = 99;

/// How often a supervisor is told of a fault that does not hear it, and nanoseconds in between: as long as it may take to begin
/// anew itself.
const ATTEMPTS: u32 = 100;
const PAUSE: u64 = 1_000_000;

/// Starts a task, which is told the argument. Its thread is to be joined before it is started again.
///
/// It lives when the call returns, unless the caller has the highest priority; its memory is prepared at that priority.
///
/// # Errors
/// [`Error::InvalidArgument`] if there is none of this number; [`Error::InvalidState`] if it lives;
/// [`Error::OutOfResources`].
///
/// # Context
/// Threads.
pub fn start(number: usize, argument: u64) -> Result<Thread, Error> {
    start_on(number, argument, percpu::cpu(), None)
}

/// As [`start`], on this CPU, and with this priority if it is not to have the one that its manifest says.
///
/// # Errors
/// As [`start`]; [`Error::InvalidArgument`] also if there is no such CPU.
///
/// # Context
/// Threads.
pub fn start_on(
    number: usize,
    argument: u64,
    cpu: usize,
    priority: Option<u8>,
) -> Result<Thread, Error> {
    let task = all().get(number).ok_or(Error::InvalidArgument)?;
    if task.is_alive.load(Relaxed) {
        return Err(Error::InvalidState);
    }
    let before = task.argument.swap(argument, Relaxed);
    task.priority
        .store(priority.unwrap_or(task.program.priority), Relaxed);
    // It becomes alive above all others, so that whoever is started next finds it so; only then it has its own priority.
    Builder::new(task.program.name, TOP)?
        .cpu(cpu)
        .spawn(task.program.stack, live, number)
        // It may yet begin anew, by its supervisor's word.
        .inspect_err(|_| task.argument.store(before, Relaxed))
}

impl Task {
    /// How its last life ended; `None` if it has not, or never lived.
    ///
    /// # Context
    /// Whoever has joined its thread.
    #[must_use]
    pub fn ended(&self) -> Option<Ended> {
        if self.is_alive.load(Relaxed) {
            return None;
        }
        // SAFETY: its thread, which writes it, has ended.
        unsafe { *self.ended.get() }
    }

    /// Its number.
    fn number(&self) -> usize {
        (core::ptr::from_ref(self) as usize - all().as_ptr() as usize) / size_of::<Self>()
    }

    /// Its thread begins a life, which may be another one.
    fn begin(&'static self) -> ! {
        // A caller that has yet to tell of a message to the life before ends first.
        let _ = self.door.lock(Instant::NEVER, Long::Accepted);
        self.serve();
        self.arrived.clear(u32::MAX);
        self.renew_all();
        // SAFETY: the task's own thread, in the kernel.
        unsafe { self.program.refresh() };
        self.is_alive.store(true, Release);
        let _ = self.door.unlock();
        // It is a thread's.
        let _ = thread::current().set_priority(self.priority.load(Relaxed));
        let (entry, stack) = (self.program.entry, self.program.stack_top());
        // SAFETY: nothing of the life before is needed, and `live` has given the thread the space.
        unsafe { ring3::enter(&self.space, entry, stack, self.argument.load(Relaxed)) }
    }

    /// Its thread ends its life: whoever waits for it is let go, and others learn that it is over.
    fn end(&self, ended: Ended) {
        timerlat::release();
        // While it lives callers give it back to the thread.
        self.serve();
        // SAFETY: the task's own thread.
        unsafe { *self.ended.get() = Some(ended) };
        self.is_alive.store(false, Release);
        // Whether or not it has received the message that there may be.
        self.answer(Err(takt_abi::Error::Dead));
    }

    /// Ends the life of the running task, whose thread this is.
    #[inline(always)]
    pub(super) fn stop(&'static self, fault: &Fault) -> ! {
        stop(self, fault)
    }

    /// Asks the supervisor what is to become of it.
    fn is_to_restart(&self, fault: &Fault) -> bool {
        let Some(supervisor) = self.program.supervisor.and_then(|it| all().get(it)) else {
            return false;
        };
        let mut words = [0; WORDS];
        words[fault::KIND] = fault.kind as u64;
        words[fault::RIP] = fault.rip;
        words[fault::ADDRESS] = fault.address;
        words[fault::CODE] = fault.code;
        words[fault::RSP] = fault.rsp;
        words[fault::GENERATION] = self.generation().into();
        for _ in 0..ATTEMPTS {
            let about = About {
                badge: self.number() as u32,
                is_fault: true,
                generation: supervisor.generation(),
            };
            if supervisor.ask(about, &mut words).is_ok() {
                return words[0] == fault::RESTART;
            }
            // It may be about to begin anew, or be called by whom it waits for.
            let _ = time::sleep_nanos(PAUSE);
        }
        false
    }

    /// Ends the running task by its own wish.
    pub(super) fn exit(&self, code: u64) -> ! {
        self.end(Ended::Exited(code));
        ring3::leave(&self.space);
        thread::exit(code as usize)
    }
}

/// The thread of a task.
fn live(number: usize) {
    let Some(task) = all().get(number) else {
        return;
    };
    let me = TcbRef::current();
    task.tid.store(me.tid().raw(), Relaxed);
    // SAFETY: only the task's own thread uses it, and `start` allows one.
    if unsafe { (*task.ended.get()).is_some() } {
        task.generation.store(task.generation() + 1, Release);
    }
    let mut section = section::enter_thread();
    // SAFETY: inside a section, and `install` has completed the tables.
    unsafe { ring3::set_space(section.thread(me), &task.space) };
    section.leave_quietly();
    task.begin()
}

/// [`Task::stop`].
// As `calls::call`.
#[inline(never)]
#[unsafe(link_section = ".text.sse.task_stop")]
#[cfg_attr(
    feature = "function",
    patchable_function_entry(prefix_nops = 0, entry_nops = 0)
)]
fn stop(task: &'static Task, fault: &Fault) -> ! {
    trace!(
        task_fault,
        task.tid.load(Relaxed),
        fault.kind as u8,
        fault.code,
        fault.rip,
        fault.address,
        fault.rsp,
        fault.registers
    );
    fault.log(task.program.name);
    task.end(Ended::Stopped(*fault));
    if task.is_to_restart(fault) {
        task.generation.store(task.generation() + 1, Release);
        task.begin()
    }
    ring3::leave(&task.space);
    thread::exit(1)
}
