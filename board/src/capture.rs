//! Complete capture: trace sub-buffers and the log, handed to the host as frames.
//!
//! The idle thread does it just before it halts, and loads that never let the CPU go idle do it at their own priority.
//! Preemptible at every point; only the `out` instruction itself takes (real, not virtual) time.

use core::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};

use spin::Mutex;
use takt_kernel::arch::percpu;
use takt_kernel::config::{MAX_CPUS, TRACE_NR_SUBS};
use takt_kernel::{smp, time, trace};
use takt_tracer::wire::{CHANNEL_LOG, CHANNEL_TRACE, FrameHeader};

use embedded_io::Write;

use crate::rtt;
use crate::serial::Serial;
use crate::virtio::Console;

/// Under a hypervisor the hand-over takes real time: it is put off if the next timer is closer than this,
/// unless a quarter of the ring is full.
const MARGIN_NS: u64 = 100_000;

const BUSY: &[u8] =
    b"the end of the trace was not handed over: another thread is at it and does not run\n";

static CONSOLE: Mutex<Option<Console>> = Mutex::new(None);
static ACTIVE: AtomicBool = AtomicBool::new(false);
/// Frames that the host did not take. It reads this by the symbol, since what is lost last leaves no gap in the sequence.
#[unsafe(no_mangle)]
static TAKT_LOST_FRAMES: AtomicU32 = AtomicU32::new(0);

/// The next sequence number of each channel and CPU.
static SEQUENCE: [[AtomicU32; MAX_CPUS]; 2] =
    [const { [const { AtomicU32::new(0) }; MAX_CPUS] }; 2];

/// Looks for the console; says whether there is one.
pub fn start() -> bool {
    // SAFETY: under the lock, and only if there is none yet.
    let mut console = CONSOLE.lock();
    if console.is_none() {
        // SAFETY: as above.
        *console = unsafe { Console::find() };
    }
    ACTIVE.store(console.is_some(), Relaxed);
    console.is_some()
}

/// Whether what is recorded is handed over.
#[must_use]
pub fn is_active() -> bool {
    ACTIVE.load(Relaxed)
}

fn deliver(console: &mut Console, channel: u8, cpu: usize, payload: &[u8]) -> bool {
    let Some(sequence) = SEQUENCE[usize::from(channel) & 1].get(cpu) else {
        return false;
    };
    let header =
        FrameHeader::for_payload(channel, cpu as u8, sequence.load(Relaxed), payload).encode();
    sequence.fetch_add(1, Relaxed);
    let taken = console.send(&header, payload);
    if !taken {
        TAKT_LOST_FRAMES.fetch_add(1, Relaxed);
    }
    true
}

/// Hands over what is complete, unless another thread is at it.
///
/// # Context
/// Threads with preemption enabled; not in a measured path.
pub fn hand_over() {
    if !ACTIVE.load(Relaxed) || !(trace::has_full() || rtt::has_data()) {
        return;
    }
    hand_over_of(percpu::cpu());
}

fn hand_over_of(cpu: usize) {
    let Some(mut console) = CONSOLE.try_lock() else {
        return;
    };
    let Some(console) = console.as_mut() else {
        return;
    };
    trace::drain(cpu, |sub_buffer| {
        deliver(console, CHANNEL_TRACE, cpu, sub_buffer)
    });
    // The log is one for all CPUs.
    rtt::drain(|bytes| deliver(console, CHANNEL_LOG, 0, bytes));
}

/// The idle thread's turn.
pub(crate) fn idle() {
    if !ACTIVE.load(Relaxed) || !(trace::has_full() || rtt::has_data()) {
        return;
    }
    // With activations closer together than the margin the ring would fill up; then the hand-over must not wait.
    if time::nanos_until_next() > MARGIN_NS || trace::nr_full() > TRACE_NR_SUBS as u64 / 4 {
        hand_over_of(percpu::cpu());
    }
}

/// The end of the run: everything recorded on any CPU goes to the host.
pub fn finish() {
    const TRIES: u32 = 1000;
    if !ACTIVE.load(Relaxed) {
        return;
    }
    trace::tracing_off();
    // Another thread may be at it, perhaps one that this one keeps from running.
    let is_free = (0..TRIES).any(|_| {
        CONSOLE.try_lock().is_some() || {
            let _ = time::sleep_nanos(1_000_000);
            false
        }
    });
    if !is_free {
        // latency-run finds the rest in the guest's memory; others should know.
        let Ok(()) = Serial::com1().write_all(BUSY);
        return;
    }
    for cpu in (0..MAX_CPUS).filter(|cpu| smp::is_online(*cpu)) {
        // Losses that the first pass could not mention for want of room show in a second.
        for _ in 0..2 {
            trace::close(cpu);
            hand_over_of(cpu);
        }
    }
}
