//! The capture over COM1, of a machine whose memory no host can read: trace, log and results as frames on a serial line.
//!
//! While the run goes on, a frame goes out bit by bit: each time a CPU is about to halt, or a load looks, the UART gets what
//! its FIFO takes, unless a timer is close. Nothing waits for the line, so it costs no latency; what it is too slow for stays
//! in the rings, whose losses are counted. At the end all that is left is sent, the trace last.
//!
//! The line belongs to the capture. What an application writes to the port goes into the log ([`super::text`]). Only the report of a
//! fault goes between the bytes of a frame, which is lost then, and an end is sent behind it.

use core::sync::atomic::{AtomicBool, Ordering::Relaxed};

use spin::{Mutex, Once};
use takt_kernel::config::{MAX_COMMAND_LINE, MAX_CPUS, TRACE_SUB_SIZE, cpu_index};
use takt_kernel::sync::SetOnce;
use takt_kernel::time::{self, Instant, Nanos};
use takt_kernel::{smp, trace};
use takt_timerlat::stats::Status;
use takt_timerlat::stats::machine::Machine;
use takt_tracer::wire::line::{
    AGAIN, BUILD_ID, CHANNEL_END, CHANNEL_HELLO, CHANNEL_MEMORY, End, HELLO_HEAD, Hello, MAX_PIECE,
    MemoryWriter, NR_CHANNELS, STOP, TAKEN, key,
};
use takt_tracer::wire::{CHANNEL_LOG, CHANNEL_TRACE, FrameHeader};

use super::TAKT_LOST_FRAMES;
use crate::log::TAKT_LOG_DROPPED;
use crate::machine::TAKT_MACHINE;
use crate::rtt;
use crate::serial::Serial;

/// An access to the UART takes a microsecond or two, in which no interrupt is taken: none is made so close to a timer.
const MARGIN: Nanos = Nanos::from_micros(20);
/// With timers closer than that all the time, the line still gets on every now and then, so that the host sees life.
const OVERDUE: Nanos = Nanos::from_millis(100);
/// How often it is said who sends and how far the run has come.
const HELLO: Nanos = Nanos::from_secs(1);
/// How long the UART is waited for, in looks at it, which take a microsecond on real machines and on emulated ones: a
/// second or more.
const PATIENCE: u32 = 1_000_000;
/// How often the end is sent to a host that says nothing to it, and the results to one that has not got them.
const ENDS: u32 = 3;
const MAX_RESENT: u32 = 16;
/// How often a thread that is at it is waited for, a millisecond each: a frame takes 0.4 s at 115,200 baud.
const TRIES: u32 = 2000;

/// The input clocks of UARTs, over 16: a PC's own, and the one of ports that are faster.
const SLOW_BAUD: u32 = 115_200;
const FAST_BAUD: u32 = 921_600;

const HELLO_SIZE: usize = HELLO_HEAD + MAX_COMMAND_LINE;
const MAX_PAYLOAD: usize = match TRACE_SUB_SIZE > HELLO_SIZE {
    true => TRACE_SUB_SIZE,
    false => HELLO_SIZE,
};
const _: () = assert!(MAX_PAYLOAD >= MAX_PIECE);

/// The divisor for one of the speeds that a line may have. Those above 115,200 baud need a port whose input clock is
/// 14.7456 MHz.
pub(super) fn divisor(baud: u32) -> Option<u16> {
    match baud {
        SLOW_BAUD => Some(1),
        230_400 | 460_800 | FAST_BAUD => Some((FAST_BAUD / baud) as u16),
        _ => None,
    }
}

/// The port.
const PORT: Serial = Serial::com1();

/// The line, with the frame that is on its way. All zeros at rest, so that it is no part of the image.
struct Line {
    /// Bytes that the UART takes when it says that it is empty.
    fifo: usize,
    out: [u8; FrameHeader::SIZE + MAX_PAYLOAD],
    len: usize,
    at: usize,
    /// The next sequence number of each channel and CPU.
    sequence: [[u32; MAX_CPUS]; NR_CHANNELS],
    /// Frames of trace and log so far.
    sent: u32,
    /// When it got on last, and when it was said last who sends; in cycles.
    moved: u64,
    greeted: u64,
    /// How far the run has come is to be said.
    is_news: bool,
}

static LINE: Mutex<Line> = Mutex::new(Line {
    fifo: 0,
    out: [0; _],
    len: 0,
    at: 0,
    sequence: [[0; MAX_CPUS]; NR_CHANNELS],
    sent: 0,
    moved: 0,
    greeted: 0,
    is_news: false,
});

static COMMAND_LINE: Once<&'static str> = Once::new();
static STATUS: SetOnce<&'static Status> = SetOnce::new();
/// Who sends while the run goes on is to make way for its end.
static IS_ENDING: AtomicBool = AtomicBool::new(false);

/// Has the results in `status` sent.
pub(super) fn show(status: &'static Status) {
    STATUS.set(status);
}

/// Sets the port up and says who sends.
pub(super) fn start(divisor: u16, command_line: &'static str) {
    COMMAND_LINE.call_once(|| command_line);
    let mut line = LINE.lock();
    line.fifo = PORT.set_divisor(divisor);
    line.greet();
    line.flush();
}

/// A turn of who is about to wait, or has nothing better to do: the UART gets what it takes.
///
/// # Context
/// Threads with preemption enabled.
pub(super) fn turn() {
    let Some(mut line) = LINE.try_lock() else {
        return;
    };
    let began = Instant::now().cycles();
    let is_overdue = began.wrapping_sub(line.moved) > OVERDUE.to_cycles().get();
    // Whoever reports a fault has the port for itself: other CPUs stop within a byte.
    let may = || super::has_port() && (is_overdue || time::until_next_deadline() > MARGIN);
    if !may() {
        return;
    }
    line.moved = began;
    line.listen();
    // One who comes while a timer is always close gets a single frame on, by a FIFO's length.
    while line.pump(may) && !IS_ENDING.load(Relaxed) && line.fill(began) && !is_overdue {}
}

impl Line {
    /// Makes a frame, while none is on its way.
    fn put(&mut self, channel: u8, cpu: usize, parts: [&[u8]; 2]) {
        let len = parts[0].len() + parts[1].len();
        let Some(payload) = self.out[FrameHeader::SIZE..].get_mut(..len) else {
            return;
        };
        let (first, second) = payload.split_at_mut(parts[0].len());
        first.copy_from_slice(parts[0]);
        second.copy_from_slice(parts[1]);
        self.send(channel, cpu, len);
    }

    /// Sends the frame whose payload of so many bytes stands in its place.
    fn send(&mut self, channel: u8, cpu: usize, len: usize) {
        let (head, payload) = self.out.split_at_mut(FrameHeader::SIZE);
        let Some(payload) = payload.get(..len) else {
            return;
        };
        let sequence = &mut self.sequence[usize::from(channel) % NR_CHANNELS][cpu_index(cpu)];
        head.copy_from_slice(&header_of(channel, cpu as u8, *sequence, payload));
        *sequence = sequence.wrapping_add(1);
        if matches!(channel, CHANNEL_LOG | CHANNEL_TRACE) {
            self.sent = self.sent.wrapping_add(1);
        }
        (self.at, self.len) = (0, FrameHeader::SIZE + len);
    }

    fn greet(&mut self) {
        let hello = Hello {
            build_id: build_id(),
            nr_cpus: smp::nr_online(),
            tsc_hz: time::tsc_hz(),
            command_line: &[],
        };
        let text = COMMAND_LINE.get().copied().unwrap_or_default();
        self.put(CHANNEL_HELLO, 0, [&hello.encode(), text.as_bytes()]);
    }

    /// Gives the UART what it takes, as long as it `may`; says whether nothing is left.
    fn pump(&mut self, may: impl Fn() -> bool) -> bool {
        while self.at < self.len {
            if !may() || !PORT.has_room() {
                return false;
            }
            for _ in 0..self.fifo {
                let Some(byte) = self.out[..self.len].get(self.at) else {
                    break;
                };
                if !may() {
                    return false;
                }
                PORT.put(*byte);
                self.at += 1;
            }
        }
        true
    }

    /// Gives the UART all. A frame that it does not take is lost.
    fn flush(&mut self) {
        let (mut left, mut seen) = (PATIENCE, self.at);
        while !self.pump(|| true) {
            left = if self.at == seen { left - 1 } else { PATIENCE };
            seen = self.at;
            if left == 0 {
                TAKT_LOST_FRAMES.fetch_add(1, Relaxed);
                self.at = self.len;
            }
            core::hint::spin_loop();
        }
    }

    /// Takes what the host has sent.
    fn listen(&mut self) {
        if PORT.has_data() && PORT.take() == STOP {
            rtt::put_command(STOP);
        }
    }

    /// Makes the next frame of a run that goes on; false if there is nothing to send.
    fn fill(&mut self, now: u64) -> bool {
        if now.wrapping_sub(self.greeted) > HELLO.to_cycles().get() {
            self.greeted = now;
            self.is_news = true;
            self.greet();
            return true;
        }
        if core::mem::take(&mut self.is_news)
            && let Some(status) = STATUS.get()
        {
            self.put_news(status);
            return true;
        }
        // A recording in flight is for the end.
        self.put_log() || !trace::is_overwriting() && self.put_trace(smp::this_cpu())
    }

    fn put_log(&mut self) -> bool {
        let mut has_put = false;
        rtt::drain(MAX_PIECE, |bytes| {
            let is_first = !core::mem::replace(&mut has_put, true);
            if is_first {
                self.put(CHANNEL_LOG, 0, [bytes, &[]]);
            }
            is_first
        });
        has_put
    }

    fn put_trace(&mut self, cpu: usize) -> bool {
        let room = &mut self.out[FrameHeader::SIZE..];
        let Some(sub_buffer) = room.first_chunk_mut::<TRACE_SUB_SIZE>() else {
            return false;
        };
        let Some(copied) = trace::copy_full(cpu, sub_buffer) else {
            return false;
        };
        self.send(CHANNEL_TRACE, cpu, TRACE_SUB_SIZE);
        copied.consume();
        true
    }

    /// The figures so far, without histograms.
    fn put_news(&mut self, status: &'static Status) {
        let mut payload = [0; 2 * MAX_PIECE];
        let base = core::ptr::from_ref(status) as usize;
        let mut writer = MemoryWriter::new(&mut payload, base as u64);
        // What has no room is shown at the end.
        let _ = status
            .figures()
            .flat_map(|range| range.step_by(8))
            .all(|offset| writer.push(offset as u32, word(base + offset)));
        let len = writer.len();
        self.put(CHANNEL_MEMORY, 0, [&payload[..len], &[]]);
    }

    /// Sends all results; says by which frames.
    fn send_results(&mut self) -> [u32; 2] {
        let first = self.sequence[usize::from(CHANNEL_MEMORY)][0];
        if let Some(status) = STATUS.get() {
            self.send_memory(core::ptr::from_ref(*status) as usize, size_of::<Status>());
        }
        let machine = core::ptr::from_ref(&TAKT_MACHINE) as usize;
        self.send_memory(machine, size_of::<Machine>());
        for counter in [&TAKT_LOST_FRAMES, &TAKT_LOG_DROPPED] {
            // With its neighbour, which is sent as it is.
            self.send_memory(core::ptr::from_ref(counter) as usize & !7, 8);
        }
        [first, self.sequence[usize::from(CHANNEL_MEMORY)][0]]
    }

    /// Sends the words there that are not zero.
    fn send_memory(&mut self, base: usize, len: usize) {
        let mut payload = [0; MAX_PIECE];
        let mut offset = 0;
        while offset < len {
            let mut writer = MemoryWriter::new(&mut payload, base as u64);
            while offset < len {
                let value = word(base + offset);
                if value != 0 && !writer.push(offset as u32, value) {
                    break;
                }
                offset += 8;
            }
            let used = writer.len();
            if used != 0 {
                self.put(CHANNEL_MEMORY, 0, [&payload[..used], &[]]);
                self.flush();
            }
        }
    }

    /// Sends all that is left, and the end until the host has it. Where the end is said for ever, so is who sends: a host that
    /// comes late asks for the results.
    fn end(&mut self, code: u32) {
        self.flush();
        while self.put_log() {
            self.flush();
        }
        let mut results = self.send_results();
        for cpu in (0..MAX_CPUS).filter(|cpu| smp::is_online(*cpu)) {
            // Losses that the first pass could not mention for want of room show in a second.
            for _ in 0..2 {
                // Where a trigger has had it go on, what is complete is handed over.
                let _ = trace::close(cpu);
                while self.put_trace(cpu) {
                    self.flush();
                }
            }
        }
        let (mut ends, mut resent, mut is_late) = (ENDS, 0, false);
        while ends > 0 {
            let [first, next] = results;
            let end = End {
                code,
                first,
                next,
                sent: self.sent,
            };
            self.put(CHANNEL_END, 0, [&end.encode(), &[]]);
            self.flush();
            match answer() {
                Some(TAKEN) if is_late => return tell(IS_TAKEN),
                Some(TAKEN) => return,
                Some(AGAIN) if resent < MAX_RESENT => {
                    results = self.send_results();
                    resent += 1;
                }
                _ => ends -= 1,
            }
            if ends == 0 && is_patient() {
                if !core::mem::replace(&mut is_late, true) {
                    tell(IS_WAITING);
                }
                (ends, resent) = (1, 0);
                self.greet();
                self.flush();
            }
        }
    }
}

const IS_WAITING: &str =
    "no host has taken the results: leave the machine on until `attach` has them";
const IS_TAKEN: &str = "the results are taken. The machine may be switched off.";

/// Whether the end is said until somebody takes it, be it in the morning: a real machine has nothing else to do, and halting it
/// would lose the results. A guest ends; an image without a console is no real machine's.
fn is_patient() -> bool {
    cfg!(feature = "console") && !crate::machine::has_hypervisor()
}

/// Tells who is at the machine. The console leaves the port alone.
fn tell(text: &str) {
    #[cfg(feature = "console")]
    crate::console::print(format_args!("{text}\n"));
    #[cfg(not(feature = "console"))]
    let _ = text;
}

/// What the host says to the end.
fn answer() -> Option<u8> {
    (0..PATIENCE).find_map(|_| {
        let is_there = PORT.has_data();
        is_there
            .then(|| PORT.take())
            .filter(|byte| matches!(*byte, TAKEN | AGAIN))
    })
}

/// The end of the run.
///
/// # Context
/// A thread. Recording is off.
pub(super) fn finish(code: u32) -> bool {
    IS_ENDING.store(true, Relaxed);
    // Another thread may be at it, perhaps one that this one keeps from running.
    let line = (0..TRIES).find_map(|_| {
        LINE.try_lock().or_else(|| {
            let _ = time::sleep(Nanos::from_millis(1));
            None
        })
    });
    line.map(|mut line| line.end(code)).is_some()
}

/// The header of a frame, with the sum that it has on a line. It stands once in an image, for its size.
#[inline(never)]
fn header_of(channel: u8, cpu: u8, sequence: u32, payload: &[u8]) -> [u8; FrameHeader::SIZE] {
    let mut header = FrameHeader::for_payload(channel, cpu, sequence, payload);
    header.sum ^= key(channel, &build_id());
    header.encode()
}

/// The end of a run that could not go on, behind the report.
///
/// # Context
/// Interrupts off.
pub(super) fn give_up(code: u32) {
    trace::tracing_off();
    let Some(mut line) = LINE.try_lock() else {
        // It was interrupted in the middle of a frame.
        let end = End {
            code,
            first: 0,
            next: 0,
            sent: 0,
        };
        for number in 0..ENDS {
            let payload = end.encode();
            PORT.write_bytes(&header_of(CHANNEL_END, 0, number, &payload));
            PORT.write_bytes(&payload);
            if answer() == Some(TAKEN) {
                return;
            }
        }
        return;
    };
    // The report came behind the first half of a frame; the second half is nothing without it.
    line.at = line.len;
    line.end(code);
}

/// A word of the image's memory.
fn word(at: usize) -> u64 {
    let at = core::ptr::with_exposed_provenance::<u64>(at);
    // SAFETY: the callers name aligned words of statics of this image. Others may write to them meanwhile, by atomics; what
    // is read is only sent, as a host would read it from the memory of a guest.
    unsafe { at.read_volatile() }
}

/// The image's build id; zeros if it was linked without.
fn build_id() -> [u8; BUILD_ID] {
    #[cfg(feature = "image")]
    {
        /// Behind the note's head and its name, `GNU`.
        const AT: usize = 16;
        unsafe extern "C" {
            static __build_id_start: u8;
            static __build_id_end: u8;
        }
        let [start, end] = [&raw const __build_id_start, &raw const __build_id_end];
        if end.addr() - start.addr() == AT + BUILD_ID {
            // SAFETY: the link script's symbols; the note lies between them.
            return unsafe { start.wrapping_add(AT).cast::<[u8; BUILD_ID]>().read() };
        }
    }
    [0; BUILD_ID]
}
