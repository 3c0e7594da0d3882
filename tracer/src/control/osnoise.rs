//! [`OsnoiseBlock`]: what the tracers `timerlat` and `osnoise` are set to, where they keep it themselves, so that a host that
//! reads the RAM sees it at once.
//!
//! An image with these tracers holds it as a static under the name [`OsnoiseBlock::SYMBOL`]. It is a binary interface:
//! whoever changes the layout changes [`OsnoiseBlock::MAGIC`].
//!
//! Source: Linux, `Documentation/trace/osnoise-tracer.rst` and `timerlat-tracer.rst`, for the names.
//!
//! Context: plain loads and stores, any.

use core::mem::offset_of;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::named;

named! {
    /// A parameter of the tracers: a file in Linux's folder `osnoise`.
    pub enum Param {
        /// A bit for each CPU that has a thread of the tracer's.
        Cpus = "cpus",
        /// Of `osnoise`: time between the beginnings of two samplings, in ns.
        Period = "period",
        /// Of `osnoise`: how long each samples, in ns.
        Runtime = "runtime",
        /// A single noise, or a latency of the timer's interrupt, of so many ns stops the recording; 0 does not.
        StopTracing = "stop_tracing",
        /// The noise of a sampling, or a latency of the thread, of so many ns stops it; 0 does not.
        StopTracingTotal = "stop_tracing_total",
        /// Of `timerlat`: time between two activations, in ns.
        TimerlatPeriod = "timerlat_period",
        /// Of `timerlat`: a latency of the thread of so many ns has the stack shown that its interrupt came upon; 0 has not.
        PrintStack = "print_stack",
        /// A bit for each of [`Flag`].
        Options = "options",
    }
}

named! {
    /// An option of the tracers, as Linux's file `osnoise/options` names it.
    pub enum Flag {
        /// The tracers have threads of their own.
        Workload = "OSNOISE_WORKLOAD",
        /// What stops the recording is a panic.
        PanicOnStop = "PANIC_ON_STOP",
        /// `osnoise` samples with preemption off.
        PreemptDisable = "OSNOISE_PREEMPT_DISABLE",
        /// `osnoise` samples with interrupts off. Whoever switches events or tracers meanwhile waits for the end of the sampling,
        /// and all CPUs with him.
        IrqDisable = "OSNOISE_IRQ_DISABLE",
        /// `timerlat`'s activations come at the same time on all CPUs; else they are staggered.
        TimerlatAlign = "TIMERLAT_ALIGN",
    }
}

impl Flag {
    /// Its bit in [`Param::Options`].
    #[must_use]
    pub const fn bit(self) -> u64 {
        1 << self as u32
    }
}

/// How many parameters there are.
const NR: usize = 8;

impl Param {
    /// What it is at first, as in Linux.
    #[must_use]
    pub const fn default(self) -> u64 {
        match self {
            Self::Cpus => u32::MAX as u64,
            Self::Period | Self::Runtime => 1_000_000_000,
            Self::TimerlatPeriod => 1_000_000,
            Self::Options => Flag::Workload.bit(),
            Self::StopTracing | Self::StopTracingTotal | Self::PrintStack => 0,
        }
    }
}

/// See the module's documentation.
#[repr(C)]
#[derive(Debug)]
pub struct OsnoiseBlock {
    /// [`OsnoiseBlock::MAGIC`].
    pub magic: u64,
    /// The parameters, by number.
    values: [AtomicU64; NR],
}

impl OsnoiseBlock {
    /// First eight bytes of a block.
    pub const MAGIC: u64 = u64::from_le_bytes(*b"TAKTOSN1");
    /// Name of the symbol under which an image holds it.
    pub const SYMBOL: &'static str = "TAKT_OSNOISE";

    /// A block with what Linux has at first.
    #[expect(clippy::new_without_default, reason = "meant for a static")]
    pub const fn new() -> Self {
        const fn of(param: Param) -> AtomicU64 {
            AtomicU64::new(param.default())
        }
        Self {
            magic: Self::MAGIC,
            values: [
                of(Param::Cpus),
                of(Param::Period),
                of(Param::Runtime),
                of(Param::StopTracing),
                of(Param::StopTracingTotal),
                of(Param::TimerlatPeriod),
                of(Param::PrintStack),
                of(Param::Options),
            ],
        }
    }

    /// A parameter.
    pub fn get(&self, param: Param) -> u64 {
        self.values[param as usize].load(Relaxed)
    }

    /// Changes one. Whether it may be so is the caller's business.
    pub fn set(&self, param: Param, value: u64) {
        self.values[param as usize].store(value, Relaxed);
    }
}

/// A block, read from the bytes of a RAM.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OsnoiseView([u64; NR]);

impl OsnoiseView {
    /// Bytes of a block.
    pub const SIZE: usize = size_of::<OsnoiseBlock>();

    /// Reads a block; `None` if that is none.
    pub fn decode(bytes: &[u8; Self::SIZE]) -> Option<Self> {
        let u64_at = |at| crate::wire::u64_at(bytes, at).unwrap_or(0);
        let first = offset_of!(OsnoiseBlock, values);
        (u64_at(offset_of!(OsnoiseBlock, magic)) == OsnoiseBlock::MAGIC)
            .then(|| Self(core::array::from_fn(|nr| u64_at(first + 8 * nr))))
    }

    /// A parameter.
    pub fn get(&self, param: Param) -> u64 {
        self.0[param as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::named::Named;

    #[test]
    fn a_block_is_read_as_it_was_set() {
        assert_eq!(Param::ALL.len(), NR);
        let block = OsnoiseBlock::new();
        for (nr, param) in Param::ALL.iter().enumerate() {
            assert_eq!(block.get(*param), param.default());
            block.set(*param, nr as u64 + 7);
        }
        let mut bytes = [0; OsnoiseView::SIZE];
        bytes[..8].copy_from_slice(&block.magic.to_le_bytes());
        for (nr, param) in Param::ALL.iter().enumerate() {
            bytes[8 + 8 * nr..][..8].copy_from_slice(&block.get(*param).to_le_bytes());
        }
        let view = OsnoiseView::decode(&bytes).unwrap();
        assert!(
            Param::ALL
                .iter()
                .all(|param| view.get(*param) == block.get(*param))
        );
        assert_eq!(OsnoiseView::decode(&[0; OsnoiseView::SIZE]), None);
    }
}
