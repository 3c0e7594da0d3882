//! The functions of an image that can be traced, and which of them a pattern means.
//!
//! The target knows functions by ids, their places in the section `__patchable_function_entries`. Names, wildcards and
//! what a write to ftrace's `set_ftrace_filter` does are here.

mod command;

use std::collections::BTreeSet;
use std::fmt::{self, Write};

use anyhow::{Result, anyhow, ensure};

pub use command::Command;

use super::Elf;
use crate::patterns::glob;
use takt_base::term::WithHelp;

/// The section with the addresses of all entries that can be patched.
const SECTION: &str = "__patchable_function_entries";

/// A set of functions, by their ids.
pub type Selection = BTreeSet<usize>;

/// The functions of an image.
#[derive(Clone, Debug)]
pub struct Functions {
    list: Vec<Function>,
    never: Vec<(String, Never)>,
}

/// Why a function cannot be traced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Never {
    /// The tracer itself, or what runs before or beside all that it needs: in the sections that are never patched.
    Notrace,
    /// Rust without an entry: what is part of an interrupt's entry, or was compiled with the toolchain.
    NoEntry,
    /// Assembly, which has none.
    Assembly,
}

impl fmt::Display for Never {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Notrace => "the tracer's own, or where it cannot record",
            Self::NoEntry => {
                "compiled without an entry that can be patched: part of an interrupt's entry or of a switch, or the \
                 toolchain's"
            }
            Self::Assembly => "assembly, which has no entry that can be patched",
        })
    }
}

/// A function with an entry that can be patched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// Its place in the list.
    pub id: usize,
    /// Where it begins.
    pub address: u64,
    /// Its whole name, as Rust writes paths.
    pub name: String,
    /// Whether the target would patch it.
    pub is_traceable: bool,
}

impl Functions {
    /// Reads the list out of an image.
    ///
    /// # Errors
    ///
    /// If the image was built without such entries, or does not name its functions.
    pub fn of(elf: &Elf) -> Result<Self> {
        let section = elf.section(SECTION).unwrap_or_default();
        if section.is_empty() {
            return Err(anyhow!(
                "the functions of {} cannot be traced",
                elf.path.display()
            ))
            .help(
                "it was built without: cargo xtask build --features image,function; of an application: \
                 cargo xtask run --manifest-path Cargo.toml --append ftrace=function",
            );
        }
        let never = elf.symbol("__notrace_start")?..elf.symbol("__notrace_end")?;
        let names = elf.functions();
        let readable = |name: &String| addr2line::demangle_auto(name.into(), None).into_owned();
        let name_of = |address: u64| {
            let at = names.partition_point(|(start, _)| *start <= address);
            let (start, name) = names.get(at.checked_sub(1)?)?;
            (*start == address).then(|| readable(name))
        };
        let list: Vec<_> = section
            .chunks_exact(8)
            .filter_map(|bytes| Some(u64::from_le_bytes(bytes.try_into().ok()?)))
            .enumerate()
            .map(|(id, address)| Function {
                id,
                address,
                name: name_of(address).unwrap_or_else(|| format!("{address:#x}")),
                is_traceable: !never.contains(&address),
            })
            .collect();
        ensure!(
            list.is_sorted_by(|a, b| a.address < b.address),
            "the functions of {} are not in order",
            elf.path.display()
        );
        let entry = |address: &u64| list.binary_search_by_key(address, |it| it.address).ok();
        let why = |(address, name): &(u64, String)| {
            let is_rust = name.starts_with("_R") || name.starts_with("_ZN");
            let reason = match entry(address) {
                Some(at) if list[at].is_traceable => return None,
                Some(_) => Never::Notrace,
                None if !is_rust => Never::Assembly,
                None if never.contains(address) => Never::Notrace,
                None => Never::NoEntry,
            };
            // Where the linker says that something begins is no function.
            (!name.starts_with("__")).then(|| (readable(name), reason))
        };
        let never = names.iter().filter_map(why).collect();
        Ok(Self { list, never })
    }

    /// Functions of these names, all of them traceable.
    #[cfg(test)]
    pub fn named(names: &[&str]) -> Self {
        let function = |(id, name): (usize, &&str)| Function {
            id,
            address: 64 * id as u64,
            name: (*name).to_owned(),
            is_traceable: true,
        };
        Self {
            list: names.iter().enumerate().map(function).collect(),
            never: Vec::new(),
        }
    }

    /// The functions that cannot be traced, each with the reason. One that was compiled into others is not there: it is
    /// traced as part of those.
    #[must_use]
    pub fn never(&self) -> &[(String, Never)] {
        &self.never
    }

    /// Why a pattern means no function: one that it would mean cannot be traced.
    #[must_use]
    pub fn why_never(&self, pattern: &str) -> Option<Never> {
        let mut never = self.never.iter();
        let found = never.find(|(name, _)| is_meant(pattern, name));
        found.map(|(_, reason)| *reason)
    }

    /// What ftrace's `available_filter_functions` shows.
    pub fn available(&self) -> impl Iterator<Item = &Function> {
        self.list.iter().filter(|function| function.is_traceable)
    }

    /// The function with this id.
    #[must_use]
    pub fn get(&self, id: usize) -> Option<&Function> {
        self.list.get(id)
    }

    /// The functions that a pattern means: `name`, `pre*`, `*post`, `*mid*`, with `?` and `[a-c]` in it. A pattern without `::` is held against the
    /// last part of a name as well.
    pub fn matching<'f>(&'f self, pattern: &'f str) -> impl Iterator<Item = &'f Function> {
        self.available()
            .filter(move |function| is_meant(pattern, &function.name))
    }

    /// How many there are, those that are never traced included.
    #[must_use]
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// The words of what is written to a list. A line that is a function's whole name is one, also where the name has
    /// spaces in it, with a command behind it or not.
    pub fn words<'t>(&'t self, text: &'t str) -> impl Iterator<Item = &'t str> {
        text.lines().flat_map(|line| {
            let line = line.trim();
            let name = match Command::of(line) {
                Some(command) => command.pattern,
                None => line.strip_prefix('!').unwrap_or(line),
            };
            let is_name = name.contains(' ') && self.list.iter().any(|it| it.name == name);
            let whole = is_name.then_some(line);
            let words = (!is_name).then(|| line.split_whitespace());
            whole.into_iter().chain(words.into_iter().flatten())
        })
    }

    /// Adds the functions that a word means, or with `!` before it removes them. Says whether it means any.
    pub fn apply(&self, selection: &mut Selection, word: &str) -> bool {
        let (is_removal, pattern) = word
            .strip_prefix('!')
            .map_or((false, word), |rest| (true, rest));
        let mut found = self.matching(pattern).peekable();
        let is_any = found.peek().is_some();
        for function in found {
            if is_removal {
                selection.remove(&function.id);
            } else {
                selection.insert(function.id);
            }
        }
        is_any
    }

    /// The functions that a list of words chooses. A list of what is wanted that begins with what is not (`!word`) is all
    /// functions but that.
    ///
    /// # Errors
    ///
    /// If a word means no function.
    pub fn chosen<'w>(
        &self,
        words: impl IntoIterator<Item = &'w str>,
        is_of_wanted: bool,
    ) -> Result<Selection> {
        let mut words = words.into_iter().peekable();
        let mut selection = Selection::new();
        if is_of_wanted && words.peek().is_some_and(|word| word.starts_with('!')) {
            selection.extend(self.available().map(|function| function.id));
        }
        for word in words {
            self.write(&mut selection, word, true)?;
        }
        Ok(selection)
    }

    /// Does what writing `words` to `set_ftrace_filter` does: each word adds the functions that it means, with `!`
    /// before it removes them. Without `is_append` (`>`, not `>>`) the selection is empty before.
    ///
    /// # Errors
    ///
    /// If a word means no function. The selection is as before then.
    pub fn write(&self, selection: &mut Selection, words: &str, is_append: bool) -> Result<()> {
        let mut new = if is_append {
            selection.clone()
        } else {
            Selection::new()
        };
        for word in words.split_whitespace() {
            if !self.apply(&mut new, word) {
                let pattern = word.strip_prefix('!').unwrap_or(word);
                return Err(anyhow!("no function is meant by `{pattern}`"))
                    .help("`xtask functions` lists them all, `xtask functions '*lock*'` some");
            }
        }
        *selection = new;
        Ok(())
    }
}

/// Whether a pattern means the function of this name.
fn is_meant(pattern: &str, name: &str) -> bool {
    glob(pattern, name) || (!pattern.contains("::") && glob(pattern, short(name)))
}

/// The last part of a path: what is behind the last `::` that is not inside brackets.
fn short(name: &str) -> &str {
    let mut depth = 0;
    let mut begin = 0;
    let bytes = name.as_bytes();
    for (at, byte) in bytes.iter().enumerate() {
        match byte {
            b'<' | b'{' | b'(' | b'[' => depth += 1,
            b'>' if at > 0 && bytes[at - 1] == b'-' => {}
            b'>' | b'}' | b')' | b']' => depth -= 1,
            // Generic arguments after the name are no part of their own.
            b':' if depth == 0
                && name[at..].starts_with("::")
                && !name[at..].starts_with("::<") =>
            {
                begin = at + 2;
            }
            _ => {}
        }
    }
    let last = &name[begin..];
    last.split_once("::<").map_or(last, |(name, _)| name)
}

/// Ids as the kernel's command line has them: `3,7-12`.
#[must_use]
pub fn ranges(selection: &Selection) -> String {
    let mut text = String::new();
    let mut ids = selection.iter().copied().peekable();
    while let Some(first) = ids.next() {
        let mut last = first;
        while let Some(next) = ids.next_if_eq(&(last + 1)) {
            last = next;
        }
        let comma = if text.is_empty() { "" } else { "," };
        // Writing to a String does not fail.
        let _ = if first == last {
            write!(text, "{comma}{first}")
        } else {
            write!(text, "{comma}{first}-{last}")
        };
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn functions() -> Functions {
        let names = [
            ("takt_main", true),
            ("<takt_kernel::sync::mutex::RawMutex>::lock_slow", true),
            ("<takt_kernel::sync::mutex::RawMutex>::unlock_slow", true),
            ("takt_kernel::lock::lock_smp", true),
            ("<spin::once::Once<fn()>>::try_call_once_slow::<a::b>", true),
            ("takt_tracer::ring::slow::reserve", false),
        ];
        Functions {
            list: names
                .iter()
                .enumerate()
                .map(|(id, (name, is_traceable))| Function {
                    id,
                    address: 32 * id as u64,
                    name: (*name).into(),
                    is_traceable: *is_traceable,
                })
                .collect(),
            never: vec![(
                "takt_kernel::time::timer_interrupt_idle".into(),
                Never::NoEntry,
            )],
        }
    }

    fn written(words: &str) -> Result<Vec<usize>> {
        let mut selection = Selection::new();
        functions().write(&mut selection, words, false)?;
        Ok(selection.into_iter().collect())
    }

    #[test]
    fn patterns_mean_functions() {
        assert_eq!(written("takt_main").unwrap(), [0]);
        assert_eq!(written("lock_slow").unwrap(), [1]);
        assert_eq!(written("lock*").unwrap(), [1, 3]);
        assert_eq!(written("*_slow").unwrap(), [1, 2, 4]);
        assert_eq!(written("*lock*").unwrap(), [1, 2, 3]);
        assert_eq!(written("takt_kernel::lock::*").unwrap(), [3]);
        assert_eq!(written("*lock* !unlock_slow takt_main").unwrap(), [0, 1, 3]);
        assert!(written("").unwrap().is_empty());
        for nothing in ["nothing", "reserve", "!nothing"] {
            assert!(written(nothing).is_err(), "{nothing}");
        }
    }

    #[test]
    fn writing_replaces_and_appends() {
        let functions = functions();
        let mut selection = Selection::new();
        functions.write(&mut selection, "*lock*", false).unwrap();
        functions.write(&mut selection, "takt_main", true).unwrap();
        functions.write(&mut selection, "!lock_smp", true).unwrap();
        assert_eq!(selection, Selection::from([0, 1, 2]));
        assert!(
            functions
                .write(&mut selection, "takt_main nothing", false)
                .is_err()
        );
        assert_eq!(selection, Selection::from([0, 1, 2]));
        functions.write(&mut selection, "takt_main", false).unwrap();
        assert_eq!(selection, Selection::from([0]));
    }

    /// What ftrace's documentation types into `set_ftrace_filter` and `set_ftrace_notrace`, with our names.
    #[test]
    fn the_documents_filters() {
        let functions = functions();
        // Redirection, what is echoed, and what is chosen then.
        let session: [(&str, &str, &[usize]); 11] = [
            (">", "takt_main lock_smp", &[0, 3]),
            (">", "lock*", &[1, 3]),
            (">", "takt_main", &[0]),
            (">>", "lock*", &[0, 1, 3]),
            (">>", "!takt_main", &[1, 3]),
            (">>", "*_slow", &[1, 2, 3, 4]),
            (">>", "!*lock*", &[4]),
            (">", "*mutex* *lock::*", &[1, 2, 3]),
            (">>", "!lock_smp takt_main", &[0, 1, 2]),
            (">>", "", &[0, 1, 2]),
            (">", "", &[]),
        ];
        let mut selection = Selection::new();
        for (redirect, echoed, chosen) in session {
            if redirect == ">" {
                selection.clear();
            }
            for word in functions.words(echoed) {
                assert!(functions.apply(&mut selection, word), "{word}");
            }
            assert!(
                selection.iter().eq(chosen),
                "echo {echoed} {redirect}: {selection:?}"
            );
        }
        for (pattern, chosen) in [
            ("?ock_*", &[1, 3][..]),
            ("lock_s[l-n]*", &[1, 3]),
            ("[!l]*lock_slow", &[1, 2]),
            ("takt_main[", &[]),
        ] {
            let mut selection = Selection::new();
            functions.apply(&mut selection, pattern);
            assert!(selection.iter().eq(chosen), "{pattern}: {selection:?}");
        }
        for nothing in [
            "nothing", "!nothing", "reserve", "lock", "mutex*", "?ock*x", "!", "*",
        ] {
            let is_any = functions.apply(&mut Selection::new(), nothing);
            assert_eq!(is_any, nothing == "*", "{nothing}");
        }
    }

    #[test]
    fn what_cannot_be_traced_has_a_reason() {
        let functions = functions();
        for pattern in ["timer_interrupt_idle", "takt_kernel::time::*", "*idle"] {
            assert_eq!(
                functions.why_never(pattern),
                Some(Never::NoEntry),
                "{pattern}"
            );
        }
        assert_eq!(functions.why_never("takt_main"), None);
    }

    /// A whole line that is a name is one word.
    #[test]
    fn names_with_spaces() {
        let mut functions = functions();
        functions.list[0].name = "<a as b>::c".into();
        functions.list[1].name = "<[u8]>::len".into();
        assert!(functions.matching("<[u8]>::len").eq([&functions.list[1]]));
        let words = |text: &'static str| functions.words(text).collect::<Vec<_>>();
        assert_eq!(
            words("<a as b>::c\nlock* x\n"),
            ["<a as b>::c", "lock*", "x"]
        );
        assert_eq!(words("!<a as b>::c"), ["!<a as b>::c"]);
        assert_eq!(
            words("!<a as b>::c:traceoff:3"),
            ["!<a as b>::c:traceoff:3"]
        );
        assert_eq!(words("<a as b>::c x"), ["<a", "as", "b>::c", "x"]);
        let mut selection = Selection::new();
        assert!(functions.apply(&mut selection, "<a as b>::c"));
        assert_eq!(selection, Selection::from([0]));
    }

    #[test]
    fn the_last_part_of_a_name() {
        for (name, last) in [
            ("takt_main", "takt_main"),
            ("a::b::c", "c"),
            ("<a::b as c::d>::e", "e"),
            ("<a::b>::e::<f::g>", "e"),
            ("a::{closure#0}", "{closure#0}"),
            (
                "core::ptr::drop_in_place::<fn(a::b) -> c::d>",
                "drop_in_place",
            ),
        ] {
            assert_eq!(short(name), last, "{name}");
        }
    }

    #[test]
    fn ids_are_written_as_ranges() {
        assert_eq!(ranges(&Selection::from([3, 7, 8, 9, 12])), "3,7-9,12");
        assert_eq!(ranges(&Selection::new()), "");
    }
}
