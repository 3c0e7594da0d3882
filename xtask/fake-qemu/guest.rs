//! The guest that is played.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::mem::{offset_of, size_of};
use std::os::unix::fs::FileExt;
use std::process::ExitCode;
use std::thread::sleep;
use std::time::Duration;

use takt_guest::Elf;
use takt_guest::rtt;
use takt_timerlat::stats::histogram::Histogram;
use takt_timerlat::stats::{
    CpuStatus, LatencyStats, Measure, RunState, SlotStats, Status, StopReason, ThreadInfo,
    TraceCounters,
};
use takt_tracer::ring::Word;
use takt_tracer::wire::{CHANNEL_LOG, CHANNEL_TRACE, FrameHeader};

use crate::arguments::Arguments;
use crate::sub_buffer;

/// Values that the guest writes to the debug port.
const PASSED: u8 = 0x10;
const FAILED: u8 = 0x11;
const THRESHOLD: u8 = 0x12;
const PANICKED: u8 = 0x13;

/// Where its RTT buffers lie.
const LOG_BUFFER: u64 = 0x30_0000;
const COMMAND_BUFFER: u64 = 0x30_1000;

/// A guest at work.
pub(crate) struct Guest<'a> {
    ram: File,
    capture: File,
    arguments: &'a Arguments,
    status: u64,
    rtt: u64,
    lost_frames: u64,
    log_dropped: u64,
    /// Where its trace ring's control words and memory lie.
    ring: (u64, u64),
}

impl<'a> Guest<'a> {
    /// Opens everything that QEMU would.
    pub(crate) fn new(arguments: &'a Arguments) -> Self {
        let ram = OpenOptions::new()
            .read(true)
            .write(true)
            .open(&arguments.ram)
            .expect("the RAM file");
        assert_eq!(ram.metadata().expect("its size").len(), arguments.ram_size);
        let elf = Elf::open(&arguments.image).expect("the image");
        File::create(&arguments.serial).expect("the serial file");
        Self {
            ram,
            capture: File::create(&arguments.capture).expect("the capture"),
            arguments,
            status: elf.physical(Status::SYMBOL).expect("a status block"),
            rtt: elf.physical(rtt::SYMBOL).expect("an RTT block"),
            lost_frames: elf.physical("TAKT_LOST_FRAMES").expect("a counter"),
            log_dropped: elf.physical("TAKT_LOG_DROPPED").expect("a counter"),
            ring: (
                elf.physical("takt_percpu").expect("the CPUs' memory")
                    + elf.symbol("takt_percpu_control").expect("an offset"),
                elf.physical("takt_percpu").expect("the CPUs' memory"),
            ),
        }
    }

    fn poke(&self, address: u64, bytes: &[u8]) {
        self.ram.write_all_at(bytes, address).expect("RAM");
    }

    fn u32(&self, offset: usize, value: u32) {
        self.poke(self.status + offset as u64, &value.to_le_bytes());
    }

    fn u64(&self, offset: usize, value: u64) {
        self.poke(self.status + offset as u64, &value.to_le_bytes());
    }

    fn state(&self, state: RunState) {
        self.u32(offset_of!(Status, state), state as u32);
    }

    /// Sets up the status block and the channels.
    fn boot(&self) {
        self.u32(offset_of!(Status, version), Status::VERSION);
        self.u32(offset_of!(Status, nr_cpus), 1);
        self.u32(offset_of!(Status, nr_slots), 1);
        self.u64(offset_of!(Status, tsc_hz), 1_000_000_000);
        // The second would clear a terminal.
        for (tid, name) in [(2, &b"tick\x1b[2Jer"[..]), (9, b"timerlat/0")] {
            let thread = offset_of!(Status, threads) + tid * size_of::<ThreadInfo>();
            let place = self.status + (thread + offset_of!(ThreadInfo, name)) as u64;
            self.poke(place, name);
            self.u32(thread + offset_of!(ThreadInfo, state), 1);
        }
        self.u64(offset_of!(Status, magic), Status::MAGIC);

        self.poke(self.rtt, rtt::ID);
        self.poke(self.rtt + 16, &[1, 0, 0, 0, 1, 0, 0, 0]);
        for (index, buffer) in [(0, LOG_BUFFER), (1, COMMAND_BUFFER)] {
            let descriptor = self.rtt + 24 + index * 32;
            self.poke(descriptor + 8, &buffer.to_le_bytes());
            self.poke(descriptor + 16, &64u32.to_le_bytes());
        }
    }

    /// A sign of life.
    fn beat(&self, beats: u64) {
        self.u64(
            offset_of!(Status, cpus) + offset_of!(CpuStatus, heartbeat),
            beats,
        );
    }

    /// Puts a distribution in place.
    fn samples(&self, which: Measure, samples: &[(u64, u32)]) {
        let slot = offset_of!(Status, slots);
        self.u32(slot + offset_of!(SlotStats, active), 1);
        self.u32(slot + offset_of!(SlotStats, prio), 95);
        self.u64(slot + offset_of!(SlotStats, interval_ns), 1_000_000);
        let stats = slot
            + match which {
                Measure::Thread => offset_of!(SlotStats, thread),
                _ => offset_of!(SlotStats, irq),
            };
        let count: u64 = samples.iter().map(|&(_, n)| u64::from(n)).sum();
        self.u64(stats + offset_of!(LatencyStats, count), count);
        self.u64(
            stats + offset_of!(LatencyStats, min),
            samples.iter().map(|s| s.0).min().unwrap_or(0),
        );
        self.u64(
            stats + offset_of!(LatencyStats, max),
            samples.iter().map(|s| s.0).max().unwrap_or(0),
        );
        self.u64(
            stats + offset_of!(LatencyStats, cur),
            samples.last().map_or(0, |s| s.0),
        );
        self.u64(
            stats + offset_of!(LatencyStats, sum),
            samples.iter().map(|&(ns, n)| ns * u64::from(n)).sum(),
        );
        for &(ns, n) in samples {
            let bucket =
                offset_of!(LatencyStats, hist) + offset_of!(Histogram, linear) + ns as usize * 4;
            self.u32(stats + bucket, n);
        }
    }

    /// Measures ten activations, records them and logs.
    fn measure(&self) {
        self.state(RunState::Running);
        self.u64(offset_of!(Status, started_tsc), 5_000);
        self.samples(Measure::Irq, &[(7, 9), (9, 1)]);
        self.samples(Measure::Thread, &[(78, 9), (90, 1)]);
        let trace = offset_of!(Status, cpus) + offset_of!(CpuStatus, trace);
        self.u64(
            trace + offset_of!(TraceCounters, entries),
            2 * u64::from(sub_buffer::RECORDS),
        );
        self.u64(
            trace + offset_of!(TraceCounters, bytes),
            2 * sub_buffer::SIZE as u64,
        );
        self.frame(CHANNEL_TRACE, 0, &sub_buffer::full(0));
        self.frame(CHANNEL_LOG, 0, &log_line(1));
        self.frame(CHANNEL_TRACE, 1, &sub_buffer::full(1));
    }

    fn frame(&self, channel: u8, seq: u32, payload: &[u8]) {
        let header = FrameHeader::for_payload(channel, 0, seq, payload);
        self.raw(&header.encode());
        self.raw(payload);
    }

    fn raw(&self, bytes: &[u8]) {
        // A full disk is QEMU's problem, and QEMU says nothing.
        let _ = (&self.capture).write_all(bytes);
    }

    /// Leaves a line in the log buffer that was not sent.
    fn unsent_log(&self, line: u8) {
        self.poke(LOG_BUFFER, &log_line(line));
        self.poke(self.rtt + 24 + 20, &2u32.to_le_bytes());
    }

    /// Leaves a sub-buffer in the trace ring that is only begun.
    fn unsent_trace(&self) {
        let (bytes, used) = sub_buffer::begun(2);
        let word = |word: Word, value: u64| {
            self.poke(self.ring.0 + u64::from(word.offset()), &value.to_le_bytes())
        };
        word(Word::Pos, 2 * sub_buffer::SIZE as u64 + u64::from(used));
        word(Word::Consumed, 2);
        self.poke(self.ring.1 + 2 * sub_buffer::SIZE as u64, &bytes);
    }

    fn is_told_to_stop(&self) -> bool {
        let mut write = [0; 4];
        self.ram
            .read_exact_at(&mut write, self.rtt + 24 + 32 + 20)
            .expect("RAM");
        let mut byte = [0];
        self.ram
            .read_exact_at(&mut byte, COMMAND_BUFFER)
            .expect("RAM");
        write == [1, 0, 0, 0] && byte == *b"s"
    }

    fn end(&self, state: RunState, code: u8) -> ExitCode {
        self.u64(offset_of!(Status, ended_tsc), 5_000 + 10_000_000);
        self.state(state);
        ExitCode::from(code << 1 | 1)
    }

    /// Lives until `is_over`.
    fn live_until(&self, is_over: impl Fn() -> bool) {
        for beats in 1.. {
            if is_over() {
                return;
            }
            self.beat(beats);
            sleep(Duration::from_millis(20));
        }
    }
}

/// A message of the fake image in raw defmt encoding: its index.
fn log_line(index: u8) -> [u8; 2] {
    [index, 0]
}

/// Plays a scenario to its end.
pub(crate) fn play(scenario: &str, guest: &Guest<'_>) -> ExitCode {
    if guest.arguments.key("probe").is_some() {
        return ExitCode::from(PASSED << 1 | 1);
    }
    match scenario {
        "reset-at-boot" => return ExitCode::SUCCESS,
        "future" => {
            guest.u64(offset_of!(Status, magic), Status::MAGIC);
            guest.u32(offset_of!(Status, version), 99);
            sleep(Duration::from_secs(60));
        }
        _ => guest.boot(),
    }
    guest.measure();
    match scenario {
        "pass" => guest.end(RunState::Done, PASSED),
        // Two of its threads, with their ids; they have no interrupt's latency.
        "cyclictest" => {
            guest.samples(Measure::Irq, &[(7, 0), (9, 0)]);
            guest.u32(offset_of!(Status, slots) + offset_of!(SlotStats, tid), 143);
            guest.end(RunState::Done, PASSED)
        }
        // The main thread noted the end a whole second too late.
        "late-end" => {
            let code = guest.end(RunState::Done, PASSED);
            guest.u64(offset_of!(Status, ended_tsc), 1_000_000_000);
            code
        }
        "threshold" => {
            let stop = offset_of!(Status, stop);
            guest.u32(stop + offset_of!(StopReason, which), Measure::Thread as u32);
            guest.u64(stop + offset_of!(StopReason, value), 90);
            guest.u64(stop + offset_of!(StopReason, seq), 10);
            guest.end(RunState::Threshold, THRESHOLD)
        }
        "lost-events" => {
            let trace = offset_of!(Status, cpus) + offset_of!(CpuStatus, trace);
            guest.u64(trace + offset_of!(TraceCounters, dropped), 3);
            guest.end(RunState::Done, PASSED)
        }
        "negative" => {
            guest.u64(
                offset_of!(Status, slots) + offset_of!(SlotStats, negative),
                1,
            );
            guest.end(RunState::Done, PASSED)
        }
        "missing-samples" => {
            guest.samples(Measure::Irq, &[(7, 5), (9, 0)]);
            guest.samples(Measure::Thread, &[(78, 5), (90, 0)]);
            guest.end(RunState::Done, PASSED)
        }
        "torn" => {
            guest.samples(Measure::Thread, &[(78, 8)]);
            guest.end(RunState::Done, PASSED)
        }
        "unsent-events" => {
            let trace = offset_of!(Status, cpus) + offset_of!(CpuStatus, trace);
            guest.u64(trace + offset_of!(TraceCounters, entries), 100);
            guest.end(RunState::Done, PASSED)
        }
        "log-dropped" => {
            guest.poke(guest.log_dropped, &12u32.to_le_bytes());
            guest.end(RunState::Done, PASSED)
        }
        "time-going-back" => {
            guest.frame(CHANNEL_TRACE, 2, &sub_buffer::full_at(2, 1 << 62));
            guest.frame(CHANNEL_TRACE, 3, &sub_buffer::full_at(3, 5));
            guest.end(RunState::Done, PASSED)
        }
        "frame-gap" => {
            guest.frame(CHANNEL_TRACE, 5, &sub_buffer::full(5));
            guest.end(RunState::Done, PASSED)
        }
        // Three are seen by the gap before frame 5, two that came behind it are not.
        "lost-frames" => {
            guest.frame(CHANNEL_TRACE, 5, &sub_buffer::full(5));
            guest.poke(guest.lost_frames, &5u32.to_le_bytes());
            guest.end(RunState::Done, PASSED)
        }
        "damaged-frame" => {
            let sub = sub_buffer::full(2);
            let mut header = FrameHeader::for_payload(CHANNEL_TRACE, 0, 2, &sub);
            header.sum ^= 1;
            guest.raw(&header.encode());
            guest.raw(&sub);
            guest.end(RunState::Done, PASSED)
        }
        "cut-capture" => {
            let sub = sub_buffer::full(2);
            guest.raw(&FrameHeader::for_payload(CHANNEL_TRACE, 0, 2, &sub).encode());
            guest.raw(&sub[..100]);
            guest.end(RunState::Done, PASSED)
        }
        "no-samples" => {
            guest.samples(Measure::Irq, &[(7, 0), (9, 0)]);
            guest.samples(Measure::Thread, &[(78, 0), (90, 0)]);
            guest.end(RunState::Done, PASSED)
        }
        "incomplete" => guest.end(RunState::Running, PASSED),
        "failed" => {
            guest.unsent_log(3);
            guest.end(RunState::Error, FAILED)
        }
        "panic" => {
            fs::write(
                &guest.arguments.serial,
                "PANIC on CPU 0: index out of bounds\nrip 0x200010\n",
            )
            .expect("serial");
            guest.end(RunState::Failed, PANICKED)
        }
        "reset" => ExitCode::SUCCESS,
        "terminated" => {
            eprintln!("fake-qemu: terminating on signal 15 from pid 1 (init)");
            ExitCode::SUCCESS
        }
        "crash" => std::process::abort(),
        "hang" => {
            guest.unsent_trace();
            guest.unsent_log(2);
            sleep(Duration::from_secs(60));
            ExitCode::SUCCESS
        }
        "until-stopped" => {
            guest.live_until(|| guest.is_told_to_stop());
            guest.end(RunState::Done, PASSED)
        }
        "deaf" => {
            guest.live_until(|| false);
            ExitCode::SUCCESS
        }
        "fill-disk" => {
            guest.live_until(|| {
                guest.frame(CHANNEL_TRACE, 2, &[0; 1 << 16]);
                false
            });
            ExitCode::SUCCESS
        }
        other => panic!("no scenario `{other}`"),
    }
}
