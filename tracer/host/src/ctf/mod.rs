//! The Common Trace Format 1.8, which babeltrace2 and Trace Compass read: a folder with the text `metadata` and a stream
//! for each CPU.
//!
//! What is lost shows in the packets: `events_discarded` counts events, and sub-buffers that are missing leave a gap in
//! `packet_seq_num`. Memory is a packet for each CPU.
//!
//! Source: "Common Trace Format v1.8.3", the DiaMon workgroup's document.

mod metadata;
mod packet;

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;

use packet::Stream;
use takt_decode::ftrace::Format;
use takt_decode::{Item, Names, Record};

use super::{Export, Facts, Origin};

/// The folder in the making.
pub(super) struct Ctf<'o> {
    dir: &'o Path,
    formats: BTreeMap<u32, Format<'o>>,
    streams: Vec<Stream>,
    /// The event in the making, and memory for a text in it.
    bytes: Vec<u8>,
    shown: String,
}

impl<'o> Ctf<'o> {
    pub(super) fn new(dir: &'o Path, origin: &'o Origin<'o>) -> Self {
        Self {
            dir,
            formats: origin.formats(),
            streams: Vec::new(),
            bytes: Vec::new(),
            shown: String::new(),
        }
    }

    fn stream(&mut self, cpu: u8) -> io::Result<&mut Stream> {
        for cpu in self.streams.len()..=usize::from(cpu) {
            let path = self.dir.join(format!("cpu{cpu}"));
            self.streams.push(Stream::create(&path, cpu as u32)?);
        }
        Ok(&mut self.streams[usize::from(cpu)])
    }
}

impl Export for Ctf<'_> {
    fn begin(&mut self, facts: Facts) -> io::Result<()> {
        let text = metadata::text(self.formats.values());
        fs::write(self.dir.join("metadata"), text)?;
        match u8::try_from(facts.nr_cpus.saturating_sub(1)) {
            Ok(last) => self.stream(last).map(drop),
            Err(_) => Err(io::Error::other("too many CPUs")),
        }
    }

    fn item(&mut self, item: &Item<'_>, names: &mut Names) -> io::Result<()> {
        match item {
            Item::Record(record) => {
                names.learn(record);
                let mut bytes = std::mem::take(&mut self.bytes);
                bytes.clear();
                if let Some(format) = self.formats.get(&record.event.id) {
                    put_event(&mut bytes, &mut self.shown, format, record, names);
                }
                let ns = names.clock.ns(record.ts);
                let id = record.event.id as u16;
                self.stream(record.cpu)?.event(id, ns, &bytes)?;
                self.bytes = bytes;
                Ok(())
            }
            Item::Lost {
                cpu,
                ts,
                events,
                sub_buffers,
            } => {
                let ns = names.clock.ns(*ts);
                self.stream(*cpu)?.lost(ns, *events, *sub_buffers)
            }
            // No one can say where it belongs; what was in it is a loss.
            Item::Damage(_) => Ok(()),
        }
    }

    fn end(&mut self, _names: &Names) -> io::Result<()> {
        self.streams.iter_mut().try_for_each(Stream::finish)
    }
}

/// The event's context and its fields, as [`metadata`] describes them.
fn put_event(
    out: &mut Vec<u8>,
    shown: &mut String,
    format: &Format<'_>,
    record: &Record<'_>,
    names: &Names,
) {
    let context = record.context;
    out.extend(i32::from(names.threads.pid(record.tid)).to_le_bytes());
    put_text(out, names.threads.task(record.tid));
    out.push(
        u8::from(context.is_irqs_off())
            | u8::from(context.is_need_resched()) << 1
            | u8::from(context.is_hardirq()) << 2
            | u8::from(context.is_nmi()) << 3
            | context.depth() << 4,
    );
    for field in &format.fields {
        let place = field.ty().filter(|ty| ty.is_place());
        if let Some(size) = field.element_size() {
            let elements = field.numbers(record, names).unwrap_or_default();
            if metadata::is_counted(field) {
                out.extend((elements.len() as u32).to_le_bytes());
            }
            for element in &elements {
                out.extend(&element.to_le_bytes()[..size]);
            }
            for element in elements.iter().filter(|_| place.is_some()) {
                shown.clear();
                names.put_symbol(shown, *element);
                put_text(out, shown);
            }
            continue;
        }
        match field.number(record, names) {
            Some(number) => {
                out.extend(&number.to_le_bytes()[..field.size]);
                if let Some(ty) = place {
                    shown.clear();
                    names.put_place(shown, ty, number);
                    put_text(out, shown);
                }
            }
            None => put_text(out, &field.text(record, names).unwrap_or_default()),
        }
    }
}

/// A text; a zero in it would end it.
fn put_text(out: &mut Vec<u8>, text: &str) {
    match text.contains('\0') {
        false => out.extend_from_slice(text.as_bytes()),
        true => out.extend(text.bytes().filter(|byte| *byte != 0)),
    }
    out.push(0);
}
