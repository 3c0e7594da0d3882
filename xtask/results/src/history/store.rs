//! The history's folder: a file for each run, and nothing else.
//!
//! A file's name has the time at which its run ended and the run's id, so the order of runs is that of the names. In it are
//! two lines of JSON: what a list says of the run ([`Summary`], with a check sum of the whole file), and the [`Entry`]. So a
//! list of thousands reads no histograms, and a run is appended by making a file: it is written under a hidden name, synced
//! and renamed, and is whole or not there, whatever happens meanwhile.

use std::fmt;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Error, Result, anyhow, bail};
use takt_tracer::wire;

use super::{Entry, Summary};
use takt_base::term::{Help, WithHelp, note, one_line};
use takt_base::{input, output, paths, spread};

/// How files of runs end.
const SUFFIX: &str = ".jsonl";

/// Random, as no two runs ever may have the same: 16 hexadecimal digits.
///
/// # Errors
///
/// If the system has no random numbers.
#[expect(clippy::disallowed_methods, reason = "it reads 8 bytes of the device")]
pub fn random_id() -> Result<String> {
    let mut bytes = [0; 8];
    File::open("/dev/urandom")
        .and_then(|mut file| file.read_exact(&mut bytes))
        .context("cannot read /dev/urandom")?;
    Ok(format!("{:016x}", u64::from_le_bytes(bytes)))
}

/// Adds a run to the history in the folder `history`, which is made if it is not there; gives the file.
///
/// # Errors
///
/// If it cannot be written; nothing is left then.
#[expect(clippy::disallowed_methods, reason = "it opens the folder")]
pub fn write(history: &Path, entry: &Entry) -> Result<PathBuf> {
    fs::create_dir_all(history).with_context(|| format!("cannot make {}", history.display()))?;
    paths::remove_left_over(history);
    let path = history.join(RunFile::of(entry).file());
    let temp = history.join(format!(".{}{}", entry.id, paths::passing_mark()));
    let written = write_synced(&temp, entry)
        .and_then(|()| Ok(fs::rename(&temp, &path)?))
        // The name is on the disk once its folder is.
        .and_then(|()| Ok(File::open(history)?.sync_all()?));
    written
        .inspect_err(|_| drop(fs::remove_file(&temp)))
        .with_context(|| format!("cannot write {}", path.display()))?;
    Ok(path)
}

fn write_synced(path: &Path, entry: &Entry) -> Result<()> {
    let line = output::json(entry)?;
    let mut summary = Summary::of(entry)?;
    summary.sum = sum(&summary, &line)?;
    let mut file = File::create(path)?;
    file.write_all((output::json(&summary)? + &line).as_bytes())?;
    Ok(file.sync_all()?)
}

/// The check sum of a file: of its first line without it, and of the second.
fn sum(summary: &Summary, line: &str) -> Result<u64> {
    let without = Summary {
        sum: 0,
        ..summary.clone()
    };
    Ok(wire::checksum((output::json(&without)? + line).as_bytes()))
}

/// Where a run is: its file's name, taken apart.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RunFile {
    /// When it was over, in ns since 1970.
    pub finished_unix_ns: u64,
    /// The run's id.
    pub id: String,
}

impl RunFile {
    /// Where this run is.
    #[must_use]
    pub fn of(entry: &Entry) -> Self {
        Self {
            finished_unix_ns: entry.finished_unix_ns,
            id: entry.id.clone(),
        }
    }

    /// That of the file of this name, if it is a run's.
    fn parse(name: &str) -> Option<Self> {
        let (finished, id) = name.strip_suffix(SUFFIX)?.split_once('-')?;
        let is_id = id.len() == 16 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_id.then_some(Self {
            finished_unix_ns: finished.parse().ok()?,
            id: id.to_owned(),
        })
    }

    fn file(&self) -> String {
        format!("{:020}-{}{SUFFIX}", self.finished_unix_ns, self.id)
    }
}

/// Of a run, not of the history.
#[derive(Debug)]
struct Damaged(String);

impl fmt::Display for Damaged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The runs in a folder.
#[derive(Debug)]
pub struct History {
    dir: PathBuf,
    /// The latest first.
    runs: Vec<RunFile>,
}

impl History {
    /// Looks which runs are in this folder. One that is not there has none, and is not made.
    ///
    /// # Errors
    ///
    /// If it is there and cannot be read.
    pub fn open(dir: &Path) -> Result<Self> {
        let cannot = || format!("the history {} cannot be read", dir.display());
        let help = "it has to be a folder that you may read and enter: ls -ld shows that; or name another one by --history";
        let mut runs = Vec::new();
        match fs::read_dir(dir) {
            Ok(entries) => {
                for entry in entries {
                    let entry = entry.with_context(cannot).help(help)?;
                    runs.extend(RunFile::parse(&entry.file_name().to_string_lossy()));
                }
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(error).with_context(cannot).help(help),
        }
        runs.sort_by(|a, b| b.cmp(a));
        Ok(Self {
            dir: dir.to_owned(),
            runs,
        })
    }

    /// The runs, the latest first.
    #[must_use]
    pub fn runs(&self) -> &[RunFile] {
        &self.runs
    }

    /// The file of a run.
    #[must_use]
    pub fn path(&self, place: &RunFile) -> PathBuf {
        self.dir.join(place.file())
    }

    /// A run. One whose file was edited is read all the same, and noted.
    ///
    /// # Errors
    ///
    /// If it cannot be read, or is damaged.
    pub fn entry(&self, place: &RunFile) -> Result<Entry> {
        let (summary, line) = self.read(place)?;
        let mut entry = self.parse(place, &line)?;
        if summary.is_none() {
            entry.record.is_edited = true;
            note(format_args!(
                "run {} was edited after it was made",
                place.id
            ));
        }
        Ok(entry)
    }

    /// Where many runs are looked at: a run, or nothing and a note if it is damaged.
    ///
    /// # Errors
    ///
    /// If it cannot be read.
    pub fn sound_entry(&self, place: &RunFile) -> Result<Option<Entry>> {
        sound(self.entry(place))
    }

    /// What a list says of these runs, each with its place, read by all CPUs. What is damaged is noted and left out.
    ///
    /// # Errors
    ///
    /// If one cannot be read.
    pub fn summaries(&self, places: &[RunFile]) -> Result<Vec<(RunFile, Summary)>> {
        let read = spread::each(spread::cpus(), places, |it| self.summary(it));
        let read = places.iter().zip(read);
        read.filter_map(|(place, summary)| {
            let found = sound(summary).transpose()?;
            Some(found.map(|summary| (place.clone(), summary)))
        })
        .collect()
    }

    /// The runs of a configuration, by its key, the latest first.
    ///
    /// # Errors
    ///
    /// As [`summaries`](Self::summaries).
    pub fn of_configuration(&self, key: &str) -> Result<Vec<RunFile>> {
        let summaries = self.summaries(&self.runs)?.into_iter();
        let alike = summaries.filter(|(_, summary)| summary.configuration == key);
        Ok(alike.map(|(place, _)| place).collect())
    }

    fn summary(&self, place: &RunFile) -> Result<Summary> {
        let (summary, line) = self.read(place)?;
        if let Some(summary) = summary {
            return Ok(summary);
        }
        let mut summary = Summary::of(&self.parse(place, &line)?)?;
        summary.outcome += ", edited";
        Ok(summary)
    }

    /// The two lines of a run's file; the first only if the check sum says that both are as they were written.
    fn read(&self, place: &RunFile) -> Result<(Option<Summary>, String)> {
        let path = self.path(place);
        let text = input::read(&path)
            .with_context(|| format!("run {} cannot be read: {}", place.id, path.display()))
            .help("it has to be a file that you may read: ls -l shows that")?;
        let text =
            String::from_utf8(text).map_err(|_| self.damaged(place, anyhow!("it is no UTF-8")))?;
        let (first, line) = text.split_once('\n').unwrap_or_default();
        let summary = serde_json::from_str(first).ok();
        let summary = summary.filter(|it| sum(it, line).is_ok_and(|sum| sum == it.sum));
        Ok((summary, line.to_owned()))
    }

    fn parse(&self, place: &RunFile, line: &str) -> Result<Entry> {
        let parsed = Entry::parse(line).and_then(|entry| match RunFile::of(&entry) == *place {
            true => Ok(entry),
            false => bail!("its name is another run's"),
        });
        parsed.map_err(|error| self.damaged(place, error))
    }

    fn damaged(&self, place: &RunFile, why: Error) -> Error {
        let path = self.path(place);
        let damaged = Damaged(format!("run {} is damaged: {}", place.id, path.display()));
        why.context(damaged).context(Help(
            "put the file back from a backup, or remove it; the other runs can be used without"
                .into(),
        ))
    }
}

/// What was found, or nothing and a note if it is damaged.
fn sound<T>(found: Result<T>) -> Result<Option<T>> {
    match found {
        Err(error) if error.downcast_ref::<Damaged>().is_some() => {
            note(format_args!("left out: {}", one_line(&error)));
            Ok(None)
        }
        found => found.map(Some),
    }
}
