//! [`State`]: what is known where the CPU is at one instruction, and [`Frames`]: how it came to be called.

use std::collections::HashMap;

use crate::flags::{Flags, Source, Word};
use crate::live::is_used;
use crate::marks::Guard;
use crate::value::Value;

/// The register that is the stack pointer.
pub(crate) const RSP: usize = 4;
/// The stack that a root begins with.
pub(crate) const ROOT_STACK: u32 = 1;

/// Behind the numbers of stacks: where it stands what is kept by calls, by how many are under way.
const KEPT_STACKS: u32 = u32::MAX - 1000;
/// rbx, rbp, r12 to r15: what a compiled function keeps.
const KEPT: [usize; 6] = [3, 5, 12, 13, 14, 15];

/// The interrupt flag.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Interrupts {
    /// Interrupts are on.
    On,
    /// They are off.
    Off,
    /// `sti` was executed: they are on behind the next instruction.
    Shadow,
}

/// A word on a stack of which something is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Slot {
    /// Which stack, and where.
    pub(crate) stack: u32,
    pub(crate) offset: i64,
    /// Bytes.
    pub(crate) size: u32,
    pub(crate) value: Value,
}

impl Slot {
    /// Whether both have a byte in common.
    fn overlaps(&self, other: &Self) -> bool {
        let end = |it: &Self| it.offset + i64::from(it.size);
        self.stack == other.stack && self.offset < end(other) && other.offset < end(self)
    }
}

/// A part of a stack that something may point to that is not followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Escaped {
    stack: u32,
    low: i64,
    high: i64,
}

/// A call under way. Number 0 is a caller of whom nothing is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Frame {
    /// Who has called the caller.
    pub(crate) parent: u32,
    /// Where it goes on.
    pub(crate) back: u64,
    /// Where that address lies.
    pub(crate) stack: u32,
    pub(crate) offset: i64,
    /// What was called.
    pub(crate) callee: u64,
    /// How many calls are under way.
    pub(crate) depth: u32,
    /// The function that it began in; 0 for a thread that goes on, whose functions are looked at from their beginnings.
    pub(crate) root: u64,
}

/// All frames that were met.
#[derive(Debug)]
pub(crate) struct Frames {
    list: Vec<Frame>,
    known: HashMap<Frame, u32>,
}

impl Frame {
    /// Whether nothing is known of the caller.
    pub(crate) fn is_root(self) -> bool {
        self.depth == 0
    }
}

impl Frames {
    pub(crate) fn new() -> Self {
        let root = Frame {
            parent: 0,
            back: 0,
            stack: 0,
            offset: 0,
            callee: 0,
            depth: 0,
            root: 0,
        };
        Self {
            list: vec![root],
            known: HashMap::new(),
        }
    }

    /// The frame of a function of whose caller nothing is known.
    pub(crate) fn root(&mut self, callee: u64) -> u32 {
        let root = self.get(0);
        self.enter(Frame {
            callee,
            root: callee,
            ..root
        })
    }

    pub(crate) fn get(&self, frame: u32) -> Frame {
        self.list[frame as usize]
    }

    /// The number of a frame.
    pub(crate) fn enter(&mut self, frame: Frame) -> u32 {
        *self.known.entry(frame).or_insert_with(|| {
            self.list.push(frame);
            (self.list.len() - 1) as u32
        })
    }

    /// The frames from this one on outwards.
    pub(crate) fn outwards(&self, frame: u32) -> impl Iterator<Item = Frame> {
        let mut at = frame;
        std::iter::from_fn(move || {
            let found = (at != 0).then(|| self.get(at))?;
            at = found.parent;
            Some(found)
        })
    }
}

/// A place in memory: the address's base register, its displacement and the bytes.
pub(crate) type Place = (Option<u8>, u64, u32);

/// What is known at one instruction.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct State {
    /// The instruction.
    pub(crate) ip: u64,
    /// Where stretches with preemption off are looked at, these are on and off as preemption is.
    pub(crate) interrupts: Interrupts,
    /// There: whether interrupts are on, if that is known.
    pub(crate) irqs: Option<Option<bool>>,
    /// The call that it is in, of [`Frames`].
    pub(crate) frame: u32,
    pub(crate) registers: [Value; 16],
    /// By ascending stack and offset.
    pub(crate) slots: Vec<Slot>,
    /// Sorted.
    pub(crate) escaped: Vec<Escaped>,
    pub(crate) flags: Flags,
    pub(crate) source: Source,
    /// What rax is equal to, in memory.
    pub(crate) rax_is: Option<Place>,
    /// Another register that is equal to a place in memory: the last one that was loaded.
    pub(crate) other_is: Option<(u8, Place)>,
    /// How many guards keep interrupts off, if that is known.
    pub(crate) guards: Option<u8>,
    /// Whether interrupts are on in the flags that are kept, if that is known.
    pub(crate) kept: Option<bool>,
    /// Whether the thread that the next switch goes to was not preempted.
    pub(crate) next_waited: bool,
    /// How often the stretch has come to what is counted, by its number.
    pub(crate) counts: Vec<(usize, u32)>,
    /// The first vector registers, by halves: what moves structures.
    pub(crate) vectors: [[Value; 2]; 2],
}

impl State {
    /// Nothing is known but where it is.
    pub(crate) fn unknown(ip: u64, frame: u32, interrupts: Interrupts, stack: u32) -> Self {
        let mut registers = [Value::UNKNOWN; 16];
        registers[RSP] = Value::on_stack(stack, 0);
        Self {
            ip,
            interrupts,
            irqs: None,
            frame,
            registers,
            slots: Vec::new(),
            escaped: Vec::new(),
            flags: Flags::default(),
            source: Source::None,
            rax_is: None,
            other_is: None,
            guards: None,
            kept: None,
            next_waited: false,
            counts: Vec::new(),
            vectors: [[Value::UNKNOWN; 2]; 2],
        }
    }

    /// The stack pointer.
    pub(crate) fn sp(&self) -> (u32, i64) {
        self.registers[RSP].as_stack().unwrap_or((ROOT_STACK, 0))
    }

    /// Whether interrupts are on, if that is known.
    pub(crate) fn irqs(&self) -> Option<bool> {
        self.irqs.unwrap_or(match self.interrupts {
            Interrupts::On => Some(true),
            Interrupts::Off => Some(false),
            Interrupts::Shadow => None,
        })
    }

    /// Whether nobody else executes anything: one CPU, interrupts off.
    pub(crate) fn is_alone(&self) -> bool {
        match self.irqs {
            Some(on) => on == Some(false),
            None => self.interrupts != Interrupts::On,
        }
    }

    /// What a word on a stack is.
    pub(crate) fn load(&self, stack: u32, offset: i64, size: u32) -> Value {
        let end = offset + i64::from(size);
        let within = |it: &&Slot| {
            it.stack == stack && it.offset <= offset && end <= it.offset + i64::from(it.size)
        };
        match self.slots.iter().find(within) {
            Some(slot) if slot.offset == offset => slot.value.truncate(size),
            Some(slot) => {
                let by = 8 * (offset - slot.offset) as u32;
                slot.value.plain().shr(by, 8).truncate(size)
            }
            None => Value::of_size(size),
        }
    }

    /// Writes a word on a stack. Gives addresses on stacks that it replaces in part: whoever reads the rest has them.
    pub(crate) fn store(&mut self, stack: u32, offset: i64, size: u32, value: Value) {
        self.forget(stack, offset, offset + i64::from(size));
        let value = value.truncate(size);
        let slot = Slot {
            stack,
            offset,
            size,
            value,
        };
        if value != Value::of_size(size) {
            let at = self
                .slots
                .partition_point(|it| (it.stack, it.offset) < (stack, offset));
            self.slots.insert(at, slot);
        }
    }

    /// What lies there is not known any more.
    pub(crate) fn forget(&mut self, stack: u32, low: i64, high: i64) {
        self.slots.retain(|it| {
            it.stack != stack || it.offset >= high || it.offset + i64::from(it.size) <= low
        });
        if let Some(Word::Slot(on, offset)) = self.source.word()
            && on == stack
            && offset < high
            && low < offset + 8
        {
            self.source = Source::None;
        }
    }

    /// An address on a stack is from now on somewhere where it is not followed: whoever writes through a pointer that is not
    /// known may write to the frame that it is in. If others lie in that frame, they are as well.
    pub(crate) fn escape(&mut self, value: Value, frames: &Frames) {
        let Some((stack, offset)) = value.maybe_stack() else {
            return;
        };
        if self.is_escaped(stack, offset) {
            return;
        }
        let (sp_stack, sp) = self.sp();
        let mut low = if sp_stack == stack {
            sp.min(offset)
        } else {
            i64::MIN
        };
        let mut high = i64::MAX;
        for frame in frames
            .outwards(self.frame)
            .filter(|it| !it.is_root() && it.stack == stack)
        {
            if frame.offset > offset {
                high = frame.offset;
                break;
            }
            low = frame.offset + 8;
        }
        let at = Escaped { stack, low, high };
        let place = self.escaped.partition_point(|it| *it < at);
        self.escaped.insert(place, at);
        let inside: Vec<_> = self
            .slots
            .iter()
            .filter(|it| it.stack == stack && (low..high).contains(&it.offset))
            .map(|it| it.value)
            .collect();
        for value in inside {
            self.escape(value, frames);
        }
    }

    /// Whether something unknown may point there.
    pub(crate) fn is_escaped(&self, stack: u32, offset: i64) -> bool {
        self.escaped
            .iter()
            .any(|it| it.stack == stack && (it.low..it.high).contains(&offset))
    }

    /// Something was written through a pointer of which nothing is known.
    pub(crate) fn store_anywhere(&mut self) {
        for nr in 0..self.escaped.len() {
            let Escaped { stack, low, high } = self.escaped[nr];
            self.forget(stack, low, high);
        }
    }

    /// A compiled function is called, which keeps some registers: what it does depends on none of them, and when it comes back
    /// they are what they were, as far as they are used then.
    pub(crate) fn keep(&mut self, depth: u32, live: u64) {
        let stack = KEPT_STACKS + depth;
        for nr in KEPT {
            let value = std::mem::replace(&mut self.registers[nr], Value::UNKNOWN);
            if is_used(live, nr) {
                self.store(stack, 8 * nr as i64, 8, value);
            }
        }
        if matches!(self.source.word(), Some(Word::Register(nr)) if KEPT.contains(&nr)) {
            self.source = Source::None;
        }
    }

    /// Such a function comes back.
    pub(crate) fn give_back(&mut self, depth: u32) {
        let stack = KEPT_STACKS + depth;
        for nr in KEPT {
            self.registers[nr] = self.load(stack, 8 * nr as i64, 8);
        }
        self.forget(stack, i64::MIN, i64::MAX);
        self.source = Source::None;
    }

    /// What lies below the stack pointer is gone.
    pub(crate) fn tidy(&mut self) {
        let (stack, sp) = self.sp();
        self.slots.retain(|it| it.stack != stack || it.offset >= sp);
        self.escaped.retain(|it| it.stack != stack || it.high > sp);
    }

    /// A stack begins here of which nothing is known. Whoever points to one of that number points to one before.
    pub(crate) fn begin_stack(&mut self, stack: u32) {
        for register in self
            .registers
            .iter_mut()
            .chain(self.vectors.iter_mut().flatten())
        {
            if register.stack == stack {
                *register = register.plain();
            }
        }
        for slot in &mut self.slots {
            if slot.value.stack == stack {
                slot.value = slot.value.plain();
            }
        }
        self.slots.retain(|it| it.stack != stack);
        self.escaped.retain(|it| it.stack != stack);
        self.registers[RSP] = Value::on_stack(stack, 0);
    }

    /// Comes once more to what is counted; whether that can be, if it happens so often at most.
    pub(crate) fn count(&mut self, what: usize, most: u32) -> bool {
        match self.counts.binary_search_by_key(&what, |it| it.0) {
            Ok(at) => {
                self.counts[at].1 += 1;
                self.counts[at].1 <= most
            }
            Err(at) => {
                self.counts.insert(at, (what, 1));
                most > 0
            }
        }
    }

    /// Notes what a place says of guards; whether that can be.
    pub(crate) fn note(&mut self, guard: Guard) -> bool {
        match (guard, self.guards) {
            (Guard::Begins, Some(nr)) => self.guards = nr.checked_add(1),
            (Guard::Ends, Some(nr)) => self.guards = nr.checked_sub(1),
            (Guard::Left, Some(0)) => return false,
            (_, None) | (Guard::Left, _) => {}
        }
        true
    }

    /// Sets a word that is followed to what is known of it besides; whether that can be.
    pub(crate) fn refine(&mut self, word: Word, told: Value) -> bool {
        match word {
            Word::Register(nr) => match self.registers[nr].meet(told) {
                Some(value) => self.set_equal(nr, value),
                None => return false,
            },
            Word::Slot(stack, offset) => {
                let exact = self
                    .slots
                    .iter_mut()
                    .find(|it| it.stack == stack && it.offset == offset && it.size == 8);
                match exact {
                    Some(slot) => match slot.value.meet(told) {
                        Some(value) => slot.value = value,
                        None => return false,
                    },
                    None => {
                        let source = self.source;
                        if self.slots.iter().all(|it| {
                            it.stack != stack
                                || it.offset >= offset + 8
                                || it.offset + i64::from(it.size) <= offset
                        }) {
                            self.store(stack, offset, 8, told);
                            self.source = source;
                        }
                    }
                }
            }
        }
        true
    }

    /// Sets a register, and all words that are known to be equal to it.
    pub(crate) fn set_equal(&mut self, nr: usize, value: Value) {
        let origin = self.registers[nr].origin;
        self.registers[nr] = value;
        if origin != 0 {
            let registers = self.registers.iter_mut();
            let slots = self
                .slots
                .iter_mut()
                .filter(|it| it.size == 8)
                .map(|it| &mut it.value);
            for equal in registers.chain(slots).filter(|it| it.origin == origin) {
                *equal = value;
            }
        }
    }

    /// An instruction loads again: what it has loaded before is something else.
    pub(crate) fn begin_load(&mut self, origin: u32) {
        let registers = self.registers.iter_mut();
        let registers = registers.chain(self.vectors.iter_mut().flatten());
        let slots = self.slots.iter_mut().map(|it| &mut it.value);
        for before in registers.chain(slots).filter(|it| it.origin == origin) {
            before.origin = 0;
        }
    }

    /// What is true of both, which are at the same instruction in the same call; of what differs nothing if `is_widened`.
    pub(crate) fn join(&mut self, other: &Self, frames: &Frames, is_widened: bool) {
        let mut lost = Vec::new();
        let mut joined = |mine: Value, others: Value| {
            let value = match mine.join(others) {
                it if is_widened && it != mine && it.stack == 0 => Value::UNKNOWN,
                it => it,
            };
            lost.extend(
                [mine, others]
                    .into_iter()
                    .filter(|it| !value.leads_where(*it)),
            );
            value
        };
        let vectors = self
            .vectors
            .iter_mut()
            .flatten()
            .zip(other.vectors.iter().flatten());
        for (mine, others) in self
            .registers
            .iter_mut()
            .zip(&other.registers)
            .chain(vectors)
        {
            *mine = joined(*mine, *others);
        }
        let mut kept = Vec::new();
        let mut partly = Vec::new();
        for (slots, theirs) in [(&self.slots, &other.slots), (&other.slots, &self.slots)] {
            for slot in slots {
                let mut over = theirs.iter().filter(|it| it.overlaps(slot));
                let value = match (over.next(), over.next()) {
                    // Nothing is known there in the other one.
                    (None, _) => joined(slot.value, Value::of_size(slot.size)),
                    (Some(it), None) if (it.offset, it.size) == (slot.offset, slot.size) => {
                        if std::ptr::eq(slots, &other.slots) {
                            continue;
                        }
                        joined(slot.value, it.value)
                    }
                    _ => {
                        partly.push(slot.value);
                        continue;
                    }
                };
                if value != Value::of_size(slot.size) && value != Value::UNKNOWN {
                    kept.push(Slot { value, ..*slot });
                }
            }
        }
        kept.sort_unstable_by_key(|it| (it.stack, it.offset));
        lost.extend(partly);
        self.slots = kept;
        self.escaped.extend(&other.escaped);
        self.escaped.sort_unstable();
        self.escaped.dedup();
        self.flags = self.flags.join(other.flags);
        if self.guards != other.guards {
            self.guards = None;
        }
        if self.irqs != other.irqs {
            self.irqs = self.irqs.map(|_| None);
        }
        if self.kept != other.kept {
            self.kept = None;
        }
        if self.rax_is != other.rax_is {
            self.rax_is = None;
        }
        if self.other_is != other.other_is {
            self.other_is = None;
        }
        if self.source != other.source {
            self.source = Source::None;
        }
        for value in lost {
            self.escape(value, frames);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pointer_that_one_of_two_states_has_costs_what_lies_there_only_when_it_is_used() {
        let mut frames = Frames::new();
        let frame = frames.root(0x1000);
        let mut one = State::unknown(0x1000, frame, Interrupts::Off, ROOT_STACK);
        one.registers[RSP] = Value::on_stack(ROOT_STACK, -64);
        one.store(ROOT_STACK, -8, 8, Value::constant(7));
        let mut other = one.clone();
        one.registers[2] = Value::on_stack(ROOT_STACK, -32);
        other.store(ROOT_STACK, -32, 8, Value::on_stack(ROOT_STACK, -40));
        one.join(&other, &frames, false);
        assert!(!one.is_escaped(ROOT_STACK, -8));
        assert_eq!(one.registers[2].maybe_stack(), Some((ROOT_STACK, -32)));
        assert_eq!(one.load(ROOT_STACK, -8, 8), Value::constant(7));
        let slot = one.load(ROOT_STACK, -32, 8);
        assert_eq!(slot.maybe_stack(), Some((ROOT_STACK, -40)));
        // With another address it is lost where it leads to.
        other.registers[2] = Value::on_stack(ROOT_STACK, -48);
        one.join(&other, &frames, false);
        assert!(one.is_escaped(ROOT_STACK, -8));
        one.store_anywhere();
        assert!(one.load(ROOT_STACK, -8, 8).as_constant().is_none());
    }
}
