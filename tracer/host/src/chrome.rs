//! The trace event format of Chrome's `about:tracing`, which Perfetto reads too.
//!
//! Each CPU is a process with one track: the threads that run there, and in them the interrupts, as slices (`B` and
//! `E`, which nest); every other event is an instant. Times are microseconds with three decimals, which is ns.
//!
//! Source: "Trace Event Format", the document of the Chromium project.

use std::collections::BTreeSet;
use std::io::{self, Write};

use serde_json::{Value, json};
use takt_tracer::decode::{Item, Names, Record, escape_json_controls, write_json_fields};

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
        }
    }

    fn separate(&mut self) -> io::Result<()> {
        let comma = if self.is_first { "\n" } else { ",\n" };
        self.is_first = false;
        self.out.write_all(comma.as_bytes())
    }

    fn put(&mut self, event: &Value) -> io::Result<()> {
        self.separate()?;
        let event = escape_json_controls(serde_json::to_string(event)?);
        self.out.write_all(event.as_bytes())
    }

    fn put_change(&mut self, cpu: u8, ns: u64, change: Change, names: &Names) -> io::Result<()> {
        let (name, args) = match change {
            Change::End => {
                return self.put(&json!({"ph": "E", "pid": cpu, "tid": 0, "ts": micros(ns)}));
            }
            Change::Begin(Runs::Thread(tid)) => (
                names.threads.comm(tid),
                json!({"pid": names.threads.pid(tid)}),
            ),
            Change::Begin(Runs::Irq(vector)) => {
                (slices::irq_name(vector, names), json!({"vector": vector}))
            }
        };
        self.put(
            &json!({"ph": "B", "pid": cpu, "tid": 0, "ts": micros(ns), "name": name, "args": args}),
        )
    }

    /// Its fields are written by who knows their types, so this is no [`Value`].
    fn put_instant(&mut self, record: &Record<'_>, names: &Names) -> io::Result<()> {
        self.separate()?;
        let ts = micros(names.clock.ns(record.ts));
        let name = escape_json_controls(serde_json::to_string(&record.event.name)?);
        write!(
            self.out,
            r#"{{"ph":"i","s":"t","pid":{},"tid":0,"ts":{ts},"name":{name},"args":{{"#,
            record.cpu
        )?;
        write_json_fields(&mut self.out, record, names)?;
        self.out.write_all(b"}}")
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
        let mut changes = Vec::new();
        self.slices.follow(item, names, |cpu, ns, change| {
            changes.push((cpu, ns, change))
        });
        for (cpu, ns, change) in changes {
            self.put_change(cpu, ns, change, names)?;
        }
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

/// Microseconds. A float tells nanoseconds apart for 104 days.
fn micros(ns: u64) -> f64 {
    ns as f64 / 1000.0
}
