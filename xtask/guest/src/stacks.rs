//! The stacks of threads that do not run, read out of the guest's memory (`takt_kernel::thread::tcb`, `arch::switch`).

use std::collections::{BTreeMap, HashSet};

use takt_timerlat::stats::view::Memory;
use takt_tracer::frame::words_to_return;

use super::names::Threads;
use crate::Elf;
use crate::Ram;

/// More calls than this are no stack.
const MAX_CALLS: usize = 256;

/// Who has called whom in a thread that does not run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stack {
    /// The instruction that the last interrupt in it came upon.
    pub interrupted: u64,
    /// Where it was left, and then the calls that led there, the innermost first.
    pub calls: Vec<u64>,
}

/// Those of all threads, by their ids. What does not look like a stack is left out, and the running thread's is that of when it
/// was left last. None if the image does not say where they are.
#[must_use]
pub fn all(elf: &Elf, ram: &Ram) -> BTreeMap<u8, Stack> {
    let Some((reader, threads)) = Reader::new(elf, ram).zip(Threads::new(elf, ram)) else {
        return BTreeMap::new();
    };
    let of = |tid| Some((tid, reader.stack(threads.block(tid)?)?));
    threads.all().filter_map(|(tid, _)| of(tid)).collect()
}

struct Reader<'r> {
    elf: &'r Elf,
    ram: &'r Ram,
    /// Where a thread goes on that an interrupt has had left.
    preempted: u64,
    resume: u64,
    rsp: u64,
    bottom: u64,
    top: u64,
    /// How far before a block the interrupted registers lie.
    trap_rip: u64,
    trap_rbp: u64,
    trap_rsp: u64,
    /// Where functions begin.
    functions: HashSet<u64>,
}

impl<'r> Reader<'r> {
    fn new(elf: &'r Elf, ram: &'r Ram) -> Option<Self> {
        let symbol = |name| elf.symbol(name).ok();
        Some(Self {
            elf,
            ram,
            preempted: symbol("takt_resume_preempted")?,
            resume: symbol("takt_tcb_resume")?,
            rsp: symbol("takt_tcb_rsp")?,
            bottom: symbol("takt_tcb_stack_bottom")?,
            top: symbol("takt_tcb_stack_top")?,
            trap_rip: symbol("takt_trap_rip")?,
            trap_rbp: symbol("takt_trap_rbp")?,
            trap_rsp: symbol("takt_trap_rsp")?,
            functions: elf.functions().into_iter().map(|(at, _)| at).collect(),
        })
    }

    /// The word at a virtual address.
    fn word(&self, address: u64) -> Option<u64> {
        let mut bytes = [0; 8];
        let address = self.elf.to_physical(address);
        self.ram.read_exact_at(address, &mut bytes).ok()?;
        Some(u64::from_le_bytes(bytes))
    }

    /// Of a function that has no frame at an instruction: how many words lie on the stack below its return address.
    fn words_to_return(&self, ip: u64) -> Option<u64> {
        if self.functions.contains(&ip) {
            return Some(0);
        }
        let (before, code) = self.elf.code_at(ip.checked_sub(1)?).split_first()?;
        words_to_return(*before, code).map(|words| words as u64)
    }

    /// That of the thread whose block is there.
    fn stack(&self, block: u64) -> Option<Stack> {
        let field = |offset| self.word(block.checked_add(offset)?);
        let trap = |distance| self.word(block.checked_sub(distance)?);
        let resume = field(self.resume)?;
        let interrupted = trap(self.trap_rip)?;
        let (ip, mut frame) = match resume == self.preempted {
            true => (interrupted, trap(self.trap_rbp)?),
            // What a switch pushes last is the frame pointer.
            false => (resume, self.word(field(self.rsp)?)?),
        };
        let stack = field(self.bottom)?..field(self.top)?;
        let mut calls = vec![ip];
        if resume == self.preempted
            && let Some(words) = self.words_to_return(ip)
        {
            let returns_to = self.word(trap(self.trap_rsp)?.checked_add(8 * words)?)?;
            calls.push(returns_to.checked_sub(1)?);
        }
        while calls.len() < MAX_CALLS && frame.is_multiple_of(8) && stack.contains(&frame) {
            let returns_to = self.word(frame.checked_add(8)?)?;
            if !self.elf.is_code(returns_to) {
                break;
            }
            // The call, not the instruction behind it, which may be another function's.
            calls.push(returns_to - 1);
            let next = self.word(frame)?;
            if next <= frame {
                break;
            }
            frame = next;
        }
        Some(Stack { interrupted, calls })
    }
}
