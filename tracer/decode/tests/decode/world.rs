//! A system of two CPUs with a few event classes, which writes a `trace.bin`.

use std::cell::{Cell, RefCell};

use takt_decode::{EventTable, FrameWriter};
use takt_tracer::event::{EventClass, Id};
use takt_tracer::ring::{self, CpuRing, Full, Mode, RingControl, Word};
use takt_tracer::wire::{CHANNEL_TRACE, FILE_MAGIC_TRACE, FileHeader, VERSION};

takt_tracer::event_class! {
    /// From one thread to another.
    pub(crate) class Switch = "sched_switch", core24(0x80) {
        next: 8 tid,
        prev_prio: 7 prio,
        next_prio: 7 prio,
        prev_state: 2 enum("0=R,1=S,2=T,3=X"),
    }
    print "prev_comm={current:comm} prev_pid={current:pid} prev_prio={prev_prio} prev_state={prev_state} ==> next_comm={next:comm} next_pid={next:pid} next_prio={next_prio}";
}
takt_tracer::event_class! {
    /// A thread becomes runnable.
    pub(crate) class Wakeup = "sched_wakeup_template", core8 { tid: 8 tid, prio: 8 prio, target_cpu: 8 u }
    print "comm={tid:comm} pid={tid:pid} prio={prio} target_cpu={target_cpu:03}";
}
takt_tracer::event_class! {
    /// A thread begins.
    pub(crate) class Create = "thread_name", core8 { tid: 8 tid, prio: 8 prio, cpu: 8 u, comm: * str }
    print "comm={comm} pid={tid:pid} prio={prio} cpu={cpu}";
}
takt_tracer::event_class! {
    /// A latency.
    pub(crate) class Latency = "timer_latency", wide { seqnum: 32 u, context: 4 enum("0=irq,1=thread"), latency: 64 cycles }
    print "#{seqnum} context {context:6} timer_latency {latency:9} ns";
}
takt_tracer::event_class! {
    /// One of everything.
    pub(crate) class Everything = "everything", wide {
        small: 5 i,
        mask: 4 flags("1=A,2=B"),
        hex: 12 x,
        place: 64 sym,
        big: 64 u,
        negative: 64 i,
        odd: 31 u,
        text: * str,
    }
    print "small={small} mask={mask} hex={hex} place={place} big={big} negative={negative} odd={odd} text={text} {{done}}";
}

takt_tracer::event_class! {
    /// Arrays among other fields, which are packed by the same rule, and one of any length.
    pub(crate) class Arrays = "arrays", core8 {
        before: 4 u,
        bytes: [8; 4] u,
        small: [3; 5] i,
        words: [32; 2] x,
        after: 5 u,
        list: [16] x,
    }
    print "before={before} bytes={bytes} small={small} words={words} after={after} list={list}";
}
takt_tracer::event_class! {
    /// Places and a string that has a maximum.
    pub(crate) class Places = "places", wide { pair: [32; 2] sym, name: * str(8) }
    print "pair={pair} name={name}";
}
takt_tracer::event_class! {
    /// Who called whom.
    pub(crate) class Stack = "kernel_stack", core8 { caller: [32] sym }
    print "{caller}";
}
takt_tracer::event_class! {
    /// Long elements.
    pub(crate) class Long = "long", wide { values: [64] i }
    print "values={values}";
}

pub(crate) const SWITCH: Id = Id::from_number(4);
pub(crate) const WAKEUP: Id = Id::from_number(6);
pub(crate) const CREATE: Id = Id::from_number(8);
pub(crate) const LATENCY: Id = Id::from_number(1);
pub(crate) const EVERYTHING: Id = Id::from_number(0x103);
pub(crate) const ARRAYS: Id = Id::from_number(10);
pub(crate) const STACK: Id = Id::from_number(12);
pub(crate) const PLACES: Id = Id::from_number(0x105);
pub(crate) const LONG: Id = Id::from_number(0x107);

/// An entry as the linker lays it out.
pub(crate) fn entry(id: u64, name: &str, class: &str) -> Vec<u8> {
    let text = format!("event {name}\n{class}doc For tests.\n");
    let mut bytes = [id.to_le_bytes(), (text.len() as u64).to_le_bytes()].concat();
    bytes.extend_from_slice(text.as_bytes());
    bytes.resize(bytes.len().next_multiple_of(8), 0);
    bytes
}

pub(crate) fn metadata() -> Vec<u8> {
    [
        entry(2, "takt:clock", takt_tracer::event::builtin::Clock::TEXT),
        entry(4, "sched:sched_switch", Switch::TEXT),
        entry(6, "sched:sched_wakeup", Wakeup::TEXT),
        entry(8, "sched:thread_name", Create::TEXT),
        entry(1, "timerlat:timer_latency", Latency::TEXT),
        entry(0x103, "test:everything", Everything::TEXT),
        entry(10, "test:arrays", Arrays::TEXT),
        entry(12, "ftrace:kernel_stack", Stack::TEXT),
        entry(0x105, "test:places", Places::TEXT),
        entry(0x107, "test:long", Long::TEXT),
    ]
    .concat()
}

pub(crate) fn table() -> EventTable {
    EventTable::parse(&metadata()).unwrap()
}

pub(crate) const SUB: u32 = 256;
pub(crate) const N: u32 = 4;

/// One CPU.
#[derive(Default)]
struct Cpu {
    control: [u64; size_of::<RingControl>() / 8],
    memory: Vec<u32>,
    tsc: u64,
    ctx: u32,
}

thread_local! {
    static CPUS: RefCell<Vec<Cpu>> = RefCell::default();
    static CURRENT: Cell<usize> = const { Cell::new(0) };
}

/// The ring of the current CPU.
#[derive(Clone, Copy)]
pub(crate) struct Ring;

fn with<T>(what: impl FnOnce(&mut Cpu) -> T) -> T {
    CPUS.with_borrow_mut(|cpus| what(&mut cpus[CURRENT.get()]))
}

fn word_mut(cpu: &mut Cpu, word: Word) -> &mut u64 {
    &mut cpu.control[word.offset() as usize / 8]
}

impl CpuRing for Ring {
    const SUB_SIZE: u32 = SUB;
    const NR_SUBS: u32 = N;

    fn now(self) -> u64 {
        with(|cpu| cpu.tsc)
    }
    fn ctx(self) -> u32 {
        with(|cpu| cpu.ctx)
    }
    fn cpu(self) -> u8 {
        CURRENT.get() as u8
    }
    fn load(self, word: Word) -> u64 {
        with(|cpu| *word_mut(cpu, word))
    }
    fn store(self, word: Word, value: u64) {
        with(|cpu| *word_mut(cpu, word) = value);
    }
    fn add(self, word: Word, value: u64) {
        with(|cpu| *word_mut(cpu, word) += value);
    }
    fn cas(self, word: Word, old: u64, new: u64) -> bool {
        with(|cpu| {
            let word = word_mut(cpu, word);
            let is_old = *word == old;
            if is_old {
                *word = new;
            }
            is_old
        })
    }
    fn load64(self, offset: u32) -> u64 {
        let at = offset as usize / 4;
        with(|cpu| u64::from(cpu.memory[at]) | u64::from(cpu.memory[at + 1]) << 32)
    }
    fn store32<const DISP: u32>(self, offset: u32, value: u32) {
        with(|cpu| cpu.memory[(offset + DISP) as usize / 4] = value);
    }
    fn store64<const DISP: u32>(self, offset: u32, value: u64) {
        self.store32::<DISP>(offset, value as u32);
        self.store32::<DISP>(offset + 4, (value >> 32) as u32);
    }
    fn add64<const DISP: u32>(self, offset: u32, value: u64) {
        let sum = self.load64(offset + DISP).wrapping_add(value);
        self.store64::<DISP>(offset, sum);
    }
}

takt_tracer::ring_sink! {
    /// The rings of this system.
    pub(crate) struct Sink => Ring;
}

/// The system, and the file it writes.
pub(crate) struct World {
    writer: FrameWriter<Vec<u8>>,
    nr_cpus: usize,
}

pub(crate) fn file_header(nr_cpus: u32) -> FileHeader {
    FileHeader {
        magic: FILE_MAGIC_TRACE,
        version: VERSION.into(),
        tsc_hz: 2_000_000_000,
        image: 7,
        sub_size: SUB,
        nr_cpus,
        nr_subs: N,
    }
}

impl World {
    pub(crate) fn new(nr_cpus: usize) -> Self {
        CPUS.set(Vec::new());
        for number in 0..nr_cpus {
            let memory = vec![0; (SUB * N / 4) as usize];
            CPUS.with_borrow_mut(|cpus| {
                cpus.push(Cpu {
                    memory,
                    ..Cpu::default()
                })
            });
            CURRENT.set(number);
            ring::set_mode(Ring, Mode::StopWhenFull);
            ring::tracing_on(Ring);
        }
        Self {
            writer: FrameWriter::new(Vec::new(), &file_header(nr_cpus as u32)).unwrap(),
            nr_cpus,
        }
    }

    /// From now on things happen on this CPU, at this time in cycles, in this context, in this thread.
    pub(crate) fn at(&self, cpu: usize, tsc: u64, ctx: u8, tid: u8) {
        CURRENT.set(cpu);
        with(|cpu| {
            cpu.tsc = tsc;
            cpu.ctx = u32::from_le_bytes([0, 0, ctx, tid]);
        });
    }

    /// Hands over what is complete.
    pub(crate) fn hand_over(&mut self) {
        self.hand_over_some(|_| true);
    }

    /// Hands over what is complete and wanted. The rest does not get into the file, as what is overwritten.
    fn hand_over_some(&mut self, mut is_wanted: impl FnMut(&Full) -> bool) {
        for cpu in 0..self.nr_cpus {
            CURRENT.set(cpu);
            while let Some(full) = ring::peek_full(Ring) {
                if !is_wanted(&full) {
                    ring::consume(Ring, full).unwrap();
                    continue;
                }
                let at = full.offset as usize / 4;
                let payload: Vec<u8> = with(|cpu| {
                    cpu.memory[at..at + SUB as usize / 4]
                        .iter()
                        .flat_map(|word| word.to_le_bytes())
                        .collect()
                });
                self.writer
                    .frame(CHANNEL_TRACE, cpu as u8, &payload)
                    .unwrap();
                ring::consume(Ring, full).unwrap();
            }
        }
    }

    /// Ends the sub-buffer that is open; it gets into the file if it is wanted. Says how many events it has.
    pub(crate) fn end_sub(&mut self, is_wanted: bool) -> u64 {
        ring::close(Ring);
        let mut records = 0;
        self.hand_over_some(|full| {
            records += full.records;
            is_wanted
        });
        records
    }

    /// Ends the run: the file.
    pub(crate) fn finish(mut self) -> Vec<u8> {
        for _ in 0..2 {
            for cpu in 0..self.nr_cpus {
                CURRENT.set(cpu);
                ring::close(Ring);
            }
            self.hand_over();
        }
        self.writer.finish().unwrap()
    }
}

/// A run with a bit of everything: two CPUs, a change of the clock's upper half, names, switches.
pub(crate) fn sample() -> Vec<u8> {
    let mut world = World::new(2);
    let half = 1u64 << 32;
    world.at(0, half - 4000, 0xc0, 3);
    Create::emit::<Sink>(CREATE, 4u8, 95u8, 0u8, "timerlat/0");
    world.at(0, half - 2000, 0xc0, 3);
    Switch::emit::<Sink>(SWITCH, 0u8, 10u8, 0u8, 1u8);
    world.at(1, half - 1000, 0xc0, 1);
    Create::emit::<Sink>(CREATE, 5u8, 1u8, 1u8, b"bad\x1b\nname");
    world.at(0, half - 1, 0x91, 0);
    Latency::emit::<Sink>(LATENCY, 1u32, 0u8, 20u64);
    world.at(0, half, 0x11, 0);
    Wakeup::emit::<Sink>(WAKEUP, 4u8, 95u8, 0u8);
    world.at(0, half + 40, 0x80, 0);
    Switch::emit::<Sink>(SWITCH, 4u8, 0u8, 95u8, 0u8);
    world.at(0, half + 160, 0xc0, 4);
    Latency::emit::<Sink>(LATENCY, 1u32, 1u8, 180u64);
    world.at(1, half + 200, 0xa2, 77);
    Everything::emit::<Sink>(
        EVERYTHING,
        -3i8,
        7u8,
        0xabcu16,
        0x20_1234u64,
        u64::MAX,
        i64::MIN,
        5u32,
        "end",
    );
    world.at(0, 3 * half, 0xc0, 4);
    Switch::emit::<Sink>(SWITCH, 0u8, 95u8, 0u8, 1u8);
    world.hand_over();
    world.finish()
}

/// A run with arrays, a stack and a string that is too long.
pub(crate) fn sample_of_arrays() -> Vec<u8> {
    let world = World::new(2);
    world.at(1, 300, 0xc0, 5);
    Arrays::emit::<Sink>(
        ARRAYS,
        9u8,
        [1u8, 2, 0xff, 4],
        [-4i8, -1, 0, 1, 3],
        [0xdead_beefu32, 7],
        21u8,
        [0x1234u16, 0xffff, 1],
    );
    Places::emit::<Sink>(PLACES, [0x20_1234u32, 5], "ends h\u{20ac}re");
    Stack::emit::<Sink>(STACK, [0x20_1234u32, 0x1000]);
    Long::emit::<Sink>(LONG, [u64::MAX, 1]);
    Long::emit::<Sink>(LONG, [0u64; 0]);
    world.finish()
}
