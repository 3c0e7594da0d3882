//! Perfetto's protobuf, for ui.perfetto.dev and its trace processor.
//!
//! Events are ftrace's, in bundles of a CPU. Those of the scheduler and of interrupts have messages of their own, a
//! marker is a `print`, everything else a generic event with all of its fields. A loss is the mark on the bundle behind
//! it, an event `takt:lost` with the numbers, and a sum for each CPU at the end. Memory is a bundle for each CPU.

mod proto;

use std::collections::BTreeMap;
use std::io::{self, Write};

use prost::Message;
use proto::{
    Data, Event, Field, FtraceCpuStats, FtraceEvent, FtraceEventBundle, FtraceStats, Generic,
    IrqHandlerEntry, IrqHandlerExit, Print, SchedSwitch, SchedWakeup, Trace, TracePacket, Value,
};
use takt_tracer::decode::ftrace::{Content, Format, common_flags};
use takt_tracer::decode::{Item, Names, Record};

use super::{Export, Origin};

/// Events in a bundle.
const BUNDLE: usize = 512;
/// Who has written the packets: we alone.
const SEQUENCE: u32 = 1;
/// `FtraceStats.Phase.END_OF_TRACE`
const END_OF_TRACE: i32 = 2;
/// The event that says what is lost.
const LOST: &str = "takt:lost";

/// The file in the making.
pub(super) struct Perfetto<'o> {
    out: &'o mut dyn Write,
    formats: BTreeMap<u32, Format<'o>>,
    cpus: BTreeMap<u8, Cpu>,
}

/// What is not written yet of a CPU.
#[derive(Default)]
struct Cpu {
    bundle: FtraceEventBundle,
    lost: u64,
    events: u64,
}

impl<'o> Perfetto<'o> {
    pub(super) fn new(out: &'o mut dyn Write, origin: &'o Origin<'o>) -> Self {
        Self {
            out,
            formats: origin.formats(),
            cpus: BTreeMap::new(),
        }
    }

    fn put(&mut self, cpu: u8, event: FtraceEvent) -> io::Result<()> {
        let bundle = &mut self.cpus.entry(cpu).or_default().bundle;
        bundle.event.push(event);
        if bundle.event.len() >= BUNDLE {
            self.flush(cpu)?;
        }
        Ok(())
    }

    fn flush(&mut self, cpu: u8) -> io::Result<()> {
        let Some(waiting) = self.cpus.get_mut(&cpu) else {
            return Ok(());
        };
        let mut bundle = std::mem::take(&mut waiting.bundle);
        if bundle.event.is_empty() {
            return Ok(());
        }
        bundle.cpu = Some(cpu.into());
        write(&mut self.out, Data::FtraceEvents(bundle))
    }
}

impl Export for Perfetto<'_> {
    fn item(&mut self, item: &Item<'_>, names: &mut Names) -> io::Result<()> {
        match item {
            Item::Record(record) => {
                names.learn(record);
                let Some(format) = self.formats.get(&record.event.id) else {
                    return Ok(());
                };
                let event = FtraceEvent {
                    timestamp: Some(names.clock.ns(record.ts)),
                    pid: Some(names.threads.pid(record.tid).into()),
                    common_flags: Some(common_flags(record.context).into()),
                    event: Some(event(format, record, names)),
                };
                self.cpus.entry(record.cpu).or_default().events += 1;
                self.put(record.cpu, event)
            }
            Item::Lost {
                cpu,
                ts,
                events,
                sub_buffers,
            } => {
                self.flush(*cpu)?;
                let waiting = self.cpus.entry(*cpu).or_default();
                waiting.lost = waiting.lost.saturating_add(*events);
                waiting.bundle.lost_events = Some(true);
                let event = FtraceEvent {
                    timestamp: Some(names.clock.ns(*ts)),
                    pid: Some(0),
                    common_flags: None,
                    event: Some(Event::Generic(Generic {
                        event_name: Some(LOST.into()),
                        field: vec![
                            number("events", *events),
                            number("sub_buffers", *sub_buffers),
                        ],
                    })),
                };
                self.put(*cpu, event)
            }
            // No one can say where it belongs; what was in it is a loss.
            Item::Damage(_) => Ok(()),
        }
    }

    fn end(&mut self, _names: &Names) -> io::Result<()> {
        let cpus: Vec<u8> = self.cpus.keys().copied().collect();
        for cpu in cpus {
            self.flush(cpu)?;
        }
        let sum = |(number, cpu): (&u8, &Cpu)| FtraceCpuStats {
            cpu: Some((*number).into()),
            dropped_events: Some(cpu.lost),
            read_events: Some(cpu.events),
        };
        let stats = FtraceStats {
            phase: Some(END_OF_TRACE),
            cpu_stats: self.cpus.iter().map(sum).collect(),
        };
        write(&mut self.out, Data::FtraceStats(stats))
    }
}

/// A packet is a field of the one message that the file is, so it can be written alone.
fn write(mut out: impl Write, data: Data) -> io::Result<()> {
    let packet = TracePacket {
        trusted_packet_sequence_id: Some(SEQUENCE),
        data: Some(data),
    };
    let trace = Trace {
        packet: vec![packet],
    };
    out.write_all(&trace.encode_to_vec())
}

fn number(name: &str, number: u64) -> Field {
    Field {
        name: Some(name.into()),
        value: Some(Value::Uint(number)),
    }
}

/// A record as the message that Perfetto has for it, if the event has its fields.
fn event(format: &Format<'_>, record: &Record<'_>, names: &Names) -> Event {
    known(format, record, names).unwrap_or_else(|| Event::Generic(generic(format, record, names)))
}

fn known(format: &Format<'_>, record: &Record<'_>, names: &Names) -> Option<Event> {
    let number = |name: &str| format.field(name)?.number(record, names);
    let int = |name: &str| number(name).and_then(|number| i32::try_from(number).ok());
    let text = |name: &str| format.field(name)?.text(record, names);
    let wakeup = || {
        Some(SchedWakeup {
            comm: Some(text("comm")?),
            pid: Some(int("pid")?),
            prio: Some(int("prio")?),
            target_cpu: Some(int("target_cpu")?),
        })
    };
    Some(match format.event.name.as_str() {
        "sched:sched_switch" => Event::SchedSwitch(SchedSwitch {
            prev_comm: Some(text("prev_comm")?),
            prev_pid: Some(int("prev_pid")?),
            prev_prio: Some(int("prev_prio")?),
            prev_state: Some(number("prev_state")?.cast_signed()),
            next_comm: Some(text("next_comm")?),
            next_pid: Some(int("next_pid")?),
            next_prio: Some(int("next_prio")?),
        }),
        "sched:sched_wakeup" => Event::SchedWakeup(wakeup()?),
        "sched:sched_waking" => Event::SchedWaking(wakeup()?),
        "irq:irq_handler_entry" => {
            let irq = int("vector")?;
            Event::IrqHandlerEntry(IrqHandlerEntry {
                irq: Some(irq),
                name: Some(names.irqs.shown(irq as u8).to_owned()),
            })
        }
        "irq:irq_handler_exit" => Event::IrqHandlerExit(IrqHandlerExit {
            irq: Some(int("vector")?),
            // IRQ_HANDLED
            ret: Some(1),
        }),
        "ftrace:print" => Event::Print(Print {
            buf: Some(text("buf")?),
        }),
        _ => return None,
    })
}

fn generic(format: &Format<'_>, record: &Record<'_>, names: &Names) -> Generic {
    let value = |field: &takt_tracer::decode::ftrace::Field<'_>| {
        if let Content::Value(number, def) = field.content
            && field.element_size().is_some()
        {
            // There are no arrays in generic events.
            let value = record.values.get(number);
            return Value::Text(value.map_or_else(String::new, |value| names.show(def, value)));
        }
        let Some(number) = field.number(record, names) else {
            return Value::Text(field.text(record, names).unwrap_or_default());
        };
        let name = field.names().and_then(|known| {
            let found = known.iter().find(|(value, _)| *value == number);
            found.map(|(_, name)| (*name).to_owned())
        });
        match (field.ty(), name) {
            (_, Some(name)) => Value::Text(name),
            (Some(ty), _) if ty.is_place() => Value::Text(names.place(ty, number)),
            _ if field.is_signed() => Value::Int(number.cast_signed()),
            _ => Value::Uint(number),
        }
    };
    let field = |field: &takt_tracer::decode::ftrace::Field<'_>| Field {
        name: Some(field.name.clone()),
        value: Some(value(field)),
    };
    Generic {
        event_name: Some(format.event.name.clone()),
        field: format.fields.iter().map(field).collect(),
    }
}
