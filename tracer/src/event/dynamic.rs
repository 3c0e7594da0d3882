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

/// The beginning of a string of `max` bytes. Of a longer one it is a byte more, by which a reader knows that it was cut.
#[inline]
pub const fn bounded(bytes: &[u8], max: usize) -> &[u8] {
    if bytes.len() <= max {
        bytes
    } else {
        bytes.split_at(max + 1).0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_byte_too_many_tells_that_there_were_more() {
        let lengths = [0, 1, 2, 3, 4].map(|max| bounded(b"abc", max).len());
        assert_eq!(lengths, [1, 2, 3, 3, 3]);
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
