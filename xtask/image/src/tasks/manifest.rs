//! The manifest, `takt.app.toml`: which tasks there are, and what each is given.

mod device;
mod order;
mod region;
mod semaphore;
mod timing;

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail, ensure};
use serde::Deserialize;
use takt_abi::{NOTIFICATIONS, REGION};

use device::Device;
pub(super) use device::Dma;
use region::Region;
pub(super) use region::{Mapped, Source};
pub(super) use semaphore::Right as SemaphoreRight;
use semaphore::{Granted, Semaphore};
pub use timing::Timing;

use super::build::base;

/// The highest priority of a thread.
const MAX_PRIORITY: u8 = 99;
/// As the kernel has it for a thread's name.
const MAX_NAME: usize = 64;
/// Pages are mapped whole.
const PAGE: u64 = 4096;
/// As the kernel has it.
const MAX_PEERS: usize = 16;
/// As many as there are vectors for their interrupts.
const MAX_DEVICES: usize = 32;
/// As the machines of `run` have at most.
const MAX_CPUS: u8 = 8;
/// An hour.
const MAX_PERIOD_US: u64 = 3_600_000_000;
/// Tasks, as the kernel has it.
const MAX_TASKS: usize = 64;

/// A manifest.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// The package of the image that is to have them, and its binary; without it Takt's own.
    pub image: Option<String>,
    /// The task whose end is that of the run; without it that of all.
    pub until: Option<String>,
    /// The tasks, and behind them all further threads. A task's number, or a thread's, is its place.
    #[serde(rename = "task")]
    pub tasks: Vec<Task>,
    /// Further threads of tasks, until they are among these.
    #[serde(rename = "thread", default)]
    threads: Vec<Thread>,
    /// What tasks share.
    #[serde(rename = "region", default)]
    pub regions: Vec<Region>,
    /// What tasks wait for and give each other.
    #[serde(rename = "semaphore", default)]
    pub semaphores: Vec<Semaphore>,
    /// The devices that tasks have.
    #[serde(rename = "device", default)]
    pub devices: Vec<Device>,
    /// How often threads and interrupts run, and for how long: for `prove`.
    #[serde(rename = "timing", default)]
    pub timings: Vec<Timing>,
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
    /// Microseconds that it may run in each of its periods.
    pub budget_us: Option<u64>,
    /// Microseconds of a period.
    pub period_us: Option<u64>,
    /// What becomes of it when it has used its budget.
    pub overrun: Option<Overrun>,
    /// What its supervisor is notified of then.
    pub overrun_notification: Option<u32>,
    /// After how many microseconds its watchdog bites that is not fed.
    pub watchdog_us: Option<u64>,
    /// After how many milliseconds the machine's watchdog bites, which it feeds; it may be a little later.
    pub machine_watchdog_ms: Option<u32>,
    /// Whom it knows; a handle is a place in here.
    #[serde(default)]
    pub peers: Vec<Peer>,
    /// Its semaphores; a handle is a place in here.
    #[serde(default)]
    pub semaphores: Vec<Granted>,
    /// The task that it is a further thread of.
    #[serde(skip)]
    pub thread_of: Option<usize>,
}

/// A further thread of a task. What it has not is the task's.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Thread {
    name: String,
    task: String,
    priority: u8,
    stack: u64,
    #[serde(default)]
    argument: u64,
    budget_us: Option<u64>,
    period_us: Option<u64>,
    overrun: Option<Overrun>,
    overrun_notification: Option<u32>,
    watchdog_us: Option<u64>,
    #[serde(default)]
    peers: Vec<Peer>,
    #[serde(default)]
    semaphores: Vec<Granted>,
}

impl Thread {
    /// As an entry behind those of the tasks, of which `number` is `task`.
    fn into_task(self, number: usize, task: &Task) -> Task {
        Task {
            name: self.name,
            package: task.package.clone(),
            bin: task.bin.clone(),
            features: task.features.clone(),
            priority: self.priority,
            cpu: task.cpu,
            stack: self.stack,
            argument: self.argument,
            supervisor: task.supervisor.clone(),
            budget_us: self.budget_us,
            period_us: self.period_us,
            overrun: self.overrun,
            overrun_notification: self.overrun_notification,
            watchdog_us: self.watchdog_us,
            machine_watchdog_ms: None,
            peers: self.peers,
            semaphores: self.semaphores,
            thread_of: Some(number),
        }
    }
}

/// What becomes of a task that has used its budget.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Overrun {
    /// It goes on when its next period begins.
    #[default]
    Throttle,
    /// It is stopped by a fault.
    Fault,
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
    /// Whether its calls need not go to a more important task: a circle of them is found when it is called.
    #[serde(default)]
    pub unordered: bool,
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
        let text = takt_base::input::read_to_string(path)
            .with_context(|| format!("cannot read the manifest {}", path.display()))?;
        Self::parse(path, &text).with_context(|| format!("the manifest {}", path.display()))
    }

    fn parse(path: &Path, text: &str) -> Result<Self> {
        let mut manifest: Self =
            basic_toml::from_str(text).map_err(|error| located(&error.to_string(), text))?;
        manifest.path = path.to_owned();
        let places = Places::of(text);
        let nr_tasks = manifest.tasks.len();
        for (at, thread) in std::mem::take(&mut manifest.threads)
            .into_iter()
            .enumerate()
        {
            let number = manifest.task(&thread.task).with_context(|| {
                let line = places.line("thread", at, "task");
                format!("line {line}: there is no task `{}`", thread.task)
            })?;
            let task = thread.into_task(number, &manifest.tasks[number]);
            manifest.tasks.push(task);
        }
        let line_of = |number: usize, key: &str| match number.checked_sub(nr_tasks) {
            None => places.line("task", number, key),
            Some(thread) => places.line("thread", thread, key),
        };
        let mut names = HashSet::new();
        let nr = manifest.tasks.len();
        ensure!(
            nr <= MAX_TASKS,
            "{nr} tasks and threads are more than {MAX_TASKS}"
        );
        if let Some(until) = &manifest.until
            && manifest.task(until).is_none()
        {
            let line = text.lines().position(|line| is_key(line, "until"));
            bail!(
                "line {}: there is no task `{until}`",
                line.map_or(1, |at| at + 1)
            );
        }
        for (number, semaphore) in manifest.semaphores.iter().enumerate() {
            let at = |key: &str| places.line("semaphore", number, key);
            semaphore
                .check(&manifest.semaphores[..number])
                .map_err(|(key, error)| error.context(format!("line {}", at(key))))?;
        }
        for (number, task) in manifest.tasks.iter().enumerate() {
            let at = |key: &str| line_of(number, key);
            let name = &task.name;
            if !names.insert(name) {
                bail!("line {}: there are two tasks named `{name}`", at("name"));
            }
            if !is_word(name, "-_") || name.len() > MAX_NAME {
                bail!(
                    "line {}: `{name}` is no name: letters, digits, - and _, {MAX_NAME} at most",
                    at("name")
                );
            }
            let symbol = |it: &Task| it.name.replace('-', "_");
            let before = &manifest.tasks[nr_tasks.min(number)..number];
            if task.thread_of.is_some() && name.starts_with(|it: char| it.is_ascii_digit()) {
                bail!("line {}: a thread's name begins with a letter", at("name"));
            }
            if let Some(other) = before.iter().find(|it| symbol(it) == symbol(task)) {
                bail!(
                    "line {}: `{name}` and `{}` are one name for `takt_user::thread!`",
                    at("name"),
                    other.name
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
                let supervisor = manifest
                    .other(number, supervisor)
                    .with_context(|| format!("line {}", at("supervisor")))?;
                if manifest.tasks[supervisor].thread_of == Some(number) {
                    bail!(
                        "line {}: its own thread cannot be told of its faults",
                        at("supervisor")
                    );
                }
            }
            if !task
                .watchdog_us
                .is_none_or(|it| (1..=MAX_PERIOD_US).contains(&it))
            {
                bail!(
                    "line {}: a watchdog waits from a microsecond to an hour",
                    at("watchdog_us")
                );
            }
            if task.machine_watchdog_ms.is_some()
                && manifest.feeder().map(|it| it.0) != Some(number)
            {
                bail!(
                    "line {}: another task feeds the machine's watchdog",
                    at("machine_watchdog_ms")
                );
            }
            task.check_budget()
                .map_err(|(key, error)| error.context(format!("line {}", at(key))))?;
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
            semaphore::check_granted(&task.semaphores, &manifest.semaphores)
                .with_context(|| format!("line {}", at("semaphores")))?;
        }
        order::check(&manifest.tasks, |number| line_of(number, "peers"))?;
        order::check_chains(&manifest.tasks, |number| line_of(number, "name"))?;
        let nr = manifest.devices.len();
        ensure!(
            nr <= MAX_DEVICES,
            "{nr} devices are more than {MAX_DEVICES}"
        );
        for (number, device) in manifest.devices.iter().enumerate() {
            let at = |key: &str| places.line("device", number, key);
            if manifest.task(&device.task).is_none() {
                bail!("line {}: there is no task `{}`", at("task"), device.task);
            }
            device
                .check(&manifest.devices[..number])
                .map_err(|(key, error)| error.context(format!("line {}", at(key))))?;
        }
        for (number, region) in manifest.regions.iter().enumerate() {
            let at = |key: &str| places.line("region", number, key);
            let tasks = |name: &str| manifest.task(name).is_some();
            region
                .check(&manifest.regions[..number], tasks)
                .map_err(|(key, error)| error.context(format!("line {}", at(key))))?;
        }
        for (number, task) in manifest.tasks[..nr_tasks].iter().enumerate() {
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

    /// The further threads of a task, by their numbers.
    pub(super) fn threads(&self, task: usize) -> Vec<usize> {
        let all = 0..self.tasks.len();
        all.filter(|it| self.tasks[*it].thread_of == Some(task))
            .collect()
    }

    /// One past the highest address of the stack of a thread, the first one of its task or a further one: each below the other, with
    /// a page in between that is not mapped.
    pub(super) fn stack_top(&self, number: usize) -> u64 {
        let task = self.tasks[number].thread_of.unwrap_or(number);
        let above = [task].into_iter().chain(self.threads(task));
        let above = above.take_while(|it| *it != number);
        let taken: u64 = above.map(|it| self.tasks[it].stack + PAGE).sum();
        (base(task) + REGION as u64).saturating_sub(taken)
    }

    /// The memory that a task has besides its own, and where: below its threads' stacks and the page under those.
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
        for number in [number].into_iter().chain(self.threads(number)) {
            take(self.tasks[number].stack)?;
        }
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

    /// The number of the task that feeds the machine's watchdog, and after how many milliseconds that bites.
    #[must_use]
    pub fn feeder(&self) -> Option<(usize, u32)> {
        let mut tasks = self.tasks.iter().enumerate();
        tasks.find_map(|(number, task)| Some((number, task.machine_watchdog_ms?)))
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
    fn task(&self, name: &str) -> Option<usize> {
        let number = self.number(name)?;
        self.tasks[number].thread_of.is_none().then_some(number)
    }

    /// The number of the task, or of the further thread, of this name.
    #[must_use]
    pub fn number(&self, name: &str) -> Option<usize> {
        self.tasks.iter().position(|task| task.name == name)
    }
}

impl Task {
    /// Its budget and its period in microseconds, if it has them.
    #[must_use]
    pub fn budget(&self) -> Option<(u64, u64)> {
        self.budget_us.zip(self.period_us)
    }

    /// Looks whether what is said of its budget makes sense; else says where it does not.
    fn check_budget(&self) -> Result<(), (&'static str, anyhow::Error)> {
        let says = |key, holds, error: &str| match holds {
            true => Ok(()),
            false => Err((key, anyhow!("{error}"))),
        };
        let Some((budget, period)) = self.budget() else {
            let has = [
                ("budget_us", self.budget_us.is_some()),
                ("period_us", self.period_us.is_some()),
                ("overrun", self.overrun.is_some()),
                ("overrun_notification", self.overrun_notification.is_some()),
            ];
            let lone = has.into_iter().find(|it| it.1);
            return lone.map_or(Ok(()), |(key, _)| {
                says(key, false, "a budget has budget_us and period_us")
            });
        };
        says(
            "period_us",
            (1..=MAX_PERIOD_US).contains(&period),
            "a period lasts from a microsecond to an hour",
        )?;
        says(
            "budget_us",
            (1..=period).contains(&budget),
            "a budget is a microsecond at least, and its period at most",
        )?;
        let Some(notification) = self.overrun_notification else {
            return Ok(());
        };
        says(
            "overrun_notification",
            self.supervisor.is_some(),
            "there is no supervisor to notify",
        )?;
        says(
            "overrun_notification",
            notification != 0 && notification & !NOTIFICATIONS == 0,
            "a notification has bits below bit 30",
        )
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

/// Looks whether this may be the name of one more of these, of letters, digits and `others`; those that there are have the other names.
fn check_name<'a>(
    what: &str,
    name: &str,
    others: &str,
    mut names: impl Iterator<Item = &'a String>,
) -> Result<()> {
    ensure!(
        is_word(name, others),
        "`{name}` is no name of a {what}: letters, digits and any of {others}"
    );
    ensure!(
        names.all(|other| other != name),
        "there are two {what}s named `{name}`"
    );
    Ok(())
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
mod tests;
