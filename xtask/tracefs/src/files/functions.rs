//! The function tracers: which functions, of which threads, how deep, and what could not be recorded.

use std::fmt::Write;
use std::sync::Arc;

use rustix::io::Errno;
use takt_tracer::control::Setting;
use takt_tracer::control::setting::{Chosen, Ids, List};

use super::control::number;
use super::{File, commands, pids};
use crate::Result;
use crate::guest::MAX_LINE;
use crate::session::Session;
use crate::tree::Of;
use takt_guest::functions::{Command, Functions, Selection, ranges};

/// The file of a list of functions.
macro_rules! list_file {
    ($list:ident) => {
        File::new(
            $list.name,
            Some(|session, _| show(session, &$list)),
            Some(|session, _, text| write(session, &$list, text)),
        )
        .truncating(|session| session.truncate($list.name))
        .if_there(has_functions)
    };
}

/// The files, in the root.
pub(super) static FILES: [File; 9] = [
    File::new("available_filter_functions", Some(available), None).if_there(has_functions),
    File::new("enabled_functions", Some(enabled), None).if_there(has_functions),
    File::new("function_graph_stats", Some(graph_stats), None).if_there(has_functions),
    File::new("max_graph_depth", Some(depth), Some(set_depth)).if_there(has_functions),
    list_file!(FILTER),
    list_file!(NOTRACE),
    list_file!(GRAPH),
    list_file!(GRAPH_NOTRACE),
    list_file!(STACK),
];

/// First byte of an entry that is patched: a call.
const CALL: u8 = 0xe8;

/// A file with a list of functions.
struct ListFile {
    name: &'static str,
    list: List,
    /// What is shown then.
    says: &'static str,
}

const ALL_ENABLED: &str = "#### all functions enabled ####\n";
const NONE_DISABLED: &str = "#### no functions disabled ####\n";

const FILTER: ListFile = ListFile {
    name: "set_ftrace_filter",
    list: List::Filter,
    says: ALL_ENABLED,
};
const NOTRACE: ListFile = ListFile {
    name: "set_ftrace_notrace",
    list: List::Notrace,
    says: NONE_DISABLED,
};
const GRAPH: ListFile = ListFile {
    name: "set_graph_function",
    list: List::GraphFilter,
    says: ALL_ENABLED,
};
const GRAPH_NOTRACE: ListFile = ListFile {
    name: "set_graph_notrace",
    list: List::GraphNotrace,
    says: NONE_DISABLED,
};
const STACK: ListFile = ListFile {
    name: "stack_trace_filter",
    list: List::StackFilter,
    says: ALL_ENABLED,
};

/// Whether the image has function tracers.
pub(crate) fn has_functions(session: &Session) -> bool {
    session.functions.is_some()
}

fn functions(session: &Session) -> Result<Arc<Functions>> {
    session.functions.clone().ok_or(Errno::NOENT)
}

fn available(session: &mut Session, _: &Of) -> Result<Vec<u8>> {
    let functions = functions(session)?;
    let names = functions.available();
    Ok(names
        .map(|function| format!("{}\n", function.name))
        .collect::<String>()
        .into())
}

/// The functions whose entries are patched at the moment, each with what it calls there; then those that never are, and
/// why.
fn enabled(session: &mut Session, _: &Of) -> Result<Vec<u8>> {
    let functions = functions(session)?;
    let guest = &session.guest;
    let mut out = String::new();
    for function in functions.available() {
        let mut code = [0; 5];
        guest.read(guest.elf.to_physical(function.address), &mut code)?;
        let [CALL, distance @ ..] = code else {
            continue;
        };
        let distance = i64::from(i32::from_le_bytes(distance));
        let called = (function.address + code.len() as u64).wrapping_add_signed(distance);
        let thunk = session.symbols.nearest(called).unwrap_or_default();
        // Writing to a String does not fail.
        let _ = writeln!(out, "{} ->{thunk}", function.name);
    }
    for (name, reason) in functions.never() {
        let _ = writeln!(out, "# {name}: never, {reason}");
    }
    Ok(out.into())
}

fn show(session: &mut Session, file: &ListFile) -> Result<Vec<u8>> {
    let functions = functions(session)?;
    session.close()?;
    let mut out = match session.guest.list(file.list, functions.len())? {
        None => file.says.to_owned(),
        Some(chosen) => {
            let names = chosen.iter().filter_map(|id| functions.get(*id));
            names
                .map(|function| format!("{}\n", function.name))
                .collect()
        }
    };
    if file.list == List::Filter {
        out += &commands::show(session, &functions)?;
    }
    Ok(out.into())
}

fn write(session: &mut Session, file: &ListFile, text: &str) -> Result<()> {
    session.write_list(file.name, text, |session, is_new, lines| {
        choose(session, file, is_new, lines)
    })
}

/// Each word adds the functions that it means, with `!` before it removes them, or is a command; those before a bad one are
/// heeded. If the list `is_new` it is empty before.
fn choose(session: &mut Session, file: &ListFile, is_new: bool, text: &str) -> Result<()> {
    let functions = functions(session)?;
    let before = match is_new {
        true => Selection::new(),
        false => session
            .guest
            .list(file.list, functions.len())?
            .unwrap_or_default(),
    };
    let mut chosen = before.clone();
    let mut to_do = Vec::new();
    let bad = functions.words(text).find(|word| {
        let command = Command::of(word).filter(|_| file.list == List::Filter);
        match command {
            Some(command) => {
                to_do.push(command);
                false
            }
            None => !functions.apply(&mut chosen, word),
        }
    });
    if is_new || chosen != before {
        send(session, file, &chosen)?;
    }
    for command in to_do {
        commands::set(session, &functions, text, command)?;
    }
    let Some(bad) = bad else {
        return Ok(());
    };
    let at = bad.as_ptr().addr() - text.as_ptr().addr();
    let what = match functions.why_never(bad.trim_start_matches('!')) {
        Some(reason) => format!("Cannot be traced: {reason}"),
        None => "No such function".into(),
    };
    session.complain(file.name, text.trim_end(), at, &what);
    Err(Errno::INVAL)
}

pub(super) fn ids(text: &str) -> Result<Ids<'_>> {
    Ids::parse(text).map_err(|_| Errno::INVAL)
}

/// Sets a list, in as many lines as it takes.
fn send(session: &mut Session, file: &ListFile, chosen: &Selection) -> Result<()> {
    if chosen.is_empty() {
        // Nothing chosen means all functions where the list says which are wanted.
        let nothing = match file.list.is_of_wanted() {
            true => Chosen::All,
            false => Chosen::Only(ids("")?),
        };
        return session.guest.set(Setting::Functions(file.list, nothing));
    }
    let name = Setting::Functions(file.list, Chosen::More(ids("")?)).to_string();
    let parts = parts(chosen, name.len())?;
    for (number, part) in parts.iter().enumerate() {
        let ids = ids(part)?;
        let chosen = match number {
            0 => Chosen::Only(ids),
            _ => Chosen::More(ids),
        };
        session.guest.set(Setting::Functions(file.list, chosen))?;
    }
    Ok(())
}

/// The ids, in as many parts as there have to be lines; beside them a line has so many bytes.
pub(super) fn parts(chosen: &Selection, beside: usize) -> Result<Vec<String>> {
    let text = ranges(chosen);
    let room = MAX_LINE - beside;
    let mut parts = Vec::new();
    let mut rest = text.as_str();
    while rest.len() > room {
        // Ids are short: there is a comma.
        let comma = rest.get(..room).and_then(|part| part.rfind(','));
        let comma = comma.ok_or(Errno::INVAL)?;
        parts.push(rest[..comma].to_owned());
        rest = &rest[comma + 1..];
    }
    if !rest.is_empty() {
        parts.push(rest.to_owned());
    }
    Ok(parts)
}

/// What is left to do when the list of that name is closed.
pub(crate) fn finish(session: &mut Session, name: &str, is_new: bool, rest: &str) -> Result<()> {
    let lists = [FILTER, NOTRACE, GRAPH, GRAPH_NOTRACE, STACK];
    match lists.iter().find(|list| list.name == name) {
        Some(list) => choose(session, list, is_new, rest),
        None => pids::finish(session, name, is_new, rest),
    }
}

fn depth(session: &mut Session, _: &Of) -> Result<Vec<u8>> {
    Ok(format!("{}\n", session.guest.graph_depth()?).into())
}

fn set_depth(session: &mut Session, _: &Of, text: &str) -> Result<()> {
    let depth = u32::try_from(number(text)?).map_err(|_| Errno::RANGE)?;
    session.guest.set(Setting::GraphDepth(depth))
}

fn graph_stats(session: &mut Session, _: &Of) -> Result<Vec<u8>> {
    let counters = session.guest.graph_counters()?;
    Ok(format!(
        "overrun: {}\nmissed returns: {}\nskipped: {}\n",
        counters.overrun, counters.missed_returns, counters.skipped
    )
    .into())
}
