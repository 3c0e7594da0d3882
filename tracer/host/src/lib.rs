//! A trace in the formats of other tools.
//!
//! An export sees the items of a trace in the order of time, one by one: nothing of it grows with the trace. Whatever
//! the format, it says how many events were lost and where.
//!
//! What is done for each event is in `takt-decode`, `takt-base` and here, which cargo optimizes in the profile `dev` too, and not
//! behind a generic parameter, by which it would be compiled with the command that calls it.

#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]
#![deny(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "`output` and `term` write what can fail: into a closed pipe, onto a full disk"
)]

mod chrome;
mod csv;
mod ctf;
mod flamegraph;
mod format;
pub mod graph;
pub mod latency;
mod pass;
mod perfetto;
mod slices;
#[cfg(test)]
mod test_events;
mod text;
mod trace_dat;

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::Path;

pub use pass::{Passed, Wanted, pass};
use takt_decode::{EventDef, EventTable, Item, Names, ftrace};

use takt_base::units::CpuSet;

pub use format::Format;
use takt_guest::symbolize::SymbolNames;

/// What is known of a trace before its first item.
#[derive(Clone, Copy, Debug)]
pub struct Facts {
    /// Events in the file.
    pub in_file: u64,
    /// Events that the target has lost, as far as it could say so.
    pub lost: u64,
    /// CPUs of the guest.
    pub nr_cpus: u32,
}

/// What a trace was recorded with.
#[derive(Clone, Copy, Debug)]
pub struct Origin<'o> {
    /// The events of the image.
    pub table: &'o EventTable,
    /// Its functions.
    pub symbols: &'o SymbolNames,
    /// A folder where a format that needs it may have nameless files.
    pub spool: &'o Path,
    /// The tracer that ran.
    pub tracer: &'o str,
    /// What it has kept, for formats that are about that alone.
    pub stretch: Option<latency::Stretch>,
    /// The source lines of its ends.
    pub places: &'o latency::Lines,
}

impl<'o> Origin<'o> {
    /// The events in ftrace's view, by their ids.
    fn formats(&self) -> BTreeMap<u32, ftrace::Format<'o>> {
        let format = |event: &'o EventDef| (event.id, ftrace::Format::new(event));
        self.table.iter().map(format).collect()
    }

    /// The functions as `/proc/kallsyms` lists them, up to the end of the code. A name ends with the first space, so those
    /// of Rust have no-break spaces.
    fn kallsyms(&self) -> String {
        self.symbols
            .iter()
            .map(|(address, name)| format!("{address:016x} T {}\n", name.replace(' ', "\u{a0}")))
            .collect()
    }
}

/// A format, on its way to a file.
pub trait Export {
    /// Once, first.
    ///
    /// # Errors
    ///
    /// Those of the output, here and below.
    fn begin(&mut self, _facts: Facts) -> io::Result<()> {
        Ok(())
    }

    /// The next record, loss or damage. Learns the names of threads on the way.
    ///
    /// # Errors
    ///
    /// As [`Export::begin`].
    fn item(&mut self, item: &Item<'_>, names: &mut Names) -> io::Result<()>;

    /// Once, last.
    ///
    /// # Errors
    ///
    /// As [`Export::begin`].
    fn end(&mut self, _names: &Names) -> io::Result<()> {
        Ok(())
    }
}

/// Where an export goes.
pub enum Output<'o> {
    /// A file, or stdout.
    Stream(&'o mut dyn Write),
    /// A folder, which is there and empty.
    Folder(&'o Path),
}

/// The export for a format.
///
/// # Errors
///
/// If a folder is given for a format that is a file, or the other way round.
pub fn export<'o>(
    format: Format,
    output: Output<'o>,
    origin: &'o Origin<'o>,
) -> io::Result<Box<dyn Export + 'o>> {
    Ok(match (format, output) {
        (Format::Text, Output::Stream(out)) => Box::new(text::Text::new(out, origin.tracer)),
        (Format::Latency, Output::Stream(out)) => {
            let latency = latency::Latency::new(out, origin.spool)?;
            let latency = latency.of(origin.tracer, origin.stretch);
            Box::new(latency.places(origin.places.clone()))
        }
        (Format::TraceDat, Output::Stream(out)) => Box::new(trace_dat::TraceDat::new(out, origin)),
        (Format::Ctf, Output::Folder(dir)) => Box::new(ctf::Ctf::new(dir, origin)),
        (Format::Perfetto, Output::Stream(out)) => Box::new(perfetto::Perfetto::new(out, origin)),
        (Format::Json, Output::Stream(out)) => Box::new(text::Json::new(out)),
        (Format::Csv, Output::Stream(out)) => Box::new(csv::Csv::new(out)),
        (Format::Chrome, Output::Stream(out)) => Box::new(chrome::Chrome::new(out)),
        (Format::Graph, Output::Stream(out)) => Box::new(graph::Graph::new(out)),
        (Format::Flamegraph, Output::Stream(out)) => Box::new(flamegraph::Flamegraph::new(out)),
        (_, Output::Folder(_)) => return Err(io::Error::other(format!("{format} is a file"))),
        (_, Output::Stream(_)) => return Err(io::Error::other(format!("{format} is a folder"))),
    })
}

/// Which part of a trace is wanted.
#[derive(Clone, Copy, Debug)]
pub struct Selection {
    /// Only these CPUs.
    pub cpus: Option<CpuSet>,
    /// From this time on, in ns.
    pub from: u64,
    /// To this time, in ns, itself included.
    pub to: u64,
}

impl Selection {
    /// Everything.
    pub const ALL: Self = Self {
        cpus: None,
        from: 0,
        to: u64::MAX,
    };

    /// Whether it is everything.
    #[must_use]
    pub const fn is_all(&self) -> bool {
        self.cpus.is_none() && self.is_of_all_times()
    }

    /// Whether it is not about a time.
    #[must_use]
    pub const fn is_of_all_times(&self) -> bool {
        self.from == 0 && self.to == u64::MAX
    }

    /// Whether an item belongs to it. Damage always does: no one can say where it belongs.
    #[must_use]
    pub fn has(&self, item: &Item<'_>, names: &Names) -> bool {
        if self.is_all() {
            return true;
        }
        let (cpu, ts) = match item {
            Item::Record(record) => (record.cpu, record.ts),
            Item::Lost { cpu, ts, .. } => (*cpu, *ts),
            Item::Damage(_) => return true,
        };
        let ns = names.clock.ns(ts);
        let is_wanted = |set: CpuSet| set.iter().any(|wanted| wanted == cpu);
        self.cpus.is_none_or(is_wanted) && self.from <= ns && ns <= self.to
    }
}
