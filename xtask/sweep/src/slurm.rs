//! The parts of a sweep on the nodes of a Slurm cluster: an array job whose tasks are the sweep's shards, all in one folder that
//! the nodes share.
//!
//! What a task has done is seen by its files, whether it still runs by `squeue`: no accounting is needed. A task that ends
//! before its shard is whole (killed, out of time) is submitted again, and goes on behind the last part that it wrote. One
//! whose node was lost is queued again by Slurm itself, and waited for.

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::fs;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use takt_base::paths::{passing_mark, which};
use takt_base::term::{self, WithHelp};
use takt_base::{input, tool};
use takt_machine::run::signals::Interrupted;

use super::parts::Folder;
use super::work::{Outline, Progress, Shard};

/// Files of this are in the sweep's folder while tasks are at work: the program that they run, and what they say.
const FOLDER: &str = "slurm";
/// How often the same task may end without a further file.
const ATTEMPTS: u32 = 3;
/// From one look to the next, at first and at most: a cluster's controller answers everybody.
const LOOKS: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(15));
/// How long a controller may give no answer.
const PATIENCE: Duration = Duration::from_secs(600);
/// Why tasks wait in every cluster.
const USUAL: [&str; 5] = ["None", "Priority", "Resources", "BeginTime", "Cleaning"];
/// Lines of a task's that are shown.
const LAST_LINES: usize = 8;

/// What is submitted.
#[derive(Clone, Copy, Debug)]
pub struct Array<'a> {
    /// Tasks, each a shard.
    pub tasks: u32,
    /// Boots at the same time of each, and CPUs.
    pub jobs: u16,
    /// What the user says to `sbatch`.
    pub sbatch: &'a [String],
}

/// A task that was submitted.
#[derive(Clone, Copy, Debug, Default)]
struct Task {
    /// The job that it is in by now.
    job: u64,
    /// Files that were there when it was submitted.
    files: usize,
    /// How often in a row it has ended without a further one.
    fruitless: u32,
}

/// Has all parts measured that are not known yet.
///
/// # Errors
///
/// If Slurm is not there or refuses the job, its controller gives no answer for ten minutes, a task ends three times without a
/// result, or the user wants out. Tasks that are left then are cancelled; what was measured is kept.
pub fn run(folder: &Folder, array: Array<'_>, progress: &dyn Progress) -> Result<()> {
    for program in ["sbatch", "squeue", "scancel"] {
        if which(program).is_none() {
            return Err(anyhow!("{program} is missing"))
                .help("call this where jobs of the cluster can be submitted");
        }
    }
    let dir = fs::canonicalize(folder.dir())
        .with_context(|| format!("cannot find {}", folder.dir().display()))?;
    let own = dir.join(FOLDER);
    fs::create_dir_all(&own).with_context(|| format!("cannot make {}", own.display()))?;
    // The tasks begin when there is room for them: by then ours may have been built anew.
    let program = own.join("takt");
    // Tasks of an earlier call may still run the one that is there: it stays as it is.
    let copy = own.join(format!(".takt{}", passing_mark()));
    fs::copy("/proc/self/exe", &copy)
        .and_then(|_| fs::rename(&copy, &program))
        .with_context(|| format!("cannot write {}", program.display()))?;
    let mut submitted = Submitted {
        array,
        script: script(&program, &dir, array)?,
        own: &own,
        tasks: BTreeMap::new(),
        said: BTreeSet::new(),
    };
    submitted.follow(folder, progress)?;
    // It is whole without what is left of it.
    let _ = fs::remove_dir_all(&own);
    Ok(())
}

/// What a task does.
fn script(program: &Path, dir: &Path, array: Array<'_>) -> Result<String> {
    Ok(format!(
        "#!/bin/sh\nexec {} latency-sweep --quiet --no-install --jobs {} --resume {} --shard \"$SLURM_ARRAY_TASK_ID/{}\"\n",
        quoted(program)?,
        array.jobs,
        quoted(dir)?,
        array.tasks
    ))
}

/// A path as a word of a shell's.
fn quoted(path: &Path) -> Result<String> {
    let text = path
        .to_str()
        .with_context(|| format!("{} is no UTF-8", path.display()))?;
    Ok(format!("'{}'", text.replace('\'', "'\\''")))
}

struct Submitted<'a> {
    array: Array<'a>,
    script: String,
    own: &'a Path,
    /// By their numbers, from 1.
    tasks: BTreeMap<u32, Task>,
    /// Why tasks wait, as far as it was told.
    said: BTreeSet<String>,
}

impl Submitted<'_> {
    fn follow(&mut self, folder: &Folder, progress: &dyn Progress) -> Result<()> {
        let of = self.array.tasks;
        let mut outline = None;
        let mut told = 0;
        let mut pause = LOOKS.0;
        loop {
            // First, so that all files of a task that is over are there.
            let active = self.active(progress)?;
            let listing = &folder.listing()?;
            if outline.is_none() {
                outline = Outline::known(folder, listing)?;
                if let Some(outline) = &outline {
                    told = outline.measured(listing);
                    progress.arrivals(outline.arrivals(), told);
                }
            }
            if let Some(outline) = &outline {
                let now = outline.measured(listing);
                progress.measured(now.saturating_sub(told));
                told = now;
            }
            let files = |index| match &outline {
                Some(outline) => outline.files(listing, Shard { index, of }),
                None => folder.paths_known(listing),
            };
            let is_done = |index| match &outline {
                Some(outline) => outline.is_done(listing, Shard { index, of }),
                None => false,
            };
            let left: Vec<_> = (1..=of)
                .filter(|number| !active.contains(number) && !is_done(number - 1))
                .collect();
            if left.is_empty() && active.is_empty() {
                self.tasks.clear();
                return Ok(());
            }
            if !left.is_empty() {
                self.submit(&left, files)?;
            }
            wait(pause, progress)?;
            pause = LOOKS.1.min(pause * 3 / 2);
        }
    }

    /// Submits these tasks, once more if they were before.
    fn submit(&mut self, numbers: &[u32], files: impl Fn(u32) -> usize) -> Result<()> {
        let mut again = Vec::new();
        for &number in numbers {
            let files = files(number - 1);
            let task = match self.tasks.get(&number) {
                None => Task {
                    files,
                    ..Task::default()
                },
                Some(before) => {
                    again.push(number.to_string());
                    let is_further = files > before.files;
                    let fruitless = if is_further { 0 } else { before.fruitless + 1 };
                    Task {
                        files,
                        fruitless,
                        ..*before
                    }
                }
            };
            self.tasks.insert(number, task);
            if task.fruitless == ATTEMPTS {
                let log = self.own.join(format!("{number}.log"));
                return Err(anyhow!(
                    "task {number} ended {ATTEMPTS} times and measured nothing{}",
                    last_words(&log)
                ))
                .help(if log.is_file() {
                    format!("all that it said is in {}", log.display())
                } else {
                    format!(
                        "it left no {}: do the nodes see this folder? Name one that they share by -o",
                        log.display()
                    )
                });
            }
        }
        if !again.is_empty() {
            term::note(format_args!(
                "run again, since it ended before its shard was measured: task {}",
                again.join(", ")
            ));
        }
        let job = self.sbatch(numbers)?;
        for number in numbers {
            self.tasks.entry(*number).or_default().job = job;
        }
        Ok(())
    }

    /// Hands an array job over; its number.
    fn sbatch(&self, numbers: &[u32]) -> Result<u64> {
        let numbers: Vec<_> = numbers.iter().map(u32::to_string).collect();
        // It may have a `%` of its own in its name.
        let log = format!(
            "{}/%a.log",
            self.own.display().to_string().replace('%', "%%")
        );
        let mut child = Command::new("sbatch")
            // Ctrl-C is for us: else it might be over before its number is known.
            .process_group(0)
            .arg("--job-name=takt-sweep")
            .arg(format!("--cpus-per-task={}", self.array.jobs))
            .args(self.array.sbatch)
            // What we count on is said last.
            .arg("--parsable")
            .arg(format!("--array={}", numbers.join(",")))
            .arg(format!("--output={log}"))
            .arg("--open-mode=append")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .context("cannot run sbatch")?;
        // One that ends without reading says itself what is wrong.
        let _ = child
            .stdin
            .take()
            .map(|mut stdin| stdin.write_all(self.script.as_bytes()));
        let output = child.wait_with_output()?;
        let said = String::from_utf8_lossy(&output.stdout);
        // The cluster's name may follow.
        match said.trim().split(';').next().unwrap_or_default().parse() {
            Ok(job) if output.status.success() => Ok(job),
            _ => bail!("sbatch: {}", tool::last_words(&output.stderr)),
        }
    }

    /// The tasks that run or wait.
    fn active(&mut self, progress: &dyn Progress) -> Result<BTreeSet<u32>> {
        if self.tasks.is_empty() {
            return Ok(BTreeSet::new());
        }
        let since = Instant::now();
        let said = loop {
            let mut squeue = without_defaults("squeue", "SQUEUE_");
            squeue.args(["--noheader", "--array", "--me", "--format=%F|%K|%t|%r"]);
            match tool::output(&mut squeue) {
                Ok(said) => break said,
                Err(error) if since.elapsed() > PATIENCE => return Err(error),
                Err(_) => wait(LOOKS.1, progress)?,
            }
        };
        let mut active = BTreeSet::new();
        for line in said.lines() {
            let mut fields = line.trim().splitn(4, '|');
            let job = fields.next().and_then(|text| text.parse::<u64>().ok());
            let index = fields.next().and_then(|text| text.parse::<u32>().ok());
            let (Some(job), Some(index)) = (job, index) else {
                continue;
            };
            if self.tasks.get(&index).is_none_or(|task| task.job != job) {
                continue;
            }
            active.insert(index);
            let is_pending = fields.next() == Some("PD");
            let reason = fields.next().unwrap_or_default();
            if is_pending && !USUAL.contains(&reason) && self.said.insert(reason.to_owned()) {
                term::note(format_args!(
                    "Slurm has task {index} wait: {}",
                    term::printable(reason.as_bytes())
                ));
            }
        }
        Ok(active)
    }
}

impl Drop for Submitted<'_> {
    /// Nobody waits for what is left.
    fn drop(&mut self) {
        // 0 is of those that sbatch has not taken.
        let jobs = self.tasks.values().map(|task| task.job);
        let jobs: BTreeSet<_> = jobs.filter(|job| *job != 0).collect();
        if jobs.is_empty() {
            return;
        }
        let jobs: Vec<_> = jobs.iter().map(u64::to_string).collect();
        let output = without_defaults("scancel", "SCANCEL_")
            .process_group(0)
            .arg("--quiet")
            .args(&jobs)
            .stdin(Stdio::null())
            .output();
        // Of jobs that are over it says nothing.
        if !output.is_ok_and(|it| it.status.success() || it.stderr.is_empty()) {
            term::note(format_args!(
                "tasks may still wait or run: scancel {}",
                jobs.join(" ")
            ));
        }
    }
}

/// A program without the user's own defaults for it, variables whose names begin so: they would leave out some of our tasks.
fn without_defaults(program: &str, prefix: &str) -> Command {
    let mut command = Command::new(program);
    for (name, _) in env::vars_os() {
        if name.as_encoded_bytes().starts_with(prefix.as_bytes()) {
            command.env_remove(name);
        }
    }
    command
}

/// Waits, unless the user wants out.
fn wait(pause: Duration, progress: &dyn Progress) -> Result<()> {
    let until = Instant::now() + pause;
    while Instant::now() < until {
        if progress.is_over() {
            bail!(Interrupted("interrupted"));
        }
        thread::sleep(Duration::from_millis(50));
    }
    Ok(())
}

/// The end of what a task said.
fn last_words(log: &Path) -> String {
    let text = input::read(log).unwrap_or_default();
    let text = term::printable(&text);
    let lines = term::last_lines(&text, LAST_LINES);
    lines.iter().map(|line| format!("\n  {line}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_stays_one_word() {
        assert_eq!(
            quoted(Path::new("/a b/it's $HOME")).unwrap(),
            "'/a b/it'\\''s $HOME'"
        );
    }
}
