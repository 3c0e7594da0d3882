//! Complete capture: trace sub-buffers and the log, handed to the host as frames: over a virtio console, or with
//! `capture=com1` over the serial port, the results as well (`line`).
//!
//! The idle thread does it just before it halts, and loads that never let the CPU go idle do it at their own priority.
//! Preemptible at every point; only the `out` instruction itself takes (real, not virtual) time.

mod line;
mod text;

use core::sync::atomic::{AtomicU8, AtomicU32, Ordering::Relaxed};

use spin::Mutex;
use takt_kernel::config::{MAX_CPUS, TRACE_NR_SUBS};
use takt_kernel::fault::ExitCode;
use takt_kernel::smp;
use takt_kernel::time::{self, Nanos};
use takt_kernel::trace::{self, SUB_BUFFER, SubBuffer};
use takt_timerlat::stats::Status;
use takt_tracer::wire::{CHANNEL_LOG, CHANNEL_TRACE, FrameHeader};

use embedded_io::Write;

use crate::rtt;
use crate::serial::Serial;
use crate::virtio::Console;

pub(crate) use text::text;

/// Under a hypervisor the hand-over takes real time: it is put off if the next timer is closer than this,
/// unless a quarter of the ring is full.
const MARGIN: Nanos = Nanos::from_micros(100);

const BUSY: &[u8] =
    b"the end of the trace was not handed over: another thread is at it and does not run\n";

static CONSOLE: Mutex<Option<Console>> = Mutex::new(None);
/// The sub-buffer that is handed over; of whoever holds the console.
static COPY: Mutex<SubBuffer> = Mutex::new(SUB_BUFFER);
/// The way that frames go.
static WAY: AtomicU8 = AtomicU8::new(NONE);
const NONE: u8 = 0;
const VIRTIO: u8 = 1;
const LINE: u8 = 2;
/// The line, which had the report of a fault.
const BROKEN_LINE: u8 = 3;

/// Frames that the host did not take. It reads this by the symbol, since what is lost last leaves no gap in the sequence.
#[unsafe(no_mangle)]
static TAKT_LOST_FRAMES: AtomicU32 = AtomicU32::new(0);

/// The next sequence number of each channel and CPU.
static SEQUENCE: [[AtomicU32; MAX_CPUS]; 2] =
    [const { [const { AtomicU32::new(0) }; MAX_CPUS] }; 2];

/// Looks for the console, unless another thread is at it; says whether what is recorded is handed over. If the capture goes
/// over COM1 it stays there, and a console that a [driver](crate::drivers::virtio::Console) has stays the driver's.
///
/// # Context
/// Threads that may block.
pub fn start() -> bool {
    start_on(|| {
        // SAFETY: there is none yet, and the lock is held.
        unsafe { Console::find_free() }
    })
}

fn start_on(find: impl FnOnce() -> Option<Console>) -> bool {
    if is_active() {
        return true;
    }
    let Some(mut console) = CONSOLE.try_lock() else {
        return is_active();
    };
    if console.is_none() {
        *console = find();
    }
    let way = if console.is_some() { VIRTIO } else { NONE };
    WAY.store(way, Relaxed);
    console.is_some()
}

/// Begins as the command line's word `capture` says: `off`, `com1` with or without a speed, or else over the
/// console.
///
/// # Panics
/// If it makes no sense.
#[cfg(feature = "image")]
pub(crate) fn start_as_told(word: Option<&str>, command_line: &'static str) {
    let (name, baud) = word.unwrap_or_default().split_once(',').map_or_else(
        || (word.unwrap_or_default(), Ok(115_200)),
        |(name, baud)| (name, baud.parse()),
    );
    match (name, baud.ok().and_then(line::divisor)) {
        ("off", _) => {}
        ("com1", Some(divisor)) => {
            line::start(divisor, command_line);
            WAY.store(LINE, Relaxed);
        }
        ("com1", None) => {
            panic!("capture=com1 is followed by ,115200 ,230400 ,460800 or ,921600")
        }
        // Whatever the kernel before this one has left, nobody drives it.
        _ => {
            // SAFETY: there is none yet, and the lock is held.
            start_on(|| unsafe { Console::find() });
        }
    }
}

/// Has the results in `status` sent to a host that cannot read the machine's memory.
pub fn show(status: &'static Status) {
    line::show(status);
}

/// Whether what is recorded is handed over.
#[must_use]
pub fn is_active() -> bool {
    WAY.load(Relaxed) != NONE
}

/// Whether COM1 is taken: trace, log and results go over it.
#[must_use]
pub fn has_port() -> bool {
    cfg!(feature = "capture") && WAY.load(Relaxed) == LINE
}

/// The report of a fault is about to go over the port: nothing else does from here on.
pub(crate) fn make_way() {
    // That it was taken in between changes nothing: the CPU that does so reports a fault as well.
    if has_port() {
        WAY.store(BROKEN_LINE, Relaxed);
    }
}

/// The machine ends, whoever says so.
pub(crate) fn leave(code: ExitCode) {
    if matches!(WAY.swap(NONE, Relaxed), LINE | BROKEN_LINE) {
        line::give_up(code as u32);
    }
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
    if WAY.load(Relaxed) != VIRTIO {
        return hand_over_slowly();
    }
    if trace::has_full() || rtt::has_data() {
        hand_over_of(smp::this_cpu());
    }
}

#[cold]
fn hand_over_slowly() {
    if has_port() {
        line::turn();
    }
}

fn hand_over_of(cpu: usize) {
    let Some(mut console) = CONSOLE.try_lock() else {
        return;
    };
    let Some(console) = console.as_mut() else {
        return;
    };
    trace::drain(cpu, &mut COPY.lock(), |sub_buffer| {
        deliver(console, CHANNEL_TRACE, cpu, sub_buffer);
    });
    // The log is one for all CPUs.
    rtt::drain(usize::MAX, |bytes| deliver(console, CHANNEL_LOG, 0, bytes));
}

/// The idle thread's turn.
pub(crate) fn idle() {
    if WAY.load(Relaxed) != VIRTIO {
        return hand_over_slowly();
    }
    if !(trace::has_full() || rtt::has_data()) {
        return;
    }
    // With activations closer together than the margin ring and log would fill up; then the hand-over must not wait.
    let is_filling = || trace::nr_full() > TRACE_NR_SUBS as u64 / 4 || rtt::is_filling();
    if time::until_next_deadline() > MARGIN || is_filling() {
        hand_over_of(smp::this_cpu());
    }
}

/// The end of the run: everything recorded on any CPU goes to the host, and over a serial line the results, and how it
/// ended.
pub fn finish(code: ExitCode) {
    const TRIES: u32 = 1000;
    let way = WAY.load(Relaxed);
    if way == NONE {
        return;
    }
    trace::tracing_off();
    if way != VIRTIO {
        if line::finish(code as u32) {
            WAY.store(NONE, Relaxed);
        }
        return;
    }
    // Another thread may be at it, perhaps one that this one keeps from running.
    let is_free = (0..TRIES).any(|_| {
        CONSOLE.try_lock().is_some() || {
            let _ = time::sleep(Nanos::from_millis(1));
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
            // Where a trigger has had it go on, what is complete is handed over.
            let _ = trace::close(cpu);
            hand_over_of(cpu);
        }
    }
}
