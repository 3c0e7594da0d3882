//! [`Receiver`]: what the frames of a machine say.
//!
//! Frames are found again by their magic behind any damage. A length is believed up to what its channel can have, and a
//! frame that does not go on for a while is given up, so a damaged length stalls nothing. Each fault costs a frame, or two
//! where it lies between them; the end says how many were sent, so losses at the end count too. Results must not be lost:
//! the end names their frames, and the machine repeats what is missing until it is told that all are there. What belongs to
//! no frame and is text, a boot loader's or a fault's report, is kept.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Seek, Write};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use takt_timerlat::stats::MAX_CPUS;
use takt_tracer::wire::line::{
    AGAIN, CHANNEL_END, CHANNEL_HELLO, CHANNEL_MEMORY, End, HELLO_HEAD, Hello, Memory, NR_CHANNELS,
    TAKEN,
};
use takt_tracer::wire::{CHANNEL_LOG, CHANNEL_TRACE, FrameHeader, VERSION};

use takt_base::paths;
use takt_base::term::{WithHelp, printable};
use takt_guest::Ram;
use takt_guest::frames::Damage;
use takt_image::media;
use takt_machine::run::folder::SERIAL;

/// Longest payload but for a sub-buffer's: a command line.
const MAX_PAYLOAD: u32 = HELLO_HEAD as u32 + (4 << 10);
/// Largest sub-buffer that an image can have so that its trace goes over a line.
const MAX_SUB: u32 = 64 << 10;

/// Whether a header may be one. What a damaged length costs is bounded by it.
#[must_use]
pub fn is_plausible(header: &FrameHeader) -> bool {
    let most = match header.channel {
        CHANNEL_TRACE => MAX_SUB,
        _ => MAX_PAYLOAD,
    };
    usize::from(header.channel) < NR_CHANNELS
        && usize::from(header.cpu) < MAX_CPUS
        && header.len <= most
}

/// The image that the machine is to run.
#[derive(Clone, Debug)]
pub struct Image {
    /// Its file.
    pub path: PathBuf,
    /// Its build id.
    pub build_id: Vec<u8>,
    /// Whether the user has named it.
    pub is_named: bool,
}

/// Who sends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Greeting {
    /// The kernel's command line.
    pub command_line: String,
    /// TSC frequency in Hz.
    pub tsc_hz: u64,
    /// CPUs that run.
    pub nr_cpus: u32,
}

/// What a frame meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum News {
    /// Nothing to do.
    None,
    /// Figures have changed.
    Figures,
    /// The end has come. It is to be answered by this.
    Answer(u8),
    /// The machine began anew.
    Rebooted,
}

/// Takes frames in. Trace and log go to a file as they are, results into `ram`.
#[derive(Debug)]
pub struct Receiver {
    image: Image,
    capture: File,
    serial: File,
    ram: Ram,
    greeting: Option<Greeting>,
    /// The number of the last greeting.
    greeted: u32,
    /// Payloads of memory since the last greeting, by number: the results, once the end says which.
    memory: BTreeMap<u32, Vec<u8>>,
    /// The results as often as they were sent: the first number and the one behind the last. The latest come last.
    passes: Vec<(u32, u32)>,
    /// Frames of trace and log.
    nr_taken: u32,
    end: Option<End>,
    /// What belongs to no frame: bytes of text, others before the first greeting, others behind it.
    text: u64,
    noise: u64,
    damage: u64,
}

impl Receiver {
    /// Begins a run whose files are in `dir`.
    ///
    /// # Errors
    ///
    /// If they cannot be made.
    pub fn new(image: Image, dir: &Path, capture: &Path) -> Result<Self> {
        let create = |path: &Path| {
            File::create(path).with_context(|| format!("cannot write {}", path.display()))
        };
        Ok(Self {
            image,
            capture: create(capture)?,
            serial: create(&dir.join(SERIAL))?,
            ram: memory_of(dir)?,
            greeting: None,
            greeted: 0,
            memory: BTreeMap::new(),
            passes: Vec::new(),
            nr_taken: 0,
            end: None,
            text: 0,
            noise: 0,
            damage: 0,
        })
    }

    /// Who sends, once that is known.
    #[must_use]
    pub fn greeting(&self) -> Option<&Greeting> {
        self.greeting.as_ref()
    }

    /// The machine's memory, as far as it was sent.
    #[must_use]
    pub fn ram(&self) -> &Ram {
        &self.ram
    }

    /// How it ended, once that is known.
    #[must_use]
    pub fn end(&self) -> Option<End> {
        self.end
    }

    /// Bytes before the first greeting that belong to no frame: those of text, and others.
    #[must_use]
    pub fn before(&self) -> (u64, u64) {
        (self.text, self.noise)
    }

    /// What came before is of a machine that was switched off or on, or of its firmware.
    pub fn forget_before(&mut self) {
        (self.text, self.noise) = (0, 0);
    }

    /// Begins anew: what came so far was of another run.
    ///
    /// # Errors
    ///
    /// If a file cannot be emptied.
    pub fn restart(&mut self) -> Result<()> {
        for file in [&mut self.capture, &mut self.serial] {
            file.set_len(0)
                .and_then(|()| file.rewind())
                .context("cannot write what came")?;
        }
        self.forget_before();
        Ok(())
    }

    /// Frames of trace and log so far.
    #[must_use]
    pub fn nr_taken(&self) -> u32 {
        self.nr_taken
    }

    /// Frames of trace and log that were sent and did not come, once the machine has said how many it sent.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.end
            .map_or(0, |end| end.sent.saturating_sub(self.nr_taken))
            .into()
    }

    /// What belongs to no sound frame, with what the reader of frames says of it.
    #[must_use]
    pub fn damage(&self, of_reader: Damage) -> Damage {
        Damage {
            bytes: self.damage,
            is_cut: of_reader.is_cut && self.end.is_none(),
            frames: match self.greeting {
                Some(_) => of_reader.frames,
                None => 0,
            },
        }
    }

    /// Takes what belongs to no frame. Text is what the machine's firmware, its boot loader or the report of a fault has
    /// written; before the first frame (`is_before`) nothing is damage.
    ///
    /// # Errors
    ///
    /// If it cannot be written.
    pub fn stray(&mut self, bytes: &[u8], is_before: bool) -> io::Result<()> {
        let is_before = is_before || self.greeting.is_none();
        let is_text = if is_before { is_firmwares } else { is_text };
        for line in bytes.split_inclusive(|byte| *byte == b'\n') {
            let len = line.len() as u64;
            if is_text(line) {
                self.text += len;
                self.serial.write_all(line)?;
            } else if is_before {
                self.noise += len;
            } else {
                self.damage += len;
            }
        }
        Ok(())
    }

    /// Takes a sound frame.
    ///
    /// # Errors
    ///
    /// If the image is another one, the version is not ours, or a file cannot be written.
    pub fn take(&mut self, header: &FrameHeader, payload: &[u8]) -> Result<News> {
        if header.version != VERSION {
            bail!(
                "the machine sends frames of version {}, this tool reads {VERSION}",
                header.version
            );
        }
        match header.channel {
            CHANNEL_HELLO => return self.greet(header.seq, payload),
            CHANNEL_MEMORY => {
                apply(&self.ram, payload)?;
                self.memory.insert(header.seq, payload.to_owned());
                return Ok(News::Figures);
            }
            CHANNEL_END => {
                let end = End::decode(payload).context("the machine's end is too short")?;
                return self.finish(end);
            }
            CHANNEL_TRACE | CHANNEL_LOG => {
                self.capture.write_all(&header.encode())?;
                self.capture.write_all(payload)?;
                self.nr_taken += 1;
            }
            other => bail!("the machine sent a frame on unknown channel {other}"),
        }
        Ok(News::None)
    }

    fn greet(&mut self, number: u32, payload: &[u8]) -> Result<News> {
        let hello = Hello::decode(payload).context("the machine's greeting is too short")?;
        self.check(&hello.build_id)?;
        let is_new = self.greeting.is_some() && number <= self.greeted;
        self.greeted = number;
        self.greeting = Some(Greeting {
            command_line: printable(hello.command_line),
            tsc_hz: hello.tsc_hz,
            nr_cpus: hello.nr_cpus,
        });
        // Results come in one go, with no greeting between them.
        self.memory.clear();
        self.passes.clear();
        Ok(match is_new {
            true => News::Rebooted,
            false => News::None,
        })
    }

    /// Refuses another image's run: nothing of it could be read.
    fn check(&self, sent: &[u8]) -> Result<()> {
        let ours = &self.image.build_id;
        if ours == sent {
            return Ok(());
        }
        let path = self.image.path.display();
        let error = match sent.iter().all(|byte| *byte == 0) {
            true => anyhow!("the machine's image was linked without a build id"),
            false => anyhow!(
                "the machine runs another image: its build id is {}, that of {path} is {}",
                media::hex(sent),
                media::hex(ours)
            ),
        };
        let kept = media::kept(sent);
        Err(error).help(match self.image.is_named {
            true => "name the very ELF file that the machine has booted, unstripped: --image ELF".into(),
            false if kept.is_file() => format!(
                "its medium was made from other sources, or with other flags: --image {}",
                paths::shown(&kept)
            ),
            false => "no medium with it was made here: name the ELF file that it was made from, --image ELF, or make one \
                      (cargo xtask image)"
                .into(),
        })
    }

    /// Notes the end, if all results are there; says what is to be answered.
    fn finish(&mut self, end: End) -> Result<News> {
        self.passes.push((end.first, end.next));
        let Some(results) = self.results() else {
            return Ok(News::Answer(AGAIN));
        };
        if !results.is_empty() && self.end.is_none() {
            // What was sent while the run went on may be in it no more.
            self.ram.clear()?;
            for payload in results {
                apply(&self.ram, payload)?;
            }
        }
        self.end = Some(end);
        Ok(News::Answer(TAKEN))
    }

    /// The results, as they were sent last; what is damaged there is taken from an earlier time, if the same was sent then: as
    /// many frames, and equal ones where both have come. `None` if a frame has never come.
    fn results(&self) -> Option<Vec<&[u8]>> {
        let (first, next) = *self.passes.last()?;
        // No image has more.
        let numbers = 0..next.wrapping_sub(first).min(1 << 16);
        let came = |first: u32, n| self.memory.get(&first.wrapping_add(n));
        let is_same = |other: u32| {
            numbers
                .clone()
                .all(|n| match (came(first, n), came(other, n)) {
                    (Some(now), Some(then)) => now == then,
                    _ => true,
                })
        };
        let alike: Vec<_> = self
            .passes
            .iter()
            .filter(|it| it.1.wrapping_sub(it.0) == next.wrapping_sub(first) && is_same(it.0))
            .map(|it| it.0)
            .collect();
        numbers
            .clone()
            .map(|n| {
                alike
                    .iter()
                    .find_map(|first| came(*first, n))
                    .map(Vec::as_slice)
            })
            .collect()
    }
}

/// A file for the memory that is sent, of which nobody else needs the name.
fn memory_of(dir: &Path) -> Result<Ram> {
    let ram = Ram::create(dir)?;
    ram.unlink();
    Ok(ram)
}

/// Writes what a payload has of the machine's memory. What lies beyond the memory that an image has is no image's.
fn apply(ram: &Ram, payload: &[u8]) -> Result<()> {
    for (address, bytes) in Memory::decode(payload).into_iter().flatten() {
        ram.write_at(address, bytes)
            .context("the machine's memory cannot be kept")?;
    }
    Ok(())
}

/// Whether bytes are text: at the wrong speed, and of a frame that was cut, hardly any are.
#[must_use]
pub fn is_text(bytes: &[u8]) -> bool {
    let is_odd = |byte: &&u8| !matches!(**byte, b' '..=b'~' | b'\t' | b'\r' | b'\n' | 0x1b | 0x08);
    bytes.iter().filter(is_odd).count() * 8 <= bytes.len()
}

/// Whether bytes are what a firmware writes, whose menus have frames: in UTF-8, or in code page 437.
fn is_firmwares(bytes: &[u8]) -> bool {
    // Lines, corners, shades and blocks.
    const FRAMES: RangeInclusive<u8> = 0xb0..=0xdf;
    let plain: Vec<u8> = bytes
        .utf8_chunks()
        .flat_map(|chunk| {
            let valid = chunk.valid().chars().map(|c| match c.is_ascii() {
                true => c as u8,
                false => b' ',
            });
            let others = chunk
                .invalid()
                .iter()
                .map(|byte| match FRAMES.contains(byte) {
                    true => b' ',
                    false => *byte,
                });
            valid.chain(others).collect::<Vec<_>>()
        })
        .collect();
    is_text(&plain)
}

#[cfg(test)]
mod tests;
