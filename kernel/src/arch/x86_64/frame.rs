//! The trap frame: where an interrupted thread's registers rest.
//!
//! It is the first part of the thread's control block. `TSS.IST1` points to its end, so the CPU itself pushes the
//! interrupt frame into it, and the entry stub stores the registers below. No interrupt touches the thread's stack,
//! so `core`'s red zone stays intact.

/// All registers of an interrupted thread. The callee-saved ones and MXCSR are stored only when another thread takes
/// over; an interrupt that returns to the same thread leaves them in the CPU.
#[repr(C, align(64))]
#[derive(Clone)]
#[expect(missing_docs, reason = "the fields are the registers of that name")]
pub struct TrapFrame {
    pub xmm: [u128; 16],
    pub mxcsr: u32,
    _reserved: [u32; 5],
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
    pub vector: u64,
    pub rip: u64,
    pub cs: u64,
    pub rflags: u64,
    pub rsp: u64,
    pub ss: u64,
}

impl TrapFrame {
    /// A frame of zeros.
    pub const ZERO: Self = Self {
        xmm: [0; 16],
        mxcsr: 0x1f80,
        _reserved: [0; 5],
        r15: 0,
        r14: 0,
        r13: 0,
        r12: 0,
        rbp: 0,
        rbx: 0,
        r11: 0,
        r10: 0,
        r9: 0,
        r8: 0,
        rdi: 0,
        rsi: 0,
        rcx: 0,
        rdx: 0,
        rax: 0,
        vector: 0,
        rip: 0,
        cs: 0,
        rflags: 0,
        rsp: 0,
        ss: 0,
    };
}

// The CPU aligns RSP to 16 before it pushes (Intel SDM vol. 3A, 6.14.2), and the stubs rely on these distances.
const _: () = assert!(size_of::<TrapFrame>() == 0x1c0);
const _: () = assert!(core::mem::offset_of!(TrapFrame, rip) == 0x198);
const _: () = assert!(core::mem::offset_of!(TrapFrame, rax) == 0x188);
