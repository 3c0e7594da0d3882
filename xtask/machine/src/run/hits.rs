//! [`Hits`]: what is done whenever a latency is above a threshold, if the measurement goes on afterwards.
//!
//! The guest is not told of the threshold. `takt-plugin` has it stand where a measured thread has taken in its sample, until
//! it was looked for one above the threshold and all that is to be done is done. The instructions that the guest executes
//! are those of a run without a threshold, and under icount so is its time.

use std::cell::Cell;
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use anyhow::{Context, Result};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{CWD, FileType, Mode, OFlags, mknodat};
use serde_json::json;
use takt_timerlat::stats::view::Slot;
use takt_timerlat::stats::{MAX_SLOTS, StatusView};
use tempfile::TempDir;

use super::execute::{Plan, take_capture};
use super::folder;
use crate::qemu::Machine;
use takt_guest::Ram;

/// How often it is looked whether the run is over.
const TICK: Duration = Duration::from_millis(50);

/// The moment of a hit: the guest stands.
#[derive(Debug)]
pub struct Moment<'m> {
    pub(super) plan: &'m Plan<'m>,
    pub(super) machine: &'m Machine,
    pub(super) ram: &'m Ram,
}

impl Moment<'_> {
    /// A folder with the trace up to here, as a run's.
    ///
    /// # Errors
    ///
    /// If the guest's memory cannot be read, or the folder not be written.
    pub fn folder(&self) -> Result<TempDir> {
        let dir = tempfile::tempdir_in(&self.machine.dir)?;
        let path = dir.path();
        fs::hard_link(&self.machine.image, path.join(folder::IMAGE))?;
        let record = json!({ "kernel_cmdline": self.machine.cmdline });
        fs::write(path.join(folder::RECORD), record.to_string())?;
        take_capture(self.plan, self.machine, self.ram, path)?;
        Ok(dir)
    }
}

/// What is done at a hit.
pub type Act<'a> = dyn Fn(&Moment<'_>) -> Result<()> + Sync + 'a;

/// The pipes through which the plugin asks whether the guest may go on.
#[derive(Debug)]
pub struct Hits {
    asked: File,
    answered: File,
    paths: [PathBuf; 2],
    /// The guest stands, and no sign of life is to be expected.
    pub is_standing: AtomicBool,
    count: AtomicU64,
}

impl Hits {
    /// Makes the pipes in a folder.
    ///
    /// # Errors
    ///
    /// If they cannot be made.
    pub fn new(dir: &Path) -> Result<Self> {
        let paths = ["hits-asked", "hits-answered"].map(|name| dir.join(name));
        let open = |path: &PathBuf| -> std::io::Result<File> {
            mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)?;
            // Both ways, so that nobody waits for the other to open it.
            OpenOptions::new()
                .read(true)
                .write(true)
                .custom_flags(OFlags::NONBLOCK.bits().cast_signed())
                .open(path)
        };
        let cannot = "cannot make the pipes by which the guest is held at a threshold";
        Ok(Self {
            asked: open(&paths[0]).context(cannot)?,
            answered: open(&paths[1]).context(cannot)?,
            paths,
            is_standing: AtomicBool::new(false),
            count: AtomicU64::new(0),
        })
    }

    /// The pipes: where the plugin asks, and where it is answered.
    #[must_use]
    pub fn paths(&self) -> &[PathBuf; 2] {
        &self.paths
    }

    /// How often a latency was above its threshold.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count.load(Relaxed)
    }

    /// Answers until `is_over`, and has `act` done at each hit. After one that failed nothing more is done, and the guest
    /// goes on.
    ///
    /// # Errors
    ///
    /// What `act` says; or that the pipes or the guest's memory cannot be read.
    pub fn serve(
        &self,
        moment: &Moment<'_>,
        status: &StatusView<&Ram>,
        is_over: &AtomicBool,
        act: &Act<'_>,
    ) -> Result<()> {
        let seen = Seen::default();
        let mut done = Ok(());
        let look = |done: &mut Result<()>| -> Result<()> {
            for _ in 0..seen.new_hits(&status.slots()?, &moment.plan.config) {
                self.count.fetch_add(1, Relaxed);
                if done.is_ok() {
                    self.is_standing.store(true, Relaxed);
                    *done = act(moment);
                    self.is_standing.store(false, Relaxed);
                }
            }
            Ok(())
        };
        self.answer(is_over, || look(&mut done))?;
        // Behind its last sample a thread ends without asking.
        look(&mut done)?;
        done
    }

    /// Answers until `is_over`, and each time has `look` done first, while the guest stands.
    ///
    /// # Errors
    ///
    /// What `look` says, behind the answer; or that the pipes cannot be read.
    pub fn answer(&self, is_over: &AtomicBool, mut look: impl FnMut() -> Result<()>) -> Result<()> {
        while !is_over.load(Relaxed) {
            let mut waits = [PollFd::new(&self.asked, PollFlags::IN)];
            let time = Timespec::try_from(TICK).ok();
            if poll(&mut waits, time.as_ref())? == 0 {
                continue;
            }
            let mut byte = [0];
            (&self.asked).read_exact(&mut byte)?;
            let looked = look();
            (&self.answered).write_all(&byte)?;
            looked?;
        }
        Ok(())
    }
}

/// The samples of each slot that were looked at.
#[derive(Debug, Default)]
struct Seen([Cell<u64>; MAX_SLOTS]);

impl Seen {
    /// How many of the slots' last samples are new, and above a threshold. The guest asks after each sample.
    fn new_hits(&self, slots: &[Slot], config: &super::RunConfig) -> usize {
        let above = |ns: u64, limit: Option<u64>| limit.is_some_and(|limit| ns > limit);
        let is_hit = |slot: &&Slot| {
            let before = self.0.get(slot.index);
            let is_new =
                before.is_some_and(|it| it.replace(slot.thread.count) != slot.thread.count);
            let has_irq = slot.irq.count != 0;
            is_new
                && (above(slot.thread.cur, config.thread_threshold_ns)
                    || has_irq && above(slot.irq.cur, config.irq_threshold_ns))
        };
        slots.iter().filter(is_hit).count()
    }
}
