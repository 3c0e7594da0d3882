//! [`MemoryMap`]: what is RAM.

use core::fmt;
use core::ops::Range;

use super::{u32_at, u64_at};

/// The type of RAM that anybody may use, in both protocols.
const RAM: u32 = 1;
/// Address, size, type: what both protocols have at the beginning of an entry.
const ENTRY: usize = 20;

/// The loader's list of ranges of memory. Empty if it told none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct MemoryMap<'a> {
    entries: &'a [u8],
    entry_size: usize,
}

/// Memory that is needed and is no RAM.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct NotRam {
    /// Where it begins.
    address: u64,
    /// Its type, if the map names it.
    kind: Option<u32>,
}

impl fmt::Display for NotRam {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.kind {
            None => "not there",
            Some(3) => "ACPI's (reclaimable)",
            Some(4) => "ACPI's (NVS)",
            Some(5) => "defective",
            Some(_) => "reserved",
        };
        write!(f, "the memory at {:#x} is {what}", self.address)
    }
}

impl<'a> MemoryMap<'a> {
    /// Nothing is told.
    pub(crate) const UNKNOWN: MemoryMap<'static> = MemoryMap {
        entries: &[],
        entry_size: ENTRY,
    };

    /// Entries of that many bytes each. None if that is too few.
    pub(super) fn new(entries: &'a [u8], entry_size: usize) -> Option<Self> {
        (entry_size >= ENTRY).then_some(Self {
            entries,
            entry_size,
        })
    }

    /// Each range and its type.
    fn ranges(&self) -> impl Iterator<Item = (Range<u64>, u32)> + use<'a> {
        let entries = self.entries.chunks_exact(self.entry_size);
        entries.filter_map(|entry| {
            let start = u64_at(entry, 0)?;
            let end = start.saturating_add(u64_at(entry, 8)?);
            Some((start..end, u32_at(entry, 16)?))
        })
    }

    /// Whether some of these addresses are RAM, the firmware's or broken memory among it.
    #[cfg(any(feature = "tasks", test))]
    pub(crate) fn has_ram(&self, addresses: &Range<u64>) -> bool {
        let mut ranges = self.ranges().filter(|(_, kind)| matches!(kind, 1 | 3..=5));
        ranges.any(|(range, _)| range.start < addresses.end && addresses.start < range.end)
    }

    /// Where RAM ends that begins below 4 GiB, the firmware's or broken memory among it.
    pub(crate) fn end_of_ram(&self) -> u64 {
        let ram = self.ranges().filter(|(_, kind)| matches!(kind, 1 | 3..=5));
        let low = ram.filter(|(range, _)| range.start < 4 << 30);
        low.map(|(range, _)| range.end).max().unwrap_or(0)
    }

    /// What it names, whatever that is; all addresses if nothing is told.
    pub(crate) fn named(&self) -> impl Iterator<Item = Range<u64>> + use<'a> {
        let all = self.entries.is_empty().then_some(0..u64::MAX);
        all.into_iter().chain(self.ranges().map(|(range, _)| range))
    }

    /// Bytes of RAM.
    pub(crate) fn ram(&self) -> u64 {
        self.ranges()
            .filter(|(_, kind)| *kind == RAM)
            .fold(0, |sum: u64, (range, _)| {
                sum.saturating_add(range.end - range.start)
            })
    }

    /// Looks whether all of `wanted` is RAM. So it is where nothing is told.
    ///
    /// # Errors
    /// What is not.
    pub(crate) fn check(&self, wanted: Range<u64>) -> Result<(), NotRam> {
        if self.entries.is_empty() {
            return Ok(());
        }
        // Where ranges overlap, what is not RAM counts.
        for (range, kind) in self.ranges().filter(|(_, kind)| *kind != RAM) {
            let address = range.start.max(wanted.start);
            if address < range.end.min(wanted.end) {
                return Err(NotRam {
                    address,
                    kind: Some(kind),
                });
            }
        }
        let mut address = wanted.start;
        while address < wanted.end {
            let here = |(range, kind): &(Range<u64>, u32)| *kind == RAM && range.contains(&address);
            match self.ranges().find(here) {
                Some((range, _)) => address = range.end,
                None => {
                    return Err(NotRam {
                        address,
                        kind: None,
                    });
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
pub(super) mod tests {
    extern crate std;

    use std::string::ToString;
    use std::vec::Vec;

    use super::*;

    /// Entries of 24 bytes.
    pub(in super::super) fn entries(ranges: &[(u64, u64, u32)]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (address, size, kind) in ranges {
            bytes.extend(address.to_le_bytes());
            bytes.extend(size.to_le_bytes());
            bytes.extend(kind.to_le_bytes());
            bytes.extend([0; 4]);
        }
        bytes
    }

    #[test]
    fn an_image_fits_ram_only() {
        let bytes = entries(&[
            (0, 0x9f000, 1),
            (0x10_0000, 0x70_0000, 1),
            (0x80_0000, 0x10_0000, 4),
            (0x90_0000, 0x100_0000, 1),
            (0x190_0000, 0x10_0000, 1),
            (0x180_0000, 0x1000, 2),
        ]);
        let map = MemoryMap::new(&bytes, 24).unwrap();
        let not_ram = |range| map.check(range).err().map(|it| it.to_string());
        assert_eq!(not_ram(0x10_0000..0x80_0000), None);
        assert_eq!(
            not_ram(0x10_0000..0x80_0001).as_deref(),
            Some("the memory at 0x800000 is ACPI's (NVS)")
        );
        assert_eq!(
            not_ram(0x9e000..0xa0000).as_deref(),
            Some("the memory at 0x9f000 is not there")
        );
        // Two ranges side by side, and a part of one that somebody else keeps.
        assert_eq!(not_ram(0x188_0000..0x1a0_0000), None);
        assert_eq!(
            not_ram(0x100_0000..0x1a0_0000).as_deref(),
            Some("the memory at 0x1800000 is reserved")
        );
        assert_eq!(map.ram(), 0x9f000 + 0x70_0000 + 0x100_0000 + 0x10_0000);
        assert_eq!(MemoryMap::UNKNOWN.check(0..1 << 40), Ok(()));
        assert_eq!(
            (map.end_of_ram(), MemoryMap::UNKNOWN.end_of_ram()),
            (0x1a0_0000, 0)
        );
        let has_ram = |range: Range<u64>| map.has_ram(&range);
        assert!(has_ram(0x9efff..0x9f000) && has_ram(0x8f_ffff..0x90_0000));
        assert!(!has_ram(0x9f000..0x10_0000) && !has_ram(0x1a0_0000..1 << 32));
    }

    #[test]
    fn what_is_named_is_so_whatever_it_is() {
        let bytes = entries(&[
            (0, 0x9f000, 1),
            (0xf0000, 0x10000, 2),
            (0x1000, u64::MAX, 7),
        ]);
        let named = |map: MemoryMap<'_>| map.named().collect::<Vec<_>>();
        assert_eq!(
            named(MemoryMap::new(&bytes, 24).unwrap()),
            [0..0x9f000, 0xf0000..0x10_0000, 0x1000..u64::MAX]
        );
        // An entry that is cut names nothing.
        assert_eq!(named(MemoryMap::new(&bytes[..71], 24).unwrap()).len(), 2);
        assert_eq!(named(MemoryMap::UNKNOWN), std::vec![0..u64::MAX]);
    }

    #[test]
    fn ranges_without_an_end_do_not_wrap() {
        let bytes = entries(&[(0x1000, u64::MAX, 1), (0, u64::MAX, 1)]);
        let map = MemoryMap::new(&bytes, 24).unwrap();
        assert_eq!(map.ram(), u64::MAX);
        assert_eq!(map.check(0x1000..u64::MAX), Ok(()));
        assert!(MemoryMap::new(&bytes, 19).is_none());
        assert!(MemoryMap::new(&bytes, 0).is_none());
    }
}
