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

use anyhow::{Result, anyhow, bail, ensure};
use takt_timerlat::stats::{MAX_CPUS, StatusView};
use tempfile::TempDir;

use super::executed::Executed;
use super::marks::Marks;
use takt_machine::counted::Plugin;
use takt_machine::counted::log::{Event, Log};

use takt_guest::Elf;
use takt_guest::Ram;
use takt_guest::stacks::{self, Stack};
use takt_machine::qemu::{Accel, GuestExit, Machine, Process, Served, pipe};
use takt_machine::record::Run;
use takt_machine::run::collect::Results;
use takt_machine::run::folder;
use takt_machine::run::hits::Hits;
use takt_machine::run::signals::{Watch, Wish};

/// Events of the log that are kept, the last ones: some million instructions.
const ROOM: usize = 2 << 20;
/// A guest that shows no sign of life for this long, in real time, has stopped.
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
/// If it was no run under icount, QEMU takes no plugins, the second run is another one, or the user ends it.
pub fn run(dir: &Path, run: &Run, elf: &Elf, watch: &mut Watch) -> Result<Counted> {
    let record = &run.record;
    ensure!(
        record.accel.accel == Accel::TcgIcount,
        "only a run under icount is the same when it is run again"
    );
    let image = dir.join(folder::IMAGE);
    let cmdline = record.kernel_cmdline.clone();
    let counted = boot(
        image,
        cmdline,
        record.config.smp,
        elf,
        GuestExit::Threshold,
        watch,
    )?;
    let results = Results::read(&takt_guest::status(elf, &counted.ram)?)?;
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
/// If QEMU takes no plugins, the guest ends otherwise than `expected`, or the user ends it.
pub fn boot(
    image: PathBuf,
    cmdline: String,
    smp: u8,
    elf: &Elf,
    expected: GuestExit,
    watch: &mut Watch,
) -> Result<Counted> {
    let marks = Marks::of(elf);
    let plugin = Plugin::with_marks(marks.addresses())?.standing_at_threshold(elf);
    let scratch = takt_base::scratch::folder()?;
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
    // An image that measures nothing has none.
    let status = takt_guest::status(elf, &ram).ok();
    let (events, stacks) = pipe::read_along(&log, read, || {
        let messages = scratch.path().join(folder::MESSAGES);
        let mut process = Process::start_with(
            &machine,
            |words| plugin.added_to(words, &log, Some(hits.paths())),
            &messages,
        )?;
        // The first one that counts ends the run; others may come before it is over.
        let look = || {
            let is_stopped = takt_guest::status(elf, &ram)?.stop()?.is_some();
            Ok((!is_stopped).then(|| stacks::all(elf, &ram)))
        };
        let (exit, stacks) = along(&hits, look, || {
            wait(&mut process, &messages, watch, &ram, status.as_ref())
        })?;
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

fn wait(
    process: &mut Process,
    messages: &Path,
    watch: &mut Watch,
    ram: &Ram,
    status: Option<&StatusView<&Ram>>,
) -> Result<GuestExit> {
    let mut silence = Silence::new(process.id());
    loop {
        if let Some(status) = process.try_wait()? {
            return Ok(GuestExit::of(status, messages));
        }
        ensure!(
            watch.wish() == Wish::None,
            "interrupted while the run was repeated"
        );
        let mut signs = 0;
        if let Some(status) = status
            && status.head()?.is_some()
        {
            // The guest runs, so QEMU has the file open: nothing is left behind from here on.
            ram.unlink();
            signs = signs_of_life(status)?;
        }
        ensure!(
            !silence.is_over(signs, SILENCE),
            "the run was repeated and did not end"
        );
        thread::sleep(TICK);
    }
}

/// Becomes another number as long as the guest lives.
fn signs_of_life(status: &StatusView<&Ram>) -> Result<u64> {
    let samples = status.slots()?.into_iter().map(|slot| slot.thread.count);
    (0..MAX_CPUS).try_fold(samples.fold(0, u64::wrapping_add), |signs, cpu| {
        Ok(signs.wrapping_add(status.cpu(cpu)?.heartbeat))
    })
}

/// How long there was no new sign of life.
#[derive(Debug)]
struct Silence {
    served: Served,
    signs: u64,
}

impl Silence {
    fn new(process: u32) -> Self {
        Self {
            served: Served::new(process),
            signs: 0,
        }
    }

    /// Whether these have been all signs for so long.
    fn is_over(&mut self, signs: u64, limit: Duration) -> bool {
        if signs != self.signs {
            self.signs = signs;
            self.served.restart();
        }
        self.served.has_had(limit)
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

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    #[test]
    fn a_guest_that_goes_on_is_never_silent_and_one_that_stands_is() {
        const LIMIT: Duration = Duration::from_millis(200);
        let mut silence = Silence::new(std::process::id());
        let began = Instant::now();
        let mut signs = 0;
        while began.elapsed() < 3 * LIMIT {
            signs += 1;
            assert!(!silence.is_over(signs, LIMIT));
            thread::sleep(TICK);
        }
        while !silence.is_over(signs, LIMIT) {
            assert!(began.elapsed() < Duration::from_secs(60));
            thread::sleep(TICK);
        }
    }
}
