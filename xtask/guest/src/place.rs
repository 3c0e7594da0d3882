//! Functions and lines for instructions.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use crate::elf::Slice;
use crate::symbolize::{SymbolNames, Symbolizer, without_hash};
use crate::{Elf, disassembly};

/// Where an instruction stands.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct CodePlace {
    /// Its address.
    pub ip: u64,
    /// The instruction, in Intel's syntax.
    pub instruction: String,
    /// The function that it lies in, and how far.
    pub function: String,
    /// Function and line that matter to a reader: not the few lines by which interrupts are switched on and off.
    pub line: String,
    /// All functions that are inlined there, the innermost first.
    pub frames: Vec<String>,
}

/// Why an interrupt or a thread has to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Interrupts are off.
    IrqsOff,
    /// Another interrupt is handled.
    Interrupt,
    /// Preemption is off.
    PreemptOff,
    /// A lock of the kernel's is held.
    KernelLock,
}

impl Kind {
    /// As tables say it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::IrqsOff => "interrupts off",
            Self::Interrupt => "in an interrupt",
            Self::PreemptOff => "preemption off",
            Self::KernelLock => "kernel lock held",
        }
    }
}

/// Files of functions that are no part of ours: who calls them is of interest.
const FOREIGN: &[&str] = &["library/core/", "library/alloc/"];

/// Files of functions that are inlined wherever a section begins or ends: it is their callers that are of interest.
const TOOLS: &[&str] = &[
    "kernel/src/arch/",
    "kernel/src/lock.rs",
    "kernel/src/probe/",
    "kernel/src/section.rs",
    "kernel/src/section/",
    "kernel/src/preempt.rs",
];

/// The first instructions of interrupts.
pub struct Entries(Vec<u64>);

impl Entries {
    /// Those of an image.
    #[must_use]
    pub fn of(elf: &Elf) -> Self {
        let is_entry = |name: &str| name.starts_with("takt_irq_") && !name.contains("return");
        let functions = elf.functions().into_iter();
        let entries = functions.filter(|(_, name)| is_entry(name));
        Self(entries.map(|(address, _)| address).collect())
    }

    /// Whether an instruction is one of them.
    #[must_use]
    pub fn contain(&self, ip: u64) -> bool {
        self.0.contains(&ip)
    }
}

/// Looks places up.
pub struct Names<'e> {
    elf: &'e Elf,
    lines: Symbolizer<Slice<'e>>,
    symbols: SymbolNames,
    entries: Entries,
}

impl<'e> Names<'e> {
    /// Those of an image.
    #[must_use]
    pub fn new(elf: &'e Elf) -> Self {
        Self {
            elf,
            lines: Symbolizer::new(elf),
            symbols: SymbolNames::new(elf),
            entries: Entries::of(elf),
        }
    }

    /// Whether an instruction is the first one of an interrupt.
    pub fn is_entry(&self, ip: u64) -> bool {
        self.entries.contain(ip)
    }

    /// How often instructions of each function are executed, the most first.
    pub fn functions(&self, counts: HashMap<u64, u32>) -> Vec<(String, u64)> {
        let mut by_name: HashMap<String, u64> = HashMap::new();
        for (ip, count) in counts {
            *by_name.entry(self.function(ip)).or_default() += u64::from(count);
        }
        let mut all: Vec<_> = by_name.into_iter().collect();
        all.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        all
    }

    /// The function of ours whose instruction it is and, where that is inlined, the one that it is inlined in.
    fn function(&self, ip: u64) -> String {
        let symbol = self.symbols.nearest(ip).unwrap_or_default();
        let symbol = short(symbol.split('+').next().unwrap_or_default());
        let frames = self.lines.lookup(ip);
        let inner = frames
            .iter()
            .find(|frame| !is_of(frame, FOREIGN))
            .or(frames.last())
            .map_or("", |frame| frame.split(" (").next().unwrap_or(""));
        // Of assembly there is no function to name but the symbol that the instruction lies behind.
        match short(inner.split("+0x").next().unwrap_or_default()) {
            inner if inner.is_empty() || inner == symbol => symbol,
            inner => format!("{inner} in {symbol}"),
        }
    }

    /// The function of the symbol table that an instruction lies in.
    pub fn symbol(&self, ip: u64) -> Option<String> {
        self.symbols.find(ip).map(|(name, ..)| name)
    }

    /// The functions at a call, the innermost first, without those that are of no interest.
    pub fn frames(&self, ip: u64) -> Vec<String> {
        let frames = self.lines.lookup(ip);
        let ours: Vec<_> = frames
            .iter()
            .filter(|frame| !is_of(frame, TOOLS) && !is_of(frame, FOREIGN))
            .map(|frame| short(frame))
            .collect();
        match ours.is_empty() {
            true => frames
                .last()
                .map(|frame| short(frame))
                .into_iter()
                .collect(),
            false => ours,
        }
    }

    /// Where an instruction stands.
    #[must_use]
    pub fn place(&self, ip: u64) -> CodePlace {
        let frames = self.lines.lookup(ip);
        let line = frames
            .iter()
            .find(|frame| !is_of(frame, TOOLS) && !is_of(frame, FOREIGN))
            .or(frames.first())
            .cloned()
            .unwrap_or_default();
        CodePlace {
            ip,
            instruction: disassembly::text(self.elf, ip),
            function: self.symbols.nearest(ip).unwrap_or_default(),
            line: short(&line),
            frames,
        }
    }
}

/// Whether a frame, as `function (file:line)`, is of one of these files.
fn is_of(frame: &str, files: &[&str]) -> bool {
    frame
        .rsplit_once(" (")
        .is_some_and(|(_, place)| files.iter().any(|file| place.contains(file)))
}

/// A name without its crate's path and hash: the last two parts are enough beside a file and a line.
pub fn short(frame: &str) -> String {
    let (name, place) = frame.split_once(" (").unwrap_or((frame, ""));
    let parts: Vec<_> = without_hash(name).split("::").collect();
    let from = parts.len().saturating_sub(2);
    let name = parts[from..].join("::");
    if place.is_empty() {
        name
    } else {
        format!("{name} ({place}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_of_a_file_by_its_place() {
        let inlined = "core::hint::black_box (library/core/src/hint.rs:482)";
        assert!(is_of(inlined, FOREIGN));
        assert!(!is_of(
            "takt_kernel::library/core/::x (kernel/src/sync/a.rs:7)",
            FOREIGN
        ));
        assert!(is_of(
            "takt_kernel::preempt::disable (kernel/src/preempt.rs:3)",
            TOOLS
        ));
        assert!(!is_of("takt_irq_entry", TOOLS));
    }

    #[test]
    fn names_are_short() {
        assert_eq!(
            short(
                "takt_kernel::sync::semaphore::Semaphore::give::h0123456789abcdef (kernel/a.rs:7)"
            ),
            "Semaphore::give (kernel/a.rs:7)"
        );
        assert_eq!(short("main"), "main");
        assert_eq!(short(""), "");
    }
}
