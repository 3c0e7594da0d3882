//! Reads a task's ELF file in a process of its own first.
//!
//! What reads symbols and debug information is made for what a compiler writes. From a file that somebody made on purpose it may take
//! any time and memory, or end the program. So a process whose time and memory are limited reads all of it, as it is read here later, and
//! says how far it came. What it did not get through is not read here.

use std::io::{Read, Write, stdin, stdout};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::{cell::Cell, panic, thread};

use anyhow::{Context, Result, anyhow, bail};
use defmt_decoder::Table;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::symbolize::{SymbolNames, read_lines};
use crate::{Elf, debug_info, log};

/// The argument by which a program is that process.
pub const ARGUMENT: &str = "__read-task";

/// Processor time that it has, in seconds, and memory, in bytes. A file of 1 MB takes some 0.1 s, one of 50 MB a second. What a file takes
/// here it takes about twice as much of later.
const SECONDS: u64 = 5;
const MEMORY: u64 = 1 << 30;
/// Its stack, no larger than that of any thread that reads the file later.
const STACK: usize = 1 << 20;

/// What it says when it has got so far.
const SYMBOLS: &str = "symbols";
const LINES: &str = "lines";

/// Whether this program can be that process.
static IS_OFFERED: AtomicBool = AtomicBool::new(false);

/// Carries out the process, if this program was started as such; else notes that it can be.
pub fn offer() -> Option<ExitCode> {
    if std::env::args_os().nth(1).is_none_or(|it| it != ARGUMENT) {
        IS_OFFERED.store(true, Relaxed);
        return None;
    }
    Some(match carry_out() {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    })
}

fn carry_out() -> Result<()> {
    let limits = [
        (Resource::As, MEMORY),
        (Resource::Cpu, SECONDS),
        (Resource::Core, 0),
    ];
    for (resource, most) in limits {
        // The user may have set less.
        let most = getrlimit(resource).maximum.map_or(most, |it| it.min(most));
        let limit = Rlimit {
            current: Some(most),
            maximum: Some(most),
        };
        setrlimit(resource, limit)?;
    }
    let mut file = Vec::new();
    stdin().read_to_end(&mut file)?;
    let read = move || {
        read(&file, &mut |text| {
            let _ = writeln!(stdout(), "{text}");
        });
    };
    let thread = thread::Builder::new().stack_size(STACK).spawn(read)?;
    thread.join().map_err(|_| anyhow!("a panic"))
}

/// Reads all that is ever read of a file, and says how far that came.
fn read(file: &[u8], say: &mut dyn FnMut(&str)) {
    let Ok(elf) = Elf::of_task(Path::new(""), file.to_vec()) else {
        return;
    };
    let table = Table::parse(file);
    log::read_texts(file);
    drop(SymbolNames::new(&elf));
    say(SYMBOLS);
    let lines = || {
        debug_info::check(&elf.dwarf()?)?;
        if let Ok(Some(table)) = table {
            let _ = table.get_locations(file);
        }
        read_lines(&elf)
    };
    match lines() {
        Ok(()) => say(LINES),
        Err(error) => say(&format!("{error}").replace('\n', " ")),
    }
}

/// What of a file can be read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Readable {
    /// Its symbols and its debug information.
    All,
    /// Its symbols; the debug information not, for this reason.
    Symbols(String),
}

/// Looks what of a file can be read.
///
/// # Errors
///
/// If nothing can.
pub(crate) fn look(file: &[u8]) -> Result<Readable> {
    let mut said = String::new();
    match IS_OFFERED.load(Relaxed) {
        true => said = told(file).context("no process to read it could be started")?,
        // Some other program, as a test: it takes what time and memory it takes.
        false => {
            let mut say = |text: &str| said += &format!("{text}\n");
            quietly(|| read(file, &mut say));
        }
    }
    let mut said = said.lines();
    if said.next() != Some(SYMBOLS) {
        bail!("{}", limits());
    }
    Ok(match said.next() {
        Some(LINES) => Readable::All,
        Some(reason) => Readable::Symbols(reason.to_owned()),
        None => Readable::Symbols(limits()),
    })
}

/// Looks whether a task's file can be read at all.
///
/// # Errors
///
/// If it cannot.
pub fn check(file: &[u8]) -> Result<()> {
    look(file).map(drop)
}

fn limits() -> String {
    format!(
        "it makes no sense, or reading it takes more than {SECONDS} s or {} MiB",
        MEMORY >> 20
    )
}

/// What that process says of a file.
fn told(file: &[u8]) -> Result<String> {
    let mut process = Command::new("/proc/self/exe")
        .arg(ARGUMENT)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    if let Some(mut input) = process.stdin.take() {
        // It may have ended already.
        let _ = input.write_all(file);
    }
    let output = process.wait_with_output()?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Does what panics when it reads what makes no sense, without a word of it; `None` if it does.
pub(crate) fn quietly<T>(work: impl FnOnce() -> T) -> Option<T> {
    thread_local! {
        static IS_QUIET: Cell<bool> = const { Cell::new(false) };
    }
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let loud = panic::take_hook();
        panic::set_hook(Box::new(move |it| {
            if !IS_QUIET.get() {
                loud(it);
            }
        }));
    });
    let before = IS_QUIET.replace(true);
    let done = catch_unwind(AssertUnwindSafe(work));
    IS_QUIET.set(before);
    done.ok()
}
