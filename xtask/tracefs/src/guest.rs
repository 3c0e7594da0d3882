//! [`Guest`]: a running system, seen through its RAM.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use takt_timerlat::stats::view::Memory;
use takt_tracer::control::Setting;
use takt_tracer::control::{ControlBlock, ControlView};
use takt_tracer::rules::{MAX_HISTS, Rules, RulesView};

use super::errno;
use takt_base::input;
use takt_base::paths;
use takt_guest::Elf;
use takt_guest::Ram;
use takt_guest::names::{self, Threads};
use takt_guest::rings::View;
use takt_guest::rtt::{DOWN_SETTINGS, Rtt};
use takt_machine::qemu::{Accel, Gate, Process, Served};
use takt_machine::run::{RunFolder, last_words};

/// A guest that does not carry a setting out within this time is stuck.
const ANSWER_WITHIN: Duration = Duration::from_secs(20);
/// How often it is looked whether a guest that is to stand still has ended.
const TICK: Duration = Duration::from_millis(100);
/// Bytes of a setting at most: what the channel has room for, and a newline.
pub const MAX_LINE: usize = 500;
/// First byte of a trace point whose event is on: a jump.
const JUMP: u8 = 0xe9;

/// Whose guest it is.
#[derive(Debug)]
pub enum Owner {
    /// Ours: it ends with us, and its folder goes.
    Us {
        /// QEMU.
        process: Process,
        /// What QEMU writes.
        folder: RunFolder,
        /// Where it stands still between settings, if it does.
        gate: Option<Gate>,
    },
    /// Another process's.
    Other {
        /// That process's number.
        pid: u32,
        /// A file that is there as long as the guest runs.
        live: PathBuf,
    },
}

/// A running guest.
#[derive(Debug)]
pub struct Guest {
    /// Its image.
    pub elf: Elf,
    /// Its memory.
    pub ram: Ram,
    owner: Owner,
    /// What it runs under: whose time it is.
    pub accel: Accel,
    /// Where the control block lies.
    block: u64,
    /// The trace points of each event: physical addresses.
    trace_points: BTreeMap<u32, Vec<u64>>,
    /// The number of the first CPU's idle thread up to that of the first other thread.
    nr_idle: u16,
    /// That it has ended was said.
    has_told: bool,
}

impl Guest {
    /// Waits until the guest has booted so far that it tells about its tracer.
    ///
    /// # Errors
    ///
    /// If the image does not tell, or the guest ends or stays silent.
    pub fn new(elf: Elf, ram: Ram, owner: Owner, accel: Accel, patience: Duration) -> Result<Self> {
        let block = elf.physical(ControlBlock::SYMBOL)?;
        let nr_idle = elf.symbol("takt_max_cpus").unwrap_or(1);
        let mut guest = Self {
            elf,
            ram,
            owner,
            accel,
            block,
            trace_points: BTreeMap::new(),
            nr_idle: u16::try_from(nr_idle).unwrap_or(1),
            has_told: false,
        };
        let started = Instant::now();
        while guest.view().is_err() {
            if !guest.is_alive() {
                bail!(
                    "the guest has ended before it told about its tracer{}",
                    guest.messages()
                );
            }
            if started.elapsed() > patience {
                bail!("the guest has not told about its tracer for {patience:?}");
            }
            thread::sleep(Duration::from_millis(5));
        }
        guest
            .stand()
            .context("the guest under icount does not stand still")?;
        guest.ram.unlink();
        guest.trace_points = guest.find_trace_points()?;
        Ok(guest)
    }

    /// Its state.
    ///
    /// # Errors
    ///
    /// `ENODEV` if it does not tell (yet, or any more).
    pub fn view(&self) -> super::Result<ControlView> {
        let mut bytes = [0; ControlView::SIZE];
        self.read(self.block, &mut bytes)?;
        ControlView::decode(&bytes).ok_or(Errno::NODEV)
    }

    /// The control words and the memory of a CPU's ring; `None` if there is no such CPU.
    #[must_use]
    pub fn ring(&self, view: &ControlView, cpu: usize) -> Option<View<'_>> {
        let of_cpu = view.cpus.get(cpu).filter(|of_cpu| of_cpu.control != 0)?;
        Some(View::new(
            &self.elf,
            &self.ram,
            of_cpu.control,
            of_cpu.memory,
        ))
    }

    /// Whether it runs.
    pub fn is_alive(&mut self) -> bool {
        match &mut self.owner {
            Owner::Us { process, .. } => matches!(process.try_wait(), Ok(None)),
            Owner::Other { pid, live } => live.exists() && !paths::is_process_gone(*pid),
        }
    }

    /// Once a guest that was started here has ended: that it has, and what it wrote to its serial port last. Said once.
    pub fn last_words(&mut self) -> Option<String> {
        if self.has_told || self.is_alive() {
            return None;
        }
        let Owner::Us { folder, .. } = &self.owner else {
            return None;
        };
        self.has_told = true;
        let serial = last_words::serial(folder.path(), &self.elf).join("\n");
        let said = match serial.trim_end() {
            "" => String::new(),
            text => format!(". Its serial port:\n{text}"),
        };
        Some(format!("the guest has ended{}{said}", self.messages()))
    }

    /// What QEMU itself has said, for an error message.
    fn messages(&self) -> String {
        let Owner::Us { folder, .. } = &self.owner else {
            return String::new();
        };
        let path = folder.path().join(takt_machine::run::folder::MESSAGES);
        match input::read_to_string(path) {
            Ok(text) if !text.trim().is_empty() => format!("; QEMU says: {}", text.trim()),
            _ => String::new(),
        }
    }

    /// Has the guest carry out a setting, and waits until it has.
    ///
    /// # Errors
    ///
    /// What the guest answers; `EPERM` if it was not started for it, `ENODEV` if it has ended, `ETIMEDOUT` if it does not
    /// answer, `EINVAL` for what is no line.
    pub fn set(&mut self, setting: Setting<'_>) -> super::Result<()> {
        let line = setting.to_string();
        if line.contains('\n') || line.len() > MAX_LINE {
            return Err(Errno::INVAL);
        }
        if !self.is_alive() {
            return Err(Errno::NODEV);
        }
        if !self.view()?.is_listening {
            return Err(Errno::PERM);
        }
        // Another process may do the same; the guest answers one after the other.
        flock(self.ram.file(), FlockOperation::LockExclusive)?;
        let answer = self.ask(&line);
        flock(self.ram.file(), FlockOperation::Unlock)?;
        answer
    }

    /// Where the guest stands still between settings, if it does.
    fn gate(&mut self) -> Option<&mut Gate> {
        match &mut self.owner {
            Owner::Us { gate, .. } => gate.as_mut(),
            Owner::Other { .. } => None,
        }
    }

    /// Whether no time passes in the guest between settings.
    #[must_use]
    pub fn stands_still(&self) -> bool {
        matches!(&self.owner, Owner::Us { gate: Some(_), .. })
    }

    /// Waits until the guest stands still, if it is one that does. It may have much to compute until then, so the time for which
    /// it waits for a CPU of a busy host does not count.
    fn stand(&mut self) -> super::Result<()> {
        let Owner::Us { process, .. } = &self.owner else {
            return Ok(());
        };
        let asked = Served::new(process.id());
        while let Some(gate) = self.gate() {
            if gate.has_come(TICK).map_err(|error| errno(&error))? {
                break;
            }
            if !self.is_alive() {
                return Err(Errno::NODEV);
            }
            if asked.has_had(ANSWER_WITHIN) {
                return Err(Errno::TIMEDOUT);
            }
        }
        Ok(())
    }

    fn ask(&mut self, line: &str) -> super::Result<()> {
        let before = self.view()?.nr_done;
        let bytes = format!("{line}\n");
        Rtt::new(&self.elf, &self.ram)
            .ok_or(Errno::NODEV)?
            .send_all(DOWN_SETTINGS, bytes.as_bytes())
            .map_err(|error| errno(&error))?;
        if let Some(gate) = self.gate() {
            gate.open().map_err(|error| errno(&error))?;
            self.stand()?;
        }
        let asked = Instant::now();
        loop {
            let view = self.view()?;
            if view.nr_done != before {
                return match view.result {
                    0 => Ok(()),
                    number => Err(Errno::from_raw_os_error(number as i32)),
                };
            }
            if !self.is_alive() {
                return Err(Errno::NODEV);
            }
            if asked.elapsed() > ANSWER_WITHIN {
                return Err(Errno::TIMEDOUT);
            }
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// Whether an event can occur at all: the image has a place where it is emitted.
    #[must_use]
    pub fn has_event(&self, id: u32) -> bool {
        self.trace_points.contains_key(&id)
    }

    /// Whether an event is on: the code says.
    #[must_use]
    pub fn is_enabled(&self, id: u32) -> bool {
        let is_jump = |address: &u64| {
            let mut byte = [0];
            self.read(*address, &mut byte).is_ok() && byte == [JUMP]
        };
        self.trace_points
            .get(&id)
            .is_some_and(|places| places.iter().any(is_jump))
            && !self.is_soft(id)
    }

    /// Whether an event occurs for its triggers only.
    fn is_soft(&self, id: u32) -> bool {
        let rules = self.rules().unwrap_or_default();
        let rule = RulesView::new(&rules).find(id);
        rule.is_some_and(|rule| rule.is_soft)
    }

    /// The table of filters and triggers, for [`RulesView`].
    ///
    /// # Errors
    ///
    /// `ENODEV` if the image has none, or the memory cannot be read.
    pub fn rules(&self) -> super::Result<Vec<u8>> {
        self.part_of_rules(0, Rules::RULES_SIZE)
    }

    /// A histogram, for `HistView`.
    ///
    /// # Errors
    ///
    /// As [`rules`](Self::rules); `ENOENT` if there is none of that number.
    pub fn hist(&self, number: usize) -> super::Result<Vec<u8>> {
        if number >= MAX_HISTS {
            return Err(Errno::NOENT);
        }
        self.part_of_rules(Rules::hist_offset(number), Rules::HIST_SIZE)
    }

    fn part_of_rules(&self, at: usize, len: usize) -> super::Result<Vec<u8>> {
        let table = self.elf.physical(Rules::SYMBOL).map_err(|_| Errno::NODEV)?;
        let mut bytes = vec![0; len];
        self.read(table + at as u64, &mut bytes)?;
        Ok(bytes)
    }

    /// Threads below this number are idle threads.
    #[must_use]
    pub fn nr_idle(&self) -> u16 {
        self.nr_idle
    }

    /// The threads that exist, with their names.
    #[must_use]
    pub fn threads(&self) -> Vec<(u8, String)> {
        let table = Threads::new(&self.elf, &self.ram);
        table.into_iter().flat_map(Threads::all).collect()
    }

    /// The device interrupts that have a handler, with its name.
    #[must_use]
    pub fn irqs(&self) -> Vec<(u8, String)> {
        names::of_irqs(&self.elf, &self.ram)
    }

    /// The priorities of the threads that exist, as ftrace counts: 0 is FIFO 99.
    #[must_use]
    pub fn priorities(&self) -> Vec<(u8, u64)> {
        let (Some(table), Ok(prio)) = (
            Threads::new(&self.elf, &self.ram),
            self.elf.symbol("takt_tcb_prio"),
        ) else {
            return Vec::new();
        };
        let of = |tid: u8| {
            let mut rank = [0];
            let address = table.block(tid)?.checked_add(prio)?;
            self.read(address, &mut rank).ok()?;
            Some((tid, u64::from(rank[0])))
        };
        let threads = self.threads().into_iter();
        threads.filter_map(|(tid, _)| of(tid)).collect()
    }

    /// Reads what lies so many bytes behind a symbol.
    ///
    /// # Errors
    ///
    /// `ENOENT` if the image has no such symbol.
    pub fn read_symbol(&self, name: &str, offset: u64, out: &mut [u8]) -> super::Result<()> {
        let begin = self.elf.physical(name).map_err(|_| Errno::NOENT)?;
        self.read(begin.checked_add(offset).ok_or(Errno::INVAL)?, out)
    }

    /// The word of 32 bits under a symbol.
    ///
    /// # Errors
    ///
    /// As [`read_symbol`](Self::read_symbol).
    pub fn word(&self, name: &str) -> super::Result<u32> {
        let mut bytes = [0; 4];
        self.read_symbol(name, 0, &mut bytes)?;
        Ok(u32::from_le_bytes(bytes))
    }

    pub(super) fn u64_at(&self, address: u64) -> Option<u64> {
        let mut bytes = [0; 8];
        self.read(address, &mut bytes).ok()?;
        Some(u64::from_le_bytes(bytes))
    }

    pub(super) fn read(&self, address: u64, out: &mut [u8]) -> super::Result<()> {
        let read = self.ram.read_exact_at(address, out);
        read.map_err(|error: io::Error| errno(&error))
    }

    /// Reads the table of static keys; events' keys are their ids.
    fn find_trace_points(&self) -> Result<BTreeMap<u32, Vec<u64>>> {
        let start = self.elf.symbol("__jump_table_start")?;
        let len = self.elf.symbol("__jump_table_end")?.saturating_sub(start);
        let mut bytes = vec![0; usize::try_from(len)?.min(1 << 20)];
        self.read(self.elf.to_physical(start), &mut bytes)?;
        let mut found: BTreeMap<u32, Vec<u64>> = BTreeMap::new();
        for [a, b, c, d, low, high] in bytes.as_chunks().0 {
            let code = u32::from_le_bytes([*a, *b, *c, *d]);
            let key = u16::from_le_bytes([*low, *high]);
            let places = found.entry(key.into()).or_default();
            places.push(self.elf.to_physical(code.into()));
        }
        Ok(found)
    }
}
