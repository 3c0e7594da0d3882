//! Events: which there are, which are on, what they look like.

use std::collections::BTreeSet;

use rustix::io::Errno;
use takt_decode::ftrace::Format;
use takt_tracer::control::Setting;
use takt_tracer::control::setting::Ids;

use super::control::number;
use crate::Result;
use crate::session::Session;
use crate::tree::Of;
use takt_guest::patterns::{Known, means, resolve};

/// Ids that one setting names; those of four digits take five bytes.
const IN_LINE: usize = 64;

fn lines<'e>(events: impl Iterator<Item = &'e Known>) -> Vec<u8> {
    let names = events.map(|event| format!("{}\n", event.name));
    names.collect::<String>().into()
}

pub(super) fn available(session: &mut Session, _: &Of) -> Result<Vec<u8>> {
    Ok(lines(session.known.iter()))
}

pub(super) fn enabled(session: &mut Session, _: &Of) -> Result<Vec<u8>> {
    let is_on = is_wanted(session)?;
    let on = session.known.iter().filter(|event| is_on(event));
    Ok(lines(on))
}

/// Whether an event is on, and not only because the current tracer has it on for itself.
fn is_wanted(session: &Session) -> Result<impl Fn(&Known) -> bool> {
    let of_tracer = session.guest.tracer_events(&session.tracer()?)?;
    Ok(move |event: &Known| {
        session.guest.is_enabled(event.id) && !of_tracer.contains(&event.name.as_str())
    })
}

/// Switches events, as many at a time as fit into a line.
fn switch(session: &mut Session, ids: &[u32], on: bool) -> Result<()> {
    for ids in ids.chunks(IN_LINE) {
        let ids: Vec<_> = ids.iter().map(ToString::to_string).collect();
        let ids = ids.join(",");
        let ids = Ids::parse(&ids).map_err(|_| Errno::INVAL)?;
        session.guest.set(if on {
            Setting::Events(ids)
        } else {
            Setting::EventsOff(ids)
        })?;
    }
    Ok(())
}

/// What opening `set_event` with `>` does.
pub(super) fn disable_all(session: &mut Session) -> Result<()> {
    let is_on = is_wanted(session)?;
    let on = session.known.iter().filter(|event| is_on(event));
    let on: Vec<_> = on.map(|event| event.id).collect();
    drop(is_on);
    switch(session, &on, false)
}

/// Patterns separated by white space; `!` before one switches off what it means.
pub(super) fn set_event(session: &mut Session, _: &Of, written: &str) -> Result<()> {
    for word in written.split_whitespace() {
        let (pattern, on) = match word.strip_prefix('!') {
            Some(pattern) => (pattern, false),
            None => (word, true),
        };
        // ftrace's name of every event; `none` is an event's name as any other.
        let pattern = if pattern == "*:*" { "all" } else { pattern };
        let found = resolve(&[pattern.to_owned()], &session.known);
        match found {
            Ok(ids) if !ids.is_empty() => switch(session, &ids, on)?,
            _ => {
                let at = word.as_ptr().addr() - written.as_ptr().addr();
                session.complain("set_event", written.trim_end(), at, "No such event");
                return Err(Errno::INVAL);
            }
        }
    }
    Ok(())
}

/// The events that an `enable` file is for.
fn events_of<'s>(session: &'s Session, of: &'s Of) -> impl Iterator<Item = &'s Known> {
    let is_meant = move |event: &&Known| match of {
        Of::Event(id) => event.id == *id,
        Of::System(system) => means(&format!("{system}:"), &event.name),
        _ => true,
    };
    session.known.iter().filter(is_meant)
}

/// `0` none, `1` all, `X` some.
pub(super) fn enable(session: &mut Session, of: &Of) -> Result<Vec<u8>> {
    let is_on = is_wanted(session)?;
    let states: BTreeSet<_> = events_of(session, of).map(is_on).collect();
    let state = match (states.contains(&true), states.contains(&false)) {
        (true, true) => "X\n",
        (true, false) => "1\n",
        (false, _) => "0\n",
    };
    Ok(state.into())
}

pub(super) fn set_enable(session: &mut Session, of: &Of, text: &str) -> Result<()> {
    let on = match number(text)? {
        0 => false,
        1 => true,
        _ => return Err(Errno::INVAL),
    };
    let ids: Vec<_> = events_of(session, of).map(|event| event.id).collect();
    switch(session, &ids, on)
}

pub(super) fn id(_: &mut Session, of: &Of) -> Result<Vec<u8>> {
    match of {
        Of::Event(id) => Ok(format!("{id}\n").into()),
        _ => Err(Errno::INVAL),
    }
}

pub(super) fn format(session: &mut Session, of: &Of) -> Result<Vec<u8>> {
    let Of::Event(id) = of else {
        return Err(Errno::INVAL);
    };
    let event = session.table.get(*id).ok_or(Errno::NOENT)?;
    Ok(Format::new(event).text().into())
}
