//! [`RunFolder`]: everything that is needed to look at a run again later.
//!
//! It is filled under a hidden name beside its final one and renamed when it is complete, so a
//! folder is either whole or not there. What a killed run left is removed by the next.

use std::fs::{self, File};
use std::io::{self, BufReader};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow};
use takt_decode::TraceFile;

use takt_base::input;
use takt_base::paths;
use takt_base::term::WithHelp;
use takt_guest::Elf;

/// The file by which a run folder is known.
pub const RECORD: &str = "run.json";
/// The file by which the folder of a comparison is known. It holds run folders.
pub const COMPARISON: &str = "compare.json";
/// The file by which the folder of a sweep is known.
pub const SWEEP: &str = "sweep-plan.json";
/// Exact histograms.
pub const HIST: &str = "hist.csv";
/// Trace frames behind a file header.
pub const TRACE: &str = "trace.bin";
/// Log frames behind a file header.
pub const LOG: &str = "log.bin";
/// What the latency consists of that hit a threshold; there only if that was asked for.
pub const ANALYSIS: &str = "analysis.json";
/// What a latency takes at most by the proof of the image; there only if that was asked for.
pub const BOUND: &str = "bound.json";
/// What the plugin has logged of the executed instructions; there only if it was asked for.
pub const COUNTED: &str = "executed.bin";
/// The image that was booted.
pub const IMAGE: &str = "takt.elf";
/// QEMU's command line.
pub const CMDLINE: &str = "qemu-cmdline.txt";
/// What the guest wrote to its serial port.
pub const SERIAL: &str = "serial.txt";
/// What the guest wrote to COM2, where a task has it.
pub const COM2: &str = "com2.txt";
/// What QEMU itself said; there only if it said something.
pub const MESSAGES: &str = "qemu-messages.txt";

/// The advice to whoever named a folder that holds no sweep.
pub const NAME_A_SWEEP: &str =
    "name the folder that latency-sweep has written, as runs/sweep-001 or sweep-001";

/// Puts the image that is to be booted into a run's folder; gives its path. One that a folder beside it has is not copied:
/// both are the same file then, which is on the disk once.
///
/// # Errors
///
/// If it cannot be written.
pub fn put_image(dir: &Path, image: &[u8]) -> Result<PathBuf> {
    let path = dir.join(IMAGE);
    let is_there = twin(dir, image).is_some_and(|twin| fs::hard_link(twin, &path).is_ok());
    if !is_there {
        fs::write(&path, image).context("cannot copy the image into the run folder")?;
    }
    Ok(path)
}

/// The image of a run folder beside this one that has the same bytes.
fn twin(dir: &Path, image: &[u8]) -> Option<PathBuf> {
    let beside = fs::read_dir(dir.parent()?).ok()?;
    let mut paths = beside.flatten().map(|entry| entry.path().join(IMAGE));
    paths.find(|path| {
        let is_as_long = fs::metadata(path).is_ok_and(|it| it.len() == image.len() as u64);
        is_as_long && input::read(path).is_ok_and(|bytes| bytes == image)
    })
}

/// A run folder that is being filled. Dropped before it is published, it vanishes.
#[derive(Debug)]
pub struct RunFolder {
    temp: PathBuf,
    target: Target,
    is_published: bool,
}

#[derive(Debug)]
enum Target {
    /// The next free `NAME-NNN` in a folder.
    Numbered { parent: PathBuf, name: String },
    /// This one, replacing an earlier run only if that was asked for.
    Given { path: PathBuf, is_forced: bool },
}

impl RunFolder {
    /// Begins a folder: `output`, or the next free `runs/NAME-NNN`.
    ///
    /// # Errors
    ///
    /// If `output` holds something (with `is_forced`: something that is not a run), or nothing can be written there.
    pub fn create(output: Option<&Path>, is_forced: bool, runs: &Path, name: &str) -> Result<Self> {
        let (parent, stem, target) = match output {
            None => {
                let (parent, name) = (runs.to_owned(), name.to_owned());
                (
                    parent.clone(),
                    name.clone(),
                    Target::Numbered { parent, name },
                )
            }
            Some(dir) => {
                check_free(dir, is_forced)?;
                let dir = std::path::absolute(dir)?;
                let parent = dir.parent().unwrap_or(Path::new("/")).to_owned();
                let stem = dir.file_name().context("--output needs a folder's name")?;
                let stem = stem.to_string_lossy().into_owned();
                let path = dir;
                (parent, stem, Target::Given { path, is_forced })
            }
        };
        fs::create_dir_all(&parent).with_context(|| format!("cannot make {}", parent.display()))?;
        paths::remove_left_over(&parent);
        let temp = parent.join(format!(".{stem}.tmp-{}", std::process::id()));
        fs::create_dir(&temp).with_context(|| format!("cannot make {}", temp.display()))?;
        Ok(Self {
            temp,
            target,
            is_published: false,
        })
    }

    /// Where it is being filled.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.temp
    }

    /// Gives the folder its name and says which.
    ///
    /// # Errors
    ///
    /// If it cannot be renamed, and if something came to lie at `output` since the beginning: then the folder is kept under
    /// the next free number behind that name.
    pub fn publish(mut self) -> Result<PathBuf> {
        if let Target::Given { path, is_forced } = &self.target
            && let Err(why) = check_free(path, *is_forced)
        {
            let path = path.clone();
            return self.keep_beside(&path, &why);
        }
        let path = match &self.target {
            Target::Numbered { parent, name } => self.rename_to_next(parent, name),
            Target::Given { path, is_forced } => match is_forced {
                true => self.replace(path).map(|()| path.clone()),
                // Goes over an empty folder, and over nothing that came just now.
                false => fs::rename(&self.temp, path).map(|()| path.clone()),
            },
        }
        .context("cannot give the run folder its name")?;
        self.is_published = true;
        Ok(path)
    }

    /// Keeps a run whose place was taken while it went on.
    fn keep_beside(mut self, path: &Path, why: &anyhow::Error) -> Result<PathBuf> {
        let parent = path.parent().unwrap_or(Path::new("/"));
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let kept = self
            .rename_to_next(parent, &name)
            .context("cannot give the run folder its name")?;
        self.is_published = true;
        Err(anyhow!(
            "while this went on, its place was taken: {}",
            why.root_cause()
        ))
        .help(format!(
            "nothing is lost: this one is in {}",
            paths::shown(&kept)
        ))
    }

    fn rename_to_next(&self, parent: &Path, name: &str) -> io::Result<PathBuf> {
        let mut number = numbers(parent, name).max().unwrap_or(0);
        loop {
            number += 1;
            let path = parent.join(format!("{name}-{number:03}"));
            // A run beside this one may have taken the number since.
            if path.exists() {
                continue;
            }
            match fs::rename(&self.temp, &path) {
                Err(error) if is_taken(&error) => {}
                other => return other.map(|()| path),
            }
        }
    }

    fn replace(&self, path: &Path) -> io::Result<()> {
        let old = self
            .temp
            .with_extension(format!("old-{}", std::process::id()));
        let had_one = path.exists();
        if had_one {
            fs::rename(path, &old)?;
        }
        if let Err(error) = fs::rename(&self.temp, path) {
            if had_one {
                fs::rename(&old, path)?;
            }
            return Err(error);
        }
        if had_one {
            fs::remove_dir_all(&old)?;
        }
        Ok(())
    }
}

impl Drop for RunFolder {
    fn drop(&mut self) {
        if !self.is_published {
            // What cannot be removed now is removed by the next run.
            let _ = fs::remove_dir_all(&self.temp);
        }
    }
}

/// The next free `NAME-NNN` in a folder, made empty: for what is filled over a long time and in sight.
///
/// # Errors
///
/// If it cannot be made.
pub fn next_free(parent: &Path, name: &str) -> Result<PathBuf> {
    fs::create_dir_all(parent).with_context(|| format!("cannot make {}", parent.display()))?;
    let mut number = numbers(parent, name).max().unwrap_or(0);
    loop {
        number += 1;
        let path = parent.join(format!("{name}-{number:03}"));
        match fs::create_dir(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            other => {
                other.with_context(|| format!("cannot make {}", path.display()))?;
                return Ok(path);
            }
        }
    }
}

/// Whether a folder holds a run.
#[must_use]
pub fn is_run(dir: &Path) -> bool {
    dir.join(RECORD).is_file()
}

/// Refuses to overwrite what is there; a run may be replaced if the user wants that.
///
/// # Errors
///
/// If it is there and not empty, and if it is not a run (it has neither `run.json` nor `compare.json`) or `is_forced` is not
/// set.
pub fn check_free(dir: &Path, is_forced: bool) -> Result<()> {
    let has_run = is_run(dir) || dir.join(COMPARISON).is_file();
    if !dir.exists() || has_run && is_forced {
        return Ok(());
    }
    if has_run {
        return Err(anyhow!("{} holds a run already", dir.display()))
            .help("name another folder, or replace that run by --force");
    }
    let mut entries =
        fs::read_dir(dir).with_context(|| format!("{} is not a folder", dir.display()))?;
    match entries.next() {
        None => Ok(()),
        Some(_) => Err(anyhow!(
            "{} is not empty and not a run folder: it has no {RECORD}",
            dir.display()
        ))
        .help("name another folder, or empty this one"),
    }
}

/// The image of a run, which has the names of what it recorded.
///
/// # Errors
///
/// If it is not there or is none.
pub fn image(dir: &Path) -> Result<Elf> {
    Elf::open(&dir.join(IMAGE)).help(format!(
        "trace and log need the image that was booted: copy the folder again if it is a copy; the figures can be read \
         without: cargo xtask latency-run --from {}",
        dir.display()
    ))
}

/// The trace of a run, all of it.
///
/// # Errors
///
/// If it is not there, is none, or is no ordinary file.
pub fn trace(dir: &Path) -> Result<TraceFile<BufReader<File>>> {
    let path = dir.join(TRACE);
    let file = input::open(&path).with_context(|| format!("cannot open {}", path.display()))?;
    TraceFile::open(BufReader::new(file)).with_context(|| format!("cannot read {}", path.display()))
}

/// The numbers of the runs in a folder.
fn numbers(parent: &Path, name: &str) -> impl Iterator<Item = u32> {
    let prefix = format!("{name}-");
    fs::read_dir(parent)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(move |entry| {
            entry
                .file_name()
                .to_str()?
                .strip_prefix(&prefix)?
                .parse()
                .ok()
        })
}

fn is_taken(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::AlreadyExists | io::ErrorKind::DirectoryNotEmpty
    )
}

/// The folder of a run that is to be read: the one named, by its path or by its name in `runs`, or
/// the latest there.
///
/// # Errors
///
/// If it is not there or is not a run folder.
pub fn find(named: Option<&Path>, runs: &Path) -> Result<PathBuf> {
    let Some(dir) = named else {
        return latest(runs);
    };
    let dir = named_folder(dir, runs)?;
    if is_run(&dir) {
        return Ok(dir);
    }
    let is_none = anyhow!("{} is not a run folder: it has no {RECORD}", dir.display());
    Err(is_none).help(other_way(
        &dir,
        "name the folder that a run has written, as runs/timerlat-001 or timerlat-001",
    ))
}

/// How to look at what a folder holds, for whoever took it for something else; `otherwise` if it holds nothing known.
#[must_use]
pub fn other_way(dir: &Path, otherwise: &str) -> String {
    let holds = |file: &str| dir.join(file).is_file();
    match () {
        () if holds(SWEEP) => format!(
            "it holds a sweep: cargo xtask latency-sweep --from {}",
            dir.display()
        ),
        () if holds(COMPARISON) => "it holds a comparison, whose run folders are inside".into(),
        () if holds(RECORD) => format!(
            "it holds a run: cargo xtask latency-run --from {}",
            dir.display()
        ),
        () => otherwise.into(),
    }
}

/// The folder that is named, by its path or by its name in `runs`.
///
/// # Errors
///
/// If it is not there.
pub fn named_folder(dir: &Path, runs: &Path) -> Result<PathBuf> {
    let places = [dir.to_owned(), runs.join(dir)];
    places
        .into_iter()
        .find(|place| place.is_dir())
        .with_context(|| format!("there is no folder {}", dir.display()))
}

fn latest(runs: &Path) -> Result<PathBuf> {
    let entries = fs::read_dir(runs).into_iter().flatten().flatten();
    let newest = entries
        .filter_map(|entry| {
            let made = entry.path().join(RECORD).metadata().ok()?.modified().ok()?;
            Some((made, entry.path()))
        })
        .max();
    newest
        .map(|(_, path)| path)
        .with_context(|| format!("there is no run in {}", runs.display()))
        .help("make one: cargo xtask latency-run")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn publish(output: Option<&Path>, runs: &Path) -> PathBuf {
        let folder = RunFolder::create(output, true, runs, "timerlat").unwrap();
        fs::write(folder.path().join(RECORD), "{}").unwrap();
        folder.publish().unwrap()
    }

    #[test]
    fn a_trace_that_is_a_pipe_keeps_no_one_waiting() {
        use rustix::fs::{CWD, FileType, Mode, mknodat};

        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(TRACE);
        mknodat(CWD, &path, FileType::Fifo, Mode::RUSR, 0).unwrap();
        let error = trace(dir.path()).err().unwrap();
        assert!(
            format!("{error:#}").contains("no ordinary file"),
            "{error:#}"
        );
    }

    #[test]
    fn the_same_image_of_several_runs_is_on_the_disk_once() {
        use std::os::unix::fs::MetadataExt;

        let runs = tempfile::tempdir().unwrap();
        let put = |name: &str, image: &[u8]| {
            let dir = runs.path().join(name);
            fs::create_dir(&dir).unwrap();
            let path = put_image(&dir, image).unwrap();
            assert_eq!(fs::read(&path).unwrap(), image);
            fs::metadata(path).unwrap().ino()
        };
        let [a, b, c, d] = [("a", b"one"), ("b", b"two"), ("c", b"one"), ("d", b"two")]
            .map(|(name, image)| put(name, image));
        assert!(a == c && b == d && a != b);
    }

    #[test]
    fn numbers_go_up_and_nothing_is_left_of_what_was_dropped() {
        let dir = tempfile::tempdir().unwrap();
        assert!(publish(None, dir.path()).ends_with("timerlat-001"));
        assert!(publish(None, dir.path()).ends_with("timerlat-002"));
        drop(RunFolder::create(None, false, dir.path(), "timerlat").unwrap());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
        assert!(find(None, dir.path()).unwrap().ends_with("timerlat-002"));
        let by_name = find(Some(Path::new("timerlat-001")), dir.path()).unwrap();
        assert_eq!(by_name, dir.path().join("timerlat-001"));
        assert!(find(Some(Path::new("timerlat-003")), dir.path()).is_err());
    }

    #[test]
    fn a_run_is_replaced_if_that_is_meant_and_anything_else_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("out");
        publish(Some(&target), dir.path());
        fs::write(target.join("old"), "").unwrap();
        let error = RunFolder::create(Some(&target), false, dir.path(), "x").unwrap_err();
        assert!(format!("{error:#}").contains("holds a run already"));
        assert!(target.join("old").exists());
        publish(Some(&target), dir.path());
        assert!(target.join(RECORD).exists() && !target.join("old").exists());

        fs::remove_file(target.join(RECORD)).unwrap();
        fs::write(target.join("thesis.tex"), "").unwrap();
        let error = RunFolder::create(Some(&target), true, dir.path(), "x").unwrap_err();
        assert!(format!("{error:#}").contains("not a run folder"));
        assert!(find(Some(&target), dir.path()).is_err());
    }

    #[test]
    fn what_took_the_place_meanwhile_stays_and_the_run_is_kept_beside_it() {
        for is_forced in [false, true] {
            let dir = tempfile::tempdir().unwrap();
            let target = dir.path().join("out");
            let folder = RunFolder::create(Some(&target), is_forced, dir.path(), "x").unwrap();
            fs::write(folder.path().join(RECORD), "{}").unwrap();
            fs::create_dir(&target).unwrap();
            let other = target.join(if is_forced { "thesis.tex" } else { RECORD });
            fs::write(&other, "another's").unwrap();
            let error = format!("{:#}", folder.publish().unwrap_err());
            let says = ["holds a run already", "is not empty"][usize::from(is_forced)];
            assert!(
                error.contains("its place was taken: /") && error.contains(says),
                "{error}"
            );
            assert!(error.contains("out-001"), "{error}");
            assert_eq!(fs::read_to_string(&other).unwrap(), "another's");
            let kept = dir.path().join("out-001").join(RECORD);
            assert_eq!(fs::read_to_string(kept).unwrap(), "{}");
            assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
        }
    }

    #[test]
    fn what_a_killed_run_left_goes_away() {
        let dir = tempfile::tempdir().unwrap();
        let stale = dir.path().join(".timerlat.tmp-4294967295");
        fs::create_dir(&stale).unwrap();
        drop(RunFolder::create(None, false, dir.path(), "timerlat").unwrap());
        assert!(!stale.exists());
    }
}
