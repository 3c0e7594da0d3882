//! Sets of CPUs and spans of time, as users write and read them.

use std::fmt;
use std::str::FromStr;

/// A set of CPUs: `0`, `0-1,3`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuSet(u8);

impl CpuSet {
    /// CPUs 0 to `nr` - 1.
    #[must_use]
    pub fn first(nr: u8) -> Self {
        Self((1u16 << nr.min(8)).wrapping_sub(1) as u8)
    }

    /// One bit per CPU.
    #[must_use]
    pub fn mask(self) -> u8 {
        self.0
    }

    /// The CPUs, ascending.
    pub fn iter(self) -> impl Iterator<Item = u8> {
        (0..8).filter(move |cpu| self.0 & (1 << cpu) != 0)
    }

    /// How many CPUs a machine must have to have all of these.
    #[must_use]
    pub fn needed_smp(self) -> u8 {
        (8 - self.0.leading_zeros()) as u8
    }
}

impl FromStr for CpuSet {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let cpu = |text: &str| match text.parse::<u8>() {
            Ok(cpu @ 0..8) => Ok(cpu),
            _ => Err(format!("`{text}` is not a CPU (0 to 7)")),
        };
        let mut mask = 0;
        for part in text.split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last) = (cpu(first)?, cpu(last)?);
            if first > last {
                return Err(format!("`{part}` runs backwards"));
            }
            (first..=last).for_each(|cpu| mask |= 1 << cpu);
        }
        Ok(Self(mask))
    }
}

impl fmt::Display for CpuSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list: Vec<_> = self.iter().map(|cpu| cpu.to_string()).collect();
        f.pad(&list.join(","))
    }
}

/// A span in the largest unit that needs no fraction.
#[must_use]
pub fn format_ns(ns: u64) -> String {
    const UNITS: [(u64, &str); 5] = [
        (3_600_000_000_000, "h"),
        (60_000_000_000, "min"),
        (1_000_000_000, "s"),
        (1_000_000, "ms"),
        (1_000, "µs"),
    ];
    for (unit, name) in UNITS {
        if ns >= unit && ns.is_multiple_of(unit) {
            return format!("{} {name}", ns / unit);
        }
    }
    format!("{ns} ns")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn cpu_sets_are_lists_of_ranges() {
        assert_eq!("0-1,3".parse::<CpuSet>().unwrap().mask(), 0b1011);
        assert_eq!("0-1,3".parse::<CpuSet>().unwrap().needed_smp(), 4);
        assert_eq!(CpuSet::first(8).mask(), 0xff);
        assert_eq!(CpuSet::first(1).mask(), 1);
        for bad in ["", "8", "1-", "3-1", "a", "0,,1"] {
            assert!(bad.parse::<CpuSet>().is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn any_set_is_read_or_refused(text in ".{0,24}") {
            let _ = text.parse::<CpuSet>();
        }

        #[test]
        fn a_set_reads_back_as_printed(mask in 1u8..) {
            let set = CpuSet(mask);
            prop_assert_eq!(set.to_string().parse::<CpuSet>(), Ok(set));
        }
    }
}
