//! [`Explorer`]: all states that the CPU can come to with interrupts off, and how it goes from one to the next.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::BuildHasher;

use iced_x86::{ConditionCode, FlowControl, Instruction, Mnemonic, OpKind};

use crate::calls::{Calls, table};
use crate::cpu::{Cpu, IF};
use crate::flags::{Flags, Source};
use crate::hash::BuildQuick;
use crate::image::{Decoded, Image};
use crate::live::{FLAGS, Live};
use crate::marks::Marks;
use crate::state::{Frame, Frames, Interrupts, RSP, State};
use crate::value::Value;

/// States at one instruction in one call, before what differs is forgotten.
const MOST_ALIKE: u32 = 64;
/// The same with interrupts on.
const MOST_ALIKE_ON: u32 = 6;
/// Calls within each other.
const MOST_CALLS: u32 = 60;
/// What a call counts as of a function that is not the kernel's.
pub(crate) const HANDLER: u64 = 1 << 32;
/// Values that a word may be for each to be looked at by itself.
const FEW: u64 = 8;
/// The stack of which nothing is known.
const ANY_STACK: u32 = 2;

/// Which static branches are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keys {
    /// None: as the image is in the file.
    Off,
    /// Any of them at any time, but for those of further CPUs.
    Any,
}

/// Why nothing is said of what comes behind an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Refusal {
    /// An indirect jump whose targets are not known.
    Jump,
    /// An indirect call whose targets are not known.
    Call,
    /// A function that calls itself.
    Recursion,
    /// Too many calls within each other.
    Depth,
    /// A return with another stack pointer than it was called with.
    Return,
    /// A return with interrupts off to someone who has called the function by its address.
    Caller,
    /// Flags are loaded of which it is not known whether interrupts are on in them.
    Flags,
    /// A repeated string instruction without a bound.
    Repeat,
    /// An instruction whose effect is not known here.
    Instruction,
    /// There is no instruction.
    NoCode,
    /// A loop without a bound.
    Loop,
    /// More states than are looked at.
    States,
}

/// Where an edge leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum To {
    /// To another state.
    State(u32),
    /// Interrupts are on behind this instruction.
    End(u64),
    /// The system reports a fault and ends.
    Fatal(u64),
    /// Not known.
    Refused(Refusal, u64),
}

/// A way from a state to another, and its instructions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Edge {
    pub(crate) cost: u64,
    pub(crate) to: To,
}

/// States at the same place, which may be joined.
type Alike = (u64, Interrupts, u32, (u32, i64));

/// All states, and what is still to be looked at.
#[derive(Debug)]
pub(crate) struct Explorer<'e> {
    image: &'e Image,
    calls: &'e Calls,
    live: &'e Live,
    marks: &'e Marks,
    keys: Keys,
    most: usize,
    pub(crate) frames: Frames,
    pub(crate) states: Vec<State>,
    pub(crate) edges: Vec<Vec<Edge>>,
    /// Where interrupts are switched off, by instruction: the states behind it.
    pub(crate) starts: BTreeMap<u64, BTreeSet<u32>>,
    /// Those that change the interrupt flag that were come to.
    pub(crate) visited: BTreeSet<u64>,
    /// Regions of which not all was looked at.
    pub(crate) cut: BTreeSet<u64>,
    /// Regions that were left with interrupts off, to a caller of whom nothing is known.
    pub(crate) returned_off: BTreeSet<u64>,
    /// Functions that may come back with interrupts off: calls of them are followed.
    followed: &'e BTreeSet<u64>,
    /// States by their hashes.
    known: HashMap<u64, Vec<u32>, BuildQuick>,
    alike: HashMap<Alike, (u32, Option<State>), BuildQuick>,
    work: Vec<u32>,
}

impl<'e> Explorer<'e> {
    pub(crate) fn new(
        image: &'e Image,
        calls: &'e Calls,
        live: &'e Live,
        marks: &'e Marks,
        followed: &'e BTreeSet<u64>,
        keys: Keys,
        most: usize,
    ) -> Self {
        Self {
            image,
            calls,
            live,
            marks,
            keys,
            most,
            frames: Frames::new(),
            states: Vec::new(),
            edges: Vec::new(),
            starts: BTreeMap::new(),
            visited: BTreeSet::new(),
            cut: BTreeSet::new(),
            returned_off: BTreeSet::new(),
            followed,
            known: HashMap::default(),
            alike: HashMap::default(),
            work: Vec::new(),
        }
    }

    /// Begins with nothing known; the state.
    pub(crate) fn root(&mut self, ip: u64, interrupts: Interrupts) -> u32 {
        let state = self.unknown(ip, interrupts, crate::state::ROOT_STACK);
        self.state(state)
    }

    /// Nothing is known but the place.
    fn unknown(&mut self, ip: u64, interrupts: Interrupts, stack: u32) -> State {
        let frame = self.frames.root(self.image.region(ip));
        State::unknown(ip, frame, interrupts, stack)
    }

    /// A stretch begins behind an instruction, or with it where an interrupt comes in.
    pub(crate) fn start(&mut self, place: u64, state: u32) {
        self.starts.entry(place).or_default().insert(state);
    }

    /// Looks at all that can be reached.
    pub(crate) fn run(&mut self) {
        let before = self.states.len();
        while let Some(nr) = self.work.pop() {
            if self.states.len() - before > self.most {
                self.work.push(nr);
                self.cut();
                return;
            }
            self.expand(nr);
        }
    }

    /// What is left to do is not done: there is no bound where it leads from, and of what may begin behind it nothing is known.
    fn cut(&mut self) {
        for nr in std::mem::take(&mut self.work) {
            let State {
                ip,
                interrupts,
                frame,
                ..
            } = self.states[nr as usize];
            if interrupts != Interrupts::On {
                let to = To::Refused(Refusal::States, ip);
                self.edges[nr as usize] = vec![Edge { cost: 0, to }];
            }
            self.leave_out(ip, frame);
        }
    }

    /// As if a stretch began behind an instruction in any state.
    pub(crate) fn begin_anywhere(&mut self, place: u64, next_ip: u64) {
        let state = State::unknown(next_ip, 0, Interrupts::Off, ANY_STACK);
        let state = self.state(state);
        self.start(place, state);
    }

    /// Goes on with interrupts on. A thread that has gone on is left here: its functions are looked at by themselves.
    fn on(&mut self, state: State) {
        if self.frames.get(state.frame).root != 0 {
            self.state(state);
        }
    }

    /// The number of a state, or of one that is less exact.
    fn state(&mut self, mut state: State) -> u32 {
        self.shorten(&mut state);
        if let Some(nr) = self.find(&state) {
            return nr;
        }
        let alike = (state.ip, state.interrupts, state.frame, state.sp());
        let most = if state.interrupts == Interrupts::On {
            MOST_ALIKE_ON
        } else {
            MOST_ALIKE
        };
        let (nr, joined) = self.alike.entry(alike).or_default();
        if *nr >= most {
            match joined {
                Some(joined) => {
                    joined.join(&state, &self.frames);
                    state = joined.clone();
                }
                None => *joined = Some(state.clone()),
            }
            let all = std::mem::take(joined);
            self.shorten(&mut state);
            let alike = (state.ip, state.interrupts, state.frame, state.sp());
            if let Some((_, joined)) = self.alike.get_mut(&alike) {
                *joined = all;
            }
            if let Some(nr) = self.find(&state) {
                return nr;
            }
        } else {
            *nr += 1;
        }
        let nr = self.states.len() as u32;
        self.known.entry(hash(&state)).or_default().push(nr);
        self.states.push(state);
        self.edges.push(Vec::new());
        self.work.push(nr);
        nr
    }

    /// What may begin behind a place is not looked at.
    fn leave_out(&mut self, ip: u64, frame: u32) {
        self.cut.insert(self.image.region(ip));
        let outwards = self.frames.outwards(frame);
        let regions = outwards.map(|it| {
            self.image
                .region(if it.is_root() { it.callee } else { it.back })
        });
        self.cut.extend(regions);
    }

    /// The number of a state that is known already.
    fn find(&self, state: &State) -> Option<u32> {
        let same = self.known.get(&hash(state))?;
        same.iter()
            .copied()
            .find(|it| self.states[*it as usize] == *state)
    }

    /// Forgets what is not used any more. An address on a stack is kept: nobody would know of whom it is.
    fn shorten(&self, state: &mut State) {
        let live = self.live.at(state.ip);
        for (nr, value) in state.registers.iter_mut().enumerate() {
            if live >> nr & 1 == 0 && value.stack == 0 {
                *value = Value::UNKNOWN;
            }
        }
        if live & FLAGS == 0 {
            (state.flags, state.source) = Default::default();
        }
        state.tidy();
    }

    fn edge(&mut self, from: u32, cost: u64, to: To) {
        self.edges[from as usize].push(Edge { cost, to });
    }

    /// Goes on with a state, from a place with interrupts off or on.
    fn go(&mut self, from: u32, cost: u64, state: State) {
        if state.interrupts == Interrupts::On {
            self.on(state);
        } else {
            let to = self.state(state);
            self.edge(from, cost, To::State(to));
        }
    }

    /// Executes from a state on to the next place where ways part or meet.
    fn expand(&mut self, from: u32) {
        let mut state = self.states[from as usize].clone();
        let mut cost = 0;
        let image = self.image;
        let mut is_first = true;
        loop {
            let ip = state.ip;
            if !is_first && image.leaders.contains(&ip) {
                return self.go(from, cost, state);
            }
            is_first = false;
            let Some(decoded) = image.at(ip) else {
                return self.refuse(from, cost, Refusal::NoCode, ip, &state);
            };
            if matches!(decoded.it.mnemonic(), Mnemonic::Cli | Mnemonic::Popfq) {
                self.visited.insert(ip);
            }
            if self.marks.is_unreached(ip) {
                return;
            }
            let is_last = state.interrupts == Interrupts::Shadow;
            cost += u64::from(state.interrupts != Interrupts::On);
            match self.flags(from, cost, &mut state, &decoded.it) {
                Some(true) => continue,
                Some(false) => return,
                None => {}
            }
            if is_last {
                // The instruction itself may be any: interrupts come in behind it.
                self.edge(from, cost, To::End(ip));
            }
            let mut after = Vec::new();
            let told = self.execute(decoded, state, &mut after, &mut cost);
            for (to, fatal) in told {
                if !is_last && self.states[from as usize].interrupts != Interrupts::On {
                    let to = match fatal {
                        true => To::Fatal(to),
                        false => unreachable!("told as fatal only"),
                    };
                    self.edge(from, cost, to);
                }
            }
            match after.len() {
                1 if !is_last
                    && decoded.it.flow_control() == FlowControl::Next
                    && decoded.branch.is_none() =>
                {
                    match after.pop() {
                        Some(Next::On(next)) => {
                            state = next;
                            continue;
                        }
                        Some(Next::Refused(refusal, next)) => {
                            return self.refuse(from, cost, refusal, ip, &next);
                        }
                        None => return,
                    }
                }
                _ => {
                    for next in after {
                        match next {
                            Next::On(mut next) => {
                                if is_last {
                                    next.interrupts = Interrupts::On;
                                }
                                self.go(from, cost, next);
                            }
                            Next::Refused(refusal, next) if !is_last => {
                                self.refuse(from, cost, refusal, ip, &next)
                            }
                            Next::Refused(..) => {}
                        }
                    }
                    return;
                }
            }
        }
    }

    fn refuse(&mut self, from: u32, cost: u64, refusal: Refusal, ip: u64, state: &State) {
        if state.interrupts != Interrupts::On {
            self.edge(from, cost, To::Refused(refusal, ip));
        }
    }

    /// Instructions that change the interrupt flag. Whether to go on in the same state; `None` if it is none of them.
    fn flags(&mut self, from: u32, cost: u64, state: &mut State, it: &Instruction) -> Option<bool> {
        let ip = it.ip();
        match it.mnemonic() {
            Mnemonic::Cli => {
                state.ip = it.next_ip();
                if state.interrupts == Interrupts::On {
                    state.interrupts = Interrupts::Off;
                    let to = self.state(state.clone());
                    self.start(ip, to);
                    return Some(false);
                }
                state.interrupts = Interrupts::Off;
                Some(true)
            }
            Mnemonic::Sti => {
                state.ip = it.next_ip();
                match state.interrupts {
                    Interrupts::Off => state.interrupts = Interrupts::Shadow,
                    Interrupts::On => {}
                    Interrupts::Shadow => return Some(self.ends(from, cost, state, ip)),
                }
                Some(true)
            }
            Mnemonic::Popfq => {
                let cpu = Cpu {
                    image: self.image,
                    frames: &self.frames,
                    marks: self.marks,
                };
                let value = cpu.pop(state).plain();
                (state.flags, state.source) = (Flags::default(), Source::None);
                state.ip = it.next_ip();
                let was_on = state.interrupts == Interrupts::On;
                let off = State {
                    interrupts: Interrupts::Off,
                    ..state.clone()
                };
                match (value.known & IF != 0, value.bits & IF != 0) {
                    (true, true) => Some(self.ends(from, cost, state, ip)),
                    (true, false) => {
                        let to = self.state(off);
                        match was_on {
                            true => self.start(ip, to),
                            false => self.edge(from, cost, To::State(to)),
                        }
                        Some(false)
                    }
                    (false, _) => {
                        if was_on {
                            let to = self.state(State { ip, ..off });
                            self.start(ip, to);
                        } else {
                            self.edge(from, cost, To::Refused(Refusal::Flags, ip));
                        }
                        self.on(State {
                            interrupts: Interrupts::On,
                            ..state.clone()
                        });
                        Some(false)
                    }
                }
            }
            Mnemonic::Iretq | Mnemonic::Iretd | Mnemonic::Sysretq => {
                if state.interrupts != Interrupts::On {
                    self.edge(from, cost, To::End(ip));
                }
                Some(false)
            }
            Mnemonic::Hlt => {
                state.ip = it.next_ip();
                Some(self.ends(from, cost, state, ip))
            }
            _ => None,
        }
    }

    /// Interrupts are on from here on, in the same code.
    fn ends(&mut self, from: u32, cost: u64, state: &State, ip: u64) -> bool {
        if state.interrupts != Interrupts::On {
            self.edge(from, cost, To::End(ip));
        }
        let on = State {
            interrupts: Interrupts::On,
            ..state.clone()
        };
        self.on(on);
        false
    }

    /// Executes one instruction. Gives the places where the system ends.
    fn execute(
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
                        None => after.push(Next::Refused(Refusal::Repeat, state.clone())),
                    }
                    if !after.is_empty() {
                        return Vec::new();
                    }
                }
                if let Some((to, key)) = decoded.branch
                    && self.keys == Keys::Any
                    && !self.marks.is_off(key)
                {
                    let mut there = state.clone();
                    there.ip = to;
                    after.push(Next::On(there));
                }
                Cpu {
                    image: self.image,
                    frames: &self.frames,
                    marks: self.marks,
                }
                .step(&mut state, decoded);
                state.ip = next_ip;
                after.push(Next::On(state));
            }
            FlowControl::ConditionalBranch => {
                let condition = it.condition_code();
                let holds = state.flags.holds(condition);
                for (is_taken, to) in [(false, next_ip), (true, it.near_branch_target())] {
                    if holds.is_some_and(|holds| holds != is_taken) {
                        continue;
                    }
                    let mut state = state.clone();
                    if condition == ConditionCode::None {
                        // `loop` and `jrcxz`.
                        Cpu {
                            image: self.image,
                            frames: &self.frames,
                            marks: self.marks,
                        }
                        .step(&mut state, decoded);
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
                        if let Some((nr, most)) = state.source.most(condition)
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
                self.call(state, &[to], next_ip, after);
            }
            FlowControl::IndirectCall => match self.targets(&mut state, it) {
                Some(targets) => self.call(state, &targets, next_ip, after),
                None if state.interrupts == Interrupts::On && self.image.is_compiled(next_ip) => {}
                None if state.interrupts == Interrupts::On => {
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
                None => after.push(Next::Refused(Refusal::Call, state)),
            },
            FlowControl::IndirectBranch => {
                let marks = self.marks;
                if let Some(targets) = marks.resumes(ip) {
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
                    None => after.push(Next::Refused(Refusal::Jump, state)),
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
            _ => after.push(Next::Refused(Refusal::Instruction, state)),
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
        if state.interrupts != Interrupts::On {
            for to in targets {
                let is_behind = self.marks.is_behind_switch(*to);
                let frame = if is_behind {
                    0
                } else {
                    self.frames.root(self.image.region(*to))
                };
                let mut there = State::unknown(*to, frame, state.interrupts, ANY_STACK);
                there.registers[0] = state.registers[0].plain();
                after.push(Next::On(there));
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
            state.ip = first.it.next_ip();
            after.push(Next::On(state));
        }
    }

    /// A jump, out of a function maybe: with interrupts on that is the end of the function that it leaves.
    fn jump(&self, mut state: State, ip: u64, to: u64, after: &mut Vec<Next>) {
        let is_elsewhere =
            self.image.region(to) != self.image.region(ip) && self.calls.is_function(to);
        if state.interrupts == Interrupts::On && is_elsewhere && !self.followed.contains(&to) {
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
        state.frame = frame.parent;
        state.ip = frame.back;
        after.push(Next::On(state));
    }

    /// Where an indirect branch goes, if that is known.
    fn targets(&self, state: &mut State, it: &Instruction) -> Option<Vec<u64>> {
        if let Some(targets) = self.marks.targets(it.ip()) {
            return Some(targets.to_vec());
        }
        let cpu = Cpu {
            image: self.image,
            frames: &self.frames,
            marks: self.marks,
        };
        if it.op_kind(0) == OpKind::Memory && it.memory_index() != iced_x86::Register::None {
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
        state.store_anywhere();
        (state.flags, state.source) = Default::default();
    }

    fn call(&mut self, state: State, targets: &[u64], back: u64, after: &mut Vec<Next>) {
        let is_on = state.interrupts == Interrupts::On;
        // Where another function begins nobody comes back to.
        if is_on && !self.image.is_compiled(back) {
            let mut passed = state.clone();
            self.pass_call(&mut passed);
            passed.ip = back;
            after.push(Next::On(passed));
        }
        let depth = self.frames.get(state.frame).depth + 1;
        if depth > MOST_CALLS {
            after.push(Next::Refused(Refusal::Depth, state));
            return;
        }
        for to in targets {
            if is_on && !self.followed.contains(to) {
                continue;
            }
            if self.frames.outwards(state.frame).any(|it| it.callee == *to) {
                after.push(Next::Refused(Refusal::Recursion, state.clone()));
                continue;
            }
            let mut state = state.clone();
            Cpu {
                image: self.image,
                frames: &self.frames,
                marks: self.marks,
            }
            .push(&mut state, Value::constant(back));
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
        state.registers[RSP] = Value::on_stack(stack, sp + 8 + more);
        if !frame.is_root() && (frame.stack, frame.offset) == (stack, sp) {
            state.frame = frame.parent;
            state.ip = frame.back;
            after.push(Next::On(state));
        } else if let Some(to) = slot.filter(|to| self.image.is_code(*to)) {
            state.ip = to;
            after.push(Next::On(state));
        } else if !frame.is_root() {
            after.push(Next::Refused(Refusal::Return, state));
        } else if state.interrupts != Interrupts::On {
            // Its callers are followed to here. Who calls it by its address is not known.
            if frame.callee == 0 || self.calls.is_by_address(frame.callee) {
                after.push(Next::Refused(Refusal::Caller, state.clone()));
            }
            self.returned_off.insert(frame.callee);
        }
    }
}

fn hash(state: &State) -> u64 {
    BuildQuick::default().hash_one(state)
}

/// How it goes on.
#[derive(Debug)]
enum Next {
    On(State),
    Refused(Refusal, State),
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
