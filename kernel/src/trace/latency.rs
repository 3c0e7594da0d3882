//! What the latency tracers have in common: the greatest latency so far, and what is kept of it.
//!
//! Each is also recorded as the event `latency_max`, so that a trace says where the stretch ends that it is about, and when
//! and in which context it began. Where the oldest is overwritten a snapshot is taken right then, so that the trace
//! of the stretch stays until there is another.

use core::arch::asm;
use core::sync::atomic::{AtomicPtr, AtomicU8, AtomicU64, Ordering::Relaxed};

use takt_tracer::control::LatencyBlock;
use takt_tracer::event::Event;
use takt_tracer::{event, event_class};

use super::{control, snapshot};
use crate::arch::jump_label::{self, Key, number};
use crate::arch::place::TIMED;
use crate::arch::stop::Text;
use crate::arch::{divert, percpu, proof};
use crate::clock::{self, Cycles, Nanos};
use crate::compact::{based, counted, rolled};
use crate::config::MAX_CPUS;
use crate::cpus;
use crate::error::Error;
use crate::probe::places::{self, Places};
use crate::probe::sink::RareSink;
use crate::probe::state::Cpu;
use crate::probe::without_interrupts;
#[cfg(feature = "function")]
use crate::sync::held::{Held, Right};
#[cfg(feature = "function")]
use crate::sync::raw_mutex::RawMutex;

event_class! {
    /// A stretch of time: who ran at its end or was woken, where it began and ended, and how long it was. Of one without
    /// interrupts or preemption also when it began, the lower half of that time stamp, and the context then: preempt count
    /// and thread, as in a record's word.
    pub class Stretch = "latency", core8 {
        tid: 8 tid, started_at: 32 sym, ended_at: 32 sym, latency: 64 cycles, began: 32 u, context: 8 x, begun_by: 24 tid,
    }
    print "comm={tid:comm} pid={tid:pid} latency={latency} ns started_at={started_at} ended_at={ended_at}";
}
event! {
    /// Emitted by a latency tracer right after a stretch that it keeps.
    pub latency_max: Stretch = core "tracer:latency_max";
}

/// A stretch of time that was found to be long: its length is without the tracer's own instructions.
pub use takt_tracer::control::Kept as Latency;

/// How often `hwlat` watches the clock and for how long at the beginning, in nanoseconds.
const DEFAULT_WINDOW: u64 = 1_000_000_000;
const DEFAULT_WIDTH: u64 = 500_000_000;

/// What a host that reads the RAM sees of the latency tracers; it is where they keep these things.
#[unsafe(no_mangle)]
pub(super) static TAKT_LATENCY: LatencyBlock = LatencyBlock::new(DEFAULT_WINDOW, DEFAULT_WIDTH);

/// `tracing_max_latency` in cycles.
static MAX: &AtomicU64 = &TAKT_LATENCY.max;
/// `tracing_thresh` in cycles.
static THRESH: &AtomicU64 = &TAKT_LATENCY.thresh;

/// The greatest latency since the tracer was chosen or the maximum was set: `tracing_max_latency`.
///
/// # Context
/// Any.
#[must_use]
pub fn max() -> Nanos {
    Cycles::new(MAX.load(Relaxed)).to_nanos()
}

/// Sets the maximum; what is longer is kept from here on. [`Nanos::ZERO`] forgets the one that is kept.
///
/// # Context
/// Threads.
pub fn set_max(latency: Nanos) {
    set_max_cycles(cycles_of(latency));
}

/// Another CPU changes what is kept. In a machine that dies it has halted amid that.
#[inline(always)]
fn waits() -> bool {
    proof::not_alone!("with interrupts off nobody else changes the latency that is kept");
    !cpus::is_over()
}

#[inline(never)]
pub(super) fn set_max_cycles(cycles: Cycles) {
    without_interrupts(|| {
        let nr = TAKT_LATENCY.begin(waits);
        MAX.store(cycles.get(), Relaxed);
        if cycles == Cycles::ZERO {
            TAKT_LATENCY.forget();
        }
        TAKT_LATENCY.end(nr.wrapping_add(2));
    });
}

/// `tracing_thresh`.
///
/// # Context
/// Any.
#[must_use]
pub fn thresh() -> Nanos {
    Cycles::new(THRESH.load(Relaxed)).to_nanos()
}

/// The same, or a tracer's own while there is none.
#[inline(always)]
pub(super) fn thresh_or(default: impl FnOnce() -> Cycles) -> Cycles {
    match THRESH.load(Relaxed) {
        0 => default(),
        thresh => Cycles::new(thresh),
    }
}

/// With a threshold other than [`Nanos::ZERO`] every stretch that is not shorter is kept, not only a new maximum.
///
/// # Context
/// Threads.
pub fn set_thresh(thresh: Nanos) {
    THRESH.store(cycles_of(thresh).get(), Relaxed);
}

/// The least number of cycles that is not less than so many nanoseconds, so that what is set is what is read. Exact,
/// which [`Nanos::to_cycles`] is not for long times.
#[inline(never)]
fn cycles_of(time: Nanos) -> Cycles {
    const NANOS: u64 = 1_000_000_000;
    let product = u128::from(time.get()) * u128::from(clock::tsc_hz()) + u128::from(NANOS - 1);
    let (low, high) = (product as u64, (product >> 64) as u64);
    if high >= NANOS {
        return Cycles::MAX;
    }
    let cycles: u64;
    // SAFETY: a division whose result fits.
    unsafe {
        asm!("div {}", in(reg) NANOS, inout("rax") low => cycles, inout("rdx") high => _,
             options(pure, nomem, nostack));
    }
    Cycles::new(cycles)
}

/// The latency that was kept last, if any.
///
/// # Context
/// Any but NMI.
#[must_use]
pub fn last() -> Option<Latency> {
    without_interrupts(|| {
        let nr = TAKT_LATENCY.begin(waits);
        let kept = TAKT_LATENCY.kept();
        TAKT_LATENCY.end(nr);
        kept
    })
}

/// What a tracer of latencies listens to.
pub(super) struct Listening {
    /// The places of the kernel that it has hooks at.
    pub(super) places: Places,
    /// The key that is on meanwhile, if there are any.
    pub(super) key: Key,
    /// For the tracers of sections: which ones.
    pub(super) watched: u8,
}

/// A bit of [`WATCHED`]: stretches without interrupts.
pub(super) const IRQS: u8 = 1;
/// Another: stretches without preemption.
pub(super) const PREEMPT: u8 = 2;

/// What the current tracer watches.
pub(super) static WATCHED: AtomicU8 = AtomicU8::new(0);

/// What goes on on this CPU.
#[inline(always)]
pub(super) fn this() -> &'static Cpu {
    // SAFETY: blocks are static, and only this CPU uses this part of its own, with interrupts off.
    unsafe { &*percpu::critical() }
}

/// Whether one of these tracers can begin now.
pub(super) fn may_begin() -> bool {
    percpu::is_preemptible() && crate::arch::interrupts::are_enabled()
}

/// A tracer of latencies begins: nothing was seen yet.
#[inline(never)]
pub(super) fn start(what: &Listening) -> Result<(), Error> {
    if what.watched != 0 && !may_begin() {
        return Err(Error::WrongContext);
    }
    set_max_cycles(Cycles::ZERO);
    // A complete capture keeps everything anyway.
    snapshot::reserve(true);
    Ok(())
}

/// Who listens.
static LISTENER: AtomicPtr<Listening> = AtomicPtr::new(core::ptr::null_mut());

/// The right to have a listener's hooks called, or not.
#[cfg(feature = "function")]
enum OfListener {}

#[cfg(feature = "function")]
impl Right for OfListener {
    const MUTEX: &'static RawMutex = &LISTENS;
}

#[cfg(feature = "function")]
static LISTENS: RawMutex = RawMutex::new();

/// Its hooks are called from now on, or no longer.
#[inline(never)]
pub(super) fn listen(what: &'static Listening, on: bool) -> Result<(), Error> {
    #[cfg(feature = "function")]
    let _alone = Held::<OfListener>::wait()?;
    let listener = if on { what } else { core::ptr::null() };
    LISTENER.store(listener.cast_mut(), Relaxed);
    switch(what, on)
}

#[inline(never)]
fn switch(what: &Listening, on: bool) -> Result<(), Error> {
    WATCHED.store(what.watched, Relaxed);
    set_hooks(&mut Text::lock()?, what.places, what.key, on);
    Ok(())
}

/// Does what holds the CPUs up, while no tracer of latencies listens. Nobody chooses another one meanwhile.
#[cfg(feature = "function")]
#[inline(never)]
pub(super) fn with_listener_off(act: impl FnOnce() -> Result<(), Error>) -> Result<(), Error> {
    let _alone = Held::<OfListener>::wait()?;
    // SAFETY: null, or what a tracer listens to, which is static.
    let Some(what) = (unsafe { LISTENER.load(Relaxed).as_ref() }) else {
        return act();
    };
    switch(what, false)?;
    let done = act();
    switch(what, true)?;
    done
}

/// Has hooks called or not, which have seen nothing yet: those at these places, which ask for this key.
#[inline(never)]
fn set_hooks(text: &mut Text, places: Places, key: Key, on: bool) {
    let text = &mut text.stop().text;
    for cpu in counted(MAX_CPUS) {
        let block = percpu::of(cpu);
        block.critical.reset();
        block.followed.reset();
    }
    places::set_tracer(text, places, on);
    for key in rolled(&[key, &TIMED]) {
        proof::bounded!("keys that are switched");
        jump_label::set(text, number(key), on);
    }
    if places.have_interrupts() {
        divert::divert_return(text, on);
    }
}

#[inline(always)]
fn is_kept(block: &LatencyBlock, cycles: Cycles) -> bool {
    let cycles = cycles.get();
    match block.thresh.load(Relaxed) {
        0 => cycles > block.max.load(Relaxed),
        thresh => cycles >= thresh,
    }
}

/// Keeps a stretch of this CPU and its running thread if it is a new maximum, or not below the threshold if there is one;
/// not while recording is off, so that the records of what is kept are there.
#[inline(always)]
pub(super) fn offer(cycles: Cycles, started_at: u32, ended_at: u32) {
    if note(cycles, started_at, ended_at, percpu::current_tid()) {
        snapshot::keep_if_reserved();
    }
}

/// The same of a thread that has time to find out, for a stretch within one place, and without the snapshot: what it has
/// found stays with what it has found before.
#[inline(always)]
pub(super) fn offer_thread(cycles: Cycles, place: u32) {
    keep(cycles, place, place, percpu::current_tid());
}

/// The same of a thread that was woken, without the snapshot, which the caller is to take if it was kept: there is a record
/// yet to come that belongs to it.
#[inline(always)]
pub(super) fn note(cycles: Cycles, started_at: u32, ended_at: u32, tid: u8) -> bool {
    is_kept(&TAKT_LATENCY, cycles) && keep(cycles, started_at, ended_at, tid)
}

#[cold]
#[inline(never)]
fn keep(cycles: Cycles, started_at: u32, ended_at: u32, tid: u8) -> bool {
    without_interrupts(|| {
        let block = based(&TAKT_LATENCY);
        let mut nr = block.begin(waits);
        // Another CPU may have kept a longer one meanwhile.
        let is_kept = is_kept(block, cycles) && control::is_on();
        if is_kept {
            let cycles = cycles.get();
            block
                .max
                .store(cycles.max(block.max.load(Relaxed)), Relaxed);
            if crate::static_branch!(latency_max::ID) {
                let id = latency_max::Event::id();
                let begin = this();
                let (began, context) = (begin.began.get(), begin.context.get());
                let begun_by = context >> 8;
                Stretch::emit::<RareSink>(
                    id, tid, started_at, ended_at, cycles, began, context, begun_by,
                );
            }
            // Last: the record is to be as close to the end of the stretch as it can.
            block.set(Latency {
                cycles,
                started_at,
                ended_at,
                cpu: percpu::cpu() as u32,
                tid,
            });
            nr = nr.wrapping_add(2);
        }
        block.end(nr);
        is_kept
    })
}
