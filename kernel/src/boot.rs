//! Bringing the kernel up: what the board calls, in this order, on the boot CPU and later on each further one.
//!
//! Nothing of the kernel works before. So all of it is unsafe, and the board reaches it by [`machine`](crate::machine). At the end
//! the boot context of each CPU becomes the CPU's idle thread.

use core::ops::Range;

use takt_scheduler::ThreadId;

pub use crate::arch::paging::ImageTooLarge;
use crate::arch::stop::Text;
use crate::arch::{apic, descriptors, interrupts, jump_label, lock_prefix, paging, percpu};
use crate::cpus::SMP;
use crate::thread::tcb::{self, TcbRef};
use crate::thread::{create, stack};
use crate::{clock, cpus, expiry, idle, soft_timer};

/// What the machine measured or was told of its clocks.
#[derive(Clone, Copy, Debug)]
pub struct Clocks {
    /// Frequency of the TSC in Hz.
    pub tsc_hz: u64,
    /// Frequency of the local APIC timer in Hz.
    pub apic_hz: u64,
}

/// Before all others: maps the stacks, on the memory of the boot CPU's first one. Behind it the stacks' own addresses are used.
///
/// # Safety
/// Once, on the boot CPU, with the page tables that the boot code has begun in force.
#[unsafe(link_section = ".text.notrace.map_stacks")]
#[cfg_attr(
    feature = "function",
    patchable_function_entry(prefix_nops = 0, entry_nops = 0)
)]
pub unsafe extern "C" fn map_stacks() {
    // SAFETY: the caller's duty.
    unsafe { paging::open_window() };
    let mut map = |stack, memory, size| {
        // SAFETY: the caller's duty: nothing runs on the stack yet, and the memory is its own.
        unsafe { paging::map_stack(stack, memory, size) }
    };
    #[cfg(feature = "tasks")]
    // SAFETY: the caller's duty.
    unsafe {
        crate::arch::ports::open(|cpu| percpu::of(cpu).tss.get());
    };
    descriptors::map_stacks(&mut map);
    stack::map_stacks(&mut map);
}

/// First step: per-CPU block, segments, exceptions; the boot context becomes the idle thread. From here on faults are
/// reported, and tracers may be chosen that need neither further threads nor interrupts. `idle_stack` is the top of the boot
/// stack, where the idle thread begins anew.
///
/// # Safety
/// Once, on the boot CPU, with interrupts off, after [`set_machine`](crate::machine::set_machine).
pub unsafe fn early(idle_stack: usize) {
    // SAFETY: the caller's duty.
    unsafe { tcb::init() };
    // SAFETY: once, by the boot CPU, and nothing of the kernel has run but the table's `init`.
    unsafe { percpu::init(0, idle_of(0)) };
    #[cfg(feature = "tasks")]
    // SAFETY: once, with interrupts off, after `percpu::init`.
    unsafe {
        crate::arch::ring3::init();
    };
    // SAFETY: after `percpu::init`.
    unsafe { descriptors::init() };
    // SAFETY: once, with interrupts off.
    unsafe { interrupts::init_table() };
    interrupts::load_table();
    // SAFETY: once on this CPU.
    unsafe { create::adopt_idle(idle_stack) };
    cpus::set_online();
}

/// Second step: the final page tables, the local APIC. `there` is what the memory map names: of memory below 3 GiB only that is mapped.
///
/// # Errors
/// [`ImageTooLarge`].
///
/// # Safety
/// Once, on the boot CPU, after [`early`].
pub unsafe fn memory(there: impl Iterator<Item = Range<u64>>) -> Result<(), ImageTooLarge> {
    // SAFETY: the caller's duty.
    unsafe { paging::build(apic::physical_base(), there) }?;
    // SAFETY: the final tables are in force.
    unsafe { apic::init() };
    percpu::this().apic_id.set(apic::id());
    Ok(())
}

/// Third step: clocks and timers. From here on the boot context may create threads. They run once [`run`] is called.
///
/// # Safety
/// Once, on the boot CPU, after [`memory`].
pub unsafe fn scheduling(clocks: Clocks) {
    clock::set_tsc_hz(clocks.tsc_hz);
    apic::start_timer(clocks.apic_hz, clocks.tsc_hz);
    apic::calibrate_arm();
    // SAFETY: once, and nothing is armed.
    unsafe { soft_timer::init(0, expiry::do_deferred, 0) };
}

/// The boot CPU's boot context becomes its idle thread and lets everyone else run.
///
/// # Safety
/// Once, on the boot CPU, after [`scheduling`], on the stack whose top [`early`] was told.
pub unsafe fn run() -> ! {
    become_idle()
}

/// The boot context of a CPU becomes its idle thread.
fn become_idle() -> ! {
    // The depth of one that the per-CPU block began with: from here on threads may run.
    percpu::preempt_dec(crate::switch::preempt_schedule);
    // SAFETY: everything stands.
    unsafe { interrupts::enable() };
    if percpu::resched_now() {
        crate::section::own_thread().leave();
    }
    idle::idle_loop()
}

/// Readies the kernel for more than one CPU: from here on sections take locks.
///
/// # Context
/// A thread of the boot CPU, before a further CPU is started. Behind the first one it has no effect.
pub fn before_secondary(text: &mut Text) {
    if cpus::nr_online() == 1 {
        let key = &raw const SMP as u32;
        // No section may begin between the patching of a lock and that of its unlock: interrupts are off meanwhile.
        text.patch(|text| {
            jump_label::set(text, key, true);
            lock_prefix::restore(text);
        });
    }
}

/// Lets a further CPU run: everything but what is common to all was set up by the boot CPU. Does not return: its boot
/// context becomes its idle thread.
///
/// # Safety
/// Once on each further CPU, with interrupts off, NX enabled and the boot CPU past [`before_secondary`]. `idle_stack` is the
/// top of the stack that the caller runs on.
#[unsafe(link_section = ".text.notrace.secondary")]
pub unsafe fn secondary(cpu: usize, idle_stack: usize) -> ! {
    // SAFETY: the caller's duty, here and below.
    unsafe { percpu::init(cpu, idle_of(cpu)) };
    #[cfg(feature = "tasks")]
    // SAFETY: once on this CPU, after `percpu::init`.
    unsafe {
        crate::arch::ring3::init();
    };
    // SAFETY: after `percpu::init`.
    unsafe { descriptors::init() };
    interrupts::load_table();
    paging::load();
    // SAFETY: the final tables are in force.
    unsafe { apic::init() };
    percpu::this().apic_id.set(apic::id());
    apic::start_timer_as_boot_cpu();
    // SAFETY: once on this CPU.
    unsafe { create::adopt_idle(idle_stack) };
    cpus::set_online();
    // Whoever has others halt may not have seen it online.
    cpus::halt_if_over();
    become_idle()
}

/// The control block of a CPU's idle thread: the boot context counts as that from the start.
#[inline(always)]
fn idle_of(cpu: usize) -> *mut percpu::Running {
    TcbRef::of(ThreadId::new(cpu as u8)).as_ptr().cast()
}
