//! Which registers and flags are still used from an instruction on. What is not used need not be known, so that states that
//! differ in it only are one; a mistake here would cost precision and nothing else.

use std::collections::HashMap;

use iced_x86::{FlowControl, Mnemonic, OpAccess, OpKind};

use crate::calls::table;
use crate::cpu::general;
use crate::image::{Decoded, Image};

/// The bit of the flags, behind those of the registers.
pub(crate) const FLAGS: u32 = 1 << 16;
const ALL: u32 = 2 * FLAGS - 1;
/// rax, rdx, rbx, rsp, rbp, r12 to r15: what a function of Rust's gives back.
const RETURNED: u32 = 0xf03d;

/// By address, a bit for each register.
#[derive(Debug)]
pub(crate) struct Live(HashMap<u64, u32>);

impl Live {
    pub(crate) fn new(image: &Image) -> Self {
        let mut live: HashMap<u64, u32> = HashMap::new();
        let mut tables: HashMap<u64, Vec<u64>> = HashMap::new();
        let all: Vec<_> = image.all().collect();
        let uses: Vec<_> = all.iter().map(|it| used(it)).collect();
        loop {
            let mut has_changed = false;
            for (decoded, (reads, writes)) in all.iter().zip(&uses).rev() {
                let it = &decoded.it;
                let at = |to: u64| live.get(&to).copied().unwrap_or(0);
                let next = at(it.next_ip());
                let mut after = match it.flow_control() {
                    FlowControl::Next | FlowControl::Interrupt => next,
                    FlowControl::ConditionalBranch => next | at(it.near_branch_target()),
                    FlowControl::UnconditionalBranch => at(it.near_branch_target()),
                    FlowControl::Call => next | at(it.near_branch_target()),
                    FlowControl::Return if is_of_rust(image, it.ip()) => RETURNED,
                    FlowControl::Exception => 0,
                    FlowControl::IndirectBranch => {
                        let targets = tables
                            .entry(it.ip())
                            .or_insert_with(|| table(image, it.ip()).unwrap_or_default());
                        if targets.is_empty() {
                            ALL
                        } else {
                            targets.iter().map(|to| at(*to)).fold(0, |a, b| a | b)
                        }
                    }
                    _ => ALL,
                };
                if let Some((to, _)) = decoded.branch {
                    after |= at(to);
                }
                let now = reads | after & !writes;
                if live.insert(it.ip(), now) != Some(now) {
                    has_changed = true;
                }
            }
            if !has_changed {
                return Self(live);
            }
        }
    }

    /// What is used from there on.
    pub(crate) fn at(&self, ip: u64) -> u32 {
        self.0.get(&ip).copied().unwrap_or(ALL)
    }
}

fn is_of_rust(image: &Image, ip: u64) -> bool {
    image.name(ip).contains("::")
}

/// What an instruction reads, and what it writes whole.
fn used(decoded: &Decoded) -> (u32, u32) {
    let it = &decoded.it;
    let (mut reads, mut writes) = (0, 0);
    for used in decoded.info.used_registers() {
        let Some((nr, size, _)) = general(used.register()) else {
            continue;
        };
        match used.access() {
            OpAccess::Write if size >= 4 => writes |= 1 << nr,
            OpAccess::None | OpAccess::NoMemAccess => {}
            _ => reads |= 1 << nr,
        }
    }
    if it.rflags_read() != 0 {
        reads |= FLAGS;
    }
    if it.rflags_modified() != 0 && decoded.branch.is_none() {
        writes |= FLAGS;
    }
    let is_zero = it.mnemonic() == Mnemonic::Xor
        && it.op_kind(1) == OpKind::Register
        && it.op0_register() == it.op1_register();
    if is_zero {
        reads = 0;
    }
    (reads, writes)
}
