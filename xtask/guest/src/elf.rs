//! [`Elf`]: what the host needs to know of an image.

use std::collections::HashMap;
use std::io::Read;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, anyhow};
use object::elf::{FileHeader64, PT_LOAD};
use object::read::elf::{FileHeader, ProgramHeader};
use object::{Endianness, Object, ObjectSection, ObjectSymbol, SectionKind};
use takt_timerlat::stats::Status;
use takt_timerlat::sweep::SweepBlock;
use takt_tracer::control::ControlBlock;

use takt_base::input;
use takt_base::term::Help;

use crate::symbolize::Kept;

/// Bytes of the debug information.
pub type Slice<'e> = gimli::EndianSlice<'e, gimli::RunTimeEndian>;
/// The same, which holds on to the image.
pub type Owned = gimli::EndianArcSlice<gimli::RunTimeEndian>;

/// An image's ELF file, read.
#[derive(Debug)]
pub struct Elf {
    /// Where it is.
    pub path: PathBuf,
    /// Its bytes.
    pub data: Arc<[u8]>,
    symbols: HashMap<String, u64>,
    segments: Vec<Segment>,
    code: Vec<Code>,
    pub(crate) names: Kept,
}

/// A section of code: its addresses, and where they lie in the file.
#[derive(Clone, Debug)]
struct Code {
    addresses: Range<u64>,
    offset: u64,
}

/// A loaded range: virtual addresses and where they lie in RAM.
#[derive(Clone, Copy, Debug)]
struct Segment {
    vaddr: u64,
    paddr: u64,
    size: u64,
    executable: bool,
}

/// What images may lack: the symbol, what an image without it cannot do, and what to do then.
const LACKS: [(&str, &str, &str); 4] = [
    (
        Status::SYMBOL,
        "measures no latencies: it has none of takt_timerlat's workloads",
        "boot it by `cargo xtask run --image`; without --image Takt's own image measures",
    ),
    (
        SweepBlock::SYMBOL,
        "takes no part in sweeps",
        "an image that can be swept calls takt_board::sweep::start at its beginning",
    ),
    (
        "takt_mark_begin",
        "marks nothing to be swept",
        "mark a stretch by takt_timerlat's sweep_begin!() and sweep_end!(), or name a function: --entry",
    ),
    (
        ControlBlock::SYMBOL,
        "cannot be controlled while it runs",
        "an image that can be calls takt_board::control::start at its beginning",
    ),
];

/// The stacks, whose addresses no segment covers: the image has a list of them and of their memory
/// (`takt_kernel::thread::stack`). None if it has no symbols.
fn stacks(file: &object::File<'_>) -> Option<Vec<Segment>> {
    let symbol = |name| {
        let found = file.symbols().find(|it| it.name() == Ok(name))?;
        Some(found.address())
    };
    let (start, end) = (symbol("__stacks_start")?, symbol("__stacks_end")?);
    let rodata = file.section_by_name(".rodata")?;
    let list = rodata.data_range(start, end.checked_sub(start)?).ok()??;
    Some(stacks_in(list))
}

/// Those of a list; what makes no sense is left out.
fn stacks_in(list: &[u8]) -> Vec<Segment> {
    let entries = list.chunks_exact(24).filter_map(|entry| {
        let word = |at: usize| entry[at..].first_chunk().map(|it| u64::from_le_bytes(*it));
        let (vaddr, paddr, size_and_nr) = (word(0)?, word(8)?, word(16)?);
        let (size, nr) = (size_and_nr & 0xffff_ffff, size_and_nr >> 32);
        // A thread's id is one byte.
        let nr = (nr <= 256).then_some(nr)?;
        vaddr.checked_add((nr + 1) * (GUARD + size))?;
        paddr.checked_add(nr * size)?;
        Some((0..nr).map(move |n| Segment {
            vaddr: vaddr + n * (GUARD + size) + GUARD,
            paddr: paddr + n * size,
            size,
            executable: false,
        }))
    });
    entries.flatten().collect()
}

/// Bytes below each stack that no memory backs.
const GUARD: u64 = 64 << 10;

/// Where the memory ends that an image takes, by the headers at the beginning of its file; `None` if it is no ELF file.
///
/// # Errors
///
/// If the file cannot be read.
pub fn memory_end(path: &Path) -> Result<Option<u64>> {
    /// Bytes of the file in which its headers lie.
    const HEADERS: u64 = 4096;
    let mut head = Vec::new();
    let file = input::open(path).with_context(|| format!("cannot open {}", path.display()))?;
    file.take(HEADERS).read_to_end(&mut head)?;
    let ends = |header: &FileHeader64<Endianness>| {
        let endian = header.endian()?;
        let parts = header.program_headers(endian, &*head)?.iter();
        let loaded = parts.filter(|it| it.p_type(endian) == PT_LOAD);
        Ok(loaded
            .map(|it| it.p_paddr(endian).saturating_add(it.p_memsz(endian)))
            .max())
    };
    Ok(FileHeader64::parse(&*head).and_then(ends).ok().flatten())
}

impl Elf {
    /// Reads an ELF file for x86-64.
    ///
    /// # Errors
    ///
    /// If it cannot be read or is something else.
    pub fn open(path: &Path) -> Result<Self> {
        let data = input::read(path)
            .with_context(|| format!("cannot read the image {}", path.display()))?;
        Self::parse(path, data).with_context(|| format!("{} is not an image", path.display()))
    }

    /// Reads these bytes; `path` is where they are said to be from.
    ///
    /// # Errors
    ///
    /// If they are no such file.
    pub fn parse(path: &Path, data: Vec<u8>) -> Result<Self> {
        let mut image = Self::of_task(path, data)?;
        let stacks = stacks(&object::File::parse(&*image.data)?);
        image.segments.extend(stacks.unwrap_or_default());
        Ok(image)
    }

    /// Reads those of a task: what its symbols are called says nothing.
    pub(crate) fn of_task(path: &Path, data: Vec<u8>) -> Result<Self> {
        let file = object::File::parse(&*data)?;
        let symbols = file
            .symbols()
            .filter(|symbol| !symbol.is_undefined())
            .filter_map(|symbol| Some((symbol.name().ok()?.to_owned(), symbol.address())))
            .collect();
        let header = object::elf::FileHeader64::<Endianness>::parse(&*data)?;
        let endian = header.endian()?;
        let segments = header
            .program_headers(endian, &*data)?
            .iter()
            .filter(|segment| segment.p_type(endian) == PT_LOAD)
            .map(|segment| Segment {
                vaddr: segment.p_vaddr(endian),
                paddr: segment.p_paddr(endian),
                size: segment.p_memsz(endian),
                executable: segment.p_flags(endian) & object::elf::PF_X != 0,
            })
            .collect();
        let code = file.sections().filter_map(|section| {
            let (offset, size) = section.file_range()?;
            let start = section.address();
            let addresses = start..start.checked_add(size)?;
            (section.kind() == SectionKind::Text).then_some(Code { addresses, offset })
        });
        Ok(Self {
            path: path.to_owned(),
            symbols,
            segments,
            code: code.collect(),
            names: Kept::default(),
            data: data.into(),
        })
    }

    /// The virtual address of a symbol.
    ///
    /// # Errors
    ///
    /// If the image has no such symbol.
    pub fn symbol(&self, name: &str) -> Result<u64> {
        self.symbols.get(name).copied().ok_or_else(|| {
            let path = self.path.display();
            match LACKS.iter().find(|(symbol, ..)| *symbol == name) {
                Some((_, what, advice)) => {
                    anyhow!("the image {path} {what}").context(Help((*advice).into()))
                }
                None => anyhow!("the image {path} has no symbol `{name}`"),
            }
        })
    }

    /// Whether it lacks the console, which is what a person at a real machine sees. Of one without symbols nobody knows.
    #[must_use]
    pub fn lacks_console(&self) -> bool {
        /// As the names of the module's functions have it.
        const CONSOLE: &str = "10takt_board7console";
        !self.symbols.is_empty() && !self.symbols.keys().any(|name| name.contains(CONSOLE))
    }

    /// Where a symbol lies in the guest's RAM.
    ///
    /// # Errors
    ///
    /// If the image has no such symbol.
    pub fn physical(&self, name: &str) -> Result<u64> {
        self.symbol(name).map(|address| self.to_physical(address))
    }

    /// The physical address of a virtual one. What no segment covers is mapped one to one.
    #[must_use]
    pub fn to_physical(&self, address: u64) -> u64 {
        self.segments
            .iter()
            .find(|segment| segment.contains(address))
            .map_or(address, |segment| address - segment.vaddr + segment.paddr)
    }

    /// What begins at addresses of the code, ascending: address and mangled name. Where several
    /// names are of one address, a function's is the last.
    #[must_use]
    pub fn functions(&self) -> Vec<(u64, String)> {
        let Ok(file) = object::File::parse(&*self.data) else {
            return Vec::new();
        };
        let mut found: Vec<_> = file
            .symbols()
            .filter(|symbol| self.is_code(symbol.address()))
            .filter_map(|symbol| {
                let is_function = symbol.kind() == object::SymbolKind::Text;
                Some((
                    symbol.address(),
                    is_function,
                    symbol.name().ok()?.to_owned(),
                ))
            })
            .filter(|(_, _, name)| !name.is_empty())
            .collect();
        found.sort_unstable();
        found
            .into_iter()
            .map(|(address, _, name)| (address, name))
            .collect()
    }

    /// Where the code ends.
    #[must_use]
    pub fn code_end(&self) -> u64 {
        let code = self.segments.iter().filter(|segment| segment.executable);
        code.map(|segment| segment.vaddr.saturating_add(segment.size))
            .max()
            .unwrap_or_default()
    }

    /// Whether an address is in the image's code.
    #[must_use]
    pub fn is_code(&self, address: u64) -> bool {
        self.segments
            .iter()
            .any(|segment| segment.executable && segment.contains(address))
    }

    /// The linker's id of the image, as its note has it.
    #[must_use]
    pub fn build_id(&self) -> Option<Vec<u8>> {
        let file = object::File::parse(&*self.data).ok()?;
        Some(file.build_id().ok()??.to_owned())
    }

    /// The bytes of a section.
    #[must_use]
    pub fn section(&self, name: &str) -> Option<&[u8]> {
        let file = object::File::parse(&*self.data).ok()?;
        file.section_by_name(name)?.data().ok()
    }

    /// The sections of code: address and bytes.
    #[must_use]
    pub fn code(&self) -> Vec<(u64, &[u8])> {
        let Ok(file) = object::File::parse(&*self.data) else {
            return Vec::new();
        };
        let is_code = |section: &object::Section<'_, '_>| section.kind() == SectionKind::Text;
        let sections = file.sections().filter(is_code);
        sections
            .filter_map(|section| Some((section.address(), section.data().ok()?)))
            .collect()
    }

    /// The bytes of code from an address on, up to the end of its section; none if there is no code.
    #[must_use]
    pub fn code_at(&self, address: u64) -> &[u8] {
        let code = self.range_of_code(address);
        code.and_then(|range| self.data.get(range))
            .unwrap_or_default()
    }

    /// Where in the file so many bytes of a loaded section begin.
    #[must_use]
    pub fn offset_of(&self, address: u64, len: usize) -> Option<usize> {
        let file = object::File::parse(&*self.data).ok()?;
        let end = address.checked_add(len as u64)?;
        let mut places = file.sections().filter_map(|section| {
            let (offset, size) = section.file_range()?;
            let start = section.address();
            // What is not loaded has no address.
            let is_in = start != 0 && start <= address && end <= start.checked_add(size)?;
            is_in.then(|| offset.checked_add(address - start)?.try_into().ok())?
        });
        places.next()
    }

    /// Where in the file the code from an address on lies, up to the end of its section.
    fn range_of_code(&self, address: u64) -> Option<Range<usize>> {
        let is_in = |code: &&Code| code.addresses.contains(&address);
        let Code { addresses, offset } = self.code.iter().find(is_in)?;
        let in_file = |address| {
            offset
                .checked_add(address - addresses.start)?
                .try_into()
                .ok()
        };
        Some(in_file(address)?..in_file(addresses.end)?)
    }

    /// The debug information; empty if there is none.
    ///
    /// # Errors
    ///
    /// If it makes no sense.
    pub fn dwarf(&self) -> gimli::Result<gimli::Dwarf<Slice<'_>>> {
        gimli::Dwarf::load(|id| {
            let data = self.section(id.name()).unwrap_or_default();
            Ok(Slice::new(data, gimli::RunTimeEndian::Little))
        })
    }
}

impl Segment {
    fn contains(&self, address: u64) -> bool {
        address >= self.vaddr && address - self.vaddr < self.size
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_stacks_makes_sense_or_is_none() {
        let list = |vaddr: u64, paddr: u64, size: u64, nr: u64| {
            let words = [vaddr, paddr, nr << 32 | size].map(u64::to_le_bytes);
            stacks_in(&words.concat())
        };
        let two = list(0x10_0000, 0x2000, 0x1000, 2);
        let places: Vec<_> = two.iter().map(|it| (it.vaddr, it.paddr)).collect();
        assert_eq!(places, [(0x11_0000, 0x2000), (0x12_1000, 0x3000)]);
        assert!(list(u64::MAX << 16, 0x2000, 0x1000, 1).is_empty());
        assert!(list(0x10_0000, u64::MAX - 1, 0x1000, 1).is_empty());
        assert!(list(0x10_0000, 0x2000, 0, 0xffff_ffff).is_empty());
    }

    #[test]
    fn a_foreign_file_is_no_image() {
        let error = Elf::parse(Path::new("x"), b"#!/bin/sh".to_vec()).unwrap_err();
        assert!(!error.to_string().is_empty());
    }

    #[test]
    fn this_very_program_is_read() {
        let elf = Elf::open(&std::env::current_exe().unwrap()).unwrap();
        let main = elf.symbol("main").unwrap();
        assert!(elf.is_code(main));
        assert!(elf.symbol("no such symbol").is_err());
        assert!(elf.section(".text").is_some_and(|text| !text.is_empty()));
    }
}
