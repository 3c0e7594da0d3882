//! The manifest, `takt.app.toml`: which tasks there are, and what each is given.

mod device;
mod region;

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail, ensure};
use serde::Deserialize;
use takt_abi::REGION;

use device::Device;
pub(super) use device::Dma;
use region::Region;
pub(super) use region::{Mapped, Source};

use super::build::base;

/// The highest priority of a thread.
const MAX_PRIORITY: u8 = 99;
/// Pages are mapped whole.
const PAGE: u64 = 4096;
/// As the kernel has it.
const MAX_PEERS: usize = 16;
/// As many as there are vectors for their interrupts.
const MAX_DEVICES: usize = 32;
/// As the machines of `run` have at most.
const MAX_CPUS: u8 = 8;
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
    /// What tasks share.
    #[serde(rename = "region", default)]
    pub regions: Vec<Region>,
    /// The devices that tasks have.
    #[serde(rename = "device", default)]
    pub devices: Vec<Device>,
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
    /// The CPU that it runs on.
    #[serde(default)]
    pub cpu: u8,
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
            let at = |key: &str| places.line("task", number, key);
            let name = &task.name;
            if !names.insert(name) {
                bail!("line {}: there are two tasks named `{name}`", at("name"));
            }
            if !is_word(name, "-_") {
                bail!(
                    "line {}: `{name}` is no name: letters, digits, - and _",
                    at("name")
                );
            }
            if task.priority > MAX_PRIORITY {
                bail!("line {}: priorities go to {MAX_PRIORITY}", at("priority"));
            }
            if task.cpu >= MAX_CPUS {
                bail!("line {}: CPUs go to {}", at("cpu"), MAX_CPUS - 1);
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
        let nr = manifest.devices.len();
        ensure!(
            nr <= MAX_DEVICES,
            "{nr} devices are more than {MAX_DEVICES}"
        );
        for (number, device) in manifest.devices.iter().enumerate() {
            let at = |key: &str| places.line("device", number, key);
            if manifest.number(&device.task).is_none() {
                bail!("line {}: there is no task `{}`", at("task"), device.task);
            }
            device
                .check(&manifest.devices[..number])
                .map_err(|(key, error)| error.context(format!("line {}", at(key))))?;
        }
        for (number, region) in manifest.regions.iter().enumerate() {
            let at = |key: &str| places.line("region", number, key);
            let tasks = |name: &str| manifest.number(name).is_some();
            region
                .check(&manifest.regions[..number], tasks)
                .map_err(|(key, error)| error.context(format!("line {}", at(key))))?;
        }
        for (number, task) in manifest.tasks.iter().enumerate() {
            manifest
                .mapped(number)
                .with_context(|| format!("line {}", places.line("task", number, "name")))
                .with_context(|| format!("the task `{}`", task.name))?;
        }
        Ok(manifest)
    }

    /// Whether a task has this port.
    #[must_use]
    pub fn has_port(&self, port: u64) -> bool {
        let mut ports = self.devices.iter().flat_map(|it| &it.ports);
        ports.any(|it| it.range().contains(&port))
    }

    /// What a task finds by symbols of these names, behind `__`.
    pub fn given(&self, task: &Task) -> impl Iterator<Item = (String, u64)> {
        let devices = self.devices_of(task);
        let all = devices.flat_map(|device| {
            let name = &device.name;
            let ports = device.ports.iter().enumerate();
            let ports = ports.map(move |(number, it)| (format!("port_{name}_{number}"), it.first));
            let interrupt = device.interrupt.iter();
            let interrupt =
                interrupt.map(move |it| (format!("interrupt_{name}"), it.notification.into()));
            ports.chain(interrupt)
        });
        let number = self.number(&task.name);
        let mapped = number
            .and_then(|it| self.mapped(it).ok())
            .unwrap_or_default();
        let mapped = mapped.into_iter().flat_map(|it| {
            let size = (format!("size_{}", it.name), it.size);
            [(it.name, it.at), size]
        });
        all.chain(mapped)
            .map(|(given, value)| (format!("takt_{given}"), value))
    }

    /// The memory that a task has besides its own, and where: below its stack and the page under that.
    ///
    /// # Errors
    ///
    /// If there is no room for it.
    pub(super) fn mapped(&self, number: usize) -> Result<Vec<Mapped>> {
        let task = &self.tasks[number];
        let regions = self.regions.iter().enumerate();
        let regions = regions.filter_map(|(nr, it)| it.mapped(nr, &task.name));
        let devices = self.devices_of(task).flat_map(Device::mapped);
        let mut all: Vec<_> = regions.chain(devices).collect();
        let mut free = base(number) + REGION as u64;
        let mut room = REGION as u64;
        let mut take = |size: u64| {
            // A page between each two is not mapped.
            let size = size.saturating_add(PAGE);
            room = room
                .checked_sub(size)
                .context("its stack, regions and devices have no room in its 2 MiB")?;
            free -= size;
            anyhow::Ok(free + PAGE)
        };
        take(task.stack)?;
        for mapped in &mut all {
            mapped.at = take(mapped.size)?;
        }
        Ok(all)
    }

    /// The devices of a task.
    pub fn devices_of(&self, task: &Task) -> impl Iterator<Item = &Device> {
        let name = task.name.clone();
        self.devices.iter().filter(move |it| it.task == name)
    }

    /// How many CPUs there have to be for all tasks.
    #[must_use]
    pub fn nr_cpus(&self) -> u8 {
        let cpus = self.tasks.iter().map(|task| task.cpu + 1);
        cpus.max().unwrap_or(1)
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

/// Whether it is a name, of letters, digits and these.
fn is_word(name: &str, others: &str) -> bool {
    let is_part = |it: char| it.is_ascii_alphanumeric() || others.contains(it);
    !name.is_empty() && name.chars().all(is_part)
}

/// Whether a line gives this key its value.
fn is_key(line: &str, key: &str) -> bool {
    let line = line.trim_start().strip_prefix(key);
    line.is_some_and(|rest| rest.trim_start().starts_with('='))
}

/// Where what stands in a manifest.
struct Places<'t> {
    tables: Vec<Table<'t>>,
}

struct Table<'t> {
    name: &'t str,
    /// The line of its heading.
    heading: usize,
    /// The lines behind it, with their numbers.
    lines: Vec<(usize, &'t str)>,
}

impl<'t> Places<'t> {
    fn of(text: &'t str) -> Self {
        let mut tables: Vec<Table<'_>> = Vec::new();
        for (at, line) in text.lines().enumerate() {
            let heading = line.trim_start().strip_prefix("[[");
            if let Some((name, _)) = heading.and_then(|it| it.split_once("]]")) {
                tables.push(Table {
                    name: name.trim(),
                    heading: at + 1,
                    lines: Vec::new(),
                });
            } else if let Some(table) = tables.last_mut() {
                table.lines.push((at + 1, line));
            }
        }
        Self { tables }
    }

    /// The line of a key in the table of this name and number; that of its heading if it is written in an unusual way.
    fn line(&self, name: &str, number: usize, key: &str) -> usize {
        let mut of_name = self.tables.iter().filter(|it| it.name == name);
        let Some(table) = of_name.nth(number) else {
            return 1;
        };
        let found = table.lines.iter().find(|(_, line)| is_key(line, key));
        found.map_or(table.heading, |(at, _)| *at)
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
        assert_eq!(manifest.nr_cpus(), 1);
        let other = GOOD.replace("priority = 4", "priority = 4\ncpu = 2");
        let manifest = Manifest::parse(Path::new("m"), &other).unwrap();
        assert_eq!((manifest.tasks[0].cpu, manifest.nr_cpus()), (0, 3));
    }

    /// Behind the tasks, from line 14 on.
    const DEVICES: &str = "[[device]]\nname = \"c\"\ntask = \"a\"\nports = [{ first = 0x2f8, count = 8 }]\n\
                           interrupt = { isa = 3, notification = 1 }\n\n\
                           [[device]]\nname = \"d\"\ntask = \"b\"\nports = [{ first = 0x2e8, count = 8 }]\n\
                           interrupt = { pin = 16, notification = 1 }\n";

    /// Behind the tasks, from line 14 on.
    const MEMORY: &str = "[[device]]\nname = \"c\"\ntask = \"a\"\ndma = \"none\"\n\
                          memory = [{ first = 0xfed40000, size = 0x2000 }]\n\n\
                          [[device]]\nname = \"d\"\ntask = \"b\"\ndma = \"trusted\"\n\
                          memory = [{ first = 0xfed50000, size = 0x1000 }]\n\n\
                          [[region]]\nname = \"e\"\nsize = 8192\ntasks = [{ task = \"a\", access = \"write\" }, \
                          { task = \"b\", access = \"read\" }]\n";

    #[test]
    fn errors_about_memory_name_the_line() {
        let good = GOOD.to_owned() + MEMORY;
        let manifest = Manifest::parse(Path::new("m"), &good).unwrap();
        let given: Vec<_> = manifest.given(&manifest.tasks[1]).collect();
        let end = base(1) + REGION as u64;
        let region = end - 8192 - 4096 - 8192;
        let device = region - 4096 - 4096;
        let expected = [
            ("region_e", region),
            ("size_region_e", 8192),
            ("memory_d_0", device),
            ("size_memory_d_0", 4096),
        ];
        assert_eq!(
            given,
            expected.map(|(name, value)| (format!("takt_{name}"), value))
        );
        for (old, new, words) in [
            (
                "0xfed50000, size",
                "0xfed41000, size",
                "line 24: the memory at 0xfed41000 is memory of `c`",
            ),
            (
                "0xfed50000, size = 0x1000",
                "0xfed3f000, size = 0x2000",
                "line 24: the memory at 0xfed40000 is memory of `c`",
            ),
            (
                "0xfed50000, size = 0x1000",
                "0xfed3f000, size = 0x1001",
                "line 24: a device's memory is whole pages",
            ),
            (
                "0xfed50000",
                "0xfed50800",
                "line 24: a device's memory is whole pages",
            ),
            (
                "0xfed50000, size = 0x1000",
                "0xfed50000, size = 0",
                "line 24: no memory",
            ),
            (
                "0xfed50000",
                "0xfee00000",
                "line 24: the memory from 0xfee00000 on is the local APICs'",
            ),
            (
                "0xfed50000",
                "0xfec00000",
                "line 24: the memory from 0xfec00000 on is the I/O APICs'",
            ),
            (
                "0xfed50000",
                "0x1000000",
                "line 24: the memory from 0x1000000 on is the machine's",
            ),
            (
                "0xfed50000",
                "0xbffff000",
                "line 24: the memory from 0xbffff000 on is the machine's",
            ),
            (
                "0xfed50000",
                "0x100000000",
                "line 24: the memory from 0x100000000 on is beyond",
            ),
            (
                "dma = \"trusted\"\n",
                "",
                "line 21: `d` may be able to write to any memory",
            ),
            (
                "size = 8192\ntasks",
                "size = 8193\ntasks",
                "line 28: a region is whole pages",
            ),
            (
                "size = 8192\ntasks",
                "size = 0\ntasks",
                "line 28: a region is whole pages",
            ),
            (
                "size = 8192\ntasks",
                "size = 0x200000\ntasks",
                "line 2: its stack, regions and devices have no room",
            ),
            (
                "name = \"e\"",
                "name = \"e-e\"",
                "line 27: `e-e` is no name",
            ),
            (
                "task = \"b\", access",
                "task = \"z\", access",
                "line 29: there is no task `z`",
            ),
            (
                "task = \"b\", access",
                "task = \"a\", access",
                "line 29: `a` has it twice",
            ),
            ("\"read\"", "\"execute\"", "line 29"),
        ] {
            assert_ne!(good.replace(old, new), good, "{old}");
            let error = Manifest::parse(Path::new("m"), &good.replace(old, new)).unwrap_err();
            let said = format!("{error:#}");
            assert!(said.contains(words), "`{new}` gave: {said}");
        }
    }

    #[test]
    fn errors_about_devices_name_the_line() {
        let good = GOOD.to_owned() + DEVICES;
        let manifest = Manifest::parse(Path::new("m"), &good).unwrap();
        let all: Vec<_> = manifest.devices_of(&manifest.tasks[1]).collect();
        assert_eq!(all[0].ports[0].range(), 0x2e8..0x2f0);
        for (old, new, words) in [
            (
                "task = \"b\"\np",
                "task = \"z\"\np",
                "line 22: there is no task `z`",
            ),
            (
                "name = \"d\"",
                "name = \"c\"",
                "line 21: there are two devices",
            ),
            (
                "name = \"d\"",
                "name = \"d-d\"",
                "line 21: `d-d` is no name",
            ),
            // Where the other one's begin and end.
            (
                "0x2e8, count = 8",
                "0x2e8, count = 17",
                "line 23: port 0x2f8 is a port of `c`",
            ),
            (
                "0x2e8, count = 8",
                "0x2ff, count = 1",
                "line 23: port 0x2ff is a port of `c`",
            ),
            (
                "0x2f8, count = 8 }",
                "0x2f8, count = 8 }, { first = 0x2ff, count = 1 }",
                "line 17: port 0x2ff",
            ),
            ("0x2e8, count = 8", "0x2e8, count = 0", "line 23: no ports"),
            (
                "0x2e8, count = 8",
                "0xffff, count = 2",
                "line 23: there are ports up to",
            ),
            (
                "0x2e8, count = 8",
                "0xcff, count = 1",
                "line 23: the ports 0xcf8 to 0xcff are those of PCI's",
            ),
            (
                "0x2e8, count = 8",
                "0x1f, count = 1",
                "line 23: the ports 0x0 to 0x1f are a DMA",
            ),
            (
                "0x2e8, count = 8",
                "0x100, count = 0x300",
                "line 23: the ports 0x3b0 to",
            ),
            (
                "0x2e8, count = 8",
                "0x3ff, count = 1",
                "line 23: the ports 0x3f8 to 0x3ff are COM1's",
            ),
            ("0x2e8, count = 8", "-1, count = 1", "line 23"),
            ("pin = 16", "isa = 3", "line 24: it is the interrupt of `c`"),
            (
                "pin = 16",
                "isa = 0",
                "line 24: the interrupt 0 is the interval timer's",
            ),
            ("pin = 16", "isa = 16", "line 24: ISA's interrupts go to 15"),
            ("pin = 16, ", "", "line 24: an interrupt has `isa` or `pin`"),
            ("pin = 16", "pin = 16, isa = 5", "line 24: an interrupt has"),
            (
                "16, notification = 1",
                "16, notification = 3",
                "line 24: a notification is one bit",
            ),
            (
                "16, notification = 1",
                "16, notification = 0x40000000",
                "line 24: a notification is one bit",
            ),
            (
                "task = \"b\"\np",
                "task = \"a\"\np",
                "line 24: the notification is that of `c`",
            ),
        ] {
            assert_ne!(good.replace(old, new), good, "{old}");
            let error = Manifest::parse(Path::new("m"), &good.replace(old, new)).unwrap_err();
            let said = format!("{error:#}");
            assert!(said.contains(words), "`{new}` gave: {said}");
        }
    }

    #[test]
    fn errors_name_the_line() {
        for (old, new, words) in [
            ("name = \"b\"", "name = \"a\"", "line 8: there are two"),
            ("priority = 4", "priority = 100", "line 10: priorities"),
            ("priority = 4", "priority = 1000", "line 10"),
            ("stack = 8192", "stack = 8000", "line 11: a stack"),
            ("stack = 8192", "stack = 8192\ncpu = 8", "line 12: CPUs"),
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
