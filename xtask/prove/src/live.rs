//! Which registers and flags may still be used from an instruction on. What is not used need not be known, so that states that
//! differ in it only are one, and an address on a stack that is left there leads nobody to its frame.

use std::collections::HashMap;

use iced_x86::{FlowControl, Mnemonic, OpAccess, OpKind};

use crate::calls::table;
use crate::cpu::general;
use crate::image::{Decoded, Image};
use crate::marks::Marks;

/// The bit of the flags, behind those of the registers' lowest bytes.
pub(crate) const FLAGS: u64 = 1 << 16;
/// From the bit of a register's lowest byte to that of its other bytes.
const REST: u32 = 17;
const ALL: u64 = (1 << (REST + 16)) - 1;
/// rbx, rsp, rbp, r12 to r15: what a function of Rust's keeps.
const KEPT: u64 = whole(0xf038);
/// rax, rcx, rdx: in these it gives something back, if its callers use it.
const RETURNED: u64 = whole(0x7);

/// rax and rsp: all that a thread that goes on may have of the one that is left.
const RESUMED: u64 = whole(0x11);

/// All bytes of these registers.
const fn whole(registers: u64) -> u64 {
    registers | registers << REST
}

/// Whether a register is used, in part at least.
pub(crate) const fn is_used(live: u64, nr: usize) -> bool {
    live & whole(1 << nr) != 0
}

/// Whether any of a register's bytes is but the lowest one.
pub(crate) const fn is_rest_used(live: u64, nr: usize) -> bool {
    live >> REST >> nr & 1 != 0
}

/// By address, two bits for each register: its lowest byte, and the rest.
#[derive(Debug)]
pub(crate) struct Live(HashMap<u64, u64>);

impl Live {
    /// Of an image of which those static branches are taken that `is_taken` says by their keys.
    pub(crate) fn new(image: &Image, marks: &Marks, is_taken: impl Fn(u16) -> bool) -> Self {
        let flow = Flow::new(image, marks, is_taken);
        // What a function uses by itself, then with what is used of what it gives back.
        let own = flow.live(None);
        Self(flow.live(Some(&own)))
    }

    /// What is used from there on.
    pub(crate) fn at(&self, ip: u64) -> u64 {
        self.0.get(&ip).copied().unwrap_or(ALL)
    }
}

/// How one instruction comes to the next, and what each uses.
struct Flow<'i> {
    image: &'i Image,
    marks: &'i Marks,
    all: Vec<&'i Decoded>,
    uses: Vec<(u64, u64)>,
    tables: HashMap<u64, Vec<u64>>,
    branches: HashMap<u64, u64>,
}

impl<'i> Flow<'i> {
    fn new(image: &'i Image, marks: &'i Marks, is_taken: impl Fn(u16) -> bool) -> Self {
        let all: Vec<_> = image.all().collect();
        let indirect = all
            .iter()
            .filter(|it| it.it.flow_control() == FlowControl::IndirectBranch);
        let taken = all.iter().filter_map(|it| {
            let (to, key) = it.branch?;
            is_taken(key).then_some((it.it.ip(), to))
        });
        Self {
            image,
            marks,
            uses: all.iter().map(|it| used(it)).collect(),
            tables: indirect
                .filter_map(|it| Some((it.it.ip(), table(image, it.it.ip())?)))
                .collect(),
            branches: taken.collect(),
            all,
        }
    }

    /// What is used from each instruction on. `own` is what functions use by themselves; without it that is found out.
    fn live(&self, own: Option<&HashMap<u64, u64>>) -> HashMap<u64, u64> {
        let mut live: HashMap<u64, u64> = HashMap::new();
        // By region: what is used behind calls of it.
        let mut behind: HashMap<u64, u64> = HashMap::new();
        if own.is_some() {
            behind.extend(self.image.taken.iter().map(|it| (*it, RETURNED)));
        }
        let mut is_changing = true;
        while std::mem::take(&mut is_changing) {
            for (decoded, (reads, writes)) in self.all.iter().zip(&self.uses).rev() {
                let it = &decoded.it;
                let at = |to: u64| live.get(&to).copied().unwrap_or(0);
                let next = at(it.next_ip());
                let to = it.near_branch_target();
                let region = self.image.region(it.ip());
                let mut after = match it.flow_control() {
                    FlowControl::Next | FlowControl::Interrupt => next,
                    FlowControl::ConditionalBranch => next | at(to),
                    FlowControl::UnconditionalBranch => at(to),
                    FlowControl::Call => next | own.map_or_else(|| at(to), |it| used_by(it, to)),
                    FlowControl::Return if own.is_none() => 0,
                    FlowControl::Return
                        if it.mnemonic() == Mnemonic::Ret && self.is_of_rust(region) =>
                    {
                        KEPT | behind.get(&region).copied().unwrap_or(0) & RETURNED
                    }
                    FlowControl::Exception => 0,
                    FlowControl::IndirectBranch if self.marks.resumes(it.ip()).is_some() => RESUMED,
                    FlowControl::IndirectBranch => match self.tables.get(&it.ip()) {
                        Some(targets) => targets.iter().map(|to| at(*to)).fold(0, |a, b| a | b),
                        None => ALL,
                    },
                    _ => ALL,
                };
                if let Some(to) = self.branches.get(&it.ip()) {
                    after |= at(*to);
                }
                let now = reads | after & !writes;
                is_changing |= live.insert(it.ip(), now) != Some(now);
                if own.is_none() {
                    continue;
                }
                // What is called comes back here, and where it is jumped to, to where this one would.
                let (to, used) = match it.flow_control() {
                    FlowControl::Call => (to, next),
                    FlowControl::UnconditionalBranch | FlowControl::ConditionalBranch => {
                        (to, behind.get(&region).copied().unwrap_or(0))
                    }
                    FlowControl::Next => (it.next_ip(), behind.get(&region).copied().unwrap_or(0)),
                    _ => continue,
                };
                let before = behind.entry(self.image.region(to)).or_default();
                is_changing |= *before | used != *before;
                *before |= used;
            }
        }
        live
    }

    fn is_of_rust(&self, region: u64) -> bool {
        self.image.name(region).contains("::")
    }
}

fn used_by(own: &HashMap<u64, u64>, function: u64) -> u64 {
    own.get(&function).copied().unwrap_or(ALL)
}

/// What an instruction reads, and what it writes whole.
fn used(decoded: &Decoded) -> (u64, u64) {
    let it = &decoded.it;
    let (mut reads, mut writes) = (0, 0);
    for used in decoded.info.used_registers() {
        let Some((nr, size, is_high)) = general(used.register()) else {
            continue;
        };
        match used.access() {
            OpAccess::Write if size >= 4 => writes |= whole(1 << nr),
            OpAccess::Write if !is_high => writes |= 1 << nr,
            OpAccess::Read if size == 1 && !is_high => reads |= 1 << nr,
            OpAccess::None | OpAccess::NoMemAccess => {}
            _ => reads |= whole(1 << nr),
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
