//! [`Loader`]: what the loader told, whichever protocol it speaks.
//!
//! Reading is pure and bounded: what is damaged is passed over or refused, never followed. Both protocols describe memory
//! by the same 24 bytes an entry, so there is one [`MemoryMap`].

#[cfg(any(feature = "console", test))]
mod framebuffer;
mod map;
#[cfg(any(feature = "multiboot2", test))]
mod multiboot2;
mod pvh;

use core::fmt;

use crate::acpi::Root;

#[cfg(any(feature = "console", test))]
pub(crate) use framebuffer::{Framebuffer, Kind};
pub(crate) use map::MemoryMap;
#[cfg(feature = "image")]
pub(crate) use map::NotRam;

/// Who loaded the image.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Protocol {
    /// Xen's PVH: QEMU's `-kernel`, Firecracker, Cloud Hypervisor.
    Pvh,
    /// Multiboot2: GRUB, kexec.
    Multiboot2,
}

impl Protocol {
    /// Its name.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Pvh => "PVH",
            Self::Multiboot2 => "Multiboot2",
        }
    }
}

/// What the loader told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Loader<'a> {
    pub(crate) protocol: Protocol,
    command_line: &'a str,
    /// Whether the command line has the backslashes that GRUB adds.
    is_escaped: bool,
    /// ACPI's root pointer.
    pub(crate) rsdp: Root,
    pub(crate) memory: MemoryMap<'a>,
    #[cfg(any(feature = "console", test))]
    pub(crate) framebuffer: Option<Framebuffer>,
}

/// Why the loader's information cannot be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Unreadable {
    /// It lies where nothing is mapped yet.
    OutOfReach(u64),
    /// Neither protocol's.
    Unknown,
    /// The command line is not UTF-8.
    CommandLine,
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OutOfReach(address) => write!(
                f,
                "the loader's information at {address:#x} is not in the first gigabyte"
            ),
            Self::Unknown => f.write_str(
                "the loader speaks neither PVH nor Multiboot2: the image boots by QEMU's -kernel, GRUB's multiboot2 \
                 and kexec --type=multiboot2-x86",
            ),
            Self::CommandLine => f.write_str("the loader's command line is not UTF-8"),
        }
    }
}

/// What of the memory is mapped while the information is read: the first gigabyte.
const REACH: u64 = 1 << 30;

/// Memory from `address` on, as far as it is within [`REACH`].
///
/// # Safety
/// All of it is mapped, and `len` bytes from there on are not changed for as long as the result is used.
unsafe fn within_reach(address: u64, len: u64) -> Result<&'static [u8], Unreadable> {
    let end = address.checked_add(len).filter(|end| *end <= REACH);
    if address == 0 || end.is_none() {
        return Err(Unreadable::OutOfReach(address));
    }
    // SAFETY: mapped and not changed, by the caller's promise.
    Ok(unsafe { core::slice::from_raw_parts(address as *const u8, len as usize) })
}

impl Loader<'static> {
    /// Reads the information at `info`, where the loader left `magic` in `eax`.
    ///
    /// # Errors
    /// [`Unreadable`].
    ///
    /// # Safety
    /// Both are what the loader passed, the first gigabyte is mapped, and nothing has been written to memory outside of
    /// the image since.
    pub(crate) unsafe fn read(info: u64, magic: u32) -> Result<Self, Unreadable> {
        let _ = magic;
        // SAFETY: both structures begin with a word.
        let first = u32_at(unsafe { within_reach(info, 4) }?, 0);
        match first {
            // PVH says nothing of `eax`, so its structure is asked first; as a length this would be no Multiboot2's.
            Some(pvh::MAGIC) => {
                // SAFETY: the structure is the loader's, by the caller's promise.
                unsafe { pvh::read(info) }
            }
            #[cfg(any(feature = "multiboot2", test))]
            Some(len) if magic == multiboot2::MAGIC => {
                // SAFETY: the structure of that length is the loader's, by the caller's promise.
                multiboot2::parse(unsafe { within_reach(info, len.into()) }?)
            }
            _ => Err(Unreadable::Unknown),
        }
    }
}

impl Loader<'_> {
    /// The command line as it was written, byte by byte.
    pub(crate) fn command_line(&self) -> impl Iterator<Item = u8> {
        let mut rest = self.command_line.as_bytes();
        // Bytes to be taken as they are.
        let mut nr_plain = if self.is_escaped { 0 } else { usize::MAX };
        core::iter::from_fn(move || {
            if nr_plain == 0 {
                nr_plain = match rest {
                    // In front of what looks like a byte's number GRUB adds nothing.
                    [b'\\', b'x', a, b, ..] if a.is_ascii_hexdigit() && b.is_ascii_hexdigit() => 4,
                    [b'\\', escaped @ ..] => {
                        rest = escaped;
                        1
                    }
                    _ => 1,
                };
            }
            let (first, behind) = rest.split_first()?;
            (rest, nr_plain) = (behind, nr_plain - 1);
            Some(*first)
        })
    }
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..)?.first_chunk()?;
    Some(u32::from_le_bytes(*bytes))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    let bytes = bytes.get(at..)?.first_chunk()?;
    Some(u64::from_le_bytes(*bytes))
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::string::String;
    use std::vec::Vec;

    use super::*;

    fn read(command_line: &str, is_escaped: bool) -> String {
        let loader = Loader {
            protocol: Protocol::Multiboot2,
            command_line,
            is_escaped,
            rsdp: Root::At(0),
            memory: MemoryMap::UNKNOWN,
            framebuffer: None,
        };
        String::from_utf8(loader.command_line().collect()).unwrap()
    }

    /// What GRUB makes of a word: a backslash in front of each backslash and quote, but `\xHH` stays.
    fn escape(word: &str) -> String {
        let mut out = String::new();
        let mut rest = word;
        while let Some(c) = rest.chars().next() {
            let mut len = c.len_utf8();
            let digits = rest.strip_prefix("\\x").and_then(|behind| behind.get(..2));
            if digits.is_some_and(|it| it.bytes().all(|byte| byte.is_ascii_hexdigit())) {
                len = 4;
            } else if ['\\', '"', '\''].contains(&c) {
                out.push('\\');
            }
            out.push_str(&rest[..len]);
            rest = &rest[len..];
        }
        out
    }

    /// Every word of up to seven characters of those that matter.
    #[test]
    fn what_grub_adds_is_taken_away() {
        let mut words: Vec<String> = Vec::from([String::new()]);
        for _ in 0..7 {
            for word in &words {
                assert_eq!(read(&escape(word), true), *word);
                assert_eq!(read(word, false), *word);
            }
            let longer = |word: &String| ["\\", "x", "4", "\"", "\u{e9}"].map(|c| word.clone() + c);
            words = words.iter().flat_map(longer).collect();
        }
    }

    #[test]
    fn a_backslash_at_the_end_is_dropped() {
        assert_eq!(read("a\\", true), "a");
    }
}
