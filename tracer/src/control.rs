//! [`ControlBlock`]: what a host that reads the RAM is told about the tracer of a running system.
//!
//! An image holds it as a static under the name [`ControlBlock::SYMBOL`]. It is a binary interface: whoever changes the
//! layout changes [`ControlBlock::MAGIC`].
//!
//! The host sends settings ([`Setting`]) as lines, one at a time (RTT down channel 1); the target counts those that it has carried
//! out and leaves the result of the last.
//!
//! [`LatencyBlock`], [`FunctionBlock`] and [`OsnoiseBlock`] are beside it in images with those tracers. [`setting`] is what can be set,
//! [`Tracer`] what can be chosen. [`cmdline`] and [`mod@line`] are how settings reach the target: as words of its command line, and
//! as lines.
//!
//! Context: plain loads and stores, any.

pub mod cmdline;
mod commands;
mod functions;
pub mod gate;
mod latency;
pub mod line;
pub mod osnoise;
pub mod setting;
mod tracers;

pub use commands::{CommandView, Commands, MAX_COMMANDS};
pub use functions::{FunctionBlock, FunctionView};
pub use latency::{Kept, LatencyBlock, LatencyView};
pub use osnoise::{OsnoiseBlock, OsnoiseView};
pub use setting::Setting;
pub use tracers::Tracer;

use core::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed, Ordering::Release};

/// CPUs that there is room for.
pub const MAX_CPUS: usize = 16;
/// Bytes for the names of the tracers.
pub const NAMES_LEN: usize = 256;

/// Name of a word of an image with a bit for each of the current tracer's events that is on for the tracer alone.
pub const TRACER_EVENTS: &str = "TAKT_TRACER_EVENTS";
/// Name of a byte of an image that can record stacks: 1 if there is one after every event.
pub const STACKTRACE: &str = "TAKT_STACKTRACE";
/// Name of a byte of an image with the tracer `function`: 1 if there is a stack after every function.
pub const FUNC_STACK_TRACE: &str = "TAKT_FUNC_STACK_TRACE";
/// Name of a byte of such an image: 1 if the tracers of latencies have functions recorded as well.
pub const FUNCTION_TRACE: &str = "TAKT_FUNCTION_TRACE";

/// What belongs to one CPU.
#[repr(C)]
#[derive(Debug)]
pub struct CpuControl {
    /// Address of the ring's control words ([`RingControl`](crate::ring::RingControl)); 0 if there is no such CPU.
    pub control: AtomicU64,
    /// Address of the ring's memory.
    pub memory: AtomicU64,
}

/// See the module's documentation.
#[repr(C)]
#[derive(Debug)]
pub struct ControlBlock {
    /// [`ControlBlock::MAGIC`], once everything else is set.
    pub magic: AtomicU64,
    /// TSC frequency in Hz.
    pub tsc_hz: AtomicU64,
    /// The TSC when the block was last brought up to date.
    pub now: AtomicU64,
    /// Bytes of a sub-buffer.
    pub sub_size: AtomicU32,
    /// Sub-buffers of a ring.
    pub nr_subs: AtomicU32,
    /// 1 if somebody carries out what the host sends.
    pub is_listening: AtomicU32,
    /// Lines that were carried out. Counted after `result` is set.
    pub nr_done: AtomicU32,
    /// What came of the last: 0, or the number of an error as Linux counts.
    pub result: AtomicU32,
    /// 1 if recording is on.
    pub is_on: AtomicU32,
    /// The CPUs that record.
    pub cpumask: AtomicU32,
    /// The current tracer, by its place in `tracers`.
    pub tracer: AtomicU32,
    /// How often a tracer was chosen.
    pub nr_chosen: AtomicU32,
    /// 1 if the oldest is overwritten when a ring is full.
    pub is_overwrite: AtomicU32,
    /// Sub-buffers of a ring that are used.
    pub capacity: AtomicU32,
    /// CPUs that run.
    pub nr_cpus: AtomicU32,
    /// What belongs to each CPU.
    pub cpus: [CpuControl; MAX_CPUS],
    /// The names of the tracers, separated by spaces, padded with zeros.
    pub tracers: [AtomicU8; NAMES_LEN],
}

impl ControlBlock {
    /// First eight bytes of a block in use.
    pub const MAGIC: u64 = u64::from_le_bytes(*b"TAKTCTL2");
    /// Name of the symbol under which an image holds it.
    pub const SYMBOL: &'static str = "TAKT_CONTROL";

    /// A block at rest: zeros.
    pub const fn new() -> Self {
        Self {
            magic: AtomicU64::new(0),
            tsc_hz: AtomicU64::new(0),
            now: AtomicU64::new(0),
            sub_size: AtomicU32::new(0),
            nr_subs: AtomicU32::new(0),
            is_listening: AtomicU32::new(0),
            nr_done: AtomicU32::new(0),
            result: AtomicU32::new(0),
            is_on: AtomicU32::new(0),
            cpumask: AtomicU32::new(0),
            tracer: AtomicU32::new(0),
            nr_chosen: AtomicU32::new(0),
            is_overwrite: AtomicU32::new(0),
            capacity: AtomicU32::new(0),
            nr_cpus: AtomicU32::new(0),
            cpus: [const {
                CpuControl {
                    control: AtomicU64::new(0),
                    memory: AtomicU64::new(0),
                }
            }; MAX_CPUS],
            tracers: [const { AtomicU8::new(0) }; NAMES_LEN],
        }
    }

    /// Says that a line was carried out, and what came of it.
    pub fn answer(&self, result: u32) {
        self.result.store(result, Relaxed);
        let nr_done = self.nr_done.load(Relaxed);
        self.nr_done.store(nr_done.wrapping_add(1), Release);
    }

    /// Sets the names of the tracers; what does not fit is left out.
    pub fn set_tracers<'n>(&self, names: impl Iterator<Item = &'n str>) {
        let mut cells = self.tracers.iter();
        for name in names {
            if name.len() >= cells.len() {
                return;
            }
            for (byte, cell) in name.bytes().chain([b' ']).zip(&mut cells) {
                cell.store(byte, Relaxed);
            }
        }
    }
}

impl Default for ControlBlock {
    fn default() -> Self {
        Self::new()
    }
}

/// The state of a CPU's part of the block, read.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CpuView {
    /// [`CpuControl::control`]
    pub control: u64,
    /// [`CpuControl::memory`]
    pub memory: u64,
}

/// A block, read from the bytes of a RAM. Nothing in it is trusted to be possible.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "the fields are those of `ControlBlock`")]
pub struct ControlView {
    pub tsc_hz: u64,
    pub now: u64,
    pub sub_size: u32,
    pub nr_subs: u32,
    pub is_listening: bool,
    pub nr_done: u32,
    pub result: u32,
    pub is_on: bool,
    pub cpumask: u32,
    pub tracer: u32,
    pub nr_chosen: u32,
    pub is_overwrite: bool,
    pub capacity: u32,
    pub nr_cpus: u32,
    pub cpus: [CpuView; MAX_CPUS],
    pub tracers: [u8; NAMES_LEN],
}

impl ControlView {
    /// Bytes of a block.
    pub const SIZE: usize = size_of::<ControlBlock>();

    /// Reads a block; `None` if there is none yet.
    pub fn decode(bytes: &[u8; Self::SIZE]) -> Option<Self> {
        use core::mem::offset_of;
        let u32_at = |at| crate::wire::u32_at(bytes, at).unwrap_or(0);
        let u64_at = |at| crate::wire::u64_at(bytes, at).unwrap_or(0);
        if u64_at(offset_of!(ControlBlock, magic)) != ControlBlock::MAGIC {
            return None;
        }
        let cpu = |cpu: usize| {
            let at = offset_of!(ControlBlock, cpus) + cpu * size_of::<CpuControl>();
            CpuView {
                control: u64_at(at + offset_of!(CpuControl, control)),
                memory: u64_at(at + offset_of!(CpuControl, memory)),
            }
        };
        let mut tracers = [0; NAMES_LEN];
        let names = offset_of!(ControlBlock, tracers);
        tracers.copy_from_slice(&bytes[names..names + NAMES_LEN]);
        Some(Self {
            tsc_hz: u64_at(offset_of!(ControlBlock, tsc_hz)),
            now: u64_at(offset_of!(ControlBlock, now)),
            sub_size: u32_at(offset_of!(ControlBlock, sub_size)),
            nr_subs: u32_at(offset_of!(ControlBlock, nr_subs)),
            is_listening: u32_at(offset_of!(ControlBlock, is_listening)) != 0,
            nr_done: u32_at(offset_of!(ControlBlock, nr_done)),
            result: u32_at(offset_of!(ControlBlock, result)),
            is_on: u32_at(offset_of!(ControlBlock, is_on)) != 0,
            cpumask: u32_at(offset_of!(ControlBlock, cpumask)),
            tracer: u32_at(offset_of!(ControlBlock, tracer)),
            nr_chosen: u32_at(offset_of!(ControlBlock, nr_chosen)),
            is_overwrite: u32_at(offset_of!(ControlBlock, is_overwrite)) != 0,
            capacity: u32_at(offset_of!(ControlBlock, capacity)),
            nr_cpus: u32_at(offset_of!(ControlBlock, nr_cpus)),
            cpus: core::array::from_fn(cpu),
            tracers,
        })
    }

    /// The names of the tracers.
    pub fn tracers(&self) -> impl Iterator<Item = &str> {
        self.tracers
            .split(|byte| matches!(byte, 0 | b' '))
            .filter_map(|name| core::str::from_utf8(name).ok())
            .filter(|name| !name.is_empty())
    }
}
