//! The trace event format of Chrome's `about:tracing`, which Perfetto reads too.
//!
//! Each CPU is a process with one track: the threads that run there, and in them the interrupts, as slices (`B` and
//! `E`, which nest); every other event is an instant. Times are microseconds with three decimals, which is ns.
//!
//! Source: "Trace Event Format", the document of the Chromium project.

use std::collections::BTreeMap;
use std::io::{self, Write};

use serde_json::{Map, Value, json};
use takt_tracer::decode::{FieldType, Item, Names, Record};

use super::{Export, Facts};

const SWITCH: &str = "sched:sched_switch";
const IRQ_ENTRY: &str = "irq:irq_handler_entry";
const IRQ_EXIT: &str = "irq:irq_handler_exit";

/// What is open on a CPU.
#[derive(Debug, Default)]
struct Track {
    /// The thread's slice, and the interrupts in it.
    depth: u32,
    last_ns: u64,
}

/// The object with the array of events.
pub(super) struct Chrome<'o> {
    out: &'o mut dyn Write,
    tracks: BTreeMap<u8, Track>,
    lost_events: u64,
    lost_sub_buffers: u64,
    damages: u64,
    is_first: bool,
}

impl<'o> Chrome<'o> {
    pub(super) fn new(out: &'o mut dyn Write) -> Self {
        Self {
            out,
            tracks: BTreeMap::new(),
            lost_events: 0,
            lost_sub_buffers: 0,
            damages: 0,
            is_first: true,
        }
    }

    fn put(&mut self, event: &Value) -> io::Result<()> {
        let comma = if self.is_first { "\n" } else { ",\n" };
        self.is_first = false;
        self.out.write_all(comma.as_bytes())?;
        serde_json::to_writer(&mut self.out, event).map_err(io::Error::from)
    }

    fn begin_slice(&mut self, cpu: u8, ns: u64, name: &str, args: Value) -> io::Result<()> {
        self.tracks.entry(cpu).or_default().depth += 1;
        self.put(
            &json!({"ph": "B", "pid": cpu, "tid": 0, "ts": micros(ns), "name": name, "args": args}),
        )
    }

    /// Ends slices until `depth` are open.
    fn end_slices(&mut self, cpu: u8, ns: u64, depth: u32) -> io::Result<()> {
        while self.tracks.entry(cpu).or_default().depth > depth {
            self.tracks.entry(cpu).or_default().depth -= 1;
            self.put(&json!({"ph": "E", "pid": cpu, "tid": 0, "ts": micros(ns)}))?;
        }
        Ok(())
    }

    fn thread_slice(&mut self, cpu: u8, ns: u64, tid: u8, names: &Names) -> io::Result<()> {
        let comm = names.threads.comm(tid);
        let args = json!({"pid": names.threads.pid(tid)});
        self.begin_slice(cpu, ns, &comm, args)
    }

    fn record(&mut self, record: &Record<'_>, names: &Names) -> io::Result<()> {
        let (cpu, ns) = (record.cpu, names.clock.ns(record.ts));
        if !self.tracks.contains_key(&cpu) {
            let name = format!("CPU {cpu}");
            self.put(&json!({"ph": "M", "pid": cpu, "tid": 0, "name": "process_name", "args": {"name": name}}))?;
        }
        if self.tracks.entry(cpu).or_default().depth == 0 {
            self.thread_slice(cpu, ns, record.tid, names)?;
        }
        self.tracks.entry(cpu).or_default().last_ns = ns;
        match record.event.name.as_str() {
            SWITCH => {
                self.end_slices(cpu, ns, 0)?;
                let next = record.number("next").unwrap_or(0) as u8;
                self.thread_slice(cpu, ns, next, names)
            }
            IRQ_ENTRY => {
                let vector = record.number("vector").unwrap_or(0);
                self.begin_slice(cpu, ns, &format!("irq {vector}"), fields(record, names))
            }
            IRQ_EXIT => self.end_slices(cpu, ns, 1),
            name => self.put(&json!({
                "ph": "i", "s": "t", "pid": cpu, "tid": 0, "ts": micros(ns), "name": name,
                "args": fields(record, names),
            })),
        }
    }
}

impl Export for Chrome<'_> {
    fn begin(&mut self, _facts: Facts) -> io::Result<()> {
        self.out
            .write_all(b"{\"displayTimeUnit\":\"ns\",\"traceEvents\":[")
    }

    fn item(&mut self, item: &Item<'_>, names: &mut Names) -> io::Result<()> {
        match item {
            Item::Record(record) => {
                names.threads.learn(record);
                self.record(record, names)
            }
            Item::Lost {
                cpu,
                ts,
                events,
                sub_buffers,
            } => {
                let ns = names.clock.ns(*ts);
                self.lost_events += events;
                self.lost_sub_buffers += sub_buffers;
                // Who ran meanwhile is not known, nor who runs now until the next record says so.
                let last_ns = self.tracks.entry(*cpu).or_default().last_ns;
                self.end_slices(*cpu, last_ns, 0)?;
                self.put(&json!({
                    "ph": "i", "s": "p", "pid": cpu, "tid": 0, "ts": micros(ns), "name": "lost",
                    "args": {"events": events, "sub_buffers": sub_buffers},
                }))
            }
            Item::Damage(_) => {
                self.damages += 1;
                Ok(())
            }
        }
    }

    fn end(&mut self, _names: &Names) -> io::Result<()> {
        let open: Vec<_> = self
            .tracks
            .iter()
            .map(|(cpu, track)| (*cpu, track.last_ns))
            .collect();
        for (cpu, ns) in open {
            self.end_slices(cpu, ns, 0)?;
        }
        let rest = json!({
            "lost_events": self.lost_events,
            "lost_sub_buffers": self.lost_sub_buffers,
            "damaged_places": self.damages,
        });
        writeln!(self.out, "\n],\"otherData\":{rest}}}")
    }
}

/// The fields as a reader wants to see them.
fn fields(record: &Record<'_>, names: &Names) -> Value {
    let map: Map<String, Value> = record
        .fields()
        .map(|(field, value)| {
            let shown = match (&field.ty, value.number()) {
                (FieldType::Unsigned | FieldType::Prio, Some(number)) => number.into(),
                (FieldType::Cycles, Some(cycles)) => names.clock.ns(cycles).into(),
                _ => names.show(field, value).into(),
            };
            (field.name.clone(), shown)
        })
        .collect();
    map.into()
}

/// Microseconds. A float tells nanoseconds apart for 104 days.
fn micros(ns: u64) -> f64 {
    ns as f64 / 1000.0
}
