//! An image without what only the host reads: symbols, debug information, the log's formats.

use anyhow::{Context, Result, ensure};
use object::Endianness;
use object::elf::FileHeader64;
use object::read::elf::{FileHeader, ProgramHeader};

/// Bytes of an ELF header for 64 bits, and where it has what says of sections: `e_shoff`, and from `e_shentsize` on
/// `e_shnum` and `e_shstrndx`.
const HEADER: usize = 64;
const SHOFF: std::ops::Range<usize> = 40..48;
const SHNUM_AND_SHSTRNDX: std::ops::Range<usize> = 60..64;

/// Multiboot2's header begins with this, in the first 32 KiB, at a multiple of 8.
const MULTIBOOT2: [u8; 4] = 0xe852_50d6_u32.to_le_bytes();
const MULTIBOOT2_WITHIN: usize = 32 << 10;

/// An image as it is put on a medium.
///
/// # Errors
///
/// If it is no ELF file, or none that GRUB can boot.
pub fn strip(image: &[u8]) -> Result<Vec<u8>> {
    let kept = loaded(image)?;
    let head = &kept[..kept.len().min(MULTIBOOT2_WITHIN)];
    ensure!(
        head.chunks_exact(8).any(|at| at.starts_with(&MULTIBOOT2)),
        "it has no Multiboot2 header in its first 32 KiB, so GRUB cannot boot it"
    );
    Ok(kept)
}

/// An ELF file cut behind the last byte that is loaded, without a table of sections.
///
/// # Errors
///
/// If it is no ELF file for 64 bits.
pub fn loaded(image: &[u8]) -> Result<Vec<u8>> {
    let header = FileHeader64::<Endianness>::parse(image).context("no ELF file for 64 bits")?;
    let endian = header.endian()?;
    let end = header
        .program_headers(endian, image)?
        .iter()
        .map(|segment| {
            segment
                .p_offset(endian)
                .saturating_add(segment.p_filesz(endian))
        })
        .max()
        .and_then(|end| usize::try_from(end).ok())
        .context("nothing in it is loaded")?;
    let mut kept = image
        .get(..end)
        .filter(|kept| kept.len() >= HEADER)
        .context("it is cut")?
        .to_vec();
    kept[SHOFF].fill(0);
    kept[SHNUM_AND_SHSTRNDX].fill(0);
    Ok(kept)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_of_the_hosts_is_refused_and_a_cut_one_too() {
        let own = std::fs::read("/proc/self/exe").unwrap();
        let error = strip(&own).unwrap_err().to_string();
        assert!(error.contains("no Multiboot2 header"), "{error}");
        assert!(strip(&own[..own.len() / 8]).is_err());
        assert!(strip(b"\x7fELF").is_err());
    }

    #[test]
    fn what_is_loaded_stays_and_the_rest_goes() {
        let mut file = std::fs::read("/proc/self/exe").unwrap();
        file[0x1000..0x1004].copy_from_slice(&MULTIBOOT2);
        let stripped = strip(&file).unwrap();
        assert!(stripped.len() < file.len());
        assert_eq!(stripped[HEADER..], file[HEADER..stripped.len()]);
        let header = FileHeader64::<Endianness>::parse(&*stripped).unwrap();
        let sections = header.sections(Endianness::Little, &*stripped).unwrap();
        assert!(sections.is_empty());
    }
}
