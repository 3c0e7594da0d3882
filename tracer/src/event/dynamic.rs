//! Dynamic fields: strings with a maximum, and arrays.

/// What can be an element of a dynamic array: unsigned integers.
pub trait Element: Sized {
    /// The elements as they stand in a record.
    fn bytes_of(elements: &[Self]) -> &[u8];
}

macro_rules! element {
    ($($ty:ty)*) => {$(
        impl Element for $ty {
            #[inline(always)]
            #[expect(unsafe_code, reason = "an array's bytes are to be had in no other way without a copy")]
            fn bytes_of(elements: &[Self]) -> &[u8] {
                const { assert!(cfg!(target_endian = "little"), "records are little-endian") };
                // SAFETY: an integer's bytes are all initialised, and a byte can stand at any address.
                unsafe {
                    core::slice::from_raw_parts(elements.as_ptr().cast(), size_of_val(elements))
                }
            }
        }
    )*};
}
element!(u8 u16 u32 u64);

/// The beginning of a string, `max` bytes at most. No character of UTF-8 is cut.
#[inline]
pub const fn bounded(bytes: &[u8], max: usize) -> &[u8] {
    if bytes.len() <= max {
        return bytes;
    }
    let mut end = max;
    // What follows the first byte of a character is 10xxxxxx, three times at most; anything else is no UTF-8.
    while end > 0 && max - end < 3 && bytes[end] & 0xc0 == 0x80 {
        end -= 1;
    }
    if bytes[end] & 0xc0 == 0x80 {
        end = max;
    }
    bytes.split_at(end).0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_character_is_cut() {
        let text = "aä€😀";
        let cut = |max| core::str::from_utf8(bounded(text.as_bytes(), max));
        let expected = [
            "", "a", "a", "aä", "aä", "aä", "aä€", "aä€", "aä€", "aä€", text, text,
        ];
        for (max, expected) in expected.into_iter().enumerate() {
            assert_eq!(cut(max), Ok(expected), "{max}");
        }
        assert_eq!(bounded(&[0x80; 9], 7), [0x80; 7]);
        assert_eq!(bounded(b"abc", 0), b"");
    }

    #[test]
    fn elements_are_little_endian() {
        assert_eq!(Element::bytes_of(&[0x0102_u16, 3]), [2, 1, 3, 0]);
        assert_eq!(
            Element::bytes_of(&[u64::MAX - 1]),
            [0xfe, 255, 255, 255, 255, 255, 255, 255]
        );
        assert!(u32::bytes_of(&[]).is_empty());
    }
}
