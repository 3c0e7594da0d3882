//! Exceptions: what the CPU itself complains about.
//!
//! An exception in kernel or thread code is a bug; it is reported with every register and the machine is stopped.
//! NMIs are counted and passed to a hook.

use x86_64::registers::control::Cr2;

use super::frame::ExceptionFrame;
use super::percpu;
#[cfg(feature = "osnoise")]
use crate::clock::Instant;
use crate::cpus;
use crate::fault::{self, Fault};
use crate::lock;

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
    let block = percpu::this();
    if frame.vector == NMI_VECTOR {
        if cfg!(feature = "tasks") && frame.cs & 3 != 0 {
            // Where a task stands says nothing of the kernel, though it may look so.
            return nmi(block, frame.rip as usize);
        }
        #[cfg(feature = "latency-tracers")]
        let hook = super::timed::UnderWay::of(&block.hooks);
        nmi(block, frame.rip as usize);
        #[cfg(feature = "latency-tracers")]
        {
            frame.rip = hook.resume(&block.hooks, frame.rip);
        }
        return;
    }
    if frame.vector == GENERAL_PROTECTION
        && let Some(rip) = super::msr::resume(frame.rip)
    {
        frame.rip = rip;
        return;
    }
    stop(frame);
}

/// Reports what nobody goes on from.
#[cold]
#[inline(never)]
#[unsafe(link_section = ".text.notrace.exception_stop")]
#[cfg_attr(
    feature = "function",
    patchable_function_entry(prefix_nops = 0, entry_nops = 0)
)]
fn stop(frame: &mut ExceptionFrame) -> ! {
    let nr = fault::begin(percpu::this(), Some(frame.vector));
    if nr > 2 {
        crate::machine::halt_forever();
    }
    let address = if frame.vector == PAGE_FAULT {
        Cr2::read_raw()
    } else {
        0
    };
    fault::report(&Fault {
        frame,
        address,
        nested: nr > 1,
    });
}

/// A non-maskable interrupt: the context says so to every trace record made inside.
#[inline(always)]
fn nmi(block: &percpu::PerCpu, rip: usize) {
    cpus::halt_in_nmi_if_over(move || lock::may_have_one(rip));
    #[cfg(feature = "osnoise")]
    let begun = match crate::static_branch!(crate::trace::osnoise::noise::NMI) {
        true => Instant::now(),
        false => Instant::ZERO,
    };
    percpu::count(&block.nr_nmis);
    // SAFETY: one instruction on this CPU's own byte.
    unsafe {
        core::arch::asm!("or byte ptr gs:[{}], {}", const percpu::PREEMPT, const percpu::NMI, options(nostack))
    };
    crate::irq::run_nmi_handler(rip);
    #[cfg(feature = "osnoise")]
    if crate::static_branch!(crate::trace::osnoise::noise::NMI) {
        crate::trace::osnoise::noise::nmi_ended(begun);
    }
    // SAFETY: one instruction on this CPU's own byte; the bit was set above.
    unsafe {
        core::arch::asm!("and byte ptr gs:[{}], {}", const percpu::PREEMPT, const !percpu::NMI as i8, options(nostack));
    }
}
