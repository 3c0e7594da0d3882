//! New threads: what they are made of, their ids, and the idle threads, which boot contexts become.

use core::num::NonZeroU32;
use core::sync::atomic::Ordering::Relaxed;

use takt_scheduler::{Priority, ThreadId};

use super::handle::{Policy, Thread};
use super::ids::take_id;
use super::stack::{self, Stack};
use super::tcb::{self, RunTime, TcbRef};
use crate::arch::percpu::{self, CpuRef};
use crate::arch::{resume, sse};
use crate::clock::Instant;
use crate::config::{IDLE_STACK_SIZE, MAX_CPUS};
use crate::error::Error;
use crate::probe::{events, trace_to};
use crate::section::{self, Any, Section};

/// Bytes of a thread's name.
const MAX_NAME: usize = 64;

/// What a thread is made of.
#[derive(Clone, Copy)]
pub struct Builder {
    name: &'static str,
    priority: Priority,
    policy: Policy,
    cpu: u8,
}

impl Builder {
    /// A FIFO thread of this priority (0 to 99, 99 the most important) on the calling CPU.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if the priority is above 99, or the name has more than 64 bytes: filters are compared with it.
    pub fn new(name: &'static str, priority: u8) -> Result<Self, Error> {
        if name.len() > MAX_NAME {
            return Err(Error::InvalidArgument);
        }
        let priority = Priority::new(priority).ok_or(Error::InvalidArgument)?;
        Ok(Self {
            name,
            priority,
            policy: Policy::Fifo,
            cpu: percpu::cpu() as u8,
        })
    }

    /// With this policy.
    #[must_use]
    pub fn policy(mut self, policy: Policy) -> Self {
        self.policy = policy;
        self
    }

    /// On this CPU.
    #[must_use]
    pub fn cpu(mut self, cpu: usize) -> Self {
        // A number that does not fit is no CPU's.
        self.cpu = u8::try_from(cpu).unwrap_or(u8::MAX);
        self
    }

    /// Creates the thread; it does not run before [`Thread::start`].
    ///
    /// # Errors
    /// [`Error::OutOfResources`] when all threads are in use, [`Error::StackInUse`],
    /// [`Error::InvalidArgument`] if the CPU does not run.
    ///
    /// # Context
    /// Threads and interrupt handlers.
    #[inline(always)]
    pub fn create<const SIZE: usize>(
        self,
        stack: &'static Stack<SIZE>,
        entry: fn(usize),
        argument: usize,
    ) -> Result<Thread, Error> {
        self.create_on(stack.parts(), entry, argument)
    }

    /// The same on a stack that the caller lays out as [`Stack`] is: the guard, and `size` bytes of whole pages from
    /// `bottom` on.
    ///
    /// # Errors
    /// As [`Builder::create`].
    ///
    /// # Safety
    /// All of it is static, page-aligned and at first zeros, only the thread uses it, and its address is registered where
    /// [`thread_stack!`](crate::thread_stack) registers those that it declares.
    pub unsafe fn create_raw(
        self,
        bottom: *mut u8,
        size: usize,
        entry: fn(usize),
        argument: usize,
    ) -> Result<Thread, Error> {
        self.create_on(stack::Parts::new(bottom as usize, size), entry, argument)
    }

    #[inline(always)]
    fn create_on(
        self,
        stack: stack::Parts,
        entry: fn(usize),
        argument: usize,
    ) -> Result<Thread, Error> {
        let place = Place {
            priorities: [self.priority; 2],
            cpu: self.cpu,
            _unused: 0,
        };
        let thread = create(self.name, place, stack, entry, argument).thread()?;
        #[cfg(feature = "round-robin")]
        if let Policy::RoundRobin(quantum) = self.policy {
            thread.make_round_robin(quantum);
        }
        Ok(thread)
    }

    /// Creates and starts the thread.
    ///
    /// # Errors
    /// As [`Builder::create`].
    #[inline(always)]
    pub fn spawn<const SIZE: usize>(
        self,
        stack: &'static Stack<SIZE>,
        entry: fn(usize),
        argument: usize,
    ) -> Result<Thread, Error> {
        self.spawn_on(stack.parts(), entry, argument)
    }

    /// Once for stacks of every size.
    #[inline(never)]
    fn spawn_on(
        self,
        stack: stack::Parts,
        entry: fn(usize),
        argument: usize,
    ) -> Result<Thread, Error> {
        let thread = self.create_on(stack, entry, argument)?;
        thread.start()?;
        Ok(thread)
    }
}

/// What a new thread is queued by; one register.
#[derive(Clone, Copy)]
#[repr(C, align(4))]
struct Place {
    /// Effective and own.
    priorities: [Priority; 2],
    cpu: u8,
    _unused: u8,
}

/// The handle of a new thread, or why there is none, in one register.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Created(u32);

impl Created {
    // A thread's handle has `IN_USE`.
    const NO_CPU: Self = Self(0);
    const NO_STACK: Self = Self(1);
    const NO_ID: Self = Self(2);

    #[inline(always)]
    fn thread(self) -> Result<Thread, Error> {
        if let Some(handle) = NonZeroU32::new(self.0)
            && self.0 & tcb::IN_USE != 0
        {
            return Ok(Thread { handle });
        }
        Err(match self {
            Self::NO_CPU => Error::InvalidArgument,
            Self::NO_STACK => Error::StackInUse,
            _ => Error::OutOfResources,
        })
    }
}

/// Does the work of [`Builder::create`] for every size of stack. Arguments and result are registers.
#[inline(never)]
fn create(
    name: &'static str,
    place: Place,
    stack: stack::Parts,
    entry: fn(usize),
    argument: usize,
) -> Created {
    if !crate::cpus::is_online(place.cpu.into()) {
        return Created::NO_CPU;
    }
    let mut section = section::enter();
    if stack.in_use().load(Relaxed) {
        section.leave_quietly();
        return Created::NO_STACK;
    }
    let Some(tid) = take_id(&mut section) else {
        section.leave_quietly();
        return Created::NO_ID;
    };
    stack.in_use().store(true, Relaxed);
    // The id was free: what is not set here is as a new thread's.
    let t = section.thread(TcbRef::of(tid));
    if MAX_CPUS > 1 {
        t.set_cpu(CpuRef::of(place.cpu.into()));
    }
    t.name = Some(name);
    t.take();
    t.set_priorities(place.priorities);
    // The ABI wants the stack 16-aligned before a call; the entry stub calls.
    t.rsp = stack.top;
    t.stack_bottom = stack.bottom;
    t.stack_top = stack.top;
    t.exchange = entry as usize;
    t.exchange2 = argument;
    let created = Created(t.handle);
    if crate::static_branch!(events::thread_name::ID)
        || crate::static_branch!(events::thread_create::ID)
    {
        return end_traced(section, tid);
    }
    #[cfg(feature = "rules")]
    if crate::static_branch!(crate::trace::rules::table::NAMES) {
        return end_traced(section, tid);
    }
    section.leave_quietly();
    created
}

/// Apart, as the rare ends of [`sched`].
#[inline(never)]
fn end_traced(section: Section<Any>, tid: ThreadId) -> Created {
    let t = section.look_at(TcbRef::of(tid));
    let created = Created(t.handle);
    let (tid, name) = (t.tid.raw(), t.name_or_none());
    let (rank, cpu) = (t.prio.rank(), t.cpu.number());
    // Nobody has a handle of it yet.
    section.leave_quietly();
    #[cfg(feature = "rules")]
    if crate::static_branch!(crate::trace::rules::table::NAMES) {
        crate::trace::rules::table::thread_named(tid, name);
    }
    // Whoever creates it may have interrupts off.
    trace_to!(KernelSink, thread_name, tid, name.as_bytes());
    trace_to!(KernelSink, thread_create, tid, rank, cpu);
    created
}

/// Turns the boot context of this CPU into its idle thread.
///
/// # Safety
/// Once on each CPU, at the end of its set-up, with interrupts off.
pub(crate) unsafe fn adopt_idle(stack_top: usize) {
    let cpu = CpuRef::this();
    let tid = ThreadId::new(cpu.number() as u8);
    let mut section = section::own_irq();
    let t = section.thread(TcbRef::of(tid));
    t.set_cpu(cpu);
    t.name = Some("idle");
    t.resume = resume::resume_idle();
    t.stack_bottom = stack_top.wrapping_sub(IDLE_STACK_SIZE);
    t.stack_top = stack_top;
    t.rsp = stack_top;
    t.mxcsr = tcb::MXCSR;
    sse::load_mxcsr(&t.mxcsr);
    t.handle |= tcb::IN_USE;
    t.prio = Priority::IDLE;
    t.base = Priority::IDLE;
    t.state = 0;
    t.atomic = tcb::NEVER_WAITS;
    t.runtime = RunTime::NONE.begun(Instant::now());
    let sched = section.cpu(cpu);
    sched.rq = takt_scheduler::RunQueue::new(tid);
    sched.name_threads();
    section.release();
}
