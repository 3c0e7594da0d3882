//! Filters and triggers of events: the table, and what is done about what it says.
//!
//! A filter is a program that says of each record whether it is made; a trigger does something when its event occurs, if its
//! own program lets it. The host compiles them (`takt_decode::filter`). An event that has triggers and is not switched on
//! occurs all the same, and is not recorded.

#[cfg(feature = "stacktrace")]
use core::sync::atomic::Ordering::Relaxed;

use takt_tracer::rules::{NewTrigger, Rule, RuleError, ThreadList};

use super::diverted;
use super::judge::{act_upon, has_stacks, is_heard, judge, judge_by_thread};
use super::table::{self, NAMES, TAKT_RULES};
use crate::arch::jump_label::{self, Writable};
use crate::arch::proof;
use crate::arch::stop::Text;
use crate::error::Error;
use crate::thread::table::for_each_name;
use crate::trace::control;
use crate::trace::enabled::is_enabled;
#[cfg(feature = "osnoise")]
use crate::trace::osnoise::noise;
#[cfg(feature = "stacktrace")]
use crate::trace::stack;

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
/// As [`set_filter`]; [`Error::InvalidArgument`] if this or the other event is a static key of the kernel's and no event.
///
/// # Context
/// As [`set_filter`].
pub fn add_trigger(event: u32, trigger: &NewTrigger<'_>) -> Result<(), Error> {
    let events = [event, trigger.other];
    if events.into_iter().any(jump_label::is_no_event) {
        return Err(Error::InvalidArgument);
    }
    change(&mut |writable| {
        let were = events.map(|event| (TAKT_RULES.is_kept(event), is_enabled(event)));
        TAKT_RULES.add_trigger(event, trigger)?;
        for (event, (was_kept, was_on)) in events.into_iter().zip(were) {
            if !was_kept && let Some(rule) = TAKT_RULES.find(event) {
                rule.want(was_on);
                control::switch(writable, event, true);
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
            control::switch(writable, event, false);
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
    // However long it is, nobody stands still for that.
    let mut listed = [false; 256];
    for tid in tids {
        listed[usize::from(*tid)] = true;
    }
    change(&mut |_| {
        let tids = (0..=u8::MAX).filter(|tid| listed[usize::from(*tid)]);
        TAKT_RULES.threads().set(list, tids);
        Ok(())
    })
}

/// Changes what is done about records while nobody else runs, and has them asked about if that is anything.
#[inline(never)]
pub(in crate::trace) fn change(
    act: &mut dyn FnMut(&mut Writable) -> Result<(), RuleError>,
) -> Result<(), Error> {
    let mut has_names = false;
    Text::lock()?.patch(|writable| {
        proof::targets!("what is done while nobody else runs");
        table::changed();
        act(writable)?;
        control::tell_current();
        proof::apart!("programs of filters and triggers are gone over");
        has_names = TAKT_RULES.has_names();
        let key = (&raw const NAMES) as u32;
        jump_label::set(writable, key, has_names);
        if TAKT_RULES.is_empty() && !has_stacks() && !is_heard() {
            diverted::set(writable, None);
        } else {
            let judge = match TAKT_RULES.threads().is_empty() {
                true => judge,
                false => judge_by_thread,
            };
            diverted::set(writable, Some((judge, act_upon)));
        }
        Ok::<_, Error>(())
    })?;
    // Whoever sent the program may not have known all of them; threads that are created from now on tell. To compare takes long, so
    // nobody stands still for it.
    if has_names {
        for_each_name(table::thread_named);
    }
    Ok(())
}

/// Says whether a stack is to be recorded after every event (ftrace: `options/stacktrace`).
///
/// # Errors
/// Those of [`Mutex::lock`](crate::sync::Mutex::lock).
///
/// # Context
/// As [`set_filter`].
#[cfg(feature = "stacktrace")]
pub fn set_stacktrace(on: bool) -> Result<(), Error> {
    change(&mut |_| {
        stack::AFTER_EVENTS.store(on, Relaxed);
        Ok(())
    })
}
