//! `trace`: the trace of a run as ftrace's text, or in the format of another tool.

use std::env;
use std::fs::File;
use std::io::{self, BufReader, IsTerminal, Write};
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result, anyhow, bail};
use takt_decode::filter::{Filter, FilterError, Filters};
use takt_decode::{Damage, EventTable, Item, TraceFile};

use takt_base::term::WithHelp;
use takt_base::units::CpuSet;
use takt_base::{input, output, paths, term};
use takt_cli::Trace as Flags;
use takt_guest::Elf;
use takt_guest::trace::Decoder;
use takt_host::latency::{Finder, Lines, Stretch, is_latency_tracer};
use takt_host::{Format, Origin, Output, Selection, Wanted};
use takt_machine::load::Facts;
use takt_machine::run::{folder, recorded};

/// Writes the trace. What is damaged is said on stderr; the records before and behind it are written.
pub(super) fn run(flags: &Flags) -> Result<ExitCode> {
    let dir = folder::find(flags.run.as_deref(), &paths::runs())?;
    let format = if flags.json {
        Format::Json
    } else {
        flags.format
    };
    let selection = Selection {
        cpus: flags.cpu,
        from: flags.from.unwrap_or(0),
        to: flags.to.unwrap_or(u64::MAX),
    };
    if selection.from > selection.to {
        bail!("--from is behind --to");
    }
    if flags.output.is_none() && format.is_binary() && io::stdout().is_terminal() {
        return Err(anyhow!("{format} is binary, and this is a terminal"))
            .help("name a file: -o FILE");
    }
    if flags.output.is_none() && format.is_folder() {
        return Err(anyhow!(
            "{format} is a folder, which has no place on stdout"
        ))
        .help("name it: -o DIR");
    }
    let filters = parse_filters(&flags.filter)?;
    let mut source = Source::open(&dir, selection)?;
    source.filters = filters;
    match &flags.output {
        None => output::to_stdout(|out| {
            source.write(format, selection, Output::Stream(out), &env::temp_dir())
        }),
        Some(path) if format.is_folder() => output::to_folder(path, |dir| {
            source.write(format, selection, Output::Folder(dir), dir)
        }),
        Some(path) => {
            // Where there is room for the output there is room for its parts.
            let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty());
            let spool = dir.unwrap_or(Path::new("."));
            output::to_file(path, |out| {
                source.write(format, selection, Output::Stream(out), spool)
            })
        }
    }
}

/// Prints all of a run's trace as text.
pub(super) fn print(dir: &Path) -> Result<ExitCode> {
    let source = Source::open(dir, Selection::ALL)?;
    output::to_stdout(|out| {
        source.write(
            Format::Text,
            Selection::ALL,
            Output::Stream(out),
            &env::temp_dir(),
        )
    })
}

/// Writes all of a run's trace as text to a file, and says so.
pub(super) fn save(dir: &Path, file: &Path) -> Result<()> {
    let source = Source::open(dir, Selection::ALL)?;
    output::to_file(file, |out| {
        source.write(
            Format::Text,
            Selection::ALL,
            Output::Stream(out),
            &env::temp_dir(),
        )
    })?;
    tell!("Saved the trace to {}", file.display());
    Ok(())
}

/// Some sub-buffers at a time. Those of another CPU may be far away, so not too many.
const BUFFER: usize = 64 << 10;

/// A trace and what is needed to read it.
struct Source {
    /// The image that has recorded it.
    elf: Elf,
    trace: TraceFile<BufReader<File>>,
    decoder: Decoder,
    /// What records have to be, with their texts.
    filters: Vec<(String, Filter)>,
    /// Bytes of the file.
    size: u64,
    /// Events that the run has counted, if it has.
    expected: u64,
    /// The tracer that ran, if it is known.
    tracer: Option<String>,
}

impl Source {
    /// Opens a run's trace, to write a part of it or all.
    fn open(dir: &Path, selection: Selection) -> Result<Self> {
        let elf = folder::image(dir)?;
        let path = dir.join(folder::TRACE);
        let file = input::open(&path).with_context(|| format!("cannot open {}", path.display()))?;
        let is_wanted = |cpu| {
            let is_it = |cpus: CpuSet| cpus.iter().any(|wanted| wanted == cpu);
            selection.cpus.is_none_or(is_it)
        };
        let trace = TraceFile::open_range(
            BufReader::with_capacity(BUFFER, file),
            selection.from..=selection.to,
            is_wanted,
        )
        .with_context(|| format!("cannot read {}", path.display()))?;
        recorded::check_image(trace.header().image, &elf)?;
        let facts = Facts::read(dir);
        facts.check_tsc(trace.header().tsc_hz)?;
        let threads = facts.threads.iter();
        let decoder = Decoder::new(
            &elf,
            trace.header().tsc_hz,
            threads.map(|thread| (thread.tid, thread.name.as_str())),
        )?;
        Ok(Self {
            elf,
            trace,
            decoder,
            filters: Vec::new(),
            size: recorded::size(&path),
            expected: facts.capture.map_or(0, |capture| capture.events),
            tracer: facts.tracer,
        })
    }

    fn write(
        self,
        format: Format,
        selection: Selection,
        output: Output<'_>,
        spool: &Path,
    ) -> Result<()> {
        match output {
            Output::Stream(out) if format.is_text() => {
                let mut printable = term::Printable::new(out);
                let stream = Output::Stream(&mut printable);
                let written = self.export(format, selection, stream, spool);
                // What was written before an error comes out.
                let flushed = printable.flush();
                written.and_then(|()| Ok(flushed?))
            }
            output => self.export(format, selection, output, spool),
        }
    }

    fn export(
        mut self,
        format: Format,
        selection: Selection,
        output: Output<'_>,
        spool: &Path,
    ) -> Result<()> {
        let is_whole = self.trace.is_whole();
        let found = match is_whole {
            true => self.trace.nr_records(),
            // What is further on was not read.
            false => self.trace.nr_records().max(self.expected),
        };
        let nr_cpus = self.trace.header().nr_cpus;
        let is_missing = |cpu: &u8| u32::from(*cpu) >= nr_cpus;
        if let Some(cpu) = selection.cpus.and_then(|cpus| cpus.iter().find(is_missing)) {
            bail!("--cpu: there is no CPU {cpu}, the run had {nr_cpus}");
        }
        let Decoder {
            table,
            mut names,
            symbols,
        } = self.decoder;
        let filters = bind_filters(&self.filters, &table)?;
        let tracer = self.tracer.as_deref().unwrap_or("nop");
        let stretch = match format {
            Format::Latency if selection.is_of_all_times() && is_latency_tracer(tracer) => {
                find_stretch(&mut self.trace, &table, tracer)?
            }
            _ => None,
        };
        let places = stretch
            .map(|stretch| Lines::of(&stretch, &self.elf))
            .unwrap_or_default();
        let origin = Origin {
            table: &table,
            symbols: &symbols,
            spool,
            tracer,
            stretch,
            places: &places,
        };
        let mut damages = self.trace.nr_damages();
        let nr_cpus = self.trace.header().nr_cpus;
        let damaged_frames = self.trace.damage().to_vec();
        for damage in &damaged_frames {
            tell!("damaged: {damage}");
        }
        // Borrowed anew, for as long as the origin lives.
        let output = match output {
            Output::Stream(out) => Output::Stream(&mut *out),
            Output::Folder(dir) => Output::Folder(dir),
        };
        let mut export = takt_host::export(format, output, &origin)?;
        export.begin(takt_host::Facts {
            in_file: found,
            lost: self.trace.nr_lost(),
            nr_cpus,
        })?;
        // No one can say at what time these were recorded, so they come first; where the gap is is said there.
        for damage in damaged_frames {
            export.item(&Item::Damage(damage), &mut names)?;
        }
        let wanted = Wanted {
            table: &table,
            filters: &filters,
            selection,
        };
        let note = |damage: &Damage| tell!("damaged: {damage}");
        let passed = takt_host::pass(&mut self.trace, &wanted, &mut names, &mut *export, &note)?;
        damages += passed.nr_damages;
        if is_whole
            && let Some(lost) = passed.lost_at_end(nr_cpus, found, self.expected)
            && selection.has(&lost, &names)
        {
            export.item(&lost, &mut names)?;
        }
        export.end(&names)?;
        // An empty output may as well be of an empty trace.
        if passed.nr_matching == 0 && !(selection.is_all() && self.filters.is_empty()) {
            term::note(format_args!("0 of {found} records are what was asked for"));
        }
        if damages != 0 {
            bail!("the trace is damaged in {}", recorded::places(damages));
        }
        if !is_whole && self.expected == 0 {
            term::note(
                "the trace was read up to that time: how many records it has is said of that part",
            );
        }
        // Of a part that was not read nothing is known.
        recorded::check_end(self.size, "events", found, self.expected)
    }
}

/// The stretch that a latency tracer has kept last.
fn find_stretch(
    trace: &mut TraceFile<BufReader<File>>,
    table: &EventTable,
    tracer: &str,
) -> Result<Option<Stretch>> {
    let mut finder = Finder::new(tracer);
    for item in trace.merge(table) {
        if let Item::Record(record) = item? {
            finder.see(&record);
        }
    }
    Ok(finder.found())
}

fn parse_filters(texts: &[String]) -> Result<Vec<(String, Filter)>> {
    let parse = |text: &String| match Filter::parse(text) {
        Ok(filter) => Ok((text.clone(), filter)),
        Err(error) => Err(bad_filter(text, &error)),
    };
    texts.iter().map(parse).collect()
}

fn bind_filters<'t>(filters: &[(String, Filter)], table: &'t EventTable) -> Result<Filters<'t>> {
    let parsed: Vec<_> = filters.iter().map(|(_, filter)| filter.clone()).collect();
    Filters::bind(&parsed, table).map_err(|(error, number)| bad_filter(&filters[number].0, &error))
}

/// The filter with a caret under the place.
fn bad_filter(text: &str, error: &FilterError) -> anyhow::Error {
    let shown = error.caret(text).replace('\n', "\n  ");
    anyhow!("--filter: {error}\n  {shown}")
}
