//! Values with units, read exactly: no floating point between the user's digits and nanoseconds.

use takt_timerlat::config::Policy;

/// Nanoseconds in `text` units of `unit_ns` each; decimals as far as a nanosecond goes.
fn decimal(text: &str, unit_ns: u64) -> Result<u64, String> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits = |s: &str| s.bytes().all(|b| b.is_ascii_digit());
    if text.is_empty() || text == "." || !digits(whole) || !digits(fraction) {
        return Err(format!("`{text}` is not a number"));
    }
    let too_large = || format!("`{text}` is too large");
    let whole: u64 = if whole.is_empty() {
        0
    } else {
        whole.parse().map_err(|_| too_large())?
    };
    let mut ns = whole.checked_mul(unit_ns).ok_or_else(too_large)?;
    let mut place = unit_ns;
    for digit in fraction.trim_end_matches('0').bytes() {
        if !place.is_multiple_of(10) {
            return Err(format!("`{text}` is finer than a nanosecond"));
        }
        place /= 10;
        ns = ns
            .checked_add(u64::from(digit - b'0') * place)
            .ok_or_else(too_large)?;
    }
    Ok(ns)
}

/// A span in microseconds, fractions allowed; above zero.
pub(super) fn micros(text: &str) -> Result<u64, String> {
    match decimal(text, 1_000)? {
        0 => Err("must be more than 0".into()),
        ns => Ok(ns),
    }
}

const SUFFIXES: [(&str, u64); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
    ("d", 86_400_000_000_000),
];

/// A time such as `500ms`, `5s`, `10m`, `1h` or `1d`; without a unit, seconds. As in rtla, a unit of one letter may be a
/// capital.
pub(super) fn time(text: &str) -> Result<u64, String> {
    let split = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, suffix) = text.split_at(split);
    let unit = match suffix {
        "" => 1_000_000_000,
        _ => SUFFIXES
            .iter()
            .find(|(name, _)| {
                *name == suffix || name.len() == 1 && name.eq_ignore_ascii_case(suffix)
            })
            .map(|&(_, ns)| ns)
            .ok_or_else(|| format!("unknown unit `{suffix}` (ns, us, ms, s, m, h, d)"))?,
    };
    decimal(number, unit)
}

/// A time of at least a nanosecond (ns, us, ms, s, m, h, d); without a unit, nanoseconds.
pub(super) fn nanoseconds(text: &str) -> Result<u64, String> {
    if text.ends_with(|c: char| c.is_ascii_digit()) {
        return positive_time(&format!("{text}ns"));
    }
    positive_time(text)
}

/// A time above zero.
pub(super) fn positive_time(text: &str) -> Result<u64, String> {
    match time(text)? {
        0 => Err("must be more than 0".into()),
        ns => Ok(ns),
    }
}

/// A span in microseconds, fractions allowed.
pub(super) fn micros_or_none(text: &str) -> Result<u64, String> {
    decimal(text, 1_000)
}

/// Policy and priority as rtla has them: `f:95`, `r:95`; `95` is FIFO.
pub(super) fn priority(text: &str) -> Result<(Policy, u8), String> {
    let (policy, number) = match text.split_once(':') {
        None => (Policy::Fifo, text),
        Some(("f" | "F", number)) => (Policy::Fifo, number),
        Some(("r" | "R", number)) => (Policy::RoundRobin, number),
        Some((policy, _)) => {
            return Err(format!(
                "policy `{policy}` is not offered: only FIFO (f) and round robin (r) are"
            ));
        }
    };
    match number.parse() {
        Ok(prio @ 1..=99) => Ok((policy, prio)),
        _ => Err("a priority is 1 to 99, 99 the most important".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn microseconds_are_exact() {
        assert_eq!(micros("1000"), Ok(1_000_000));
        assert_eq!(micros("0.1"), Ok(100));
        assert_eq!(micros(".5"), Ok(500));
        assert_eq!(micros("12.345"), Ok(12_345));
        assert_eq!(micros("1.500000"), Ok(1_500));
        for bad in [
            "",
            ".",
            "-1",
            "1e3",
            "1.2345",
            "0",
            "5us",
            "99999999999999999999",
        ] {
            assert!(micros(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn times_have_units() {
        assert_eq!(time("5"), Ok(5_000_000_000));
        assert_eq!(time("500ms"), Ok(500_000_000));
        assert_eq!(time("1.5s"), Ok(1_500_000_000));
        assert_eq!(time("10m"), Ok(600_000_000_000));
        assert_eq!(time("10M"), time("10m"));
        assert_eq!(time("1H"), Ok(3_600_000_000_000));
        assert_eq!(time("0"), Ok(0));
        for bad in ["s", "5 s", "5x", "-5s", "1.5ns", "5MS", "999999999999d"] {
            assert!(time(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn priorities_are_rtlas() {
        assert_eq!(priority("95"), Ok((Policy::Fifo, 95)));
        assert_eq!(priority("f:1"), Ok((Policy::Fifo, 1)));
        assert_eq!(priority("r:5"), Ok((Policy::RoundRobin, 5)));
        for bad in ["0", "100", "o:5", "f:", "high"] {
            assert!(priority(bad).is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in ".{0,24}") {
            let _ = (micros(&text), time(&text), priority(&text));
        }
    }
}
