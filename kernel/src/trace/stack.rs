//! Stack traces as events: who called whom, where it is recorded.
//!
//! [`record_stack`] records one, anywhere. [`rules::events::set_stacktrace`](super::rules::events::set_stacktrace) (ftrace's option `stacktrace`) has one recorded after
//! every event, as the trigger `stacktrace` does after some; `function::set_stack_trace`
//! (`func_stack_trace`) after every record of the tracer `function`.
//!
//! A stack begins with the innermost function and leaves out those of the tracer itself. In an interrupt it goes on with
//! what was interrupted. Addresses are those of the calls. It costs some eighty instructions a function, and some 300 bytes
//! of the stack.

#[cfg(any(feature = "function", feature = "rules"))]
use core::sync::atomic::AtomicU8;
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};

use heapless::Vec;
use takt_tracer::event::Event;
use takt_tracer::{event, event_class};

use super::control;
#[cfg(any(feature = "function", feature = "rules"))]
use crate::arch::percpu;
use crate::arch::{interrupts, proof};
use crate::backtrace::Backtrace;
use crate::compact::opaque;
#[cfg(any(feature = "function", feature = "rules"))]
use crate::config::{MAX_CPUS, cpu_index};
use crate::probe::sink::KernelSink;
#[cfg(any(feature = "function", feature = "rules"))]
use crate::probe::without_interrupts;

event_class! {
    /// The functions that are under way, the innermost first.
    pub class KernelStack = "kernel_stack", core8 { caller: [32] sym }
    print "{caller}";
}
event! {
    /// Emitted by `trace::stack::record_stack`, and after what the options stacktrace and func_stack_trace are for.
    pub kernel_stack: KernelStack = core "ftrace:kernel_stack";
}

/// The most functions of a stack that are recorded, from the innermost on.
pub const MAX_FRAMES: usize = 32;

unsafe extern "C" {
    static __notrace_start: u8;
    static __notrace_end: u8;
}

/// Whether an address belongs to the tracer, by where the linker has put it.
fn is_tracers(address: usize) -> bool {
    let (start, end) = (&raw const __notrace_start, &raw const __notrace_end);
    (start as usize..end as usize).contains(&address)
}

/// Records who called whom, without the innermost `skip` functions; with 0 it begins with the one that calls this.
/// Whether the event is on does not matter; while recording is off nothing is done.
///
/// # Context
/// Any, NMI included.
#[inline(never)]
pub fn record_stack(skip: usize) {
    record(&[], skip);
}

/// The rest of [`record_stack`], behind `first`, the functions that have no frame.
#[inline(never)]
fn record(first: &[usize], skip: usize) {
    if control::is_on() {
        record_frames(&gather(first, skip));
    }
}

/// The functions that are under way, without the tracer's own, for [`record_frames`].
///
/// # Context
/// Any, NMI included.
#[cfg(feature = "rules")]
#[inline(never)]
pub(super) fn frames() -> Vec<u32, MAX_FRAMES> {
    gather(&[], 0)
}

/// Records a stack that was gathered earlier. Whether the event is on does not matter.
///
/// # Context
/// Any, NMI included.
pub(super) fn record_frames(callers: &Vec<u32, MAX_FRAMES>) {
    if !callers.is_empty() {
        KernelStack::emit::<KernelSink>(kernel_stack::Event::id(), callers);
    }
}

#[inline(always)]
fn gather(first: &[usize], mut skip: usize) -> Vec<u32, MAX_FRAMES> {
    let (_, frame) = interrupts::frame_pointer();
    let calls = Backtrace::from(frame as usize);
    let mut callers = Vec::<u32, MAX_FRAMES>::new();
    for call in first {
        // There is room.
        let _ = callers.push(*call as u32);
    }
    // Until the first one that is not the tracer's own.
    let mut inside = 1;
    for call in calls {
        proof::bounded!("calls under way");
        inside = opaque(inside & usize::from(is_tracers(call)));
        if inside != 0 {
            continue;
        }
        if skip != 0 {
            skip -= 1;
        } else if callers.push(call as u32).is_err() {
            break;
        }
    }
    callers
}

/// Option `stacktrace`.
#[unsafe(export_name = "TAKT_STACKTRACE")]
pub(super) static AFTER_EVENTS: AtomicBool = AtomicBool::new(false);

/// Whether a stack is to be recorded after every event.
///
/// # Context
/// Any.
#[must_use]
pub fn is_after_events() -> bool {
    AFTER_EVENTS.load(Relaxed)
}

/// For who follows records: records a stack, unless what was recorded is one.
///
/// # Context
/// Any, NMI included. Interrupts are off meanwhile.
#[cfg(feature = "rules")]
pub(super) fn after_event() {
    record_once(&[]);
}

/// Records the stack of a function that begins, for who is called at its entry: it has no frame yet. `parent_ip` is
/// where it returns to.
#[cfg(feature = "function")]
pub(super) fn at_function(ip: usize, parent_ip: usize) {
    record_once(&[ip, parent_ip.wrapping_sub(1)]);
}

/// The contexts that a stack can be recorded in: threads, interrupts, NMIs in the one or the other.
#[cfg(any(feature = "function", feature = "rules"))]
const CONTEXTS: u8 = (percpu::HARDIRQ | percpu::NMI) / percpu::HARDIRQ;

/// For each CPU a bit for each context in which a stack is being recorded.
#[cfg(any(feature = "function", feature = "rules"))]
static BUSY: [AtomicU8; MAX_CPUS] = [const { AtomicU8::new(0) }; MAX_CPUS];

/// As [`record`], unless it is being done already in this context: what records a stack is not followed by one.
#[cfg(any(feature = "function", feature = "rules"))]
#[inline(never)]
fn record_once(first: &[usize]) {
    without_interrupts(|| {
        let busy = &BUSY[cpu_index(percpu::cpu())];
        let byte = percpu::preempt_byte();
        let bit = 1 << ((byte / percpu::HARDIRQ) & CONTEXTS);
        // An NMI in between leaves it as it found it.
        let was = busy.load(Relaxed);
        if was & bit == 0 {
            busy.store(was | bit, Relaxed);
            record(first, 0);
            busy.store(was, Relaxed);
        }
    });
}
