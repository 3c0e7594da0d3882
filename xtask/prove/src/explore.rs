//! [`Explorer`]: all states that the CPU can come to with interrupts off, and how it goes from one to the next.

pub(crate) mod clock;
mod flow;
mod preemption;
mod whole;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::BuildHasher;

use iced_x86::{FlowControl, Instruction, Mnemonic};

use crate::calls::Calls;
use crate::config::Setting;
use crate::cpu::{Cpu, IF};
use crate::flags::{Flags, Source};
use crate::hash::BuildQuick;
use crate::image::Image;
use crate::live::{FLAGS, Live, is_used};
use crate::looked::Rung;
use crate::marks::Marks;
use crate::state::{Frames, Interrupts, RSP, State};
use crate::value::Value;
use flow::Next;

/// How often they are joined, before what differs is forgotten altogether.
const MOST_JOINS: u32 = 16;
/// Calls within each other.
const MOST_CALLS: u32 = 60;
/// What a call counts as of a function that is not the kernel's.
pub(crate) const HANDLER: u64 = 1 << 32;
/// What the taking of a lock counts as for which others may wait, and its giving.
pub(crate) const WAIT: u64 = 1 << 40;
pub(crate) const GIVE: u64 = 1 << 44;
/// What a round counts as of an instruction that repeats itself as often as a library's function is told.
pub(crate) const REPEATED: u64 = 1 << 48;
/// The stack of which nothing is known.
const ANY_STACK: u32 = 2;

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
    /// Whether another thread goes on there.
    pub(crate) switches: bool,
}

/// States at the same place, which may be joined: not those of which it is known that rax is zero with those of which it is
/// known that it is not. By that it is told who has come back with interrupts off.
/// How often they have come to what is counted is not forgotten either.
type Alike = (
    u64,
    Interrupts,
    u32,
    (u32, i64),
    Option<bool>,
    Option<Option<bool>>,
    bool,
    Vec<(usize, u32)>,
);

fn alike(state: &State) -> Alike {
    let rax = state.registers[0];
    let is_zero = match rax.max() {
        0 => Some(true),
        _ => rax.is_nonzero().then_some(false),
    };
    let counts = state.counts.clone();
    (
        state.ip,
        state.interrupts,
        state.frame,
        state.sp(),
        is_zero,
        state.irqs,
        state.next_waited,
        counts,
    )
}

/// With what off the stretches are that are looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Off {
    /// Interrupts.
    Irqs,
    /// Preemption, by a guard: interrupts that come in are no part of it.
    Preemption,
    /// Whatever is: all is counted from a function's or an entry's first instruction on. Neither are they here.
    Nothing,
}

/// What is looked at.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Machine<'e> {
    pub(crate) off: Off,
    pub(crate) image: &'e Image,
    pub(crate) calls: &'e Calls,
    pub(crate) live: &'e Live,
    pub(crate) marks: &'e Marks,
    /// What static keys are of which nothing is said: off or any.
    pub(crate) keys: Setting,
}

/// All states, and what is still to be looked at.
#[derive(Debug)]
pub(crate) struct Explorer<'e> {
    image: &'e Image,
    calls: &'e Calls,
    live: &'e Live,
    marks: &'e Marks,
    keys: Setting,
    off: Off,
    rung: Rung,
    /// Whether callers of what comes back with interrupts off are gone on with, where all is counted.
    goes_on: bool,
    /// The function in which reading the clock is the end.
    clock: Option<u64>,
    /// Whether switching interrupts off is the end, where all is counted.
    to_cli: bool,
    pub(crate) frames: Frames,
    pub(crate) states: Vec<State>,
    pub(crate) edges: Vec<Vec<Edge>>,
    /// Where interrupts are switched off, by instruction: the states behind it.
    pub(crate) starts: BTreeMap<u64, BTreeSet<u32>>,
    /// States behind the taking of a lock.
    pub(crate) holds: BTreeSet<u32>,
    /// Those that change the interrupt flag that were come to.
    pub(crate) visited: BTreeSet<u64>,
    /// Where it goes on behind what was not looked at, and where it would have come back to: with which interrupt flag, and in
    /// what state besides is not known.
    pub(crate) lost: BTreeSet<(u64, Interrupts)>,
    /// Functions whose calls were passed over.
    pub(crate) passed: BTreeSet<u64>,
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
    pub(crate) fn new(machine: Machine<'e>, followed: &'e BTreeSet<u64>, rung: Rung) -> Self {
        let Machine {
            image,
            calls,
            live,
            marks,
            keys,
            off,
        } = machine;
        Self {
            image,
            calls,
            live,
            marks,
            keys,
            off,
            rung,
            goes_on: false,
            clock: None,
            to_cli: false,
            frames: Frames::new(),
            states: Vec::new(),
            edges: Vec::new(),
            starts: BTreeMap::new(),
            holds: BTreeSet::new(),
            visited: BTreeSet::new(),
            lost: BTreeSet::new(),
            passed: BTreeSet::new(),
            returned_off: BTreeSet::new(),
            followed,
            known: HashMap::default(),
            alike: HashMap::default(),
            work: Vec::new(),
        }
    }

    /// The regions that were come to.
    pub(crate) fn regions(&self) -> BTreeSet<u64> {
        let ips: BTreeSet<u64> = self.states.iter().map(|it| it.ip).collect();
        ips.into_iter().map(|it| self.image.region(it)).collect()
    }

    /// What the sources say.
    pub(crate) fn marks(&self) -> &Marks {
        self.marks
    }

    /// Begins with nothing known; the state.
    pub(crate) fn root(&mut self, ip: u64, interrupts: Interrupts) -> u32 {
        let state = self.unknown(ip, interrupts, crate::state::ROOT_STACK);
        self.state(state)
    }

    /// Nothing is known but the place.
    fn unknown(&mut self, ip: u64, interrupts: Interrupts, stack: u32) -> State {
        let frame = self.frames.root(self.image.region(ip));
        self.any_irqs(State::unknown(ip, frame, interrupts, stack))
    }

    /// What carries out instructions.
    fn cpu(&self) -> Cpu<'_> {
        Cpu {
            image: self.image,
            frames: &self.frames,
            marks: self.marks,
            live: self.live,
        }
    }

    /// Where interrupts are not what is off, they may be.
    fn any_irqs(&self, state: State) -> State {
        let irqs = (self.off != Off::Irqs).then_some(None);
        State { irqs, ..state }
    }

    /// Whether a stretch may begin behind an instruction.
    pub(crate) fn begins(machine: Machine<'_>, it: &Instruction) -> bool {
        match machine.off {
            Off::Irqs => matches!(it.mnemonic(), Mnemonic::Cli | Mnemonic::Popfq),
            Off::Preemption => machine.marks.preemption(it.ip()) == Some(true),
            Off::Nothing => false,
        }
    }

    /// A stretch begins behind an instruction, or with it where an interrupt comes in.
    pub(crate) fn start(&mut self, place: u64, state: u32) {
        self.starts.entry(place).or_default().insert(state);
    }

    /// From here on a way ends where a lock is given.
    pub(crate) fn end_at_gives(&mut self) {
        let gives = |it: &&mut Edge| it.cost % REPEATED >= GIVE;
        for edge in self.edges.iter_mut().flatten().filter(gives) {
            (edge.to, edge.switches) = (To::End(0), false);
        }
    }

    /// Looks at what can be reached; whether that is all.
    pub(crate) fn run(&mut self) -> bool {
        while let Some(nr) = self.work.pop() {
            if self.states.len() > self.rung.most {
                self.work.push(nr);
                self.cut();
                return false;
            }
            self.expand(nr);
        }
        true
    }

    /// What is left to do is not done: there is no bound where it leads from, and of what may begin behind it nothing is known.
    fn cut(&mut self) {
        for nr in std::mem::take(&mut self.work) {
            let state = self.states[nr as usize].clone();
            if state.interrupts != Interrupts::On {
                let to = To::Refused(Refusal::States, state.ip);
                self.edges[nr as usize] = vec![Edge {
                    cost: 0,
                    to,
                    switches: false,
                }];
            }
            self.lose(Some(state.ip), &state);
        }
    }

    /// Begins on the way, in what is known nothing of but the place.
    pub(crate) fn on_the_way(&mut self, ip: u64, interrupts: Interrupts) {
        let state = self.unknown(ip, interrupts, ANY_STACK);
        self.state(state);
    }

    /// As if a stretch began behind an instruction in any state.
    pub(crate) fn begin_anywhere(&mut self, place: u64, next_ip: u64) {
        let state = State::unknown(next_ip, 0, Interrupts::Off, ANY_STACK);
        let state = self.state(self.any_irqs(state));
        self.start(place, state);
    }

    /// Goes on with interrupts on. A thread that has gone on is left here: its functions are looked at by themselves.
    fn on(&mut self, mut state: State) {
        state.guards = None;
        state.counts.clear();
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
        let key = alike(&state);
        let most = match state.interrupts {
            // What is counted here is not counted by what differs.
            _ if self.marks.rounds(state.ip).is_some() => 0,
            Interrupts::On => self.rung.alike_on,
            Interrupts::Off | Interrupts::Shadow => self.rung.alike,
        };
        let (nr, joined) = self.alike.entry(key.clone()).or_default();
        if *nr >= most {
            *nr = nr.saturating_add(1);
            match joined {
                Some(joined) => {
                    joined.join(&state, &self.frames, *nr > most + MOST_JOINS);
                    state = joined.clone();
                }
                None => *joined = Some(state.clone()),
            }
            let all = std::mem::take(joined);
            self.shorten(&mut state);
            if let Some((_, joined)) = self.alike.get_mut(&key) {
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

    /// A way is lost that goes on there, or in one of the calls that are under way.
    fn lose(&mut self, ip: Option<u64>, state: &State) {
        let callers = self.frames.outwards(state.frame).filter(|it| !it.is_root());
        let places = ip.into_iter().chain(callers.map(|it| it.back));
        // Behind the instruction that follows `sti` they are on.
        let interrupts = match state.interrupts {
            Interrupts::Off => Interrupts::Off,
            Interrupts::On | Interrupts::Shadow => Interrupts::On,
        };
        self.lost.extend(places.map(|it| (it, interrupts)));
    }

    /// The number of a state that is known already.
    fn find(&self, state: &State) -> Option<u32> {
        let same = self.known.get(&hash(state))?;
        same.iter()
            .copied()
            .find(|it| self.states[*it as usize] == *state)
    }

    /// Forgets what is not used any more.
    fn shorten(&self, state: &mut State) {
        let live = self.live.at(state.ip);
        for (nr, value) in state.registers.iter_mut().enumerate() {
            if !is_used(live, nr) && nr != RSP {
                *value = Value::UNKNOWN;
            }
        }
        if live & FLAGS == 0 {
            (state.flags, state.source) = Default::default();
        }
        state.tidy();
    }

    fn edge(&mut self, from: u32, cost: u64, to: To) {
        self.edges[from as usize].push(Edge {
            cost,
            to,
            switches: false,
        });
    }

    /// Goes on with another thread.
    fn switch_to(&mut self, from: u32, cost: u64, state: State) {
        let to = To::State(self.state(state));
        self.edges[from as usize].push(Edge {
            cost,
            to,
            switches: true,
        });
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
            if !is_first && (image.leaders.contains(&ip) || self.marks.rounds(ip).is_some()) {
                return self.go(from, cost, state);
            }
            is_first = false;
            let Some(decoded) = image.at(ip) else {
                return self.refuse(from, cost, Refusal::NoCode, ip, &state, None);
            };
            if matches!(decoded.it.mnemonic(), Mnemonic::Cli | Mnemonic::Popfq)
                || self.marks.preemption(ip).is_some()
            {
                self.visited.insert(ip);
            }
            if self.marks.is_unreached(ip) {
                return;
            }
            if let Some((what, most)) = self.marks.limited(ip)
                && state.interrupts != Interrupts::On
                && !state.count(what, most)
            {
                return;
            }
            state.next_waited &= state.interrupts != Interrupts::On;
            if let Some((is_kept, nr)) = self.marks.flags(ip) {
                let flags = state.registers[nr].plain();
                match (is_kept, state.kept) {
                    (true, _) => {
                        state.kept = (flags.known & IF != 0).then_some(flags.bits & IF != 0)
                    }
                    (false, Some(on)) => {
                        state.registers[nr] = Value::bits(IF, if on { IF } else { 0 });
                    }
                    (false, None) => {}
                }
            }
            if let Some(nr) = self.marks.not_null(ip) {
                let value = state.registers[nr].nonzero();
                state.set_equal(nr, value);
            }
            if let Some(guard) = self.marks.guard(ip)
                && self.off != Off::Preemption
                && !state.note(guard)
            {
                return;
            }
            let lock = self
                .marks
                .lock(ip)
                .filter(|_| state.interrupts != Interrupts::On);
            cost += match lock {
                Some(true) => WAIT,
                Some(false) => GIVE,
                None => 0,
            };
            let is_last = state.interrupts == Interrupts::Shadow;
            cost += u64::from(state.interrupts != Interrupts::On);
            let switched = match self.off {
                Off::Irqs => self.flags(from, cost, &mut state, &decoded.it),
                Off::Preemption => self.preemption(from, cost, &mut state, &decoded.it),
                Off::Nothing => self.whole(from, cost, &mut state, &decoded.it),
            };
            match switched {
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
                    && lock.is_none()
                    && decoded.it.flow_control() == FlowControl::Next
                    && decoded.branch.is_none() =>
                {
                    match after.pop() {
                        Some(Next::On(next)) => {
                            state = next;
                            continue;
                        }
                        Some(Next::Refused(refusal, next, on)) => {
                            return self.refuse(from, cost, refusal, ip, &next, on);
                        }
                        Some(Next::Endless(_) | Next::Ends | Next::Leaves | Next::Other(_))
                        | None => {
                            return;
                        }
                    }
                }
                _ => {
                    for next in after {
                        match next {
                            Next::On(mut next) => {
                                if is_last {
                                    next.interrupts = Interrupts::On;
                                }
                                if lock == Some(true) && next.interrupts != Interrupts::On {
                                    let to = self.state(next.clone());
                                    self.holds.insert(to);
                                }
                                self.go(from, cost, next);
                            }
                            Next::Refused(refusal, next, on) if !is_last => {
                                self.refuse(from, cost, refusal, ip, &next, on)
                            }
                            Next::Other(next) => self.switch_to(from, cost, next),
                            Next::Ends
                                if self.states[from as usize].interrupts == Interrupts::On => {}
                            Next::Ends => self.edge(from, cost, To::End(ip)),
                            Next::Leaves => self.edges[from as usize].push(Edge {
                                cost,
                                to: To::End(ip),
                                switches: true,
                            }),
                            Next::Endless(refusal) => {
                                self.edge(from, cost, To::Refused(refusal, ip));
                            }
                            Next::Refused(_, next, on) => self.lose(on, &next),
                        }
                    }
                    return;
                }
            }
        }
    }

    /// A way is not looked at any further: the stretch that it is part of has no bound. What lies behind it, which begins
    /// there, is looked at with nothing known.
    fn refuse(
        &mut self,
        from: u32,
        cost: u64,
        refusal: Refusal,
        ip: u64,
        state: &State,
        on: Option<u64>,
    ) {
        self.lose(on, state);
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
                    state.guards = Some(0);
                    state.counts.clear();
                    // An interrupt may have come right before.
                    (state.rax_is, state.other_is) = (None, None);
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
                let cpu = self.cpu();
                let before = State {
                    rax_is: None,
                    other_is: None,
                    ..state.clone()
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
                            let to = self.state(State {
                                interrupts: Interrupts::Off,
                                ..before
                            });
                            self.start(ip, to);
                        } else {
                            self.edge(from, cost, To::Refused(Refusal::Flags, ip));
                            self.lose(Some(state.ip), &before);
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
}

fn hash(state: &State) -> u64 {
    BuildQuick::default().hash_one(state)
}
