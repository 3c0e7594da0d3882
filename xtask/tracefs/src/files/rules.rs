//! Filters and triggers of events.

use rustix::io::Errno;
use takt_decode::filter::FilterError;
use takt_decode::filter::trigger::{Command, Trigger, condition};
use takt_decode::{EventDef, Names};
use takt_tracer::control::Setting;
use takt_tracer::control::setting::{
    EventFilter, EventTrigger, EventTriggerCount, EventTriggerOff, Program, Words,
};
use takt_tracer::rules::{Action, MAX_TEXT, RulesView, UNLIMITED, words_of};

use crate::session::Session;
use crate::tree::Of;
use crate::{Result, render};
use takt_guest::patterns::means;

/// What the `filter` of a system shows: each event has its own.
const OF_SYSTEM: &str = "\
### all events of the system ###
# What is written here becomes the filter of each event that has such fields.
";
/// Words that one setting has room for.
const IN_LINE: usize = 48;

/// The events that a file is for, with their descriptions.
fn events_of(session: &Session, of: &Of) -> Vec<EventDef> {
    let known = session.known.iter().filter(|event| match of {
        Of::Event(id) => event.id == *id,
        Of::System(system) => means(&format!("{system}:"), &event.name),
        _ => false,
    });
    known
        .filter_map(|event| session.table.get(event.id).cloned())
        .collect()
}

fn id_of(of: &Of) -> Result<u32> {
    match of {
        Of::Event(id) => Ok(*id),
        _ => Err(Errno::INVAL),
    }
}

fn names_of(session: &Session) -> Result<Names> {
    Ok(render::names(session, &session.view()?))
}

/// One that was refused last is shown with what is wrong with it, as in Linux, unless another is in force by now.
pub(super) fn filter(session: &mut Session, of: &Of) -> Result<Vec<u8>> {
    let refused = session.refused.get(of).map(String::as_str);
    if let Of::System(_) = of {
        return Ok(refused.unwrap_or(OF_SYSTEM).into());
    }
    let rules = session.guest.rules()?;
    let rule = RulesView::new(&rules).find(id_of(of)?);
    let text = rule.map(|rule| rule.filter).filter(|text| !text.is_empty());
    Ok(match text {
        Some(text) => format!("{text}\n").into(),
        None => refused.unwrap_or("none\n").into(),
    })
}

/// `0` clears. That of a system is set for the events that have its fields; there must be one.
///
/// An event whose filter is refused has none any more, as in Linux. Where that of a system fits none of its events, they
/// keep theirs.
pub(super) fn set_filter(session: &mut Session, of: &Of, text: &str) -> Result<()> {
    let text = text.trim();
    let events = events_of(session, of);
    if text == "0" {
        session.refused.remove(of);
        return events
            .iter()
            .try_for_each(|event| clear_filter(session, event.id));
    }
    if let Err(error) = check_length(text) {
        return refuse(session, of, text, error);
    }
    let names = names_of(session)?;
    let compiled: Vec<_> = events
        .iter()
        .map(|event| (event.id, condition(text, event, &session.table, &names)))
        .collect();
    let mut errors = compiled.iter().filter_map(|(_, code)| code.as_ref().err());
    let first = errors.next().cloned();
    let fits = compiled.iter().any(|(_, code)| code.is_ok());
    if let Some(error) = first.filter(|_| !fits) {
        return refuse(session, of, text, error);
    }
    for (event, code) in compiled {
        if let Ok(code) = code {
            let words: Vec<_> = words_of(text).collect();
            let setting = Setting::EventFilter(EventFilter {
                event,
                len: code.len() as u32,
                nr_text: words.len() as u32,
            });
            set(session, "filter", text, &[&code, &words], setting)?;
            session.refused.remove(&Of::Event(event));
        }
    }
    session.refused.remove(of);
    Ok(())
}

fn clear_filter(session: &mut Session, event: u32) -> Result<()> {
    session.refused.remove(&Of::Event(event));
    session.guest.set(Setting::EventFilter(EventFilter {
        event,
        len: 0,
        nr_text: 0,
    }))
}

/// A filter is wrong: says where, and does without one.
fn refuse(session: &mut Session, of: &Of, text: &str, error: FilterError) -> Result<()> {
    if let Of::Event(event) = of {
        // What is wrong with the filter is said whatever the guest says; `filter` shows what is in force.
        let _ = clear_filter(session, *event);
    }
    let shown = format!("{}\nparse_error: {error}\n", error.caret(text));
    session.refused.insert(of.clone(), shown);
    complain(session, "filter", text, error)
}

/// A text that is longer takes more room than the guest has for it.
fn check_length(text: &str) -> std::result::Result<(), FilterError> {
    if text.len() <= MAX_TEXT {
        return Ok(());
    }
    let at = (0..=MAX_TEXT).rfind(|at| text.is_char_boundary(*at));
    Err(FilterError {
        at: at.unwrap_or(0),
        reason: format!("there is room for {MAX_TEXT} bytes"),
    })
}

/// Sets something of an event that has these words.
fn set(
    session: &mut Session,
    file: &str,
    command: &str,
    words: &[&[u32]],
    setting: Setting<'_>,
) -> Result<()> {
    send(session, &words.concat())?;
    let done = session.guest.set(setting);
    if done == Err(Errno::NOMEM) {
        let what = "The guest has no room for it beside the other filters and triggers";
        session.complain(file, command, 0, what);
    }
    done
}

/// Puts words where the guest looks for them.
fn send(session: &mut Session, words: &[u32]) -> Result<()> {
    for (number, chunk) in words.chunks(IN_LINE).enumerate() {
        let words: Vec<_> = chunk.iter().map(|word| format!("{word:x}")).collect();
        let words = words.join(",");
        session.guest.set(Setting::Program(Program {
            at: (number * IN_LINE) as u32,
            words: Words::parse(&words).map_err(|_| Errno::INVAL)?,
        }))?;
    }
    Ok(())
}

fn complain(session: &mut Session, file: &str, command: &str, error: FilterError) -> Result<()> {
    session.complain(file, command, error.at, &error.reason);
    Err(Errno::INVAL)
}

/// One line for each; without any, which there can be.
pub(super) fn triggers(session: &mut Session, of: &Of) -> Result<Vec<u8>> {
    let rules = session.guest.rules()?;
    let rule = RulesView::new(&rules).find(id_of(of)?);
    let mut out = String::new();
    for trigger in rule.iter().flat_map(|rule| rule.triggers()) {
        if let Ok(read) = Trigger::parse(trigger.text) {
            let left = (trigger.left != UNLIMITED).then_some(trigger.left);
            out += &format!("{}\n", read.text(left));
        }
    }
    if out.is_empty() {
        let names: Vec<_> = Action::ALL.iter().map(|(_, name)| *name).collect();
        out = format!("# Available triggers:\n# {}\n", names.join(" "));
    }
    Ok(out.into())
}

/// A trigger; with `!` before it, it is taken away.
pub(super) fn set_trigger(session: &mut Session, of: &Of, text: &str) -> Result<()> {
    let event = id_of(of)?;
    let command = text.trim();
    let (text, adds) = match command.strip_prefix('!') {
        Some(text) => (text, false),
        None => (command, true),
    };
    let skipped = command.len() - text.len();
    let further = |error: FilterError| FilterError {
        at: error.at + skipped,
        ..error
    };
    let trigger = match Trigger::parse(text) {
        Ok(trigger) => trigger,
        Err(error) => return complain(session, "trigger", command, further(error)),
    };
    let to_do = trigger.hist.as_ref().and_then(|hist| hist.command);
    let rules = session.guest.rules()?;
    let rule = RulesView::new(&rules).find(event);
    let there: Vec<_> = (rule.iter().flat_map(|rule| rule.triggers()))
        .filter_map(|set| Some((set, Trigger::parse(set.text).ok()?)))
        .collect();
    let same = there.iter().find(|(_, other)| other.is_like(&trigger));
    let mut with_keys = there
        .iter()
        .filter(|(_, other)| other.has_keys_of(&trigger));
    let same = match with_keys.next() {
        // To take a histogram away or to clear it its keys will do, if no other has them.
        Some(only) if (!adds || to_do.is_some()) && with_keys.next().is_none() => Some(only),
        _ => same,
    };
    let place = same.map_or(0, |(set, _)| set.place as u32);
    let take_away = Setting::EventTriggerOff(EventTriggerOff { event, place });
    match (same, adds) {
        // As in Linux, taking away what is not there is no mistake.
        (None, false) => Ok(()),
        (Some(_), false) => session.guest.set(take_away),
        (None, true) => match to_do {
            Some(Command::Clear | Command::Continue) => {
                session.complain("trigger", command, 0, "The event has no such histogram");
                Err(Errno::NOENT)
            }
            Some(Command::Pause) => add(session, event, &trigger, command, Some(0)),
            None => add(session, event, &trigger, command, trigger.count),
        },
        (Some((set, other)), true) => {
            let count = match to_do {
                Some(Command::Clear) => {
                    // One that is set anew is empty.
                    session.guest.set(take_away)?;
                    let left = (set.left != UNLIMITED).then_some(set.left);
                    return add(session, event, other, set.text, left);
                }
                Some(Command::Pause) => Some(0),
                Some(Command::Continue) => None,
                None => {
                    session.complain("trigger", command, 0, "The event has such a trigger");
                    return Err(Errno::EXIST);
                }
            };
            let setting = EventTriggerCount {
                event,
                place,
                count,
            };
            session.guest.set(Setting::EventTriggerCount(setting))
        }
    }
}

/// Adds a trigger that acts so often at most.
fn add(
    session: &mut Session,
    event: u32,
    trigger: &Trigger,
    text: &str,
    count: Option<u64>,
) -> Result<()> {
    let names = names_of(session)?;
    let def = session.table.get(event).ok_or(Errno::NOENT)?;
    let bound = check_length(text).and_then(|()| trigger.bind(def, &session.table, &names));
    let bound = match bound {
        Ok(bound) => bound,
        Err(error) => return complain(session, "trigger", text, error),
    };
    let words: Vec<_> = words_of(text).collect();
    let count = count.map(|count| u32::try_from(count).map_err(|_| Errno::INVAL));
    let setting = Setting::EventTrigger(EventTrigger {
        event,
        action: trigger.action,
        count: count.transpose()?,
        other: bound.other,
        nr_spec: bound.spec.len() as u32,
        nr_condition: bound.condition.len() as u32,
        nr_text: words.len() as u32,
    });
    let parts = [&*bound.spec, &*bound.condition, &*words];
    set(session, "trigger", text, &parts, setting)
}
