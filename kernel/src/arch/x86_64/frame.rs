//! The trap frame: where an interrupted thread's registers rest.
//!
//! It lies right before the thread's control block. `TSS.IST1` points to its end, which is the control block: so the
//! CPU itself pushes the interrupt frame into it, the entry stub stores the registers below, and one word names both
//! the running thread and where its registers go. No interrupt touches the thread's stack, so `core`'s red zone stays
//! intact.

/// The registers of an interrupted thread. The callee-saved ones are stored only when another thread takes over; an
/// interrupt that returns to the same thread leaves them in the CPU, and MXCSR is kept in the control block.
#[repr(C, align(64))]
#[expect(missing_docs, reason = "the fields are the registers of that name")]
pub struct TrapFrame {
    pub xmm: [u128; 16],
    _reserved: [u64; 4],
    pub r15: u64,
    pub r14: u64,
    pub r13: u64,
    pub r12: u64,
    pub rbp: u64,
    pub rbx: u64,
    pub r11: u64,
    pub r10: u64,
    pub r9: u64,
    pub r8: u64,
    pub rdi: u64,
    pub rsi: u64,
    pub rcx: u64,
    pub rdx: u64,
    pub rax: u64,
    pub rip: u64,
    pub cs: u64,
    pub rflags: u64,
    pub rsp: u64,
    pub ss: u64,
}

// The CPU aligns RSP to 16 before it pushes (Intel SDM vol. 3A, 6.14.2), and the stubs rely on these distances.
const _: () = assert!(size_of::<TrapFrame>() == 0x1c0);
const _: () = assert!(core::mem::offset_of!(TrapFrame, rip) == 0x198);
const _: () = assert!(core::mem::offset_of!(TrapFrame, rax) == 0x190);

/// The registers at an exception, as the stub pushed them.
#[repr(C)]
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the fields are the registers of that name")]
pub struct ExceptionFrame {
    pub r15: u64,
    pub r14: u64,
    pub r13: u64,
    pub r12: u64,
    pub r11: u64,
    pub r10: u64,
    pub r9: u64,
    pub r8: u64,
    pub rbp: u64,
    pub rdi: u64,
    pub rsi: u64,
    pub rdx: u64,
    pub rcx: u64,
    pub rbx: u64,
    pub rax: u64,
    pub vector: u64,
    pub code: u64,
    pub rip: u64,
    pub cs: u64,
    pub rflags: u64,
    pub rsp: u64,
    pub ss: u64,
}

const _: () = assert!(core::mem::offset_of!(ExceptionFrame, vector) == 15 * 8);
