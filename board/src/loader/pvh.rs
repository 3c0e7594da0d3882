//! PVH's start information.
//!
//! Source: Xen's `public/arch-x86/hvm/start_info.h`.

use crate::acpi::Root;

use super::{Loader, MemoryMap, Protocol, Unreadable, u32_at, u64_at, within_reach};

/// The first word of the start information.
pub(super) const MAGIC: u32 = 0x336e_c578;
/// Bytes of the start information, version 1.
const LEN: u64 = 56;
const MEMORY_ENTRY: usize = 24;
const MAX_MEMORY_ENTRIES: u32 = 128;

/// Reads the start information at `info`.
///
/// # Safety
/// It is the loader's, and what it points to is, and nothing of that is changed.
pub(super) unsafe fn read(info: u64) -> Result<Loader<'static>, Unreadable> {
    // SAFETY: the structure is the loader's, here and below, by the caller's promise. Of version 0, which is shorter,
    // nothing behind its end is looked at.
    let start = unsafe { within_reach(info, LEN) }?;
    let word = |at| u32_at(start, at).unwrap_or(0);
    let address = |at| u64_at(start, at).unwrap_or(0);
    let (version, command_line) = (word(4), address(24));
    let command_line = match command_line {
        0 => "",
        _ if !cfg!(feature = "command-line") => "",
        // SAFETY: the loader's, by the caller's promise: a zero-terminated string.
        address => unsafe { text(address) }?,
    };
    let (entries, nr) = (address(40), word(48).min(MAX_MEMORY_ENTRIES));
    let memory = match version {
        1.. if entries != 0 => {
            let len = u64::from(nr) * MEMORY_ENTRY as u64;
            // SAFETY: the loader's, by the caller's promise: that many entries.
            MemoryMap::new(unsafe { within_reach(entries, len) }?, MEMORY_ENTRY)
        }
        _ => None,
    };
    Ok(Loader {
        protocol: Protocol::Pvh,
        command_line,
        is_escaped: false,
        rsdp: Root::At(address(32)),
        memory: memory.unwrap_or(MemoryMap::UNKNOWN),
        #[cfg(any(feature = "console", test))]
        framebuffer: None,
    })
}

/// A zero-terminated string.
///
/// # Safety
/// There is one, and it is not changed.
unsafe fn text(address: u64) -> Result<&'static str, Unreadable> {
    // SAFETY: a byte of the string, by the caller's promise.
    unsafe { within_reach(address, 1) }?;
    // SAFETY: a string, by the caller's promise.
    let text = unsafe { core::ffi::CStr::from_ptr(address as *const core::ffi::c_char) };
    text.to_str().map_err(|_| Unreadable::CommandLine)
}
