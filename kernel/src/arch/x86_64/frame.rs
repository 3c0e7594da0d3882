//! The trap frame: where an interrupted thread's registers rest.
//!
//! It lies right before the thread's control block. `TSS.IST1` points to its end, which is the control block: so the
//! CPU itself pushes the interrupt frame into it, the entry stub stores the registers below, and one word names both
//! the running thread and where its registers go. No interrupt touches the thread's stack, so `core`'s red zone stays
//! intact.

/// The registers of an interrupted thread. The callee-saved ones are stored only when another thread takes over; an
/// interrupt that returns to the same thread leaves them in the CPU, and MXCSR is kept in the control block.
#[repr(C, align(64))]
pub(crate) struct TrapFrame {
    pub(crate) xmm: [u128; 16],
    _reserved: [u64; 4],
    pub(crate) r15: u64,
    pub(crate) r14: u64,
    pub(crate) r13: u64,
    pub(crate) r12: u64,
    pub(crate) rbp: u64,
    pub(crate) rbx: u64,
    pub(crate) r11: u64,
    pub(crate) r10: u64,
    pub(crate) r9: u64,
    pub(crate) r8: u64,
    pub(crate) rdi: u64,
    pub(crate) rsi: u64,
    pub(crate) rcx: u64,
    pub(crate) rdx: u64,
    pub(crate) rax: u64,
    pub(crate) rip: u64,
    pub(crate) cs: u64,
    pub(crate) rflags: u64,
    pub(crate) rsp: u64,
    pub(crate) ss: u64,
}

// The CPU aligns RSP to 16 before it pushes (Intel SDM vol. 3A, 6.14.2), and the stubs rely on these distances.
const _: () = assert!(size_of::<TrapFrame>() == 0x1c0);
const _: () = assert!(core::mem::offset_of!(TrapFrame, rip) == 0x198);
const _: () = assert!(core::mem::offset_of!(TrapFrame, rax) == 0x190);

/// The registers at an exception, as the stub pushed them.
#[repr(C)]
#[derive(Clone, Debug)]
pub(crate) struct ExceptionFrame {
    pub(crate) r15: u64,
    pub(crate) r14: u64,
    pub(crate) r13: u64,
    pub(crate) r12: u64,
    pub(crate) r11: u64,
    pub(crate) r10: u64,
    pub(crate) r9: u64,
    pub(crate) r8: u64,
    pub(crate) rbp: u64,
    pub(crate) rdi: u64,
    pub(crate) rsi: u64,
    pub(crate) rdx: u64,
    pub(crate) rcx: u64,
    pub(crate) rbx: u64,
    pub(crate) rax: u64,
    pub(crate) vector: u64,
    pub(crate) code: u64,
    pub(crate) rip: u64,
    pub(crate) cs: u64,
    pub(crate) rflags: u64,
    pub(crate) rsp: u64,
    pub(crate) ss: u64,
}

const _: () = assert!(core::mem::offset_of!(ExceptionFrame, vector) == 15 * 8);
