//! The entries of all functions: the list, the NOPs, and what they are patched to.
//!
//! The compiler begins each function with a five-byte NOP and lists it (`-Z patchable-function-entry=5`; xtask passes it
//! for images with feature `function`). Switched on, the NOP is a call of one of the thunks in `thunk`. The list is in
//! ascending order. Functions in sections `.text.notrace.*` have the NOP too, but are never patched: the linker puts
//! them side by side, so the address tells.

use crate::arch::jump_label::Writable;

unsafe extern "C" {
    static __function_entries_start: usize;
    static __function_entries_end: usize;
    static __notrace_start: u8;
    static __notrace_end: u8;
    static __image_start: u8;
}

const NOP: [u8; 5] = [0x0f, 0x1f, 0x44, 0x00, 0x08];

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
    let nr = unsafe { end.offset_from(start) } as usize;
    // SAFETY: as above.
    unsafe { core::slice::from_raw_parts(start, nr) }
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

/// What the entry of a function calls: the address of a thunk, or nothing.
///
/// # Safety
/// No one rewrites the text at the moment.
unsafe fn target_of(address: usize) -> Option<usize> {
    // SAFETY: an entry of the list has five bytes.
    let code = unsafe { (address as *const [u8; 5]).read_volatile() };
    let distance = i32::from_le_bytes([code[1], code[2], code[3], code[4]]);
    (code != NOP).then(|| (address + 5).wrapping_add_signed(distance as isize))
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
    // SAFETY: the caller's duty.
    if unsafe { target_of(address) } == target {
        return false;
    }
    let mut code = NOP;
    if let Some(target) = target {
        code[0] = 0xe8;
        code[1..].copy_from_slice(&(target.wrapping_sub(address + 5) as u32).to_le_bytes());
    }
    // SAFETY: the bytes are a NOP or a call, of five bytes both.
    unsafe { text.write(address, &code) };
    true
}

/// How many functions are patched to a call at the moment.
///
/// # Context
/// Any; a guess while someone else patches.
#[must_use]
pub fn nr_patched() -> usize {
    // SAFETY: reads the text, as it is.
    let is_patched = |address: &&usize| unsafe { target_of(**address) }.is_some();
    entries().iter().filter(is_patched).count()
}
