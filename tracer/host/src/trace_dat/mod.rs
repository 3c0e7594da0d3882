//! `trace.dat`, version 6: what `trace-cmd report` and KernelShark read.
//!
//! A file begins with what is known only at its end (names of threads, sizes), so each CPU's pages go to a file without a
//! name first. Memory is a page for each CPU.
//!
//! Source: "trace-cmd.dat.v6", trace-cmd's document of the format.

mod header;
mod pages;

use std::collections::BTreeMap;
use std::io::{self, Seek, Write};

use header::{Header, Part};
use pages::{Lane, PAGE};
use takt_decode::ftrace::Format;
use takt_decode::{Item, Names};

use super::{Export, Facts, Origin};

/// The event that stands where a loss has no record behind it that could say it.
const LOST: &str = "takt:lost";

/// The file in the making.
pub(super) struct TraceDat<'o> {
    out: &'o mut dyn Write,
    origin: &'o Origin<'o>,
    formats: BTreeMap<u32, Format<'o>>,
    lanes: Vec<Lane>,
    /// Names by pid; the last one counts, as in Linux.
    cmdlines: BTreeMap<u8, String>,
    /// The record in the making.
    payload: Vec<u8>,
}

impl<'o> TraceDat<'o> {
    pub(super) fn new(out: &'o mut dyn Write, origin: &'o Origin<'o>) -> Self {
        Self {
            out,
            origin,
            formats: origin.formats(),
            lanes: Vec::new(),
            cmdlines: BTreeMap::new(),
            payload: Vec::new(),
        }
    }

    fn lane(&mut self, cpu: u8) -> io::Result<&mut Lane> {
        while self.lanes.len() <= usize::from(cpu) {
            self.lanes.push(Lane::new(self.origin.spool)?);
        }
        Ok(&mut self.lanes[usize::from(cpu)])
    }

    fn learn(&mut self, tid: u8, names: &Names) {
        if !names.threads.is_idle(tid) && names.threads.is_known(tid) {
            let known = self.cmdlines.entry(tid).or_default();
            let now = names.threads.comm(tid);
            if *known != now {
                now.clone_into(known);
            }
        }
    }

    /// An id that no event has.
    fn free_id(&self) -> u16 {
        (1..=u16::MAX)
            .rev()
            .find(|id| !self.formats.contains_key(&u32::from(*id)))
            .unwrap_or(u16::MAX)
    }
}

impl Export for TraceDat<'_> {
    fn begin(&mut self, facts: Facts) -> io::Result<()> {
        match u8::try_from(facts.nr_cpus.saturating_sub(1)) {
            Ok(last) => self.lane(last).map(drop),
            Err(_) => Err(io::Error::other("too many CPUs")),
        }
    }

    fn item(&mut self, item: &Item<'_>, names: &mut Names) -> io::Result<()> {
        match item {
            Item::Record(record) => {
                names.learn(record);
                self.learn(record.tid, names);
                let mut payload = std::mem::take(&mut self.payload);
                match self.formats.get(&record.event.id) {
                    Some(format) => format.encode(&mut payload, record, names),
                    None => return Ok(()),
                }
                let ns = names.clock.ns(record.ts);
                self.lane(record.cpu)?.record(ns, &payload)?;
                self.payload = payload;
                Ok(())
            }
            Item::Lost {
                cpu,
                ts,
                events,
                sub_buffers,
            } => {
                let ns = names.clock.ns(*ts);
                self.lane(*cpu)?.lost(ns, *events, *sub_buffers)
            }
            // No one can say where it belongs; what was in it is a loss.
            Item::Damage(_) => Ok(()),
        }
    }

    fn end(&mut self, _names: &Names) -> io::Result<()> {
        let lost_id = self.free_id();
        for lane in &mut self.lanes {
            lane.finish(lost_id)?;
        }
        let mut parts = Vec::new();
        for format in self.formats.values() {
            parts.push(Part {
                system: format.event.system(),
                text: format.text(),
            });
        }
        let (system, name) = LOST.split_once(':').unwrap_or(("", LOST));
        parts.push(Part {
            system,
            text: pages::lost_format(name, lost_id),
        });
        let header = Header {
            parts,
            kallsyms: self.origin.kallsyms(),
            cmdlines: self
                .cmdlines
                .iter()
                .map(|(pid, comm)| format!("{pid} {}\n", comm.replace(char::is_control, "?")))
                .collect(),
            sizes: self.lanes.iter().map(Lane::size).collect(),
        };
        self.out.write_all(&header.encode(PAGE as u64))?;
        for lane in &mut self.lanes {
            let spool = lane.spool()?;
            spool.rewind()?;
            io::copy(spool, &mut self.out)?;
        }
        Ok(())
    }
}
