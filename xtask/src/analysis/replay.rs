//! The same run once more. Under icount it is the same to the instruction, so what is counted from outside this time is what
//! was executed the first time, and costs the guest nothing.

use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail, ensure};
use tempfile::TempDir;

use super::executed::Executed;
use super::marks::Marks;
use crate::counted::Plugin;
use crate::counted::log::{Event, Log};
use crate::guest::{self, stacks, stacks::Stack};
use crate::image::Elf;
use crate::qemu::{Accel, GuestExit, Machine, Process, Ram, Served, pipe};
use crate::report::Run;
use crate::run::collect::Results;
use crate::run::folder;
use crate::run::hits::Hits;

/// Events of the log that are kept, the last ones: some million instructions.
const ROOM: usize = 2 << 20;
/// A guest that executes nothing for this long, in real time, has stopped.
const SILENCE: Duration = Duration::from_secs(60);
const TICK: Duration = Duration::from_millis(5);
/// Bytes of the log that are read at once.
const BUFFER: usize = 1 << 20;

/// A guest that has run under the plugin.
#[derive(Debug)]
pub struct Counted {
    /// What it executed.
    pub executed: Executed,
    /// The stacks of its threads when a latency above its threshold ended it; none if none did.
    pub stacks: BTreeMap<u8, Stack>,
    /// The machine, with its files.
    pub machine: Machine,
    /// Its memory.
    pub ram: Ram,
    _scratch: TempDir,
}

/// Boots the run in `dir` again.
///
/// # Errors
///
/// If it was no run under icount, QEMU takes no plugins, or the second run is another one.
pub fn run(dir: &Path, run: &Run, elf: &Elf) -> Result<Counted> {
    let record = &run.record;
    ensure!(
        record.accel.accel == Accel::TcgIcount,
        "only a run under icount is the same when it is run again"
    );
    let image = dir.join(folder::IMAGE);
    let cmdline = record.kernel_cmdline.clone();
    let counted = boot(image, cmdline, record.config.smp, elf, GuestExit::Threshold)?;
    let results = Results::read(&guest::status(elf, &counted.ram)?)?;
    ensure!(
        results.stop_record() == record.stop,
        "the run was repeated and was another one"
    );
    Ok(counted)
}

/// Boots an image under the plugin.
///
/// # Errors
///
/// If QEMU takes no plugins, or the guest ends otherwise than `expected`.
pub fn boot(
    image: PathBuf,
    cmdline: String,
    smp: u8,
    elf: &Elf,
    expected: GuestExit,
) -> Result<Counted> {
    let marks = Marks::of(elf);
    let plugin = Plugin::with_marks(marks.addresses())?.standing_at_threshold(elf);
    let scratch = tempfile::tempdir().context("cannot make a temporary folder")?;
    let ram = Ram::create(scratch.path())?;
    let machine = Machine {
        image,
        ram: ram.path().to_owned(),
        dir: scratch.path().to_owned(),
        cmdline,
        smp,
        accel: Accel::TcgIcount,
    };
    let log = scratch.path().join("executed");
    let hits = Hits::new(scratch.path())?;
    let (events, stacks) = pipe::read_along(&log, read, || {
        let messages = scratch.path().join(folder::MESSAGES);
        let mut process = Process::start_with(
            &machine,
            |words| plugin.added_to(words, &log, Some(hits.paths())),
            &messages,
        )?;
        // The first one that counts ends the run; others may come before it is over.
        let look = || {
            let is_stopped = guest::status(elf, &ram)?.stop()?.is_some();
            Ok((!is_stopped).then(|| stacks::all(elf, &ram)))
        };
        let (exit, stacks) = along(&hits, look, || wait(&mut process, &messages))?;
        match exit {
            exit if exit == expected => Ok(stacks),
            exit => bail!("the run was repeated and ended otherwise: {exit}"),
        }
    })?;
    Ok(Counted {
        executed: Executed::new(Rc::new(marks), events),
        stacks,
        machine,
        ram,
        _scratch: scratch,
    })
}

/// Has `look` look at the guest whenever it stands, while `run` goes on. Gives what `run` says, and the last that `look` saw.
fn along<L: Default + Send, R>(
    hits: &Hits,
    look: impl Fn() -> Result<Option<L>> + Sync,
    run: impl FnOnce() -> Result<R>,
) -> Result<(R, L)> {
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let looking = scope.spawn(|| {
            let mut last = L::default();
            hits.answer(&is_over, || {
                last = look()?.unwrap_or_else(|| std::mem::take(&mut last));
                Ok(())
            })?;
            anyhow::Ok(last)
        });
        let ended = run();
        is_over.store(true, Relaxed);
        let looked = looking.join();
        let looked = looked.map_err(|_| anyhow!("what looks at the guest died"))?;
        Ok((ended?, looked?))
    })
}

fn wait(process: &mut Process, messages: &Path) -> Result<GuestExit> {
    let silent = Served::new(process.id());
    loop {
        if let Some(status) = process.try_wait()? {
            return Ok(GuestExit::of(status, messages));
        }
        ensure!(
            silent.elapsed() < SILENCE,
            "the run was repeated and did not end"
        );
        thread::sleep(TICK);
    }
}

/// Reads the log and keeps its end.
fn read(log: File) -> Result<Vec<Event>> {
    let mut log = Log::new(BufReader::with_capacity(BUFFER, log))?;
    let mut last = VecDeque::new();
    while let Some(event) = log.next_event()? {
        if last.len() == ROOM {
            last.pop_front();
        }
        last.push_back(event);
    }
    Ok(last.into())
}
