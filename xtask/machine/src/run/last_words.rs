//! What was last heard of a guest that did not come to its end.

use std::fmt::Write;
use std::io::BufReader;
use std::path::Path;

use console::style;
use takt_decode::{Entry, FrameReader};

use super::folder::{LOG, MESSAGES, SERIAL, TRACE};
use takt_base::input;
use takt_base::term::{self, last_lines, printable};
use takt_guest::Elf;
use takt_guest::log::{Decoder, Line};
use takt_guest::trace;

/// Lines that are shown of each source.
const LINES: usize = 10;
/// Lines of the serial port: a register dump with its backtrace.
const SERIAL_LINES: usize = 60;

/// Collects them from the files of a run; with the places where the guest stood when it was ended, if that is known.
#[must_use]
pub fn collect(dir: &Path, elf: &Elf, state: &str, places: &[String]) -> String {
    let mut out = String::new();
    section(&mut out, "state", &[state.to_owned()]);
    if !places.is_empty() {
        section(&mut out, "place", places);
    }
    section(&mut out, "log", &last_log_lines(dir, elf));
    section(&mut out, "trace", &last_events(dir, elf));
    section(&mut out, "serial", &serial(dir, elf));
    section(&mut out, "QEMU", &tail(&dir.join(MESSAGES), LINES));
    out
}

fn section(out: &mut String, title: &str, lines: &[String]) {
    let title = style(format!("{title:>8}")).bold().for_stderr();
    // Writing to a String does not fail.
    match lines {
        [] => {
            let _ = writeln!(out, "{title}  nothing");
        }
        [first, rest @ ..] => {
            let _ = writeln!(out, "{title}  {first}");
            rest.iter().for_each(|line| {
                let _ = writeln!(out, "          {line}");
            });
        }
    }
}

/// The end of the log, decoded.
fn last_log_lines(dir: &Path, elf: &Elf) -> Vec<String> {
    let decoder = match Decoder::new(elf) {
        Ok(decoder) => decoder,
        Err(error) => return vec![format!("cannot be decoded: {}", term::one_line(&error))],
    };
    let mut lines = Vec::new();
    let mut stream = decoder.stream();
    let mut read = || -> anyhow::Result<()> {
        let mut frames = FrameReader::log(BufReader::new(input::open(dir.join(LOG))?))?;
        while let Some(entry) = frames.next_entry()? {
            if let Entry::Frame(frame) = entry {
                stream.push(&frame.payload, |line| lines.push(line));
                lines.drain(..lines.len().saturating_sub(LINES));
            }
        }
        Ok(())
    };
    let error = read().err();
    let mut lines: Vec<_> = lines.iter().map(Line::to_string).collect();
    lines.extend(error.map(|error| format!("cannot be read: {}", term::one_line(&error))));
    lines
}

/// The end of the trace.
fn last_events(dir: &Path, elf: &Elf) -> Vec<String> {
    trace::last_events(&dir.join(TRACE), elf, LINES)
        .map(|lines| lines.iter().map(|it| printable(it.as_bytes())).collect())
        .unwrap_or_else(|error| vec![term::one_line(&error)])
}

/// The end of what the serial port had, with names for addresses.
#[must_use]
pub fn serial(dir: &Path, elf: &Elf) -> Vec<String> {
    let text = tail(&dir.join(SERIAL), SERIAL_LINES).join("\n");
    elf.annotate(&text).lines().map(str::to_owned).collect()
}

/// The last lines of a text file, without empty ones at its end.
#[must_use]
pub fn tail(path: &Path, count: usize) -> Vec<String> {
    let bytes = input::read(path).unwrap_or_default();
    let text = printable(&bytes);
    let lines = last_lines(&text, count).into_iter();
    lines.map(str::to_owned).collect()
}
