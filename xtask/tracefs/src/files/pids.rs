//! Lists of threads: of which functions are traced, and of which events are recorded.

use rustix::io::Errno;
use takt_tracer::control::Setting;
use takt_tracer::control::setting::Ids;
use takt_tracer::rules::{RulesView, ThreadList};

use super::File;
use super::functions::{has_functions, ids};
use crate::Result;
use crate::guest::Guest;
use crate::session::Session;
use takt_guest::functions::{Selection, ranges};

/// The file of a list of threads.
macro_rules! pid_file {
    ($list:ident) => {
        File::new(
            $list.name,
            Some(|session, _| show(session, &$list)),
            Some(|session, _, text| write(session, &$list, text)),
        )
        .truncating(|session| session.truncate($list.name))
    };
}

/// The files, in the root.
pub(super) static FILES: [File; 3] = [
    pid_file!(EVENT),
    pid_file!(EVENT_NOTRACE),
    pid_file!(FUNCTION).if_there(has_functions),
];

/// A file with a list of threads.
struct PidFile {
    name: &'static str,
    /// What is shown where there are none.
    says: &'static str,
    get: fn(&Guest) -> Result<Selection>,
    setting: fn(Ids<'_>) -> Setting<'_>,
}

const FUNCTION: PidFile = PidFile {
    name: "set_ftrace_pid",
    says: "no pid\n",
    get: |guest| Ok(guest.traced_threads()?.unwrap_or_default()),
    setting: |ids| Setting::Pids(ids),
};
const EVENT: PidFile = PidFile {
    name: "set_event_pid",
    says: "",
    get: |guest| of_events(guest, ThreadList::Only),
    setting: |ids| Setting::EventPids(ids),
};
const EVENT_NOTRACE: PidFile = PidFile {
    name: "set_event_notrace_pid",
    says: "",
    get: |guest| of_events(guest, ThreadList::Not),
    setting: |ids| Setting::EventNotracePids(ids),
};

fn of_events(guest: &Guest, list: ThreadList) -> Result<Selection> {
    let rules = guest.rules()?;
    let threads = RulesView::new(&rules).threads(list);
    Ok(threads.map(usize::from).collect())
}

/// Idle threads are one, number 0, as in Linux.
fn show(session: &mut Session, file: &PidFile) -> Result<Vec<u8>> {
    session.close()?;
    let threads = (file.get)(&session.guest)?;
    if threads.is_empty() {
        return Ok(file.says.into());
    }
    let nr_idle = usize::from(session.guest.nr_idle());
    let is_idle = |tid: &usize| *tid < nr_idle;
    let idle = threads.iter().any(is_idle).then_some(0);
    let others = threads.iter().copied().filter(|tid| !is_idle(tid));
    let lines = idle.into_iter().chain(others);
    Ok(lines
        .map(|pid| format!("{pid}\n"))
        .collect::<String>()
        .into())
}

fn write(session: &mut Session, file: &PidFile, text: &str) -> Result<()> {
    session.write_list(file.name, text, |session, is_new, lines| {
        choose(session, file, is_new, lines)
    })
}

fn choose(session: &mut Session, file: &PidFile, is_new: bool, text: &str) -> Result<()> {
    let mut threads = match is_new {
        true => Selection::new(),
        false => (file.get)(&session.guest)?,
    };
    let nr_idle = usize::from(session.guest.nr_idle());
    for word in text.split_whitespace() {
        match word.parse::<u8>() {
            Ok(0) => threads.extend(0..nr_idle),
            Ok(tid) => {
                threads.insert(tid.into());
            }
            Err(_) => {
                let at = word.as_ptr().addr() - text.as_ptr().addr();
                session.complain(file.name, text.trim_end(), at, "No number of a thread");
                return Err(Errno::INVAL);
            }
        }
    }
    session.guest.set((file.setting)(ids(&ranges(&threads))?))
}

/// What is left to do when the list of that name is closed.
pub(super) fn finish(session: &mut Session, name: &str, is_new: bool, rest: &str) -> Result<()> {
    let lists = [FUNCTION, EVENT, EVENT_NOTRACE];
    match lists.iter().find(|list| list.name == name) {
        Some(list) => choose(session, list, is_new, rest),
        None => Ok(()),
    }
}
