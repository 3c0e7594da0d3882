//! The bytes of records, on average over a timerlat run with every event on.

use anyhow::{Context, Result};
use takt_tracer::decode::{EventDef, Record, Slot, SubBuffer, Value};
use takt_tracer::event::Place;
use takt_tracer::wire::CHANNEL_TRACE;

use super::Values;
use super::images::Folder;
use super::latency::RUN;
use crate::image::{Elf, events};
use crate::run::frames::FrameReader;

/// Bytes and number of records.
#[derive(Default)]
struct Sum {
    bytes: u64,
    nr: u64,
}

impl Sum {
    fn add(&mut self, bytes: u64) {
        self.bytes += bytes;
        self.nr += 1;
    }
}

/// Measures the averages, rounded up.
pub(super) fn measure(elf: &Elf, folder: &Folder, values: &mut Values) -> Result<()> {
    let table = events::table(elf)?;
    let ids: Vec<_> = table.iter().map(|event| event.id.to_string()).collect();
    folder.boot(elf, &format!("{RUN} events={}", ids.join(",")))?;
    let mut frames = FrameReader::open(&folder.capture())?;
    let [mut switches, mut pairs, mut all] = <[Sum; 3]>::default();
    while let Some((header, payload)) = frames.next()? {
        if header.channel != CHANNEL_TRACE {
            continue;
        }
        let mut sub = SubBuffer::new(payload.to_vec(), 0).context("a sub-buffer is damaged")?;
        while let Some(record) = sub.next(&table) {
            let record = record.context("a record is damaged")?;
            let bytes = size(&record);
            all.add(bytes);
            if is_switch_or_irq(record.event) {
                switches.add(bytes);
            }
            if record.event.fields.len() == 2 && !record.event.has_dynamic() {
                pairs.add(bytes);
            }
        }
    }
    for (name, sum) in [("switch", switches), ("pair", pairs), ("all", all)] {
        if sum.nr != 0 {
            values.insert(format!("average-bytes-{name}"), sum.bytes.div_ceil(sum.nr));
        }
    }
    Ok(())
}

fn is_switch_or_irq(event: &EventDef) -> bool {
    event.name == "sched:sched_switch" || event.system() == "irq"
}

/// The bytes of a record, from where its fields stand.
fn size(record: &Record<'_>) -> u64 {
    let mut words = 0;
    let mut dynamic = 0;
    for (field, value) in record.fields() {
        match (field.slot, value) {
            (
                Slot::Fixed {
                    bits,
                    place: Place::Extra(word, _),
                },
                _,
            ) => {
                words = words.max(word as u64 + u64::from(bits.div_ceil(32)));
            }
            (Slot::Dynamic, Value::Bytes(bytes)) => {
                dynamic = 4 + (bytes.len() as u64).next_multiple_of(4);
            }
            _ => {}
        }
    }
    8 + 4 * words + dynamic
}
