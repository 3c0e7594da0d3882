//! [`LatencyBlock`]: what the latency tracers are set to and what they have found, where they keep it themselves, so that
//! a host that reads the RAM sees it at once.
//!
//! An image with these tracers holds it as a static under the name [`LatencyBlock::SYMBOL`]; one without does not have the
//! symbol. It is a binary interface: whoever changes the layout changes [`LatencyBlock::MAGIC`].
//!
//! Context: plain loads and stores, any.

use core::mem::offset_of;
use core::sync::atomic::{
    AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

/// See the module's documentation.
#[repr(C)]
#[derive(Debug)]
pub struct LatencyBlock {
    /// [`LatencyBlock::MAGIC`].
    pub magic: u64,
    /// `tracing_max_latency` in cycles.
    pub max: AtomicU64,
    /// `tracing_thresh` in cycles.
    pub thresh: AtomicU64,
    /// `hwlat_detector/window` in nanoseconds.
    pub hwlat_window: AtomicU64,
    /// `hwlat_detector/width` in nanoseconds.
    pub hwlat_width: AtomicU64,
    /// The latency that was kept last, in cycles.
    pub kept_cycles: AtomicU64,
    /// Counts what was kept; odd while the words of the kept one are being changed.
    pub nr_kept: AtomicU32,
    /// Where the kept one began: an address in the text, which is not 0; 0 if there is none.
    pub kept_started_at: AtomicU32,
    /// Where it ended.
    pub kept_ended_at: AtomicU32,
    /// The CPU that it was met on.
    pub kept_cpu: AtomicU32,
    /// The thread that ran at its end, or was woken.
    pub kept_tid: AtomicU32,
}

/// A latency that was kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Kept {
    /// Length in cycles.
    pub cycles: u64,
    /// Where it began: an address in the text.
    pub started_at: u32,
    /// Where it ended.
    pub ended_at: u32,
    /// The CPU that it was met on.
    pub cpu: u32,
    /// The thread that ran at its end, or was woken.
    pub tid: u8,
}

impl LatencyBlock {
    /// First eight bytes of a block.
    pub const MAGIC: u64 = u64::from_le_bytes(*b"TAKTLAT2");
    /// Name of the symbol under which an image holds it.
    pub const SYMBOL: &'static str = "TAKT_LATENCY";

    /// A block before anything was found, with the hwlat detector's window and width in nanoseconds.
    pub const fn new(hwlat_window: u64, hwlat_width: u64) -> Self {
        Self {
            magic: Self::MAGIC,
            max: AtomicU64::new(0),
            thresh: AtomicU64::new(0),
            hwlat_window: AtomicU64::new(hwlat_window),
            hwlat_width: AtomicU64::new(hwlat_width),
            kept_cycles: AtomicU64::new(0),
            nr_kept: AtomicU32::new(0),
            kept_started_at: AtomicU32::new(0),
            kept_ended_at: AtomicU32::new(0),
            kept_cpu: AtomicU32::new(0),
            kept_tid: AtomicU32::new(0),
        }
    }

    /// Waits until nobody else changes what is kept, and gives how often that was done; `waits` is asked while someone does, and says
    /// false if whoever it was will never end. [`LatencyBlock::end`] is to follow.
    #[inline(never)]
    pub fn begin<F: Fn() -> bool>(&self, waits: F) -> u32 {
        loop {
            let nr = self.nr_kept.load(Relaxed) & !1;
            let begun = self.nr_kept.compare_exchange(nr, nr | 1, Acquire, Relaxed);
            if begun.is_ok() {
                return nr;
            }
            if !waits() {
                return nr;
            }
            core::hint::spin_loop();
        }
    }

    /// Lets others change it again, who find that it was done so often.
    #[inline(always)]
    pub fn end(&self, nr: u32) {
        self.nr_kept.store(nr, Release);
    }

    /// Notes what is kept now, between [`LatencyBlock::begin`] and [`LatencyBlock::end`].
    #[inline(always)]
    pub fn set(&self, kept: Kept) {
        self.kept_cycles.store(kept.cycles, Relaxed);
        self.kept_started_at.store(kept.started_at, Relaxed);
        self.kept_ended_at.store(kept.ended_at, Relaxed);
        self.kept_cpu.store(kept.cpu, Relaxed);
        self.kept_tid.store(kept.tid.into(), Relaxed);
    }

    /// Notes that nothing is kept, as [`LatencyBlock::set`].
    #[inline(always)]
    pub fn forget(&self) {
        self.kept_started_at.store(0, Relaxed);
    }

    /// What is kept, as [`LatencyBlock::set`].
    pub fn kept(&self) -> Option<Kept> {
        let started_at = self.kept_started_at.load(Relaxed);
        (started_at != 0).then(|| Kept {
            cycles: self.kept_cycles.load(Relaxed),
            started_at,
            ended_at: self.kept_ended_at.load(Relaxed),
            cpu: self.kept_cpu.load(Relaxed),
            tid: self.kept_tid.load(Relaxed) as u8,
        })
    }
}

/// A block, read from the bytes of a RAM. Nothing in it is trusted to be possible.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LatencyView {
    /// `tracing_max_latency` in cycles.
    pub max: u64,
    /// `tracing_thresh` in cycles.
    pub thresh: u64,
    /// `hwlat_detector/window` in nanoseconds.
    pub hwlat_window: u64,
    /// `hwlat_detector/width` in nanoseconds.
    pub hwlat_width: u64,
    /// Counts what was kept; where two readings give the same even number, `kept` is what it was meanwhile.
    pub nr_kept: u32,
    /// The latency that was kept last.
    pub kept: Option<Kept>,
}

impl LatencyView {
    /// Bytes of a block.
    pub const SIZE: usize = size_of::<LatencyBlock>();

    /// Reads a block; `None` if that is none.
    pub fn decode(bytes: &[u8; Self::SIZE]) -> Option<Self> {
        let u32_at = |at| crate::wire::u32_at(bytes, at).unwrap_or(0);
        let u64_at = |at| crate::wire::u64_at(bytes, at).unwrap_or(0);
        if u64_at(offset_of!(LatencyBlock, magic)) != LatencyBlock::MAGIC {
            return None;
        }
        let kept = Kept {
            cycles: u64_at(offset_of!(LatencyBlock, kept_cycles)),
            started_at: u32_at(offset_of!(LatencyBlock, kept_started_at)),
            ended_at: u32_at(offset_of!(LatencyBlock, kept_ended_at)),
            cpu: u32_at(offset_of!(LatencyBlock, kept_cpu)),
            tid: u32_at(offset_of!(LatencyBlock, kept_tid)) as u8,
        };
        Some(Self {
            max: u64_at(offset_of!(LatencyBlock, max)),
            thresh: u64_at(offset_of!(LatencyBlock, thresh)),
            hwlat_window: u64_at(offset_of!(LatencyBlock, hwlat_window)),
            hwlat_width: u64_at(offset_of!(LatencyBlock, hwlat_width)),
            nr_kept: u32_at(offset_of!(LatencyBlock, nr_kept)),
            kept: (kept.started_at != 0).then_some(kept),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bytes of a block, as a host reads them.
    fn bytes(block: &LatencyBlock) -> [u8; LatencyView::SIZE] {
        let mut bytes = [0; LatencyView::SIZE];
        let long = [
            (offset_of!(LatencyBlock, magic), block.magic),
            (offset_of!(LatencyBlock, max), block.max.load(Relaxed)),
            (offset_of!(LatencyBlock, thresh), block.thresh.load(Relaxed)),
            (
                offset_of!(LatencyBlock, hwlat_window),
                block.hwlat_window.load(Relaxed),
            ),
            (
                offset_of!(LatencyBlock, hwlat_width),
                block.hwlat_width.load(Relaxed),
            ),
            (
                offset_of!(LatencyBlock, kept_cycles),
                block.kept_cycles.load(Relaxed),
            ),
        ];
        let short = [
            (offset_of!(LatencyBlock, nr_kept), &block.nr_kept),
            (
                offset_of!(LatencyBlock, kept_started_at),
                &block.kept_started_at,
            ),
            (
                offset_of!(LatencyBlock, kept_ended_at),
                &block.kept_ended_at,
            ),
            (offset_of!(LatencyBlock, kept_cpu), &block.kept_cpu),
            (offset_of!(LatencyBlock, kept_tid), &block.kept_tid),
        ];
        for (at, value) in long {
            bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
        }
        for (at, value) in short {
            bytes[at..at + 4].copy_from_slice(&value.load(Relaxed).to_le_bytes());
        }
        bytes
    }

    #[test]
    fn what_is_kept_is_read() {
        let block = LatencyBlock::new(7, 3);
        block.max.store(5, Relaxed);
        let view = LatencyView::decode(&bytes(&block)).unwrap();
        assert_eq!((view.max, view.thresh, view.kept), (5, 0, None));
        assert_eq!((view.hwlat_window, view.hwlat_width), (7, 3));
        let kept = Kept {
            cycles: 1 << 40,
            started_at: 2,
            ended_at: 3,
            cpu: 4,
            tid: 5,
        };
        let nr = block.begin(|| true);
        block.set(kept);
        block.end(nr + 2);
        let view = LatencyView::decode(&bytes(&block)).unwrap();
        assert_eq!((view.kept, view.nr_kept), (Some(kept), 2));
        let nr = block.begin(|| true);
        block.forget();
        block.end(nr + 2);
        let view = LatencyView::decode(&bytes(&block)).unwrap();
        assert_eq!((view.kept, view.nr_kept), (None, 4));
        assert_eq!(LatencyView::decode(&[0; LatencyView::SIZE]), None);
    }
}
