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

/// What each takes in memory, in bytes.
mod bytes {
    pub(super) const ABBREVIATION: usize = 200;
    pub(super) const ENTRY: usize = 100;
    pub(super) const ATTRIBUTE: usize = 16;
    pub(super) const RANGE: usize = 32;
    /// A byte of a line program can be a row of its table.
    pub(super) const ROW: usize = 24;
    pub(super) const FILE: usize = 64;
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
    let mut units = dwarf.units();
    while let Some(header) = units.next()? {
        walk.unit(header)?;
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

    /// The length of a name.
    fn name(&self, unit: &Unit<R>, name: AttributeValue<R>) -> Result<usize> {
        let len = self.dwarf.attr_string(unit, name)?.len();
        ensure!(len <= MAX_NAME, "a name of {len} bytes");
        Ok(len)
    }

    fn unit(&mut self, header: UnitHeader<R>) -> Result<()> {
        self.abbreviations(header.debug_abbrev_offset().0)?;
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

    /// The line program of a unit, and its files.
    fn lines(&mut self, unit: &Unit<R>) -> Result<()> {
        let folder = unit.comp_dir.as_ref().map_or(0, Reader::len);
        ensure!(folder <= MAX_NAME, "a name of {folder} bytes");
        let Some(program) = &unit.line_program else {
            return Ok(());
        };
        let header = program.header();
        self.takes(header.unit_length().saturating_mul(bytes::ROW))?;
        for file in header.file_names() {
            let below = file.directory(header).map(|it| self.name(unit, it));
            let len = folder
                + below.transpose()?.unwrap_or_default()
                + self.name(unit, file.path_name())?;
            self.takes(bytes::FILE + len)?;
        }
        Ok(())
    }

    fn entries(&mut self, unit: &Unit<R>) -> Result<()> {
        let mut entries = unit.entries_raw(None)?;
        // The longest name of a module so far.
        let mut longest = 0;
        while !entries.is_empty() {
            let depth = entries.next_depth();
            ensure!(
                depth <= MAX_DEPTH,
                "entries nested more than {MAX_DEPTH} deep"
            );
            let Some(kind) = entries.read_abbreviation()? else {
                continue;
            };
            self.takes(bytes::ENTRY + bytes::ATTRIBUTE * kind.attributes().len())?;
            for attribute in kind.attributes() {
                let attribute = entries.read_attribute(*attribute)?;
                match (kind.tag(), attribute.name()) {
                    (_, gimli::DW_AT_ranges) => self.ranges(unit, attribute.value())?,
                    (gimli::DW_TAG_namespace, gimli::DW_AT_name) => {
                        longest = self.name(unit, attribute.value())?.max(longest);
                    }
                    // Of a line of the log its modules are kept.
                    (gimli::DW_TAG_variable, gimli::DW_AT_linkage_name) => {
                        let name = self.dwarf.attr_string(unit, attribute.value())?;
                        if name.clone().read_u8().is_ok_and(|it| it == b'{') {
                            self.takes(longest * depth.unsigned_abs())?;
                        }
                    }
                    _ => {}
                }
            }
        }
        Ok(())
    }

    fn ranges(&mut self, unit: &Unit<R>, value: AttributeValue<R>) -> Result<()> {
        let Some(offset) = self.dwarf.attr_ranges_offset(unit, value)? else {
            bail!("ranges that are nowhere");
        };
        let mut ranges = self.dwarf.ranges(unit, offset)?;
        while ranges.next()?.is_some() {
            self.takes(bytes::RANGE)?;
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

    fn checked(abbreviations: &[u8], info: &[u8]) -> Result<()> {
        let section = |id| match id {
            SectionId::DebugAbbrev => abbreviations,
            SectionId::DebugInfo => info,
            _ => &[],
        };
        let load = |id| Ok::<_, gimli::Error>(EndianSlice::new(section(id), LittleEndian));
        let dwarf = Dwarf::load(load)?;
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

    #[test]
    fn that_of_this_very_program_is_read() {
        let elf = crate::Elf::open(&std::env::current_exe().unwrap()).unwrap();
        check(&elf.dwarf().unwrap()).unwrap();
    }
}
