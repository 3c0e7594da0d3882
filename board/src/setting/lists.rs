//! Lists of numbers.

use core::ops::RangeInclusive;

use super::Errno;
use super::values::{decimal, hexadecimal};

/// Hexadecimal numbers separated by commas.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Words<'a>(&'a str);

impl<'a> Words<'a> {
    /// Reads them.
    ///
    /// # Errors
    /// If one is no number.
    pub(super) fn parse(text: &'a str) -> Result<Self, Errno> {
        text.split(',')
            .try_for_each(|word| hexadecimal(word).map(|_| ()))?;
        Ok(Self(text))
    }

    /// The numbers.
    pub fn iter(self) -> impl Iterator<Item = u32> + use<'a> {
        self.0.split(',').filter_map(|word| hexadecimal(word).ok())
    }
}

/// Numbers separated by commas, and ranges of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ids<'a>(&'a str);

impl<'a> Ids<'a> {
    /// Reads them.
    ///
    /// # Errors
    /// If one is no number.
    pub(super) fn parse(text: &'a str) -> Result<Self, Errno> {
        let parts = text.split(',').filter(|part| !part.is_empty());
        if parts.clone().all(|part| range(part).is_some()) {
            Ok(Self(text))
        } else {
            Err(Errno::Invalid)
        }
    }

    /// The numbers.
    pub fn iter(self) -> impl Iterator<Item = u32> + use<'a> {
        self.0.split(',').filter_map(range).flatten()
    }
}

/// The greatest id of anything: a longer range would be gone through number by number all the same.
const MAX_ID: u32 = 0xffff;

/// `7` or `7-12`, both ends included.
fn range(text: &str) -> Option<RangeInclusive<u32>> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last) = (decimal(first)?, decimal(last)?);
    (first <= last && last <= MAX_ID).then_some(first..=last)
}
