//! Names for addresses: `function (file:line)`.

use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use gimli::ReaderOffset;
use object::{Object, ObjectSection};

use crate::Elf;
use crate::elf::{Owned, Slice};

/// Longest name of a function that is shown, mangled.
const MAX_NAME: u64 = 64 << 10;

/// The functions of an image by address.
#[derive(Debug)]
pub struct SymbolNames {
    /// Ascending: address, mangled name.
    functions: Vec<(u64, String)>,
    end: u64,
}

impl SymbolNames {
    /// Reads the names out of `elf`.
    #[must_use]
    pub fn new(elf: &Elf) -> Self {
        Self {
            functions: elf.functions(),
            end: elf.code_end(),
        }
    }

    /// The functions by ascending address, and a last entry where the code ends.
    pub fn iter(&self) -> impl Iterator<Item = (u64, Cow<'_, str>)> {
        let functions = self
            .functions
            .iter()
            .map(|(address, name)| (*address, addr2line::demangle_auto(name.into(), None)));
        functions.chain([(self.end, "_etext".into())])
    }

    /// The function at `address` and how far into it.
    #[must_use]
    pub fn nearest(&self, address: u64) -> Option<String> {
        let (name, offset, _) = self.find(address)?;
        Some(match offset {
            0 => name,
            offset => format!("{name}+{offset:#x}"),
        })
    }

    /// The function at `address`, how far into it that is, and how long the function is.
    #[must_use]
    pub fn find(&self, address: u64) -> Option<(String, u64, u64)> {
        let after = self
            .functions
            .partition_point(|(start, _)| *start <= address);
        let (start, name) = self.functions.get(after.checked_sub(1)?)?;
        if address >= self.end {
            return None;
        }
        let end = self
            .functions
            .get(after)
            .map_or(self.end, |(next, _)| *next);
        let name = addr2line::demangle_auto(name.into(), None);
        Some((
            name.into_owned(),
            address - start,
            end.saturating_sub(*start),
        ))
    }
}

/// Looks up addresses of one image: in its debug information where there is some, else among its
/// symbols.
pub struct Symbolizer<R: gimli::Reader> {
    code: Vec<Range<u64>>,
    lines: Option<addr2line::Context<R>>,
    symbols: SymbolNames,
}

impl<R: gimli::Reader> std::fmt::Debug for Symbolizer<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Symbolizer").finish_non_exhaustive()
    }
}

impl<'e> Symbolizer<Slice<'e>> {
    /// Prepares to look up addresses of `elf`. An image without debug information is no error.
    #[must_use]
    pub fn new(elf: &'e Elf) -> Self {
        Self::of(elf, elf.dwarf().ok())
    }
}

/// The names of an image that keeps them: made when the first one is asked for.
#[derive(Debug, Default)]
pub(crate) struct Kept(OnceLock<Mutex<Symbolizer<Owned>>>);

impl Elf {
    /// What is at `address`, see [`Symbolizer::lookup`].
    #[must_use]
    pub fn lookup(&self, address: u64) -> Vec<String> {
        self.symbolizer().lookup(address)
    }

    /// `text` with names, see [`Symbolizer::annotate`].
    #[must_use]
    pub fn annotate(&self, text: &str) -> String {
        self.symbolizer().annotate(text)
    }

    fn symbolizer(&self) -> MutexGuard<'_, Symbolizer<Owned>> {
        let made = || Mutex::new(Symbolizer::of(self, dwarf_of(&self.data)));
        let names = self.names.0.get_or_init(made);
        // A look-up changes nothing that could stay half done.
        names.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<R: gimli::Reader> Symbolizer<R> {
    fn of(elf: &Elf, dwarf: Option<gimli::Dwarf<R>>) -> Self {
        Self {
            code: code_of(elf),
            lines: dwarf.and_then(|it| addr2line::Context::from_dwarf(it).ok()),
            symbols: SymbolNames::new(elf),
        }
    }

    /// What is at `address`, the innermost inlined function first. Empty if it is no code of ours.
    #[must_use]
    pub fn lookup(&self, address: u64) -> Vec<String> {
        if !self.code.iter().any(|code| code.contains(&address)) {
            return Vec::new();
        }
        let mut found = self.frames(address).unwrap_or_default();
        if found.is_empty() {
            found.extend(self.symbols.nearest(address));
        }
        found
    }

    /// The line at `address`, as `file:line`: that of the innermost inlined function whose file is not below one of `tools`;
    /// where all are, that of the outermost one of ours. `None` where there is no debug information.
    #[must_use]
    pub fn line(&self, address: u64, tools: &[&str]) -> Option<String> {
        line_that_matters(&self.frames(address)?, tools)
    }

    /// Reads all that look-ups read when it is first needed.
    fn read(&self) -> anyhow::Result<()> {
        if let Some(lines) = &self.lines {
            lines.parse_lines()?;
            lines.parse_inlined_functions()?;
        }
        Ok(())
    }

    fn frames(&self, address: u64) -> Option<Vec<String>> {
        let mut frames = self
            .lines
            .as_ref()?
            .find_frames(address)
            .skip_all_loads()
            .ok()?;
        let mut found = Vec::new();
        while let Some(frame) = frames.next().ok()? {
            let function = frame.function.as_ref();
            let function = function.filter(|it| it.name.len().into_u64() <= MAX_NAME);
            let name = function.and_then(|function| function.demangle().ok());
            let name = name.unwrap_or(Cow::Borrowed("?"));
            found.push(match frame.location {
                Some(place) => format!("{name} ({})", place_text(&place)),
                None => name.into_owned(),
            });
        }
        Some(found)
    }

    /// Repeats `text`, with names in the lines that begin with an address: those of a backtrace.
    #[must_use]
    pub fn annotate(&self, text: &str) -> String {
        let mut out = String::new();
        for line in text.lines() {
            out.push_str(line.trim_end());
            let names = leading_address(line).map(|address| self.lookup(address));
            for (depth, name) in names.iter().flatten().enumerate() {
                match depth {
                    0 => out.push_str(&format!("  {name}")),
                    _ => out.push_str(&format!(
                        "\n{:width$}inlined into {name}",
                        "",
                        width = line.trim_end().len() + 2
                    )),
                }
            }
            out.push('\n');
        }
        out
    }
}

/// The functions that are inlined at addresses of an image. Its debug information is read when it is asked for the first time,
/// and what was found is kept: the addresses of stacks come again and again.
pub struct Inlined {
    image: Arc<[u8]>,
    /// Where its code lies. The debug information may have more, for functions that are not in it.
    code: Vec<Range<u64>>,
    lines: OnceLock<Option<Mutex<Found>>>,
}

/// The debug information, and the names that were found in it.
type Found = (addr2line::Context<Owned>, HashMap<u64, Vec<String>>);

impl std::fmt::Debug for Inlined {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Inlined").finish_non_exhaustive()
    }
}

impl Inlined {
    /// Of `elf`. One without debug information is no error.
    #[must_use]
    pub fn new(elf: &Elf) -> Self {
        Self {
            image: Arc::clone(&elf.data),
            code: code_of(elf),
            lines: OnceLock::new(),
        }
    }

    /// Their names, the innermost first, without the function that they are inlined in.
    #[must_use]
    pub fn at(&self, address: u64) -> Vec<String> {
        if !self.code.iter().any(|code| code.contains(&address)) {
            return Vec::new();
        }
        let lines = self.lines.get_or_init(|| {
            let context = addr2line::Context::from_dwarf(dwarf_of(&self.image)?).ok()?;
            Some(Mutex::new((context, HashMap::new())))
        });
        let Some(lines) = lines else {
            return Vec::new();
        };
        // Names are inserted whole.
        let (lines, known) = &mut *lines.lock().unwrap_or_else(PoisonError::into_inner);
        let names = known.entry(address).or_insert_with(|| {
            let mut names = function_names(lines, address).unwrap_or_default();
            names.pop();
            names
        });
        names.clone()
    }
}

/// The names of the functions at an address, the innermost first, the one that is no inlined one last.
fn function_names(lines: &addr2line::Context<Owned>, address: u64) -> Option<Vec<String>> {
    let mut frames = lines.find_frames(address).skip_all_loads().ok()?;
    let mut names = Vec::new();
    while let Some(frame) = frames.next().ok()? {
        let name = frame.function?.demangle().ok()?.into_owned();
        names.push(without_hash(&name).to_owned());
    }
    Some(names)
}

/// Where an image's code lies.
fn code_of(elf: &Elf) -> Vec<Range<u64>> {
    let code = elf.code().into_iter();
    code.map(|(start, code)| start..start.saturating_add(code.len() as u64))
        .collect()
}

/// The debug information in an image's bytes.
fn dwarf_of(image: &Arc<[u8]>) -> Option<gimli::Dwarf<Owned>> {
    let file = object::File::parse(&**image).ok()?;
    let whole = Owned::new(Arc::clone(image), gimli::RunTimeEndian::Little);
    let section = |id: gimli::SectionId| {
        let range = file.section_by_name(id.name())?.file_range();
        let (from, size) = range.map(|(from, size)| (from as usize, size as usize))?;
        let end = from.checked_add(size).filter(|end| *end <= image.len())?;
        Some(whole.range(from..end))
    };
    gimli::Dwarf::load(|id| Ok::<_, gimli::Error>(section(id).unwrap_or(whole.range(0..0)))).ok()
}

/// What [`Symbolizer::line`] chooses of `frames`, the innermost first.
fn line_that_matters(frames: &[String], tools: &[&str]) -> Option<String> {
    let place = |frame: &String| {
        let (_, place) = frame.rsplit_once(" (")?;
        Some(place.strip_suffix(')')?.to_owned())
    };
    let mut places: Vec<_> = frames.iter().filter_map(place).collect();
    places.retain(|place| !place.contains("library/") && !place.starts_with('?'));
    let is_tool = |place: &&String| tools.iter().any(|tool| place.starts_with(tool));
    let found = places.iter().find(|place| !is_tool(place));
    found.or(places.last()).cloned()
}

/// A function's name without the hash that the compiler puts behind it.
#[must_use]
pub fn without_hash(name: &str) -> &str {
    match name.rsplit_once("::h") {
        Some((plain, hash))
            if hash.len() == 16 && hash.bytes().all(|it| it.is_ascii_hexdigit()) =>
        {
            plain
        }
        _ => name,
    }
}

/// `file:line`.
fn place_text(place: &addr2line::Location<'_>) -> String {
    let file = shorten(place.file.unwrap_or("?"));
    place
        .line
        .map_or_else(|| file.to_owned(), |line| format!("{file}:{line}"))
}

/// As [`takt_base::paths::shown_source`]; those of the standard library from `library/` on.
fn shorten(file: &str) -> &str {
    let shown = takt_base::paths::shown_source(file);
    shown.find("/library/").map_or(shown, |at| &shown[at + 1..])
}

/// Reads what look-ups in an image would read of its debug information.
///
/// # Errors
///
/// If that makes no sense.
pub(crate) fn read_lines(elf: &Elf) -> anyhow::Result<()> {
    Symbolizer::of(elf, dwarf_of(&elf.data)).read()
}

/// The address that a line begins with.
fn leading_address(line: &str) -> Option<u64> {
    let digits = line.trim_start().strip_prefix("0x")?;
    let end = digits
        .find(|c: char| !c.is_ascii_hexdigit())
        .unwrap_or(digits.len());
    u64::from_str_radix(&digits[..end], 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backtraces_lines_begin_with_an_address() {
        assert_eq!(leading_address("  0x0000000000201234"), Some(0x20_1234));
        assert_eq!(leading_address("0x7 x"), Some(7));
        for line in ["", "rip 0x201234", "0x", "0xz", "0x123456789abcdef01"] {
            assert_eq!(leading_address(line), None, "{line}");
        }
    }

    #[test]
    fn the_line_is_the_one_that_a_reader_looks_for() {
        let line = |frames: &[&str]| {
            let frames: Vec<_> = frames.iter().map(|frame| (*frame).to_owned()).collect();
            line_that_matters(&frames, &["k/arch/", "k/lock.rs"])
        };
        let outer = "<a as FnOnce<(b,)>>::call (/rustc/1/library/core/src/ops.rs:5)";
        let frames = [
            "off (k/arch/irq.rs:1)",
            "enter (k/lock.rs:2)",
            "give (k/a.rs:3)",
            outer,
        ];
        assert_eq!(line(&frames).as_deref(), Some("k/a.rs:3"));
        // Where there is nothing but tools, the caller's.
        assert_eq!(
            line(&["off (k/arch/irq.rs:1)", "drop (k/lock.rs:2)", outer]).as_deref(),
            Some("k/lock.rs:2")
        );
        for frames in [&[][..], &["name"], &["name (?:7)"], &[outer]] {
            assert_eq!(line(frames), None, "{frames:?}");
        }
    }

    #[test]
    fn a_function_of_this_program_has_its_name_and_place() {
        let elf = Elf::open(&std::env::current_exe().unwrap()).unwrap();
        let names = Symbolizer::new(&elf);
        let main = elf.symbol("main").unwrap();
        assert!(names.lookup(main).iter().any(|name| name.contains("main")));
        assert!(names.lookup(0).is_empty());
        // The same from the owned bytes, but for the function itself and the places.
        let inlined = Inlined::new(&elf);
        let functions = elf.functions().into_iter().map(|(address, _)| address);
        let with_inlined = functions.filter(|at| names.lookup(*at).len() > 1);
        let mut nr = 0;
        for address in with_inlined.take(20) {
            let found = inlined.at(address);
            let all = names.lookup(address);
            assert_eq!(found.len() + 1, all.len(), "{found:?}, {all:?}");
            for (name, line) in found.iter().zip(&all) {
                assert!(line.starts_with(name.as_str()), "{found:?}, {all:?}");
            }
            nr += 1;
        }
        assert_eq!(nr, 20);
        assert!(inlined.at(0).is_empty());
        let text = names.annotate(&format!("rip {main:#x}\n  {main:#x}\n"));
        let lines: Vec<_> = text.lines().collect();
        assert!(
            !lines[0].contains("main") && lines[1].contains("main"),
            "{text}"
        );
        assert!(
            SymbolNames::new(&elf)
                .nearest(main + 1)
                .is_some_and(|name| name.ends_with("main+0x1"))
        );
    }
}
