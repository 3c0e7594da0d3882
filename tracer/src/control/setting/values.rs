//! How values are read and written: a module with `parse` and `print` for each kind.

use core::fmt::{self, Formatter};

use super::fields::Composite;
use super::{Errno, Ids, Snapshot};

/// One of two words: whether it is the second.
fn choice(value: &str, [off, on]: [&str; 2]) -> Result<bool, Errno> {
    if value == on {
        Ok(true)
    } else if value == off {
        Ok(false)
    } else {
        Err(Errno::Invalid)
    }
}

fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Any text.
pub(super) mod text {
    use super::*;

    pub(crate) fn parse(value: &str) -> Result<&str, Errno> {
        Ok(value)
    }

    pub(crate) fn print(value: &str, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(value)
    }
}

/// `0` or `1`.
pub(super) mod bit {
    use super::*;

    pub(crate) fn parse(value: &str) -> Result<bool, Errno> {
        choice(value, ["0", "1"])
    }

    pub(crate) fn print(value: &bool, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(if *value { "1" } else { "0" })
    }
}

/// Whether the oldest is overwritten.
pub(super) mod mode {
    use super::*;

    const WORDS: [&str; 2] = ["capture", "flight"];

    pub(crate) fn parse(value: &str) -> Result<bool, Errno> {
        choice(value, WORDS)
    }

    pub(crate) fn print(value: &bool, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(WORDS[usize::from(*value)])
    }
}

/// Nothing.
pub(super) mod nothing {
    use super::*;

    pub(crate) fn parse(value: &str) -> Result<(), Errno> {
        match value {
            "" => Ok(()),
            _ => Err(Errno::Invalid),
        }
    }

    pub(crate) fn print((): &(), _: &mut Formatter<'_>) -> fmt::Result {
        Ok(())
    }
}

/// A number of 32 bits, digits only.
pub(super) mod decimal {
    use super::*;

    pub(crate) fn parse(value: &str) -> Result<u32, Errno> {
        let number = value.parse().ok().filter(|_| is_digits(value));
        number.ok_or(Errno::Invalid)
    }

    pub(crate) fn print(value: &u32, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{value}")
    }
}

/// A number of 64 bits, digits only.
pub(super) mod nanoseconds {
    use super::*;

    pub(crate) fn parse(value: &str) -> Result<u64, Errno> {
        if !is_digits(value) {
            return Err(Errno::Invalid);
        }
        value.parse().map_err(|_| Errno::Overflow)
    }

    pub(crate) fn print(value: &u64, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{value}")
    }
}

/// A number of 32 bits, perhaps with `0x` before it.
pub(super) mod hexadecimal {
    use super::*;

    pub(crate) fn parse(value: &str) -> Result<u32, Errno> {
        let digits = value.strip_prefix("0x").unwrap_or(value);
        if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(Errno::Invalid);
        }
        u32::from_str_radix(digits, 16).map_err(|_| Errno::Overflow)
    }

    pub(crate) fn print(value: &u32, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{value:x}")
    }
}

/// A list of ids.
pub(super) mod ids {
    use super::*;

    pub(crate) fn parse(value: &str) -> Result<Ids<'_>, Errno> {
        Ids::parse(value)
    }

    pub(crate) fn print(value: &Ids<'_>, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{value}")
    }
}

/// The numbers of Linux's file `snapshot`.
pub(super) mod snapshot {
    use super::*;

    pub(crate) fn parse(value: &str) -> Result<Snapshot, Errno> {
        match value {
            "0" => Ok(Snapshot::Free),
            "1" => Ok(Snapshot::Take),
            "2" => Ok(Snapshot::Clear),
            _ => Err(Errno::Invalid),
        }
    }

    pub(crate) fn print(value: &Snapshot, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match value {
            Snapshot::Free => "0",
            Snapshot::Take => "1",
            Snapshot::Clear => "2",
        })
    }
}

/// Several, separated by commas.
pub(super) mod several {
    use super::*;

    pub(crate) fn parse<'a, T: Composite<'a>>(value: &'a str) -> Result<T, Errno> {
        T::parse(value)
    }

    pub(crate) fn print<'a, T: Composite<'a>>(value: &T, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{value}")
    }
}
