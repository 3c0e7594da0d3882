//! [`Stage`]: where commands are typed and looked at.

use std::ffi::OsStr;
use std::fs;
use std::io::{Seek, Write};
use std::os::unix::process::parent_id;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use takt_base::paths;
use takt_image::build::disturbs;
use tempfile::TempDir;

/// A test's own folder, and the history of its runs there. Beside it is the finished run that all look at, `first`.
pub(super) struct Stage {
    dir: PathBuf,
    first: Arc<First>,
}

/// What all stages have.
struct First {
    scratch: TempDir,
    may_install: bool,
    /// What the first run printed.
    stdout: String,
}

/// The run that is there already.
pub(super) const FIRST: &str = "first";

/// A command that is over.
pub(super) struct Done {
    pub(super) code: Option<i32>,
    pub(super) stdout: String,
    pub(super) stderr: String,
}

impl Done {
    /// Takes the output as text.
    pub(super) fn of(output: &Output) -> Self {
        Self {
            code: output.status.code(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// Demands an exit code.
    pub(super) fn code(self, code: i32) -> Result<Self> {
        ensure!(
            self.code == Some(code),
            "exit code {:?}, not {code}:\n{}{}",
            self.code,
            self.stdout,
            self.stderr
        );
        Ok(self)
    }

    /// The JSON on stdout.
    pub(super) fn json(&self) -> Result<Value> {
        serde_json::from_str(&self.stdout)
            .with_context(|| format!("no JSON: {}{}", self.stdout, self.stderr))
    }

    /// Demands a text on stdout.
    pub(super) fn says(self, text: &str) -> Result<Self> {
        ensure!(
            self.stdout.contains(text),
            "no `{text}` in\n{}",
            self.stdout
        );
        Ok(self)
    }

    /// Demands a text on stderr.
    pub(super) fn complains(self, text: &str) -> Result<Self> {
        ensure!(
            self.stderr.contains(text),
            "no `{text}` in\n{}",
            self.stderr
        );
        Ok(self)
    }
}

/// Whether a variable would change what is built in a folder of an application. How cargo builds what runs on the host is not
/// among them: with another word of that it would build this program anew.
pub(super) fn is_kept_from_cargo(name: &OsStr) -> bool {
    name != "CARGO_INCREMENTAL" && disturbs(&name.to_string_lossy())
}

/// Waits until something holds; gives up after five minutes, since an image may have to be built first.
pub(super) fn wait_until(mut holds: impl FnMut() -> bool) -> Result<()> {
    let started = Instant::now();
    while !holds() {
        ensure!(
            started.elapsed() < Duration::from_secs(300),
            "not within five minutes"
        );
        thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// The `xtask` that called us. By this name it is still there when cargo has replaced the file while building the host's
/// tests.
pub(super) fn program() -> String {
    format!("/proc/{}/exe", parent_id())
}

impl Stage {
    /// Makes the first run, for stages to come.
    pub(super) fn new(may_install: bool) -> Result<Self> {
        let scratch = tempfile::Builder::new().prefix("takt-test-").tempdir()?;
        let dir = scratch.path().to_owned();
        let first = First {
            scratch,
            may_install,
            stdout: String::new(),
        };
        let mut stage = Self {
            dir,
            first: Arc::new(first),
        };
        let stdout = stage.latency_run(FIRST, "-d 300ms")?.code(0)?.stdout;
        if let Some(first) = Arc::get_mut(&mut stage.first) {
            first.stdout = stdout;
        }
        Ok(stage)
    }

    /// The stage of this name. Those who ask for the same share it.
    pub(super) fn named(&self, name: &str) -> Result<Self> {
        let dir = self.first.scratch.path().join(name);
        fs::create_dir_all(&dir).with_context(|| format!("cannot make {}", dir.display()))?;
        Ok(Self {
            dir,
            first: self.first.clone(),
        })
    }

    /// Whether programs that are missing may be installed.
    pub(super) fn may_install(&self) -> bool {
        self.first.may_install
    }

    /// What the first run printed.
    pub(super) fn stdout(&self) -> &str {
        &self.first.stdout
    }

    /// Where the stage is.
    pub(super) fn path(&self) -> &Path {
        &self.dir
    }

    /// `xtask` with these words; the history is the stage's.
    pub(super) fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(program());
        command
            .args(words)
            .env("NO_COLOR", "1")
            .env("LANG", "C.UTF-8")
            .env("TAKT_HISTORY", self.history())
            .env("TAKT_MEDIA", self.first.scratch.path().join("media-kept"))
            .current_dir(paths::workspace())
            .stdin(Stdio::null());
        command
    }

    /// Runs `xtask` with these words.
    pub(super) fn xtask(&self, words: &[&str]) -> Result<Done> {
        Self::done(&mut self.command(words))
    }

    fn done(command: &mut Command) -> Result<Done> {
        let output = command
            .output()
            .context("cannot run this program once more")?;
        Ok(Done::of(&output))
    }

    /// The same with a text on its standard input.
    pub(super) fn type_in(&self, words: &[&str], text: &str) -> Result<Done> {
        let mut file = tempfile::tempfile().context("no room for what is typed")?;
        file.write_all(text.as_bytes())?;
        file.rewind()?;
        let mut command = self.command(words);
        Self::done(command.stdin(file))
    }

    /// `latency-run` under icount with these flags into the folder `name`, whatever was there.
    pub(super) fn latency_run(&self, name: &str, flags: &str) -> Result<Done> {
        self.measure("latency-run", name, flags)
    }

    /// The same by `cyclictest`.
    pub(super) fn cyclictest(&self, name: &str, flags: &str) -> Result<Done> {
        self.measure("cyclictest", name, flags)
    }

    fn measure(&self, command: &str, name: &str, flags: &str) -> Result<Done> {
        let dir = self.dir(name);
        let mut words = vec![command, "--accel", "tcg", "--force", "--output", &dir];
        words.extend(flags.split_whitespace());
        self.xtask(&words)
    }

    /// Where the history of the runs is kept: not among the user's.
    pub(super) fn history(&self) -> String {
        self.dir("history")
    }

    /// The path of a run folder.
    pub(super) fn dir(&self, name: &str) -> String {
        let parent = match name {
            FIRST => self.first.scratch.path(),
            _ => &self.dir,
        };
        parent.join(name).display().to_string()
    }

    pub(super) fn read(&self, name: &str, file: &str) -> Result<Vec<u8>> {
        let path = Path::new(&self.dir(name)).join(file);
        fs::read(&path).with_context(|| format!("cannot read {}", path.display()))
    }

    /// Demands that a file is the same in two run folders, and not empty.
    pub(super) fn same(&self, file: &str, one: &str, other: &str) -> Result<()> {
        let (one, other) = (self.read(one, file)?, self.read(other, file)?);
        ensure!(!one.is_empty(), "{file} is empty");
        let differs = one.iter().zip(&other).position(|(a, b)| a != b);
        ensure!(
            one == other,
            "{file}: {} and {} bytes, different from byte {differs:?} on",
            one.len(),
            other.len()
        );
        Ok(())
    }

    /// What `latency-run --json` says of an earlier run that passed.
    pub(super) fn document(&self, name: &str) -> Result<Value> {
        self.xtask(&["latency-run", "--from", &self.dir(name), "--json", "-"])?
            .code(0)?
            .json()
    }

    /// The records of a run's trace, as `trace --json` prints them.
    pub(super) fn trace(&self, name: &str) -> Result<Vec<Value>> {
        let done = self.xtask(&["trace", &self.dir(name), "--json"])?.code(0)?;
        done.stdout
            .lines()
            .map(|line| serde_json::from_str(line).context("a line of `trace --json`"))
            .collect()
    }

    pub(super) fn first(&self) -> Result<Vec<Value>> {
        self.trace(FIRST)
    }
}
