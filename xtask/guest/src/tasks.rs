//! Names for addresses of tasks: an image has its tasks' ELF files in a section that is not loaded. Each has a region of its
//! own, so an address says whose it is.

use std::borrow::Cow;

use takt_abi::{FIRST_REGION, REGION};

use crate::Elf;
use crate::symbolize::Symbolizer;

/// Of each task the bytes of its file, 4 of their number before them.
const SECTION: &str = ".takt.task_elf";
/// How an address is written that names are put behind.
const DIGITS: usize = 16;

/// The tasks of an image.
#[derive(Debug)]
pub struct Names(Vec<Elf>);

impl Names {
    /// Of an image, which may have none.
    #[must_use]
    pub fn of(image: &Elf) -> Self {
        let mut tasks = Vec::new();
        let mut rest = image.section(SECTION).unwrap_or_default();
        while let Some((len, behind)) = rest.split_first_chunk() {
            let len = u32::from_le_bytes(*len) as usize;
            let Some((elf, next)) = behind.split_at_checked(len) else {
                break;
            };
            tasks.extend(Elf::parse(&image.path, elf.to_vec()));
            rest = next;
        }
        Self(tasks)
    }

    /// What is at an address of a task's code, the innermost inlined function first.
    #[must_use]
    pub fn lookup(&self, address: u64) -> Vec<String> {
        let task = self.0.iter().find(|elf| elf.is_code(address));
        task.map_or_else(Vec::new, |elf| Symbolizer::new(elf).lookup(address))
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
    fn text_without_tasks_stays_as_it_is() {
        let elf = Elf::open(&std::env::current_exe().unwrap()).unwrap();
        let names = Names::of(&elf);
        let text = "at 0x0000008000000000, 0x12";
        assert_eq!(names.annotate(text), text);
        // As if this program were a task: its addresses are in no region.
        let task = Elf::open(&std::env::current_exe().unwrap()).unwrap();
        let names = Names(vec![task]);
        assert_eq!(names.annotate(text), text);
        let main = elf.symbol("main").unwrap();
        assert!(!names.lookup(main).is_empty());
        assert!(names.lookup(0).is_empty());
    }
}
