//! Single values.

use super::Errno;

/// One of two words: whether it is the second.
///
/// # Errors
/// If it is neither.
pub(super) fn choice(value: &str, [off, on]: [&str; 2]) -> Result<bool, Errno> {
    if value == on {
        Ok(true)
    } else if value == off {
        Ok(false)
    } else {
        Err(Errno::Invalid)
    }
}

/// A number of 32 bits, digits only.
pub(super) fn decimal(text: &str) -> Option<u32> {
    let is_plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_plain)
}

/// A number of 64 bits, digits only.
///
/// # Errors
/// If it is none, or too large.
pub(super) fn nanoseconds(text: &str) -> Result<u64, Errno> {
    let is_plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !is_plain {
        return Err(Errno::Invalid);
    }
    text.parse().map_err(|_| Errno::Overflow)
}

/// A number of 32 bits, perhaps with `0x` before it.
///
/// # Errors
/// If it is none, or too large.
pub(super) fn hexadecimal(text: &str) -> Result<u32, Errno> {
    let digits = text.strip_prefix("0x").unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Err(Errno::Invalid);
    }
    u32::from_str_radix(digits, 16).map_err(|_| Errno::Overflow)
}
