//! [`Image`]: the code of an ELF file, decoded whole, and what of its data never changes.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;

use anyhow::{Context, Result, ensure};
use iced_x86::{
    Code, Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfo,
    InstructionInfoFactory, Mnemonic, OpKind,
};
use object::{Object, ObjectSection, ObjectSymbol, SectionKind, SymbolKind};

/// Bytes of an entry of the table of static branches.
const JUMP_ENTRY: usize = 6;

/// An instruction, and what it uses.
#[derive(Debug)]
pub(crate) struct Decoded {
    /// The instruction.
    pub(crate) it: Instruction,
    /// What it reads and writes.
    pub(crate) info: InstructionInfo,
    /// Where a static branch goes while its key is on, and the key.
    pub(crate) branch: Option<(u64, u16)>,
}

/// A part of the data.
#[derive(Debug)]
struct Data {
    start: u64,
    bytes: Vec<u8>,
    is_constant: bool,
}

/// An image.
#[derive(Debug)]
pub(crate) struct Image {
    /// The file.
    pub(crate) bytes: Vec<u8>,
    /// By ascending address.
    code: Vec<Decoded>,
    /// For each byte of the code which instruction begins there, from 1; 0 for none.
    index: Vec<u32>,
    text: std::ops::Range<u64>,
    data: Vec<Data>,
    /// Symbols of code: a region begins at each.
    regions: BTreeMap<u64, String>,
    symbols: HashMap<String, u64>,
    /// Words of data that belong to an object by the symbols.
    objects: BTreeMap<u64, u64>,
    /// The section of marks.
    pub(crate) marks: Vec<u8>,
    /// Addresses of code that are used as values.
    pub(crate) taken: BTreeSet<u64>,
    /// Addresses that a branch goes to.
    pub(crate) leaders: BTreeSet<u64>,
}

impl Image {
    /// Reads and decodes an image.
    ///
    /// # Errors
    ///
    /// If it cannot be read, is not an ELF file for x86-64, or has no symbols.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let bytes = takt_base::input::read(path)
            .with_context(|| format!("cannot read {}", path.display()))?;
        Self::parse(bytes).with_context(|| format!("{} cannot be analysed", path.display()))
    }

    /// The same of a file's bytes.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open).
    pub(crate) fn parse(bytes: Vec<u8>) -> Result<Self> {
        let file = object::File::parse(&*bytes)?;
        let section = file.section_by_name(".text").context("no section .text")?;
        let start = section.address();
        let text = start..start + section.size();
        let code = section.data()?;
        let mut regions = BTreeMap::new();
        let mut symbols = HashMap::new();
        let mut objects = BTreeMap::new();
        for symbol in file.symbols().filter(|it| !it.is_undefined()) {
            let Ok(name) = symbol.name() else { continue };
            if name.is_empty() {
                continue;
            }
            let address = symbol.address();
            symbols.insert(name.to_owned(), address);
            let is_code = matches!(
                symbol.kind(),
                SymbolKind::Text | SymbolKind::Label | SymbolKind::Unknown
            );
            if text.contains(&address) && is_code {
                regions.entry(address).or_insert_with(|| name.to_owned());
            } else if symbol.size() > 0 {
                objects.insert(address, address + symbol.size());
            }
        }
        ensure!(!regions.is_empty(), "it has no symbols");
        let data = file
            .sections()
            .filter(|it| it.address() != 0 && it.kind() != SectionKind::Text)
            .filter_map(|it| {
                let bytes = it.data().ok()?.to_vec();
                let is_constant = it.kind() == SectionKind::ReadOnlyData
                    || it.name().is_ok_and(|it| it.starts_with(".rodata"));
                Some(Data {
                    start: it.address(),
                    bytes,
                    is_constant,
                })
            })
            .collect();
        let mut image = Self {
            code: Vec::new(),
            index: vec![0; code.len()],
            text,
            data,
            regions,
            symbols,
            objects,
            marks: section_of(&file, ".takt.proof"),
            taken: BTreeSet::new(),
            leaders: BTreeSet::new(),
            bytes: Vec::new(),
        };
        image.decode(code);
        image.read_jump_table();
        image.find_taken();
        image.bytes = bytes;
        Ok(image)
    }

    /// The bytes of the file with other code at an address: as many bytes.
    pub(crate) fn with(&self, address: u64, code: &[u8]) -> Option<Vec<u8>> {
        let file = object::File::parse(&*self.bytes).ok()?;
        let (offset, _) = file.section_by_name(".text")?.file_range()?;
        let at = usize::try_from(offset + address.checked_sub(self.text.start)?).ok()?;
        let mut bytes = self.bytes.clone();
        bytes.get_mut(at..at + code.len())?.copy_from_slice(code);
        Some(bytes)
    }

    /// An image of nothing but code.
    #[cfg(test)]
    pub(crate) fn of_code<'n>(
        start: u64,
        code: &[u8],
        symbols: impl Iterator<Item = (&'n str, u64)>,
        marks: Vec<u8>,
    ) -> Self {
        let mut image = Self {
            bytes: Vec::new(),
            code: Vec::new(),
            index: vec![0; code.len()],
            text: start..start + code.len() as u64,
            data: Vec::new(),
            regions: symbols.map(|(name, at)| (at, name.to_owned())).collect(),
            symbols: HashMap::new(),
            objects: BTreeMap::new(),
            marks,
            taken: BTreeSet::new(),
            leaders: BTreeSet::new(),
        };
        image.decode(code);
        image.find_taken();
        image
    }

    /// Decodes from each symbol to the next.
    fn decode(&mut self, code: &[u8]) {
        let mut factory = InstructionInfoFactory::new();
        let mut starts: Vec<_> = self.regions.keys().copied().collect();
        starts.insert(0, self.text.start);
        for (nr, start) in starts.iter().enumerate() {
            let end = starts.get(nr + 1).copied().unwrap_or(self.text.end);
            let at = |address: u64| (address - self.text.start) as usize;
            let bytes = &code[at(*start)..at(end)];
            for it in Decoder::with_ip(64, bytes, *start, DecoderOptions::NONE) {
                if it.code() == Code::INVALID {
                    continue;
                }
                if matches!(
                    it.flow_control(),
                    FlowControl::ConditionalBranch | FlowControl::UnconditionalBranch
                ) {
                    self.leaders.insert(it.near_branch_target());
                }
                let decoded = Decoded {
                    info: factory.info(&it).clone(),
                    branch: None,
                    it,
                };
                let at = (decoded.it.ip() - self.text.start) as usize;
                self.code.push(decoded);
                self.index[at] = self.code.len() as u32;
            }
        }
    }

    /// The table of static branches: where each is, and its key.
    fn read_jump_table(&mut self) {
        let (Some(start), Some(end)) = (
            self.symbol("__jump_table_start"),
            self.symbol("__jump_table_end"),
        ) else {
            return;
        };
        let mut at = start;
        let mut ways = Vec::new();
        while at < end {
            let (code, key) = (self.constant(at, 4), self.constant(at + 4, 2));
            at += JUMP_ENTRY as u64;
            let (Some(code), Some(key)) = (code, key) else {
                continue;
            };
            let Some(decoded) = self.number(code).and_then(|nr| self.code.get_mut(nr)) else {
                continue;
            };
            if decoded.it.code() == Code::Test_EAX_imm32 && decoded.it.len() == 5 {
                let distance = i64::from(decoded.it.immediate32().cast_signed());
                let to = decoded.it.next_ip().wrapping_add_signed(distance);
                decoded.branch = Some((to, key as u16));
                self.leaders.insert(to);
                ways.push((code, to));
            }
        }
        // A way round of a place is a region of its own: it comes back to the function that the place is in.
        for (from, to) in ways {
            if self.region(from) != self.region(to)
                && let Some((_, name)) = self.regions.range(..=to).next_back()
            {
                let name = name.clone();
                self.regions.entry(to).or_insert(name);
            }
        }
    }

    /// Addresses of code that are used as values: by instructions or in data.
    fn find_taken(&mut self) {
        let mut taken = BTreeSet::new();
        for decoded in &self.code {
            let it = &decoded.it;
            // To be compared with is not to be branched to.
            if decoded.branch.is_some() || matches!(it.mnemonic(), Mnemonic::Cmp | Mnemonic::Test) {
                continue;
            }
            for nr in 0..it.op_count() {
                if matches!(
                    it.op_kind(nr),
                    OpKind::Immediate32 | OpKind::Immediate32to64 | OpKind::Immediate64
                ) {
                    taken.insert(it.immediate(nr));
                }
            }
            if it.is_ip_rel_memory_operand() {
                taken.insert(it.ip_rel_memory_address());
            }
        }
        for data in &self.data {
            for word in data.bytes.windows(8).step_by(4) {
                taken.insert(u64::from_le_bytes(word.try_into().unwrap_or_default()));
            }
        }
        taken.retain(|it| self.is_code(*it));
        self.taken = taken;
    }

    fn number(&self, ip: u64) -> Option<usize> {
        let at = usize::try_from(ip.checked_sub(self.text.start)?).ok()?;
        (*self.index.get(at)? as usize).checked_sub(1)
    }

    /// The instruction there.
    pub(crate) fn at(&self, ip: u64) -> Option<&Decoded> {
        self.code.get(self.number(ip)?)
    }

    /// All instructions.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Decoded> {
        self.code.iter()
    }

    /// Where the region begins that an address is in.
    pub(crate) fn region(&self, ip: u64) -> u64 {
        self.regions
            .range(..=ip)
            .next_back()
            .map_or(0, |(start, _)| *start)
    }

    /// Whether compiled code begins there: nothing comes to it from the instruction before.
    pub(crate) fn is_compiled(&self, start: u64) -> bool {
        let name = self.regions.get(&start);
        name.is_some_and(|name| name.starts_with("_ZN") || name.starts_with("_R"))
    }

    /// All regions.
    pub(crate) fn regions(&self) -> impl Iterator<Item = (u64, &str)> {
        self.regions.iter().map(|(start, name)| (*start, &**name))
    }

    /// The name of the region that an address is in, as Rust writes paths.
    pub(crate) fn name(&self, ip: u64) -> String {
        let name = self
            .regions
            .range(..=ip)
            .next_back()
            .map_or("?", |(_, name)| name);
        demangled(name)
    }

    /// A symbol's address.
    pub(crate) fn symbol(&self, name: &str) -> Option<u64> {
        self.symbols.get(name).copied()
    }

    /// The address of what has this path in Rust.
    pub(crate) fn symbol_of(&self, path: &str) -> Option<u64> {
        let found = self
            .symbols
            .iter()
            .find(|(name, _)| demangled(name) == path);
        found.map(|(_, address)| *address)
    }

    /// Static keys that branches look at, with their paths in Rust: symbols whose value is the number.
    pub(crate) fn keys(&self) -> BTreeMap<u64, String> {
        let used: BTreeSet<u64> = self
            .code
            .iter()
            .filter_map(|it| Some(u64::from(it.branch?.1)))
            .collect();
        let is_path = |name: &str| name.starts_with("_ZN") || name.starts_with("_R");
        let named = self
            .symbols
            .iter()
            .filter(|(name, at)| used.contains(at) && is_path(name));
        named.map(|(name, at)| (*at, demangled(name))).collect()
    }

    /// Whether there is an instruction.
    pub(crate) fn is_code(&self, address: u64) -> bool {
        self.number(address).is_some()
    }

    /// A word of data that never changes: read-only, or of no object (the linker's own table of addresses).
    pub(crate) fn constant(&self, address: u64, size: u32) -> Option<u64> {
        let data = self
            .data
            .iter()
            .find(|it| (it.start..it.start + it.bytes.len() as u64).contains(&address))?;
        if !data.is_constant && (size != 8 || self.is_of_object(address)) {
            return None;
        }
        let at = (address - data.start) as usize;
        let bytes = data.bytes.get(at..at + size as usize)?;
        let mut word = [0; 8];
        word[..bytes.len()].copy_from_slice(bytes);
        let word = u64::from_le_bytes(word);
        (data.is_constant || self.is_code(word)).then_some(word)
    }

    fn is_of_object(&self, address: u64) -> bool {
        let before = self.objects.range(..=address).next_back();
        before.is_some_and(|(_, end)| address < *end)
    }
}

fn section_of(file: &object::File<'_>, name: &str) -> Vec<u8> {
    let data = file.section_by_name(name).and_then(|it| it.data().ok());
    data.unwrap_or_default().to_vec()
}

/// A name as Rust writes paths, without the hash.
pub(crate) fn demangled(name: &str) -> String {
    let name = addr2line::demangle_auto(name.into(), None).into_owned();
    match name.rfind("::h") {
        Some(at) if name.len() == at + 19 => name[..at].to_owned(),
        _ => name,
    }
}
