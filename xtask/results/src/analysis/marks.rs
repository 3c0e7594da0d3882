//! The instructions of an image that tell where sections begin and end, who calls whom, and when the clock is read.

use std::collections::BTreeMap;

use iced_x86::{Decoder, DecoderOptions, Instruction, MemorySize, Mnemonic, Register};

use takt_guest::Elf;

/// What an instruction does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// Disables interrupts.
    Cli,
    /// Enables them, behind the next instruction.
    Sti,
    /// Returns from an interrupt, which found interrupts enabled.
    Iret,
    /// The first of an interrupt with this vector.
    Entry(u8),
    /// Raises the preempt count by one.
    PreemptInc,
    /// Lowers it.
    PreemptDec,
    /// Makes another thread the running one.
    Switch,
    /// Calls a function.
    Call,
    /// Returns from one.
    Ret,
    /// Reads the clock.
    Clock,
    /// Waits a round for one of the kernel's locks, which another CPU holds.
    LockWait,
    /// Has taken one of the kernel's locks.
    Locked,
    /// Gives it up.
    Unlocked,
}

/// The interrupts' entries, by vector. Those of devices are a table.
const ENTRIES: [(&str, u8); 4] = [
    ("takt_irq_timer", 0x50),
    ("takt_irq_kick", 0x51),
    ("takt_irq_early_timer", 0x4f),
    ("takt_irq_spurious", 0xff),
];
/// The way to a lock of the kernel's, and the one back.
const LOCK: &str = "takt_thunk_lock";
const UNLOCK: &str = "takt_thunk_unlock";
const DEVICES: &str = "takt_irq_stubs";
const FIRST_DEVICE: u8 = 0x60;
const NR_DEVICES: u8 = 32;
const STUB_SIZE: u64 = 16;

/// The marks of an image, by their numbers.
#[derive(Clone, Debug)]
pub struct Marks(Vec<(u64, Mark)>);

impl Marks {
    /// Finds them.
    #[must_use]
    pub fn of(elf: &Elf) -> Self {
        let mut found = BTreeMap::new();
        let functions = elf.functions();
        let lock = elf.symbol(LOCK).ok();
        let unlock = elf.symbol(UNLOCK).ok();
        for (section, code) in elf.code() {
            let end = section + code.len() as u64;
            // From each symbol on, so that data between functions does not count as instructions of theirs.
            let mut starts: Vec<_> = functions.iter().map(|(address, _)| *address).collect();
            starts.retain(|address| (section..end).contains(address));
            starts.push(end);
            starts.dedup();
            for pair in starts.windows(2) {
                let bytes = &code[(pair[0] - section) as usize..(pair[1] - section) as usize];
                let decoder = Decoder::with_ip(64, bytes, pair[0], DecoderOptions::NONE);
                let start = Some(pair[0]);
                let way = match (start == lock, start == unlock) {
                    (true, _) => lock_mark,
                    (_, true) => unlock_mark,
                    _ => mark,
                };
                found.extend((decoder.into_iter()).filter_map(|it| Some((it.ip(), way(&it)?))));
            }
        }
        for (name, vector) in ENTRIES {
            found.extend(elf.symbol(name).ok().map(|at| (at, Mark::Entry(vector))));
        }
        if let Ok(stubs) = elf.symbol(DEVICES) {
            let stub = |nr: u8| {
                (
                    stubs + STUB_SIZE * u64::from(nr),
                    Mark::Entry(FIRST_DEVICE + nr),
                )
            };
            found.extend((0..=NR_DEVICES).map(stub));
        }
        Self(found.into_iter().collect())
    }

    #[cfg(test)]
    pub(super) fn for_test(marks: &[Mark]) -> Self {
        Self((0..).zip(marks.iter().copied()).collect())
    }

    /// Their addresses, in the order of their numbers.
    pub fn addresses(&self) -> impl Iterator<Item = u64> {
        self.0.iter().map(|(address, _)| *address)
    }

    /// Address and meaning of a mark.
    #[must_use]
    pub fn get(&self, number: u32) -> Option<(u64, Mark)> {
        self.0.get(number as usize).copied()
    }
}

/// Of the way to a lock: a round of waiting, and the first instruction with it, which restores a register.
fn lock_mark(it: &Instruction) -> Option<Mark> {
    match it.mnemonic() {
        Mnemonic::Pause => Some(Mark::LockWait),
        Mnemonic::Pop if it.op0_register() == Register::RAX => Some(Mark::Locked),
        _ => mark(it),
    }
}

/// Of the way back: the increment that lets the next one in.
fn unlock_mark(it: &Instruction) -> Option<Mark> {
    match it.mnemonic() {
        Mnemonic::Inc => Some(Mark::Unlocked),
        _ => mark(it),
    }
}

fn mark(it: &Instruction) -> Option<Mark> {
    let is_percpu = it.memory_segment() == Register::GS;
    let is_byte = matches!(it.memory_size(), MemorySize::UInt8 | MemorySize::Int8);
    let is_word = matches!(it.memory_size(), MemorySize::UInt16 | MemorySize::Int16);
    Some(match it.mnemonic() {
        Mnemonic::Cli => Mark::Cli,
        Mnemonic::Sti => Mark::Sti,
        Mnemonic::Iretq => Mark::Iret,
        Mnemonic::Rdtsc => Mark::Clock,
        // Of the CPU's block only the preempt count is a byte; with the running thread's id it is a word.
        Mnemonic::Inc if is_percpu && is_byte => Mark::PreemptInc,
        Mnemonic::Dec if is_percpu && is_byte => Mark::PreemptDec,
        // Stored, not loaded.
        Mnemonic::Mov if is_percpu && is_word && it.op1_register() != Register::None => {
            Mark::Switch
        }
        Mnemonic::Call => Mark::Call,
        Mnemonic::Ret => Mark::Ret,
        _ => return None,
    })
}
