//! The trace event format of Chrome's `about:tracing`, which Perfetto reads too.
//!
//! Each CPU is a process with one track: the threads that run there, and in them the interrupts, as slices (`B` and
//! `E`, which nest); every other event is an instant. Times are microseconds with three decimals, which is ns.
//!
//! Source: "Trace Event Format", the document of the Chromium project.

use std::collections::BTreeSet;
use std::io::{self, Write};

use serde_json::{Value, json};
use takt_decode::{Item, Names, Record, put_decimal, put_json_fields, put_json_string};

use super::slices::{self, Change, Runs, Slices};
use super::{Export, Facts};

/// The object with the array of events.
pub(super) struct Chrome<'o> {
    out: &'o mut dyn Write,
    slices: Slices,
    /// CPUs that have their name.
    cpus: BTreeSet<u8>,
    lost_events: u64,
    lost_sub_buffers: u64,
    damages: u64,
    is_first: bool,
    /// The event in the making.
    event: String,
    /// The changes that the last item has made.
    changes: Vec<(u8, u64, Change)>,
}

impl<'o> Chrome<'o> {
    pub(super) fn new(out: &'o mut dyn Write) -> Self {
        Self {
            out,
            slices: Slices::default(),
            cpus: BTreeSet::new(),
            lost_events: 0,
            lost_sub_buffers: 0,
            damages: 0,
            is_first: true,
            event: String::new(),
            changes: Vec::new(),
        }
    }

    fn separate(&mut self) -> io::Result<()> {
        let comma = if self.is_first { "\n" } else { ",\n" };
        self.is_first = false;
        self.out.write_all(comma.as_bytes())
    }

    fn put(&mut self, event: &Value) -> io::Result<()> {
        self.separate()?;
        let event = takt_base::output::escape_json_controls(serde_json::to_string(event)?);
        self.out.write_all(event.as_bytes())
    }

    fn put_change(&mut self, cpu: u8, ns: u64, change: Change, names: &Names) -> io::Result<()> {
        self.separate()?;
        let event = &mut self.event;
        event.clear();
        event.push('{');
        let ph = match change {
            Change::End => 'E',
            Change::Begin(runs) => {
                match runs {
                    Runs::Thread(tid) => {
                        event.push_str("\"args\":{\"pid\":");
                        put_decimal(event, names.threads.pid(tid));
                        event.push_str("},\"name\":");
                        put_json_string(event, names.threads.comm(tid));
                    }
                    Runs::Irq(vector) => {
                        event.push_str("\"args\":{\"vector\":");
                        put_decimal(event, vector);
                        event.push_str("},\"name\":");
                        put_json_string(event, &slices::irq_name(vector, names));
                    }
                }
                event.push(',');
                'B'
            }
        };
        event.push_str("\"ph\":\"");
        event.push(ph);
        event.push_str("\",\"pid\":");
        put_decimal(event, cpu);
        event.push_str(",\"tid\":0,\"ts\":");
        put_micros(event, ns);
        // As a float of JSON, which has a decimal.
        if ns.is_multiple_of(1000) {
            event.push_str(".0");
        }
        event.push('}');
        self.out.write_all(event.as_bytes())
    }

    /// Its fields are written by who knows their types, so this is no [`Value`].
    fn put_instant(&mut self, record: &Record<'_>, names: &Names) -> io::Result<()> {
        self.separate()?;
        let event = &mut self.event;
        event.clear();
        event.push_str(r#"{"ph":"i","s":"t","pid":"#);
        put_decimal(event, record.cpu);
        event.push_str(r#","tid":0,"ts":"#);
        put_micros(event, names.clock.ns(record.ts));
        event.push_str(r#","name":"#);
        put_json_string(event, &record.event.name);
        event.push_str(r#","args":{"#);
        put_json_fields(event, record, names);
        event.push_str("}}");
        self.out.write_all(event.as_bytes())
    }

    fn put_name(&mut self, cpu: u8) -> io::Result<()> {
        if !self.cpus.insert(cpu) {
            return Ok(());
        }
        let name = format!("CPU {cpu}");
        self.put(&json!({"ph": "M", "pid": cpu, "tid": 0, "name": "process_name", "args": {"name": name}}))
    }
}

impl Export for Chrome<'_> {
    fn begin(&mut self, _facts: Facts) -> io::Result<()> {
        self.out
            .write_all(b"{\"displayTimeUnit\":\"ns\",\"traceEvents\":[")
    }

    fn item(&mut self, item: &Item<'_>, names: &mut Names) -> io::Result<()> {
        if let Item::Record(record) = item {
            names.learn(record);
            self.put_name(record.cpu)?;
        }
        let mut changes = std::mem::take(&mut self.changes);
        self.slices.follow(item, names, |cpu, ns, change| {
            changes.push((cpu, ns, change))
        });
        for (cpu, ns, change) in changes.drain(..) {
            self.put_change(cpu, ns, change, names)?;
        }
        self.changes = changes;
        match item {
            Item::Record(record) if slices::is_change(record) => Ok(()),
            Item::Record(record) => self.put_instant(record, names),
            Item::Lost {
                cpu,
                ts,
                events,
                sub_buffers,
            } => {
                self.lost_events += events;
                self.lost_sub_buffers += sub_buffers;
                self.put(&json!({
                    "ph": "i", "s": "p", "pid": cpu, "tid": 0,
                    "ts": micros(names.clock.ns(*ts)), "name": "lost",
                    "args": {"events": events, "sub_buffers": sub_buffers},
                }))
            }
            Item::Damage(_) => {
                self.damages += 1;
                Ok(())
            }
        }
    }

    fn end(&mut self, names: &Names) -> io::Result<()> {
        let mut changes = Vec::new();
        self.slices
            .finish(|cpu, ns, change| changes.push((cpu, ns, change)));
        for (cpu, ns, change) in changes {
            self.put_change(cpu, ns, change, names)?;
        }
        let rest = json!({
            "lost_events": self.lost_events,
            "lost_sub_buffers": self.lost_sub_buffers,
            "damaged_places": self.damages,
        });
        writeln!(self.out, "\n],\"otherData\":{rest}}}")
    }
}

/// Microseconds, with the decimals that are not 0.
fn put_micros(out: &mut String, ns: u64) {
    put_decimal(out, ns / 1000);
    let rest = ns % 1000;
    if rest == 0 {
        return;
    }
    out.push('.');
    for digit in [rest / 100, rest / 10 % 10, rest % 10] {
        put_decimal(out, digit);
    }
    out.truncate(out.trim_end_matches('0').len());
}

/// Microseconds. A float tells nanoseconds apart for 104 days.
fn micros(ns: u64) -> f64 {
    ns as f64 / 1000.0
}
