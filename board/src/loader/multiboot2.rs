//! Multiboot2's boot information: a length, a word, and tags at multiples of 8 bytes.
//!
//! Source: Multiboot2 specification 2.0, 3.6.

use crate::acpi::{RSDP_LEN, Root};

#[cfg(any(feature = "console", test))]
use super::Framebuffer;
use super::{Loader, MemoryMap, Protocol, Unreadable, u32_at};

/// What the loader leaves in `eax`.
pub(super) const MAGIC: u32 = 0x36d7_6289;

const HEAD: usize = 8;
const END: u32 = 0;
const COMMAND_LINE: u32 = 1;
const LOADER_NAME: u32 = 2;
const MEMORY_MAP: u32 = 6;
#[cfg(any(feature = "console", test))]
const FRAMEBUFFER: u32 = 8;
/// A copy of ACPI 1.0's root pointer.
const OLD_RSDP: u32 = 14;
/// A copy of a later ACPI's.
const NEW_RSDP: u32 = 15;

/// Reads the boot information, all of it.
///
/// # Errors
/// [`Unreadable::CommandLine`].
pub(super) fn parse(info: &[u8]) -> Result<Loader<'_>, Unreadable> {
    let mut loader = Loader {
        protocol: Protocol::Multiboot2,
        command_line: "",
        is_escaped: false,
        rsdp: Root::At(0),
        memory: MemoryMap::UNKNOWN,
        #[cfg(any(feature = "console", test))]
        framebuffer: None,
    };
    let mut is_old = true;
    for (kind, content) in tags(info) {
        match kind {
            COMMAND_LINE => {
                let len = content.iter().position(|byte| *byte == 0);
                let text = content.get(..len.unwrap_or(content.len()));
                loader.command_line = core::str::from_utf8(text.unwrap_or(&[]))
                    .map_err(|_| Unreadable::CommandLine)?;
            }
            LOADER_NAME => loader.is_escaped = content.starts_with(b"GRUB "),
            MEMORY_MAP => {
                let entry_size = u32_at(content, 0).unwrap_or(0) as usize;
                let map = content
                    .get(8..)
                    .and_then(|entries| MemoryMap::new(entries, entry_size));
                loader.memory = map.unwrap_or(loader.memory);
            }
            #[cfg(any(feature = "console", test))]
            FRAMEBUFFER => loader.framebuffer = Framebuffer::parse(content),
            OLD_RSDP if is_old => loader.rsdp = copy(content),
            NEW_RSDP => {
                loader.rsdp = copy(content);
                is_old = false;
            }
            _ => {}
        }
    }
    Ok(loader)
}

/// A copy of a copy, since what the loader wrote is not mapped for long.
fn copy(content: &[u8]) -> Root {
    let mut copy = [0; RSDP_LEN];
    let len = content.len().min(RSDP_LEN);
    copy[..len].copy_from_slice(&content[..len]);
    Root::Copy(copy)
}

/// The tags' types and contents, until the last one or the first that is damaged.
fn tags(info: &[u8]) -> impl Iterator<Item = (u32, &[u8])> {
    let mut rest = info.get(HEAD..).unwrap_or(&[]);
    core::iter::from_fn(move || {
        let (kind, size) = (u32_at(rest, 0)?, u32_at(rest, 4)? as usize);
        let content = rest.get(HEAD..size)?;
        rest = rest.get(size.next_multiple_of(8)..).unwrap_or(&[]);
        (kind != END).then_some((kind, content))
    })
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::vec::Vec;

    use super::super::Kind;
    use super::super::map::tests::entries;
    use super::*;

    fn tag(kind: u32, content: &[u8]) -> Vec<u8> {
        let mut tag = Vec::from(kind.to_le_bytes());
        tag.extend((HEAD as u32 + content.len() as u32).to_le_bytes());
        tag.extend(content);
        tag.resize(tag.len().next_multiple_of(8), 0xee);
        tag
    }

    fn info(tags: &[Vec<u8>]) -> Vec<u8> {
        let tags = tags.concat();
        let mut info = Vec::from((HEAD as u32 + tags.len() as u32).to_le_bytes());
        info.extend([0; 4]);
        info.extend(tags);
        info
    }

    fn whole() -> Vec<u8> {
        let mut map = Vec::from(24u32.to_le_bytes());
        map.extend([0; 4]);
        map.extend(entries(&[(0, 0x9f000, 1), (0x10_0000, 0x300_0000, 1)]));
        let mut framebuffer = Vec::from(0x80_0000_0000u64.to_le_bytes());
        framebuffer.extend([3200u32, 800, 600].map(u32::to_le_bytes).as_flattened());
        framebuffer.extend([32, 1, 0, 0, 16, 8, 8, 8, 0, 8]);
        info(&[
            tag(COMMAND_LINE, b"workload=timerlat a=\\\"b\0"),
            tag(LOADER_NAME, b"GRUB 2.06\0"),
            tag(MEMORY_MAP, &map),
            tag(FRAMEBUFFER, &framebuffer),
            tag(NEW_RSDP, b"RSD PTR new"),
            tag(OLD_RSDP, b"RSD PTR old"),
            tag(END, &[]),
            tag(COMMAND_LINE, b"behind the end\0"),
        ])
    }

    #[test]
    fn grubs_information_is_read() {
        let whole = whole();
        let loader = parse(&whole).unwrap();
        assert_eq!(loader.protocol, Protocol::Multiboot2);
        assert!(loader.command_line().eq(*b"workload=timerlat a=\"b"));
        assert_eq!(loader.memory.ram(), 0x9f000 + 0x300_0000);
        let framebuffer = loader.framebuffer.unwrap();
        assert_eq!(
            (framebuffer.address, framebuffer.pitch),
            (0x80_0000_0000, 3200)
        );
        assert_eq!((framebuffer.width, framebuffer.height), (800, 600));
        let positions = [16, 8, 0];
        assert_eq!(framebuffer.kind, Kind::Pixels { positions });
        let begins = |root, with: &[u8]| matches!(root, Root::Copy(copy) if copy.starts_with(with));
        assert!(begins(loader.rsdp, b"RSD PTR new\0"));
        let old = info(&[tag(OLD_RSDP, b"RSD PTR old")]);
        assert!(begins(parse(&old).unwrap().rsdp, b"RSD PTR old\0"));
    }

    #[test]
    fn damage_is_passed_over() {
        let whole = whole();
        for cut in 0..whole.len() {
            let loader = parse(&whole[..cut]).unwrap();
            assert!("workload=timerlat a=\\\"b".starts_with(loader.command_line));
        }
        for at in 0..whole.len() {
            for byte in [0, 1, 7, 0x7f, 0xff] {
                let mut damaged = whole.clone();
                damaged[at] = byte;
                if let Ok(loader) = parse(&damaged) {
                    loader.memory.ram();
                    let _ = loader.memory.check(0x10_0000..0x20_0000);
                }
            }
        }
        let bad = info(&[tag(COMMAND_LINE, b"\xff\0")]);
        assert_eq!(parse(&bad), Err(Unreadable::CommandLine));
    }
}
