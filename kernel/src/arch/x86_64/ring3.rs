//! What ring 3 needs of the CPU: registers that let it in and keep it there, and the way there.

use core::arch::asm;
use core::arch::x86_64::__cpuid_count;
use core::mem::offset_of;
use core::sync::atomic::Ordering::Relaxed;

use x86_64::registers::control::{Cr4, Cr4Flags};
use x86_64::registers::model_specific::Msr;
use x86_64::registers::rflags::RFlags;

use super::jump_label::{JUMP, TEST, Writable};
use super::percpu;
use super::space::Space;
use crate::config::MAX_CPUS;
use crate::task::frame::Frame;
use crate::thread::tcb::Tcb;

/// Selectors as [`descriptors::init`](super::descriptors::init) lays them out: `syscall` takes the kernel's code and the data
/// behind it, `sysret` the tasks' data behind that, and their code.
const KERNEL_CODE: u64 = 0x08;
const BEFORE_TASK_DATA: u64 = 0x10;

const STAR: u32 = 0xc000_0081;
const LSTAR: u32 = 0xc000_0082;
const FMASK: u32 = 0xc000_0084;
const SYSENTER_CS: u32 = 0x174;
const EFER: u32 = 0xc000_0080;
/// Bytes of each CPU's stub of calls.
pub(super) const STUB: usize = 32;
/// Where in it the jump is that all calls take while they are not traced.
pub(super) const STUB_JUMP: usize = 18;

/// What is left on of that which the loader may have switched on. Not OSXSAVE, protection keys, counters of events: nobody
/// keeps a task's state of these.
const KEPT: Cr4Flags = Cr4Flags::PHYSICAL_ADDRESS_EXTENSION
    .union(Cr4Flags::OSFXSR)
    .union(Cr4Flags::OSXMMEXCPT_ENABLE)
    .union(Cr4Flags::MACHINE_CHECK_EXCEPTION)
    .union(Cr4Flags::L5_PAGING);

unsafe extern "C" {
    static takt_call_stubs: u8;
    static takt_clac_start: u32;
    static takt_clac_end: u32;
    fn takt_enter_task(rip: usize, argument: u64) -> !;
}

/// Has this CPU let tasks in, and keep them there. The first step of all: entries need it.
///
/// # Panics
/// If the CPU lacks what tasks need.
///
/// # Safety
/// Once on each CPU, with interrupts off, before it has the kernel's interrupt table, and after `percpu::init`.
#[expect(
    clippy::multiple_unsafe_ops_per_block,
    reason = "one sequence of register writes"
)]
pub(crate) unsafe fn init() {
    let features = __cpuid_count(7, 0);
    assert!(
        features.ebx & 1 << 0 != 0,
        "this CPU has no FSGSBASE, which an image with tasks needs"
    );
    let has_smap = features.ebx & 1 << 20 != 0;
    let mut cr4 = Cr4::read() & KEPT | Cr4Flags::FSGSBASE;
    cr4.set(
        Cr4Flags::SUPERVISOR_MODE_EXECUTION_PROTECTION,
        features.ebx & 1 << 7 != 0,
    );
    cr4.set(Cr4Flags::SUPERVISOR_MODE_ACCESS_PREVENTION, has_smap);
    cr4.set(
        Cr4Flags::USER_MODE_INSTRUCTION_PREVENTION,
        features.ecx & 1 << 2 != 0,
    );
    let block = percpu::this();
    let stub = &raw const takt_call_stubs as usize + STUB * block.number() as usize;
    let cleared = RFlags::INTERRUPT_FLAG
        | RFlags::TRAP_FLAG
        | RFlags::DIRECTION_FLAG
        | RFlags::ALIGNMENT_CHECK
        | RFlags::NESTED_TASK
        | RFlags::RESUME_FLAG
        | RFlags::IOPL_LOW
        | RFlags::IOPL_HIGH;
    // SAFETY: the kernel uses no address that these forbid it, and the stub is made for this CPU.
    unsafe {
        Cr4::write(cr4);
        let mut efer = Msr::new(EFER);
        efer.write(efer.read() | 1);
        Msr::new(STAR).write(KERNEL_CODE << 32 | BEFORE_TASK_DATA << 48);
        Msr::new(LSTAR).write(stub as u64);
        Msr::new(FMASK).write(cleared.bits());
        Msr::new(SYSENTER_CS).write(0);
    }
    if !has_smap && block.number() == 0 {
        // SAFETY: interrupts are off, and no other CPU runs yet.
        unsafe { patch_out_clac() };
    }
}

/// From now on all calls go by `takt_call_traced`, or no longer: each stub's jump is a test without effect then, so one that is
/// not traced costs nothing.
pub(crate) fn trace_calls(text: &mut Writable, on: bool) {
    let code = if on { TEST } else { JUMP };
    let stubs = &raw const takt_call_stubs as usize;
    for cpu in 0..MAX_CPUS {
        crate::arch::proof::bounded!("stubs of calls");
        let jump = stubs + STUB * cpu + STUB_JUMP;
        // SAFETY: an instruction of five bytes that has either for its first one.
        unsafe { text.write_first(jump as u32, code) };
    }
}

/// Makes NOPs of the instructions that a CPU without SMAP does not have.
///
/// # Safety
/// Interrupts are off, and no other CPU runs.
#[cold]
unsafe fn patch_out_clac() {
    const NOP: [u8; 3] = [0x0f, 0x1f, 0x00];
    // SAFETY: the caller's duty.
    let _text = unsafe { Writable::lift() };
    // SAFETY: assembly puts the list of these places between both labels.
    let list =
        unsafe { crate::compact::between(&raw const takt_clac_start, &raw const takt_clac_end) };
    for place in list {
        // SAFETY: three bytes of an instruction that nothing executes now.
        unsafe { (*place as *mut [u8; 3]).write_volatile(NOP) };
    }
    // SAFETY: all is written.
    unsafe { Writable::restore() };
}

/// The running thread, which is in `space`, leaves the kernel for good: what it comes back by begins at its stack's top.
///
/// # Safety
/// The space has code there and is [renewed](renew). Nothing on the thread's stack is needed any more, and preemption is enabled.
pub(crate) unsafe fn enter(rip: usize, argument: u64) -> ! {
    super::interrupts::disable();
    // SAFETY: the caller's duty.
    unsafe { takt_enter_task(rip, argument) }
}

/// Gives the running thread's space what a life begins with in the FPU. With interrupts on, since it takes long.
pub(crate) fn renew(space: &Space) {
    leave(space);
    // SAFETY: the CPU has nothing of it from here on, until the thread is in ring 3 again.
    unsafe { space.reset() };
}

/// What the FPU has of `space` is of an earlier life, and is not kept. Interrupts are off.
fn forget(space: &Space) {
    let live = &percpu::this().live;
    if core::ptr::eq(live.load(Relaxed), space) {
        live.store(core::ptr::null_mut(), Relaxed);
    }
}

/// The running thread will not go back to `space`: what the FPU has of it is not kept.
pub(crate) fn leave(space: &Space) {
    super::interrupts::disable();
    forget(space);
    enable_interrupts_in_thread();
}

/// Gives the running thread its address space.
///
/// # Safety
/// With interrupts off; its tables are complete, and no other thread has it.
pub(crate) unsafe fn set_space(thread: &mut Tcb, space: &'static Space) {
    let on_stack = size_of::<Frame>() - offset_of!(Frame, status);
    // SAFETY: the caller's duty.
    unsafe { space.set_results(thread.stack_top - on_stack) };
    thread.space = space;
}

/// Where a task's exception goes on in its thread.
#[inline(always)]
pub(crate) fn enable_interrupts_in_thread() {
    // SAFETY: a thread that has come from ring 3 holds nothing.
    unsafe { asm!("sti", options(nostack)) };
}
