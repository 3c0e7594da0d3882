//! Instructions whose effect is not followed.

use iced_x86::{MemorySize, Mnemonic as M, OpAccess, Register};

use super::{Cpu, general};
use crate::image::Decoded;
use crate::state::{RSP, State};
use crate::value::Value;

/// Bytes of what `fxsave` writes.
const FPU_STATE: u32 = 512;

impl Cpu<'_> {
    /// Any other instruction: what it writes is not known, and what it reads it may have put anywhere.
    pub(super) fn unknown(&self, state: &mut State, decoded: &Decoded) {
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
        let is_fpu = matches!(
            decoded.it.mnemonic(),
            M::Fxsave | M::Fxsave64 | M::Fxrstor | M::Fxrstor64
        );
        let stack_step = decoded.it.stack_pointer_increment();
        for used in decoded.info.used_memory() {
            let size = match used.memory_size() {
                MemorySize::Unknown if is_fpu => FPU_STATE,
                // Of `rep movs` and the like: as much as there is.
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
