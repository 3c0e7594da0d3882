//! `log`: the defmt log of a run.

use std::fs::File;
use std::io::{BufReader, Write};
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use console::style;
use takt_decode::{Entry, FrameReader};

use takt_base::input;
use takt_base::output::{self, Output};
use takt_base::{paths, term};
use takt_cli::Read as Flags;
use takt_guest::log::{Decoder, Line};
use takt_machine::judge;
use takt_machine::load::Facts;
use takt_machine::run::{folder, recorded};

/// Prints the log, and says what is missing in it.
pub(super) fn run(flags: &Flags) -> Result<ExitCode> {
    let dir = folder::find(flags.run.as_deref(), &paths::runs())?;
    let facts = Facts::read(&dir);
    let printed = print(&dir, &facts, flags.json);
    // Nobody can say where in the log.
    let missing = facts.capture.map_or(0, |capture| capture.log.missing);
    if missing != 0 {
        term::note(format_args!("{missing} frames of the log are missing"));
    }
    if facts.log_dropped != 0 {
        term::note(judge::no_room(facts.log_dropped));
    }
    printed
}

/// Prints the log of a run. What is damaged is said on stderr; the lines before and behind it are printed.
pub(super) fn print(dir: &Path, facts: &Facts, is_json: bool) -> Result<ExitCode> {
    let elf = folder::image(dir)?;
    let decoder = Decoder::new(&elf)?;
    let path = dir.join(folder::LOG);
    let file = input::open(&path).with_context(|| format!("cannot open {}", path.display()))?;
    let frames = FrameReader::log(BufReader::new(file))
        .with_context(|| format!("cannot read {}", path.display()))?;
    recorded::check_image(frames.header().image, &elf)?;
    facts.check_tsc(frames.header().tsc_hz)?;
    let size = recorded::size(&path);
    output::to_stdout(|out| {
        let found = print_frames(frames, &decoder, is_json, out)?;
        let expected = facts.capture.map_or(0, |capture| capture.log.frames);
        recorded::check_end(size, "frames", found, expected)
    })
}

/// Prints the lines; gives the number of frames they were in.
fn print_frames(
    mut frames: FrameReader<BufReader<File>>,
    decoder: &Decoder,
    is_json: bool,
    out: &mut Output,
) -> Result<u64> {
    let mut stream = decoder.stream();
    let mut written = Ok(());
    let (mut damages, mut sound) = (0u64, 0u64);
    while let Some(entry) = frames.next_entry()? {
        match entry {
            Entry::Damage(damage) => {
                damages += 1;
                tell!("damaged: {damage}");
            }
            Entry::Frame(frame) => {
                sound += 1;
                stream.push(&frame.payload, |line| {
                    if written.is_ok() {
                        written = write_line(&line, is_json, out);
                    }
                });
            }
        }
        std::mem::replace(&mut written, Ok(()))?;
    }
    if damages != 0 {
        bail!("the log is damaged in {}", recorded::places(damages));
    }
    if stream.malformed() != 0 {
        bail!("{} messages of the log make no sense", stream.malformed());
    }
    Ok(sound)
}

fn write_line(line: &Line, is_json: bool, out: &mut Output) -> Result<()> {
    if is_json {
        return Ok(out.write_all(output::json(line)?.as_bytes())?);
    }
    let text = line.to_string();
    match line.level.as_str() {
        "error" => writeln!(out, "{}", style(text).red()),
        "warn" => writeln!(out, "{}", style(text).yellow()),
        "debug" | "trace" => writeln!(out, "{}", style(text).dim()),
        _ => writeln!(out, "{text}"),
    }
    .map_err(Into::into)
}
