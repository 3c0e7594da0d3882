//! What the rules say of a record, and what is done about it.

use core::sync::atomic::{AtomicBool, Ordering::Relaxed};

use takt_tracer::event::{Event, Id};
use takt_tracer::filter::program::Raw;
use takt_tracer::rules::{Action, MAX_FRAMES, Rule, Stack};
use takt_tracer::wire::event_of;

use super::table::TAKT_RULES;
use crate::arch::divert_records::Arguments;
use crate::arch::{interrupts, percpu};
use crate::config::{MAX_CPUS, cpu_index};
use crate::probe::events;
#[cfg(feature = "function")]
use crate::trace::function::events as functions;
#[cfg(feature = "osnoise")]
use crate::trace::osnoise::noise;
#[cfg(feature = "stacktrace")]
use crate::trace::stack;
use crate::trace::{control, needed, snapshot};

/// Bit 0 of what [`judge`] says; the others are those of [`Action::bit`].
const RECORDED: u32 = 1;
/// In a record's context: interrupts are enabled.
const IRQS_ON: u8 = 1 << 6;

/// Whether every record is followed by a stack.
pub(super) fn has_stacks() -> bool {
    #[cfg(feature = "stacktrace")]
    return stack::is_after_events();
    #[cfg(not(feature = "stacktrace"))]
    false
}

/// Whether a tracer listens to records.
pub(super) fn is_heard() -> bool {
    #[cfg(feature = "osnoise")]
    return noise::is_on();
    #[cfg(not(feature = "osnoise"))]
    false
}

/// For each CPU, whether it does not follow from the records who runs: the last switch was left out, or a stack of who was
/// left was recorded behind it.
static IS_UNTOLD: [AtomicBool; MAX_CPUS] = [const { AtomicBool::new(false) }; MAX_CPUS];

/// A switch's record does not say who ran: that is whom the one before has switched to. If that one does not tell, the
/// reader has to be told. `result` is what [`judge`] says of this one.
fn tell_who_runs(id: u32, result: u32) {
    if id != events::sched_switch::Event::id().number() {
        return;
    }
    let is_recorded = result & RECORDED != 0;
    let is_untold = &IS_UNTOLD[cpu_index(percpu::cpu())];
    if is_recorded && is_untold.load(Relaxed) {
        control::tell_current_here();
    }
    let has_stack = result & Action::Stacktrace.bit() != 0;
    is_untold.store(!is_recorded || has_stack, Relaxed);
}

pub(super) fn judge(record: &Arguments) -> u32 {
    judge_if(record, |_| true)
}

/// As [`judge`], while there are threads of which events are not recorded. Apart from it, so that filters alone do not pay.
pub(super) fn judge_by_thread(record: &Arguments) -> u32 {
    judge_if(record, |id| is_of_thread(id, record))
}

/// Whether it is recorded as far as the lists of threads go. What tells names, what tracers record themselves, and what the
/// current one needs of all threads always is.
#[inline(never)]
fn is_of_thread(id: u32, record: &Arguments) -> bool {
    let is = |event: Id| event.number() == id;
    if is(events::thread_name::Event::id())
        || is(events::irq_name::Event::id())
        || is(events::print::Event::id())
    {
        return true;
    }
    #[cfg(feature = "stacktrace")]
    if is(stack::kernel_stack::Event::id()) {
        return true;
    }
    #[cfg(feature = "function")]
    if functions::is_record(id) {
        return true;
    }
    if needed::has(id) {
        return true;
    }
    let threads = TAKT_RULES.threads();
    let is_about_thread = is(events::sched_switch::Event::id())
        || is(events::sched_waking::Event::id())
        || is(events::sched_wakeup::Event::id())
        || is(events::thread_create::Event::id());
    // In all of them the thread is the first field.
    let about = (record.word() >> 8) as u8;
    !threads.leave_out(percpu::current_tid()) || is_about_thread && !threads.leave_out(about)
}

#[inline(always)]
fn judge_if(record: &Arguments, is_wanted: impl FnOnce(u32) -> bool) -> u32 {
    let id = event_of(record.word()).id();
    // What it tells comes before this record.
    #[cfg(feature = "osnoise")]
    noise::hear(id, record);
    let mut result = match TAKT_RULES.find(id) {
        Some(rule) => judge_by(rule, record),
        None => RECORDED,
    };
    if !is_wanted(id) {
        result &= !RECORDED;
    }
    #[cfg(feature = "osnoise")]
    if noise::is_soft(id) {
        result &= !RECORDED;
    }
    if result & RECORDED != 0 && has_stacks() {
        result |= Action::Stacktrace.bit();
    }
    tell_who_runs(id, result);
    result
}

/// Who finds the functions that are under way.
struct Callers;

impl Stack for Callers {
    #[inline(never)]
    fn callers(frames: &mut [u32; MAX_FRAMES]) {
        #[cfg(feature = "stacktrace")]
        for (cell, caller) in frames.iter_mut().zip(stack::frames()) {
            *cell = caller;
        }
        #[cfg(not(feature = "stacktrace"))]
        let _ = frames;
    }
}

fn judge_by(rule: &Rule, record: &Arguments) -> u32 {
    let irqs = if interrupts::are_enabled() {
        IRQS_ON
    } else {
        0
    };
    let raw = Raw {
        words: record.words(),
        cpu: percpu::cpu() as u8,
        tid: percpu::current_tid(),
        ctx: percpu::preempt_byte() | irqs,
    };
    let idle = if control::is_wanted() {
        Action::TraceOn
    } else {
        Action::TraceOff
    };
    let verdict = TAKT_RULES.judge::<Callers>(rule, &raw, idle.bit());
    if verdict.actions & Action::TraceOn.bit() != 0 {
        control::tracing_on();
    }
    let later = verdict.actions & !Action::TraceOn.bit();
    match verdict.is_recorded {
        true => RECORDED | later,
        false => later,
    }
}

pub(super) fn act_upon(result: u32) {
    let acts = |action: Action| result & action.bit() != 0;
    #[cfg(feature = "stacktrace")]
    if acts(Action::Stacktrace) {
        stack::after_event();
    }
    if acts(Action::Snapshot) {
        // Refused where nothing is overwritten: then nothing is lost either.
        let _ = snapshot::take();
    }
    if acts(Action::TraceOff) {
        control::tracing_off();
    }
}
