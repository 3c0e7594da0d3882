//! One boot of the image, and its block of results.

use std::ffi::OsString;
use std::io::BufReader;
use std::mem::offset_of;
use std::path::Path as FilePath;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use takt_timerlat::stats::view::Memory;
use takt_timerlat::sweep::{Arrival, ROOM, SweepBlock, SweepState, VERSION};

use super::config::{SweepConfig, What};
use super::path::{Marks, Path};
use takt_base::input;
use takt_base::paths;
use takt_base::term::WithHelp;
use takt_guest::Elf;
use takt_guest::Ram;
use takt_guest::log::Decoder;
use takt_guest::rtt::{Rtt, UP_LOG};
use takt_machine::qemu::{Accel, GuestExit, Machine, Process, Served};
use takt_machine::run::last_words::tail;
use takt_machine::run::signals::Interrupted;

/// A guest that measures no further arrival for this long, in real time, has stopped.
const SILENCE: Duration = Duration::from_secs(60);
const TICK: Duration = Duration::from_millis(20);
/// Arrivals before those that count.
const LEAD: u32 = 8;
/// Lines that are shown of each thing that a guest that failed has said.
const LAST_LINES: usize = 12;

/// What a boot says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Results {
    /// Instructions of the stretch when nothing interrupts it.
    pub(super) length: u32,
    /// The arrivals, in the order of their positions.
    pub(super) arrivals: Vec<Arrival>,
}

/// Whoever boots: the image, and where files may be put.
#[derive(Clone, Copy)]
pub(super) struct Booter<'b> {
    pub(super) elf: &'b Elf,
    pub(super) config: &'b SweepConfig,
    /// The version of the QEMU that is here.
    pub(super) qemu: &'b str,
    pub(super) dir: &'b FilePath,
    /// Whether to give up.
    pub(super) is_over: &'b (dyn Fn() -> bool + Sync),
}

impl Booter<'_> {
    /// Runs the stretch without any arrival and reads its path.
    pub(super) fn path(&self, what: &What) -> Result<Path> {
        let (path, results) = self.executed(what, 0, 0)?;
        if path.len() != results.length {
            bail!(
                "the stretch `{}` takes {} ns and has {} instructions: time passes without instructions where the CPU \
                 halts, and then arrivals cannot be told apart",
                what.name(),
                results.length,
                path.len()
            );
        }
        Ok(path)
    }

    /// Runs the stretch with an arrival from position `first` on and reads what was executed, the interrupt and all that it
    /// woke among it.
    pub(super) fn way(&self, what: &What, first: u32) -> Result<Path> {
        let lead = self.lead(first);
        let first = first - lead * self.config.step;
        Ok(self.executed(what, first, lead + 1)?.0)
    }

    fn executed(&self, what: &What, first: u32, count: u32) -> Result<(Path, Results)> {
        let marks = Marks::of(self.elf)?;
        let scratch = self.scratch()?;
        let log = scratch.path().join("executed");
        let logged = |arguments| marks.logged(arguments, self.qemu, &log);
        let results = self.boot(scratch.path(), what, first, count, logged, &|_| {})?;
        let file = input::open(&log).context("QEMU has not logged what it executed")?;
        let path = marks.read(BufReader::with_capacity(1 << 20, file), |ip| {
            self.elf.code_at(ip)
        })?;
        Ok((path, results))
    }

    /// Measures `count` arrivals from position `first` on; `measured` is told how many there are so far.
    pub(super) fn arrivals(
        &self,
        what: &What,
        first: u32,
        count: u32,
        measured: &dyn Fn(u32),
    ) -> Result<Results> {
        let scratch = self.scratch()?;
        let as_they_are = |arguments| arguments;
        let lead = self.lead(first);
        let first = first - lead * self.config.step;
        let told = |nr: u32| measured(nr.saturating_sub(lead));
        let mut results = self.boot(
            scratch.path(),
            what,
            first,
            count + lead,
            as_they_are,
            &told,
        )?;
        results.arrivals.drain(..lead as usize);
        Ok(results)
    }

    /// How many arrivals are made before one that counts. What a run finds, as the places of timers in their queue, may
    /// depend on the runs before: so each arrival comes after the same ones.
    fn lead(&self, first: u32) -> u32 {
        LEAD.min(first / self.config.step)
    }

    /// Parts that two versions of QEMU measured are not put together.
    fn check_qemu(&self) -> Result<()> {
        let begun = &self.config.qemu;
        if self.qemu != begun {
            return Err(anyhow!(
                "the sweep was begun with `{begun}`, and here is `{}`: what the two measure is not put together",
                self.qemu
            ))
            .help("name the first by TAKT_QEMU, or begin another sweep");
        }
        Ok(())
    }

    fn scratch(&self) -> Result<tempfile::TempDir> {
        tempfile::Builder::new()
            .prefix(".boot-")
            .suffix(&paths::passing_mark())
            .tempdir_in(self.dir)
            .with_context(|| format!("cannot make a folder in {}", self.dir.display()))
    }

    fn boot(
        &self,
        dir: &FilePath,
        what: &What,
        first: u32,
        count: u32,
        change: impl FnOnce(Vec<OsString>) -> Vec<OsString>,
        measured: &dyn Fn(u32),
    ) -> Result<Results> {
        self.check_qemu()?;
        let ram = Ram::create(dir)?;
        let machine = Machine {
            image: self.elf.path.clone(),
            ram: ram.path().to_owned(),
            dir: dir.to_owned(),
            cmdline: self.config.cmdline(what, first, count),
            smp: 1,
            accel: Accel::TcgIcount,
        };
        let messages = dir.join("messages");
        let exit = {
            let mut process = Process::start_with(&machine, change, &messages)?;
            let mut last = 0;
            let mut silent = Served::new(process.id());
            loop {
                if let Some(status) = process.try_wait()? {
                    break GuestExit::of(status, &messages);
                }
                if (self.is_over)() {
                    bail!(Interrupted("interrupted"));
                }
                let nr = Block::new(self.elf, &ram)?
                    .word(offset_of!(SweepBlock, nr))
                    .unwrap_or(0);
                if nr != last {
                    last = nr;
                    silent.restart();
                    measured(nr);
                } else if silent.has_had(SILENCE) {
                    bail!(
                        "the guest has measured {nr} arrivals of `{}` and then none for {} s: the stretch does not end",
                        what.name(),
                        SILENCE.as_secs()
                    );
                }
                thread::sleep(TICK);
            }
        };
        let block = Block::new(self.elf, &ram)?;
        let state = SweepState::from_u32(block.word(offset_of!(SweepBlock, state))?);
        if exit != GuestExit::Passed || state != Some(SweepState::Done) {
            bail!("{}", self.died(&machine, &messages, what, exit, &ram));
        }
        block.results(what)
    }

    /// What is known of a guest that did not do what it was told.
    fn died(
        &self,
        machine: &Machine,
        messages: &FilePath,
        what: &What,
        exit: GuestExit,
        ram: &Ram,
    ) -> String {
        let log = log(self.elf, ram).unwrap_or_default();
        let mut lines = vec![format!("the sweep of `{}` failed: {exit}", what.name())];
        lines.extend(tail(messages, LAST_LINES));
        lines.extend(tail(&machine.serial(), LAST_LINES));
        lines.extend_from_slice(&log[log.len().saturating_sub(LAST_LINES)..]);
        lines.join("\n    ")
    }
}

/// What the guest has logged.
fn log(elf: &Elf, ram: &Ram) -> Option<Vec<String>> {
    let bytes = Rtt::new(elf, ram)?.pending(UP_LOG).ok()?;
    let decoder = Decoder::new(elf).ok()?;
    let mut lines = Vec::new();
    decoder
        .stream()
        .push(&bytes, |line| lines.push(line.to_string()));
    Some(lines)
}

/// The guest's block.
struct Block<'r> {
    ram: &'r Ram,
    address: u64,
}

impl<'r> Block<'r> {
    fn new(elf: &Elf, ram: &'r Ram) -> Result<Self> {
        let address = elf.physical(SweepBlock::SYMBOL)?;
        Ok(Self { ram, address })
    }

    /// The word that lies so many bytes behind the block's beginning.
    fn word(&self, offset: usize) -> Result<u32> {
        let mut bytes = [0; 4];
        let address = self.address + offset as u64;
        self.ram.read_exact_at(address, &mut bytes)?;
        Ok(u32::from_le_bytes(bytes))
    }

    fn results(&self, what: &What) -> Result<Results> {
        if self.word(offset_of!(SweepBlock, version))? != VERSION {
            bail!("the image was built by another version of Takt");
        }
        let length = self.word(offset_of!(SweepBlock, length))?;
        let before = self.word(offset_of!(SweepBlock, length_before))?;
        if length != before {
            bail!(
                "`{}` is not the same each time: it took {before} instructions once and {length} the next time; a sweep \
                 needs a stretch that begins in the same state each time",
                what.name()
            );
        }
        let nr = (self.word(offset_of!(SweepBlock, nr))? as usize).min(ROOM);
        let mut bytes = vec![0; nr * Arrival::SIZE];
        let entries = self.address + offset_of!(SweepBlock, entries) as u64;
        self.ram.read_exact_at(entries, &mut bytes)?;
        let (entries, _) = bytes.as_chunks::<{ Arrival::SIZE }>();
        Ok(Results {
            length,
            arrivals: entries.iter().map(Arrival::from_bytes).collect(),
        })
    }
}
