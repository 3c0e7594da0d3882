//! The interrupt flag and the interrupt descriptor table.

use core::arch::asm;
use core::cell::UnsafeCell;

use x86_64::registers::rflags::RFlags;
use x86_64::structures::idt::{Entry, HandlerFunc, InterruptDescriptorTable};
use x86_64::{PrivilegeLevel, VirtAddr};

/// First vector of device interrupts. Of a higher class than the timer's (the local APIC serves the highest sixteen
/// first): a device's interrupt comes before the timers that are still due.
pub const FIRST_DEVICE_VECTOR: u8 = 0x60;
/// How many vectors devices have.
pub const NR_DEVICE_VECTORS: usize = 32;
/// The local APIC timer.
pub const TIMER_VECTOR: u8 = 0x50;
/// The local APIC timer while an early halt waits for the margin before the deadline. It stays so where a wake-up ends that, until
/// the CPU is idle again: below the kick's, as the timer's own.
pub(crate) const EARLY_TIMER_VECTOR: u8 = 0x4f;
/// Another CPU wants this one to look at its run queue and timers. It comes before the timer: one that is due again and again
/// keeps no other CPU waiting.
pub(crate) const KICK_VECTOR: u8 = 0x51;
/// The local APIC's spurious interrupt.
pub(crate) const SPURIOUS_VECTOR: u8 = 0xff;

/// The exception of `int3`.
const BREAKPOINT: usize = 3;

/// IST index (as the `x86_64` crate counts, from 0) for interrupts: the running thread's frame.
const IST_IRQ: u16 = 0;
/// Double fault.
pub(crate) const IST_DOUBLE_FAULT: u16 = 1;
/// Non-maskable interrupt.
pub(crate) const IST_NMI: u16 = 2;
/// Machine check.
pub(crate) const IST_MACHINE_CHECK: u16 = 3;
/// All other exceptions.
pub(crate) const IST_EXCEPTION: u16 = 4;

/// Makes RFLAGS what they were, interrupts enabled or not. A compiler barrier.
///
/// # Safety
/// As [`enable`], if interrupts are enabled in them; nothing but that is other than now.
#[inline(always)]
pub(crate) unsafe fn set_flags(flags: u64) {
    // SAFETY: the caller's duty. By way of the stack (no `nostack`).
    unsafe { asm!("push {}", "popfq", in(reg) flags) };
}

/// Disables interrupts. A compiler barrier: no memory access moves across.
#[inline(always)]
pub(crate) fn disable() {
    // SAFETY: clearing IF breaks no memory safety. No `nomem`: accesses must not leave the section.
    unsafe { asm!("cli", options(nostack)) };
}

/// Enables interrupts. A compiler barrier.
///
/// # Safety
/// The caller is not inside a section that someone else expects to be protected.
#[inline(always)]
pub(crate) unsafe fn enable() {
    // SAFETY: the caller's duty.
    unsafe { asm!("sti", options(nostack)) };
}

/// Lets in what is pending, right after [`enable`], whose effect begins one instruction late.
#[inline(always)]
pub(crate) fn window() {
    // SAFETY: does nothing. A compiler barrier, so that it stays where it is.
    unsafe { asm!("nop", options(nostack)) };
}

/// Whether interrupts are on (`RFLAGS.IF`).
#[inline(always)]
#[must_use]
pub fn are_enabled() -> bool {
    are_enabled_in(flags())
}

/// Whether interrupts are on in these RFLAGS.
#[inline(always)]
#[must_use]
pub(crate) const fn are_enabled_in(flags: u64) -> bool {
    RFlags::from_bits_retain(flags).contains(RFlags::INTERRUPT_FLAG)
}

/// RFLAGS.
#[inline(always)]
#[must_use]
pub(crate) fn flags() -> u64 {
    let flags: u64;
    // SAFETY: reads the flags by way of the stack (no `nostack`).
    unsafe { asm!("pushfq", "pop {}", out(reg) flags, options(preserves_flags)) };
    flags
}

/// The end of the idle thread's turn: enables interrupts and halts until one comes. The timer's interrupt keeps nothing
/// of a thread that waits here: the turn then ends by beginning anew instead of returning.
///
/// # Context
/// The idle thread with interrupts off; they are on afterwards.
#[inline(always)]
pub(crate) fn idle_halt() {
    // SAFETY: halting breaks no memory safety, and the idle thread holds nothing that could be lost.
    unsafe { takt_idle_halt() };
}

/// The first part of a halt that must end before its deadline: halts until the timer, which the caller has armed with
/// [`EARLY_TIMER_VECTOR`], or any other interrupt comes. The early interrupt does nothing but end the halt, unless it
/// comes so late that someone else runs already; then it is the timer's interrupt as any other.
///
/// # Context
/// The idle thread with interrupts off; they are off afterwards, too.
#[inline(always)]
pub(crate) fn halt_early() {
    // SAFETY: halting breaks no memory safety, and the idle thread holds nothing that `sti` could expose.
    unsafe { takt_halt_early() };
}

/// The end of the idle thread's turn where a halt is not exact: waits by going round, `rounds` instructions at most, for
/// the timer's interrupt, which the caller knows to come before.
///
/// # Context
/// The idle thread with interrupts off; they are on afterwards.
#[inline(always)]
pub(crate) fn idle_spin(rounds: u64) {
    // SAFETY: going round breaks no memory safety, and the idle thread holds nothing that could be lost.
    unsafe { takt_idle_spin(rounds) };
}

/// Stops this CPU for good.
pub(crate) fn halt_forever() -> ! {
    loop {
        // SAFETY: halting breaks no memory safety; only an NMI gets out, and the loop goes round.
        unsafe { asm!("cli", "hlt", options(nostack)) };
    }
}

struct Idt(UnsafeCell<InterruptDescriptorTable>);

// SAFETY: written once by `init_table` on the boot CPU before interrupts are enabled anywhere, read-only afterwards.
unsafe impl Sync for Idt {}

static IDT: Idt = Idt(UnsafeCell::new(InterruptDescriptorTable::new()));

unsafe extern "C" {
    fn takt_irq_timer();
    fn takt_irq_early_timer();
    fn takt_halt_early();
    fn takt_idle_halt();
    fn takt_idle_spin(rounds: u64);
    fn takt_irq_kick();
    fn takt_irq_spurious();
    static takt_irq_stubs: u8;
    static takt_exc_stubs: u8;
}

fn address(stub: unsafe extern "C" fn()) -> VirtAddr {
    VirtAddr::new(stub as *const () as u64)
}

/// Which of the devices' stubs a vector has: its own, or the last one, of the unexpected.
fn device_stub(vector: usize) -> usize {
    vector
        .wrapping_sub(usize::from(FIRST_DEVICE_VECTOR))
        .min(NR_DEVICE_VECTORS)
}

const _: () = assert!(KICK_VECTOR >> 4 < FIRST_DEVICE_VECTOR >> 4);
const _: () = assert!(TIMER_VECTOR < KICK_VECTOR && EARLY_TIMER_VECTOR < KICK_VECTOR);

/// Fills the table. Every vector leads somewhere: an exception's stub, a device's, or the one for the unexpected.
///
/// # Safety
/// Once, on the boot CPU, with interrupts off.
pub(crate) unsafe fn init_table() {
    // SAFETY: no one else looks at the table yet.
    let idt = unsafe { &mut *IDT.0.get() };
    // SAFETY: both stub tables have 16 bytes an entry, as `entry.rs` lays them out.
    let exceptions = VirtAddr::new(&raw const takt_exc_stubs as u64);
    let devices = VirtAddr::new(&raw const takt_irq_stubs as u64);

    // The table is 256 gates of 16 bytes; filling it as an array reaches the ones the crate types away.
    let gates = core::ptr::from_mut(idt).cast::<Entry<HandlerFunc>>();
    for vector in 0..256usize {
        let (target, ist) = match vector {
            2 => (exceptions + 16 * 2, IST_NMI),
            8 => (exceptions + 16 * 8, IST_DOUBLE_FAULT),
            18 => (exceptions + 16 * 18, IST_MACHINE_CHECK),
            0..32 => (exceptions + 16 * vector as u64, IST_EXCEPTION),
            _ if vector == usize::from(TIMER_VECTOR) => (address(takt_irq_timer), IST_IRQ),
            _ if vector == usize::from(EARLY_TIMER_VECTOR) => {
                (address(takt_irq_early_timer), IST_IRQ)
            }
            _ if vector == usize::from(KICK_VECTOR) => (address(takt_irq_kick), IST_IRQ),
            _ if vector == usize::from(SPURIOUS_VECTOR) => (address(takt_irq_spurious), IST_IRQ),
            _ => (devices + 16 * device_stub(vector) as u64, IST_IRQ),
        };
        // SAFETY: in bounds; every gate has the same layout, and no one else looks at the table yet.
        let gate = unsafe { &mut *gates.wrapping_add(vector) };
        // SAFETY: the target is an entry stub made for a gate with this IST.
        let options = unsafe { gate.set_handler_addr(target) };
        // SAFETY: the IST entry is set up by `descriptors::init` before interrupts come.
        unsafe { options.set_stack_index(ist) };
        // A task's breakpoint is told as what it is.
        if cfg!(feature = "tasks") && vector == BREAKPOINT {
            options.set_privilege_level(PrivilegeLevel::Ring3);
        }
    }
}

/// Loads the table on this CPU.
pub(crate) fn load_table() {
    // SAFETY: the table is static and complete.
    let idt = unsafe { &*IDT.0.get() };
    // SAFETY: it stays where it is, and each of its gates leads to a stub.
    unsafe { idt.load_unsafe() };
}

/// The caller's place and frame pointer, where a backtrace begins.
#[inline(always)]
#[must_use]
pub(crate) fn frame_pointer() -> (u64, u64) {
    let (rip, rbp): (u64, u64);
    // SAFETY: reads two registers.
    unsafe {
        asm!("lea {}, [rip]", "mov {}, rbp", out(reg) rip, out(reg) rbp, options(nomem, nostack, preserves_flags));
    }
    (rip, rbp)
}
