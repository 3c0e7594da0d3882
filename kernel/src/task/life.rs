//! A task's lives: how it begins, is stopped, and begins anew.

use core::mem::MaybeUninit;
use core::sync::atomic::Ordering::Relaxed;

use takt_abi::{FaultKind, WORDS, fault};

use super::account::NO_LIFE;
use super::fault::{Ended, Fault};
use super::frame::Frame;
use super::object::{MAX_TASKS, Port, Task, all};
use super::timerlat;
use crate::arch::ring3;
use crate::clock::{Instant, Nanos};
use crate::error::Error;
use crate::probe::trace_irqs_on;
use crate::sched;
use crate::section;
use crate::sync::Semaphore;
use crate::thread::exit::end;
use crate::thread::tcb::TcbRef;
use crate::thread::{self, Builder, Thread};
use crate::time;
use crate::wait;

/// The highest priority.
pub(super) const TOP: u8 = 99;

/// How often a supervisor is told of a fault that does not hear it, and the time in between: as long as it may take to begin
/// anew itself.
const ATTEMPTS: u32 = 100;
const PAUSE: Nanos = Nanos::from_millis(1);

/// Starts a task on its CPU; it is told the argument. Its thread is to be joined before it is started again.
///
/// On the caller's CPU it lives when the call returns, unless the caller has the highest priority; its memory is prepared at that
/// priority.
///
/// # Errors
/// [`Error::InvalidArgument`] if there is none of this number, or its CPU is not there; [`Error::InvalidState`] if it lives;
/// [`Error::OutOfResources`].
///
/// # Context
/// Threads.
pub fn start(number: usize, argument: u64) -> Result<Thread, Error> {
    let cpu = all().get(number).map_or(0, |task| task.program.cpu);
    start_on(number, argument, cpu, None)
}

/// Tasks that [`start_all`] has started and that live since, with all of their threads.
static ALIVE: Semaphore = Semaphore::new(0, MAX_TASKS as u32);
/// Of these those that may go on.
static GO_ON: Semaphore = Semaphore::new(0, MAX_TASKS as u32);

/// Starts as many tasks as there are arguments, each as [`start`] does; none of them runs before all live, on whichever CPUs
/// they are. `started` is told each one's thread, in their order.
///
/// # Errors
/// As [`start`], with the number of the task; those before it were started. [`Error::WrongContext`] with the first if the caller cannot
/// wait: then none was.
///
/// # Context
/// A thread that is more important than the tasks, one at a time.
pub fn start_all(arguments: &[u64], mut started: impl FnMut(Thread)) -> Result<(), (usize, Error)> {
    if !sched::may_block() {
        return Err((0, Error::WrongContext));
    }
    let mut result = Ok(());
    let mut nr = 0;
    for (number, argument) in arguments.iter().enumerate() {
        let cpu = all().get(number).map_or(0, |task| task.program.cpu);
        match spawn(number, *argument, cpu, None, live_with_all) {
            Ok(thread) => started(thread),
            Err(error) => {
                result = Err((number, error));
                break;
            }
        }
        nr += 1;
    }
    // Neither can fail where one may wait.
    for _ in 0..nr {
        let _ = ALIVE.take();
    }
    for _ in 0..nr {
        let _ = GO_ON.give();
    }
    result
}

/// As [`start`], on this CPU and not on that of its manifest, and with this priority if it is not to have that.
///
/// # Errors
/// As [`start`], and [`Error::InvalidArgument`] if the priority is above 99.
///
/// # Context
/// Threads.
pub fn start_on(
    number: usize,
    argument: u64,
    cpu: usize,
    priority: Option<u8>,
) -> Result<Thread, Error> {
    spawn(number, argument, cpu, priority, live)
}

fn spawn(
    number: usize,
    argument: u64,
    cpu: usize,
    priority: Option<u8>,
    entry: fn(usize),
) -> Result<Thread, Error> {
    let task = all().get(number).ok_or(Error::InvalidArgument)?;
    if task.is_further() {
        return Err(Error::InvalidArgument);
    }
    if task.is_alive() {
        return Err(Error::InvalidState);
    }
    let priority = priority.unwrap_or(task.program.priority);
    if priority > TOP {
        return Err(Error::InvalidArgument);
    }
    // No life has the number that means none.
    if task.generation() >= NO_LIFE - 1 {
        return Err(Error::OutOfResources);
    }
    // It becomes alive above all others, so that whoever is started next finds it so; only then it has its own priority.
    let builder = Builder::new(task.program.name, TOP)?.cpu(cpu);
    // Whoever has the stack begins the life: nobody else changes with what.
    let thread = builder.create(task.program.stack, entry, number)?;
    let before = task.argument.swap(argument, Relaxed);
    let priority_before = task.priority.swap(priority, Relaxed);
    let spawned = task.spawn_further(cpu);
    if spawned.is_err() {
        // It ends at once, and may yet begin anew, by its supervisor's word.
        task.argument.store(before, Relaxed);
        task.priority.store(priority_before, Relaxed);
    }
    thread.start()?;
    if spawned.is_err() {
        let _ = thread.join(Instant::NEVER);
    }
    spawned.map(|()| thread)
}

/// What is there, copied in words: `memcpy` counts each byte as an instruction.
///
/// # Safety
/// It may be read, and nobody changes it meanwhile.
unsafe fn copy_by_words<T: Copy>(from: *const T) -> T {
    const { assert!(size_of::<T>().is_multiple_of(8) && align_of::<T>() == 8) };
    let mut copy = MaybeUninit::<T>::uninit();
    let (from, to) = (
        from.cast::<MaybeUninit<u64>>(),
        copy.as_mut_ptr().cast::<MaybeUninit<u64>>(),
    );
    for word in 0..size_of::<T>() / 8 {
        // SAFETY: a word of it, by the caller's promise. Volatile, since the compiler would call `memcpy`.
        let word_there = unsafe { from.wrapping_add(word).read_volatile() };
        // SAFETY: the same word of the copy.
        unsafe { to.wrapping_add(word).write(word_there) };
    }
    // SAFETY: all of its words are written.
    unsafe { copy.assume_init() }
}

impl Task {
    /// A life begins in ring 3 at once, with interrupts off from here on.
    #[cold]
    #[inline(never)]
    fn begin_times(&self) {
        self.begin_watchdog();
        if let Some(budget) = &self.program.budget {
            self.begin_budget(budget);
        }
    }

    /// How its last life ended; `None` if it has not, or never lived.
    ///
    /// # Context
    /// Any but NMI.
    #[must_use]
    pub fn ended(&self) -> Option<Ended> {
        let section = section::enter();
        // SAFETY: it is written in a life only, and none begins while this section lasts, see `Port::open_for`.
        let ended = (!self.is_alive()).then(|| unsafe { copy_by_words(self.ended.get()) });
        section.leave_quietly();
        ended.flatten()
    }

    /// Its thread begins a life, which may be another one.
    fn begin(&'static self) -> ! {
        self.prepare();
        self.run()
    }

    /// The running thread is the task's from now on.
    pub(super) fn adopt_thread(&'static self) {
        let me = TcbRef::current();
        self.port.thread.store(me.as_ptr() as usize, Relaxed);
        self.port.served.keep();
        self.make_timer();
        // SAFETY: only the task's own thread uses it, and `start` allows one.
        if unsafe { (*self.ended.get()).is_some() } {
            self.generation.store(self.generation() + 1, Relaxed);
        }
        let mut section = section::enter_thread();
        // SAFETY: the running thread's block, which the section lends; `install` has completed the tables.
        unsafe { ring3::set_space(section.thread(me), &self.space) };
        section.leave_quietly();
    }

    /// From here on it lives.
    fn prepare(&'static self) {
        self.route();
        // SAFETY: the task's own thread, in the kernel, and no other one runs.
        unsafe { self.program.refresh() };
        if self.has_others() {
            self.prepare_further();
        }
        self.port.open_for(self.generation());
    }

    /// Begins the life that was prepared.
    pub(super) fn run(&'static self) -> ! {
        self.renew_all();
        // It is a thread's.
        let _ = thread::current().set_priority(self.priority.load(Relaxed));
        ring3::renew(&self.space);
        let entry = match self.has_others() {
            true => self.set_out(),
            false => self.program.entry,
        };
        if self.program.is_timed {
            self.begin_times();
        }
        // SAFETY: nothing of the life before is needed, and `live` has given the thread the space.
        unsafe { ring3::enter(entry, self.argument.load(Relaxed)) }
    }

    /// Its thread ends its life: nobody can send to it any more, and whoever has joined the thread finds how it ended.
    pub(super) fn end(&self, ended: Ended) {
        timerlat::release();
        self.end_watchdog();
        // SAFETY: the task's own thread.
        unsafe { *self.ended.get() = Some(ended) };
        self.port.close();
        // That which was to end it where this has come first: the next life is not to have it.
        let _ = self.take_pending();
        self.mask();
    }

    /// Two lines about its fault, of those that it may log: a task that faults over and over is not to fill the log.
    fn log_fault(&self, thread: &Self, fault: &Fault) {
        let name = thread.program.name;
        // SAFETY: only the task's own thread uses it.
        let log = unsafe { &mut *self.log.get() };
        if !log.may_log(self.program.name) {
            return;
        }
        fault.log(name);
        // That is what ends with timerlat, and is no error.
        if fault.kind == FaultKind::Killed {
            return;
        }
        let callers = self.callers(fault);
        if !callers.as_slice().is_empty() && log.may_log(self.program.name) {
            defmt::error!(
                "task '{=str}' was called from {=[?]:#018x}",
                name,
                callers.as_slice()
            );
        }
    }

    /// Its thread is done with it, after the end of its last life.
    pub(super) fn quit(&'static self, code: usize) -> ! {
        if self.has_others() && !self.is_further() {
            self.await_rest();
            self.dismiss_further();
        }
        self.port.served.give_up();
        self.end_budget();
        ring3::leave(&self.space);
        end(code)
    }

    /// Ends the life of the running task, whose thread this is.
    ///
    /// Its supervisor is told first, if it was not yet, and runs at once if it is more important. Only then those learn of it who wait
    /// for a reply, and the log.
    #[inline(always)]
    pub(super) fn stop(&'static self, fault: &Fault, is_told: bool) -> ! {
        stop(self, fault, is_told)
    }

    /// Sends the supervisor the message of a fault.
    fn tell(&self, supervisor: &Port, fault: &Fault) -> Result<(), takt_abi::Error> {
        let life = supervisor.life.load(Relaxed);
        if life == 0 {
            return Err(takt_abi::Error::Dead);
        }
        let mut words = [0; WORDS];
        words[fault::KIND] = fault.kind as u64;
        words[fault::RIP] = fault.rip;
        words[fault::ADDRESS] = fault.address;
        words[fault::CODE] = fault.code;
        words[fault::RSP] = fault.rsp;
        words[fault::GENERATION] = self.generation().into();
        Frame::of(TcbRef::current()).set_message(&words);
        supervisor.begin_call(self.fault_value.load(Relaxed), life)
    }

    /// What the supervisor, which was told of the fault or not, wants to become of it.
    fn is_to_restart(
        &self,
        supervisor: &Port,
        fault: &Fault,
        mut told: Result<(), takt_abi::Error>,
    ) -> bool {
        let frame = Frame::of(TcbRef::current());
        for _ in 0..ATTEMPTS {
            if told.is_ok() {
                // The wait itself cannot fail.
                let _ = wait::begin_wait().finish();
                if frame.status.load(Relaxed) == 0 {
                    return frame.words[0].load(Relaxed) == fault::RESTART;
                }
            }
            // It may be about to begin anew, or be called by whom it waits for.
            let _ = time::sleep(PAUSE);
            told = self.tell(supervisor, fault);
        }
        false
    }

    /// Ends the running task by its own wish; a further thread, itself alone.
    pub(super) fn exit(&'static self, code: u64) -> ! {
        if self.is_further() {
            self.end_alone(code)
        }
        // One that another of its threads has stopped is stopped.
        if self.has_others()
            && let Some((thread, fault)) = self.begin_exit()
        {
            stop_for(self, thread, &fault, false)
        }
        self.end(Ended::Exited(code));
        if self.has_others() {
            self.stop_others();
        }
        self.port.release_callers();
        self.quit(code as usize)
    }
}

/// The thread of a task.
fn live(number: usize) {
    if let Some(task) = all().get(number).filter(|it| !it.is_over()) {
        task.adopt_thread();
        task.await_rest();
        task.begin()
    }
}

/// The same of one that begins together with others.
fn live_with_all(number: usize) {
    if let Some(task) = all().get(number).filter(|it| !it.is_over()) {
        task.adopt_thread();
        task.await_rest();
        task.prepare();
        // Neither can fail in a thread.
        let _ = ALIVE.give();
        let _ = GO_ON.take();
        task.run()
    }
}

/// [`Task::stop`].
// The compiler copies what is known of the fault by more SSE registers than interrupts keep elsewhere (see `sse`).
#[inline(never)]
#[unsafe(link_section = ".text.sse.task_stop")]
#[cfg_attr(
    feature = "function",
    patchable_function_entry(prefix_nops = 0, entry_nops = 0)
)]
fn stop(task: &'static Task, fault: &Fault, is_told: bool) -> ! {
    if task.has_others() {
        task.stop_all(fault)
    }
    task.trace_fault(fault);
    stop_for(task, task, fault, is_told)
}

impl Task {
    #[inline(always)]
    pub(super) fn trace_fault(&self, fault: &Fault) {
        trace_irqs_on!(
            task_fault,
            self.port.thread().tid().raw(),
            fault.kind as u8,
            fault.code,
            fault.rip,
            fault.address,
            fault.rsp,
            fault.registers
        );
        trace_irqs_on!(
            task_callers,
            self.port.thread().tid().raw(),
            self.callers(fault).as_slice()
        );
    }
}

/// The same by its first thread, where this thread of it was stopped.
#[inline(never)]
#[unsafe(link_section = ".text.sse.task_stop_for")]
#[cfg_attr(
    feature = "function",
    patchable_function_entry(prefix_nops = 0, entry_nops = 0)
)]
pub(super) fn stop_for(
    task: &'static Task,
    thread: &'static Task,
    fault: &Fault,
    is_told: bool,
) -> ! {
    task.end(Ended::Stopped(*fault));
    if task.has_others() {
        task.stop_others();
        // Those that were about to wait do so, and wait no longer.
        thread::yield_now();
        task.stop_others();
    }
    let supervisor = task.program.supervisor.and_then(|it| all().get(it));
    let own_priority = task.priority.load(Relaxed);
    let supervisors = supervisor.map(|it| it.priority.load(Relaxed));
    let is_less_important = supervisors.is_some_and(|it| it < own_priority);
    // The dead lend no budget, and so no more of a priority than is the supervisor's own.
    if let Some(priority) = supervisors.filter(|_| is_less_important || task.has_others()) {
        let _ = thread::current().set_priority(priority.min(own_priority));
    }
    let tell = |it: &'static Task| match is_told {
        true => Ok(()),
        false => task.tell(&it.port, fault),
    };
    let told = supervisor.map(|it| (&it.port, tell(it)));
    task.port.release_callers();
    // A supervisor that is more important has run by now; one that is less has not, and is not to wait for the log.
    if !is_less_important {
        task.log_fault(thread, fault);
    }
    let restarts = told.is_some_and(|(port, told)| task.is_to_restart(port, fault, told))
        // No life has the number that means none.
        && task.generation() < NO_LIFE - 1;
    if is_less_important {
        task.log_fault(thread, fault);
    }
    if restarts {
        if task.has_others() {
            task.await_rest();
        }
        if is_less_important || task.has_others() {
            // As important as it is itself: for another one's sake it may be more.
            let _ = thread::current().set_priority(own_priority);
        }
        task.generation.store(task.generation() + 1, Relaxed);
        task.begin()
    }
    task.quit(1)
}
