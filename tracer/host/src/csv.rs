//! Comma-separated values (RFC 4180): a line for each item, for spreadsheets and data frames.

use std::io::{self, Write};

use takt_decode::{Item, Names, put_decimal};

use super::{Export, Facts};
use takt_base::term::printable;

const HEADER: &str = "ts_ns,cpu,pid,task,flags,event,message\r\n";

/// The table.
pub(super) struct Csv<'o> {
    out: &'o mut dyn Write,
    /// The line in the making.
    line: String,
}

impl<'o> Csv<'o> {
    pub(super) fn new(out: &'o mut dyn Write) -> Self {
        Self {
            out,
            line: String::new(),
        }
    }

    /// A line about what is not there.
    fn note(&mut self, ns: &str, cpu: &str, event: &str, message: &str) -> io::Result<()> {
        let message = quoted(message);
        write!(self.out, "{ns},{cpu},,,,{event},{message}\r\n")
    }
}

impl Export for Csv<'_> {
    fn begin(&mut self, _facts: Facts) -> io::Result<()> {
        self.out.write_all(HEADER.as_bytes())
    }

    fn item(&mut self, item: &Item<'_>, names: &mut Names) -> io::Result<()> {
        match item {
            Item::Record(record) => {
                names.learn(record);
                let line = &mut self.line;
                line.clear();
                put_decimal(line, names.clock.ns(record.ts));
                line.push(',');
                put_decimal(line, record.cpu);
                line.push(',');
                put_decimal(line, names.threads.pid(record.tid));
                line.push(',');
                put_quoted(line, |line| {
                    line.push_str(names.threads.task(record.tid));
                });
                line.push(',');
                record.context.put_columns(line);
                line.push(',');
                put_quoted(line, |line| line.push_str(&record.event.name));
                line.push(',');
                put_quoted(line, |line| names.put_message(line, record));
                line.push_str("\r\n");
                self.out.write_all(line.as_bytes())
            }
            Item::Lost {
                cpu,
                ts,
                events,
                sub_buffers,
            } => self.note(
                &names.clock.ns(*ts).to_string(),
                &cpu.to_string(),
                "lost",
                &format!("events={events} sub_buffers={sub_buffers}"),
            ),
            Item::Damage(damage) => self.note("", "", "damaged", &damage.to_string()),
        }
    }
}

/// What `put` puts, [`quoted`].
fn put_quoted(line: &mut String, put: impl FnOnce(&mut String)) {
    let begin = line.len();
    put(line);
    let is_plain = |byte: &u8| matches!(byte, b' '..=b'~') && !matches!(byte, b',' | b'"');
    if !line.as_bytes()[begin..].iter().all(is_plain) {
        let text = line.split_off(begin);
        line.push_str(&quoted(&text));
    }
}

/// A field that may hold anything, as [`printable`] shows it: the lines' own ends have a control character.
fn quoted(text: &str) -> String {
    let text = printable(text.as_bytes());
    if text.contains([',', '"', '\r', '\n']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    use super::quoted;

    #[test]
    fn what_would_end_a_field_is_quoted() {
        assert_eq!(quoted("sched:sched_switch"), "sched:sched_switch");
        assert_eq!(quoted("a,b"), "\"a,b\"");
        assert_eq!(quoted("say \"yes\""), "\"say \"\"yes\"\"\"");
    }
}
