//! The tracers `irqsoff`, `preemptoff` and `preemptirqsoff`: the longest stretch without interrupts, without preemption, or
//! without the one or the other.
//!
//! A stretch begins where the first of what is watched is disabled and ends where the last is enabled, whatever lies
//! between: another thread, nested sections, an interrupt. It belongs to a CPU, not to a thread. An interrupt disables
//! interrupts at its first instruction, whose time stamp the entry stub has taken; its stretch ends where the stub
//! begins to restore registers, 28 instructions before the interrupted code goes on, or where the thread that it
//! switches to enables interrupts.
//!
//! What the tracer's own hooks take is measured when it starts and is no part of a stretch: it is exact to the
//! instruction, but for a few with each interrupt inside a stretch without preemption. Events that are on are part of it.
//!
//! # Context
//! The hooks: any but NMI, on the CPU that they tell of.

mod calibrate;

use core::cell::Cell;
use core::sync::atomic::{AtomicU8, Ordering::Relaxed};

use self::calibrate::Hook;
use super::latency;
use crate::arch::jump_label;
use crate::arch::stop::Text;
use crate::arch::{divert, interrupts, percpu, record, tsc};
use crate::error::Error;

jump_label::keys! {
    /// One of these tracers is the current one.
    pub(crate) CRITICAL;
}

/// A bit of [`WATCHED`]: stretches without interrupts.
pub(super) const IRQS: u8 = 1;
/// Another: stretches without preemption.
pub(super) const PREEMPT: u8 = 2;

/// The bit of a context that says that interrupts are on.
const IRQS_ON: u32 = record::IRQS_ON.trailing_zeros() - 16;

/// What the current tracer watches.
static WATCHED: AtomicU8 = AtomicU8::new(0);

/// What goes on on a CPU, in its block. Changed by that CPU only, at places that its interrupts leave alone.
#[derive(Debug)]
pub(crate) struct Cpu {
    /// When the stretch began, in cycles; 0 if there is none.
    since: Cell<u64>,
    /// What to subtract from its length.
    cost: Cell<u64>,
    /// The length of the last one, with the tracer's own instructions.
    last: Cell<u64>,
    /// Where it began.
    place: Cell<u32>,
    /// The lower half of `since`, also when it has ended.
    pub(super) began: Cell<u32>,
    /// Who ran then: the upper half of a record's context.
    pub(super) context: Cell<u32>,
    /// An interrupt began it right before or behind a stretch without preemption, and ends it.
    is_interrupts: Cell<bool>,
}

#[inline(always)]
pub(super) fn this() -> &'static Cpu {
    // SAFETY: blocks are static, and only this CPU uses this part of its own, with interrupts off.
    unsafe { &*percpu::critical() }
}

impl Cpu {
    /// A stretch of a kind begins, or did so many cycles ago, if that is watched: a hook is also called where only its
    /// place's event is on. `irqs` says whether interrupts are on.
    #[inline(never)]
    fn begin(&self, place: u32, hook: Hook, kind: u8, irqs: bool, ago: u64) {
        if !is_watched(kind) {
            return;
        }
        self.place.set(place);
        self.context
            .set(percpu::context() | u32::from(irqs) << IRQS_ON);
        self.cost.set(hook.cost_of_end());
        let since = tsc::now() - ago;
        self.began.set(since as u32);
        self.since.set(since);
    }

    #[inline(never)]
    fn end(&self, place: u32, hook: Hook) {
        let now = tsc::now();
        let since = self.since.take();
        if since == 0 {
            return; // it began before the tracer did
        }
        let cycles = now - since;
        self.last.set(cycles);
        let cost = self.cost.get() + hook.cost_of_end();
        let place_of_begin = self.place.get();
        // It notes when it began as well, and in which context.
        latency::offer(cycles.saturating_sub(cost), place_of_begin, place);
    }

    /// A hook runs within a stretch.
    #[inline(always)]
    fn inside(&self, hook: Hook) {
        let cost = self.cost.get() + hook.cost_inside();
        self.cost.set(cost);
    }
}

/// Whether stretches of a kind are watched.
#[inline(always)]
fn is_watched(kind: u8) -> bool {
    WATCHED.load(Relaxed) & kind != 0
}

/// Whether a stretch without preemption goes on that is watched.
#[inline(always)]
fn is_in_preempt() -> bool {
    is_watched(PREEMPT) & (percpu::depth() != 0)
}

/// Whether what happens to the preemption of this thread changes nothing: interrupts are disabled and watched, or it is
/// not the outermost time. No short cuts: each outcome costs the same. `irqs` says whether interrupts are on.
#[inline(always)]
fn is_in_irqs_or_preempt(irqs: bool) -> bool {
    let is_in_irqs = is_watched(IRQS) & !irqs;
    is_in_irqs | !percpu::is_outermost()
}

/// Interrupts were disabled at `place`.
pub(super) fn irqs_off(place: u32) {
    if is_in_preempt() {
        this().inside(Hook::IrqsOff);
    } else {
        this().begin(place, Hook::IrqsOff, IRQS, false, 0);
    }
}

/// Interrupts are about to be enabled at `place`.
pub(super) fn irqs_on(place: u32) {
    if is_in_preempt() {
        this().inside(Hook::IrqsOn);
    } else {
        this().end(place, Hook::IrqsOn);
    }
}

/// Preemption was disabled at `place`.
pub(super) fn preempt_off(place: u32) {
    let irqs = interrupts::are_enabled();
    let is_inside = is_in_irqs_or_preempt(irqs);
    super::without_interrupts(|| {
        if is_inside {
            this().inside(Hook::PreemptOff);
        } else {
            this().begin(place, Hook::PreemptOff, PREEMPT, irqs, 0);
        }
    });
}

/// Preemption is about to be enabled at `place`.
pub(super) fn preempt_on(place: u32) {
    let is_inside = is_in_irqs_or_preempt(interrupts::are_enabled());
    super::without_interrupts(|| {
        if is_inside {
            this().inside(Hook::PreemptOn);
        } else {
            this().end(place, Hook::PreemptOn);
        }
    });
}

/// An interrupt came at time `at`.
#[inline(never)]
pub(super) fn irq_entered(vector: u32, at: u64) {
    let begun = tsc::now();
    let cpu = this();
    let is_in_preempt = is_in_preempt();
    if is_in_preempt && cpu.since.get() != 0 {
        cpu.inside(Hook::IrqEntered);
    } else {
        // Interrupts were on, so whatever went on has ended without being seen; or preemption is disabled, but its
        // stretch has not begun yet, or has ended.
        let place = divert::entry_of(vector as u8) as u32;
        cpu.is_interrupts.set(is_in_preempt);
        // What this took is left out.
        cpu.begin(place, Hook::IrqEntered, IRQS, false, begun - at);
    }
}

/// An interrupt returns at `place`. Called by its stub.
#[inline(never)]
pub(crate) extern "C" fn irq_returns(place: u32) {
    let cpu = this();
    if is_in_preempt() & !cpu.is_interrupts.get() {
        cpu.inside(Hook::IrqReturns);
    } else {
        cpu.end(place, Hook::IrqReturns);
        cpu.is_interrupts.set(false);
    }
}

/// Whether one of these tracers can begin now.
pub(super) fn may_begin() -> bool {
    percpu::is_preemptible() && interrupts::are_enabled()
}

/// Has this watched, from the next stretch on.
pub(super) fn watch(what: u8) {
    WATCHED.store(what, Relaxed);
}

impl Cpu {
    /// Nothing goes on.
    pub(super) fn reset(&self) {
        self.since.set(0);
        self.began.set(0);
        self.context.set(0);
        self.is_interrupts.set(false);
    }
}

/// Measures what the hooks take.
pub(super) fn calibrate() -> Result<(), Error> {
    let mut text = Text::lock()?;
    latency::keeping_nothing(|| calibrate::run(&mut text));
    Ok(())
}
