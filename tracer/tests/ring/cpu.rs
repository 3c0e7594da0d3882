//! A ring in which something may happen between any two steps of a writer.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::SeqCst};

use takt_tracer::ring::{self, CpuRing, Mode, RingControl, Word, position};
use takt_tracer::wire::NEAR_FIRST;

/// The memory of one CPU's ring and its clock.
pub(crate) struct Cpu<const SUB: u32, const N: u32> {
    pub(crate) control: RingControl,
    pub(crate) memory: Vec<AtomicU32>,
    /// Every reading of the clock advances it by one, so that no two moments are equal.
    pub(crate) tsc: AtomicU64,
    /// The running thread.
    pub(crate) tid: AtomicU32,
}

impl<const SUB: u32, const N: u32> Cpu<SUB, N> {
    pub(crate) fn new(mode: Mode, tsc: u64) -> Self {
        let cpu = Self {
            control: RingControl::new(),
            memory: (0..SUB * N / 4).map(|_| AtomicU32::new(0)).collect(),
            tsc: AtomicU64::new(tsc),
            tid: AtomicU32::new(5),
        };
        ring::set_mode(cpu.quiet(), mode);
        ring::tracing_on(cpu.quiet());
        cpu
    }

    /// The ring with nothing happening in between.
    pub(crate) fn quiet(&self) -> TestRing<'_, NoHook, SUB, N> {
        TestRing {
            cpu: self,
            hook: &NoHook,
        }
    }

    pub(crate) fn word(&self, word: Word) -> u64 {
        self.control.word(word).load(SeqCst)
    }

    /// How many bytes were ever reserved.
    pub(crate) fn written(&self) -> u64 {
        position::bytes(self.word(Word::Pos), u64::from(SUB * N))
    }

    /// The bytes of the sub-buffer at `offset`.
    pub(crate) fn copy(&self, offset: u32) -> Vec<u8> {
        let at = offset as usize / 4;
        let words = &self.memory[at..at + SUB as usize / 4];
        words
            .iter()
            .flat_map(|word| word.load(SeqCst).to_le_bytes())
            .collect()
    }
}

/// What happens before each step.
pub(crate) trait Hook {
    fn step(&self);
}

pub(crate) struct NoHook;

impl Hook for NoHook {
    fn step(&self) {}
}

/// A ring whose every primitive step calls a hook first.
pub(crate) struct TestRing<'a, H, const SUB: u32, const N: u32> {
    pub(crate) cpu: &'a Cpu<SUB, N>,
    pub(crate) hook: &'a H,
}

impl<H, const SUB: u32, const N: u32> Clone for TestRing<'_, H, SUB, N> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<H, const SUB: u32, const N: u32> Copy for TestRing<'_, H, SUB, N> {}

impl<H: Hook, const SUB: u32, const N: u32> CpuRing for TestRing<'_, H, SUB, N> {
    const SUB_SIZE: u32 = SUB;
    const NR_SUBS: u32 = N;

    fn now(self) -> u64 {
        self.hook.step();
        self.cpu.tsc.fetch_add(1, SeqCst)
    }
    fn ctx(self) -> u32 {
        self.hook.step();
        self.cpu.tid.load(SeqCst) << 24 | 0x81_0000
    }
    fn cpu(self) -> u8 {
        3
    }
    fn load(self, word: Word) -> u64 {
        self.hook.step();
        self.cpu.word(word)
    }
    fn store(self, word: Word, value: u64) {
        self.hook.step();
        self.cpu.control.word(word).store(value, SeqCst);
    }
    fn add(self, word: Word, value: u64) {
        self.hook.step();
        self.cpu.control.word(word).fetch_add(value, SeqCst);
    }
    fn cas(self, word: Word, old: u64, new: u64) -> bool {
        self.hook.step();
        let word = self.cpu.control.word(word);
        word.compare_exchange(old, new, SeqCst, SeqCst).is_ok()
    }
    fn load64(self, offset: u32) -> u64 {
        self.hook.step();
        let at = offset as usize / 4;
        let [low, high] = [0, 1].map(|half| u64::from(self.cpu.memory[at + half].load(SeqCst)));
        low | high << 32
    }
    fn store32<const DISP: u32>(self, offset: u32, value: u32) {
        self.hook.step();
        self.cpu.memory[(offset + DISP) as usize / 4].store(value, SeqCst);
    }
    fn store64<const DISP: u32>(self, offset: u32, value: u64) {
        self.hook.step();
        let at = (offset + DISP) as usize / 4;
        self.cpu.memory[at].store(value as u32, SeqCst);
        self.cpu.memory[at + 1].store((value >> 32) as u32, SeqCst);
    }
    fn add64<const DISP: u32>(self, offset: u32, value: u64) {
        self.hook.step();
        let quiet = self.cpu.quiet();
        let sum = quiet.load64(offset + DISP).wrapping_add(value);
        quiet.store64::<DISP>(offset, sum);
    }
}

/// The sizes of record there are; the id of the event tells the reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Size {
    B8,
    B12,
    B16,
    B20,
    B24,
    /// A dynamic field of that many bytes.
    Bytes(usize),
    /// A near event with a time in this upper half.
    Near(u32),
}

pub(crate) const SIZES: [Size; 11] = [
    Size::B8,
    Size::B12,
    Size::B16,
    Size::B20,
    Size::B24,
    Size::Bytes(5),
    Size::Bytes(33),
    Size::Bytes(34),
    // The clock begins in half 7, and in many runs goes on to half 8.
    Size::Near(7),
    Size::Near(8),
    Size::Near(9),
];

impl Size {
    pub(crate) fn id(self) -> u32 {
        match self {
            Size::B8 => 4,
            Size::B12 => 6,
            Size::B16 => 8,
            Size::B20 => 10,
            Size::B24 => 12,
            Size::Bytes(_) => 14,
            Size::Near(_) => NEAR_FIRST.into(),
        }
    }

    /// The word of record `serial`: a near event has it where fields and where the context would be.
    pub(crate) fn word(self, serial: u32) -> u32 {
        match self {
            Self::Near(_) => self.id() | (serial & 0x7ff) << 1 | (serial >> 11) << 16,
            _ => self.id() | serial << 8,
        }
    }
}

/// The `k`th extra word of record `serial`.
pub(crate) fn extra(serial: u32, k: u32) -> u32 {
    (serial + 1)
        .wrapping_mul(0x9e37_79b1)
        .rotate_left(7 * k)
        .wrapping_add(k)
}

/// The time in near record `serial`.
pub(crate) fn time(serial: u32, half: u32) -> u64 {
    u64::from(half) << 32 | u64::from(extra(serial, 0))
}

/// The bytes of the dynamic field of record `serial`.
pub(crate) fn text(serial: u32, len: usize) -> Vec<u8> {
    (0..len)
        .map(|at| (extra(serial, 9) as usize + at) as u8)
        .collect()
}

/// Writes record `serial`.
pub(crate) fn write<R: CpuRing>(ring: R, serial: u32, size: Size) {
    let word = size.word(serial);
    let [a, b, c, d] = [0, 1, 2, 3].map(|k| extra(serial, k));
    let ab = u64::from(a) | u64::from(b) << 32;
    let cd = u64::from(c) | u64::from(d) << 32;
    match size {
        Size::B8 => ring::record8(ring, word),
        Size::B12 => ring::record12(ring, word, a),
        Size::B16 => ring::record16(ring, word, ab),
        Size::B20 => ring::record20(ring, word, ab, c),
        Size::B24 => ring::record24(ring, word, ab, cd),
        // Two ways to the same record.
        Size::Bytes(len) if len % 2 == 1 => {
            ring::record_text1(ring, &text(serial, len), word, a);
        }
        Size::Bytes(len) => ring::record_bytes(ring, word, &[a], Some(&text(serial, len))),
        Size::Near(half) => ring::record_near(ring, word, time(serial, half)),
    }
}

/// Something that an interrupt does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Write(Size),
    /// So many 16-byte records.
    Storm(u32),
    TracingOn,
    TracingOff,
    Close,
    Consume,
    /// The clock jumps by 2^32 cycles.
    HalfJump,
    /// The idle thread announces the next upper half of the clock.
    AnnounceNext,
    /// The idle thread opens the next sub-buffer if fewer than so many bytes are left.
    MakeRoom(u32),
    /// A snapshot is asked for.
    Snapshot,
    /// All snapshots are forgotten.
    Forget,
    /// The next writer is to tell who runs.
    Arm,
    /// One after the other.
    Each(&'static [Action]),
}

/// A write that was attempted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Attempt {
    pub(crate) serial: u32,
    pub(crate) size: Size,
    pub(crate) begin: u64,
    pub(crate) end: u64,
    /// Whether tracing was off from beginning to end.
    pub(crate) is_off: bool,
    /// Whether tracing was on from beginning to end.
    pub(crate) is_on: bool,
}

/// Runs actions on one CPU, with further actions planned as interrupts at given steps.
pub(crate) struct Injector<'a, const SUB: u32, const N: u32> {
    pub(crate) cpu: &'a Cpu<SUB, N>,
    pub(crate) steps: Cell<usize>,
    plan: RefCell<VecDeque<(usize, Action)>>,
    /// Whether tracing should be on, and how often that was changed.
    pub(crate) is_on: Cell<bool>,
    switches: Cell<u32>,
    pub(crate) attempts: RefCell<Vec<Attempt>>,
    pub(crate) delivered: RefCell<Vec<Vec<u8>>>,
    /// When snapshots were asked for, since they were forgotten.
    pub(crate) asked: RefCell<Vec<u64>>,
}

impl<const SUB: u32, const N: u32> Hook for Injector<'_, SUB, N> {
    fn step(&self) {
        self.steps.set(self.steps.get() + 1);
        loop {
            let due = self
                .plan
                .borrow()
                .front()
                .is_some_and(|(step, _)| *step == self.steps.get());
            if !due {
                return;
            }
            let Some((_, action)) = self.plan.borrow_mut().pop_front() else {
                return;
            };
            self.run(action);
        }
    }
}

impl<'a, const SUB: u32, const N: u32> Injector<'a, SUB, N> {
    pub(crate) fn new(cpu: &'a Cpu<SUB, N>) -> Self {
        Self {
            cpu,
            steps: Cell::new(0),
            plan: RefCell::default(),
            is_on: Cell::new(ring::is_on(cpu.quiet())),
            switches: Cell::new(0),
            attempts: RefCell::default(),
            delivered: RefCell::default(),
            asked: RefCell::default(),
        }
    }

    /// Plans interrupts: before the how-manieth step from now which action, ascending.
    pub(crate) fn plan(&self, plan: &[(usize, Action)]) {
        self.steps.set(0);
        *self.plan.borrow_mut() = plan.iter().copied().collect();
    }

    /// Whether all planned interrupts have come.
    pub(crate) fn is_done(&self) -> bool {
        self.plan.borrow().is_empty()
    }

    pub(crate) fn run(&self, action: Action) {
        let ring = TestRing {
            cpu: self.cpu,
            hook: self,
        };
        match action {
            Action::Write(size) => self.attempt(ring, size),
            Action::Storm(count) => (0..count).for_each(|_| self.attempt(ring, Size::B16)),
            Action::TracingOn => {
                ring::tracing_on(ring);
                self.is_on.set(true);
                self.switches.set(self.switches.get() + 1);
            }
            Action::TracingOff => {
                ring::tracing_off(ring);
                self.is_on.set(false);
                self.switches.set(self.switches.get() + 1);
            }
            Action::Close => ring::close(ring),
            Action::Consume => self.consume(ring),
            Action::AnnounceNext => {
                let upcoming = self.cpu.tsc.load(SeqCst) + (1 << 32);
                ring::announce(ring, upcoming);
            }
            Action::MakeRoom(room) => {
                ring::make_room(ring, room);
            }
            Action::Snapshot => {
                self.asked.borrow_mut().push(self.cpu.tsc.load(SeqCst));
                ring::snapshot::request(&self.cpu.control);
            }
            Action::Forget => {
                ring::snapshot::forget(self.cpu.quiet());
                self.asked.borrow_mut().clear();
            }
            Action::Arm => self.cpu.control.arm(),
            Action::Each(actions) => actions.iter().for_each(|action| self.run(*action)),
            Action::HalfJump => {
                self.cpu.tsc.fetch_add(1 << 32, SeqCst);
            }
        }
    }

    fn attempt(&self, ring: TestRing<'_, Self, SUB, N>, size: Size) {
        let serial = {
            let mut attempts = self.attempts.borrow_mut();
            let serial = attempts.len() as u32;
            attempts.push(Attempt {
                serial,
                size,
                begin: self.cpu.tsc.load(SeqCst),
                end: 0,
                is_off: false,
                is_on: false,
            });
            serial
        };
        let switches = self.switches.get();
        let was_on = ring::is_on(self.cpu.quiet());
        write(ring, serial, size);
        let attempt = &mut self.attempts.borrow_mut()[serial as usize];
        attempt.end = self.cpu.tsc.load(SeqCst);
        let unchanged = switches == self.switches.get();
        attempt.is_off = unchanged && !was_on;
        attempt.is_on = unchanged && was_on;
    }

    fn consume(&self, ring: TestRing<'_, Self, SUB, N>) {
        while let Some(full) = ring::peek_full(ring) {
            let copy = self.cpu.copy(full.offset);
            if ring::consume(ring, full).is_ok() {
                self.delivered.borrow_mut().push(copy);
            }
        }
    }
}
