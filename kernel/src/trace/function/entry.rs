//! The entries of all functions: the list, the NOPs, and what they are patched to.
//!
//! The compiler begins each function with a five-byte NOP and lists it (`-Z patchable-function-entry=5`; xtask passes it
//! for images with feature `function`). Switched on, the NOP is a call of one of the thunks in `thunk`. The list is in
//! ascending order. The tracer's functions and those in sections `.text.notrace.*` have the NOP too, but are never patched:
//! the linker puts them side by side, so the address tells.

use crate::arch::jump_label::{Writable, branch, is_code};
use crate::compact::between;

unsafe extern "C" {
    static __function_entries_start: usize;
    static __function_entries_end: usize;
    static __notrace_start: u8;
    static __notrace_end: u8;
    static __image_start: u8;
}

/// Its bytes are 0f 1f 44 00 08.
const NOP: u64 = 0x08_0044_1f0f;
/// The first byte of a call.
const CALL: u8 = 0xe8;

/// What a record's block number is counted in: every function begins at a multiple of it, so a block is of one function
/// only.
pub const BLOCK: usize = 64;

/// The addresses of all functions with an entry that can be patched, in ascending order; none if the image was not
/// built for it.
#[must_use]
pub fn entries() -> &'static [usize] {
    let start = &raw const __function_entries_start;
    let end = &raw const __function_entries_end;
    // SAFETY: the linker script puts both symbols around the list.
    unsafe { between(start, end) }
}

/// Whether the function may be traced.
#[must_use]
pub fn is_traceable(address: usize) -> bool {
    let (start, end) = (&raw const __notrace_start, &raw const __notrace_end);
    !(start as usize..end as usize).contains(&address)
}

/// Where the image begins, from which blocks are counted.
#[must_use]
pub fn image_start() -> usize {
    &raw const __image_start as usize
}

/// Makes the entry a call of `target`, or a NOP. Says whether anything changed.
///
/// # Safety
/// `address` is an entry of the list, `target` a thunk, and every other CPU stands still.
pub(super) unsafe fn set_target(
    text: &mut Writable,
    address: usize,
    target: Option<usize>,
) -> bool {
    let code = target.map_or(NOP, |target| branch(CALL, address, target));
    // SAFETY: an entry of the list has five bytes.
    let is_new = !unsafe { is_code(address, code) };
    if is_new {
        // SAFETY: the bytes are a NOP or a call, of five bytes both.
        unsafe { text.write(address, code) };
    }
    is_new
}

/// How many functions are patched to a call at the moment.
///
/// # Context
/// Any; a guess while someone else patches.
#[must_use]
pub fn nr_patched() -> usize {
    // SAFETY: an entry of the list has five bytes.
    let is_patched = |address: &&usize| !unsafe { is_code(**address, NOP) };
    entries().iter().filter(is_patched).count()
}

/// The number of the block that an address lies in.
#[inline(always)]
pub(super) fn block_of(address: usize) -> usize {
    address.wrapping_sub(image_start()) / BLOCK
}
