//! `log`: the defmt log of a run.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use console::style;
use takt_tracer::wire::{FILE_MAGIC_LOG, FileHeader, VERSION};

use crate::cli::Read as Flags;
use crate::guest::log::{Decoder, Line};
use crate::image::Elf;
use crate::paths;
use crate::run::folder;
use crate::run::frames::FrameReader;

/// Prints the log.
pub(super) fn run(flags: &Flags) -> Result<ExitCode> {
    let dir = folder::find(flags.run.as_deref(), &paths::runs())?;
    let elf = Elf::open(&dir.join(folder::IMAGE))?;
    let decoder = Decoder::new(&elf)?;
    let path = dir.join(folder::LOG);
    let input = open(&path, &elf).with_context(|| format!("cannot read {}", path.display()))?;
    let mut out = BufWriter::new(io::stdout().lock());
    match print(input, &decoder, flags.json, &mut out).and_then(|()| Ok(out.flush()?)) {
        Err(error) if is_broken_pipe(&error) => Ok(ExitCode::SUCCESS),
        result => result.map(|()| ExitCode::SUCCESS),
    }
}

/// Opens the file behind its header.
fn open(path: &Path, elf: &Elf) -> Result<BufReader<File>> {
    let mut input = BufReader::new(File::open(path)?);
    let mut head = [0; FileHeader::SIZE];
    input
        .read_exact(&mut head)
        .context("offset 0: the file is shorter than its header")?;
    let (header, len) = FileHeader::decode(&head).context("offset 0: no header")?;
    if header.magic != FILE_MAGIC_LOG {
        bail!("offset 0: this is no log file");
    }
    if header.version != u32::from(VERSION) {
        bail!(
            "offset 12: version {}, this tool reads {VERSION}",
            header.version
        );
    }
    if header.image != takt_tracer::wire::checksum(&elf.data) {
        bail!(
            "offset 24: the log is of another image than {}",
            elf.path.display()
        );
    }
    let skip = u64::from(len).saturating_sub(FileHeader::SIZE as u64);
    io::copy(&mut input.by_ref().take(skip), &mut io::sink())?;
    Ok(input)
}

fn print(
    input: BufReader<File>,
    decoder: &Decoder,
    is_json: bool,
    out: &mut impl Write,
) -> Result<()> {
    let mut frames = FrameReader::new(input);
    let mut stream = decoder.stream();
    let mut written = Ok(());
    while let Some((_, payload)) = frames.next()? {
        stream.push(payload, |line| {
            if written.is_ok() {
                written = write_line(&line, is_json, out);
            }
        });
        std::mem::replace(&mut written, Ok(()))?;
    }
    let damage = frames.damage();
    if damage.bytes != 0 {
        bail!(
            "{} bytes of the log are no sound frames ({} damaged, cut: {})",
            damage.bytes,
            damage.frames,
            damage.is_cut
        );
    }
    if stream.malformed() != 0 {
        bail!("{} lines of the log make no sense", stream.malformed());
    }
    Ok(())
}

fn write_line(line: &Line, is_json: bool, out: &mut impl Write) -> io::Result<()> {
    if is_json {
        serde_json::to_writer(&mut *out, line)?;
        return writeln!(out);
    }
    let text = line.to_string();
    match line.level.as_str() {
        "error" => writeln!(out, "{}", style(text).red()),
        "warn" => writeln!(out, "{}", style(text).yellow()),
        "debug" | "trace" => writeln!(out, "{}", style(text).dim()),
        _ => writeln!(out, "{text}"),
    }
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error
        .downcast_ref::<io::Error>()
        .is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}
