//! What is measured, in files: each boot's part is one, written whole or not at all. So a sweep that was killed goes on
//! where it was, and parts that several machines measured are merged by being put together.

use std::fs;
use std::path::{Path as FilePath, PathBuf};

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use takt_timerlat::sweep::Arrival;

use super::config::{SweepConfig, What};
use super::path::Path;
use crate::output::write_whole;
use crate::run::folder::IMAGE;
use crate::term::WithHelp;

/// The file by which a sweep's folder is known.
pub const PLAN: &str = "sweep-plan.json";
/// Where the parts lie.
const PARTS: &str = "parts";

/// A sweep's folder.
#[derive(Clone, Debug)]
pub struct Folder {
    dir: PathBuf,
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
    pub fn create(dir: &FilePath, config: &SweepConfig, image: &[u8]) -> Result<Self> {
        if dir.join(PLAN).is_file() {
            return Err(anyhow::anyhow!("{} holds a sweep", dir.display()))
                .help("go on with it by --resume, or name another folder");
        }
        let is_empty = fs::read_dir(dir).map_or(true, |mut entries| entries.next().is_none());
        if !is_empty {
            return Err(anyhow::anyhow!("{} is not empty", dir.display()))
                .help("name another folder");
        }
        fs::create_dir_all(dir.join(PARTS))
            .with_context(|| format!("cannot make {}", dir.display()))?;
        let folder = Self { dir: dir.into() };
        write_whole(&folder.image(), image)?;
        // Last: who finds it finds the rest.
        write_whole(&folder.dir.join(PLAN), &serde_json::to_vec_pretty(config)?)?;
        Ok(folder)
    }

    /// Opens the folder of a sweep that was begun before, and says what it is.
    ///
    /// # Errors
    ///
    /// If it holds none.
    pub fn open(dir: &FilePath) -> Result<(Self, SweepConfig)> {
        let plan = dir.join(PLAN);
        let text = fs::read_to_string(&plan)
            .with_context(|| format!("{} holds no sweep: cannot read {PLAN}", dir.display()))?;
        let config = serde_json::from_str(&text)
            .with_context(|| format!("{} is not the plan of a sweep", plan.display()))?;
        Ok((Self { dir: dir.into() }, config))
    }

    /// Where it is.
    #[must_use]
    pub fn dir(&self) -> &FilePath {
        &self.dir
    }

    /// The image that is swept.
    #[must_use]
    pub fn image(&self) -> PathBuf {
        self.dir.join(IMAGE)
    }

    /// Takes over the parts of another folder.
    ///
    /// # Errors
    ///
    /// If that is the folder of another sweep, or files cannot be copied.
    pub fn take_over(&self, config: &SweepConfig, other: &FilePath) -> Result<()> {
        let (from, its) = Self::open(other)?;
        if its != *config {
            bail!(
                "{} holds parts of another sweep: {}",
                other.display(),
                difference(config, &its)
            );
        }
        let parts = from.dir.join(PARTS);
        for entry in
            fs::read_dir(&parts).with_context(|| format!("cannot read {}", parts.display()))?
        {
            let path = entry?.path();
            let Some(name) = path.file_name() else {
                continue;
            };
            let ours = self.dir.join(PARTS).join(name);
            if path.extension().is_some_and(|it| it == "json") && !ours.exists() {
                write_whole(&ours, &fs::read(&path)?)?;
            }
        }
        Ok(())
    }

    /// The path of a stretch, if it is known.
    ///
    /// # Errors
    ///
    /// If the file is damaged.
    pub fn path(&self, what: &What) -> Result<Option<Path>> {
        let file: Option<PathFile> = read(&self.path_file(what))?;
        Ok(file.map(|PathFile { ips, tail }| Path { ips, tail }))
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
        write_whole(&self.path_file(what), &serde_json::to_vec(&file)?)
    }

    /// The arrivals of a part, if it was measured.
    ///
    /// # Errors
    ///
    /// If the file is damaged.
    pub fn part(&self, what: &What, first: u32, count: u32) -> Result<Option<Vec<Arrival>>> {
        let path = self.part_file(what, first, count);
        let Some(file) = read::<PartFile>(&path)? else {
            return Ok(None);
        };
        if (file.first, file.count) != (first, count) || file.arrivals.len() != count as usize {
            return Err(anyhow::anyhow!("{} is damaged", path.display()))
                .help("remove it; --resume measures that part again");
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
        let path = self.part_file(what, first, count);
        write_whole(&path, &serde_json::to_vec(&file)?)
    }

    /// What was executed in a run in which the arrival number `first` came, if it is known.
    ///
    /// # Errors
    ///
    /// If the file is damaged.
    pub fn way(&self, what: &What, first: u32) -> Result<Option<Path>> {
        let file: Option<PathFile> = read(&self.way_file(what, first))?;
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
        write_whole(&self.way_file(what, first), &serde_json::to_vec(&file)?)
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

fn read<T: for<'d> Deserialize<'d>>(path: &FilePath) -> Result<Option<T>> {
    let bytes = match fs::read(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        other => other.with_context(|| format!("cannot read {}", path.display()))?,
    };
    serde_json::from_slice(&bytes)
        .map(Some)
        .with_context(|| format!("{} is damaged", path.display()))
        .help("remove it; --resume measures that part again")
}

/// What two plans differ in.
#[must_use]
pub fn difference(one: &SweepConfig, other: &SweepConfig) -> &'static str {
    if one.image != other.image {
        "its image is another one"
    } else if one.qemu != other.qemu {
        "another version of QEMU ran it"
    } else if one.what != other.what {
        "other stretches are swept"
    } else {
        "it has another step, window, priority, other events or other words for the kernel"
    }
}
