//! What text consists of, put behind a text that is there: no piece of a line has memory of its own.

use super::template::Fill;

const SPACES: &str = "                                                                ";
const ZEROS: &str = "0000000000000000000000000000000000000000000000000000000000000000";

/// The numbers below 100, two digits each.
const PAIRS: &[u8; 200] = b"\
    0001020304050607080910111213141516171819202122232425262728293031323334353637383940414243444546474849\
    5051525354555657585960616263646566676869707172737475767778798081828384858687888990919293949596979899";

/// Room for the digits of the longest number.
pub(super) type Room = [u8; 20];

/// The digits of a number, at least so many, at the end of `room`.
pub(super) fn digits(room: &mut Room, mut number: u64, at_least: usize) -> &str {
    let mut begin = room.len();
    while number >= 10 {
        let pair = (number % 100) as usize;
        number /= 100;
        begin -= 2;
        room[begin..begin + 2].copy_from_slice(&PAIRS[2 * pair..2 * pair + 2]);
    }
    if number > 0 || begin == room.len() {
        begin -= 1;
        room[begin] = b'0' + number as u8;
    }
    let filled = begin.min(room.len() - at_least);
    room[filled..begin].fill(b'0');
    core::str::from_utf8(&room[filled..]).unwrap_or_default()
}

/// Puts a number behind `out` in decimal.
pub fn decimal(out: &mut String, number: impl Into<u64>) {
    out.push_str(digits(&mut Room::default(), number.into(), 1));
}

/// A number with its sign in decimal.
pub(super) fn signed(out: &mut String, number: i64) {
    if number < 0 {
        out.push('-');
    }
    decimal(out, number.unsigned_abs());
}

/// A number as `{:#x}` shows it.
pub(super) fn hex(out: &mut String, number: u64) {
    out.push_str("0x");
    let nr_digits = (64 - number.leading_zeros()).div_ceil(4).max(1);
    let digit = |at| char::from_digit((number >> (4 * at)) as u32 & 0xf, 16);
    out.extend((0..nr_digits).rev().filter_map(digit));
}

/// Nanoseconds as seconds with nine decimals.
pub(super) fn seconds(out: &mut String, ns: u64) {
    decimal(out, ns / 1_000_000_000);
    out.push('.');
    out.push_str(digits(&mut Room::default(), ns % 1_000_000_000, 9));
}

/// A text, filled up to so many characters.
pub(super) fn filled(out: &mut String, text: &str, width: usize, fill: Fill) {
    if fill == Fill::Behind {
        out.push_str(text);
    }
    let len = if text.is_ascii() {
        text.len()
    } else {
        text.chars().count()
    };
    let mut missing = width.saturating_sub(len);
    let some = if fill == Fill::Zeros { ZEROS } else { SPACES };
    while missing > 0 {
        let len = missing.min(some.len());
        out.push_str(&some[..len]);
        missing -= len;
    }
    if fill != Fill::Behind {
        out.push_str(text);
    }
}

/// What `put` puts, filled up to so many characters.
pub(super) fn filled_with(
    out: &mut String,
    width: usize,
    fill: Fill,
    put: impl FnOnce(&mut String),
) {
    if width == 0 {
        return put(out);
    }
    filled(out, &alone(put), width, fill);
}

/// What `put` puts, alone.
pub(super) fn alone(put: impl FnOnce(&mut String)) -> String {
    let mut out = String::new();
    put(&mut out);
    out
}

#[cfg(test)]
mod tests {

    use super::*;

    #[test]
    fn numbers_are_as_the_standard_library_writes_them() {
        let few = [0, 1, 9, 10, 15, 16, 99, 100, 101, 0xfff, 0x1000];
        for number in few.into_iter().chain([1_000_000_007, 1 << 63, u64::MAX]) {
            assert_eq!(alone(|out| hex(out, number)), format!("{number:#x}"));
            assert_eq!(alone(|out| decimal(out, number)), format!("{number}"));
            for number in [number.cast_signed(), number.cast_signed().wrapping_neg()] {
                assert_eq!(alone(|out| signed(out, number)), format!("{number}"));
            }
            let (whole, rest) = (number / 1_000_000_000, number % 1_000_000_000);
            assert_eq!(
                alone(|out| seconds(out, number)),
                format!("{whole}.{rest:09}")
            );
        }
    }

    #[test]
    fn texts_are_filled_up_by_characters() {
        for width in [0, 3, 4, 5, 16, 70] {
            let fill = |fill| alone(|out| filled(out, "äöü€", width, fill));
            assert_eq!(fill(Fill::Spaces), format!("{:>width$}", "äöü€"));
            assert_eq!(fill(Fill::Zeros), format!("{:0>width$}", "äöü€"));
            assert_eq!(fill(Fill::Behind), format!("{:<width$}", "äöü€"));
        }
    }
}
