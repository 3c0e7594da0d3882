//! What a thread has in registers, and a stretch of code that holds it there.

use core::arch::asm;

/// Registers and red zone: 16 of 128 bits, 15 of 64 bits, 16 words below the stack pointer.
#[repr(C, align(16))]
#[derive(Clone, PartialEq, Eq)]
pub struct Contents {
    xmm: [u128; 16],
    general: [u64; 15],
    red_zone: [u64; 16],
}

impl Contents {
    /// Different in every place and for every seed. The red zone's are `seed + 1` to `seed + 16`.
    #[must_use]
    #[inline(never)]
    #[unsafe(link_section = ".text.sse.new")]
    pub fn new(seed: u64) -> Self {
        let word = |i: u64| (seed + i).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        Self {
            xmm: core::array::from_fn(|i| {
                u128::from(word(i as u64)) << 64 | u128::from(word(100 + i as u64))
            }),
            general: core::array::from_fn(|i| word(200 + i as u64)),
            red_zone: core::array::from_fn(|i| seed + i as u64 + 1),
        }
    }
}

/// Puts `input` into all registers and the red zone, counts `rounds` down in memory, and gives what is there then.
#[inline(never)]
#[unsafe(link_section = ".text.sse.hold")]
pub fn hold(input: &Contents, seed: u64, rounds: u64) -> Contents {
    let mut output = input.clone();
    // SAFETY: stores within `output` and below the stack pointer, where nothing else is; all registers are restored or
    // declared as clobbered.
    unsafe {
        asm!(
            "push rbx",
            "push rbp",
            "push rsi",
            "push rdx",
            ".irp i, 1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16",
            "lea rcx, [rax + \\i]",
            "mov [rsp - 8 * \\i], rcx",
            ".endr",
            ".irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15",
            "movaps xmm\\n, [rdi + 16 * \\n]",
            ".endr",
            ".set place, 256",
            ".irp r, rax,rbx,rcx,rdx,rsi,rbp,r8,r9,r10,r11,r12,r13,r14,r15,rdi",
            "mov \\r, [rdi + place]",
            ".set place, place + 8",
            ".endr",
            "2:",
            "dec qword ptr [rsp]",
            "jnz 2b",
            "xchg rdi, [rsp + 8]", // the output's address for the last register
            ".set place, 256",
            ".irp r, rax,rbx,rcx,rdx,rsi,rbp,r8,r9,r10,r11,r12,r13,r14,r15",
            "mov [rdi + place], \\r",
            ".set place, place + 8",
            ".endr",
            "mov rax, [rsp + 8]",
            "mov [rdi + place], rax",
            ".irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15",
            "movaps [rdi + 16 * \\n], xmm\\n",
            ".endr",
            ".irp i, 1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16",
            "mov rax, [rsp - 8 * \\i]",
            "mov [rdi + 368 + 8 * \\i], rax",
            ".endr",
            "add rsp, 16",
            "pop rbp",
            "pop rbx",
            inout("rdi") input => _, inout("rsi") &raw mut output => _, inout("rdx") rounds => _, inout("rax") seed => _,
            out("rcx") _, out("r8") _, out("r9") _, out("r10") _, out("r11") _,
            out("r12") _, out("r13") _, out("r14") _, out("r15") _,
            out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _,
            out("xmm4") _, out("xmm5") _, out("xmm6") _, out("xmm7") _,
            out("xmm8") _, out("xmm9") _, out("xmm10") _, out("xmm11") _,
            out("xmm12") _, out("xmm13") _, out("xmm14") _, out("xmm15") _,
        );
    }
    output
}

const _: () = assert!(
    core::mem::offset_of!(Contents, general) == 256
        && core::mem::offset_of!(Contents, red_zone) == 376
);
