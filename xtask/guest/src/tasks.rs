//! Names for addresses of tasks: an image has its tasks' ELF files in a section that is not loaded. Each has a region of its
//! own, so an address says whose it is.

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use anyhow::Result;
use takt_abi::{FIRST_REGION, REGION};
use takt_base::term;

use crate::Elf;
use crate::apart::{self, Readable, quietly};
use crate::log::Formats;
use crate::symbolize::SymbolNames;

/// Of each task how many bytes its file has, and its name, 4 bytes each; then the name, and the file's bytes.
const SECTION: &str = ".takt.task_elf";
/// How an address is written that names are put behind.
const DIGITS: usize = 16;
/// So many addresses of a text have names: a task's text may be all addresses.
const MAX_ADDRESSES: usize = 16;
/// Characters of a name that are shown.
const MAX_NAME: usize = 1024;

/// A task of an image.
#[derive(Debug)]
pub(crate) struct Task {
    /// Its name.
    pub(crate) name: String,
    path: PathBuf,
    /// Its ELF file.
    file: Vec<u8>,
    known: OnceLock<Option<Known>>,
    /// The formats of its log.
    pub(crate) formats: Formats,
}

/// What is known of a task's ELF file, once something of it is wanted.
#[derive(Debug)]
pub(crate) struct Known {
    pub(crate) elf: Elf,
    /// Whether its debug information can be read.
    pub(crate) has_lines: bool,
    symbols: SymbolNames,
}

impl Task {
    fn new(name: String, path: &Path, file: Vec<u8>) -> Self {
        Self {
            name,
            path: path.to_owned(),
            file,
            known: OnceLock::new(),
            formats: Formats::default(),
        }
    }

    /// Its ELF file, if it can be read. What cannot is said once.
    pub(crate) fn known(&self) -> Option<&Known> {
        let name = &self.name;
        let known = || {
            let (has_lines, elf) = match apart::look(&self.file) {
                Ok(Readable::All) => (true, self.elf()),
                Ok(Readable::Symbols(reason)) => {
                    term::note(format!(
                        "the debug information of the task `{name}` is not read, so its addresses have no lines: {}",
                        shown(&reason)
                    ));
                    (false, self.elf())
                }
                Err(error) => (false, Err(error)),
            };
            match elf {
                Ok(elf) => Some(Known {
                    has_lines,
                    symbols: SymbolNames::new(&elf),
                    elf,
                }),
                Err(error) => {
                    term::note(format!(
                        "the ELF file of the task `{name}` is not read, so neither its log nor its addresses are: {}",
                        shown(&term::one_line(&error))
                    ));
                    None
                }
            }
        };
        self.known.get_or_init(known).as_ref()
    }

    fn elf(&self) -> Result<Elf> {
        Elf::of_task(&self.path, self.file.clone())
    }

    /// What is at an address of its code, see [`Names::lookup`].
    fn lookup(&self, address: u64) -> Vec<String> {
        let Some(known) = self.known().filter(|it| it.elf.is_code(address)) else {
            return Vec::new();
        };
        let names = || match known.has_lines {
            true => known.elf.lookup(address),
            false => known.symbols.nearest(address).into_iter().collect(),
        };
        let names = quietly(names).unwrap_or_default();
        names.iter().map(|name| shown(name)).collect()
    }
}

/// A name as it is shown: it is what the task says.
fn shown(name: &str) -> String {
    term::in_line(&name.chars().take(MAX_NAME).collect::<String>())
}

/// The tasks of an image, in the order of their numbers.
fn all(image: &Elf) -> Vec<Task> {
    let mut tasks = Vec::new();
    let mut rest = image.section(SECTION).unwrap_or_default();
    while let Some((task, behind)) = task(&image.path, rest) {
        tasks.push(task);
        rest = behind;
    }
    tasks
}

/// The first of these, and what is behind it.
fn task<'b>(path: &Path, bytes: &'b [u8]) -> Option<(Task, &'b [u8])> {
    let len = |bytes: &[u8; 4]| u32::from_le_bytes(*bytes) as usize;
    let (elf_len, rest) = bytes.split_first_chunk()?;
    let (name_len, rest) = rest.split_first_chunk()?;
    let (name, rest) = rest.split_at_checked(len(name_len))?;
    let (elf, rest) = rest.split_at_checked(len(elf_len))?;
    let name = String::from_utf8_lossy(name).into_owned();
    Some((Task::new(name, path, elf.to_vec()), rest))
}

/// The tasks of an image, for whoever wants names of addresses.
#[derive(Debug)]
pub struct Names(Vec<Task>);

impl Names {
    /// Of an image, which may have none.
    #[must_use]
    pub fn of(image: &Elf) -> Self {
        Self(all(image))
    }

    /// The task of this number.
    pub(crate) fn task(&self, number: usize) -> Option<&Task> {
        self.0.get(number)
    }

    /// What is at an address of a task's code, the innermost inlined function first.
    #[must_use]
    pub fn lookup(&self, address: u64) -> Vec<String> {
        let task = self.task_of(address);
        task.map_or_else(Vec::new, |it| it.lookup(address))
    }

    /// The task that has an address in its region.
    fn task_of(&self, address: u64) -> Option<&Task> {
        let at = address.checked_sub(FIRST_REGION as u64)?;
        self.task((at / REGION as u64) as usize)
    }

    /// The text, with a name behind each address of a task's code that is written with all its digits, up to
    /// 16 of them.
    #[must_use]
    pub fn annotate<'t>(&self, text: &'t str) -> Cow<'t, str> {
        if self.0.is_empty() {
            return text.into();
        }
        let mut out = String::new();
        let mut rest = text;
        let mut nr = 0;
        while let Some(at) = rest.find("0x") {
            let end = at + 2 + DIGITS;
            let Some(address) = rest
                .get(at + 2..end)
                .and_then(|it| u64::from_str_radix(it, 16).ok())
            else {
                out.push_str(&rest[..at + 2]);
                rest = &rest[at + 2..];
                continue;
            };
            out.push_str(&rest[..end]);
            rest = &rest[end..];
            let task = self.task_of(address).filter(|_| nr < MAX_ADDRESSES);
            nr += usize::from(task.is_some());
            let found = task.map_or_else(Vec::new, |it| it.lookup(address));
            // The task's own, if there is one, and not what the library has inlined into it.
            let own = found.iter().find(|name| !name.contains("(library/"));
            if let Some(name) = own.or(found.first()) {
                out.push_str(&format!(" = {name}"));
            }
        }
        out.push_str(rest);
        out.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_no_more_than_a_name() {
        assert_eq!(
            shown("a::b (\x1b[31mc.rs\n:3)"),
            "a::b (\\u{1b}[31mc.rs\\n:3)"
        );
        assert_eq!(shown(&"x".repeat(5000)).len(), MAX_NAME);
    }

    #[test]
    fn text_without_tasks_stays_as_it_is() {
        let elf = Elf::open(&std::env::current_exe().unwrap()).unwrap();
        let names = Names::of(&elf);
        let text = "at 0x0000008000000000, 0x12";
        assert_eq!(names.annotate(text), text);
    }

    /// An ELF file with the function `f`, a page of code here.
    fn file(base: u64) -> Vec<u8> {
        const CODE: u64 = 0x1000;
        let words = |all: &[u64]| {
            all.iter()
                .flat_map(|it| it.to_le_bytes())
                .collect::<Vec<_>>()
        };
        let two = |low: u64, high: u64| low | high << 32;
        // A program header, a section of symbols, and one of their names, which is called like nothing.
        let magic = u64::from_le_bytes(*b"\x7fELF\x02\x01\x01\0");
        let sections = 64 + 56 + 48 + 8;
        let header = [
            magic,
            0,
            two(62 << 16 | 2, 1),
            base,
            64,
            sections,
            64 << 32 | 56 << 48,
            1 | 64 << 16 | 4 << 32 | 3 << 48,
        ];
        let loaded = [two(1, 5), 0, base, base, CODE, CODE, CODE];
        let symbols = [0, 0, 0, two(1, 0x1_0012), base, 16];
        let section = |kind, flags, at, offset, size, link, entry| {
            [two(0, kind), flags, at, offset, size, link, 8, entry]
        };
        let all = [
            section(0, 0, 0, 0, 0, 0, 0),
            section(1, 6, base, 0, CODE, 0, 0),
            section(2, 0, 0, 64 + 56, 48, 3, 24),
            section(3, 0, 0, 64 + 56 + 48, 3, 0, 0),
        ];
        let parts = [
            &header[..],
            &loaded,
            &symbols,
            &[u64::from_le_bytes(*b"\0f\0\0\0\0\0\0")],
            all.as_flattened(),
        ];
        let mut file = words(&parts.concat());
        file.resize(CODE as usize, 0);
        file
    }

    #[test]
    fn so_many_addresses_of_a_text_have_names() {
        let file = |number: usize| file((FIRST_REGION + number * REGION) as u64);
        let task = |number| Task::new("task".into(), Path::new(""), file(number));
        let names = Names(vec![task(0), task(1)]);
        let address = |number: usize, at| format!("{:#018x} ", FIRST_REGION + number * REGION + at);
        let text = address(1, 4) + &address(0, 0) + &address(0, 0x1000) + &address(2, 0);
        let named = text
            .replacen(" ", " = f+0x4 ", 1)
            .replacen("000 ", "000 = f ", 1);
        assert_eq!(names.annotate(&text), named);
        for outside in [0, u64::MAX, (FIRST_REGION + 2 * REGION) as u64] {
            assert!(names.lookup(outside).is_empty(), "{outside:#x}");
        }
        let text = address(0, 0).repeat(100);
        assert_eq!(names.annotate(&text).matches(" = f").count(), MAX_ADDRESSES);
    }
}
