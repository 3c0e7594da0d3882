//! The tracer `hwlat`: time that no software of ours can have taken.
//!
//! A thread disables interrupts and reads the clock over and over, for a width of time in each window. Two readings
//! that are farther apart than the threshold mean that something else had the CPU: firmware (SMIs), a hypervisor, or a
//! non-maskable interrupt, which is counted. Meanwhile nothing else runs on that CPU: a tool to judge a machine with,
//! not one to leave on.
//!
//! Source: Linux, Documentation/trace/hwlat_detector.rst, for the terms.

use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};

use takt_tracer::{event, event_class};

use super::ending::wait_for_end;
use super::latency;
use crate::arch::{percpu, proof};
use crate::clock::{Cycles, Instant, Nanos};
use crate::compact::apart;
use crate::error::Error;
use crate::lock;
use crate::section;
use crate::thread::create::Builder;
use crate::thread::handle::Thread;
use crate::thread_stack;
use crate::time;

event_class! {
    /// What one width of time has shown.
    pub class Gaps = "hwlat", wide { seqnum: 32 u, count: 32 u, nmi_count: 32 u, inner: 64 cycles, outer: 64 cycles }
    print "#{seqnum} inner/outer(ns): {inner}/{outer} count:{count} nmi-count:{nmi_count}";
}
event! {
    /// Emitted by the tracer after each width in which there was a gap.
    pub hwlat: Gaps = wide "tracer:hwlat";
}

/// The threshold while `tracing_thresh` is 0.
const DEFAULT_THRESH: Nanos = Nanos::from_micros(10);

/// How often the thread looks whether it is to end.
const LOOK: Nanos = Nanos::from_millis(10);

static WINDOW: &AtomicU64 = &latency::TAKT_LATENCY.hwlat_window;
static WIDTH: &AtomicU64 = &latency::TAKT_LATENCY.hwlat_width;
static ENDS: AtomicBool = AtomicBool::new(false);
/// The thread's handle; 0 if there was none.
static THREAD: AtomicU32 = AtomicU32::new(0);

thread_stack!(static STACK: 16384);

/// The longest window: interrupts are off for nearly as long.
pub const LONGEST_WINDOW: Nanos = Nanos::from_secs(10);

/// Sets how often the clock is watched and for how long: `hwlat_detector/window` and `width`.
///
/// # Errors
/// [`Error::InvalidArgument`] unless the width is above 0 and below the window, and that at most [`LONGEST_WINDOW`].
///
/// # Context
/// Threads and interrupt handlers. Takes effect with the next window.
pub fn set_window(window: Nanos, width: Nanos) -> Result<(), Error> {
    if width == Nanos::ZERO || width >= window || window > LONGEST_WINDOW {
        return Err(Error::InvalidArgument);
    }
    // Both together: of two that set them one is the last.
    let section = section::own().lock(|| lock::of_number(0));
    WINDOW.store(window.get(), Relaxed);
    WIDTH.store(width.get(), Relaxed);
    section.leave_quietly();
    Ok(())
}

/// How often the clock is watched and for how long.
///
/// # Context
/// Any.
#[must_use]
pub fn window() -> (Nanos, Nanos) {
    (
        Nanos::new(WINDOW.load(Relaxed)),
        Nanos::new(WIDTH.load(Relaxed)),
    )
}

/// What was seen in a width of time.
#[derive(Default)]
struct Seen {
    /// The longest gap between the two readings of a pair.
    inner: Cycles,
    /// The longest between pairs.
    outer: Cycles,
    /// Gaps above the threshold.
    count: u32,
    /// Non-maskable interrupts.
    nr_nmis: u64,
}

/// Watches the clock with interrupts disabled: a section of its own, in a thread that has them enabled.
#[inline(always)]
fn watch(width: Cycles, thresh: Cycles) -> Seen {
    let mut seen = Seen::default();
    let section = section::own_thread();
    let nr_nmis = &percpu::this().nr_nmis;
    let nr_nmis = || nr_nmis.load(Relaxed);
    let nmis = nr_nmis();
    let mut last = Instant::now();
    let end = last.wrapping_add(width);
    loop {
        proof::bounded!("looks at the clock in hwlat's width");
        let first = Instant::now();
        let second = Instant::now();
        let (outer, inner) = (first.wrapping_since(last), second.wrapping_since(first));
        if outer.max(inner) > thresh {
            seen.count += 1;
            seen.outer = seen.outer.max(outer);
            seen.inner = seen.inner.max(inner);
        }
        last = second;
        if second > end {
            break;
        }
    }
    seen.nr_nmis = nr_nmis() - nmis;
    section.leave_quietly();
    seen
}

#[inline(always)]
fn cycles(time: Nanos) -> Cycles {
    apart(Nanos::to_cycles)(time)
}

fn body(_: usize) {
    let mut seqnum = 0;
    let mut next = Instant::ZERO;
    loop {
        let now = Instant::now();
        // Not all at once, and not at all if the next window has begun: who stops the tracer waits for its end.
        let until = next.min(now.wrapping_add(cycles(LOOK)));
        let _ = apart(time::sleep_until)(until);
        if ENDS.load(Relaxed) {
            break;
        }
        if now < next {
            continue;
        }
        let (window, width) = window();
        next = now.wrapping_add(cycles(window));
        if width >= window {
            // Between the two stores of who changes both.
            continue;
        }
        let thresh = latency::thresh_or(|| cycles(DEFAULT_THRESH));
        let seen = watch(cycles(width), thresh);
        if seen.count > 0 {
            seqnum += 1;
            crate::trace_event!(
                hwlat,
                seqnum,
                seen.count,
                seen.nr_nmis,
                seen.inner.get(),
                seen.outer.get()
            );
            latency::offer_thread(seen.inner.max(seen.outer), body as *const () as u32);
        }
    }
}

/// The tracer begins.
pub(super) fn begin() -> Result<(), Error> {
    latency::set_max_cycles(Cycles::ZERO);
    ENDS.store(false, Relaxed);
    let spawned = Builder::new("hwlat", 99).and_then(|it| it.spawn(&STACK, body, 0));
    // One that was there before is still to end.
    let thread = spawned.inspect_err(|_| ENDS.store(true, Relaxed))?;
    THREAD.store(thread.handle(), Relaxed);
    Ok(())
}

/// The tracer ends, when its thread has.
pub(super) fn end() -> Result<(), Error> {
    ENDS.store(true, Relaxed);
    wait_for_end(Thread::of_handle(THREAD.load(Relaxed)));
    Ok(())
}
