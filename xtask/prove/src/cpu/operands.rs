//! Operands: registers, words in memory and on stacks.

use iced_x86::{Instruction, OpKind, Register};

use super::Cpu;
use crate::flags::{Source, Word};
use crate::state::{RSP, Slot, State};
use crate::value::{Value, mask};

/// Most entries of a table of constants that are looked at.
const TABLE: u64 = 1 << 10;

/// Where an operand in memory is.
#[derive(Clone, Copy, Debug)]
pub(super) enum Address {
    /// On a stack.
    Stack(u32, i64),
    /// Wherever this value points to.
    At(Value),
    /// In a block of the CPU's own, behind a segment register.
    Segment,
}

/// A general register: its number, its bytes, and whether it is the second byte.
pub(crate) fn general(register: Register) -> Option<(usize, u32, bool)> {
    if !register.is_gpr() {
        return None;
    }
    let is_high = matches!(
        register,
        Register::AH | Register::BH | Register::CH | Register::DH
    );
    Some((
        register.full_register().number(),
        register.size() as u32,
        is_high,
    ))
}

impl Cpu<'_> {
    pub(crate) fn register(&self, state: &State, register: Register) -> Value {
        match general(register) {
            Some((nr, 8, _)) => state.registers[nr],
            Some((nr, _, true)) => state.registers[nr].plain().shr(8, 8).truncate(1),
            Some((nr, size, _)) => state.registers[nr].truncate(size),
            None => Value::UNKNOWN,
        }
    }

    pub(crate) fn set_register(&self, state: &mut State, register: Register, value: Value) {
        let Some((nr, size, is_high)) = general(register) else {
            return;
        };
        state.registers[nr] = match size {
            8 => value,
            4 => value.truncate(4),
            _ => {
                let before = state.registers[nr].plain();
                let (shift, low) = if is_high {
                    (8, 0xff00)
                } else {
                    (0, mask(size))
                };
                let value = value.truncate(size);
                Value::bits(
                    before.known & !low | value.known << shift & low,
                    before.bits & !low | value.bits << shift & low,
                )
            }
        };
        if state.source.word() == Some(Word::Register(nr)) {
            state.source = Source::None;
        }
    }

    /// The sum of base, index and displacement.
    pub(super) fn sum(&self, state: &State, it: &Instruction) -> Value {
        if it.is_ip_rel_memory_operand() {
            return Value::constant(it.ip_rel_memory_address());
        }
        let mut sum = Value::constant(it.memory_displacement64());
        if it.memory_index() != Register::None {
            let scale = it.memory_index_scale().trailing_zeros();
            let index = self.register(state, it.memory_index());
            sum = sum.add(
                if scale == 0 {
                    index
                } else {
                    index.shl(scale, 8)
                },
                8,
            );
        }
        if it.memory_base() != Register::None {
            sum = sum.add(self.register(state, it.memory_base()), 8);
        }
        sum
    }

    pub(super) fn address(&self, state: &State, it: &Instruction) -> Address {
        if matches!(it.memory_segment(), Register::GS | Register::FS) {
            return Address::Segment;
        }
        let sum = self.sum(state, it);
        match sum.as_stack() {
            Some((stack, offset)) => Address::Stack(stack, offset),
            None => Address::At(sum),
        }
    }

    /// Stack pointers that an address is made of whose sum is not followed: they point to a frame, though not known where.
    pub(super) fn escape_parts(&self, state: &mut State, it: &Instruction) {
        for register in [it.memory_base(), it.memory_index()] {
            let value = self.register(state, register);
            state.escape(value, self.frames);
        }
    }

    /// What a load of so many bytes gives.
    pub(super) fn load(&self, state: &mut State, it: &Instruction, size: u32) -> Value {
        match self.address(state, it) {
            Address::Stack(stack, offset) => {
                let value = state.load(stack, offset, size);
                if value.stack == 0 {
                    self.escape_read(state, stack, offset, size);
                }
                value
            }
            Address::At(value) => {
                match value.maybe_stack() {
                    Some((stack, offset)) => self.escape_read(state, stack, offset, size),
                    None => self.escape_parts(state, it),
                }
                self.constants(state, it, value, size)
            }
            Address::Segment => {
                let is_address = it.memory_base() == Register::None
                    && it.memory_index() == Register::None
                    && size == 8;
                let value = Value::of_size(size);
                match is_address && self.marks.is_nonzero(it.memory_displacement64()) {
                    true => value.nonzero(),
                    false => value,
                }
            }
        }
    }

    /// Addresses on stacks that are read in part, or as something else than a word.
    pub(super) fn escape_read(&self, state: &mut State, stack: u32, offset: i64, size: u32) {
        let end = offset + i64::from(size);
        let read = |it: &&Slot| {
            it.stack == stack && it.offset < end && offset < it.offset + i64::from(it.size)
        };
        let lost: Vec<_> = state.slots.iter().filter(read).map(|it| it.value).collect();
        for value in lost {
            state.escape(value, self.frames);
        }
    }

    /// What is true of all constants that lie where an address may point to.
    pub(super) fn constants(
        &self,
        state: &State,
        it: &Instruction,
        sum: Value,
        size: u32,
    ) -> Value {
        let unknown = Value::of_size(size);
        if size > 8 {
            return unknown;
        }
        if let Some(address) = sum.as_constant() {
            return self
                .image
                .constant(address, size)
                .map_or(unknown, Value::constant);
        }
        // One register says which entry of a table it is.
        let (register, scale) = match (it.memory_base(), it.memory_index()) {
            (Register::None, index) => (index, u64::from(it.memory_index_scale())),
            (base, Register::None) => (base, 1),
            _ => return unknown,
        };
        let at = self.register(state, register).plain();
        let free = !at.known;
        if u64::from(free.count_ones()) > TABLE.ilog2().into() {
            return unknown;
        }
        let mut joined: Option<Value> = None;
        let mut subset = 0u64;
        loop {
            let address = it
                .memory_displacement64()
                .wrapping_add((at.bits | subset).wrapping_mul(scale));
            let Some(word) = self.image.constant(address, size) else {
                return unknown;
            };
            let word = Value::constant(word);
            joined = Some(joined.map_or(word, |it| it.join(word)));
            subset = subset.wrapping_sub(free) & free;
            if subset == 0 {
                return joined.unwrap_or(unknown);
            }
        }
    }

    pub(super) fn store(&self, state: &mut State, it: &Instruction, size: u32, value: Value) {
        match self.address(state, it) {
            Address::Stack(stack, offset) => {
                if state.is_escaped(stack, offset) {
                    state.escape(value, self.frames);
                }
                state.store(stack, offset, size, value);
            }
            Address::At(at) => {
                match at.maybe_stack() {
                    Some((stack, offset)) => state.forget(stack, offset, offset + i64::from(size)),
                    None => self.escape_parts(state, it),
                }
                state.escape(value, self.frames);
                if at.as_constant().is_none() {
                    state.store_anywhere();
                }
            }
            Address::Segment => state.escape(value, self.frames),
        }
    }

    /// Bytes of an operand, as far as it is a word of the general registers.
    pub(super) fn size(it: &Instruction, nr: u32) -> Option<u32> {
        match it.op_kind(nr) {
            OpKind::Register => general(it.op_register(nr)).map(|(_, size, _)| size),
            OpKind::Memory => match it.memory_size().size() {
                size @ (1 | 2 | 4 | 8) => Some(size as u32),
                _ => None,
            },
            _ => None,
        }
    }

    pub(crate) fn operand(&self, state: &mut State, it: &Instruction, nr: u32, size: u32) -> Value {
        match it.op_kind(nr) {
            OpKind::Register => self.register(state, it.op_register(nr)),
            OpKind::Memory => self.load(state, it, size),
            OpKind::NearBranch16 | OpKind::NearBranch32 | OpKind::NearBranch64 => Value::UNKNOWN,
            _ => it
                .try_immediate(nr)
                .map_or(Value::UNKNOWN, |it| Value::constant(it & mask(size))),
        }
    }

    /// The second operand, with the instruction that has loaded it where it is in memory.
    pub(super) fn loaded(&self, state: &mut State, it: &Instruction, size: u32) -> Value {
        let value = self.operand(state, it, 1, size);
        if it.op_kind(1) != OpKind::Memory || value.origin != 0 {
            return value;
        }
        let origin = it.ip() as u32;
        state.begin_load(origin);
        value.loaded_by(origin)
    }

    pub(super) fn set_operand(
        &self,
        state: &mut State,
        it: &Instruction,
        nr: u32,
        size: u32,
        value: Value,
    ) {
        match it.op_kind(nr) {
            OpKind::Register => self.set_register(state, it.op_register(nr), value),
            OpKind::Memory => self.store(state, it, size, value),
            _ => {}
        }
    }

    /// The word that an operand is, if it is followed.
    pub(super) fn word(&self, state: &State, it: &Instruction, nr: u32) -> Option<Word> {
        match it.op_kind(nr) {
            OpKind::Register => match general(it.op_register(nr))? {
                (_, _, true) => None,
                (nr, ..) => Some(Word::Register(nr)),
            },
            OpKind::Memory => match self.address(state, it) {
                Address::Stack(stack, offset) => Some(Word::Slot(stack, offset)),
                _ => None,
            },
            _ => None,
        }
    }

    pub(crate) fn push(&self, state: &mut State, value: Value) {
        let (stack, sp) = state.sp();
        let sp = sp.wrapping_sub(8);
        (state.rax_is, state.other_is) = (None, None);
        state.registers[RSP] = Value::on_stack(stack, sp);
        if state.is_escaped(stack, sp) {
            state.escape(value, self.frames);
        }
        state.store(stack, sp, 8, value);
    }

    pub(crate) fn pop(&self, state: &mut State) -> Value {
        let (stack, sp) = state.sp();
        let value = state.load(stack, sp, 8);
        (state.rax_is, state.other_is) = (None, None);
        state.registers[RSP] = Value::on_stack(stack, sp.wrapping_add(8));
        value
    }
}
