//! How one instruction goes on: branches, calls and returns, and the switch to another thread.

use std::collections::BTreeSet;

use iced_x86::{ConditionCode, FlowControl, Instruction, Mnemonic, OpKind, Register};

use super::{ANY_STACK, Explorer, HANDLER, MOST_CALLS, Off, REPEATED, Refusal};
use crate::calls::table;
use crate::config::Setting;
use crate::flags::Flags;
use crate::image::Decoded;
use crate::state::{Frame, Interrupts, RSP, State};
use crate::value::{Value, mask};

/// Values that a word may be for each to be looked at by itself.
const FEW: u64 = 8;

/// How it goes on.
#[derive(Debug)]
pub(super) enum Next {
    /// In this state.
    On(State),
    /// In this state, of another thread.
    Other(State),
    /// The stretch ends: whoever goes on enables preemption.
    Ends,
    /// It ends with the switch to another thread.
    Leaves,
    /// Not, because of this. What would come then begins there.
    Refused(Refusal, State, Option<u64>),
    /// There is no bound, because of this, to how long it takes until it does.
    Endless(Refusal),
}

impl Explorer<'_> {
    /// Executes one instruction. Gives the places where the system ends.
    pub(super) fn execute(
        &mut self,
        decoded: &Decoded,
        mut state: State,
        after: &mut Vec<Next>,
        cost: &mut u64,
    ) -> Vec<(u64, bool)> {
        let it = &decoded.it;
        let ip = it.ip();
        let next_ip = it.next_ip();
        match it.flow_control() {
            FlowControl::Next => {
                if it.has_rep_prefix() || it.has_repne_prefix() {
                    match repeated(it, &state) {
                        Some(more) => *cost += more,
                        // However long it takes, it is part of no stretch.
                        None if state.interrupts == Interrupts::On => {}
                        None if self.marks.is_library(ip) => *cost += REPEATED,
                        None => after.push(Next::Endless(Refusal::Repeat)),
                    }
                }
                if let Some((to, key)) = decoded.branch {
                    let is = self.marks.key(key).unwrap_or(self.keys);
                    if matches!(is, Setting::On | Setting::Any) {
                        let mut there = state.clone();
                        there.ip = to;
                        after.push(Next::On(there));
                    }
                    if is == Setting::On {
                        return Vec::new();
                    }
                }
                self.cpu().step(&mut state, decoded);
                state.ip = next_ip;
                after.push(Next::On(state));
            }
            FlowControl::ConditionalBranch => {
                // `loop` and its like count besides.
                let condition = match is_counting(it.mnemonic()) {
                    true => ConditionCode::None,
                    false => it.condition_code(),
                };
                let holds = state.flags.holds(condition);
                for (is_taken, to) in [(false, next_ip), (true, it.near_branch_target())] {
                    if holds.is_some_and(|holds| holds != is_taken) {
                        continue;
                    }
                    let mut state = state.clone();
                    state.next_waited |= !is_taken && self.marks.asks_whether_preempted(ip);
                    if condition == ConditionCode::None {
                        self.cpu().step(&mut state, decoded);
                    } else {
                        let condition = if is_taken {
                            condition
                        } else {
                            opposite(condition)
                        };
                        if let Some((word, told)) = state.source.told(condition)
                            && !state.refine(word, told)
                        {
                            continue;
                        }
                        learn(&mut state.flags, condition);
                        // What stands above the bytes that were looked at is nothing.
                        if let Some((nr, size, most)) = state.source.most(condition)
                            && state.registers[nr].max() <= mask(size)
                            && let Some(each) = few(state.registers[nr], most)
                        {
                            for value in each {
                                let mut state = state.clone();
                                state.set_equal(nr, Value::constant(value));
                                state.ip = to;
                                after.push(Next::On(state));
                            }
                            continue;
                        }
                    }
                    state.ip = to;
                    after.push(Next::On(state));
                }
            }
            FlowControl::UnconditionalBranch => {
                let to = it.near_branch_target();
                if self.calls.is_fatal(to) {
                    return vec![(ip, true)];
                }
                self.jump(state, ip, to, after);
            }
            FlowControl::Call => {
                let to = it.near_branch_target();
                if self.calls.is_fatal(to) {
                    return vec![(ip, true)];
                }
                if self.marks.is_handler(ip) && state.interrupts == Interrupts::Off {
                    self.pass_call(&mut state);
                    state.ip = next_ip;
                    *cost += HANDLER;
                    after.push(Next::On(state));
                } else {
                    self.call(state, &[to], next_ip, after);
                }
            }
            FlowControl::IndirectCall => match self.targets(&mut state, it) {
                Some(targets) => self.call(state, &targets, next_ip, after),
                // Behind `sti` they are on in what is called.
                None if state.interrupts != Interrupts::Off && self.image.is_compiled(next_ip) => {}
                None if state.interrupts != Interrupts::Off => {
                    self.pass_call(&mut state);
                    state.ip = next_ip;
                    after.push(Next::On(state));
                }
                None if self.marks.is_handler(ip) => {
                    self.pass_call(&mut state);
                    state.ip = next_ip;
                    *cost += HANDLER;
                    after.push(Next::On(state));
                }
                None => after.push(Next::Refused(Refusal::Call, state, Some(next_ip))),
            },
            FlowControl::IndirectBranch => {
                let marks = self.marks;
                if let Some(targets) = marks.resumes(ip) {
                    match self.off {
                        Off::Irqs => {}
                        Off::Preemption => after.push(Next::Ends),
                        Off::Nothing => {
                            after.push(Next::Leaves);
                            return Vec::new();
                        }
                    }
                    self.switch(state, next_ip, targets, after);
                    return Vec::new();
                }
                match self
                    .targets(&mut state, it)
                    .or_else(|| table(self.image, ip))
                {
                    Some(targets) => {
                        for to in targets {
                            self.jump(state.clone(), ip, to, after);
                        }
                    }
                    None if state.interrupts == Interrupts::On => self.leave(state, ip, after),
                    None => after.push(Next::Refused(Refusal::Jump, state, None)),
                }
            }
            FlowControl::Return => self.back(state, it, after),
            FlowControl::Exception | FlowControl::Interrupt
                if matches!(
                    it.mnemonic(),
                    Mnemonic::Ud2 | Mnemonic::Int3 | Mnemonic::Int
                ) =>
            {
                return vec![(ip, true)];
            }
            _ => after.push(Next::Refused(Refusal::Instruction, state, Some(next_ip))),
        }
        Vec::new()
    }

    /// Another thread goes on, of which nothing is known. This one does so later, behind the jump if that is where: there its
    /// stack pointer is loaded, then what it has pushed.
    fn switch(
        &mut self,
        mut state: State,
        next_ip: u64,
        targets: &BTreeSet<u64>,
        after: &mut Vec<Next>,
    ) {
        if state.interrupts != Interrupts::On && self.off == Off::Irqs {
            let may_be = |to: &&u64| !state.next_waited || !self.marks.is_of_preempted(**to);
            for to in targets.iter().filter(may_be) {
                let is_behind = self.marks.is_behind_switch(*to);
                let frame = if is_behind {
                    0
                } else {
                    self.frames.root(self.image.region(*to))
                };
                let mut there = State::unknown(*to, frame, state.interrupts, ANY_STACK);
                there.registers[0] = state.registers[0].plain();
                after.push(Next::Other(there));
            }
        }
        if let Some(first) = targets.get(&next_ip).and_then(|to| self.image.at(*to)) {
            for nr in (0..16).filter(|nr| *nr != RSP) {
                let value = state.registers[nr];
                state.escape(value, &self.frames);
                state.registers[nr] = Value::UNKNOWN;
            }
            state.vectors = [[Value::UNKNOWN; 2]; 2];
            state.store_anywhere();
            (state.flags, state.source) = Default::default();
            state.interrupts = Interrupts::On;
            state.irqs = state.irqs.map(|_| None);
            state.ip = first.it.next_ip();
            after.push(Next::On(state));
        }
    }

    /// A jump, out of a function maybe: with interrupts on that is the end of the function that it leaves.
    fn jump(&mut self, mut state: State, ip: u64, to: u64, after: &mut Vec<Next>) {
        let is_elsewhere =
            self.image.region(to) != self.image.region(ip) && self.calls.is_function(to);
        if state.interrupts == Interrupts::On && is_elsewhere && !self.followed.contains(&to) {
            self.passed.insert(to);
            return self.leave(state, ip, after);
        }
        state.ip = to;
        after.push(Next::On(state));
    }

    /// With interrupts on: what is called instead comes back to the caller.
    fn leave(&self, mut state: State, _ip: u64, after: &mut Vec<Next>) {
        let frame = self.frames.get(state.frame);
        if frame.is_root() {
            return;
        }
        self.pass_call(&mut state);
        state.registers[RSP] = Value::on_stack(frame.stack, frame.offset + 8);
        self.come_back(state, frame, after);
    }

    /// A function has come back to its caller.
    fn come_back(&self, mut state: State, frame: Frame, after: &mut Vec<Next>) {
        if self.image.is_compiled(frame.callee) {
            state.give_back(frame.depth);
        }
        state.frame = frame.parent;
        state.ip = frame.back;
        after.push(Next::On(state));
    }

    /// Where an indirect branch goes, if that is known.
    fn targets(&self, state: &mut State, it: &Instruction) -> Option<Vec<u64>> {
        if let Some(targets) = self.marks.targets(it.ip()) {
            return Some(targets.to_vec());
        }
        let cpu = self.cpu();
        if it.op_kind(0) == OpKind::Memory && it.memory_index() != Register::None {
            return None;
        }
        let to = cpu.operand(state, it, 0, 8).as_constant()?;
        self.image.is_code(to).then(|| vec![to])
    }

    /// With interrupts on a call is passed over: what it does with interrupts off is looked at where it begins. Compiled code
    /// keeps what the ABI says.
    fn pass_call(&self, state: &mut State) {
        for nr in [0, 1, 2, 6, 7, 8, 9, 10, 11] {
            let value = state.registers[nr];
            state.escape(value, &self.frames);
            state.registers[nr] = Value::UNKNOWN;
        }
        for half in state.vectors.into_iter().flatten() {
            state.escape(half, &self.frames);
        }
        state.vectors = [[Value::UNKNOWN; 2]; 2];
        (state.rax_is, state.other_is) = (None, None);
        // Whether they are on: with preemption off what is passed over may have them on again.
        state.irqs = state.irqs.map(|_| None);
        state.store_anywhere();
        (state.flags, state.source) = Default::default();
    }

    fn call(&mut self, state: State, targets: &[u64], back: u64, after: &mut Vec<Next>) {
        let is_on = state.interrupts == Interrupts::On;
        // Where another function begins nobody comes back to; who is followed comes back by himself.
        let is_followed = targets.iter().all(|it| self.followed.contains(it));
        if is_on && !is_followed && !self.image.is_compiled(back) {
            let mut passed = state.clone();
            self.pass_call(&mut passed);
            passed.ip = back;
            after.push(Next::On(passed));
        }
        let depth = self.frames.get(state.frame).depth + 1;
        if depth > MOST_CALLS {
            for to in targets {
                after.push(Next::Refused(Refusal::Depth, state.clone(), Some(*to)));
            }
            self.lose(Some(back), &state);
            return;
        }
        for to in targets {
            if is_on && !self.followed.contains(to) {
                self.passed.insert(*to);
                continue;
            }
            if self.frames.outwards(state.frame).any(|it| it.callee == *to) {
                after.push(Next::Refused(Refusal::Recursion, state.clone(), Some(*to)));
                self.lose(Some(back), &state);
                continue;
            }
            let mut state = state.clone();
            self.cpu().push(&mut state, Value::constant(back));
            let (stack, offset) = state.sp();
            state.frame = self.frames.enter(Frame {
                parent: state.frame,
                back,
                stack,
                offset,
                callee: *to,
                depth,
                root: self.frames.get(state.frame).root,
            });
            state.ip = *to;
            if self.image.is_compiled(*to) {
                state.keep(depth, self.live.at(back));
            }
            after.push(Next::On(state));
        }
    }

    fn back(&mut self, mut state: State, it: &Instruction, after: &mut Vec<Next>) {
        let (stack, sp) = state.sp();
        let more = if it.op_count() > 0 {
            i64::from(it.immediate16())
        } else {
            0
        };
        let frame = self.frames.get(state.frame);
        let slot = state.load(stack, sp, 8).as_constant();
        (state.rax_is, state.other_is) = (None, None);
        state.registers[RSP] = Value::on_stack(stack, sp + 8 + more);
        if !frame.is_root() && (frame.stack, frame.offset) == (stack, sp) {
            self.come_back(state, frame, after);
        } else if let Some(to) = slot.filter(|to| self.image.is_code(*to)) {
            state.ip = to;
            after.push(Next::On(state));
        } else if !frame.is_root() {
            after.push(Next::Refused(Refusal::Return, state, None));
        } else if self.off == Off::Nothing {
            self.back_to_callers(&state, frame, after);
        } else if state.interrupts == Interrupts::Off {
            // Its callers are followed to here. Who calls it by its address is not known.
            if frame.callee == 0 || self.calls.is_by_address(frame.callee) {
                after.push(Next::Refused(Refusal::Caller, state.clone(), None));
            }
            self.returned_off.insert(frame.callee);
        }
    }
}

fn is_counting(mnemonic: Mnemonic) -> bool {
    use Mnemonic::{Jcxz, Jecxz, Jrcxz, Loop, Loope, Loopne};
    matches!(mnemonic, Loop | Loope | Loopne | Jcxz | Jecxz | Jrcxz)
}

/// How many instructions more than one a repeated one counts as: QEMU counts each round, and the last look at the count.
fn repeated(it: &Instruction, state: &State) -> Option<u64> {
    if !it.is_string_instruction() {
        return Some(0);
    }
    let most = state.registers[1].max();
    (most <= 1 << 16 && state.registers[1].stack == 0).then_some(most)
}

/// All that a word may be that is not more than this, if it may be few values only.
fn few(value: Value, most: u64) -> Option<Vec<u64>> {
    let (least, most) = (value.min(), value.max().min(most));
    if value.stack != 0 || value.as_constant().is_some() || most.checked_sub(least)? >= FEW {
        return None;
    }
    Some(
        (least..=most)
            .filter(|it| (it ^ value.bits) & value.known == 0)
            .collect(),
    )
}

fn opposite(condition: ConditionCode) -> ConditionCode {
    use ConditionCode as C;
    match condition {
        C::o => C::no,
        C::no => C::o,
        C::b => C::ae,
        C::ae => C::b,
        C::e => C::ne,
        C::ne => C::e,
        C::be => C::a,
        C::a => C::be,
        C::s => C::ns,
        C::ns => C::s,
        C::p => C::np,
        C::np => C::p,
        C::l => C::ge,
        C::ge => C::l,
        C::le => C::g,
        C::g => C::le,
        C::None => C::None,
    }
}

/// What a condition that holds says of the flags themselves.
fn learn(flags: &mut Flags, condition: ConditionCode) {
    use ConditionCode as C;
    match condition {
        C::e => flags.zero = Some(true),
        C::ne => flags.zero = Some(false),
        C::b => flags.carry = Some(true),
        C::ae => flags.carry = Some(false),
        C::a => (flags.carry, flags.zero) = (Some(false), Some(false)),
        C::s => flags.sign = Some(true),
        C::ns => flags.sign = Some(false),
        C::o => flags.overflow = Some(true),
        C::no => flags.overflow = Some(false),
        _ => {}
    }
}
