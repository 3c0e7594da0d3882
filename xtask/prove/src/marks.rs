//! [`Marks`]: what the sources say of places in the code that the code itself does not, in a section that is not loaded
//! (`takt_kernel::arch::proof`).

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, bail, ensure};
use iced_x86::FlowControl;
use serde::Serialize;

use crate::config::{Config, Setting};
use crate::cpu::FIRST_PAGE;
use crate::image::Image;

/// Bytes of an entry before its text: an address of code, and a kind.
const ENTRY: usize = 8;
/// The key by which code of several CPUs is switched on.
const SMP: &str = "takt_kernel::cpus::SMP";
/// Instructions from a mark to the indirect call that it speaks of, at most.
const CALL: usize = 40;

/// The kind of an entry whose address is an offset behind `gs`.
const NONZERO: u32 = 3;

/// Functions of libraries in which an instruction repeats itself as often as they are told.
const LIBRARY: [&str; 3] = ["memcpy", "memmove", "memset"];
/// The general registers by their numbers.
const REGISTERS: [&str; 16] = [
    "rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12", "r13",
    "r14", "r15",
];
/// The number of what these count.
pub(crate) const REPEATS: usize = 0;

/// How often a loop goes round, or who is called: what comes on top of a bound.
#[derive(Clone, Debug, Serialize)]
pub struct Mark {
    /// The instruction before which it stands.
    pub at: u64,
    /// What the sources say.
    pub text: String,
}

/// What a place says of the guards that the running thread counts: none while interrupts are on.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Guard {
    /// There is one more.
    Begins,
    /// There is one less.
    Ends,
    /// There are some.
    Left,
}

/// What the sources say.
#[derive(Debug, Default)]
pub(crate) struct Marks {
    /// Jumps that go on with another thread.
    resumes: BTreeSet<u64>,
    /// Where threads go on.
    resumed: BTreeSet<u64>,
    /// Those of them that stand behind such a jump.
    behind: BTreeSet<u64>,
    /// Where preempted ones go on.
    preempted: BTreeSet<u64>,
    /// Branches that are not taken where the next thread was not preempted.
    asked: BTreeSet<u64>,
    /// Where nobody comes while one CPU runs, or by what is known of the system.
    not_alone: BTreeSet<u64>,
    /// Places that count a loop's rounds, by the number of what they count.
    rounds: BTreeMap<u64, usize>,
    /// The same where it is known how often a stretch comes there at most: a number, and that.
    limited: BTreeMap<u64, (usize, u32)>,
    /// Where guards are counted that keep interrupts off.
    guards: BTreeMap<u64, Guard>,
    /// Where preemption is disabled once more, or once less.
    preemption: BTreeMap<u64, bool>,
    /// Where flags are kept, or are what was kept, and the register.
    flags: BTreeMap<u64, (bool, usize)>,
    /// Where a register is not 0.
    not_null: BTreeMap<u64, usize>,
    /// Where locks of several CPUs are taken, or given.
    locks: BTreeMap<u64, bool>,
    /// Whether several CPUs run.
    pub(crate) is_smp: bool,
    /// What is counted that happens by other CPUs only, by its number.
    by_others: BTreeSet<usize>,
    /// What is counted.
    counted: Vec<String>,
    /// Texts of which something can be set, and whether they count.
    settable: BTreeMap<String, bool>,
    /// Functions to which nobody comes but by what the code shows.
    shown: BTreeSet<u64>,
    /// Functions that repeat an instruction as often as they are told.
    library: BTreeSet<u64>,
    /// All that has a text.
    pub(crate) told: Vec<Mark>,
    /// Words behind `gs` that are never 0.
    nonzero: BTreeSet<u64>,
    /// Calls of functions that are not the kernel's, or are set apart: what they take comes on top.
    handlers: BTreeSet<u64>,
    /// Closed sets of what indirect branches lead to, by the branch.
    targets: BTreeMap<u64, Vec<u64>>,
    /// Static keys of which it is known what they are.
    keys: BTreeMap<u16, Setting>,
}

impl Marks {
    /// Reads an image's.
    ///
    /// # Errors
    ///
    /// If one fits to nothing.
    pub(crate) fn new(image: &Image, config: &Config) -> Result<Self> {
        let mut marks = Self {
            counted: vec!["bytes that memcpy, memmove or memset is called for".to_owned()],
            is_smp: config.cpus() > 1,
            library: LIBRARY.iter().filter_map(|it| image.symbol(it)).collect(),
            ..Self::default()
        };
        let mut rest = &*image.marks;
        while let Some((entry, text)) = rest.split_at_checked(ENTRY) {
            let (address, kind) = entry.split_at(4);
            let word = |it: &[u8]| it.try_into().map_or(0, u32::from_le_bytes);
            let address = u64::from(word(address));
            let end = text.iter().position(|it| *it == 0);
            let end = end.context("a mark whose text does not end")?;
            let told = String::from_utf8_lossy(&text[..end]);
            // The linker has left out what it speaks of where there is but an offset.
            if word(kind) == NONZERO || address >= FIRST_PAGE {
                marks.add(image, config, word(kind), address, &told)?;
            }
            rest = text.get((end + 4) & !3..).unwrap_or_default();
        }
        for jump in &marks.resumes {
            let behind = image.at(*jump).map(|it| it.it.next_ip());
            marks
                .behind
                .extend(behind.filter(|it| marks.resumed.contains(it)));
        }
        config.check(image, &marks.settable)?;
        marks.keys = config.keys(image);
        let smp = image.symbol_of(SMP).map(|address| address as u16);
        let is = if marks.is_smp {
            Setting::On
        } else {
            Setting::Off
        };
        marks.keys.extend(smp.map(|it| (it, is)));
        Ok(marks)
    }

    fn add(
        &mut self,
        image: &Image,
        config: &Config,
        kind: u32,
        at: u64,
        text: &str,
    ) -> Result<()> {
        ensure!(
            kind == NONZERO || image.is_code(at),
            "a mark at {at:#x}, where there is no code"
        );
        match kind {
            1 => {
                let jumps = image
                    .at(at)
                    .is_some_and(|it| it.it.flow_control() == FlowControl::IndirectBranch);
                ensure!(
                    jumps,
                    "a mark says that a thread is left at {at:#x}, where no jump is"
                );
                self.resumes.insert(at);
            }
            2 => _ = self.resumed.insert(at),
            22 => {
                let branches = image
                    .at(at)
                    .is_some_and(|it| it.it.flow_control() == FlowControl::ConditionalBranch);
                ensure!(
                    branches,
                    "a mark says that the next thread is asked for at {at:#x}, where no branch is"
                );
                self.asked.insert(at);
            }
            23 => _ = self.preempted.insert(at),
            NONZERO => _ = self.nonzero.insert(at),
            4 => _ = self.handlers.insert(at),
            5 => {
                let nr = self.number(text);
                self.settable.insert(text.to_owned(), true);
                match config.most(text) {
                    Some(most) => _ = self.limited.insert(at, (nr, most)),
                    None => _ = self.rounds.insert(at, nr),
                }
            }
            6 if self.is_smp => {
                let counts = format!("times that it is not so: {text}");
                let nr = self.number(&counts);
                self.by_others.insert(nr);
                self.settable.insert(counts.clone(), true);
                match config.most(&counts) {
                    Some(most) => _ = self.limited.insert(at, (nr, most)),
                    None => _ = self.rounds.insert(at, nr),
                }
            }
            // How long a lock is waited for is told apart.
            6 | 20 => _ = self.not_alone.insert(at),
            19 | 21 => _ = self.locks.insert(at, kind == 19),
            16 => {
                let (what, key) = part_of(text);
                self.settable.insert(what.to_owned(), false);
                let is_shared = key.is_some_and(|key| config.may_be_on(image, key));
                if config.is_without(what) && !is_shared {
                    self.not_alone.insert(at);
                }
            }
            // Where the compiler has written out what is called there is no such call, and it is looked at.
            7 | 14 => {
                let call = call_behind(image, at).filter(|it| it.1 == (kind == 7));
                let Some((call, _)) = call else {
                    return Ok(());
                };
                self.handlers.insert(call);
            }
            9 => _ = self.guards.insert(at, Guard::Begins),
            10 => _ = self.guards.insert(at, Guard::Ends),
            11 => _ = self.guards.insert(at, Guard::Left),
            12 | 13 | 15 => {
                let register = REGISTERS.iter().position(|it| *it == text);
                let register = register.with_context(|| {
                    format!("a mark at {at:#x} of a register that is not known: {text}")
                })?;
                match kind {
                    15 => _ = self.not_null.insert(at, register),
                    _ => _ = self.flags.insert(at, (kind == 12, register)),
                }
            }
            17 | 18 => _ = self.preemption.insert(at, kind == 17),
            8 => _ = self.shown.insert(image.region(at)),
            kind => bail!("a mark at {at:#x} of a kind that is not known: {kind}"),
        }
        if !text.is_empty() && !matches!(kind, 12 | 13 | 15) {
            let text = part_of(text).0.to_owned();
            self.told.push(Mark { at, text });
        }
        Ok(())
    }

    /// The number of what is counted by that text.
    fn number(&mut self, text: &str) -> usize {
        let known = self.counted.iter().position(|it| it == text);
        known.unwrap_or_else(|| {
            self.counted.push(text.to_owned());
            self.counted.len() - 1
        })
    }

    /// Whether a lock of several CPUs is taken there, or given.
    pub(crate) fn lock(&self, ip: u64) -> Option<bool> {
        self.locks.get(&ip).copied()
    }

    /// Whether what is counted by that number happens by other CPUs only.
    pub(crate) fn is_by_others(&self, nr: usize) -> bool {
        self.by_others.contains(&nr)
    }

    /// What a place says of the guards that keep interrupts off.
    pub(crate) fn guard(&self, ip: u64) -> Option<Guard> {
        self.guards.get(&ip).copied()
    }

    /// Whether flags are kept at a place, or are there again, and in which register.
    pub(crate) fn flags(&self, ip: u64) -> Option<(bool, usize)> {
        self.flags.get(&ip).copied()
    }

    /// Whether an instruction disables preemption once more, or once less.
    pub(crate) fn preemption(&self, ip: u64) -> Option<bool> {
        self.preemption.get(&ip).copied()
    }

    /// The register that is not 0 at a place.
    pub(crate) fn not_null(&self, ip: u64) -> Option<usize> {
        self.not_null.get(&ip).copied()
    }

    /// What a place counts that bounds a loop.
    pub(crate) fn rounds(&self, ip: u64) -> Option<usize> {
        self.rounds.get(&ip).copied()
    }

    /// What a place counts that a stretch comes to so often at most.
    pub(crate) fn limited(&self, ip: u64) -> Option<(usize, u32)> {
        self.limited.get(&ip).copied()
    }

    /// Whether an instruction repeats itself there as often as a library's function is told. It is a short one.
    pub(crate) fn is_library(&self, ip: u64) -> bool {
        let before = self.library.range(..=ip).next_back();
        before.is_some_and(|start| ip - start < 64)
    }

    /// What is counted by that number.
    pub(crate) fn counted(&self, nr: usize) -> &str {
        &self.counted[nr]
    }

    /// Whether nobody comes to a region but by what the code shows.
    pub(crate) fn is_shown(&self, region: u64) -> bool {
        self.shown.contains(&region)
    }

    /// Whether the next thread was not preempted where this branch is not taken.
    pub(crate) fn asks_whether_preempted(&self, ip: u64) -> bool {
        self.asked.contains(&ip)
    }

    /// Whether a preempted thread goes on there.
    pub(crate) fn is_of_preempted(&self, ip: u64) -> bool {
        self.preempted.contains(&ip)
    }

    /// Where an indirect jump goes on with another thread, of which nothing is known.
    pub(crate) fn resumes(&self, ip: u64) -> Option<&BTreeSet<u64>> {
        self.resumes.contains(&ip).then_some(&self.resumed)
    }

    /// Whether a thread goes on there behind the jump by which it was left.
    pub(crate) fn is_behind_switch(&self, ip: u64) -> bool {
        self.behind.contains(&ip)
    }

    /// Where an indirect branch leads.
    pub(crate) fn targets(&self, ip: u64) -> Option<&[u64]> {
        self.targets.get(&ip).map(Vec::as_slice)
    }

    /// Whether nobody comes there while one CPU runs.
    pub(crate) fn is_unreached(&self, ip: u64) -> bool {
        self.not_alone.contains(&ip)
    }

    /// Whether a word behind `gs` is never 0.
    pub(crate) fn is_nonzero(&self, displacement: u64) -> bool {
        self.nonzero.contains(&displacement)
    }

    /// Whether what is called there comes on top: it is not the kernel's, or set apart.
    pub(crate) fn is_handler(&self, ip: u64) -> bool {
        self.handlers.contains(&ip)
    }

    /// What a static key is, if that is known.
    pub(crate) fn key(&self, key: u16) -> Option<Setting> {
        self.keys.get(&key).copied()
    }
}

/// What a part of the kernel is for, and behind a sign the static key by which others come there too.
fn part_of(text: &str) -> (&str, Option<&str>) {
    text.split_once('|')
        .map_or((text, None), |(what, key)| (what, Some(key)))
}

/// The first call behind a place, and whether it is an indirect one.
fn call_behind(image: &Image, at: u64) -> Option<(u64, bool)> {
    let mut ip = at;
    for _ in 0..CALL {
        let it = &image.at(ip)?.it;
        ip = match it.flow_control() {
            FlowControl::IndirectCall => return Some((ip, true)),
            FlowControl::Call => return Some((ip, false)),
            FlowControl::Next => it.next_ip(),
            FlowControl::UnconditionalBranch => it.near_branch_target(),
            _ => return None,
        };
    }
    None
}
