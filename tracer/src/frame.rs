//! Where a function has no frame of its own: a walk along the frame pointers that begins there would leave out its caller.
//!
//! A function begins with `push rbp; mov rbp, rsp`, and where functions can be traced with a NOP before it. It ends with
//! `pop rbp` and then `ret`, or with a jump to another function. In front of the first and behind the last of them the frame
//! pointer is the caller's.

/// Where the return address lies of a function that was interrupted at an instruction: so many words above the stack pointer.
/// `None` if the function has a frame there.
///
/// `before` is the byte in front of the instruction, `code` the bytes from it on; eight are enough.
#[must_use]
pub const fn words_to_return(before: u8, code: &[u8]) -> Option<usize> {
    match (before, code) {
        // push rbp; mov rbp, rsp. The NOP of an entry that can be patched. ret.
        (_, [0x55, 0x48, 0x89, 0xe5, ..] | [0x0f, 0x1f, 0x44, 0x00, 0x08, ..] | [0xc3, ..]) => {
            Some(0)
        }
        // A jump behind pop rbp.
        (0x5d, [0xe9 | 0xeb, ..]) => Some(0),
        // mov rbp, rsp behind push rbp.
        (0x55, [0x48, 0x89, 0xe5, ..]) => Some(1),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::words_to_return;

    /// A function's bytes, and how many words are above the return address at each of its instructions.
    #[test]
    fn at_each_instruction() {
        let code = [
            0x90, 0x0f, 0x1f, 0x44, 0x00, 0x08, // nop dword ptr [rax + rax + 8]
            0x55, // push rbp
            0x48, 0x89, 0xe5, // mov rbp, rsp
            0x53, // push rbx
            0x5b, // pop rbx
            0x5d, // pop rbp
            0xe9, 0x00, 0x00, 0x00, 0x00, // jmp
            0xeb, 0x00, // jmp
            0xc3, // ret
        ];
        let at = |ip: usize| words_to_return(code[ip - 1], &code[ip..]);
        let found = [1, 6, 7, 10, 11, 12, 13, 18, 20].map(at);
        let (frame, caller) = (None, Some(0));
        let expected = [
            caller,
            caller,
            Some(1),
            frame,
            frame,
            frame,
            caller,
            frame,
            caller,
        ];
        assert_eq!(found, expected);
        assert_eq!(words_to_return(0, &[]), None);
    }
}
