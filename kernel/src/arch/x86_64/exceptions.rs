//! Exceptions: what the CPU itself complains about.
//!
//! An exception in kernel or thread code is a bug; it is reported with every register and the machine is stopped.
//! NMIs are counted and passed to a hook.

use core::mem::offset_of;

use x86_64::registers::control::Cr2;

use super::percpu;
use crate::fault::{self, Fault};

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

const _: () = assert!(offset_of!(ExceptionFrame, vector) == 15 * 8);

const NMI_VECTOR: u64 = 2;
const GENERAL_PROTECTION: u64 = 13;
const PAGE_FAULT: u64 = 14;

/// Called by every exception's stub.
#[unsafe(link_section = ".text.notrace.exception")]
#[cfg_attr(
    feature = "function",
    patchable_function_entry(prefix_nops = 0, entry_nops = 0)
)]
pub(super) extern "C" fn exception(frame: &mut ExceptionFrame) {
    // SAFETY: this CPU's own block.
    let block = unsafe { &mut *percpu::this() };
    if frame.vector == NMI_VECTOR {
        #[cfg(feature = "latency-tracers")]
        let hook = super::place::UnderWay::of(&block.hooks);
        nmi(block);
        #[cfg(feature = "latency-tracers")]
        {
            frame.rip = hook.go_on(&block.hooks, frame.rip);
        }
        return;
    }
    if frame.vector == GENERAL_PROTECTION
        && let Some(rip) = super::msr::resume(frame.rip)
    {
        frame.rip = rip;
        return;
    }
    block.in_exception += 1;
    if block.in_exception > 2 {
        super::interrupts::halt_forever();
    }
    let address = if frame.vector == PAGE_FAULT {
        Cr2::read_raw()
    } else {
        0
    };
    fault::report(&Fault {
        frame,
        address,
        nested: block.in_exception > 1,
    });
}

/// A non-maskable interrupt: the context says so to every trace record made inside.
#[inline(always)]
fn nmi(block: &mut percpu::PerCpu) {
    #[cfg(feature = "osnoise")]
    let begun = match crate::static_branch!(crate::trace::osnoise::noise::NMI) {
        true => super::tsc::now(),
        false => 0,
    };
    block.nr_nmis += 1;
    // SAFETY: one instruction each on this CPU's own byte.
    unsafe {
        core::arch::asm!("or byte ptr gs:[{}], {}", const percpu::PREEMPT, const percpu::NMI, options(nostack))
    };
    crate::irq::nmi();
    #[cfg(feature = "osnoise")]
    if crate::static_branch!(crate::trace::osnoise::noise::NMI) {
        crate::trace::osnoise::noise::nmi_ended(begun);
    }
    // SAFETY: as above.
    unsafe {
        core::arch::asm!("and byte ptr gs:[{}], {}", const percpu::PREEMPT, const !percpu::NMI as i8, options(nostack));
    }
}

/// The manual's name of an exception.
#[must_use]
pub fn name(vector: u64) -> &'static str {
    match vector {
        0 => "#DE divide error",
        1 => "#DB debug exception",
        2 => "NMI",
        3 => "#BP breakpoint",
        4 => "#OF overflow",
        5 => "#BR bound range exceeded",
        6 => "#UD invalid opcode",
        7 => "#NM device not available",
        8 => "#DF double fault",
        10 => "#TS invalid TSS",
        11 => "#NP segment not present",
        12 => "#SS stack fault",
        13 => "#GP general protection",
        14 => "#PF page fault",
        16 => "#MF x87 floating-point error",
        17 => "#AC alignment check",
        18 => "#MC machine check",
        19 => "#XM SIMD floating-point exception",
        20 => "#VE virtualisation exception",
        21 => "#CP control protection",
        _ => "reserved exception",
    }
}
