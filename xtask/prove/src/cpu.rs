//! What an instruction that is no branch does to a [`State`]: here the moves, in `arithmetic` what calculates, in `unknown`
//! the rest; `operands` is where they take words from.

mod arithmetic;
mod operands;
mod unknown;

pub(crate) use operands::general;

use iced_x86::{Instruction, Mnemonic as M, OpAccess, OpKind, Register};

use crate::image::{Decoded, Image};
use crate::live::{Live, is_rest_used};
use crate::marks::Marks;
use crate::state::{Frames, Place, RSP, State};
use crate::value::Value;

/// No object lies below.
pub(crate) const FIRST_PAGE: u64 = 1 << 12;
/// The interrupt flag's bit.
pub(crate) const IF: u64 = 1 << 9;

/// The machine: what a step needs besides the state.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cpu<'e> {
    pub(crate) image: &'e Image,
    pub(crate) frames: &'e Frames,
    pub(crate) marks: &'e Marks,
    pub(crate) live: &'e Live,
}

impl Cpu<'_> {
    /// Executes one instruction that goes on behind itself, all but the place.
    pub(crate) fn step(&self, state: &mut State, decoded: &Decoded) {
        let it = &decoded.it;
        for used in decoded.info.used_registers() {
            // Who reads a part of an address may have made another of it; who writes a part of a word whose rest is used has. One
            // that ends in whether a condition holds is none.
            if let Some((nr, size @ ..8, _)) = general(used.register()) {
                let value = state.registers[nr];
                let is_replaced = used.access() == OpAccess::Write
                    && (size == 4
                        || is_set(it.mnemonic())
                        || !is_rest_used(self.live.at(it.next_ip()), nr));
                match is_replaced {
                    true => state.registers[nr] = value.plain(),
                    false => state.escape(value, self.frames),
                }
            }
        }
        if let Some(nr) = pointer(it)
            && state.registers[nr].max() != 0
        {
            let value = state.registers[nr].nonzero();
            state.set_equal(nr, value);
        }
        let rax_is = self.rax_is(state, decoded);
        let other_is = self.other_is(state, decoded);
        if self.known(state, it).is_none() {
            self.unknown(state, decoded);
        }
        let is_alone = state.is_alone() && !self.marks.is_smp;
        if it.mnemonic() == M::Cmpxchg && rax_is.is_some() && rax_is == state.rax_is {
            // Nobody else writes there meanwhile: one CPU, interrupts off.
            state.flags.zero = is_alone.then_some(true);
        }
        state.rax_is = rax_is.filter(|_| is_alone && it.mnemonic() != M::Cmpxchg);
        state.other_is = other_is.filter(|_| is_alone);
        if state.registers[RSP].stack == 0 {
            state.begin_stack(it.ip() as u32);
        }
    }

    /// Moves of whole vectors, by which structures are copied.
    fn vector(&self, state: &mut State, it: &Instruction) -> Option<()> {
        let nr = |nr| match it.op_register(nr) {
            Register::XMM0 => Some(0),
            Register::XMM1 => Some(1),
            _ => None,
        };
        match (it.op_kind(0), it.op_kind(1)) {
            (OpKind::Register, OpKind::Memory) => {
                let to = nr(0)?;
                let halves = halves(it);
                state.vectors[to] = halves.map(|half| self.load(state, &half, 8));
            }
            (OpKind::Memory, OpKind::Register) => {
                let from = nr(1)?;
                let values = state.vectors[from];
                for (half, value) in halves(it).iter().zip(values) {
                    self.store(state, half, 8, value);
                }
            }
            (OpKind::Register, OpKind::Register) => state.vectors[nr(0)?] = state.vectors[nr(1)?],
            _ => return None,
        }
        Some(())
    }

    /// What rax is equal to behind an instruction, or before a `cmpxchg` if it compares with that.
    fn rax_is(&self, state: &State, decoded: &Decoded) -> Option<Place> {
        let it = &decoded.it;
        if loads(it) && general(it.op0_register()).is_some_and(|it| it.0 == 0) {
            return place(it).filter(|it| it.0 != Some(0));
        }
        if it.mnemonic() == M::Cmpxchg {
            return place(it).filter(|it| state.rax_is == Some(*it));
        }
        // It may be loaded elsewhere first.
        if it.mnemonic() == M::Mov
            && it.op_kind(0) == OpKind::Register
            && it.op_kind(1) == OpKind::Register
            && let (Some((0, size, false)), Some((from, ..))) =
                (general(it.op0_register()), general(it.op1_register()))
            && let Some((nr, place)) = state.other_is
            && usize::from(nr) == from
            && place.2 == size
        {
            return Some(place).filter(|it| it.0 != Some(0));
        }
        state.rax_is.filter(|it| keeps(decoded, 0, *it))
    }

    /// Which other register is equal to what behind an instruction.
    fn other_is(&self, state: &State, decoded: &Decoded) -> Option<(u8, Place)> {
        let it = &decoded.it;
        if loads(it)
            && let Some((nr @ 1.., ..)) = general(it.op0_register())
        {
            let nr = nr as u8;
            return place(it).filter(|it| it.0 != Some(nr)).map(|it| (nr, it));
        }
        state.other_is.filter(|(nr, it)| keeps(decoded, *nr, *it))
    }

    /// An instruction whose effect is followed. `None` if it is none of them, or not with these operands.
    fn known(&self, state: &mut State, it: &Instruction) -> Option<()> {
        let mnemonic = it.mnemonic();
        match mnemonic {
            M::Mov => {
                let size = Self::size(it, 0)?;
                if it.op_kind(1) == OpKind::Register {
                    general(it.op_register(1))?;
                }
                let value = self.loaded(state, it, size);
                self.set_operand(state, it, 0, size, value);
            }
            M::Movzx | M::Movsx | M::Movsxd => {
                let size = Self::size(it, 1)?;
                let value = self.loaded(state, it, size).truncate(size);
                let value = if mnemonic == M::Movzx {
                    value
                } else {
                    value.extend(size)
                };
                let to = Self::size(it, 0)?;
                self.set_operand(state, it, 0, to, value.truncate(to));
            }
            M::Lea => {
                let sum = self.sum(state, it);
                let is_whole = general(it.op_register(0)).is_some_and(|it| it.1 == 8);
                if sum.stack == 0 || !is_whole {
                    self.escape_parts(state, it);
                }
                self.set_register(state, it.op_register(0), sum);
            }
            M::Push => {
                let value = match Self::size(it, 0) {
                    Some(8) => self.operand(state, it, 0, 8),
                    None => Value::constant(it.try_immediate(0).ok()?),
                    Some(_) => return None,
                };
                self.push(state, value);
            }
            M::Pop => {
                let 8 = Self::size(it, 0)? else { return None };
                let value = self.pop(state);
                self.set_operand(state, it, 0, 8, value);
            }
            M::Pushfq => {
                // Not known behind `sti`; no one asks there.
                let (known, bits) = match state.irqs() {
                    Some(true) => (IF, IF),
                    Some(false) => (IF, 0),
                    None => (0, 0),
                };
                self.push(state, Value::bits(known, bits));
            }
            M::And | M::Or | M::Xor | M::Test => self.logic(state, it)?,
            M::Add | M::Sub | M::Cmp | M::Inc | M::Dec => self.arithmetic(state, it)?,
            M::Shl | M::Shr | M::Sar => self.shift(state, it)?,
            M::Bt | M::Bts | M::Btr | M::Btc => self.bit(state, it)?,
            M::Imul if it.op_count() > 1 => {
                let size = Self::size(it, 0)?;
                let first = if it.op_count() == 3 { 1 } else { 0 };
                let a = self.operand(state, it, first, size);
                let b = self.operand(state, it, first + 1, size);
                state.escape(a, self.frames);
                state.escape(b, self.frames);
                self.set_operand(state, it, 0, size, a.mul(b, size));
                (state.flags, state.source) = Default::default();
            }
            M::Xchg if it.op_kind(0) == OpKind::Register && it.op_kind(1) == OpKind::Register => {
                let (a, b) = (it.op_register(0), it.op_register(1));
                let (one, two) = (self.register(state, a), self.register(state, b));
                self.set_register(state, a, two);
                self.set_register(state, b, one);
            }
            M::Xchg if Self::size(it, 0) == Some(8) => {
                let (one, two) = (self.operand(state, it, 0, 8), self.operand(state, it, 1, 8));
                self.set_operand(state, it, 0, 8, two);
                self.set_operand(state, it, 1, 8, one);
            }
            M::Tzcnt | M::Bsf | M::Lzcnt | M::Bsr | M::Popcnt => {
                let size = Self::size(it, 0)?;
                let from = self.operand(state, it, 1, size);
                state.escape(from, self.frames);
                let most = if from.is_nonzero() && mnemonic != M::Popcnt {
                    8 * size - 1
                } else {
                    8 * size
                };
                let known = !(u64::MAX >> u64::from(most).leading_zeros());
                let value = match (mnemonic, from.as_constant()) {
                    (M::Tzcnt | M::Bsf, Some(from)) if from != 0 => {
                        Value::constant(from.trailing_zeros().into())
                    }
                    _ => Value::bits(known, 0),
                };
                if matches!(mnemonic, M::Bsf | M::Bsr) && !from.is_nonzero() {
                    self.set_register(state, it.op_register(0).full_register(), Value::UNKNOWN);
                } else {
                    self.set_operand(state, it, 0, size, value);
                }
                (state.flags, state.source) = Default::default();
            }
            M::Leave => {
                let base = state.registers[5];
                base.as_stack()?;
                state.registers[RSP] = base;
                state.registers[5] = self.pop(state);
            }
            M::Movups | M::Movaps | M::Movdqu | M::Movdqa | M::Movupd | M::Movapd => {
                self.vector(state, it)?
            }
            M::Xorps | M::Pxor | M::Xorpd
                if it.op_kind(1) == OpKind::Register && it.op0_register() == it.op1_register() =>
            {
                let nr = match it.op0_register() {
                    Register::XMM0 => 0,
                    Register::XMM1 => 1,
                    _ => return None,
                };
                state.vectors[nr] = [Value::constant(0); 2];
            }
            M::Nop | M::Endbr64 | M::Pause | M::Lfence | M::Mfence | M::Sfence => {}
            _ if is_set(mnemonic) => {
                let value = match state.flags.holds(it.condition_code()) {
                    Some(holds) => Value::constant(holds.into()),
                    None => Value::bits(!1, 0),
                };
                self.set_operand(state, it, 0, 1, value);
            }
            _ if is_move(mnemonic) => {
                let size = Self::size(it, 0)?;
                let (old, new) = (
                    self.operand(state, it, 0, size),
                    self.operand(state, it, 1, size),
                );
                let value = match state.flags.holds(it.condition_code()) {
                    Some(true) => new,
                    Some(false) => old,
                    None => {
                        let value = old.join(new);
                        for it in [old, new].into_iter().filter(|it| !value.leads_where(*it)) {
                            state.escape(it, self.frames);
                        }
                        value
                    }
                };
                self.set_operand(state, it, 0, size, value);
            }
            _ => return None,
        }
        Some(())
    }
}

/// Whether an instruction loads a register from memory.
fn loads(it: &Instruction) -> bool {
    matches!(it.mnemonic(), M::Mov | M::Movzx)
        && it.op_kind(0) == OpKind::Register
        && it.op_kind(1) == OpKind::Memory
}

/// The place in memory that an instruction names, if it is told by one register at most.
fn place(it: &Instruction) -> Option<Place> {
    let is_plain = it.memory_index() == Register::None
        && !matches!(it.memory_segment(), Register::GS | Register::FS);
    if !is_plain {
        return None;
    }
    let size = it.memory_size().size() as u32;
    if it.is_ip_rel_memory_operand() {
        return Some((None, it.ip_rel_memory_address(), size));
    }
    let base = match it.memory_base() {
        Register::None => None,
        base => Some(general(base).filter(|it| it.1 == 8)?.0 as u8),
    };
    Some((base, it.memory_displacement64(), size))
}

/// Whether a register is equal to a place behind an instruction if it was before: it writes neither of them, nor to memory.
fn keeps(decoded: &Decoded, register: u8, (base, ..): Place) -> bool {
    let writes = |it| {
        !matches!(
            it,
            OpAccess::Read | OpAccess::CondRead | OpAccess::NoMemAccess | OpAccess::None
        )
    };
    let memory = decoded.info.used_memory().iter();
    let registers = decoded.info.used_registers().iter();
    memory.map(|it| it.access()).all(|it| !writes(it))
        && registers.filter(|it| writes(it.access())).all(|it| {
            let written = general(it.register()).map(|it| it.0 as u8);
            written.is_none_or(|nr| nr != register && Some(nr) != base)
        })
}

/// The register by which an instruction reads or writes memory close behind where that points to, so that it is no null
/// pointer: nothing lies in the first page.
fn pointer(it: &Instruction) -> Option<usize> {
    let accesses = it.op_kinds().any(|it| it == OpKind::Memory)
        && !matches!(
            it.mnemonic(),
            M::Lea
                | M::Nop
                | M::Invlpg
                | M::Clflush
                | M::Clflushopt
                | M::Bt
                | M::Bts
                | M::Btr
                | M::Btc
        )
        && !is_prefetch(it.mnemonic())
        && !matches!(it.memory_segment(), Register::GS | Register::FS)
        && it.memory_index() == Register::None
        && it.memory_displacement64() < FIRST_PAGE;
    let (nr, size, _) = general(it.memory_base()).filter(|_| accesses)?;
    (size == 8).then_some(nr)
}

fn is_prefetch(mnemonic: M) -> bool {
    use M::*;
    matches!(
        mnemonic,
        Prefetch | Prefetchnta | Prefetcht0 | Prefetcht1 | Prefetcht2 | Prefetchw | Prefetchwt1
    )
}

fn is_set(mnemonic: M) -> bool {
    use M::*;
    matches!(
        mnemonic,
        Seta | Setae
            | Setb
            | Setbe
            | Sete
            | Setg
            | Setge
            | Setl
            | Setle
            | Setne
            | Setno
            | Seto
            | Sets
            | Setns
    )
}

fn is_move(mnemonic: M) -> bool {
    use M::*;
    matches!(
        mnemonic,
        Cmova
            | Cmovae
            | Cmovb
            | Cmovbe
            | Cmove
            | Cmovg
            | Cmovge
            | Cmovl
            | Cmovle
            | Cmovne
            | Cmovno
            | Cmovo
            | Cmovs
            | Cmovns
    )
}

/// An access of 16 bytes as two of 8.
fn halves(it: &Instruction) -> [Instruction; 2] {
    let mut high = *it;
    high.set_memory_displacement64(it.memory_displacement64().wrapping_add(8));
    if high.memory_displ_size() == 0 {
        high.set_memory_displ_size(8);
    }
    [*it, high]
}
