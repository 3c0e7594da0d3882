//! Bringing the kernel up, and the idle thread.

use crate::arch::{apic, descriptors, interrupts, paging, percpu};
use crate::{fault, smp, soft_timer, thread, time};

/// What the machine measured or was told of its clocks.
#[derive(Clone, Copy, Debug)]
pub struct Clocks {
    /// Frequency of the TSC in Hz.
    pub tsc_hz: u64,
    /// Frequency of the local APIC timer in Hz.
    pub apic_hz: u64,
}

/// First step: per-CPU block, segments, exceptions; the boot context becomes the idle thread. From here on faults are
/// reported, and tracers may be chosen that need neither further threads nor interrupts. `idle_stack` is the top of the boot
/// stack, where the idle thread begins anew.
///
/// # Safety
/// Once, on the boot CPU, with interrupts off, after [`fault::set_machine`].
pub unsafe fn early(idle_stack: usize) {
    // SAFETY: the caller's duty.
    unsafe { thread::tcb::init() };
    // SAFETY: as above.
    unsafe { percpu::init(0) };
    // SAFETY: after `percpu::init`.
    unsafe { descriptors::init() };
    // SAFETY: once, with interrupts off.
    unsafe { interrupts::init_table() };
    interrupts::load_table();
    // SAFETY: once on this CPU.
    unsafe { thread::adopt_idle(idle_stack) };
    smp::set_online();
}

/// Second step: the final page tables, guard pages, the local APIC.
///
/// # Errors
/// [`paging::ImageTooLarge`].
///
/// # Safety
/// Once, on the boot CPU, after [`early`].
pub unsafe fn memory() -> Result<(), paging::ImageTooLarge> {
    // SAFETY: the caller's duty.
    unsafe { paging::build(apic::physical_base()) }?;
    // SAFETY: guard pages are used by no one, and only this CPU runs.
    descriptors::for_each_guard(|page, _| unsafe { paging::unmap(page) });
    // SAFETY: as above.
    thread::for_each_stack(|page| unsafe { paging::unmap(page) });
    // SAFETY: the final tables are in force.
    unsafe { apic::init() };
    // SAFETY: this CPU's own block.
    unsafe { (*percpu::this()).apic_id = apic::id() };
    Ok(())
}

/// Third step: clocks and timers. From here on the boot context may create threads. They run once [`run`] is called.
///
/// # Safety
/// Once, on the boot CPU, after [`memory`].
pub unsafe fn scheduling(clocks: Clocks) {
    time::set_tsc_hz(clocks.tsc_hz);
    apic::start_timer(clocks.apic_hz, clocks.tsc_hz);
    apic::calibrate_arm();
    // SAFETY: once, and nothing is armed.
    unsafe { soft_timer::init() };
}

/// The boot CPU's boot context becomes its idle thread and lets everyone else run.
pub fn run() -> ! {
    // The depth of one that the per-CPU block began with: from here on threads may run.
    percpu::preempt_dec(crate::switch::preempt_schedule);
    // SAFETY: everything stands.
    unsafe { interrupts::enable() };
    if percpu::resched_now() {
        crate::section::enter_thread().leave();
    }
    idle_loop()
}

/// Lets a further CPU run: everything but what is common to all was set up by the boot CPU. Does not return: its boot
/// context becomes its idle thread.
///
/// # Safety
/// Once on each further CPU, with interrupts off, NX enabled and the boot CPU past [`scheduling`]. `idle_stack` is the
/// top of the stack that the caller runs on.
#[unsafe(link_section = ".text.notrace.secondary")]
pub unsafe fn secondary(cpu: usize, idle_stack: usize) -> ! {
    // SAFETY: the caller's duty, here and below.
    unsafe { percpu::init(cpu) };
    // SAFETY: after `percpu::init`.
    unsafe { descriptors::init() };
    interrupts::load_table();
    paging::load();
    // SAFETY: the final tables are in force.
    unsafe { apic::init() };
    // SAFETY: this CPU's own block.
    unsafe { (*percpu::this()).apic_id = apic::id() };
    apic::start_timer_as_boot_cpu();
    // SAFETY: once on this CPU.
    unsafe { thread::adopt_idle(idle_stack) };
    smp::set_online();
    run()
}

/// The idle thread. Begins anew whenever the timer interrupt found it waiting.
pub(crate) extern "C" fn idle() -> ! {
    crate::trace::section_ends();
    // SAFETY: the entry stub comes here with interrupts off and nothing held.
    unsafe { interrupts::enable() };
    idle_loop()
}

#[inline(always)]
fn idle_loop() -> ! {
    loop {
        crate::trace::prepare(time::next_deadline());
        fault::idle();
        time::idle_wait();
    }
}
