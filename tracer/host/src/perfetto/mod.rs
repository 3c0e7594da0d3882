//! Perfetto's protobuf, for ui.perfetto.dev and its trace processor.
//!
//! Events are ftrace's, in bundles of a CPU. Those of the scheduler and of interrupts have messages of their own, a
//! marker is a `print`, everything else a generic event with all of its fields. A loss is the mark on the bundle behind
//! it, an event `takt:lost` with the numbers, and a sum for each CPU at the end. Memory is a bundle for each CPU.

mod proto;

use std::collections::BTreeMap;
use std::io::{self, Write};

use proto::{bundle, event, generic, packet, stats, trace};
use takt_decode::ftrace::{Content, Field, Format, common_flags};
use takt_decode::{Item, Names, Record};

use super::{Export, Origin};

/// Events in a bundle.
const BUNDLE: usize = 512;
/// Who has written the packets: we alone.
const SEQUENCE: u64 = 1;
/// `FtraceStats.Phase.END_OF_TRACE`
const END_OF_TRACE: u64 = 2;
/// The event that says what is lost.
const LOST: &str = "takt:lost";

/// The file in the making.
pub(super) struct Perfetto<'o> {
    out: &'o mut dyn Write,
    formats: BTreeMap<u32, Format<'o>>,
    cpus: BTreeMap<u8, Cpu>,
    /// The memory of a packet, and of a text in it.
    packet: Vec<u8>,
    shown: String,
}

/// What is not written yet of a CPU.
#[derive(Default)]
struct Cpu {
    /// The events of the bundle in the making, as its fields, and how many they are.
    bundle: Vec<u8>,
    nr_in_bundle: usize,
    /// Something is missing before it.
    has_lost: bool,
    lost: u64,
    events: u64,
}

impl<'o> Perfetto<'o> {
    pub(super) fn new(out: &'o mut dyn Write, origin: &'o Origin<'o>) -> Self {
        Self {
            out,
            formats: origin.formats(),
            cpus: BTreeMap::new(),
            packet: Vec::new(),
            shown: String::new(),
        }
    }

    /// Adds an event, whose fields `put` puts.
    fn put(&mut self, cpu: u8, put: impl FnOnce(&mut Vec<u8>)) -> io::Result<()> {
        let waiting = self.cpus.entry(cpu).or_default();
        proto::message(&mut waiting.bundle, bundle::EVENT, put);
        waiting.nr_in_bundle += 1;
        if waiting.nr_in_bundle >= BUNDLE {
            self.flush(cpu)?;
        }
        Ok(())
    }

    fn flush(&mut self, cpu: u8) -> io::Result<()> {
        let Some(waiting) = self.cpus.get_mut(&cpu) else {
            return Ok(());
        };
        if waiting.nr_in_bundle == 0 {
            return Ok(());
        }
        write(
            &mut self.out,
            &mut self.packet,
            packet::FTRACE_EVENTS,
            |out| {
                proto::number(out, bundle::CPU, cpu.into());
                out.append(&mut waiting.bundle);
                if waiting.has_lost {
                    proto::number(out, bundle::LOST_EVENTS, 1);
                }
            },
        )?;
        waiting.nr_in_bundle = 0;
        waiting.has_lost = false;
        Ok(())
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
                let cpu = self.cpus.entry(record.cpu).or_default();
                cpu.events += 1;
                let shown = &mut self.shown;
                proto::message(&mut cpu.bundle, bundle::EVENT, |out| {
                    proto::number(out, event::TIMESTAMP, names.clock.ns(record.ts));
                    let pid = names.threads.pid(record.tid);
                    proto::number(out, event::PID, pid.into());
                    put_event(out, shown, format, record, names);
                    let flags = common_flags(record.context);
                    proto::number(out, event::COMMON_FLAGS, flags.into());
                });
                cpu.nr_in_bundle += 1;
                match cpu.nr_in_bundle {
                    BUNDLE.. => self.flush(record.cpu),
                    _ => Ok(()),
                }
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
                waiting.has_lost = true;
                let ns = names.clock.ns(*ts);
                self.put(*cpu, |out| {
                    proto::number(out, event::TIMESTAMP, ns);
                    proto::number(out, event::PID, 0);
                    proto::message(out, event::GENERIC, |out| {
                        proto::text(out, generic::EVENT_NAME, LOST);
                        for (name, number) in [("events", events), ("sub_buffers", sub_buffers)] {
                            proto::message(out, generic::FIELD, |out| {
                                proto::text(out, generic::NAME, name);
                                proto::number(out, generic::UINT_VALUE, *number);
                            });
                        }
                    });
                })
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
        let cpus = &self.cpus;
        write(
            &mut self.out,
            &mut self.packet,
            packet::FTRACE_STATS,
            |out| {
                proto::number(out, stats::PHASE, END_OF_TRACE);
                for (number, cpu) in cpus {
                    proto::message(out, stats::CPU_STATS, |out| {
                        proto::number(out, stats::CPU, (*number).into());
                        proto::number(out, stats::DROPPED_EVENTS, cpu.lost);
                        proto::number(out, stats::READ_EVENTS, cpu.events);
                    });
                }
            },
        )
    }
}

/// A packet is a field of the one message that the file is, so it can be written alone.
fn write(
    out: &mut dyn Write,
    packet: &mut Vec<u8>,
    kind: u32,
    put: impl FnOnce(&mut Vec<u8>),
) -> io::Result<()> {
    packet.clear();
    proto::message(packet, trace::PACKET, |packet| {
        proto::message(packet, kind, put);
        proto::number(packet, packet::TRUSTED_PACKET_SEQUENCE_ID, SEQUENCE);
    });
    out.write_all(packet)
}

/// A record as the message that Perfetto has for it, if the event has its fields, or as one of an event that it does not know.
/// `shown` is memory for a text.
fn put_event(
    out: &mut Vec<u8>,
    shown: &mut String,
    format: &Format<'_>,
    record: &Record<'_>,
    names: &Names,
) {
    let begin = out.len();
    if put_known(out, format, record, names).is_none() {
        out.truncate(begin);
        put_generic(out, shown, format, record, names);
    }
}

/// What an event that Perfetto knows has: the names of its fields in ftrace, and their numbers in the message.
enum Known {
    Text(&'static str, u32),
    /// A number of 32 bits.
    Int(&'static str, u32),
    /// A number of 64 bits.
    Long(&'static str, u32),
    /// The name of the interrupt in the field.
    IrqName(&'static str, u32),
    /// Always this.
    Fixed(u64, u32),
}

/// The message that Perfetto has for an event.
fn known(name: &str) -> Option<(u32, &'static [Known])> {
    use Known::{Fixed, Int, IrqName, Long, Text};
    const SWITCH: &[Known] = &[
        Text("prev_comm", 1),
        Int("prev_pid", 2),
        Int("prev_prio", 3),
        Long("prev_state", 4),
        Text("next_comm", 5),
        Int("next_pid", 6),
        Int("next_prio", 7),
    ];
    const WAKEUP: &[Known] = &[
        Text("comm", 1),
        Int("pid", 2),
        Int("prio", 3),
        Int("target_cpu", 5),
    ];
    const IRQ_ENTRY: &[Known] = &[Int("vector", 1), IrqName("vector", 2)];
    // IRQ_HANDLED
    const IRQ_EXIT: &[Known] = &[Int("vector", 1), Fixed(1, 2)];
    const PRINT: &[Known] = &[Text("buf", 2)];
    Some(match name {
        "sched:sched_switch" => (event::SCHED_SWITCH, SWITCH),
        "sched:sched_wakeup" => (event::SCHED_WAKEUP, WAKEUP),
        "sched:sched_waking" => (event::SCHED_WAKING, WAKEUP),
        "irq:irq_handler_entry" => (event::IRQ_HANDLER_ENTRY, IRQ_ENTRY),
        "irq:irq_handler_exit" => (event::IRQ_HANDLER_EXIT, IRQ_EXIT),
        "ftrace:print" => (event::PRINT, PRINT),
        _ => return None,
    })
}

/// `None` if it is none that Perfetto knows, or has not its fields; something may have been put then.
fn put_known(
    out: &mut Vec<u8>,
    format: &Format<'_>,
    record: &Record<'_>,
    names: &Names,
) -> Option<()> {
    let (kind, fields) = known(&format.event.name)?;
    let number = |name: &str| format.field(name)?.number(record, names);
    // As the schema has it, an `int32`.
    let int = |name: &str| {
        let number = number(name)?;
        i32::try_from(number).is_ok().then_some(number)
    };
    let put = |out: &mut Vec<u8>| {
        for field in fields {
            match field {
                Known::Text(name, tag) => {
                    proto::text(out, *tag, &format.field(name)?.text(record, names)?);
                }
                Known::Int(name, tag) => proto::number(out, *tag, int(name)?),
                Known::Long(name, tag) => proto::number(out, *tag, number(name)?),
                Known::IrqName(name, tag) => {
                    proto::text(out, *tag, names.irqs.shown(int(name)? as u8));
                }
                Known::Fixed(number, tag) => proto::number(out, *tag, *number),
            }
        }
        Some(())
    };
    let mut done = None;
    proto::message(out, kind, |out| done = put(out));
    done
}

fn put_generic(
    out: &mut Vec<u8>,
    shown: &mut String,
    format: &Format<'_>,
    record: &Record<'_>,
    names: &Names,
) {
    proto::message(out, event::GENERIC, |out| {
        proto::text(out, generic::EVENT_NAME, &format.event.name);
        for field in &format.fields {
            proto::message(out, generic::FIELD, |out| {
                proto::text(out, generic::NAME, &field.name);
                put_value(out, shown, field, record, names);
            });
        }
    });
}

fn put_value(
    out: &mut Vec<u8>,
    shown: &mut String,
    field: &Field<'_>,
    record: &Record<'_>,
    names: &Names,
) {
    shown.clear();
    if let Content::Value(number, def) = field.content
        && field.element_size().is_some()
    {
        // There are no arrays in generic events.
        if let Some(value) = record.values.get(number) {
            names.put_value(shown, def, value);
        }
        return proto::text(out, generic::STR_VALUE, shown);
    }
    let Some(number) = field.number(record, names) else {
        let text = field.text(record, names).unwrap_or_default();
        return proto::text(out, generic::STR_VALUE, &text);
    };
    if let Some(name) = field.name_of(number) {
        return proto::text(out, generic::STR_VALUE, name);
    }
    match field.ty() {
        Some(ty) if ty.is_place() => {
            names.put_place(shown, ty, number);
            proto::text(out, generic::STR_VALUE, shown);
        }
        _ if field.is_signed() => proto::number(out, generic::INT_VALUE, number),
        _ => proto::number(out, generic::UINT_VALUE, number),
    }
}
