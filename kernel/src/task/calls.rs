//! What comes in from ring 3: calls and faults. Both go on in the task's thread, in the kernel, with interrupts on.

use core::mem::offset_of;

use takt_abi::{Call, Error, FaultKind, MAX_LOG, WORDS};

use super::fault::Fault;
use super::object::Task;
use super::timerlat;
use crate::arch::frame::ExceptionFrame;
use crate::arch::ring3;
use crate::clock::{Instant, cycles_to_nanos, nanos_to_cycles};
use crate::thread::tcb::TcbRef;
use crate::{thread, time};

/// What a call leaves at its thread's stack's top, and goes back by.
#[repr(C)]
pub(crate) struct Frame {
    pub(crate) mxcsr: u64,
    /// The message.
    pub(crate) words: [u64; WORDS],
    pub(crate) rflags: u64,
    pub(crate) rip: u64,
    pub(crate) rsp: u64,
}

/// What a call gives, in two registers.
#[repr(C)]
pub(crate) struct Given {
    status: u64,
    value: u64,
}

/// The task whose thread runs.
#[inline(always)]
fn current() -> &'static Task {
    let space = TcbRef::current().space();
    // SAFETY: only threads of tasks come in from ring 3, and the space of such a one is a part of its task, which is static.
    unsafe {
        &*space
            .wrapping_byte_sub(offset_of!(Task, space))
            .cast::<Task>()
    }
}

fn deadline(nanos: u64) -> Instant {
    match nanos {
        u64::MAX => Instant::NEVER,
        nanos => Instant::from_cycles(nanos_to_cycles(nanos)),
    }
}

/// A call of the running task, with its two arguments. The assembly of `entry_task` calls it.
// The compiler copies messages by more SSE registers than interrupts keep elsewhere (see `sse`).
#[unsafe(link_section = ".text.sse.task_call")]
#[cfg_attr(
    feature = "function",
    patchable_function_entry(prefix_nops = 0, entry_nops = 0)
)]
pub(crate) extern "C" fn call(frame: &mut Frame, a: u64, b: u64, number: u64) -> Given {
    let task = current();
    let Some(call) = Call::from_number(number) else {
        stop_at_call(task, frame, FaultKind::IllegalCall, number);
    };
    let words = &mut frame.words;
    let done = |()| 0;
    let result = match call {
        Call::Null => Ok(0),
        Call::Yield => {
            thread::yield_now();
            Ok(0)
        }
        Call::Time => Ok(cycles_to_nanos(Instant::now().cycles())),
        Call::SleepUntil => {
            // A thread of a task may wait.
            let _ = time::sleep_until(deadline(a));
            Ok(0)
        }
        Call::Call => task.call(a, words).map(done),
        Call::Receive => task.receive(a, deadline(b), words),
        Call::Reply => task.reply(words).map(done),
        Call::ReplyAndReceive => match task.reply(words) {
            Ok(()) => task.receive(a, deadline(b), words),
            Err(error) => Err(error),
        },
        Call::Notify => task.notify(a, b).map(done),
        Call::Log => log(task, a, b).map(done),
        Call::Exit => task.exit(a),
        Call::Renew => task.renew(a).map(done),
        Call::Panic => stop_at_call(task, frame, FaultKind::Panic, 0),
        Call::TimerlatOpen => timerlat::open(a).map(done),
        Call::TimerlatWait => match timerlat::wait(a) {
            Ok(None) => stop_at_call(task, frame, FaultKind::Killed, 0),
            Ok(Some(due)) => Ok(due),
            Err(error) => Err(error),
        },
        Call::TimerlatClose => timerlat::close().map(done),
    };
    match result {
        Ok(value) => Given { status: 0, value },
        Err(error) => Given {
            status: error as u64,
            value: 0,
        },
    }
}

/// [`Call::Log`]: by way of the task's own buffer, so that what is logged does not change meanwhile.
fn log(task: &Task, at: u64, len: u64) -> Result<(), Error> {
    // SAFETY: only the task's own thread uses it.
    let buffer = unsafe { &mut *task.log.get() };
    let len = usize::try_from(len).unwrap_or(usize::MAX).min(MAX_LOG);
    let text = &mut buffer[..len];
    // SAFETY: the task's own thread, in the kernel.
    if !unsafe { task.program.copy_from(at as usize, text) } {
        return Err(Error::BadAddress);
    }
    let text = match core::str::from_utf8(text) {
        Ok(text) => text,
        Err(error) => core::str::from_utf8(&text[..error.valid_up_to()]).unwrap_or(""),
    };
    defmt::info!("{=str}: {=str}", task.program.name, text);
    Ok(())
}

/// Stops a task for what it called.
// As `call`.
#[cold]
#[inline(never)]
#[unsafe(link_section = ".text.sse.task_stop_at_call")]
#[cfg_attr(
    feature = "function",
    patchable_function_entry(prefix_nops = 0, entry_nops = 0)
)]
fn stop_at_call(task: &'static Task, frame: &Frame, kind: FaultKind, about: u64) -> ! {
    /// Bytes of the instruction.
    const SYSCALL: u64 = 2;
    let [rbx, rbp, r12, r13, r14, r15] = frame.words;
    let fault = Fault {
        kind,
        code: 0,
        address: about,
        rip: frame.rip - SYSCALL,
        rsp: frame.rsp,
        registers: [r15, r14, r13, r12, 0, 0, 0, 0, rbp, 0, 0, 0, 0, rbx, 0],
    };
    task.stop(&fault)
}

/// A fault of the running task; `address` is that of a page fault. The assembly of `entry` calls it, with interrupts off.
// As `call`.
#[unsafe(link_section = ".text.sse.task_fault")]
#[cfg_attr(
    feature = "function",
    patchable_function_entry(prefix_nops = 0, entry_nops = 0)
)]
pub(crate) extern "C" fn fault(frame: &ExceptionFrame, address: u64) -> ! {
    let is_page_fault = frame.vector == FaultKind::PageFault as u64;
    let kind = match FaultKind::from_number(frame.vector) {
        Some(kind) if frame.vector < 32 => kind,
        _ => FaultKind::Other,
    };
    let f = frame;
    let fault = Fault {
        kind,
        code: f.code,
        address: if is_page_fault { address } else { 0 },
        rip: f.rip,
        rsp: f.rsp,
        registers: [
            f.r15, f.r14, f.r13, f.r12, f.r11, f.r10, f.r9, f.r8, f.rbp, f.rdi, f.rsi, f.rdx,
            f.rcx, f.rbx, f.rax,
        ],
    };
    ring3::enable_interrupts_in_thread();
    current().stop(&fault)
}
