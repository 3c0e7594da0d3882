//! Stack traces as events: who called whom, where it is recorded.
//!
//! [`record_stack`] records one, anywhere. [`set_after_events`] (ftrace's option `stacktrace`) has one recorded after
//! every event, as the trigger `stacktrace` does after some; `function::set_stack_trace`
//! (`func_stack_trace`) after every record of the tracer `function`.
//!
//! A stack begins with the innermost function and leaves out those of the tracer itself. In an interrupt it goes on with
//! what was interrupted. Addresses are those of the calls. It costs some eighty instructions a function, and some 300 bytes
//! of the stack.

use core::sync::atomic::{AtomicBool, Ordering::Relaxed};

use heapless::Vec;
use takt_tracer::event::Event;
use takt_tracer::{event, event_class};

#[cfg(any(feature = "function", feature = "rules"))]
mod once;

#[cfg(any(feature = "function", feature = "rules"))]
use once::record_once;

use super::compact::opaque;
use super::{KernelSink, control};
use crate::arch::interrupts;
use crate::backtrace::Backtrace;
use crate::error::Error;

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
static AFTER_EVENTS: AtomicBool = AtomicBool::new(false);

/// Says whether a stack is to be recorded after every event (ftrace: `options/stacktrace`).
///
/// # Errors
/// [`Error::InvalidArgument`] if the image is without feature `rules`, by which records are followed; those of
/// [`Mutex::lock`](crate::sync::Mutex::lock).
///
/// # Context
/// Threads that may block. All CPUs stand still meanwhile.
pub fn set_after_events(on: bool) -> Result<(), Error> {
    #[cfg(feature = "rules")]
    return super::rules::events::change(&mut |_| {
        AFTER_EVENTS.store(on, Relaxed);
        Ok(())
    });
    #[cfg(not(feature = "rules"))]
    match on {
        true => Err(Error::InvalidArgument),
        false => Ok(()),
    }
}

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
