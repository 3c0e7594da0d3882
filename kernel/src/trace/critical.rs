//! The tracers `irqsoff`, `preemptoff` and `preemptirqsoff`: the longest stretch without interrupts, without preemption, or
//! without the one or the other.
//!
//! A stretch begins where the first of what is watched is disabled and ends where the last is enabled, whatever lies
//! between: another thread, nested sections, an interrupt. It belongs to a CPU, not to a thread. An interrupt disables
//! interrupts at its first instruction, whose time stamp the entry stub has taken; its stretch ends where the stub
//! begins to restore registers, 16 instructions before the interrupted code goes on, or where the thread that it
//! switches to enables interrupts.
//!
//! Its length is that from the place of its beginning to the place of its end, which are the instructions behind `cli` and
//! in front of `sti` that hooks hang on. It is the number of instructions that the system executes between them without the
//! tracer: all hooks are hidden from it, with the records that they make (see [`place`](crate::arch::place)). Other events
//! that are on are part of it.
//!
//! # Context
//! The hooks: any but NMI, on the CPU that they tell of, with interrupts off.

use core::arch::global_asm;
use core::sync::atomic::Ordering::Relaxed;

use super::latency;
use super::latency::this;
use super::latency::{IRQS, PREEMPT};
use crate::arch::hidden::Hooks;
use crate::arch::stop::Text;
use crate::arch::timed::{self, Rest};
use crate::arch::{divert, jump_label, percpu, record};
use crate::clock::{Cycles, Instant};
use crate::error::Error;
use crate::probe::state::Cpu;

jump_label::keys! {
    /// One of these tracers is the current one.
    pub(crate) CRITICAL;
}

/// The bit of a context that says that interrupts are on.
const IRQS_ON: u32 = record::IRQS_ON.trailing_zeros() - 16;

/// What the hooks of this CPU have taken.
#[inline(always)]
fn hooks() -> &'static Hooks {
    &percpu::this().hooks
}

impl Cpu {
    /// A stretch of a kind begins, if that is watched: a hook is also called where only its place's event is on. `irqs` says
    /// whether interrupts are on, `since` when it began on the clock without hooks and `began` by the TSC.
    #[inline(never)]
    fn begin(&self, place: u32, kind: u8, irqs: bool, since: Instant, began: Instant) {
        if !is_watched(kind) {
            return;
        }
        self.place.set(place);
        self.context
            .set(percpu::context() | u32::from(irqs) << IRQS_ON);
        self.began.set(began.cycles() as u32);
        self.since.set(since);
    }

    #[inline(never)]
    fn end(&self, place: u32, now: Instant) {
        let since = self.since.replace(Instant::ZERO);
        if since == Instant::ZERO {
            return; // it began before the tracer did
        }
        // It notes when it began as well, and in which context.
        latency::offer(timed::between(since, now), self.place.get(), place);
    }
}

/// Whether stretches of a kind are watched.
#[inline(always)]
fn is_watched(kind: u8) -> bool {
    latency::WATCHED.load(Relaxed) & kind != 0
}

/// Whether a stretch without preemption goes on that is watched.
#[inline(always)]
fn is_in_preempt() -> bool {
    is_watched(PREEMPT) && percpu::depth() != 0
}

/// Whether what happens to the preemption of this thread changes nothing: interrupts are disabled and watched, or it is
/// not the outermost time. `irqs` says whether interrupts are on.
#[inline(always)]
fn is_in_irqs_or_preempt(irqs: bool) -> bool {
    is_watched(IRQS) && !irqs || !percpu::is_outermost()
}

/// Interrupts were disabled at `place`.
pub(super) fn irqs_off(place: u32) {
    if !is_in_preempt() {
        this().begin(place, IRQS, false, hooks().now(), Instant::now());
    }
}

/// Interrupts are about to be enabled at `place`.
pub(super) fn irqs_on(place: u32) {
    if !is_in_preempt() {
        this().end(place, hooks().now());
    }
}

/// Preemption was disabled at `place`, where interrupts were on or not.
pub(super) fn preempt_off(place: u32, irqs: bool) {
    if !is_in_irqs_or_preempt(irqs) {
        this().begin(place, PREEMPT, irqs, hooks().now(), Instant::now());
    }
}

/// Preemption is about to be enabled at `place`, where interrupts are on or not.
pub(super) fn preempt_on(place: u32, irqs: bool) {
    if !is_in_irqs_or_preempt(irqs) {
        this().end(place, hooks().now());
    }
}

/// An interrupt came at time `at`.
#[inline(never)]
pub(super) fn irq_entered(vector: u32, at: Instant) {
    let cpu = this();
    let is_in_preempt = is_in_preempt();
    if is_in_preempt && cpu.since.get() != Instant::ZERO {
        return;
    }
    // Interrupts were on, so whatever went on has ended without being seen; or preemption is disabled, but its
    // stretch has not begun yet, or has ended.
    let place = divert::entry_of(vector as u8) as u32;
    cpu.is_interrupts.set(is_in_preempt);
    cpu.begin(place, IRQS, false, hooks().without_hooks(at), at);
}

/// An interrupt returns.
#[inline(never)]
extern "C" fn irq_returns() {
    /// One instruction in front of the hook, and two jumps.
    const REST: Rest = Rest {
        before: Cycles::new(1),
        all: Cycles::new(3),
    };
    let now = hooks().now_behind(REST);
    let cpu = this();
    if !is_in_preempt() || cpu.is_interrupts.get() {
        cpu.end(divert::return_place(), now);
        cpu.is_interrupts.set(false);
    }
}

// What an interrupt's return calls while it is diverted.
global_asm!(
    ".section .text.thunk, \"ax\"",
    "takt_place_irq_returns:",
    "push offset {irq_returns}",
    "jmp takt_place_hook",
    ".text",
    irq_returns = sym irq_returns,
);

/// Measures what hooks take.
pub(super) fn calibrate() -> Result<(), Error> {
    timed::calibrate(&mut Text::lock()?.stop().text);
    Ok(())
}
