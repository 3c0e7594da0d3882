//! The terminal: errors with advice, and what the terminal can show.

use std::env;
use std::fmt;
use std::io::{self, Write};
use std::path::Path;

use console::{Term, style};

/// Stderr. What cannot be written there cannot be said anywhere, and ends nothing: its reader may be gone, its disk full.
#[derive(Clone, Copy, Debug)]
pub struct Stderr;

impl Write for Stderr {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let _ = io::stderr().write_all(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Writes a line to [`Stderr`]: in the place of `eprintln`, which panics where that cannot be done.
#[macro_export]
macro_rules! tell {
    ($($text:tt)*) => {
        $crate::term::write_stderr(&(format!($($text)*) + "\n"))
    };
}

/// How this program is called: by cargo's alias, or by the name under which it is installed.
#[must_use]
pub fn program() -> &'static str {
    let name = env::args_os().next();
    let name = name.as_deref().and_then(|path| Path::new(path).file_name());
    match name.is_some_and(|name| name == "takt") {
        true => "takt",
        false => ALIAS,
    }
}

/// Cargo's alias, by which advice names this program.
const ALIAS: &str = "cargo xtask";

/// Writes a text to [`Stderr`]; advice has the name in it by which this program was called.
pub fn write_stderr(text: &str) {
    let text = text.replace(ALIAS, program());
    let _ = Stderr.write_all(text.as_bytes());
}

/// An error's advice: what to do next. Attached as context, printed apart from the reasons.
#[derive(Debug)]
pub struct Help(pub String);

impl fmt::Display for Help {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "help: {}", self.0)
    }
}

/// Adds advice to an error without changing what it says.
pub trait WithHelp<T> {
    /// Says what to do about the error.
    ///
    /// # Errors
    ///
    /// The same as before, with the advice.
    fn help(self, advice: impl Into<String>) -> anyhow::Result<T>;
}

impl<T, E: Into<anyhow::Error>> WithHelp<T> for Result<T, E> {
    fn help(self, advice: impl Into<String>) -> anyhow::Result<T> {
        self.map_err(|error| error.into().context(Help(advice.into())))
    }
}

/// An error's advice and its reasons, the last one last. What a guest or a file has written may stand in them.
fn parts(error: &anyhow::Error) -> (Vec<String>, Vec<String>) {
    let is_help = |text: &String| text.starts_with("help: ");
    let parts = error.chain().map(ToString::to_string);
    let shown = parts.map(|it| printable(it.as_bytes()));
    shown.partition(is_help)
}

/// What went wrong, why, and what to do next, in one line: for a note and for a page.
#[must_use]
pub fn one_line(error: &anyhow::Error) -> String {
    let (help, reasons) = parts(error);
    let mut line = reasons.join(": ");
    for advice in help {
        line += &format!("; {advice}");
    }
    line
}

/// Prints what went wrong, why, and what to do next, to stderr.
pub fn print_error(error: &anyhow::Error) {
    let (help, reasons) = parts(error);
    let mut reasons = reasons.into_iter();
    let first = reasons.next().unwrap_or_default();
    tell!("{} {first}", style("error:").red().bold().for_stderr());
    for reason in reasons {
        tell!("  because: {reason}");
    }
    for advice in help {
        tell!("{advice}");
    }
}

/// Prints something the user should know, to stderr.
pub fn note(text: impl fmt::Display) {
    tell!("{} {text}", style("note:").cyan().bold().for_stderr());
}

/// Whether a character does something to a terminal or a page instead of standing there: control characters, and those by
/// which what is around them changes its direction or its line.
#[inline]
#[must_use]
pub fn is_control(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// What a guest has written, for people: control characters but tabs and ends of lines, which would reach the terminal,
/// and bytes that are no UTF-8 are shown as escapes.
#[must_use]
pub fn printable(bytes: &[u8]) -> String {
    let mut out = String::new();
    for chunk in bytes.utf8_chunks() {
        let mut chars = chunk.valid().chars().peekable();
        while let Some(c) = chars.next() {
            match c {
                '\n' | '\t' => out.push(c),
                '\r' if chars.peek() == Some(&'\n') => {}
                _ if is_control(c) => out.extend(c.escape_default()),
                _ => out.push(c),
            }
        }
        for byte in chunk.invalid() {
            out.push_str(&format!("\\x{byte:02x}"));
        }
    }
    out
}

/// Something of a guest's that stands within a line, as a name: as [`printable`] shows it, with tabs and ends of lines as escapes, too.
#[must_use]
pub fn in_line(text: &str) -> String {
    let escape = |c: char| match is_control(c) {
        true => c.escape_default().to_string(),
        false => c.to_string(),
    };
    text.chars().map(escape).collect()
}

/// Passes on text as [`printable`] shows it, some lines at a time; the last ones, and what has no end of line yet, when it is
/// flushed.
pub struct Printable<'o> {
    out: &'o mut dyn Write,
    waiting: Vec<u8>,
}

impl fmt::Debug for Printable<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Printable").finish_non_exhaustive()
    }
}

/// Bytes that wait to be passed on.
const WAITING: usize = 32 << 10;

impl<'o> Printable<'o> {
    /// Passes text on to `out`.
    pub fn new(out: &'o mut dyn Write) -> Self {
        Self {
            out,
            waiting: Vec::with_capacity(WAITING),
        }
    }

    fn pass(&mut self, len: usize) -> io::Result<()> {
        let text = &self.waiting[..len];
        let passed = match is_plain(text) {
            true => self.out.write_all(text),
            false => self.out.write_all(printable(text).as_bytes()),
        };
        self.waiting.drain(..len);
        passed
    }
}

impl Write for Printable<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.waiting.extend_from_slice(bytes);
        if self.waiting.len() >= WAITING
            && let Some(end) = self.waiting.iter().rposition(|byte| *byte == b'\n')
        {
            self.pass(end + 1)?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.pass(self.waiting.len())?;
        self.out.flush()
    }
}

/// Whether these are visible ASCII characters, spaces and ends of lines: most of what is written.
fn is_plain(bytes: &[u8]) -> bool {
    // Without an end where it is found, which a compiler makes one step of many bytes.
    bytes.iter().fold(true, |is_plain, byte| {
        is_plain & matches!(byte, b' '..=b'~' | b'\n' | b'\t')
    })
}

/// The last lines of a text, without empty ones around it.
#[must_use]
pub fn last_lines(text: &str, count: usize) -> Vec<&str> {
    let text = text.trim_matches(['\r', '\n', ' ']);
    let lines: Vec<_> = text.lines().map(str::trim_end).collect();
    lines[lines.len().saturating_sub(count)..].to_vec()
}

/// Columns of stdout's terminal; 100 if it is none.
#[must_use]
pub fn width() -> usize {
    terminal_width().unwrap_or(100)
}

/// Columns of stdout's terminal, if it is one.
#[must_use]
pub fn terminal_width() -> Option<usize> {
    let (_, columns) = Term::stdout().size_checked()?;
    Some(usize::from(columns).max(40))
}

/// Whether the user's locale has block characters. Without a locale the answer is no.
#[must_use]
pub fn is_utf8() -> bool {
    ["LC_ALL", "LC_CTYPE", "LANG"]
        .iter()
        .filter_map(|name| env::var(name).ok())
        .find(|value| !value.is_empty())
        .is_some_and(|value| value.to_lowercase().replace('-', "").contains("utf8"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_of_a_guests_controls_the_terminal() {
        assert_eq!(
            printable(b"a\tb\r\nc\xff\x1b[2J\r\x07\x7f \xc2\x9b1m \xc3\xa4\xe2\x80\xae\xe2\x82"),
            "a\tb\nc\\xff\\u{1b}[2J\\r\\u{7}\\u{7f} \\u{9b}1m \u{e4}\\u{202e}\\xe2\\x82"
        );
        assert_eq!(
            in_line("a\tb\n\r\u{1b}[31m \u{e4}"),
            "a\\tb\\n\\r\\u{1b}[31m \u{e4}"
        );
        let error = anyhow::anyhow!("a\u{1b}[31m").context("b\u{202e}\nc");
        assert_eq!(one_line(&error), "b\\u{202e}\nc: a\\u{1b}[31m");
        // Whatever it is cut into.
        let text = "a\x1b[2J\n\u{e4}\u{9b}\nb\x07".repeat(WAITING / 8);
        let mut out = Vec::new();
        let mut passing = Printable::new(&mut out);
        for byte in text.as_bytes() {
            passing.write_all(&[*byte]).unwrap();
        }
        passing.flush().unwrap();
        assert_eq!(out, printable(text.as_bytes()).as_bytes());
    }
}
