//! The reader of the guest's status block.
//!
//! Input: one byte that says where the memory ends, then patches to a block of zeros: a byte for the place, a byte for
//! the distance from it in words of 4 bytes, a byte for the length, and that many bytes.

use std::io;
use std::mem::{offset_of, size_of};

use takt_timerlat::stats::view::Memory;
use takt_timerlat::stats::{
    CpuStatus, Histogram, LatencyStats, MAX_CPUS, MAX_SLOTS, Measure, RunState, SlotStats, Status,
    StatusView, ThreadInfo,
};

/// A status block in foreign memory.
struct Block<'a> {
    end: u64,
    patches: Vec<(u64, &'a [u8])>,
}

impl Memory for Block<'_> {
    fn read_exact_at(&self, address: u64, buf: &mut [u8]) -> io::Result<()> {
        let end = address + buf.len() as u64;
        if end > self.end {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        buf.fill(0);
        for (at, bytes) in &self.patches {
            let from = (*at).max(address);
            let to = (at + bytes.len() as u64).min(end);
            if from < to {
                let bytes = &bytes[(from - at) as usize..(to - at) as usize];
                buf[(from - address) as usize..(to - address) as usize].copy_from_slice(bytes);
            }
        }
        Ok(())
    }
}

/// Where patches go: each part of the block, of the first, second and last of its kind.
fn places() -> Vec<usize> {
    let nth = |base, size, count: usize| [0, 1, count - 1].map(|index| base + index * size);
    let mut places = vec![0, offset_of!(Status, stop)];
    places.extend(nth(
        offset_of!(Status, cpus),
        size_of::<CpuStatus>(),
        MAX_CPUS,
    ));
    places.extend(nth(
        offset_of!(Status, threads),
        size_of::<ThreadInfo>(),
        256,
    ));
    for slot in nth(offset_of!(Status, slots), size_of::<SlotStats>(), MAX_SLOTS) {
        places.push(slot);
        for latency in [offset_of!(SlotStats, irq), offset_of!(SlotStats, thread)] {
            let hist = slot + latency + offset_of!(LatencyStats, hist);
            places.extend([
                slot + latency,
                hist + offset_of!(Histogram, linear),
                hist + offset_of!(Histogram, log),
                hist + offset_of!(Histogram, overflow),
            ]);
        }
    }
    places
}

/// Reads everything that can be read.
///
/// # Panics
///
/// If a property does not hold.
pub fn run(input: &[u8]) {
    let Some((end, mut rest)) = input.split_first() else {
        return;
    };
    let size = size_of::<Status>() as u64;
    let mut block = Block {
        end: size - size * u64::from(*end) / 255,
        patches: Vec::new(),
    };
    let places = places();
    while let [place, distance, len, behind @ ..] = rest {
        let (bytes, next) = behind.split_at(usize::from(*len).min(behind.len()));
        let at = places[usize::from(*place) % places.len()] + 4 * usize::from(*distance);
        block.patches.push((at as u64, bytes));
        rest = next;
    }
    let view = StatusView::new(block, 0);
    if let Ok(Some(head)) = view.head() {
        assert!(head.nr_cpus as usize <= MAX_CPUS && head.nr_slots as usize <= MAX_SLOTS);
    }
    let _ = view.stop();
    for cpu in [0, 1, MAX_CPUS - 1, MAX_CPUS, usize::MAX] {
        let _ = view.cpu(cpu);
    }
    for thread in view.threads().unwrap_or_default() {
        assert!(thread.name.chars().count() <= 16);
    }
    for slot in view.slots().unwrap_or_default() {
        for which in [Measure::Irq, Measure::Thread] {
            distribution(&view, slot.index, which);
        }
        let _ = (slot.irq.avg(), slot.thread.avg());
    }
}

fn distribution(view: &StatusView<Block<'_>>, slot: usize, which: Measure) {
    let Ok(all) = view.distribution(slot, which) else {
        return;
    };
    let counted: u64 = all.iter().map(|(_, count)| count).sum();
    assert_eq!(counted + all.overflow(), all.count());
    let (Some(min), Some(max)) = (all.min(), all.max()) else {
        assert_eq!(all.count(), 0);
        return;
    };
    let percentiles = [0, 500, 990, 999, 1000].map(|p| all.percentile(p).expect("not empty"));
    assert!(percentiles.is_sorted());
    assert!(min <= percentiles[0] && percentiles[4] <= max);
    let (buckets, over) = all.rebucket(1000, Some(256));
    assert_eq!(buckets.values().sum::<u64>() + over, all.count());
    let mut twice = all.clone();
    twice.merge(&all);
    assert_eq!((twice.count(), twice.max()), (2 * all.count(), Some(max)));
}

/// A block of a run that is over, with a thread and a slot.
#[must_use]
pub fn seeds() -> Vec<Vec<u8>> {
    let places = places();
    let patch = |offset: usize, bytes: &[u8]| {
        let (index, base) = (0..)
            .zip(&places)
            .filter(|(_, base)| **base <= offset && offset - **base < 1024)
            .max_by_key(|(_, base)| **base)
            .expect("there is a place for it");
        let head = [index, ((offset - base) / 4) as u8, bytes.len() as u8];
        [&head, bytes].concat()
    };
    let u32 = |offset, value: u32| patch(offset, &value.to_le_bytes());
    let u64 = |offset, value: u64| patch(offset, &value.to_le_bytes());
    let head = [
        u64(offset_of!(Status, magic), Status::MAGIC),
        u32(offset_of!(Status, version), Status::VERSION),
        u32(offset_of!(Status, state), RunState::Done as u32),
        u32(offset_of!(Status, nr_cpus), 1),
    ];
    let thread = offset_of!(Status, threads);
    let slot = offset_of!(Status, slots);
    let irq = slot + offset_of!(SlotStats, irq);
    let hist = irq + offset_of!(LatencyStats, hist);
    let body = [
        patch(thread + offset_of!(ThreadInfo, name), b"idle"),
        u32(thread + offset_of!(ThreadInfo, state), 1),
        u32(slot + offset_of!(SlotStats, active), 1),
        u64(irq + offset_of!(LatencyStats, count), 2),
        u64(irq + offset_of!(LatencyStats, min), 7),
        u64(irq + offset_of!(LatencyStats, max), 9),
        u64(irq + offset_of!(LatencyStats, sum), 16),
        u32(hist + offset_of!(Histogram, linear) + 7 * 4, 1),
        u32(hist + offset_of!(Histogram, linear) + 9 * 4, 1),
    ];
    vec![
        [vec![0], head.concat()].concat(),
        [vec![0], head.concat(), body.concat()].concat(),
    ]
}
