//! Names for addresses of tasks: an image has its tasks' ELF files in a section that is not loaded. Each has a region of its
//! own, so an address says whose it is.

use std::borrow::Cow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::OnceLock;

use anyhow::anyhow;
use takt_abi::{FIRST_REGION, REGION};
use takt_base::term;

use crate::Elf;
use crate::debug_info;
use crate::log::Formats;
use crate::symbolize::SymbolNames;

/// Of each task how many bytes its file has, and its name, 4 bytes each; then the name, and the file's bytes.
const SECTION: &str = ".takt.task_elf";
/// How an address is written that names are put behind.
const DIGITS: usize = 16;
/// Characters of a name that are shown.
const MAX_NAME: usize = 1024;

/// A task of an image.
#[derive(Debug)]
pub(crate) struct Task {
    /// Its name.
    pub(crate) name: String,
    /// Its ELF file.
    pub(crate) elf: Elf,
    /// The formats of its log.
    pub(crate) formats: Formats,
    /// Whether its debug information is read, when that is known.
    has_lines: OnceLock<bool>,
}

impl Task {
    fn new(name: String, elf: Elf) -> Self {
        Self {
            name,
            elf,
            formats: Formats::default(),
            has_lines: OnceLock::new(),
        }
    }

    /// Whether its debug information is read. What could end the reader is not, which is said once.
    pub(crate) fn has_lines(&self) -> bool {
        *self.has_lines.get_or_init(|| {
            let checked = || debug_info::check(&self.elf.dwarf()?);
            let checked = catch_unwind(AssertUnwindSafe(checked));
            let checked = checked.unwrap_or_else(|_| Err(anyhow!("it makes no sense")));
            if let Err(error) = &checked {
                term::note(format!(
                    "the debug information of the task `{}` is not read, so its addresses have no lines: {error}",
                    self.name
                ));
            }
            checked.is_ok()
        })
    }

    /// What is at an address of its code, see [`Names::lookup`].
    fn lookup(&self, address: u64) -> Vec<String> {
        let symbol = || SymbolNames::new(&self.elf).nearest(address);
        let names = || match self.has_lines() {
            true => self.elf.lookup(address),
            false => symbol().into_iter().collect(),
        };
        let names = catch_unwind(AssertUnwindSafe(names)).unwrap_or_default();
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
    let elf = Elf::of_task(path, elf.to_vec()).ok()?;
    Some((Task::new(name, elf), rest))
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
        let task = self.0.iter().find(|it| it.elf.is_code(address));
        task.map_or_else(Vec::new, |it| it.lookup(address))
    }

    /// The text, with a name behind each address of a task's code that is written with all its digits.
    #[must_use]
    pub fn annotate<'t>(&self, text: &'t str) -> Cow<'t, str> {
        if self.0.is_empty() {
            return text.into();
        }
        let mut out = String::new();
        let mut rest = text;
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
            let regions = FIRST_REGION as u64..(FIRST_REGION + 64 * REGION) as u64;
            let found = regions.contains(&address).then(|| self.lookup(address));
            let found = found.unwrap_or_default();
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
        // As if this program were a task: its addresses are in no region.
        let own = Elf::open(&std::env::current_exe().unwrap()).unwrap();
        let names = Names(vec![Task::new("task".into(), own)]);
        assert_eq!(names.annotate(text), text);
        let main = elf.symbol("main").unwrap();
        assert!(!names.lookup(main).is_empty());
        assert!(names.lookup(0).is_empty());
    }
}
