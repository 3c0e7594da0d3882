//! What a run is read from: its folder, or the history.

use std::path::{Path, PathBuf};

use crate::analysis::bound::Kept;
use crate::analysis::{self, Analysis};
use crate::history::{Configuration, Setup};
use crate::{Buckets, json};
use anyhow::{Result, anyhow};
use serde_json::Value;
use takt_base::paths;
use takt_base::term::WithHelp;
use takt_machine::load;
use takt_machine::record::Run;
use takt_machine::record::RunRecord;
use takt_machine::run::folder;

use crate::history::commands::{open_named, select};

/// A run that is reported on.
#[derive(Debug)]
pub struct Source {
    /// What people call it.
    pub name: String,
    /// Its figures and distributions.
    pub run: Run,
    /// What `latency-run --json` says of it: the figures of the page are taken from here.
    pub document: Value,
    /// What was asked for.
    pub configuration: Configuration,
    /// Its folder, if it is still there.
    pub folder: Option<PathBuf>,
}

impl Source {
    /// Reads the run that `named` names: a folder, the name of one in `runs/`, or a run of the history. Nothing named
    /// is the latest one in `runs/`; `history` is the one that the user named, if any.
    ///
    /// # Errors
    ///
    /// If there is no such run, or it cannot be read.
    pub fn open(named: Option<&str>, history: Option<&Path>) -> Result<Self> {
        let runs = paths::runs();
        let Some(named) = named else {
            return Self::of_folder(&folder::find(None, &runs)?);
        };
        let path = Path::new(named);
        if path.is_dir() || runs.join(path).is_dir() {
            return Self::of_folder(&folder::find(Some(path), &runs)?);
        }
        if !select::looks_like_a_name(named) {
            return Err(anyhow!("there is no folder {named}"))
                .help("name a run folder or a run of `cargo xtask history list`");
        }
        Self::of_history(named, history)
    }

    fn of_folder(dir: &Path) -> Result<Self> {
        let run = load::load(dir)?;
        let name = dir.file_name().unwrap_or(dir.as_os_str());
        Self::new(
            name.to_string_lossy().into_owned(),
            run,
            Setup::default(),
            Some(dir.to_owned()),
        )
    }

    fn of_history(named: &str, history: Option<&Path>) -> Result<Self> {
        let history = open_named(history)?;
        let entry = history.entry(&select::one(&history, named)?)?;
        let run = entry.run()?;
        // Another run may lie there by now.
        let is_same = |dir: &PathBuf| load::load(dir).is_ok_and(|there| there.record == run.record);
        let folder = Some(entry.folder.clone()).filter(is_same);
        let name = format!("run {}", select::short(&entry.id));
        Self::new(name, run, entry.setup, folder)
    }

    fn new(name: String, run: Run, setup: Setup, folder: Option<PathBuf>) -> Result<Self> {
        // One that cannot be read is said where the trace is looked at.
        let analysis = folder
            .as_deref()
            .and_then(|dir| analysis::of_run(dir, &run).ok().flatten());
        let analysis = analysis.as_ref().map(Analysis::breakdown);
        let bound = folder.as_deref().and_then(|dir| Kept::read(dir).ok()?);
        let document = json::write(&run, analysis, bound.as_ref(), Buckets::default())?;
        let document = serde_json::from_str(&document)?;
        // A run folder does not have the words that the user appended, but what became of them. Taken from there they
        // are the same for both.
        let setup = Setup {
            append: further_words(&run.record),
            live: false,
            ..setup
        };
        Ok(Self {
            name,
            document,
            configuration: Configuration::new(&run.record, &setup),
            run,
            folder,
        })
    }

    /// Whether it is the same run, not one that measured the same.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        let place = |it: &Self| it.folder.as_ref()?.canonicalize().ok();
        // A folder may have been moved or copied; when and for how long it ran is no two runs' record.
        self.run.record == other.run.record || place(self).is_some() && place(self) == place(other)
    }

    /// Whether every figure is exact: one nanosecond is one instruction.
    #[must_use]
    pub fn is_exact(&self) -> bool {
        is_exact(&self.run)
    }
}

/// What the kernel's command line has beyond what the flags that the run folder keeps say.
fn further_words(record: &RunRecord) -> String {
    let known = record
        .config
        .kernel_cmdline(record.accel.accel, &record.event_ids);
    let known: Vec<_> = known.split(' ').collect();
    let words = record.kernel_cmdline.split_whitespace();
    let further: Vec<_> = words.filter(|word| !known.contains(word)).collect();
    further.join(" ")
}

/// Whether a run's figures are exact instructions.
#[must_use]
pub fn is_exact(run: &Run) -> bool {
    run.record.accel.accel == takt_machine::qemu::Accel::TcgIcount
}
