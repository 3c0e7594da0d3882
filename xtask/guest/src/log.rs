//! Decoding the guest's defmt log, and those of its tasks in it.

mod task;

use anyhow::{Context, Result};
use defmt_decoder::{DecodeError, Encoding, Frame, Locations, StreamDecoder, Table};
use serde::Serialize;

use crate::Elf;
use crate::tasks::Names;
use takt_base::term;

pub use task::check;
pub(crate) use task::{Formats, read_texts};

/// Longest line as it is sent, in bytes: the decoder's stack grows with the length of a line, and a
/// guest that died may have left anything.
const MAX_LINE: usize = 8 << 10;

/// One line of the log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Line {
    /// The guest's time stamp, as the image formats it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time: Option<String>,
    /// `trace`, `debug`, `info`, `warn`, `error`; `print` for a line without a level.
    pub level: String,
    /// The message.
    pub message: String,
    /// Source file, from the workspace on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// Line in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<u64>,
    /// Module.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub module: Option<String>,
}

/// The formats of an image's log.
#[derive(Debug)]
pub struct Decoder {
    table: Table,
    locations: Locations,
    tasks: Names,
    /// The number of the frames that have those of tasks in them.
    of_tasks: Option<u64>,
}

impl Decoder {
    /// Reads the formats out of an image.
    ///
    /// # Errors
    ///
    /// If the image has no defmt section or one that this defmt cannot read.
    pub fn new(elf: &Elf) -> Result<Self> {
        let table = Table::parse(&elf.data)
            .context("the image's log formats cannot be read")?
            .context("the image has no log formats (section .defmt)")?;
        // Without debug information there are no places, and the log is still worth reading.
        let locations = table.get_locations(&elf.data).unwrap_or_default();
        let tasks = Names::of(elf);
        Ok(Self {
            table,
            locations,
            tasks,
            of_tasks: task::format_of(elf),
        })
    }

    /// Begins to decode a run of bytes.
    #[must_use]
    pub fn stream(&self) -> Stream<'_> {
        Stream {
            inner: self.table.new_stream_decoder(),
            decoder: self,
            malformed: 0,
            line: 0,
            is_lost: false,
        }
    }

    fn line(&self, frame: &Frame<'_>) -> Line {
        let mut line = line(frame, &self.locations);
        if self.of_tasks == Some(frame.index())
            && let Some((number, bytes)) = task::parts(&line.message)
            && let Some(task) = self.tasks.task(number)
        {
            line = Line {
                time: line.time,
                ..task.formats.line(task, &bytes)
            };
        }
        line.message = self.tasks.annotate(&line.message).into_owned();
        line
    }
}

/// The line of a frame whose places these are.
fn line(frame: &Frame<'_>, locations: &Locations) -> Line {
    let place = locations.get(&frame.index());
    Line {
        time: frame.display_timestamp().map(|time| time.to_string()),
        level: frame
            .level()
            .map_or("print", |level| level.as_str())
            .to_owned(),
        message: frame.display_message().to_string(),
        file: place.map(|place| {
            let file = place.file.to_string_lossy();
            takt_base::paths::shown_source(&file).to_owned()
        }),
        line: place.map(|place| place.line),
        module: place.map(|place| place.module.clone()),
    }
}

/// A log being decoded.
pub struct Stream<'d> {
    inner: Box<dyn StreamDecoder + Send + Sync + 'd>,
    decoder: &'d Decoder,
    malformed: u64,
    /// Bytes of the line that is being received.
    line: usize,
    /// Nothing is taken in until the next line begins; in raw encoding nobody knows where.
    is_lost: bool,
}

impl std::fmt::Debug for Stream<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Stream")
            .field("malformed", &self.malformed)
            .finish_non_exhaustive()
    }
}

impl Stream<'_> {
    /// Takes in bytes and gives each line that is complete by now to `each`.
    pub fn push(&mut self, bytes: &[u8], mut each: impl FnMut(Line)) {
        if self.decoder.table.encoding() == Encoding::Raw {
            self.feed(bytes, &mut each);
            return;
        }
        for piece in bytes.split_inclusive(|byte| *byte == 0) {
            self.line += piece.len();
            if self.line > MAX_LINE && !self.is_lost {
                self.inner = self.decoder.table.new_stream_decoder();
                self.malformed += 1;
                self.is_lost = true;
            }
            self.feed(piece, &mut each);
            if piece.ends_with(&[0]) {
                self.line = 0;
                self.is_lost = false;
            }
        }
    }

    fn feed(&mut self, bytes: &[u8], each: &mut impl FnMut(Line)) {
        if self.is_lost {
            return;
        }
        self.inner.received(bytes);
        loop {
            match self.inner.decode() {
                Ok(frame) => each(self.decoder.line(&frame)),
                Err(DecodeError::UnexpectedEof) => return,
                Err(DecodeError::Malformed) => {
                    self.malformed += 1;
                    if !self.decoder.table.encoding().can_recover() {
                        // It would find the same again and again.
                        self.is_lost = true;
                        return;
                    }
                }
            }
        }
    }

    /// Frames so far that made no sense.
    #[must_use]
    pub fn malformed(&self) -> u64 {
        self.malformed
    }
}

impl std::fmt::Display for Line {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if let Some(time) = &self.time {
            write!(f, "{time} ")?;
        }
        // No line of a message looks like one of the log's, whoever wrote it.
        let message = term::printable(self.message.as_bytes()).replace('\n', "\n      ");
        write!(f, "{:<5} {message}", self.level.to_uppercase())?;
        // The name of a file is as the task has it.
        let file = self.file.as_deref().map(term::in_line);
        match (file, self.line) {
            (Some(file), Some(line)) => write!(f, "  ({file}:{line})"),
            (Some(file), None) => write!(f, "  ({file})"),
            (None, _) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_task_has_named_neither_begins_a_line_nor_reaches_the_terminal() {
        let line = Line {
            time: Some("0.1".into()),
            level: "info".into(),
            message: "a\n0.2 ERROR b".into(),
            file: Some("x.rs:1)\n0.2 ERROR task 'b' stopped  (\x1b[31ma.rs".into()),
            line: Some(2),
            module: None,
        };
        assert_eq!(
            line.to_string(),
            "0.1 INFO  a\n      0.2 ERROR b  (x.rs:1)\\n0.2 ERROR task 'b' stopped  (\\u{1b}[31ma.rs:2)"
        );
    }
}
