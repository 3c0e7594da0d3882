//! [`Deepest`]: what the stack tracer keeps of a stack, for a host that reads the RAM.
//!
//! An image with the stack tracer has a table of these under the name [`SYMBOL`]: first one for each thread id, as many as
//! the value of the symbol `takt_max_threads` says, then one for each CPU's interrupt stack (`takt_max_cpus`). The word
//! under [`ENABLED`] is 1 while it is on.

use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// Name of the table.
pub const SYMBOL: &str = "TAKT_STACK_MAX";
/// Name of a word of 32 bits.
pub const ENABLED: &str = "TAKT_STACK_TRACER_ENABLED";
/// Name of a word of 32 bits: only what is deeper than so many bytes is kept.
pub const FLOOR: &str = "TAKT_STACK_MAX_FLOOR";
/// The most functions that are kept.
pub const MAX_FRAMES: usize = 32;

/// The deepest use of a stack. Zeros at the beginning.
#[repr(C)]
#[derive(Debug)]
pub struct Deepest {
    /// Odd while it is being changed; what was read then means nothing.
    pub seq: AtomicU32,
    /// One past the stack's highest address: another stack if it differs.
    pub top: AtomicU32,
    /// Bytes of the stack.
    pub size: AtomicU32,
    /// How many functions are kept.
    pub nr: AtomicU32,
    /// The functions, the innermost first.
    pub frames: [Frame; MAX_FRAMES],
}

/// A function that is under way.
#[repr(C)]
#[derive(Debug)]
pub struct Frame {
    /// A place in it: where it begins, or where it calls the one before.
    pub address: AtomicU32,
    /// Bytes of the stack from its top to the address that the function returns to, that included.
    pub depth: AtomicU32,
}

impl Deepest {
    /// Nothing yet.
    pub const fn new() -> Self {
        Self {
            seq: AtomicU32::new(0),
            top: AtomicU32::new(0),
            size: AtomicU32::new(0),
            nr: AtomicU32::new(0),
            frames: [const {
                Frame {
                    address: AtomicU32::new(0),
                    depth: AtomicU32::new(0),
                }
            }; MAX_FRAMES],
        }
    }

    /// Bytes in use when it was deepest.
    #[inline]
    pub fn depth(&self) -> u32 {
        match self.nr.load(Relaxed) {
            0 => 0,
            _ => self.frames[0].depth.load(Relaxed),
        }
    }

    /// Sets it to these functions and their depths, of the stack of `size` bytes that ends at `top`.
    pub fn set(&self, top: u32, size: u32, frames: &[(u32, u32)]) {
        let seq = self.seq.load(Relaxed);
        self.seq.store(seq | 1, Relaxed);
        core::sync::atomic::fence(core::sync::atomic::Ordering::Release);
        self.top.store(top, Relaxed);
        self.size.store(size, Relaxed);
        let frames = frames.get(..MAX_FRAMES).unwrap_or(frames);
        self.nr.store(frames.len() as u32, Relaxed);
        for (frame, (address, depth)) in self.frames.iter().zip(frames) {
            frame.address.store(*address, Relaxed);
            frame.depth.store(*depth, Relaxed);
        }
        core::sync::atomic::fence(core::sync::atomic::Ordering::Release);
        self.seq.store((seq | 1).wrapping_add(1), Relaxed);
    }
}

impl Default for Deepest {
    fn default() -> Self {
        Self::new()
    }
}

/// What was kept of a stack, read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct View {
    /// [`Deepest::size`]
    pub size: u32,
    /// How many of `frames` there are.
    nr: usize,
    frames: [(u32, u32); MAX_FRAMES],
}

impl View {
    /// Bytes in the table.
    pub const SIZE: usize = size_of::<Deepest>();

    /// Reads it out of a RAM; `None` if there is nothing, if it is being changed, or if it is impossible.
    pub fn decode(bytes: &[u8; Self::SIZE]) -> Option<Self> {
        let word = |at: usize| crate::wire::u32_at(bytes, at).unwrap_or(0);
        let nr = word(12) as usize;
        if !word(0).is_multiple_of(2) || nr == 0 || nr > MAX_FRAMES {
            return None;
        }
        let frames = core::array::from_fn(|number| {
            let at = 16 + 8 * number;
            (word(at), word(at + 4))
        });
        let view = Self {
            size: word(8),
            nr,
            frames,
        };
        let is_possible = view.frames().is_sorted_by(|one, next| one.1 > next.1);
        is_possible.then_some(view)
    }

    /// The functions, the innermost first: a place in each, and the depth of its return address.
    pub fn frames(&self) -> &[(u32, u32)] {
        &self.frames[..self.nr]
    }

    /// Bytes in use.
    pub fn depth(&self) -> u32 {
        self.frames[0].1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes_of(deepest: &Deepest) -> [u8; View::SIZE] {
        let words = [&deepest.seq, &deepest.top, &deepest.size, &deepest.nr];
        let frames = deepest.frames.iter();
        let words = words
            .into_iter()
            .chain(frames.flat_map(|frame| [&frame.address, &frame.depth]));
        let mut bytes = [0; View::SIZE];
        for (at, word) in words.enumerate() {
            bytes[4 * at..][..4].copy_from_slice(&word.load(Relaxed).to_le_bytes());
        }
        bytes
    }

    #[test]
    fn what_is_set_is_read() {
        let deepest = Deepest::new();
        assert_eq!(View::decode(&bytes_of(&deepest)), None);
        let frames = [(0x20_1000, 300), (0x20_2000, 200), (0x20_3000, 8)];
        deepest.set(0x40_0000, 4096, &frames);
        let view = View::decode(&bytes_of(&deepest)).unwrap();
        assert_eq!(
            (view.frames(), view.depth(), view.size),
            (&frames[..], 300, 4096)
        );
        assert_eq!(deepest.depth(), 300);
        deepest.set(0x40_0000, 4096, &[(1, 2); 40]);
        assert_eq!(deepest.nr.load(Relaxed), MAX_FRAMES as u32);
    }

    #[test]
    fn nonsense_is_nothing() {
        let deepest = Deepest::new();
        deepest.set(0x40_0000, 4096, &[(1, 300), (2, 300)]);
        assert_eq!(View::decode(&bytes_of(&deepest)), None);
        deepest.set(0x40_0000, 4096, &[(1, 300)]);
        assert!(View::decode(&bytes_of(&deepest)).is_some());
        deepest.seq.store(7, Relaxed);
        assert_eq!(View::decode(&bytes_of(&deepest)), None);
        deepest.seq.store(8, Relaxed);
        deepest.nr.store(33, Relaxed);
        assert_eq!(View::decode(&bytes_of(&deepest)), None);
    }
}
