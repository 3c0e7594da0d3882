//! The manifest, `takt.app.toml`: which tasks there are, and what each is given.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail, ensure};
use serde::Deserialize;

/// The highest priority of a thread.
const MAX_PRIORITY: u8 = 99;
/// Pages are mapped whole.
const PAGE: u64 = 4096;
/// As the kernel has it.
const MAX_PEERS: usize = 16;
/// Tasks, as the kernel has it.
const MAX_TASKS: usize = 64;

/// A manifest.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// The task whose end is that of the run; without it that of all.
    pub until: Option<String>,
    /// The tasks. A task's number is its place.
    #[serde(rename = "task")]
    pub tasks: Vec<Task>,
    /// Where it is.
    #[serde(skip)]
    pub path: PathBuf,
}

/// A task.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Task {
    /// Its name.
    pub name: String,
    /// The package that it is a binary of.
    pub package: String,
    /// The binary, if it is not called as the task is.
    pub bin: Option<String>,
    /// Features of the package.
    #[serde(default)]
    pub features: Vec<String>,
    /// Its thread's priority, 0 to 99.
    pub priority: u8,
    /// Bytes of its stack.
    pub stack: u64,
    /// The number that it is told at its beginning.
    #[serde(default)]
    pub argument: u64,
    /// The task that is told of its faults.
    pub supervisor: Option<String>,
    /// Whom it knows; a handle is a place in here.
    #[serde(default)]
    pub peers: Vec<Peer>,
}

/// A handle.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Peer {
    /// The task that it names.
    pub task: String,
    /// What it allows.
    pub rights: Vec<Right>,
    /// What the other is told with each message.
    #[serde(default)]
    pub badge: u32,
}

/// What a handle allows.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Right {
    /// Messages.
    Call,
    /// Notifications.
    Notify,
}

impl Manifest {
    /// Reads a manifest.
    ///
    /// # Errors
    ///
    /// If it cannot be read or makes no sense; says where.
    pub fn read(path: &Path) -> Result<Self> {
        let text = fs::read_to_string(path)
            .with_context(|| format!("cannot read the manifest {}", path.display()))?;
        Self::parse(path, &text).with_context(|| format!("the manifest {}", path.display()))
    }

    fn parse(path: &Path, text: &str) -> Result<Self> {
        let mut manifest: Self =
            basic_toml::from_str(text).map_err(|error| located(&error.to_string(), text))?;
        manifest.path = path.to_owned();
        let places = Places::of(text);
        let mut names = HashSet::new();
        let nr = manifest.tasks.len();
        ensure!(nr <= MAX_TASKS, "{nr} tasks are more than {MAX_TASKS}");
        if let Some(until) = &manifest.until
            && manifest.number(until).is_none()
        {
            let line = text.lines().position(|line| is_key(line, "until"));
            bail!(
                "line {}: there is no task `{until}`",
                line.map_or(1, |at| at + 1)
            );
        }
        for (number, task) in manifest.tasks.iter().enumerate() {
            let at = |key: &str| places.line(number, key);
            let name = &task.name;
            if !names.insert(name) {
                bail!("line {}: there are two tasks named `{name}`", at("name"));
            }
            let is_word = |name: &str| {
                !name.is_empty()
                    && name
                        .chars()
                        .all(|it| it.is_ascii_alphanumeric() || "-_".contains(it))
            };
            if !is_word(name) {
                bail!(
                    "line {}: `{name}` is no name: letters, digits, - and _",
                    at("name")
                );
            }
            if task.priority > MAX_PRIORITY {
                bail!("line {}: priorities go to {MAX_PRIORITY}", at("priority"));
            }
            if task.stack == 0 || !task.stack.is_multiple_of(PAGE) {
                bail!(
                    "line {}: a stack has whole pages of {PAGE} bytes",
                    at("stack")
                );
            }
            if let Some(supervisor) = &task.supervisor {
                manifest
                    .other(number, supervisor)
                    .with_context(|| format!("line {}", at("supervisor")))?;
            }
            if task.peers.len() > MAX_PEERS {
                bail!("line {}: more than {MAX_PEERS} peers", at("peers"));
            }
            for peer in &task.peers {
                manifest
                    .other(number, &peer.task)
                    .with_context(|| format!("line {}", at("peers")))?;
                if peer.rights.is_empty() {
                    bail!(
                        "line {}: the handle of `{}` allows nothing",
                        at("peers"),
                        peer.task
                    );
                }
            }
        }
        Ok(manifest)
    }

    /// The number of another task.
    fn other(&self, own: usize, name: &str) -> Result<usize> {
        let number = self
            .number(name)
            .with_context(|| format!("there is no task `{name}`"))?;
        ensure!(number != own, "`{name}` is the task itself");
        Ok(number)
    }

    /// The number of the task of this name.
    #[must_use]
    pub fn number(&self, name: &str) -> Option<usize> {
        self.tasks.iter().position(|task| task.name == name)
    }
}

/// An error of the parser. It names the line of the table that has an unknown key; that of the key is better.
fn located(said: &str, text: &str) -> anyhow::Error {
    let line = || {
        let key = said.strip_prefix("unknown field `")?.split('`').next()?;
        let table = said.rsplit_once("at line ")?.1.split(' ').next()?;
        let table: usize = table.parse().ok()?;
        let mut lines = text.lines().enumerate().skip(table.checked_sub(1)?);
        let (at, _) = lines.find(|(_, line)| is_key(line, key))?;
        Some(at + 1)
    };
    match line() {
        Some(line) => anyhow!("line {line}: {said}"),
        None => anyhow!("{said}"),
    }
}

/// Whether a line gives this key its value.
fn is_key(line: &str, key: &str) -> bool {
    let line = line.trim_start().strip_prefix(key);
    line.is_some_and(|rest| rest.trim_start().starts_with('='))
}

/// Where what stands in a manifest.
struct Places<'t> {
    /// The line of each task's heading, and the lines behind it with their numbers.
    tasks: Vec<(usize, Vec<(usize, &'t str)>)>,
}

impl<'t> Places<'t> {
    fn of(text: &'t str) -> Self {
        let mut tasks: Vec<(usize, Vec<_>)> = Vec::new();
        for (at, line) in text.lines().enumerate() {
            if line.trim_start().starts_with("[[task]]") {
                tasks.push((at + 1, Vec::new()));
            } else if let Some((_, lines)) = tasks.last_mut() {
                lines.push((at + 1, line));
            }
        }
        Self { tasks }
    }

    /// The line of a task's key; that of its heading if it is written in an unusual way.
    fn line(&self, task: usize, key: &str) -> usize {
        let Some((heading, lines)) = self.tasks.get(task) else {
            return 1;
        };
        let found = lines.iter().find(|(_, line)| is_key(line, key));
        found.map_or(*heading, |(at, _)| *at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "[[task]]\nname = \"a\"\npackage = \"p\"\npriority = 3\nstack = 4096\n\n\
                        [[task]]\nname = \"b\"\npackage = \"p\"\npriority = 4\nstack = 8192\nsupervisor = \"a\"\n\
                        peers = [{ task = \"a\", rights = [\"call\"], badge = 5 }]\n";

    #[test]
    fn a_manifest_is_read() {
        let manifest = Manifest::parse(Path::new("m"), GOOD).unwrap();
        assert_eq!(manifest.number("b"), Some(1));
        assert_eq!(manifest.tasks[1].peers[0].rights, [Right::Call]);
    }

    #[test]
    fn errors_name_the_line() {
        for (old, new, words) in [
            ("name = \"b\"", "name = \"a\"", "line 8: there are two"),
            ("priority = 4", "priority = 100", "line 10: priorities"),
            ("priority = 4", "priority = 1000", "line 10"),
            ("stack = 8192", "stack = 8000", "line 11: a stack"),
            (
                "supervisor = \"a\"",
                "supervisor = \"c\"",
                "line 12: there is no task `c`",
            ),
            (
                "supervisor = \"a\"",
                "supervisor = \"b\"",
                "line 12: `b` is the task itself",
            ),
            (
                "task = \"a\"",
                "task = \"c\"",
                "line 13: there is no task `c`",
            ),
            ("[\"call\"]", "[]", "line 13: the handle"),
            ("[\"call\"]", "[\"kill\"]", "line 13"),
            ("stack = 8192", "stacks = 8192", "line 11"),
            ("stack = 8192", "stack 8192", "line 11"),
            (
                "[[task]]\nname = \"a\"",
                "until = \"c\"\n[[task]]\nname = \"a\"",
                "line 1: there is no task `c`",
            ),
        ] {
            let error = Manifest::parse(Path::new("m"), &GOOD.replace(old, new)).unwrap_err();
            let said = format!("{error:#}");
            assert!(said.contains(words), "`{new}` gave: {said}");
        }
    }
}
