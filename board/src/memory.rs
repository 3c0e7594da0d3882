//! `memcpy` and its kin, which the compiler calls and no library supplies here.
//!
//! String instructions: one instruction each, at full speed on any CPU with ERMSB, and one instruction under icount.
//! Never backwards: the kernel's entry stubs rely on it that no code sets the direction flag. Tasks have the same, and an address
//! space of their own.

use core::arch::naked_asm;

/// Copies `n` bytes forwards.
#[unsafe(naked)]
#[unsafe(no_mangle)]
unsafe extern "C" fn memcpy(to: *mut u8, from: *const u8, n: usize) -> *mut u8 {
    naked_asm!("mov rax, rdi", "mov rcx, rdx", "rep movsb", "ret")
}

/// Copies `n` bytes that may overlap.
#[unsafe(naked)]
#[unsafe(no_mangle)]
unsafe extern "C" fn memmove(to: *mut u8, from: *const u8, n: usize) -> *mut u8 {
    naked_asm!(
        "mov rax, rdi",
        "mov rcx, rdx",
        "mov r8, rdi",
        "sub r8, rsi",
        "cmp r8, rdx",
        "jb 2f",
        "rep movsb",
        "ret",
        // From the end, and without the direction flag: an interrupt's handler would begin with it, and copy backwards.
        "2:",
        "cmp rdx, 8",
        "jb 4f",
        "3:",
        "mov r8, [rsi + rdx - 8]",
        "mov [rdi + rdx - 8], r8",
        "sub rdx, 8",
        "cmp rdx, 8",
        "jae 3b",
        "4:",
        "sub rdx, 1",
        "jb 5f",
        "mov r8b, [rsi + rdx]",
        "mov [rdi + rdx], r8b",
        "jmp 4b",
        "5:",
        "ret",
    )
}

/// Sets `n` bytes.
#[unsafe(naked)]
#[unsafe(no_mangle)]
unsafe extern "C" fn memset(to: *mut u8, byte: i32, n: usize) -> *mut u8 {
    naked_asm!(
        "mov r8, rdi",
        "mov eax, esi",
        "mov rcx, rdx",
        "rep stosb",
        "mov rax, r8",
        "ret"
    )
}

/// Compares `n` bytes: negative, zero or positive.
#[unsafe(naked)]
#[unsafe(no_mangle)]
unsafe extern "C" fn memcmp(a: *const u8, b: *const u8, n: usize) -> i32 {
    naked_asm!(
        "xor eax, eax",
        "mov rcx, rdx",
        "cmp rcx, rcx", // equal, should there be nothing to compare
        "repe cmpsb",
        "je 2f",
        "movzx eax, byte ptr [rdi - 1]",
        "movzx ecx, byte ptr [rsi - 1]",
        "sub eax, ecx",
        "2:",
        "ret",
    )
}

/// Zero if `n` bytes are equal.
#[unsafe(naked)]
#[unsafe(no_mangle)]
unsafe extern "C" fn bcmp(a: *const u8, b: *const u8, n: usize) -> i32 {
    naked_asm!("jmp {}", sym memcmp)
}

/// Length of a zero-terminated string.
#[unsafe(naked)]
#[unsafe(no_mangle)]
unsafe extern "C" fn strlen(text: *const u8) -> usize {
    naked_asm!(
        "xor eax, eax",
        "mov rcx, -1",
        "repne scasb",
        "lea rax, [rcx + 2]",
        "neg rax",
        "ret"
    )
}
