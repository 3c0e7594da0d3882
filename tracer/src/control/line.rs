//! Lines out of bytes that come one at a time.
//!
//! Pure, tested and fuzzed on the host.

/// Gathers bytes until a line is complete. `N` is the longest line, in bytes.
#[derive(Debug)]
pub struct LineBuffer<const N: usize> {
    bytes: [u8; N],
    len: usize,
    /// More came than there is room for.
    is_long: bool,
    /// The line was handed out; the next byte begins another.
    is_done: bool,
}

/// A line that is no line: too long, or not UTF-8.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BadLine;

impl<const N: usize> LineBuffer<N> {
    /// An empty one.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            bytes: [0; N],
            len: 0,
            is_long: false,
            is_done: false,
        }
    }

    /// Takes a byte; gives the line that it ends, without its newline.
    pub fn push(&mut self, byte: u8) -> Option<Result<&str, BadLine>> {
        if core::mem::take(&mut self.is_done) {
            self.len = 0;
            self.is_long = false;
        }
        if byte == b'\n' {
            self.is_done = true;
            let line = core::str::from_utf8(self.bytes.get(..self.len)?);
            return Some(if self.is_long {
                Err(BadLine)
            } else {
                line.map_err(|_| BadLine)
            });
        }
        match self.bytes.get_mut(self.len) {
            Some(place) => {
                *place = byte;
                self.len += 1;
            }
            None => self.is_long = true,
        }
        None
    }
}

impl<const N: usize> Default for LineBuffer<N> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_end_with_a_newline() {
        let mut lines = LineBuffer::<4>::new();
        let mut feed = |text: &[u8]| {
            let mut last = None;
            for byte in text {
                last = lines.push(*byte).map(|line| line.map(str::len));
            }
            last
        };
        assert_eq!(feed(b"ab"), None);
        assert_eq!(feed(b"cd\n"), Some(Ok(4)));
        assert_eq!(feed(b"\n"), Some(Ok(0)));
        assert_eq!(feed(b"abcde\n"), Some(Err(BadLine)));
        assert_eq!(feed(b"\xff\n"), Some(Err(BadLine)));
        assert_eq!(feed(b"x\n"), Some(Ok(1)));
    }
}
