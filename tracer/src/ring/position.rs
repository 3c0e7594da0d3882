//! Positions in a ring, as [`Word::Pos`](super::Word::Pos) and [`Word::Limit`](super::Word::Limit) have them.
//!
//! The low half is the offset in the ring, the upper half how often the ring was gone through. They ascend like the bytes
//! that were ever reserved, whose number follows from them. What ends with the ring has the ring's size as its offset; the
//! next sub-buffer then begins at offset 0 of the next round. Nothing but opening a sub-buffer goes from one to the other.

/// How many bytes were reserved before this position of a ring of `size` bytes.
#[must_use]
pub const fn bytes(position: u64, size: u64) -> u64 {
    // A word from a damaged memory may be anything.
    (position >> 32)
        .wrapping_mul(size)
        .wrapping_add(position & u32::MAX as u64)
}

/// The position behind so many bytes, in a ring of `size` bytes; at the ring's end it is the beginning of the next round.
#[must_use]
pub const fn after(bytes: u64, size: u64) -> u64 {
    let (rounds, offset) = (bytes / size, bytes % size);
    rounds << 32 | offset
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_ascend_like_bytes() {
        let size = 256;
        for nr in 0..2_000 {
            let position = after(nr, size);
            assert_eq!(bytes(position, size), nr);
            assert_eq!(position as u32, (nr % size) as u32);
            assert!(position < after(nr + 1, size));
            // The end of a round is as far as the beginning of the next, and before it.
            if nr % size == size - 1 {
                assert_eq!(bytes(position + 1, size), nr + 1);
                assert!(position + 1 < after(nr + 1, size));
            }
        }
        // No word from a damaged memory makes it panic.
        let _ = bytes(u64::MAX, u64::MAX);
    }
}
