//! What comes in from ring 3: calls and faults. Both go on in the task's thread, in the kernel, with interrupts on.

use core::sync::atomic::Ordering::Relaxed;

use takt_abi::{Call, Error, FaultKind, lease};

use super::fault::{Fault, Pending};
use super::frame::Frame;
use super::ipc::deadline;
use super::object::Task;
use super::timerlat;
use crate::arch::frame::ExceptionFrame;
use crate::arch::ring3;
use crate::clock::Instant;
use crate::probe::trace_irqs_on;
use crate::switch::{Handoff, IrqExit};
use crate::thread::tcb::TcbRef;
use crate::{thread, wait};

/// The task whose thread runs.
#[inline(always)]
fn current() -> &'static Task {
    // SAFETY: only threads of tasks come in from ring 3.
    unsafe { Task::of_space(TcbRef::current().space()) }
}

/// A call of the running task, with its two arguments; the assembly of `entry_task` calls it. A switch that it gives is to be carried
/// out, then interrupts are off; the result and the message are in the frame at the stack's top.
#[cfg_attr(
    feature = "function",
    patchable_function_entry(prefix_nops = 0, entry_nops = 0)
)]
pub(crate) extern "C" fn call(a: u64, b: u64, number: u64) -> IrqExit {
    let frame = Frame::of(TcbRef::current());
    let task = current();
    let Some(call) = Call::from_number(number) else {
        stop_at_call(task, frame, FaultKind::IllegalCall, number);
    };
    let done = |()| 0;
    let result = match call {
        Call::Null => Ok(0),
        Call::Yield => {
            thread::yield_now();
            Ok(0)
        }
        Call::Time => Ok((Instant::now() - Instant::ZERO).to_nanos().get()),
        Call::SleepUntil => {
            frame.give(Ok(0));
            // A thread of a task may wait.
            return given(frame, Ok(wait::begin_sleep(deadline(a))));
        }
        Call::Call => return given(frame, task.call(a, Instant::NEVER)),
        Call::CallUntil => return given(frame, task.call(a, deadline(b))),
        Call::CallLending => return given(frame, task.call_lending(a, b)),
        Call::LeaseRead => task.copy_leased(a, b, lease::READ).map(done),
        Call::LeaseWrite => task.copy_leased(a, b, lease::WRITE).map(done),
        Call::LeaseInfo => task.port.lease_info(a),
        Call::Receive => return given(frame, task.port.receive(a, deadline(b))),
        Call::Reply => {
            frame.give(Ok(0));
            return given(frame, task.port.reply());
        }
        Call::ReplyAndReceive => {
            let replied = task.port.reply();
            return given(
                frame,
                replied.and_then(|it| {
                    // A reply that there is cannot fail.
                    let _ = it.finish();
                    task.port.receive(a, deadline(b))
                }),
            );
        }
        Call::Notify => {
            frame.give(Ok(0));
            return given(frame, task.notify(a, b));
        }
        Call::Log => {
            // SAFETY: only the task's own thread uses it.
            let log = unsafe { &mut *task.log.get() };
            log.log(&task.program, a, b).map(done)
        }
        Call::LogFrame => {
            // SAFETY: its own thread runs, and no one else uses it.
            let log = unsafe { &mut *task.log.get() };
            log.frame(&task.program, a, b).map(done)
        }
        Call::Trace => task.trace(a, b, frame).map(done),
        Call::Take => task.take(a, b).map(done),
        Call::Give => task.give(a).map(done),
        Call::Exit => task.exit(a),
        Call::Renew => task.renew(a).map(done),
        Call::Feed => task.feed().map(done),
        Call::Acknowledge => task.acknowledge(a).map(done),
        Call::Panic => stop_at_call(task, frame, FaultKind::Panic, 0),
        Call::TimerlatOpen => timerlat::open(a).map(done),
        Call::TimerlatWait => match timerlat::wait(task, Instant::from_cycles(a), frame) {
            Ok(None) => stop_at_call(task, frame, FaultKind::Killed, 0),
            Ok(Some(handoff)) => return handoff.into_exit(),
            Err(error) => Err(error),
        },
        Call::TimerlatClose => timerlat::close().map(done),
    };
    frame.give(result);
    IrqExit::SAME
}

/// As [`call`], while calls are traced.
#[cold]
#[cfg_attr(
    feature = "function",
    patchable_function_entry(prefix_nops = 0, entry_nops = 0)
)]
pub(crate) extern "C" fn call_traced(a: u64, b: u64, number: u64) -> IrqExit {
    let frame = Frame::of(TcbRef::current());
    frame.number.store(number, Relaxed);
    trace_irqs_on!(syscall_entry, shown(number), a, b);
    let exit = call(a, b, number);
    if exit.next.is_none() {
        call_ends();
    }
    exit
}

/// A traced call of the running task is done: its result is in the frame.
#[cold]
#[cfg_attr(
    feature = "function",
    patchable_function_entry(prefix_nops = 0, entry_nops = 0)
)]
pub(crate) extern "C" fn call_ends() {
    // It is stopped, and never comes back from it.
    if current().pending.is_some() {
        return;
    }
    let frame = Frame::of(TcbRef::current());
    let (error, value) = (frame.status.load(Relaxed), frame.value.load(Relaxed));
    let number = shown(frame.number.load(Relaxed));
    trace_irqs_on!(syscall_exit, number, error as u32, value);
}

/// A call's number as its events have it.
fn shown(number: u64) -> u32 {
    number.min(255) as u32
}

/// What there is to be done of a call whose result is in the frame, or will be there, unless it has failed.
#[inline(always)]
fn given(frame: &Frame, result: Result<Handoff, Error>) -> IrqExit {
    match result {
        Ok(handoff) => handoff.into_exit(),
        Err(error) => {
            frame.give(Err(error));
            IrqExit::SAME
        }
    }
}

/// Stops a task for what it called.
#[cold]
#[inline(never)]
fn stop_at_call(task: &'static Task, frame: &Frame, kind: FaultKind, about: u64) -> ! {
    /// Bytes of the instruction.
    const SYSCALL: u64 = 2;
    let [rbx, rbp, r12, r13, r14, r15] = frame.message();
    // Where the call would have gone back to is elsewhere if a fault was in store. One may come in between.
    let there = frame.rip.load(Relaxed);
    let rip = task.take_pending().map_or(there, |it| it.1);
    let fault = Fault {
        kind,
        code: 0,
        address: about,
        rip: rip - SYSCALL,
        rsp: frame.rsp.load(Relaxed),
        registers: [r15, r14, r13, r12, 0, 0, 0, 0, rbp, 0, 0, 0, 0, rbx, 0],
    };
    task.stop(&fault, false)
}

/// A fault of the running task, whose page fault's address is in the place of `ss`. The assembly of `entry_task` calls it, with
/// interrupts off.
#[cfg_attr(
    feature = "function",
    patchable_function_entry(prefix_nops = 0, entry_nops = 0)
)]
pub(crate) extern "C" fn fault(frame: &ExceptionFrame) -> ! {
    // What is in store for the task since the exception is not why it is here.
    let is_in_store = frame.rip == Pending::PLACE;
    let pending = current().take_pending().filter(|_| is_in_store);
    ring3::enable_interrupts_in_thread();
    if let Some((kind, rip)) = pending {
        stop_at(frame, kind, rip, false);
    }
    stop_at_fault(frame, false)
}

/// The same where the supervisor was told of it, with interrupts on.
#[cfg_attr(
    feature = "function",
    patchable_function_entry(prefix_nops = 0, entry_nops = 0)
)]
pub(crate) extern "C" fn fault_told(frame: &ExceptionFrame) -> ! {
    stop_at_fault(frame, true)
}

/// Stops a task for what its exception was.
fn stop_at_fault(f: &ExceptionFrame, is_told: bool) -> ! {
    let kind = match FaultKind::from_number(f.vector) {
        Some(kind) if f.vector < 32 => kind,
        _ => FaultKind::Other,
    };
    stop_at(f, kind, f.rip, is_told)
}

// The compiler copies the registers by more SSE registers than interrupts keep elsewhere (see `sse`).
#[cold]
#[inline(never)]
#[unsafe(link_section = ".text.sse.task_fault")]
#[cfg_attr(
    feature = "function",
    patchable_function_entry(prefix_nops = 0, entry_nops = 0)
)]
fn stop_at(f: &ExceptionFrame, kind: FaultKind, rip: u64, is_told: bool) -> ! {
    let fault = Fault {
        kind,
        code: f.code,
        address: match kind {
            FaultKind::PageFault => f.ss,
            _ => 0,
        },
        rip,
        rsp: f.rsp,
        registers: [
            f.r15, f.r14, f.r13, f.r12, f.r11, f.r10, f.r9, f.r8, f.rbp, f.rdi, f.rsi, f.rdx,
            f.rcx, f.rbx, f.rax,
        ],
    };
    current().stop(&fault, is_told)
}
