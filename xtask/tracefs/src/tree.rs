//! Which files there are, and what they can do.
//!
//! A path is relative to the root and has no leading slash; `""` is the root.

use rustix::io::Errno;

use super::files::{self, File};
use super::session::Session;
use takt_guest::options;

/// Of what a file is, where there are several of its kind.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Of {
    /// There is one.
    All,
    /// A CPU.
    Cpu(usize),
    /// The option of this name.
    Option(&'static str),
    /// The events of a system.
    System(String),
    /// An event, by its id.
    Event(u32),
}

/// What a path leads to.
#[derive(Clone, Debug)]
pub enum Node {
    /// A folder.
    Dir,
    /// A file.
    File(&'static File, Of),
}

/// Follows a path.
///
/// # Errors
///
/// `ENOENT` if it leads nowhere, `ENODEV` if the guest has ended.
pub fn find(session: &Session, path: &str) -> super::Result<Node> {
    let parts: Vec<_> = path.split('/').filter(|part| !part.is_empty()).collect();
    let node = match *parts {
        [] | ["options" | "events" | "per_cpu"] => Some(Node::Dir),
        [files::TRACE_STAT] => files::has_profile(session).then_some(Node::Dir),
        [files::TRACE_STAT, name] if files::has_profile(session) => {
            let cpu = name.strip_prefix(files::FUNCTION_STAT.name);
            let cpu = cpu.map_or(Ok(None), |cpu| self::cpu(session, &format!("cpu{cpu}")))?;
            cpu.map(|cpu| Node::File(&files::FUNCTION_STAT, Of::Cpu(cpu)))
        }
        ["hwlat_detector"] => files::has_hwlat(session).then_some(Node::Dir),
        ["hwlat_detector", name] if files::has_hwlat(session) => file(&files::HWLAT, name, Of::All),
        [files::OSNOISE] => files::has_osnoise(session).then_some(Node::Dir),
        [files::OSNOISE, "per_cpu"] if files::has_osnoise(session) => Some(Node::Dir),
        [files::OSNOISE, "per_cpu", name] if files::has_osnoise(session) => {
            cpu(session, name)?.map(|_| Node::Dir)
        }
        [files::OSNOISE, "per_cpu", name, file] if files::has_osnoise(session) => {
            let cpu = cpu(session, name)?.filter(|_| file == files::TIMERLAT_FD.name);
            cpu.map(|cpu| Node::File(&files::TIMERLAT_FD, Of::Cpu(cpu)))
        }
        [files::OSNOISE, name] if files::has_osnoise(session) => {
            file(&files::OSNOISE_FILES, name, Of::All)
        }
        [name] => files::root(session)
            .find(|file| file.name == files::of_today(name))
            .map(|file| Node::File(file, Of::All)),
        ["options", name] => option_names(session)
            .find(|option| *option == name)
            .map(|option| Node::File(&files::OPTION, Of::Option(option))),
        ["per_cpu", name] => cpu(session, name)?.map(|_| Node::Dir),
        ["per_cpu", name, file_name] => {
            cpu(session, name)?.and_then(|cpu| file(&files::PER_CPU, file_name, Of::Cpu(cpu)))
        }
        ["events", "enable"] => Some(Node::File(&files::ENABLE, Of::All)),
        ["events", system] => has_system(session, system).then_some(Node::Dir),
        ["events", system, name @ ("enable" | "filter")] if has_system(session, system) => {
            file(&files::SYSTEM, name, Of::System(system.to_owned()))
        }
        ["events", system, event] => id(session, system, event).map(|_| Node::Dir),
        ["events", system, event, name] => {
            id(session, system, event).and_then(|id| file(&files::EVENT, name, Of::Event(id)))
        }
        _ => None,
    };
    node.ok_or(Errno::NOENT)
}

/// The names in a folder, folders marked.
///
/// # Errors
///
/// `ENOENT` if there is no such path, `ENOTDIR` if it is a file.
pub fn list(session: &Session, path: &str) -> super::Result<Vec<(String, bool)>> {
    if let Node::File(..) = find(session, path)? {
        return Err(Errno::NOTDIR);
    }
    let parts: Vec<_> = path.split('/').filter(|part| !part.is_empty()).collect();
    let of = |files: &[File]| -> Vec<_> {
        let names = files.iter().map(|file| (file.name.to_owned(), false));
        names.collect()
    };
    let mut names = match *parts {
        [] => {
            let files = files::root(session);
            let mut names: Vec<_> = files.map(|file| (file.name.to_owned(), false)).collect();
            let mut folders = vec!["events", "options", "per_cpu"];
            folders.extend(files::has_hwlat(session).then_some("hwlat_detector"));
            folders.extend(files::has_osnoise(session).then_some(files::OSNOISE));
            folders.extend(files::has_profile(session).then_some(files::TRACE_STAT));
            names.extend(folders.into_iter().map(|dir| (dir.to_owned(), true)));
            names
        }
        [files::TRACE_STAT] => Session::cpus(&session.view()?)
            .map(|cpu| (format!("{}{cpu}", files::FUNCTION_STAT.name), false))
            .collect(),
        ["hwlat_detector"] => of(&files::HWLAT),
        ["options"] => option_names(session)
            .map(|name| (name.to_owned(), false))
            .collect(),
        [files::OSNOISE] => {
            let mut names = of(&files::OSNOISE_FILES);
            names.push(("per_cpu".to_owned(), true));
            names
        }
        [files::OSNOISE, "per_cpu", _] => vec![(files::TIMERLAT_FD.name.to_owned(), false)],
        ["per_cpu"] | [files::OSNOISE, "per_cpu"] => Session::cpus(&session.view()?)
            .map(|cpu| (format!("cpu{cpu}"), true))
            .collect(),
        ["per_cpu", _] => of(&files::PER_CPU),
        ["events"] => {
            let systems = session.known.iter().map(|event| system_of(&event.name).0);
            let mut names: Vec<_> = systems.map(|name| (name.to_owned(), true)).collect();
            names.push(("enable".to_owned(), false));
            names
        }
        ["events", system] => {
            let events = session.known.iter().map(|event| system_of(&event.name));
            let events = events.filter(|(of, _)| *of == system);
            let mut names: Vec<_> = events.map(|(_, name)| (name.to_owned(), true)).collect();
            names.extend(of(&files::SYSTEM));
            names
        }
        _ => of(&files::EVENT),
    };
    names.sort();
    names.dedup();
    Ok(names)
}

/// The options that this guest's traces have.
fn option_names(session: &Session) -> impl Iterator<Item = &'static str> {
    let of_graph = options::GRAPH_NAMES
        .iter()
        .filter(|_| files::has_functions(session));
    options::NAMES.iter().chain(of_graph).copied()
}

fn file(files: &'static [File], name: &str, of: Of) -> Option<Node> {
    let file = files.iter().find(|file| file.name == name)?;
    Some(Node::File(file, of))
}

/// The number of `cpuN`, if it runs.
fn cpu(session: &Session, name: &str) -> super::Result<Option<usize>> {
    let view = session.view()?;
    Ok(Session::cpus(&view).find(|cpu| name == format!("cpu{cpu}")))
}

fn has_system(session: &Session, system: &str) -> bool {
    let mut names = session.known.iter().map(|event| system_of(&event.name).0);
    names.any(|name| name == system)
}

fn id(session: &Session, system: &str, event: &str) -> Option<u32> {
    let wanted = (system, event);
    let mut known = session.known.iter();
    known
        .find(|event| system_of(&event.name) == wanted)
        .map(|event| event.id)
}

/// System and event of a name.
fn system_of(name: &str) -> (&str, &str) {
    name.split_once(':').unwrap_or(("", name))
}
