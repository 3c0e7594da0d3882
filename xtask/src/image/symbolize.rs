//! Names for addresses: `function (file:line)`.

use std::borrow::Cow;

use super::Elf;
use super::elf::Slice;

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
pub struct Symbolizer<'e> {
    elf: &'e Elf,
    lines: Option<addr2line::Context<Slice<'e>>>,
    symbols: SymbolNames,
}

impl std::fmt::Debug for Symbolizer<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Symbolizer")
            .field("elf", &self.elf.path)
            .finish_non_exhaustive()
    }
}

impl<'e> Symbolizer<'e> {
    /// Prepares to look up addresses of `elf`. An image without debug information is no error.
    #[must_use]
    pub fn new(elf: &'e Elf) -> Self {
        let lines = elf.dwarf().and_then(addr2line::Context::from_dwarf).ok();
        Self {
            elf,
            lines,
            symbols: SymbolNames::new(elf),
        }
    }

    /// What is at `address`, the innermost inlined function first. Empty if it is no code of ours.
    #[must_use]
    pub fn lookup(&self, address: u64) -> Vec<String> {
        if !self.elf.is_code(address) {
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

    fn frames(&self, address: u64) -> Option<Vec<String>> {
        let mut frames = self
            .lines
            .as_ref()?
            .find_frames(address)
            .skip_all_loads()
            .ok()?;
        let mut found = Vec::new();
        while let Some(frame) = frames.next().ok()? {
            let name = frame
                .function
                .as_ref()
                .and_then(|function| function.demangle().ok());
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

/// Paths below the project's folder and Takt's sources without their names; those of the standard library from `library/` on.
fn shorten(file: &str) -> &str {
    let roots = [crate::paths::project(), crate::paths::workspace()];
    let inside = |root: &std::path::PathBuf| file.strip_prefix(root.to_str()?);
    if let Some(inside) = roots.iter().find_map(inside) {
        return inside.trim_start_matches('/');
    }
    file.find("/library/").map_or(file, |at| &file[at + 1..])
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
