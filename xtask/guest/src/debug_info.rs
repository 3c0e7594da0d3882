//! Whether a task's debug information can be read. What reads it is made for that of a compiler: it goes down as deep as entries are
//! nested, by recursion, and keeps for each unit what units may share. So it is first gone through here, with limits.

use anyhow::{Context, Result, bail, ensure};
use gimli::{AttributeValue, Dwarf, Reader, Section, Unit, UnitHeader};

/// How deep entries are nested: each level takes some kilobytes of the reader's stack. Takt's own image has 65 levels.
const MAX_DEPTH: isize = 256;
/// Memory that its readers may take, in bytes, roughly.
const MAX_MEMORY: usize = 256 << 20;
/// Attributes of an entry.
const MAX_ATTRIBUTES: usize = 64;
/// Longest name of a file, a folder or a module.
const MAX_NAME: usize = 1024;
/// Longest string, as a symbol of the log's has it. Who reads one looks for its end first.
const MAX_STRING: usize = 64 << 10;

/// What each takes in memory, in bytes.
mod bytes {
    /// A unit, and each of its ranges: whoever looks for an address goes through all that it lies in.
    pub(super) const UNIT: usize = 4096;
    pub(super) const RANGE_OF_UNIT: usize = 1024;
    pub(super) const ABBREVIATION: usize = 200;
    pub(super) const ENTRY: usize = 100;
    pub(super) const ATTRIBUTE: usize = 16;
    pub(super) const RANGE: usize = 32;
    /// A byte of a line program can be a row of its table.
    pub(super) const ROW: usize = 24;
    /// A byte of a program's header can be a file.
    pub(super) const FILE: usize = 96;
}

/// Goes through debug information.
///
/// # Errors
///
/// Why it is not to be read.
pub(crate) fn check<R: Reader<Offset = usize>>(dwarf: &Dwarf<R>) -> Result<()> {
    let mut walk = Walk {
        dwarf,
        left: MAX_MEMORY,
    };
    strings(dwarf.debug_str.reader())?;
    strings(dwarf.debug_line_str.reader())?;
    let mut units = dwarf.units();
    while let Some(header) = units.next()? {
        walk.unit(header)?;
    }
    Ok(())
}

/// Looks at the strings of a section: whoever wants one goes to its end.
fn strings<R: Reader<Offset = usize>>(section: &R) -> Result<()> {
    let mut rest = section.clone();
    while !rest.is_empty() {
        // Behind the last one there is no end to be found.
        let len = rest.find(0).unwrap_or(rest.len());
        ensure!(len <= MAX_STRING, "a string of {len} bytes");
        rest.skip(rest.len().min(len + 1))?;
    }
    Ok(())
}

struct Walk<'d, R: Reader<Offset = usize>> {
    dwarf: &'d Dwarf<R>,
    left: usize,
}

impl<R: Reader<Offset = usize>> Walk<'_, R> {
    fn takes(&mut self, len: usize) -> Result<()> {
        let left = self.left.checked_sub(len);
        self.left = left.context("reading it takes too much memory")?;
        Ok(())
    }

    /// The length of a string, whose end is looked for.
    fn string(&mut self, unit: &Unit<R>, string: AttributeValue<R>) -> Result<usize> {
        let len = self.dwarf.attr_string(unit, string)?.len();
        ensure!(len <= MAX_STRING, "a string of {len} bytes");
        self.takes(len)?;
        Ok(len)
    }

    /// The length of a name of a file, a folder or a module.
    fn name(&mut self, unit: &Unit<R>, name: AttributeValue<R>) -> Result<usize> {
        let len = self.string(unit, name)?;
        ensure!(len <= MAX_NAME, "a name of {len} bytes");
        Ok(len)
    }

    fn unit(&mut self, header: UnitHeader<R>) -> Result<()> {
        self.takes(bytes::UNIT)?;
        self.abbreviations(header.debug_abbrev_offset().0)?;
        self.program(&header)?;
        let unit = self.dwarf.unit(header)?;
        self.lines(&unit)?;
        self.entries(&unit)
    }

    /// The kinds of entries of a unit, before they are kept.
    fn abbreviations(&mut self, offset: usize) -> Result<()> {
        /// The form whose value stands behind it.
        const IMPLICIT_CONST: u64 = gimli::DW_FORM_implicit_const.0 as u64;
        let mut reader = self.dwarf.debug_abbrev.reader().clone();
        reader.skip(offset)?;
        while reader.read_uleb128()? != 0 {
            self.takes(bytes::ABBREVIATION)?;
            // Its tag, and whether such an entry has some below it.
            reader.read_uleb128()?;
            reader.read_u8()?;
            let mut nr = 0;
            loop {
                let attribute = (reader.read_uleb128()?, reader.read_uleb128()?);
                match attribute {
                    (0, 0) => break,
                    (_, IMPLICIT_CONST) => drop(reader.read_sleb128()?),
                    _ => {}
                }
                nr += 1;
                ensure!(
                    nr <= MAX_ATTRIBUTES,
                    "an entry with more than {MAX_ATTRIBUTES} attributes"
                );
                self.takes(bytes::ATTRIBUTE)?;
            }
        }
        Ok(())
    }

    /// How long the line program of a unit is, before its files are kept.
    fn program(&mut self, header: &UnitHeader<R>) -> Result<()> {
        let abbreviations = header.abbreviations(&self.dwarf.debug_abbrev)?;
        let mut entries = header.entries_raw(&abbreviations, None)?;
        let Some(kind) = entries.read_abbreviation()? else {
            return Ok(());
        };
        for attribute in kind.attributes() {
            let attribute = entries.read_attribute(*attribute)?.value();
            let AttributeValue::DebugLineRef(offset) = attribute else {
                continue;
            };
            let mut reader = self.dwarf.debug_line.reader().clone();
            reader.skip(offset.0)?;
            let (len, format) = reader.read_initial_length()?;
            self.takes(len.saturating_mul(bytes::ROW))?;
            if reader.read_u16()? >= 5 {
                // How long an address and a segment's number are.
                reader.skip(2)?;
            }
            let len = reader.read_length(format)?;
            self.takes(len.saturating_mul(bytes::FILE))?;
        }
        Ok(())
    }

    /// The files of a unit's line program.
    fn lines(&mut self, unit: &Unit<R>) -> Result<()> {
        let folder = unit.comp_dir.as_ref().map_or(0, Reader::len);
        ensure!(folder <= MAX_NAME, "a name of {folder} bytes");
        let Some(program) = &unit.line_program else {
            return Ok(());
        };
        let header = program.header();
        for file in header.file_names() {
            if let Some(below) = file.directory(header) {
                self.name(unit, below)?;
            }
            self.name(unit, file.path_name())?;
            self.takes(folder)?;
        }
        Ok(())
    }

    fn entries(&mut self, unit: &Unit<R>) -> Result<()> {
        let mut entries = unit.entries_raw(None)?;
        // The longest name of a module so far, and how many of them are kept at most.
        let (mut longest, mut deepest) = (0, 0);
        while !entries.is_empty() {
            let depth = entries.next_depth();
            // Behind the first one's end there is nothing.
            ensure!(
                (0..=MAX_DEPTH).contains(&depth),
                "entries nested more than {MAX_DEPTH} deep, or not at all"
            );
            deepest = depth.unsigned_abs().max(deepest);
            let Some(kind) = entries.read_abbreviation()? else {
                continue;
            };
            self.takes(bytes::ENTRY + bytes::ATTRIBUTE * kind.attributes().len())?;
            for attribute in kind.attributes() {
                let attribute = entries.read_attribute(*attribute)?;
                let value = attribute.value();
                match (kind.tag(), attribute.name()) {
                    (_, gimli::DW_AT_ranges) => self.ranges(unit, value, depth == 0)?,
                    (gimli::DW_TAG_namespace, gimli::DW_AT_name) => {
                        longest = self.name(unit, value)?.max(longest);
                    }
                    (
                        tag,
                        name @ (gimli::DW_AT_name
                        | gimli::DW_AT_linkage_name
                        | gimli::DW_AT_MIPS_linkage_name),
                    ) => {
                        self.string(unit, value.clone())?;
                        // Of a line of the log its modules are kept.
                        if (tag, name) == (gimli::DW_TAG_variable, gimli::DW_AT_linkage_name) {
                            let mut name = self.dwarf.attr_string(unit, value)?;
                            if name.read_u8().is_ok_and(|it| it == b'{') {
                                self.takes((longest + 2) * (deepest + 1))?;
                            }
                        }
                    }
                    _ => {}
                }
            }
        }
        Ok(())
    }

    fn ranges(&mut self, unit: &Unit<R>, value: AttributeValue<R>, is_units: bool) -> Result<()> {
        let Some(offset) = self.dwarf.attr_ranges_offset(unit, value)? else {
            bail!("ranges that are nowhere");
        };
        // Those that are none count as well: they are gone through each time.
        let mut ranges = self.dwarf.raw_ranges(unit, offset)?;
        while ranges.next()?.is_some() {
            self.takes(match is_units {
                true => bytes::RANGE_OF_UNIT,
                false => bytes::RANGE,
            })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gimli::{EndianSlice, LittleEndian, SectionId};

    /// A unit with so many entries within each other: a function at 0x1000, and what is inlined into it.
    fn nested(depth: usize) -> (Vec<u8>, Vec<u8>) {
        // Tags compile_unit and subprogram with addresses, inlined_subroutine; each with entries below it.
        let abbreviations = [
            &[1, 0x11, 1, 0x11, 0x01, 0x12, 0x0f, 0, 0][..],
            &[2, 0x2e, 1, 0x11, 0x01, 0x12, 0x0f, 0, 0],
            &[3, 0x1d, 1, 0, 0],
            &[0],
        ];
        let mut info = vec![4, 0, 0, 0, 0, 0, 8];
        for kind in [1, 2] {
            info.push(kind);
            info.extend(0x1000_u64.to_le_bytes());
            info.push(0x10);
        }
        info.extend(vec![3; depth]);
        info.extend(vec![0; depth + 2]);
        let info = [&(info.len() as u32).to_le_bytes()[..], &info].concat();
        (abbreviations.concat(), info)
    }

    type Sections<'s> = &'s [(SectionId, &'s [u8])];

    fn dwarf<'s>(sections: Sections<'s>) -> Dwarf<EndianSlice<'s, LittleEndian>> {
        let section = |id| {
            sections
                .iter()
                .find(|it| it.0 == id)
                .map_or(&[][..], |it| it.1)
        };
        let load = |id| Ok::<_, gimli::Error>(EndianSlice::new(section(id), LittleEndian));
        Dwarf::load(load).unwrap()
    }

    /// Why this is refused: a unit with these entries, and other sections.
    fn refused(abbreviations: &[&[u8]], entries: &[u8], others: Sections<'_>) -> String {
        let abbreviations = [&abbreviations.concat()[..], &[0]].concat();
        let info = [&[4, 0, 0, 0, 0, 0, 8][..], entries].concat();
        let info = [&(info.len() as u32).to_le_bytes()[..], &info].concat();
        let own = [
            (SectionId::DebugAbbrev, &abbreviations[..]),
            (SectionId::DebugInfo, &info),
        ];
        let all = [&own[..], others].concat();
        check(&dwarf(&all)).unwrap_err().to_string()
    }

    fn checked(abbreviations: &[u8], info: &[u8]) -> Result<()> {
        let all = [
            (SectionId::DebugAbbrev, abbreviations),
            (SectionId::DebugInfo, info),
        ];
        let dwarf = dwarf(&all);
        check(&dwarf)?;
        // What is let through is read, with the stack that a thread has.
        let context = addr2line::Context::from_dwarf(dwarf)?;
        let mut frames = context.find_frames(0x1008).skip_all_loads()?;
        ensure!(frames.next()?.is_some(), "not found");
        Ok(())
    }

    #[test]
    fn what_is_nested_too_deep_is_not_read() {
        let (abbreviations, info) = nested(MAX_DEPTH as usize - 2);
        checked(&abbreviations, &info).unwrap();
        let (abbreviations, info) = nested(300_000);
        let error = checked(&abbreviations, &info).unwrap_err();
        assert!(error.to_string().contains("256 deep"), "{error}");
    }

    #[test]
    fn what_takes_too_much_memory_is_not_read() {
        // Units that share what they consist of.
        let (abbreviations, info) = nested(100);
        let nr = MAX_MEMORY / (100 * bytes::ENTRY) + 1;
        let error = checked(&abbreviations, &info.repeat(nr)).unwrap_err();
        assert!(error.to_string().contains("memory"), "{error}");
        // An entry with more attributes than any has.
        let wide = [&[1, 0x11, 1][..], &[0x03, 0x19].repeat(100), &[0, 0, 0]].concat();
        let error = checked(&wide, &info).unwrap_err();
        assert!(error.to_string().contains("64 attributes"), "{error}");
    }

    /// Abbreviations of a root with a line program, and of one without anything.
    const WITH_LINES: &[u8] = &[1, 0x11, 1, 0x10, 0x17, 0, 0];
    const ROOT: &[u8] = &[1, 0x11, 1, 0, 0];

    #[test]
    fn entries_behind_the_first_ones_end_are_not_read() {
        // A namespace there stays a module of all that come.
        let namespace = &[2, 0x39, 0, 0, 0];
        let error = refused(&[ROOT, namespace], &[1, 0, 0, 2, 2], &[]);
        assert!(error.contains("not at all"), "{error}");
    }

    #[test]
    fn modules_that_are_kept_count_with_each_line_of_the_log() {
        // A name, inline; a variable with the symbol that its name is.
        let namespace = &[2, 0x39, 1, 0x03, 0x08, 0, 0];
        let variable = &[3, 0x34, 0, 0x6e, 0x08, 0, 0];
        let deep = 250;
        let module = [&[2][..], &[b'm'; MAX_NAME], &[0]].concat().repeat(deep);
        let nr = MAX_MEMORY / (deep * MAX_NAME);
        let lines = [3, b'{', 0].repeat(nr + 1);
        let entries = [&[1][..], &module, &vec![0; deep], &lines, &[0]].concat();
        let error = refused(&[ROOT, namespace, variable], &entries, &[]);
        assert!(error.contains("memory"), "{error}");
    }

    #[test]
    fn ranges_that_are_none_count_each_time() {
        let function = &[2, 0x2e, 0, 0x55, 0x17, 0, 0];
        let nr = 100_000;
        let none = [u64::MAX, 0].map(u64::to_le_bytes).concat().repeat(nr);
        let entries = [&[1][..], &[2, 0, 0, 0, 0].repeat(20_000), &[0]].concat();
        let ranges = (SectionId::DebugRanges, &none[..]);
        let error = refused(&[ROOT, function], &entries, &[ranges]);
        assert!(error.contains("memory"), "{error}");
    }

    #[test]
    fn strings_are_as_long_as_symbols_and_count_each_time() {
        // Names of variables, and of inlined functions.
        for kind in [
            &[2, 0x34, 0, 0x6e, 0x0e, 0, 0],
            &[2, 0x1d, 0, 0x03, 0x0e, 0, 0],
        ] {
            let refused = |len, nr| {
                let string = [&vec![b'x'; len][..], &[0]].concat();
                let entries = [&[1][..], &[2, 0, 0, 0, 0].repeat(nr), &[0]].concat();
                refused(&[ROOT, kind], &entries, &[(SectionId::DebugStr, &string)])
            };
            let error = refused(10 << 20, 10_000);
            assert!(error.contains("a string of 10485760 bytes"), "{error}");
            let error = refused(MAX_STRING, MAX_MEMORY / MAX_STRING + 1);
            assert!(error.contains("memory"), "{error}");
        }
        let inline = &[2, 0x2e, 0, 0x03, 0x08, 0, 0];
        let entries = [&[1, 2][..], &vec![b'x'; MAX_STRING + 1], &[0, 0]].concat();
        let error = refused(&[ROOT, inline], &entries, &[]);
        assert!(error.contains("a string of 65537 bytes"), "{error}");
    }

    #[test]
    fn files_count_before_they_are_kept() {
        let nr = 5_000_000;
        // One folder and so many files, each a string without a byte.
        let counts = [
            &[1, 1, 8, 1, 0, 1, 1, 8, 0xc0, 0x96, 0xb1, 0x02][..],
            &vec![0; nr],
        ]
        .concat();
        let operands = [1, 1, 1, 0xfb, 14, 13, 0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1];
        let rest = [&operands[..], &counts].concat();
        let head = [&[5, 0, 8, 0][..], &(rest.len() as u32).to_le_bytes(), &rest].concat();
        let lines = [&(head.len() as u32).to_le_bytes()[..], &head].concat();
        let lines = (SectionId::DebugLine, &lines[..]);
        let error = refused(&[WITH_LINES], &[1, 0, 0, 0, 0, 0], &[lines]);
        assert!(error.contains("memory"), "{error}");
    }

    #[test]
    fn that_of_this_very_program_is_read() {
        let elf = crate::Elf::open(&std::env::current_exe().unwrap()).unwrap();
        check(&elf.dwarf().unwrap()).unwrap();
    }
}
