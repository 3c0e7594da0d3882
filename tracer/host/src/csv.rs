//! Comma-separated values (RFC 4180): a line for each item, for spreadsheets and data frames.

use std::io::{self, Write};

use takt_tracer::decode::{Item, Names};

use super::{Export, Facts};
use takt_base::term::printable;

const HEADER: &str = "ts_ns,cpu,pid,task,flags,event,message\r\n";

/// The table.
pub(super) struct Csv<'o> {
    out: &'o mut dyn Write,
}

impl<'o> Csv<'o> {
    pub(super) fn new(out: &'o mut dyn Write) -> Self {
        Self { out }
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
                write!(
                    self.out,
                    "{},{},{},{},{},{},{}\r\n",
                    names.clock.ns(record.ts),
                    record.cpu,
                    names.threads.pid(record.tid),
                    quoted(&names.threads.task(record.tid)),
                    record.context.flags(),
                    quoted(&record.event.name),
                    quoted(&names.message(record)),
                )
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
