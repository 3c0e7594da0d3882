//! Instructions that calculate.

use iced_x86::{Instruction, Mnemonic as M, OpKind};

use super::Cpu;
use crate::flags::{Flags, Source, Word};
use crate::state::{RSP, State};
use crate::value::{Value, mask};

impl Cpu<'_> {
    pub(super) fn logic(&self, state: &mut State, it: &Instruction) -> Option<()> {
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

    pub(super) fn arithmetic(&self, state: &mut State, it: &Instruction) -> Option<()> {
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

    pub(super) fn shift(&self, state: &mut State, it: &Instruction) -> Option<()> {
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

    pub(super) fn bit(&self, state: &mut State, it: &Instruction) -> Option<()> {
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
}
