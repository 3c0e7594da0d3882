//! A task's ELF file as the host reads it: the strings of its log have addresses that the task's code reaches, and defmt's decoder
//! wants their numbers.

use anyhow::{Context, Result, anyhow};
use defmt_decoder::Table;
use object::Endianness;
use object::elf::{FileHeader64, SHT_SYMTAB, SectionHeader64, Sym64};
use object::read::elf::{FileHeader, SectionHeader, Sym};
use takt_base::term;

/// The section of the strings.
const SECTION: &[u8] = b".defmt";

/// Makes the symbols of the strings their numbers: takes off where the section begins, which then begins at 0, where the values of flags
/// are found.
///
/// # Errors
///
/// If the file makes no sense, or one of its strings cannot be shown.
pub(super) fn number(file: &mut [u8]) -> Result<()> {
    let values = values(file)?;
    for (at, value) in values {
        let place = file
            .get_mut(at..at + 8)
            .context("a symbol or a section that is cut")?;
        place.copy_from_slice(&value.to_le_bytes());
    }
    // As who reads its log does.
    Table::parse(file)
        .map_err(|error| anyhow!(term::in_line(&error.to_string())))
        .context("the formats of its log cannot be read")?;
    takt_guest::log::check(file)
}

/// Where the values of these symbols, and the section's address, stand in the file, and what they are to be.
fn values(file: &[u8]) -> Result<Vec<(usize, u64)>> {
    let header = FileHeader64::<Endianness>::parse(file)?;
    let endian = header.endian()?;
    let sections = header.sections(endian, file)?;
    let Some((strings, section)) = sections.section_by_name(endian, SECTION) else {
        return Ok(Vec::new());
    };
    let begin = section.sh_addr(endian);
    let table = (sections.iter()).find(|it| it.sh_type(endian) == SHT_SYMTAB);
    let table = table.context("it has no symbols")?;
    let symbols: &[Sym64<Endianness>] = table.data_as_array(endian, file)?;
    let offset = table.sh_offset(endian) as usize;
    let of_string = |(number, symbol): (usize, &Sym64<Endianness>)| {
        let is_string = usize::from(symbol.st_shndx(endian)) == strings.0;
        let value = symbol.st_value(endian).checked_sub(begin)?;
        let at = offset
            + number * size_of_val(symbol)
            + core::mem::offset_of!(Sym64<Endianness>, st_value);
        is_string.then_some((at, value))
    };
    let headers = header.e_shoff(endian) as usize;
    let section = headers
        + strings.0 * size_of_val(section)
        + core::mem::offset_of!(SectionHeader64<Endianness>, sh_addr);
    let symbols = symbols.iter().enumerate().filter_map(of_string);
    Ok(symbols.chain([(section, 0)]).collect())
}
