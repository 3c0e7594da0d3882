//! Names for addresses: `function (file:line)`.

use std::borrow::Cow;

use addr2line::gimli::{Dwarf, EndianSlice, RunTimeEndian, SectionId};
use object::{Object, ObjectSymbol, SymbolMap, SymbolMapName};

use super::Elf;

type Slice<'e> = EndianSlice<'e, RunTimeEndian>;

/// Looks up addresses of one image: in its debug information where there is some, else among its
/// symbols.
pub struct Symbolizer<'e> {
    elf: &'e Elf,
    lines: Option<addr2line::Context<Slice<'e>>>,
    symbols: Option<SymbolMap<SymbolMapName<'e>>>,
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
        let load = |id: SectionId| -> Result<Slice<'e>, addr2line::gimli::Error> {
            let data = elf.section(id.name()).unwrap_or_default();
            Ok(Slice::new(data, RunTimeEndian::Little))
        };
        let lines = Dwarf::load(load)
            .and_then(addr2line::Context::from_dwarf)
            .ok();
        let symbols = object::File::parse(&*elf.data).ok().map(|file| {
            SymbolMap::new(
                file.symbols()
                    .filter(|symbol| symbol.kind() == object::SymbolKind::Text)
                    .filter_map(|symbol| {
                        Some(SymbolMapName::new(symbol.address(), symbol.name().ok()?))
                    })
                    .collect(),
            )
        });
        Self {
            elf,
            lines,
            symbols,
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
            found.extend(self.nearest_symbol(address));
        }
        found
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

    fn nearest_symbol(&self, address: u64) -> Option<String> {
        let symbol = self.symbols.as_ref()?.get(address)?;
        let name = addr2line::demangle_auto(symbol.name().into(), None);
        Some(format!("{name}+{:#x}", address - symbol.address()))
    }

    /// Repeats `text`, with the names of the code addresses in a line below it.
    #[must_use]
    pub fn annotate(&self, text: &str) -> String {
        let mut out = String::new();
        for line in text.lines() {
            out.push_str(line.trim_end());
            out.push('\n');
            for address in addresses(line) {
                for (depth, name) in self.lookup(address).iter().enumerate() {
                    let inlined = if depth == 0 { "" } else { "inlined into " };
                    out.push_str(&format!("    {address:#x}: {inlined}{name}\n"));
                }
            }
        }
        out
    }
}

/// `file:line`.
fn place_text(place: &addr2line::Location<'_>) -> String {
    let file = shorten(place.file.unwrap_or("?"));
    place
        .line
        .map_or_else(|| file.to_owned(), |line| format!("{file}:{line}"))
}

/// Paths below the workspace without its name; those of the standard library from `library/` on.
fn shorten(file: &str) -> &str {
    let root = crate::paths::workspace();
    let inside = root.to_str().and_then(|root| file.strip_prefix(root));
    if let Some(inside) = inside {
        return inside.trim_start_matches('/');
    }
    file.find("/library/").map_or(file, |at| &file[at + 1..])
}

/// The `0x…` numbers in a line.
fn addresses(line: &str) -> impl Iterator<Item = u64> {
    line.split("0x").skip(1).filter_map(|rest| {
        let end = rest
            .find(|c: char| !c.is_ascii_hexdigit() && c != '_')
            .unwrap_or(rest.len());
        u64::from_str_radix(&rest[..end].replace('_', ""), 16).ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_found_in_text() {
        let found: Vec<_> = addresses("rip=0x20_0010 rsp 0xffff, 0xzz 12 0x7").collect();
        assert_eq!(found, [0x20_0010, 0xffff, 7]);
    }

    #[test]
    fn a_function_of_this_program_has_its_name_and_place() {
        let elf = Elf::open(&std::env::current_exe().unwrap()).unwrap();
        let names = Symbolizer::new(&elf);
        let main = elf.symbol("main").unwrap();
        assert!(names.lookup(main).iter().any(|name| name.contains("main")));
        assert!(names.lookup(0).is_empty());
        assert!(names.annotate(&format!("rip {main:#x}")).lines().count() > 1);
    }
}
