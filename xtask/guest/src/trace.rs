//! Decoding the guest's trace.

use std::collections::VecDeque;
use std::io::{Cursor, Read, Seek, SeekFrom};
use std::path::Path;
use std::rc::Rc;

use anyhow::{Context, Result};
use takt_decode::{EventTable, Item, Names, Threads, TraceFile, write_item};
use takt_timerlat::stats::MAX_CPUS;
use takt_tracer::wire::{FileHeader, FrameHeader};

use crate::symbolize::{Inlined, SymbolNames};
use crate::{Elf, events};
use takt_base::input;

/// The symbol whose value is the image's number of CPUs (`takt_kernel::config`).
const NR_IDLE: &str = "takt_max_cpus";

/// What is needed to make text of a trace.
#[derive(Debug)]
pub struct Decoder {
    /// The events of the image.
    pub table: EventTable,
    /// Names of threads and symbols.
    pub names: Names,
    /// The functions of the image.
    pub symbols: Rc<SymbolNames>,
}

impl Decoder {
    /// For traces of `elf` with this TSC frequency. The idle threads are those below the image's
    /// number of CPUs; `threads` are names that the trace itself may not tell.
    ///
    /// # Errors
    ///
    /// If the image's event descriptions cannot be read.
    pub fn new<'t>(
        elf: &Elf,
        tsc_hz: u64,
        threads: impl IntoIterator<Item = (u8, &'t str)>,
    ) -> Result<Self> {
        let nr_idle = elf.symbol(NR_IDLE).ok();
        let nr_idle = nr_idle.and_then(|value| u16::try_from(value).ok());
        let mut known = Threads::new(nr_idle.unwrap_or(MAX_CPUS as u16));
        for (tid, name) in threads {
            known.name(tid, name);
        }
        let symbols = Rc::new(SymbolNames::new(elf));
        let lookup = Rc::clone(&symbols);
        let inlined = Inlined::new(elf);
        let names = Names::new(tsc_hz, known)
            .with_symbols(move |address| lookup.nearest(address))
            .with_inlined(move |address| inlined.at(address));
        Ok(Self {
            table: events::table(elf)?,
            names,
            symbols,
        })
    }
}

/// Frames at the beginning of a trace that are looked at for the names of threads, and at its end
/// for the last events.
const FIRST_FRAMES: u64 = 2;
const LAST_FRAMES: u64 = 16;

/// The last events of a trace file, as text. Takes the same time however long the trace is.
///
/// # Errors
///
/// If the file or the image's descriptions cannot be read.
pub fn last_events(path: &Path, elf: &Elf, count: usize) -> Result<Vec<String>> {
    let mut trace =
        TraceFile::open(Cursor::new(ends_of(path)?)).context("the trace cannot be read")?;
    let Decoder {
        table, mut names, ..
    } = Decoder::new(elf, trace.header().tsc_hz, [])?;
    let mut last = VecDeque::new();
    for item in trace.merge(&table) {
        let item = item?;
        if !matches!(item, Item::Record(_)) {
            continue;
        }
        let mut line = Vec::new();
        write_item(&mut line, &item, &mut names)?;
        last.push_back(String::from_utf8_lossy(&line).trim_end().to_owned());
        if last.len() > count {
            last.pop_front();
        }
    }
    Ok(last.into())
}

/// The header of a trace file with its first and last frames, which all have the same size.
fn ends_of(path: &Path) -> Result<Vec<u8>> {
    let mut file = input::open(path).with_context(|| format!("cannot open {}", path.display()))?;
    let mut bytes = vec![0; FileHeader::SIZE];
    file.read_exact(&mut bytes)
        .context("the trace is shorter than its header")?;
    let (header, len) = FileHeader::decode(&bytes).context("the trace has no header")?;
    let frame = FrameHeader::SIZE as u64 + u64::from(header.sub_size);
    let frames = file.metadata()?.len().saturating_sub(len.into()) / frame;
    let mut take = |from: u64, count: u64| -> Result<()> {
        file.seek(SeekFrom::Start(u64::from(len) + from * frame))?;
        (&file).take(count * frame).read_to_end(&mut bytes)?;
        Ok(())
    };
    let first = frames.min(FIRST_FRAMES);
    take(0, first)?;
    let last = (frames - first).min(LAST_FRAMES);
    take(frames - last, last)?;
    Ok(bytes)
}
