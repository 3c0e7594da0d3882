//! The bytes of records, on average over a timerlat run with every event on.

use anyhow::{Context, Result};
use takt_decode::{EventDef, SubBuffer};
use takt_tracer::wire::CHANNEL_TRACE;

use super::Values;
use super::latency::RUN;
use takt_guest::frames::FrameScanner;
use takt_guest::{Elf, events};
use takt_machine::run::once::Folder;

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
    let mut frames = FrameScanner::open(&folder.capture())?;
    let [mut switches, mut pairs, mut all] = <[Sum; 3]>::default();
    while let Some((header, payload)) = frames.next()? {
        if header.channel != CHANNEL_TRACE {
            continue;
        }
        let mut sub = SubBuffer::new(payload.to_vec(), 0).context("a sub-buffer is damaged")?;
        while let Some(record) = sub.next(&table) {
            let record = record.context("a record is damaged")?;
            let bytes = record.len.into();
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
