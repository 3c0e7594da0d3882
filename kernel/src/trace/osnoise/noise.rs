//! What interrupts and threads take of a CPU, net: the events `osnoise:irq_noise`, `nmi_noise`, `softirq_noise` and
//! `thread_noise`, and the counters of [`Interference`].
//!
//! Each CPU counts what its interrupts have taken so far. Whatever begins notes the clock and that count; when it ends, what
//! the count has grown by was not its own. So a duration is net however deep interrupts nest, and nothing is to be
//! corrected when one ends. The clock and the count are read as a pair that no NMI has come between.
//!
//! It hears of interrupts and switches where records are made ([`rules`](crate::trace::rules)), which costs nothing while
//! nobody listens. The places of those events are on meanwhile; the events are recorded only if they are wanted.
//!
//! Linux's softirqs are what an interrupt leaves to be done behind it; here that is [`deferred`](crate::deferred) work.

use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, Ordering::Relaxed};

use takt_tracer::event::Event;
use takt_tracer::wire::NEAR_BITS;
use takt_tracer::{event, event_class};

use crate::arch::divert_records::Arguments;
use crate::arch::jump_label::{Key, keys};
use crate::arch::percpu;
use crate::clock::{AtomicCycles, AtomicInstant, Cycles, Instant};
use crate::config::{MAX_CPUS, MAX_THREADS, MAX_TIMERS, cpu_index};
use crate::probe::events;
use crate::thread::handle::Thread;
use crate::trace_event_irqs_off;

event_class! {
    /// What an interrupt has taken.
    pub class Irq = "irq_noise", wide { vector: 32 u, start: 64 cycles, duration: 64 cycles, desc: * str }
    print "{desc}:{vector} start {start:time} duration {duration} ns";
}
event_class! {
    /// What something else has taken.
    pub class Taken = "nmi_noise", wide { start: 64 cycles, duration: 64 cycles }
    print "start {start:time} duration {duration} ns";
}
event_class! {
    /// What a thread has taken.
    pub class OfThread = "thread_noise", wide { start: 64 cycles, duration: 64 cycles }
    print "{current:comm8}:{current:pid} start {start:time} duration {duration} ns";
}
event! {
    /// Emitted at the end of an interrupt's handler.
    pub irq_noise: Irq = wide "osnoise:irq_noise";
}
event! {
    /// Emitted at the end of a non-maskable interrupt.
    pub nmi_noise: Taken = wide "osnoise:nmi_noise";
}
event! {
    /// Emitted at the end of deferred work.
    pub softirq_noise: Taken = wide "osnoise:softirq_noise";
}
event! {
    /// Emitted before a switch, by the thread that is left, unless that is the tracer's own.
    pub thread_noise: OfThread = wide "osnoise:thread_noise";
}

keys! {
    /// Somebody listens to NMIs.
    pub(crate) NMI;
}

/// The events that it is told by.
#[inline(always)]
pub(super) fn heard() -> [u32; 4] {
    use events::{irq_handler_entry, irq_handler_exit, sched_switch, timer_expire};
    [
        irq_handler_entry::Event::id().number(),
        irq_handler_exit::Event::id().number(),
        sched_switch::Event::id().number(),
        timer_expire::Event::id().number(),
    ]
}

/// What it tells.
pub(super) const TOLD: [Key; 4] = [
    &irq_noise::ID,
    &nmi_noise::ID,
    &softirq_noise::ID,
    &thread_noise::ID,
];
/// The number of the timer that does deferred work.
const DEFERRED: u32 = (MAX_THREADS + MAX_TIMERS) as u32;

/// The tracer of these events runs.
pub(super) static IS_CHOSEN: AtomicBool = AtomicBool::new(false);
/// Its counters are wanted, whether the events are or not.
pub(super) static COUNTS: AtomicBool = AtomicBool::new(false);
/// Somebody listens.
pub(super) static IS_ON: AtomicBool = AtomicBool::new(false);
/// A bit for each of [`heard`] whose places are on for this only.
pub(super) static SOFT: AtomicU8 = AtomicU8::new(0);

/// The threads' handles; 0 where there is none.
pub(super) static THREADS: [AtomicU32; MAX_CPUS] = [const { AtomicU32::new(0) }; MAX_CPUS];
/// When something began: the clock, and what interrupts had taken by then.
pub(super) struct Begin {
    pub(super) at: AtomicInstant,
    taken: AtomicCycles,
}

impl Begin {
    const fn new() -> Self {
        Self {
            at: AtomicInstant::new(Instant::ZERO),
            taken: AtomicCycles::new(Cycles::ZERO),
        }
    }

    fn set(&self, (at, taken): (Instant, Cycles)) {
        self.at.store(at);
        self.taken.store(taken);
    }

    /// Ends it: when it began and how long it was, net; nothing if its beginning was not heard.
    fn end(&self, (now, taken): (Instant, Cycles)) -> Option<(Instant, Cycles)> {
        let begun = self.at.swap(Instant::ZERO);
        let others = taken.get().wrapping_sub(self.taken.load().get());
        let net = || now.wrapping_since(begun) - Cycles::new(others);
        (begun != Instant::ZERO).then(|| (begun, net()))
    }
}

/// What belongs to one CPU. Only that CPU writes it, in interrupts and inside sections; an NMI adds to `taken` in between.
#[repr(align(64))]
pub(super) struct OfCpu {
    /// What interrupts have taken so far.
    taken: AtomicCycles,
    nr_nmis: AtomicU32,
    nr_irqs: AtomicU32,
    nr_softirqs: AtomicU32,
    nr_threads: AtomicU32,
    pub(super) irq: Begin,
    pub(super) softirq: Begin,
    pub(super) thread: Begin,
}

pub(super) static CPUS: [OfCpu; MAX_CPUS] = [const {
    OfCpu {
        taken: AtomicCycles::new(Cycles::ZERO),
        nr_nmis: AtomicU32::new(0),
        nr_irqs: AtomicU32::new(0),
        nr_softirqs: AtomicU32::new(0),
        nr_threads: AtomicU32::new(0),
        irq: Begin::new(),
        softirq: Begin::new(),
        thread: Begin::new(),
    }
}; MAX_CPUS];

fn this() -> &'static OfCpu {
    &CPUS[cpu_index(percpu::cpu())]
}

fn count(counter: &AtomicU32) {
    counter.fetch_add(1, Relaxed);
}

impl OfCpu {
    /// The clock, and what interrupts had taken by then.
    fn now(&self) -> (Instant, Cycles) {
        loop {
            let nr = self.nr_nmis.load(Relaxed);
            let pair = (Instant::now(), self.taken.load());
            if self.nr_nmis.load(Relaxed) == nr {
                return pair;
            }
        }
    }

    fn irq_ends(&self, vector: u32) {
        self.softirq_ends();
        if let Some((start, duration)) = self.irq.end(self.now()) {
            self.taken.add(duration);
            count(&self.nr_irqs);
            let name = crate::irq::name_of(vector);
            trace_event_irqs_off!(
                irq_noise,
                vector,
                start.cycles(),
                duration.get(),
                name.as_bytes()
            );
        }
    }

    /// The work is part of the interrupt that does it, but Linux tells it apart.
    fn softirq_ends(&self) {
        if let Some((start, duration)) = self.softirq.end(self.now()) {
            self.taken.add(duration);
            count(&self.nr_softirqs);
            trace_event_irqs_off!(softirq_noise, start.cycles(), duration.get());
        }
    }

    fn timer_expires(&self, timer: u32) {
        self.softirq_ends();
        if timer == DEFERRED {
            self.softirq.set(self.now());
        }
    }

    fn switches(&self, next: u8) {
        let own = THREADS[cpu_index(percpu::cpu())].load(Relaxed);
        let is_own = |tid: u8| own != 0 && Thread::of_handle(own).id() == tid;
        if let Some((start, duration)) = self.thread.end(self.now()) {
            count(&self.nr_threads);
            trace_event_irqs_off!(thread_noise, start.cycles(), duration.get());
        }
        if !is_own(next) {
            self.thread.set(self.now());
        }
    }
}

/// A record is about to be made, of an event that may say something.
pub(in crate::trace) fn hear(id: u32, record: &Arguments) {
    if !IS_ON.load(Relaxed) {
        return;
    }
    let it = this();
    let place = heard().iter().position(|heard| *heard == id);
    // The vector, or the thread that is next.
    let first = record.word() >> 8 & 0xff;
    match place {
        Some(0) => it.irq.set(it.now()),
        Some(1) => it.irq_ends(first),
        Some(2) => it.switches(first as u8),
        Some(3) => it.timer_expires(record.word() >> 1 & ((1 << NEAR_BITS) - 1)),
        _ => {}
    }
}

/// A non-maskable interrupt ends that began then; [`Instant::ZERO`] if nobody listened yet.
pub(crate) fn nmi_ended(start: Instant) {
    if start == Instant::ZERO {
        return;
    }
    let it = this();
    let duration = Instant::now().wrapping_since(start);
    // In this order: who reads the clock and the count sees that the number has changed.
    count(&it.nr_nmis);
    it.taken.add(duration);
    trace_event_irqs_off!(nmi_noise, start.cycles(), duration.get());
}

/// How often something came between.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Interference {
    pub(super) nmis: u32,
    pub(super) irqs: u32,
    pub(super) softirqs: u32,
    pub(super) threads: u32,
}

impl Interference {
    /// So far, on this CPU.
    pub(super) fn now() -> Self {
        let it = this();
        Self {
            nmis: it.nr_nmis.load(Relaxed),
            irqs: it.nr_irqs.load(Relaxed),
            softirqs: it.nr_softirqs.load(Relaxed),
            threads: it.nr_threads.load(Relaxed),
        }
    }

    /// Since an earlier reading.
    pub(super) fn since(self, earlier: Self) -> Self {
        Self {
            nmis: self.nmis.wrapping_sub(earlier.nmis),
            irqs: self.irqs.wrapping_sub(earlier.irqs),
            softirqs: self.softirqs.wrapping_sub(earlier.softirqs),
            threads: self.threads.wrapping_sub(earlier.threads),
        }
    }

    pub(super) fn sum(self) -> u32 {
        self.nmis + self.irqs + self.softirqs + self.threads
    }
}

/// Whether somebody listens.
pub(in crate::trace) fn is_on() -> bool {
    IS_ON.load(Relaxed)
}

fn place_of(id: u32) -> Option<usize> {
    let place = || heard().iter().position(|heard| *heard == id);
    is_on().then(place).flatten()
}

/// Whether the event's places are on for this only.
pub(in crate::trace) fn is_soft(id: u32) -> bool {
    place_of(id).is_some_and(|place| SOFT.load(Relaxed) & 1 << place != 0)
}

/// An event is switched on or off: says whether its places stay on for this.
pub(in crate::trace) fn keep_on(id: u32, on: bool) -> bool {
    let Some(place) = place_of(id) else {
        return false;
    };
    match on {
        true => SOFT.fetch_and(!(1 << place), Relaxed),
        false => SOFT.fetch_or(1 << place, Relaxed),
    };
    true
}
