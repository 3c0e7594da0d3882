//! [`SweepBlock`]: what a sweep leaves in the guest's memory for the host.

use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// Arrivals that one boot can measure.
pub const ROOM: usize = 1 << 16;

/// How many cycles before the position that was asked for the first arrival is: a timer's hardware may say so late.
pub const EARLY: u32 = 8;

/// Version of the block's layout; the first word of the block once it is valid.
pub const VERSION: u32 = 0x5357_0001;

/// How far a sweep has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum SweepState {
    /// Nothing has begun.
    None = 0,
    /// Under way.
    Running = 1,
    /// All arrivals are measured.
    Done = 2,
    /// It could not go on; the log says why.
    Failed = 3,
}

impl SweepState {
    /// The state with this number.
    #[must_use]
    pub const fn from_u32(number: u32) -> Option<Self> {
        Some(match number {
            0 => Self::None,
            1 => Self::Running,
            2 => Self::Done,
            3 => Self::Failed,
            _ => return None,
        })
    }
}

/// Where a number of an entry stands, in words of 32 bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Column {
    /// Where in the stretch the interrupt arrived: cycles from its first instruction, signed.
    Position = 0,
    /// The interrupt's latency in cycles.
    Irq = 1,
    /// The thread's latency in cycles.
    Thread = 2,
    /// The instruction before which the interrupt was taken: the lower half of its address.
    Ip = 3,
    /// How often preemption was disabled there.
    PreemptDepth = 4,
    /// Cycles that the stretch took, with the interruption in it.
    Took = 5,
}

/// Words of an entry.
const WORDS: usize = 6;

/// One arrival.
#[repr(C)]
pub struct Entry {
    words: [AtomicU32; WORDS],
}

impl Entry {
    const fn new() -> Self {
        Self {
            words: [const { AtomicU32::new(0) }; WORDS],
        }
    }

    /// Stores one number.
    pub fn set(&self, place: Column, value: u32) {
        self.words[place as usize].store(value, Relaxed);
    }
}

/// An entry, read.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Arrival {
    /// Where in the stretch the interrupt arrived: instructions from its first one.
    pub position: i32,
    /// The interrupt's latency in cycles.
    pub irq: u32,
    /// The thread's latency in cycles.
    pub thread: u32,
    /// The instruction before which the interrupt was taken: the lower half of its address.
    pub ip: u32,
    /// How often preemption was disabled there.
    pub preempt_depth: u32,
    /// Cycles that the stretch took, with the interruption in it.
    pub took: u32,
}

impl Arrival {
    /// Bytes of an entry.
    pub const SIZE: usize = size_of::<Entry>();

    /// Reads an entry's bytes.
    #[must_use]
    pub fn from_bytes(bytes: &[u8; Self::SIZE]) -> Self {
        let word = |place: Column| {
            let at = place as usize * 4;
            let mut word = [0; 4];
            word.copy_from_slice(&bytes[at..at + 4]);
            u32::from_le_bytes(word)
        };
        Self {
            position: word(Column::Position).cast_signed(),
            irq: word(Column::Irq),
            thread: word(Column::Thread),
            ip: word(Column::Ip),
            preempt_depth: word(Column::PreemptDepth),
            took: word(Column::Took),
        }
    }
}

/// The block.
#[repr(C)]
pub struct SweepBlock {
    /// [`VERSION`] once the rest is valid.
    pub version: AtomicU32,
    /// A [`SweepState`].
    pub state: AtomicU32,
    /// Entries that are written: a sign of life too.
    pub nr: AtomicU32,
    /// Cycles that the stretch takes when nothing interrupts it.
    pub length: AtomicU32,
    /// Cycles that it took the time before: other than `length` if it is not the same each time.
    pub length_before: AtomicU32,
    /// One for each arrival, in their order.
    pub entries: [Entry; ROOM],
}

impl SweepBlock {
    /// Name of the symbol by which the host finds the block.
    pub const SYMBOL: &str = "TAKT_SWEEP";

    /// All zeros.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            version: AtomicU32::new(0),
            state: AtomicU32::new(SweepState::None as u32),
            nr: AtomicU32::new(0),
            length: AtomicU32::new(0),
            length_before: AtomicU32::new(0),
            entries: [const { Entry::new() }; ROOM],
        }
    }
}

impl Default for SweepBlock {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_read_as_it_was_written() {
        let entry = Entry::new();
        entry.set(Column::Position, (-3i32).cast_unsigned());
        entry.set(Column::Irq, 4);
        entry.set(Column::Thread, 180);
        entry.set(Column::Ip, 0x10_0000);
        entry.set(Column::PreemptDepth, 1);
        entry.set(Column::Took, 99);
        let mut bytes = [0; Arrival::SIZE];
        for (word, bytes) in entry.words.iter().zip(bytes.chunks_exact_mut(4)) {
            bytes.copy_from_slice(&word.load(Relaxed).to_le_bytes());
        }
        let arrival = Arrival::from_bytes(&bytes);
        let expected = Arrival {
            position: -3,
            irq: 4,
            thread: 180,
            ip: 0x10_0000,
            preempt_depth: 1,
            took: 99,
        };
        assert_eq!(arrival, expected);
    }

    #[test]
    fn states_have_numbers() {
        for state in [
            SweepState::None,
            SweepState::Running,
            SweepState::Done,
            SweepState::Failed,
        ] {
            assert_eq!(SweepState::from_u32(state as u32), Some(state));
        }
        assert_eq!(SweepState::from_u32(4), None);
    }
}
