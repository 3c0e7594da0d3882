//! What is measured, in files: each boot's part is one, written whole or not at all. So a sweep that was killed goes on
//! where it was, and parts that several machines measured are merged by being put together.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs;
use std::path::{Path as FilePath, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result, anyhow};
use serde::de::{DeserializeOwned, IgnoredAny};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use takt_timerlat::sweep::Arrival;
use takt_tracer::wire;

use super::config::{SweepConfig, What};
use super::path::Path;
use super::sealed;
use takt_base::input;
use takt_base::output::write_whole;
use takt_base::schema;
use takt_base::term::{WithHelp, note};
use takt_guest::Elf;
use takt_machine::run::folder::{self, IMAGE, SWEEP as PLAN};

/// Where the parts lie.
const PARTS: &str = "parts";
/// Version of the plan.
const SCHEMA: &str = "takt.sweep-plan/1";

/// What a sweep's folder says of itself.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Plan {
    schema: String,
    /// The revision that the image was built from, if it was built for this.
    pub git: Option<String>,
    /// What is swept, and how.
    pub config: SweepConfig,
}

impl Plan {
    /// The plan of a new sweep.
    #[must_use]
    pub fn new(config: SweepConfig, git: Option<String>) -> Self {
        Self {
            schema: SCHEMA.into(),
            git,
            config,
        }
    }

    fn read(text: &str) -> Result<Self> {
        const ADVICE: &str =
            "copy the folder again if it is a copy; else sweep anew, into another folder";
        let value: Value = serde_json::from_str(text)
            .context("it is damaged")
            .help(ADVICE)?;
        schema::check(&value, SCHEMA)?;
        let plan: Self = serde_json::from_value(value)
            .context("it is damaged")
            .help(ADVICE)?;
        plan.config.check().help(ADVICE)?;
        Ok(plan)
    }
}

/// A sweep's folder.
#[derive(Clone, Debug)]
pub struct Folder {
    dir: PathBuf,
    plan: Plan,
    /// Files that were read and had been edited.
    edited: Arc<Mutex<BTreeSet<String>>>,
}

/// Files of parts by name: where each was found first, and its content.
pub type Gathered = BTreeMap<OsString, (PathBuf, Vec<u8>)>;

/// The names of the files of what was measured.
pub(super) type Listing = BTreeSet<OsString>;

fn is_among(listing: &Listing, file: &FilePath) -> bool {
    file.file_name().is_some_and(|name| listing.contains(name))
}

/// A part as it is written: plain numbers, so that another tool can read it.
#[derive(Debug, Serialize, Deserialize)]
struct PartFile {
    first: u32,
    count: u32,
    /// Position, irq, thread, ip, preempt depth, took.
    arrivals: Vec<(i32, u32, u32, u32, u32, u32)>,
}

#[derive(Debug, Serialize, Deserialize)]
struct PathFile {
    ips: Vec<u64>,
    tail: Vec<u64>,
}

impl Folder {
    /// Begins a sweep in a folder that is not there or empty.
    ///
    /// # Errors
    ///
    /// If it holds something, or cannot be written to.
    pub fn create(dir: &FilePath, plan: Plan, image: &[u8]) -> Result<Self> {
        if dir.join(PLAN).is_file() {
            return Err(anyhow!("{} holds a sweep", dir.display()))
                .help("go on with it by --resume, or name another folder");
        }
        let is_empty = fs::read_dir(dir).map_or(true, |mut entries| entries.next().is_none());
        if !is_empty {
            return Err(anyhow!("{} is not empty", dir.display())).help("name another folder");
        }
        fs::create_dir_all(dir.join(PARTS))
            .with_context(|| format!("cannot make {}", dir.display()))?;
        let text = serde_json::to_vec_pretty(&plan)?;
        let folder = Self {
            dir: dir.into(),
            plan,
            edited: Arc::default(),
        };
        write_whole(&folder.image(), image)?;
        // Last: who finds it finds the rest.
        write_whole(&folder.dir.join(PLAN), &text)?;
        Ok(folder)
    }

    /// Opens the folder of a sweep that was begun before.
    ///
    /// # Errors
    ///
    /// If it holds none, or a plan that makes no sense.
    pub fn open(dir: &FilePath) -> Result<Self> {
        let file = dir.join(PLAN);
        let text = input::read_to_string(&file)
            .with_context(|| format!("{} holds no sweep: cannot read {PLAN}", dir.display()))
            .help(folder::other_way(dir, folder::NAME_A_SWEEP))?;
        let plan =
            Plan::read(&text).with_context(|| format!("{} cannot be used", file.display()))?;
        Ok(Self {
            dir: dir.into(),
            plan,
            edited: Arc::default(),
        })
    }

    /// Where it is.
    #[must_use]
    pub fn dir(&self) -> &FilePath {
        &self.dir
    }

    /// What it says of itself.
    #[must_use]
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// What is swept, and how.
    #[must_use]
    pub fn config(&self) -> &SweepConfig {
        &self.plan.config
    }

    /// The image that is swept.
    ///
    /// # Errors
    ///
    /// If it is not there, or is another one than the plan's.
    pub fn elf(&self) -> Result<Elf> {
        const ADVICE: &str = "a sweep is of one image: copy the folder again if it is a copy; else sweep anew, into another folder";
        let path = self.image();
        let elf = Elf::open(&path).help(ADVICE)?;
        let sum = wire::checksum(&elf.data);
        if sum != self.plan.config.image {
            return Err(anyhow!(
                "{} has the check sum {sum:016x}, {PLAN} says {:016x}: it is not the image that was swept",
                path.display(),
                self.plan.config.image
            ))
            .help(ADVICE);
        }
        Ok(elf)
    }

    fn image(&self) -> PathBuf {
        self.dir.join(IMAGE)
    }

    /// Reads what was measured in other folders of the same sweep; nothing is written.
    ///
    /// # Errors
    ///
    /// If one is of another sweep, holds what is damaged, or measured something that another one (or this one) measured
    /// differently.
    pub fn gather(&self, others: &[Self]) -> Result<Gathered> {
        let mut found = Gathered::new();
        for other in others {
            let (ours, its) = (self.config(), other.config());
            if its != ours {
                return Err(anyhow!(
                    "{} holds parts of another sweep: {}",
                    other.dir.display(),
                    ours.difference(its)
                ))
                .help("only what one image, the same flags and the same QEMU gave can be put together");
            }
        }
        for dir in others.iter().chain([self]).map(|it| it.dir.join(PARTS)) {
            let entries =
                fs::read_dir(&dir).with_context(|| format!("cannot read {}", dir.display()))?;
            for entry in entries {
                let path = entry?.path();
                if path.extension().is_some_and(|it| it == "json") {
                    self.add(&mut found, path)?;
                }
            }
        }
        Ok(found)
    }

    fn add(&self, found: &mut Gathered, path: PathBuf) -> Result<()> {
        let keys: Vec<_> = self.config().what.iter().map(|it| self.key(it)).collect();
        sealed::read::<IgnoredAny>(&path, |key| keys.contains(&key))?;
        let bytes =
            input::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let name = path.file_name().unwrap_or_default().to_owned();
        match found.get(&name) {
            Some((first, known)) if *known != bytes => Err(anyhow!(
                "{} and {} measured the same and differ",
                first.display(),
                path.display()
            ))
            .help("a guest has to do the same each time: measure both again on one machine"),
            _ => {
                found.insert(name, (path, bytes));
                Ok(())
            }
        }
    }

    /// Takes over what was gathered.
    ///
    /// # Errors
    ///
    /// If files cannot be written.
    pub fn take_over(&self, gathered: &Gathered) -> Result<()> {
        for (name, (_, bytes)) in gathered {
            let ours = self.dir.join(PARTS).join(name);
            if !ours.exists() {
                write_whole(&ours, bytes)?;
            }
        }
        Ok(())
    }

    fn key(&self, what: &What) -> u64 {
        self.config().key(what)
    }

    fn read<T: DeserializeOwned>(&self, what: &What, path: &FilePath) -> Result<Option<T>> {
        let key = self.key(what);
        let content = sealed::read(path, |it| it == key)?;
        Ok(content.map(|content| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let mut edited = self.edited.lock().unwrap_or_else(PoisonError::into_inner);
            if content.is_edited && edited.insert(name.into_owned()) {
                note(format_args!(
                    "{} was changed after it was measured: its check sum is another one",
                    path.display()
                ));
            }
            content.body
        }))
    }

    /// The names of the files that were read so far and had been edited: what they say was not measured.
    #[must_use]
    pub fn edited(&self) -> Vec<String> {
        let edited = self.edited.lock().unwrap_or_else(PoisonError::into_inner);
        edited.iter().cloned().collect()
    }

    fn write(&self, what: &What, path: &FilePath, body: &impl Serialize) -> Result<()> {
        sealed::write(path, self.key(what), body)
    }

    /// The path of a stretch, if it is known.
    ///
    /// # Errors
    ///
    /// If the file is damaged.
    pub fn path(&self, what: &What) -> Result<Option<Path>> {
        let file: Option<PathFile> = self.read(what, &self.path_file(what))?;
        Ok(file.map(|PathFile { ips, tail }| Path { ips, tail }))
    }

    /// Which files there are of what was measured. On a file system of several machines only a folder that is read is up to
    /// date: that a file is not there is kept for a while.
    ///
    /// # Errors
    ///
    /// If the folder cannot be read.
    pub(super) fn listing(&self) -> Result<Listing> {
        let dir = self.dir.join(PARTS);
        let cannot = || format!("cannot read {}", dir.display());
        let entries = fs::read_dir(&dir).with_context(cannot)?;
        let names = entries.map(|entry| Ok(entry.with_context(cannot)?.file_name()));
        names.collect()
    }

    /// Of how many stretches the path is among these.
    pub(super) fn paths_known(&self, listing: &Listing) -> usize {
        let what = self.config().what.iter();
        what.filter(|it| is_among(listing, &self.path_file(it)))
            .count()
    }

    /// Keeps it.
    ///
    /// # Errors
    ///
    /// If it cannot be written.
    pub fn put_path(&self, what: &What, path: &Path) -> Result<()> {
        let file = PathFile {
            ips: path.ips.clone(),
            tail: path.tail.clone(),
        };
        self.write(what, &self.path_file(what), &file)
    }

    /// The arrivals of a part, if it was measured.
    ///
    /// # Errors
    ///
    /// If the file is damaged.
    pub fn part(&self, what: &What, first: u32, count: u32) -> Result<Option<Vec<Arrival>>> {
        let path = self.part_file(what, first, count);
        let Some(file) = self.read::<PartFile>(what, &path)? else {
            return Ok(None);
        };
        if (file.first, file.count) != (first, count) || file.arrivals.len() != count as usize {
            return Err(anyhow!("{} is damaged", path.display()))
                .help("remove it, and --resume measures it again");
        }
        let arrival = |(position, irq, thread, ip, preempt_depth, took)| Arrival {
            position,
            irq,
            thread,
            ip,
            preempt_depth,
            took,
        };
        Ok(Some(file.arrivals.into_iter().map(arrival).collect()))
    }

    /// Whether a part is among these.
    pub(super) fn has_part(&self, listing: &Listing, what: &What, first: u32, count: u32) -> bool {
        is_among(listing, &self.part_file(what, first, count))
    }

    /// Keeps a part.
    ///
    /// # Errors
    ///
    /// If it cannot be written.
    pub fn put_part(&self, what: &What, first: u32, arrivals: &[Arrival]) -> Result<()> {
        let count = arrivals.len() as u32;
        let numbers = |a: &Arrival| (a.position, a.irq, a.thread, a.ip, a.preempt_depth, a.took);
        let file = PartFile {
            first,
            count,
            arrivals: arrivals.iter().map(numbers).collect(),
        };
        self.write(what, &self.part_file(what, first, count), &file)
    }

    /// What was executed in a run in which the arrival number `first` came, if it is known.
    ///
    /// # Errors
    ///
    /// If the file is damaged.
    pub fn way(&self, what: &What, first: u32) -> Result<Option<Path>> {
        let file: Option<PathFile> = self.read(what, &self.way_file(what, first))?;
        Ok(file.map(|PathFile { ips, tail }| Path { ips, tail }))
    }

    /// Keeps it.
    ///
    /// # Errors
    ///
    /// If it cannot be written.
    pub fn put_way(&self, what: &What, first: u32, path: &Path) -> Result<()> {
        let file = PathFile {
            ips: path.ips.clone(),
            tail: path.tail.clone(),
        };
        self.write(what, &self.way_file(what, first), &file)
    }

    fn part_file(&self, what: &What, first: u32, count: u32) -> PathBuf {
        let name = format!("{}-{first}-{count}.json", what.file_stem());
        self.dir.join(PARTS).join(name)
    }

    fn way_file(&self, what: &What, first: u32) -> PathBuf {
        let name = format!("{}-path-{first}.json", what.file_stem());
        self.dir.join(PARTS).join(name)
    }

    fn path_file(&self, what: &What) -> PathBuf {
        let name = format!("{}-path.json", what.file_stem());
        self.dir.join(PARTS).join(name)
    }
}
