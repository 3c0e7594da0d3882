//! What an instruction that is no branch does to a [`State`].

use iced_x86::{Instruction, MemorySize, Mnemonic as M, OpAccess, OpKind, Register};

use crate::flags::{Flags, Source, Word};
use crate::image::{Decoded, Image};
use crate::marks::Marks;
use crate::state::{Frames, Interrupts, RSP, State};
use crate::value::{Value, mask};

/// Most entries of a table of constants that are looked at.
const TABLE: u64 = 1 << 10;
/// No object lies below.
const FIRST_PAGE: u64 = 1 << 12;
/// The interrupt flag's bit.
pub(crate) const IF: u64 = 1 << 9;

/// The machine: what a step needs besides the state.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cpu<'e> {
    pub(crate) image: &'e Image,
    pub(crate) frames: &'e Frames,
    pub(crate) marks: &'e Marks,
}

/// Where an operand in memory is.
#[derive(Clone, Copy, Debug)]
enum Address {
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
    fn sum(&self, state: &State, it: &Instruction) -> Value {
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

    fn address(&self, state: &State, it: &Instruction) -> Address {
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
    fn escape_parts(&self, state: &mut State, it: &Instruction) {
        for register in [it.memory_base(), it.memory_index()] {
            let value = self.register(state, register);
            state.escape(value, self.frames);
        }
    }

    /// What a load of so many bytes gives.
    fn load(&self, state: &mut State, it: &Instruction, size: u32) -> Value {
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
    fn escape_read(&self, state: &mut State, stack: u32, offset: i64, size: u32) {
        let end = offset + i64::from(size);
        let read = |it: &&crate::state::Slot| {
            it.stack == stack && it.offset < end && offset < it.offset + i64::from(it.size)
        };
        let lost: Vec<_> = state.slots.iter().filter(read).map(|it| it.value).collect();
        for value in lost {
            state.escape(value, self.frames);
        }
    }

    /// What is true of all constants that lie where an address may point to.
    fn constants(&self, state: &State, it: &Instruction, sum: Value, size: u32) -> Value {
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

    fn store(&self, state: &mut State, it: &Instruction, size: u32, value: Value) {
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
    fn size(it: &Instruction, nr: u32) -> Option<u32> {
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
    fn loaded(&self, state: &mut State, it: &Instruction, size: u32) -> Value {
        let value = self.operand(state, it, 1, size);
        if it.op_kind(1) != OpKind::Memory || value.origin != 0 {
            return value;
        }
        let origin = it.ip() as u32;
        state.begin_load(origin);
        value.loaded_by(origin)
    }

    fn set_operand(&self, state: &mut State, it: &Instruction, nr: u32, size: u32, value: Value) {
        match it.op_kind(nr) {
            OpKind::Register => self.set_register(state, it.op_register(nr), value),
            OpKind::Memory => self.store(state, it, size, value),
            _ => {}
        }
    }

    /// The word that an operand is, if it is followed.
    fn word(&self, state: &State, it: &Instruction, nr: u32) -> Option<Word> {
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
        state.rax_is = None;
        state.registers[RSP] = Value::on_stack(stack, sp);
        if state.is_escaped(stack, sp) {
            state.escape(value, self.frames);
        }
        state.store(stack, sp, 8, value);
    }

    pub(crate) fn pop(&self, state: &mut State) -> Value {
        let (stack, sp) = state.sp();
        let value = state.load(stack, sp, 8);
        state.rax_is = None;
        state.registers[RSP] = Value::on_stack(stack, sp.wrapping_add(8));
        value
    }

    /// Executes one instruction that goes on behind itself, all but the place.
    pub(crate) fn step(&self, state: &mut State, decoded: &Decoded) {
        let it = &decoded.it;
        for used in decoded.info.used_registers() {
            // Who reads a part of an address may have made another of it.
            if let Some((nr, ..8, _)) = general(used.register()) {
                let value = state.registers[nr];
                state.escape(value, self.frames);
            }
        }
        if let Some(nr) = pointer(it)
            && state.registers[nr].max() != 0
        {
            let value = state.registers[nr].nonzero();
            state.set_equal(nr, value);
        }
        let rax_is = self.rax_is(state, decoded);
        if self.known(state, it).is_none() {
            self.unknown(state, decoded);
        }
        if it.mnemonic() == M::Cmpxchg && rax_is.is_some() && rax_is == state.rax_is {
            // Nobody else writes there meanwhile: one CPU, interrupts off.
            state.flags.zero = (state.interrupts != Interrupts::On).then_some(true);
        }
        state.rax_is =
            rax_is.filter(|_| state.interrupts != Interrupts::On && it.mnemonic() != M::Cmpxchg);
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
    fn rax_is(&self, state: &State, decoded: &Decoded) -> Option<(Option<u8>, u64, u32)> {
        let it = &decoded.it;
        let is_plain = it.memory_index() == Register::None
            && !matches!(it.memory_segment(), Register::GS | Register::FS);
        let place = || {
            let size = it.memory_size().size() as u32;
            if it.is_ip_rel_memory_operand() {
                return Some((None, it.ip_rel_memory_address(), size));
            }
            let base = match it.memory_base() {
                Register::None => None,
                base => Some(general(base).filter(|it| it.1 == 8)?.0 as u8),
            };
            Some((base, it.memory_displacement64(), size))
        };
        let loads = matches!(it.mnemonic(), M::Mov | M::Movzx)
            && it.op_kind(0) == OpKind::Register
            && it.op_kind(1) == OpKind::Memory;
        if loads && is_plain && general(it.op0_register()).is_some_and(|it| it.0 == 0) {
            return place().filter(|it| it.0 != Some(0));
        }
        if it.mnemonic() == M::Cmpxchg && is_plain {
            return place().filter(|it| state.rax_is == Some(*it));
        }
        let (base, ..) = state.rax_is?;
        let writes = |it| {
            !matches!(
                it,
                OpAccess::Read | OpAccess::CondRead | OpAccess::NoMemAccess | OpAccess::None
            )
        };
        let is_kept = decoded
            .info
            .used_memory()
            .iter()
            .all(|it| !writes(it.access()))
            && decoded.info.used_registers().iter().all(|it| {
                let written = general(it.register()).filter(|_| writes(it.access()));
                written.is_none_or(|(nr, ..)| nr != 0 && Some(nr as u8) != base)
            });
        state.rax_is.filter(|_| is_kept)
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
                let bits = if state.interrupts == Interrupts::On {
                    IF
                } else {
                    0
                };
                // Not known behind `sti`; no one asks there.
                let known = if state.interrupts == Interrupts::Shadow {
                    0
                } else {
                    IF
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

    fn logic(&self, state: &mut State, it: &Instruction) -> Option<()> {
        let mnemonic = it.mnemonic();
        let size = Self::size(it, 0)?;
        let a = self.operand(state, it, 0, size);
        let b = self.operand(state, it, 1, size);
        let is_same = it.op_kind(0) == OpKind::Register
            && it.op_kind(1) == OpKind::Register
            && it.op_register(0) == it.op_register(1);
        let word = self.word(state, it, 0);
        let result = match mnemonic {
            M::Xor if is_same => Value::constant(0),
            _ if is_same => a,
            M::Xor => a.xor(b),
            M::Or => a.or(b),
            _ => a.and(b),
        };
        state.flags = Flags::of_result(result, size);
        if mnemonic == M::Test {
            state.source = match word {
                Some(word) if is_same => Source::Masked(word, size, mask(size)),
                Some(word) => b.as_constant().map_or(Source::None, |bits| {
                    Source::Masked(word, size, bits & mask(size))
                }),
                None => Source::None,
            };
            return Some(());
        }
        // A stack that is aligned is one below, that begins anew.
        if !is_same && word != Some(Word::Register(RSP)) {
            state.escape(a, self.frames);
            state.escape(b, self.frames);
        }
        self.set_operand(state, it, 0, size, result.truncate(size));
        state.source = word.map_or(Source::None, |word| Source::Masked(word, size, mask(size)));
        Some(())
    }

    fn arithmetic(&self, state: &mut State, it: &Instruction) -> Option<()> {
        let mnemonic = it.mnemonic();
        let size = Self::size(it, 0)?;
        let a = self.operand(state, it, 0, size);
        let b = match mnemonic {
            M::Inc | M::Dec => Value::constant(1),
            _ => self.operand(state, it, 1, size),
        };
        let word = self.word(state, it, 0);
        let is_difference = matches!(mnemonic, M::Sub | M::Cmp | M::Dec);
        let is_same = it.op_count() == 2
            && it.op_kind(0) == OpKind::Register
            && it.op_kind(1) == OpKind::Register
            && it.op_register(0) == it.op_register(1);
        let (result, flags) = if is_difference && is_same {
            (
                Value::constant(0),
                Flags::of_difference(Value::constant(0), Value::constant(0), size),
            )
        } else if is_difference {
            (a.sub(b, size), Flags::of_difference(a, b, size))
        } else {
            (a.add(b, size), Flags::of_sum(a, b, size))
        };
        let carry = state.flags.carry;
        state.flags = flags;
        if matches!(mnemonic, M::Inc | M::Dec) {
            state.flags.carry = carry;
        }
        state.source = Source::None;
        if mnemonic == M::Cmp {
            if let (Some(word), Some(by)) = (word, b.as_constant()) {
                state.source = Source::Less(word, size, by & mask(size));
            }
            return Some(());
        }
        if result.stack == 0 {
            state.escape(a, self.frames);
            state.escape(b, self.frames);
        }
        self.set_operand(state, it, 0, size, result.truncate(size));
        Some(())
    }

    fn shift(&self, state: &mut State, it: &Instruction) -> Option<()> {
        let size = Self::size(it, 0)?;
        let a = self.operand(state, it, 0, size);
        let by =
            self.operand(state, it, 1, 1).as_constant()? as u32 & if size == 8 { 63 } else { 31 };
        if by == 0 {
            return Some(());
        }
        state.escape(a, self.frames);
        let result = match it.mnemonic() {
            M::Shl => a.shl(by, size),
            M::Shr => a.shr(by, size),
            _ => a.sar(by, size),
        };
        self.set_operand(state, it, 0, size, result);
        let plain = a.plain();
        let carry = match it.mnemonic() {
            M::Shr if by <= 8 * size => {
                (plain.known >> (by - 1) & 1 != 0).then_some(plain.bits >> (by - 1) & 1 != 0)
            }
            _ => None,
        };
        state.flags = Flags {
            carry,
            overflow: None,
            ..Flags::of_result(result, size)
        };
        state.source = Source::None;
        Some(())
    }

    fn bit(&self, state: &mut State, it: &Instruction) -> Option<()> {
        if it.op_kind(0) != OpKind::Register {
            return None;
        }
        let size = Self::size(it, 0)?;
        let a = self.operand(state, it, 0, size);
        let nr = self.operand(state, it, 1, size).as_constant();
        let nr = nr.map(|nr| nr as u32 & (8 * size - 1));
        let plain = a.plain();
        let bit = nr.map(|nr| 1u64 << nr);
        let carry = bit.and_then(|bit| (plain.known & bit != 0).then_some(plain.bits & bit != 0));
        state.flags = Flags {
            carry,
            zero: state.flags.zero,
            ..Flags::default()
        };
        state.source = Source::None;
        if it.mnemonic() == M::Bt {
            if let (Some(nr), Some(word)) = (nr, self.word(state, it, 0)) {
                state.source = Source::Bit(word, nr);
            }
            return Some(());
        }
        state.escape(a, self.frames);
        let result = match (bit, it.mnemonic()) {
            (Some(bit), M::Bts) => Value::bits(plain.known | bit, plain.bits | bit),
            (Some(bit), M::Btr) => Value::bits(plain.known | bit, plain.bits & !bit),
            (None, M::Bts) => Value::of_size(size).nonzero(),
            (None, M::Btr) => Value::bits(plain.known & !plain.bits, 0),
            _ => Value::of_size(size),
        };
        self.set_operand(state, it, 0, size, result.truncate(size));
        Some(())
    }

    /// Any other instruction: what it writes is not known, and what it reads it may have put anywhere.
    fn unknown(&self, state: &mut State, decoded: &Decoded) {
        let reads = |it| {
            !matches!(
                it,
                OpAccess::Write | OpAccess::CondWrite | OpAccess::NoMemAccess | OpAccess::None
            )
        };
        let writes = |it| {
            !matches!(
                it,
                OpAccess::Read | OpAccess::CondRead | OpAccess::NoMemAccess | OpAccess::None
            )
        };
        let stack_step = decoded.it.stack_pointer_increment();
        for used in decoded.info.used_memory() {
            let size = match used.memory_size() {
                // Of `fxsave`, `rep movs` and the like: as much as there is.
                MemorySize::Unknown => 0,
                it => it.size() as u32,
            };
            let base = self.register(state, used.base());
            let index = match used.index() {
                Register::None => Value::constant(0),
                register => self
                    .register(state, register)
                    .shl(used.scale().trailing_zeros(), 8),
            };
            let at = Value::constant(used.displacement())
                .add(index, 8)
                .add(base, 8);
            let is_repeated = decoded.it.has_rep_prefix() || decoded.it.has_repne_prefix();
            let is_segment = matches!(used.segment(), Register::GS | Register::FS);
            match at.as_stack() {
                Some((stack, offset)) if size > 0 && !is_repeated && !is_segment => {
                    self.escape_read(state, stack, offset, size);
                    if writes(used.access()) {
                        state.forget(stack, offset, offset + i64::from(size));
                    }
                }
                _ if is_segment => {}
                _ => {
                    state.escape(base, self.frames);
                    state.escape(index, self.frames);
                    if let Some((stack, offset)) = at.as_stack() {
                        state.escape(at, self.frames);
                        // The object behind it may be longer than the frame.
                        if size == 0 && writes(used.access()) {
                            let size = if is_repeated { i64::MAX / 2 } else { 1024 };
                            state.forget(stack, offset, offset.saturating_add(size));
                        }
                    }
                    if writes(used.access()) && at.as_constant().is_none() {
                        state.store_anywhere();
                    }
                }
            }
        }
        for used in decoded.info.used_registers() {
            let vector = match used.register() {
                Register::XMM0 | Register::YMM0 | Register::ZMM0 => Some(0),
                Register::XMM1 | Register::YMM1 | Register::ZMM1 => Some(1),
                _ => None,
            };
            if let Some(nr) = vector {
                for half in state.vectors[nr] {
                    state.escape(half, self.frames);
                }
                if writes(used.access()) {
                    state.vectors[nr] = [Value::UNKNOWN; 2];
                }
            }
            let Some((nr, ..)) = general(used.register()) else {
                continue;
            };
            if nr == RSP && stack_step != 0 {
                continue;
            }
            let value = state.registers[nr];
            let is_address =
                [decoded.it.memory_base(), decoded.it.memory_index()].contains(&used.register());
            if reads(used.access()) && !is_address {
                state.escape(value, self.frames);
            }
            match used.access() {
                OpAccess::Write | OpAccess::ReadWrite => {
                    self.set_register(state, used.register(), Value::UNKNOWN);
                }
                it if writes(it) => {
                    self.set_register(state, used.register().full_register(), Value::UNKNOWN)
                }
                _ => {}
            }
        }
        if stack_step != 0 {
            let (stack, sp) = state.sp();
            state.registers[RSP] = Value::on_stack(stack, sp + i64::from(stack_step));
        }
        if decoded.it.rflags_modified() != 0 {
            (state.flags, state.source) = Default::default();
        }
    }
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
