//! `trace`: the trace of a run as ftrace's text, or as JSON lines.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use takt_tracer::decode::{Item, TraceFile, write_header, write_item, write_json};

use super::output::{self, Output};
use crate::cli::Read as Flags;
use crate::guest::trace::Decoder;
use crate::image::Elf;
use crate::paths;
use crate::report::load::{self, Facts};
use crate::run::folder;

/// Prints the trace. What is damaged is said on stderr; the records before and behind it are
/// printed.
pub(super) fn run(flags: &Flags) -> Result<ExitCode> {
    let dir = folder::find(flags.run.as_deref(), &paths::runs())?;
    let elf = Elf::open(&dir.join(folder::IMAGE))?;
    let path = dir.join(folder::TRACE);
    let file = File::open(&path).with_context(|| format!("cannot open {}", path.display()))?;
    let trace = TraceFile::open(BufReader::new(file))
        .with_context(|| format!("cannot read {}", path.display()))?;
    output::check_image(trace.header().image, &elf)?;
    let facts = Facts::read(&dir);
    facts.check_tsc(trace.header().tsc_hz)?;
    let decoder = decoder(&dir, &elf, trace.header().tsc_hz)?;
    let (found, size) = (trace.nr_records(), output::size(&path));
    output::to_stdout(|out| {
        print(trace, decoder, flags.json, out)?;
        let expected = facts.capture.map_or(0, |capture| capture.events);
        output::check_end(size, "events", found, expected)
    })
}

/// The run knows its threads' names. A run that cannot be read is no reason to give up: the trace
/// tells most of them itself.
fn decoder(dir: &Path, elf: &Elf, tsc_hz: u64) -> Result<Decoder> {
    let threads = load::load(dir)
        .map(|run| run.record.threads)
        .unwrap_or_default();
    Decoder::new(
        elf,
        tsc_hz,
        threads
            .iter()
            .map(|thread| (thread.tid, thread.name.as_str())),
    )
}

fn print(
    mut trace: TraceFile<BufReader<File>>,
    decoder: Decoder,
    is_json: bool,
    out: &mut Output,
) -> Result<()> {
    let Decoder { table, mut names } = decoder;
    let (in_file, nr_cpus) = (trace.nr_records(), trace.header().nr_cpus);
    let mut damages = trace.nr_damages();
    for damage in trace.damage() {
        eprintln!("damaged: {damage}");
    }
    if !is_json {
        write_header(&mut *out, in_file, in_file + trace.nr_lost(), nr_cpus)?;
    }
    for item in trace.merge(&table) {
        let item = item?;
        if let Item::Damage(damage) = &item {
            damages += 1;
            eprintln!("damaged: {damage}");
        }
        if is_json {
            write_json(&mut *out, &item, &mut names)?;
        } else {
            write_item(&mut *out, &item, &mut names)?;
        }
    }
    if damages != 0 {
        bail!("the trace is damaged in {}", output::places(damages));
    }
    Ok(())
}
