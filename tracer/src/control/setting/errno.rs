//! [`Errno`]: why something could not be set.

/// Why a setting was not carried out: the number that Linux gives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[repr(i32)]
pub enum Errno {
    /// There is no such setting.
    NoEntry = 2,
    /// Not for lack of trying: not enough memory.
    NoMemory = 12,
    /// Not possible now.
    Busy = 16,
    /// The value is not one.
    Invalid = 22,
    /// The value is out of range.
    Overflow = 75,
}
