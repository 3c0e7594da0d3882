//! All instructions from the first one of a function or an entry on, whatever is off: to where it comes back, and to the switch.

use iced_x86::{Instruction, Mnemonic};

use super::flow::Next;
use super::{ANY_STACK, Explorer, Refusal, To};
use crate::cpu::IF;
use crate::flags::{Flags, Source};
use crate::state::{Frame, Interrupts, State};

/// rax and rdx: what a function gives back.
const RESULT: [usize; 2] = [0, 2];

impl Explorer<'_> {
    /// Begins with a function or an entry. A call that blocks (`is_call`) is one that a thread makes with interrupts on and without
    /// guards, or it would not wait; the switch at its end may be its caller's.
    pub(crate) fn begin_whole(&mut self, at: u64, is_call: bool) {
        self.goes_on = is_call;
        let mut state = self.unknown(at, Interrupts::Off, crate::state::ROOT_STACK);
        if is_call {
            (state.irqs, state.guards) = (Some(Some(true)), Some(0));
        }
        let state = self.state(state);
        self.start(at, state);
    }

    /// Instructions that change the interrupt flag. Whether to go on in the same state; `None` if it is none of them.
    pub(super) fn whole(
        &mut self,
        from: u32,
        cost: u64,
        state: &mut State,
        it: &Instruction,
    ) -> Option<bool> {
        match it.mnemonic() {
            mnemonic
                if self.is_clock(it.ip(), mnemonic) || self.to_cli && mnemonic == Mnemonic::Cli =>
            {
                self.edge(from, cost, To::End(it.ip()));
                return Some(false);
            }
            Mnemonic::Cli => {
                // With interrupts on a thread has no guard.
                if state.irqs == Some(Some(true)) {
                    state.guards = Some(0);
                }
                // An interrupt may have come right before.
                (state.rax_is, state.other_is) = (None, None);
                state.irqs = Some(Some(false));
            }
            Mnemonic::Sti => state.irqs = Some(Some(true)),
            Mnemonic::Popfq => {
                let value = self.cpu().pop(state).plain();
                state.irqs = Some((value.known & IF != 0).then_some(value.bits & IF != 0));
                (state.flags, state.source) = (Flags::default(), Source::None);
            }
            Mnemonic::Iretq | Mnemonic::Iretd | Mnemonic::Sysretq => {
                self.edge(from, cost, To::End(it.ip()));
                return Some(false);
            }
            // However long it halts.
            Mnemonic::Hlt => {
                self.edge(from, cost, To::Refused(Refusal::Instruction, it.ip()));
                return Some(false);
            }
            _ => return None,
        }
        state.ip = it.next_ip();
        Some(true)
    }

    /// A function comes back of whose caller nothing is known: that is the end. With interrupts off its callers may go on, which
    /// carry the switch out.
    pub(super) fn back_to_callers(&mut self, state: &State, frame: Frame, after: &mut Vec<Next>) {
        let may_switch = self.goes_on && state.irqs() != Some(true);
        if !may_switch {
            // Behind that a call has not waited.
            after.push(Next::Ends);
            return;
        }
        let Some(backs) = self.calls.backs(frame.callee) else {
            after.push(Next::Refused(Refusal::Caller, state.clone(), None));
            return;
        };
        for back in backs.into_iter().filter(|it| !self.image.is_compiled(*it)) {
            let caller = self.frames.root(self.image.region(back));
            let mut there = State::unknown(back, caller, state.interrupts, ANY_STACK);
            there.irqs = state.irqs;
            there.guards = state.guards;
            there.counts.clone_from(&state.counts);
            for nr in RESULT {
                there.registers[nr] = state.registers[nr].plain();
            }
            after.push(Next::On(there));
        }
    }
}
