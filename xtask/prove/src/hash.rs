//! A quick hash of states, of which there are many: whoever chose them to collide would harm nobody but himself.

use std::hash::{BuildHasherDefault, Hasher};

/// Multiplies and rotates, a word at a time.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Quick(u64);

/// For maps.
pub(crate) type BuildQuick = BuildHasherDefault<Quick>;

impl Hasher for Quick {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64((*byte).into());
        }
    }

    fn write_u8(&mut self, it: u8) {
        self.write_u64(it.into());
    }

    fn write_u32(&mut self, it: u32) {
        self.write_u64(it.into());
    }

    fn write_u64(&mut self, it: u64) {
        self.0 = (self.0.rotate_left(5) ^ it).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    fn write_i64(&mut self, it: i64) {
        self.write_u64(it.cast_unsigned());
    }

    fn write_usize(&mut self, it: usize) {
        self.write_u64(it as u64);
    }

    fn write_isize(&mut self, it: isize) {
        self.write_u64(it.cast_unsigned() as u64);
    }
}
