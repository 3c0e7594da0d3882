//! Commands of functions, as `set_ftrace_filter` takes and shows them: `lock_slow:traceoff:3`.

use rustix::io::Errno;
use takt_decode::filter::trigger::count;
use takt_tracer::control::setting::FunctionCommand;
use takt_tracer::control::{MAX_COMMANDS, Setting};

use super::functions::{ids, parts};
use crate::Result;
use crate::session::Session;
use takt_guest::functions::{Command, Functions, Selection};

/// A line for each function and command.
pub(super) fn show(session: &Session, functions: &Functions) -> Result<String> {
    let mut commands = session.guest.commands()?;
    commands.sort_by_key(|command| command.function);
    let lines = commands.iter().filter_map(|command| {
        let name = &functions.get(command.function as usize)?.name;
        let action = command.action.name();
        Some(match command.left {
            None => format!("{name}:{action}:unlimited\n"),
            Some(left) => format!("{name}:{action}:count={left}\n"),
        })
    });
    Ok(lines.collect())
}

/// Carries out a word of `text`.
pub(super) fn set(
    session: &mut Session,
    functions: &Functions,
    text: &str,
    command: Command<'_>,
) -> Result<()> {
    let place = |part: &str| part.as_ptr().addr() - text.as_ptr().addr();
    let at = place(command.pattern);
    let complain = |session: &mut Session, at, what: &str, error| {
        session.complain("set_ftrace_filter", text.trim_end(), at, what);
        Err(error)
    };
    let meant: Selection = functions
        .matching(command.pattern)
        .map(|function| function.id)
        .collect();
    if meant.is_empty() {
        let what = match functions.why_never(command.pattern) {
            Some(reason) => format!("Cannot be traced: {reason}"),
            None => "No such function".into(),
        };
        return complain(session, at, &what, Errno::INVAL);
    }
    let there = session.guest.commands()?;
    let has = |id: usize| {
        let mut its = there.iter().filter(|it| it.function as usize == id);
        its.any(|it| it.action == command.action)
    };
    let (chosen, times): (Selection, _) = match command.is_removal {
        // How often it acts does not matter, as in Linux.
        true => (meant.into_iter().filter(|id| has(*id)).collect(), Some(0)),
        false => {
            let times = match command.count {
                "" => Ok(None),
                text => count(text, place(text)).map_err(|error| (error.at, error.reason)),
            };
            let times = times.and_then(|times| {
                let small = |count| u32::try_from(count).map_err(|_| Errno::INVAL);
                let error = |_| (place(command.count), "The number is too large".to_owned());
                times.map(small).transpose().map_err(error)
            });
            match times {
                Ok(times) => (meant.into_iter().filter(|id| !has(*id)).collect(), times),
                Err((at, what)) => return complain(session, at, &what, Errno::INVAL),
            }
        }
    };
    if command.is_removal && chosen.is_empty() {
        return complain(session, at, "There is no such command", Errno::INVAL);
    }
    if !command.is_removal && there.len() + chosen.len() > MAX_COMMANDS {
        let what = format!("There is room for {MAX_COMMANDS} commands, each of one function");
        return complain(session, at, &what, Errno::NOSPC);
    }
    let command = FunctionCommand {
        action: command.action,
        count: times,
        ids: ids("")?,
    };
    let beside = Setting::FunctionCommand(command).to_string().len();
    for part in parts(&chosen, beside)? {
        let ids = ids(&part)?;
        let command = FunctionCommand { ids, ..command };
        session.guest.set(Setting::FunctionCommand(command))?;
    }
    Ok(())
}
