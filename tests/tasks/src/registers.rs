//! What threads have in the FPU - x87, SSE registers and MXCSR - over a call and while others run: each its own, and nothing of another's.
//! And what they have in selectors and `fs`: nothing of another's, either.

use core::arch::{asm, global_asm};

use takt_user::abi::Call;
use takt_user::{Instant, Nanos, exit};

const ROUNDS: u64 = 8;

/// What `fxsave64` stores. Source: Intel SDM vol. 1, 10.5.1 (FXSAVE area).
#[repr(C, align(16))]
#[derive(Clone, Copy)]
struct Fpu([u64; 64]);

impl Fpu {
    /// Control, status and tags of x87; the words behind say where an instruction was.
    const X87: usize = 0;
    const MXCSR: usize = 3;
    /// Eight of ten bytes, with room behind each.
    const ST: usize = 4;
    const XMM: usize = 20;
    const END: usize = 52;

    /// Numbers of this thread's own everywhere: all exceptions are masked, and none of them matters.
    fn of(own: u64) -> Self {
        let mut words = [0; 64];
        let bits = own ^ own >> 16;
        let (rounding, flags, top) = (bits & 3, bits & 0x3f, bits & 7);
        words[Self::X87] = 0x37f | rounding << 10 | (top << 11 | flags) << 16 | 0xff << 32;
        words[Self::MXCSR] = 0x1f80 | rounding << 13 | flags;
        for place in Self::ST..Self::END {
            let number = own << 32 | place as u64;
            words[place] = match place < Self::XMM && place % 2 == 1 {
                true => number & 0xffff,
                false => number,
            };
        }
        Self(words)
    }

    /// What a life begins with, but for SSE registers: it may have used these.
    fn is_new(&self) -> bool {
        let [x87, .., mxcsr] = self.masked()[..=Self::MXCSR] else {
            return false;
        };
        let is_zero = self.masked()[Self::ST..Self::XMM].iter().all(|it| *it == 0);
        (x87, mxcsr) == (0x37f, 0x1f80) && is_zero
    }

    /// Without what says where an instruction was, and what is reserved.
    fn masked(&self) -> [u64; Self::END] {
        core::array::from_fn(|place| match place {
            Self::X87 => self.0[place] & 0xff_ffff_ffff,
            1 | 2 => 0,
            Self::MXCSR => self.0[place] & 0xffff_ffff,
            _ if place < Self::XMM && place % 2 == 1 => self.0[place] & 0xffff,
            _ => self.0[place],
        })
    }
}

global_asm!(
    ".text",
    // rdi = what the FPU has, of which other things are there behind it; rsi, rdx = the call's arguments, rcx = its number, r8 = how
    // often it goes round before. Gives the result.
    "takt_call_with_registers:",
    ".irp r, rbx,rbp,r12,r13,r14,r15,rdi",
    "push \\r",
    ".endr",
    "fxrstor64 [rdi]",
    "2:",
    "dec r8",
    "jnz 2b",
    "mov rax, rcx",
    "syscall",
    "pop rdi",
    "fxsave64 [rdi]",
    // What functions have to find.
    "fninit",
    "mov dword ptr [rsp - 8], 0x1f80",
    "ldmxcsr [rsp - 8]",
    ".irp r, r15,r14,r13,r12,rbp,rbx",
    "pop \\r",
    ".endr",
    "ret",
    // rdi = where it stores what the FPU has.
    "takt_store_registers:",
    "fxsave64 [rdi]",
    "ret",
);

unsafe extern "C" {
    fn takt_call_with_registers(fpu: &mut Fpu, a: u64, b: u64, number: u64, rounds: u64) -> u64;
    fn takt_store_registers(fpu: &mut Fpu);
}

/// The selectors of data, of which only null ones mean nothing, and the base of `fs`.
#[derive(Clone, Copy, PartialEq)]
struct Segments {
    selectors: [u16; 4],
    fs: u64,
}

impl Segments {
    /// This thread's own.
    fn of(own: u64) -> Self {
        let selector = 1 + (own >> 16 & 1) as u16;
        Self {
            selectors: [selector; 4],
            fs: own,
        }
    }

    fn now() -> Self {
        let [ds, es, fs, gs]: [u16; 4];
        // SAFETY: only reads registers.
        unsafe {
            asm!("mov {:x}, ds", "mov {:x}, es", "mov {:x}, fs", "mov {:x}, gs", out(reg) ds, out(reg) es, out(reg) fs, out(reg) gs, options(nomem, nostack));
        }
        Self {
            selectors: [ds, es, fs, gs],
            fs: crate::fs_base(),
        }
    }

    fn load(self) {
        let [ds, es, fs, gs] = self.selectors;
        // SAFETY: nobody uses what they select. A selector clears its base, so that comes behind.
        unsafe {
            asm!("mov ds, {:x}", "mov es, {:x}", "mov fs, {:x}", "mov gs, {:x}", "wrfsbase {}", in(reg) ds, in(reg) es, in(reg) fs, in(reg) gs, in(reg) self.fs, options(nomem, nostack));
        }
    }

    /// Whether each is one of the thread's own, or what it began with, which it has again once others have run.
    fn is_of(self, own: Self, first: Self) -> bool {
        let mut selectors = self.selectors.iter().zip(own.selectors);
        selectors.all(|(it, own)| [0, own].contains(it)) && [own.fs, first.fs].contains(&self.fs)
    }
}

/// Calls with numbers of this thread's own in all of them, which it has had for a while, and ends the thread's task unless they are there again.
fn keep(own: u64, rounds: u64, call: Call, a: u64, b: u64) {
    let expected = Fpu::of(own);
    let mut fpu = expected;
    let (first, segments) = (Segments::now(), Segments::of(own));
    segments.load();
    // SAFETY: it keeps what a function has to keep, and the calls change no memory.
    let status = unsafe { takt_call_with_registers(&mut fpu, a, b, call as u64, rounds) };
    if status != 0 || fpu.masked() != expected.masked() {
        exit(1);
    }
    if !Segments::now().is_of(segments, first) {
        exit(3);
    }
    first.load();
}

/// Ends the task if another life or thread has left something.
fn begin() {
    let mut fpu = Fpu([0; 64]);
    // SAFETY: it only stores what there is.
    unsafe { takt_store_registers(&mut fpu) };
    let segments = Segments::now();
    let stack = (&raw const segments).expose_provenance() as u64;
    let is_own = (stack..stack + 4096).contains(&segments.fs);
    if !fpu.is_new() || segments.selectors != [0; 4] || !is_own {
        exit(2);
    }
}

/// Calls the first of the peers.
pub(crate) fn ask() {
    begin();
    for round in 0..ROUNDS {
        keep(0x00a5_0000 | round, 1, Call::Call, 0, 0);
    }
}

/// Answers.
pub(crate) fn answer() {
    begin();
    keep(0x005a_0000, 1, Call::Receive, 0, u64::MAX);
    for round in 1..ROUNDS {
        let own = 0x005a_0000 | round;
        keep(own, 1, Call::ReplyAndReceive, 0, u64::MAX);
    }
    keep(0x0055_0000, 1, Call::Reply, 0, 0);
}

/// Sleeps again and again, if it is to do that; else it goes round for so long.
pub(crate) fn hold(sleeps: bool) {
    begin();
    for round in 0..10 * ROUNDS {
        if sleeps {
            let until = Instant::after(Nanos::new(3_000)).nanos();
            keep(0x00a5_0000 | round, 100, Call::SleepUntil, until, 0);
        } else {
            keep(0x005a_0000 | round, 2_000, Call::Null, 0, 0);
        }
    }
}
