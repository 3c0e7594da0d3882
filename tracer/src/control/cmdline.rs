//! The kernel's command line: `key=value` words separated by white space.
//!
//! Pure functions over text, tested and fuzzed on the host. An unknown key is no error, so that images can share a
//! command line; a value that does not parse is.

/// A value that could not be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
pub struct BadValue {
    /// Byte offset of the value in the command line.
    pub offset: usize,
}

/// A command line.
#[derive(Clone, Copy, Debug)]
pub struct CommandLine<'a>(pub &'a str);

impl<'a> CommandLine<'a> {
    /// The words, in their order.
    pub fn words(&self) -> impl DoubleEndedIterator<Item = &'a str> + use<'a> {
        self.0.split_ascii_whitespace()
    }

    /// The value of a key; the last one counts if it is given more than once.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&'a str> {
        if !cfg!(any(feature = "command-line", test)) {
            return None;
        }
        self.words()
            .filter_map(|word| word.split_once('='))
            .rfind(|(name, _)| *name == key)
            .map(|(_, value)| value)
    }

    /// A number, decimal or with `0x` hexadecimal; `default` if the key is not given.
    ///
    /// # Errors
    /// [`BadValue`] if it is not a number or does not fit 64 bits.
    pub fn number(&self, key: &str, default: u64) -> Result<u64, BadValue> {
        self.get(key).map_or(Ok(default), |text| {
            parse(text).ok_or_else(|| self.bad(text))
        })
    }

    /// One of several words, as its index; `default` if the key is not given.
    ///
    /// # Errors
    /// [`BadValue`] if it is none of them.
    pub fn choice(&self, key: &str, words: &[&str], default: usize) -> Result<usize, BadValue> {
        self.get(key).map_or(Ok(default), |text| {
            words
                .iter()
                .position(|word| *word == text)
                .ok_or_else(|| self.bad(text))
        })
    }

    /// Numbers separated by commas; none if the key is not given or empty. A number that does not parse is given as
    /// [`BadValue`].
    pub fn list(&self, key: &str) -> impl Iterator<Item = Result<u64, BadValue>> + use<'a, '_> {
        self.get(key)
            .unwrap_or("")
            .split(',')
            .filter(|text| !text.is_empty())
            .map(move |text| parse(text).ok_or_else(|| self.bad(text)))
    }

    fn bad(&self, value: &str) -> BadValue {
        BadValue {
            offset: value.as_ptr().addr().wrapping_sub(self.0.as_ptr().addr()),
        }
    }
}

fn parse(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        // `from_str_radix` would take a sign.
        Some(hex) if hex.starts_with('+') => None,
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None if text.starts_with('+') => None,
        None => text.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_found() {
        let line = CommandLine("  workload=timerlat period_ns=1000000 cpus=0x3 period_ns=5 flag ");
        assert_eq!(line.get("workload"), Some("timerlat"));
        assert_eq!(line.number("period_ns", 1), Ok(5));
        assert_eq!(line.number("cpus", 1), Ok(3));
        assert_eq!(line.number("prio", 95), Ok(95));
        assert_eq!(line.get("flag"), None);
        assert_eq!(
            line.choice("workload", &["cyclictest", "timerlat"], 0),
            Ok(1)
        );
    }

    #[test]
    fn bad_values_are_named() {
        let line = CommandLine("a=b c=0x d=18446744073709551616 e=+1");
        assert_eq!(line.number("a", 0), Err(BadValue { offset: 2 }));
        assert_eq!(line.number("c", 0), Err(BadValue { offset: 6 }));
        assert_eq!(line.number("d", 0), Err(BadValue { offset: 11 }));
        assert!(line.number("e", 0).is_err());
        assert!(line.choice("a", &["x"], 0).is_err());
    }

    #[test]
    fn lists() {
        let line = CommandLine("events=4,,6,x");
        let all: [Result<u64, BadValue>; 3] = [Ok(4), Ok(6), Err(BadValue { offset: 12 })];
        assert!(line.list("events").eq(all));
        assert_eq!(line.list("none").count(), 0);
    }
}
