//! Filters and triggers of events: the table, and what is done about what it says.
//!
//! A filter is a program that says of each record whether it is made; a trigger does something when its event occurs, if its
//! own program lets it. The host compiles them (`takt_tracer::filter`). An event that has triggers and is not switched on
//! occurs all the same, and is not recorded.

use core::sync::atomic::{AtomicBool, Ordering::Relaxed};

use takt_tracer::event::{Event, Id};
use takt_tracer::filter::program::Raw;
use takt_tracer::rules::{
    Action, MAX_FRAMES, NewTrigger, Rule, RuleError, Rules, Stack, ThreadList,
};
use takt_tracer::wire::event_of;

use super::{Arguments, divert};
use crate::arch::divert_records::divert_records;
use crate::arch::jump_label::{self, Writable, keys};
use crate::arch::stop::Text;
use crate::arch::{interrupts, percpu};
use crate::config::MAX_CPUS;
use crate::error::Error;
#[cfg(feature = "function")]
use crate::trace::function;
#[cfg(feature = "latency-tracers")]
use crate::trace::latency;
#[cfg(feature = "osnoise")]
use crate::trace::osnoise::{self, noise};
#[cfg(feature = "stacktrace")]
use crate::trace::stack;
use crate::trace::{control, events, snapshot, tracer};

/// What the host reads.
#[unsafe(no_mangle)]
static TAKT_RULES: Rules = Rules::new();

keys! {
    /// Rules are about threads' names.
    pub(crate) NAMES;
}

/// Bit 0 of what [`judge`] says; the others are those of [`Action::bit`].
const RECORDED: u32 = 1;
/// In a record's context: interrupts are enabled.
const IRQS_ON: u8 = 1 << 6;

impl From<RuleError> for Error {
    fn from(error: RuleError) -> Self {
        match error {
            RuleError::Full => Self::OutOfResources,
            RuleError::Unsound | RuleError::Missing => Self::InvalidArgument,
        }
    }
}

/// Gives an event a filter, or with an empty program takes it away. `text` is how it was written: bytes, filled up with
/// zeros.
///
/// # Errors
/// [`Error::InvalidArgument`] if the program is none; [`Error::OutOfResources`] if there is no room for it; those of
/// [`Mutex::lock`](crate::sync::Mutex::lock). Everything is as it was then.
///
/// # Context
/// Threads that may block. All CPUs stand still meanwhile.
pub fn set_filter(event: u32, code: &[u32], text: &[u32]) -> Result<(), Error> {
    change(&mut |_| TAKT_RULES.set_filter(event, code, text))
}

/// Gives an event another trigger.
///
/// # Errors
/// As [`set_filter`].
///
/// # Context
/// As [`set_filter`].
pub fn add_trigger(event: u32, trigger: &NewTrigger<'_>) -> Result<(), Error> {
    change(&mut |writable| {
        let events = [event, trigger.other];
        let were = events.map(|event| (TAKT_RULES.is_kept(event), control::is_enabled(event)));
        TAKT_RULES.add_trigger(event, trigger)?;
        for (event, (was_kept, was_on)) in events.into_iter().zip(were) {
            if !was_kept && let Some(rule) = TAKT_RULES.find(event) {
                rule.want(was_on);
                // SAFETY: every other CPU stands still.
                unsafe { control::switch(writable, event, true) };
            }
        }
        Ok(())
    })
}

/// Says how often a trigger acts from here on, by its place among those of the event; with 0 a histogram pauses.
///
/// # Errors
/// [`Error::InvalidArgument`] if there is none.
///
/// # Context
/// Threads, one at a time.
pub fn set_trigger_count(event: u32, place: usize, left: u64) -> Result<(), Error> {
    Ok(TAKT_RULES.set_left(event, place, left)?)
}

/// Takes a trigger away, by its place among those of the event. An event that occurs for no other one is then on or off as
/// it was switched, whatever triggers have made of it.
///
/// # Errors
/// [`Error::InvalidArgument`] if there is none; those of [`Mutex::lock`](crate::sync::Mutex::lock).
///
/// # Context
/// As [`set_filter`].
pub fn remove_trigger(event: u32, place: usize) -> Result<(), Error> {
    change(&mut |writable| {
        // All, since their places may be given back.
        let wanted = |event| TAKT_RULES.find(event).is_none_or(Rule::is_wanted);
        let other = TAKT_RULES.switched_by(event, place)?;
        let events = [event, other.unwrap_or(event)].map(|event| (event, wanted(event)));
        TAKT_RULES.remove_trigger(event, place)?;
        for (event, is_wanted) in events {
            if TAKT_RULES.is_kept(event) {
                continue;
            }
            if let Some(rule) = TAKT_RULES.find(event) {
                rule.want(true);
            }
            if is_wanted {
                continue;
            }
            #[cfg(feature = "osnoise")]
            if noise::keep_on(event, false) {
                continue;
            }
            // SAFETY: every other CPU stands still.
            unsafe { control::switch(writable, event, false) };
        }
        Ok(())
    })
}

/// Has events recorded only of the threads in one list, and not of those in the other (ftrace: `set_event_pid`,
/// `set_event_notrace_pid`); replaces the list. A switch, a wake-up and a creation are of both threads that they are about,
/// and are left out if both are.
///
/// # Errors
/// Those of [`Mutex::lock`](crate::sync::Mutex::lock).
///
/// # Context
/// As [`set_filter`].
pub fn set_threads(list: ThreadList, tids: &[u8]) -> Result<(), Error> {
    change(&mut |_| {
        TAKT_RULES.threads().set(list, tids.iter().copied());
        Ok(())
    })
}

/// Changes what is done about records while nobody else runs, and has them asked about if that is anything.
#[inline(never)]
pub(in crate::trace) fn change(
    act: &mut dyn FnMut(&mut Writable) -> Result<(), RuleError>,
) -> Result<(), Error> {
    Text::lock()?.patch(|writable| {
        act(writable)?;
        control::tell_current();
        let has_names = TAKT_RULES.has_names();
        let key = (&raw const NAMES) as u32;
        // SAFETY: every other CPU stands still.
        unsafe { jump_label::set(writable, key, has_names) };
        if has_names {
            // Whoever sent the program may not have known all of them; threads that are created from now on tell.
            crate::thread::for_each(|thread| {
                if usize::from(thread.id) >= MAX_CPUS {
                    TAKT_RULES.named(thread.id, thread.name);
                }
            });
        }
        if TAKT_RULES.is_empty() && !has_stacks() && !is_heard() {
            // SAFETY: every other CPU stands still.
            unsafe { divert_records(writable, false) };
        } else {
            let judge = match TAKT_RULES.threads().is_empty() {
                true => judge,
                false => judge_by_thread,
            };
            // SAFETY: as above.
            unsafe { divert(writable, judge, act_upon) };
        }
        Ok(())
    })
}

/// A thread was created, and has this name.
///
/// # Context
/// Inside a section, while [`NAMES`] is on.
pub(crate) fn thread_named(tid: u8, name: &str) {
    TAKT_RULES.named(tid, name);
}

/// Whether every record is followed by a stack.
fn has_stacks() -> bool {
    #[cfg(feature = "stacktrace")]
    return stack::is_after_events();
    #[cfg(not(feature = "stacktrace"))]
    false
}

/// Whether a tracer listens to records.
fn is_heard() -> bool {
    #[cfg(feature = "osnoise")]
    return noise::is_on();
    #[cfg(not(feature = "osnoise"))]
    false
}

/// Whether the event occurs for triggers only, or for a tracer that listens.
pub(in crate::trace) fn is_soft(event: u32) -> bool {
    #[cfg(feature = "osnoise")]
    if noise::is_soft(event) {
        return true;
    }
    TAKT_RULES.find(event).is_some_and(Rule::is_soft)
}

/// Whether the event's places stay on for triggers.
#[cfg(feature = "osnoise")]
pub(in crate::trace) fn is_kept(event: u32) -> bool {
    TAKT_RULES.is_kept(event)
}

/// An event that occurs for triggers, or that a tracer listens to, is switched on or off: its places stay on. Says whether that is all there is to do.
#[inline(never)]
pub(in crate::trace) fn keep_on(event: u32, on: bool) -> bool {
    let is_kept = TAKT_RULES.is_kept(event);
    let rule = TAKT_RULES.find(event).filter(|_| is_kept);
    if let Some(rule) = rule {
        rule.want(on);
    }
    #[cfg(feature = "osnoise")]
    return noise::keep_on(event, on) || rule.is_some();
    #[cfg(not(feature = "osnoise"))]
    rule.is_some()
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
    let is_untold = &IS_UNTOLD[percpu::cpu() % MAX_CPUS];
    if is_recorded && is_untold.load(Relaxed) {
        control::tell_current_here();
    }
    let has_stack = result & Action::Stacktrace.bit() != 0;
    is_untold.store(!is_recorded || has_stack, Relaxed);
}

fn judge(record: &Arguments) -> u32 {
    judge_if(record, |_| true)
}

/// As [`judge`], while there are threads of which events are not recorded. Apart from it, so that filters alone do not pay.
fn judge_by_thread(record: &Arguments) -> u32 {
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
    if function::events::is_record(id) {
        return true;
    }
    #[cfg(feature = "latency-tracers")]
    if is(latency::latency_max::Event::id()) {
        return true;
    }
    #[cfg(feature = "osnoise")]
    if osnoise::is_record(id) {
        return true;
    }
    if tracer::current_tracer().needs(id) {
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
    fn callers() -> [u32; MAX_FRAMES] {
        let mut callers = [0; MAX_FRAMES];
        #[cfg(feature = "stacktrace")]
        for (cell, caller) in callers.iter_mut().zip(stack::frames()) {
            *cell = caller;
        }
        callers
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

fn act_upon(result: u32) {
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
