//! Filters and triggers of events: the table, and what is done about what it says.
//!
//! A filter is a program that says of each record whether it is made; a trigger does something when its event occurs, if its
//! own program lets it. The host compiles them (`takt_tracer::filter`). An event that has triggers and is not switched on
//! occurs all the same, and is not recorded.

use core::sync::atomic::{AtomicBool, Ordering::Relaxed};

use takt_tracer::event::Event;
use takt_tracer::filter::program::Raw;
use takt_tracer::rules::{Action, Rule, RuleError, Rules};
use takt_tracer::wire::event_of;

use super::{Arguments, divert};
use crate::arch::divert_records::divert_records;
use crate::arch::jump_label::{self, Writable, keys};
use crate::arch::stop::Text;
use crate::arch::{interrupts, percpu};
use crate::config::MAX_CPUS;
use crate::error::Error;
#[cfg(feature = "osnoise")]
use crate::trace::osnoise::noise;
#[cfg(feature = "stacktrace")]
use crate::trace::stack;
use crate::trace::{control, events, snapshot};

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

/// A trigger to be added.
#[derive(Clone, Copy, Debug)]
pub struct Trigger<'t> {
    /// What it does.
    pub action: Action,
    /// How often at most; [`UNLIMITED`](takt_tracer::rules::UNLIMITED).
    pub left: u64,
    /// The program that has to let the event through; empty if every event does.
    pub condition: &'t [u32],
    /// For [`Action::Hist`] what the histogram counts ([`HistSpec`](takt_tracer::rules::HistSpec)), else empty.
    pub spec: &'t [u32],
    /// How it was written, for whoever looks.
    pub text: &'t str,
}

/// Gives an event a filter, or with an empty program takes it away.
///
/// # Errors
/// [`Error::InvalidArgument`] if the program is none; [`Error::OutOfResources`] if there is no room for it; those of
/// [`Mutex::lock`](crate::sync::Mutex::lock). Everything is as it was then.
///
/// # Context
/// Threads that may block. All CPUs stand still meanwhile.
pub fn set_filter(event: u32, code: &[u32], text: &str) -> Result<(), Error> {
    change(&mut |_| TAKT_RULES.set_filter(event, code, text))
}

/// Gives an event another trigger.
///
/// # Errors
/// As [`set_filter`].
///
/// # Context
/// As [`set_filter`].
pub fn add_trigger(event: u32, trigger: &Trigger<'_>) -> Result<(), Error> {
    change(&mut |writable| {
        let had_triggers = TAKT_RULES.find(event).is_some_and(Rule::has_triggers);
        let was_on = control::is_enabled(event);
        TAKT_RULES.add_trigger(
            event,
            trigger.action,
            trigger.left,
            trigger.condition,
            trigger.spec,
            trigger.text,
        )?;
        if !had_triggers && let Some(rule) = TAKT_RULES.find(event) {
            rule.set_soft(!was_on);
            // SAFETY: every other CPU stands still.
            unsafe { control::switch(writable, event, true) };
        }
        Ok(())
    })
}

/// Takes a trigger away, by its place among those of the event.
///
/// # Errors
/// [`Error::InvalidArgument`] if there is none; those of [`Mutex::lock`](crate::sync::Mutex::lock).
///
/// # Context
/// As [`set_filter`].
pub fn remove_trigger(event: u32, place: usize) -> Result<(), Error> {
    change(&mut |writable| {
        let was_soft = is_soft(event);
        TAKT_RULES.remove_trigger(event, place)?;
        let has_triggers = TAKT_RULES.find(event).is_some_and(Rule::has_triggers);
        if was_soft && !has_triggers {
            if let Some(rule) = TAKT_RULES.find(event) {
                rule.set_soft(false);
            }
            #[cfg(feature = "osnoise")]
            if noise::keep_on(event, false) {
                return Ok(());
            }
            // SAFETY: every other CPU stands still.
            unsafe { control::switch(writable, event, false) };
        }
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

/// Whether the event occurs for its triggers only, or for a tracer that listens.
pub(in crate::trace) fn is_soft(event: u32) -> bool {
    #[cfg(feature = "osnoise")]
    if noise::is_soft(event) {
        return true;
    }
    TAKT_RULES.find(event).is_some_and(Rule::is_soft)
}

/// Whether the event has triggers, so that its places stay on.
#[cfg(feature = "osnoise")]
pub(in crate::trace) fn has_triggers(event: u32) -> bool {
    TAKT_RULES.find(event).is_some_and(Rule::has_triggers)
}

/// An event that has triggers, or that a tracer listens to, is switched on or off: its places stay on. Says whether that is all there is to do.
#[inline(never)]
pub(in crate::trace) fn keep_on(event: u32, on: bool) -> bool {
    let rule = TAKT_RULES.find(event).filter(|rule| rule.has_triggers());
    if let Some(rule) = rule {
        rule.set_soft(!on);
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
    let id = event_of(record.word()).id();
    // What it tells comes before this record.
    #[cfg(feature = "osnoise")]
    noise::hear(id, record);
    let mut result = match TAKT_RULES.find(id) {
        Some(rule) => judge_by(rule, record),
        None => RECORDED,
    };
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
    let verdict = TAKT_RULES.judge(rule, &raw, idle.bit());
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
