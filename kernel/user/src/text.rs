//! Lines for the log.

use core::fmt::{self, Write};

use crate::abi::MAX_LOG;
use crate::syscall;

struct Line {
    bytes: [u8; MAX_LOG],
    len: usize,
}

impl Write for Line {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let rest = &mut self.bytes[self.len..];
        // Whole characters only.
        let fits = text.len().min(rest.len());
        let fits = (0..=fits)
            .rev()
            .find(|&at| text.is_char_boundary(at))
            .unwrap_or(0);
        rest[..fits].copy_from_slice(&text.as_bytes()[..fits]);
        self.len += fits;
        Ok(())
    }
}

/// Writes a line to the log. Use [`log!`](crate::log!).
pub fn log(text: fmt::Arguments<'_>) {
    let mut line = Line {
        bytes: [0; MAX_LOG],
        len: 0,
    };
    // A line takes what fits.
    let _ = line.write_fmt(text);
    syscall::log(&line.bytes[..line.len]);
}
