//! The same of stretches with preemption off: where it is disabled and enabled stands for `cli` and `sti`, and these are
//! instructions like others.

use iced_x86::{Instruction, Mnemonic};

use super::{Explorer, Refusal, To};
use crate::cpu::IF;
use crate::flags::{Flags, Source};
use crate::state::{Interrupts, State};

impl Explorer<'_> {
    /// Instructions that disable or enable preemption, or change the interrupt flag. Whether to go on in the same state; `None` if
    /// it is none of them.
    pub(super) fn preemption(
        &mut self,
        from: u32,
        cost: u64,
        state: &mut State,
        it: &Instruction,
    ) -> Option<bool> {
        let ip = it.ip();
        if let Some(is_begin) = self.marks.preemption(ip) {
            (state.flags, state.source) = (Flags::default(), Source::None);
            state.ip = it.next_ip();
            return Some(self.disabled(from, cost, state, ip, is_begin));
        }
        match it.mnemonic() {
            Mnemonic::Cli => {
                // An interrupt may have come right before.
                (state.rax_is, state.other_is) = (None, None);
                state.irqs = Some(Some(false));
            }
            Mnemonic::Sti => state.irqs = Some(Some(true)),
            Mnemonic::Popfq => {
                let cpu = self.cpu();
                let value = cpu.pop(state).plain();
                state.irqs = Some((value.known & IF != 0).then_some(value.bits & IF != 0));
                (state.flags, state.source) = (Flags::default(), Source::None);
            }
            // A thread that waits for interrupts, or a CPU that leaves one.
            Mnemonic::Hlt | Mnemonic::Iretq | Mnemonic::Iretd | Mnemonic::Sysretq => {
                if state.interrupts == Interrupts::Off {
                    self.edge(from, cost, To::Refused(Refusal::Instruction, ip));
                    self.lose(Some(it.next_ip()), state);
                    return Some(false);
                }
                if it.mnemonic() != Mnemonic::Hlt {
                    return Some(false);
                }
            }
            _ => return None,
        }
        state.ip = it.next_ip();
        Some(true)
    }

    /// Preemption is disabled once more, or once less. Whether to go on in the same state.
    fn disabled(
        &mut self,
        from: u32,
        cost: u64,
        state: &mut State,
        ip: u64,
        is_begin: bool,
    ) -> bool {
        match (state.interrupts, is_begin, state.guards) {
            (Interrupts::On, true, _) => {
                state.interrupts = Interrupts::Off;
                state.guards = Some(0);
                state.counts.clear();
                let to = self.state(state.clone());
                self.start(ip, to);
                false
            }
            (Interrupts::On, false, _) => true,
            (_, true, nr) => {
                state.guards = nr.and_then(|it| it.checked_add(1));
                true
            }
            (_, false, Some(0)) => self.ends(from, cost, state, ip),
            (_, false, Some(nr)) => {
                state.guards = Some(nr - 1);
                true
            }
            (_, false, None) => {
                self.edge(from, cost, To::Refused(Refusal::Flags, ip));
                self.lose(Some(state.ip), state);
                false
            }
        }
    }
}
