//! What a function is given and gives back, as the debug information says.

use addr2line::gimli::{
    self, AttributeValue, DW_AT_abstract_origin, DW_AT_byte_size, DW_AT_count, DW_AT_name,
    DW_AT_specification, DW_AT_type, DW_TAG_array_type, DW_TAG_formal_parameter, DW_TAG_subprogram,
    DwAt, Dwarf, Unit, UnitOffset,
};

use crate::Elf;
use crate::elf::Slice;

/// A result of more bytes than this is written where a hidden argument points to.
const IN_REGISTERS: u64 = 16;

/// How often a description may refer to another one: the copy of a function to its original, that to its declaration.
const MAX_HOPS: usize = 4;

/// The arguments and the result of a function.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Signature {
    /// The names of its arguments; `?` for one without a name. One that the function calls `_` is not described, and not
    /// looked at by it either.
    pub arguments: Vec<String>,
    /// The size of its result in bytes, 0 if it has none.
    pub result: u64,
}

impl Signature {
    /// That of the function that begins at `address`; `None` if nothing is known about what the functions there are given,
    /// as of one in assembly, or of a unit with no more than line numbers.
    #[must_use]
    pub fn of(elf: &Elf, address: u64) -> Option<Self> {
        let units = Units::of(elf).ok()?;
        units.signature(address).ok()?
    }

    /// Whether the result goes where a hidden argument points to.
    #[must_use]
    pub fn has_hidden_argument(&self) -> bool {
        self.result > IN_REGISTERS
    }
}

/// A description: the number of its unit and its place there.
type Die = (usize, UnitOffset);

/// All of the debug information.
struct Units<'e> {
    dwarf: Dwarf<Slice<'e>>,
    list: Vec<Unit<Slice<'e>>>,
}

impl<'e> Units<'e> {
    fn of(elf: &'e Elf) -> gimli::Result<Self> {
        let dwarf = elf.dwarf()?;
        let mut list = Vec::new();
        let mut headers = dwarf.units();
        while let Some(header) = headers.next()? {
            list.push(dwarf.unit(header)?);
        }
        Ok(Self { dwarf, list })
    }

    fn signature(&self, address: u64) -> gimli::Result<Option<Signature>> {
        let Some(die) = self.function(address)? else {
            return Ok(None);
        };
        let mut found = Signature::default();
        for die in self.origins(die)? {
            let arguments = self.arguments(die)?;
            if arguments.len() > found.arguments.len() {
                found.arguments = arguments;
            }
            if let Some(ty) = self.reference(die, DW_AT_type)? {
                found.result = self.size(ty)?;
            }
        }
        Ok(Some(found))
    }

    /// The function that begins at an address, in a unit that describes arguments at all.
    fn function(&self, address: u64) -> gimli::Result<Option<Die>> {
        for (number, unit) in self.list.iter().enumerate() {
            let mut entries = unit.entries();
            let (mut found, mut has_arguments) = (None, false);
            while let Some((_, entry)) = entries.next_dfs()? {
                has_arguments |= entry.tag() == DW_TAG_formal_parameter;
                if entry.tag() != DW_TAG_subprogram || found.is_some() {
                    continue;
                }
                let mut ranges = self.dwarf.die_ranges(unit, entry)?;
                while let Some(range) = ranges.next()? {
                    if range.begin == address {
                        found = Some((number, entry.offset()));
                    }
                }
            }
            if found.is_some() {
                return Ok(found.filter(|_| has_arguments));
            }
        }
        Ok(None)
    }

    /// A description and those that it goes back to.
    fn origins(&self, die: Die) -> gimli::Result<Vec<Die>> {
        let mut all = vec![die];
        while let Some(last) = all.last()
            && all.len() < MAX_HOPS
        {
            let next = match self.reference(*last, DW_AT_abstract_origin)? {
                None => self.reference(*last, DW_AT_specification)?,
                origin => origin,
            };
            match next {
                Some(next) => all.push(next),
                None => break,
            }
        }
        Ok(all)
    }

    fn arguments(&self, (number, place): Die) -> gimli::Result<Vec<String>> {
        let unit = &self.list[number];
        let mut tree = unit.entries_tree(Some(place))?;
        let mut children = tree.root()?.children();
        let mut names = Vec::new();
        while let Some(child) = children.next()? {
            if child.entry().tag() == DW_TAG_formal_parameter {
                let name = self.name((number, child.entry().offset()))?;
                names.push(name.unwrap_or_else(|| "?".into()));
            }
        }
        Ok(names)
    }

    fn name(&self, die: Die) -> gimli::Result<Option<String>> {
        for (number, place) in self.origins(die)? {
            let unit = &self.list[number];
            if let Some(name) = unit.entry(place)?.attr_value(DW_AT_name)? {
                let name = self.dwarf.attr_string(unit, name)?;
                return Ok(Some(name.to_string_lossy().into_owned()));
            }
        }
        Ok(None)
    }

    /// The size of a type; that of a pointer if nothing is said.
    fn size(&self, (number, place): Die) -> gimli::Result<u64> {
        let unit = &self.list[number];
        let entry = unit.entry(place)?;
        let size = entry.attr_value(DW_AT_byte_size)?;
        if let Some(size) = size.and_then(|size| size.udata_value()) {
            return Ok(size);
        }
        if entry.tag() != DW_TAG_array_type {
            return Ok(8);
        }
        let mut size = match self.reference((number, place), DW_AT_type)? {
            Some(element) => self.size(element)?,
            None => 0,
        };
        let mut tree = unit.entries_tree(Some(place))?;
        let mut dimensions = tree.root()?.children();
        while let Some(dimension) = dimensions.next()? {
            let count = dimension.entry().attr_value(DW_AT_count)?;
            size = size.saturating_mul(count.and_then(|count| count.udata_value()).unwrap_or(1));
        }
        Ok(size)
    }

    /// What an attribute refers to.
    fn reference(&self, (number, place): Die, name: DwAt) -> gimli::Result<Option<Die>> {
        Ok(match self.list[number].entry(place)?.attr_value(name)? {
            Some(AttributeValue::UnitRef(place)) => Some((number, place)),
            Some(AttributeValue::DebugInfoRef(place)) => {
                let units = self.list.iter().enumerate();
                units
                    .filter_map(|(number, unit)| {
                        Some((number, place.to_unit_offset(&unit.header)?))
                    })
                    .next()
            }
            _ => None,
        })
    }
}
