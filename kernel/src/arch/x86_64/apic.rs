//! The local APIC in xAPIC mode: end of interrupt, the one-shot timer, inter-processor interrupts.
//!
//! Its page is mapped at `__lapic_page` inside the image, so that a register is one absolute address and the end of
//! interrupt one instruction. A firmware that left x2APIC on is taken back to xAPIC mode.
//!
//! Source: Intel SDM vol. 3A, chapter 11 (10 in older editions).

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use volatile::VolatilePtr;
use x86_64::registers::model_specific::Msr;

use super::interrupts::{
    self, FIRST_DEVICE_VECTOR, KICK_VECTOR, NR_DEVICE_VECTORS, SPURIOUS_VECTOR, TIMER_VECTOR,
};
use super::proof;
use super::tsc;

const APIC_BASE: u32 = 0x1b;
const TSC_DEADLINE: u32 = 0x6e0;

const ID: usize = 0x20;
const TASK_PRIORITY: usize = 0x80;
const SPURIOUS: usize = 0xf0;
const IN_SERVICE: usize = 0x100;
const REQUEST: usize = 0x200;
const ICR_LOW: usize = 0x300;
const ICR_HIGH: usize = 0x310;
const LVT_TIMER: usize = 0x320;
const LVT_LINT0: usize = 0x350;
const LVT_LINT1: usize = 0x360;
const LVT_ERROR: usize = 0x370;
const INITIAL_COUNT: usize = 0x380;
const CURRENT_COUNT: usize = 0x390;
const DIVIDE: usize = 0x3e0;

const MASKED: u32 = 1 << 16;
const MODE_TSC_DEADLINE: u32 = 2 << 17;
const DELIVERY_NMI: u32 = 4 << 8;

unsafe extern "C" {
    static __lapic_page: u8;
}

/// Virtual address of the register page.
pub(crate) fn page() -> usize {
    &raw const __lapic_page as usize
}

#[inline(always)]
fn register(offset: usize) -> VolatilePtr<'static, u32> {
    debug_assert!(offset < 0x1000);
    let address =
        core::ptr::NonNull::new((page() + offset) as *mut u32).expect("the page is not at zero");
    // SAFETY: the page is mapped uncached for the life of the system (`paging::build`).
    unsafe { VolatilePtr::new(address) }
}

/// Physical address of the register page.
pub(crate) fn physical_base() -> u64 {
    // SAFETY: reading IA32_APIC_BASE has no effect.
    unsafe { Msr::new(APIC_BASE).read() & 0xf_ffff_f000 }
}

/// Counts of the timer per 2^32 cycles of the TSC.
static COUNTS_PER_CYCLE: AtomicU64 = AtomicU64::new(1 << 32);
/// Cycles from the reading of the TSC in [`arm`] to the timer's start, found by [`calibrate_arm`].
static ARM_LEAD: AtomicU64 = AtomicU64::new(0);
/// 1 if the timer is in TSC-deadline mode.
static DEADLINE_MODE: AtomicU32 = AtomicU32::new(0);

/// Enables this CPU's local APIC with its timer stopped.
///
/// # Safety
/// Once on each CPU, after the final page tables are in force.
#[expect(
    clippy::multiple_unsafe_ops_per_block,
    reason = "one sequence of register writes"
)]
pub(crate) unsafe fn init() {
    let mut base = Msr::new(APIC_BASE);
    // SAFETY: leaving x2APIC needs one step through "disabled" (SDM 11.12.5).
    unsafe {
        let value = base.read();
        if value & (1 << 10) != 0 {
            base.write(value & !((1 << 10) | (1 << 11)));
        }
        base.write((value & !(1 << 10)) | (1 << 11));
    }
    register(TASK_PRIORITY).write(0);
    register(LVT_TIMER).write(MASKED | u32::from(TIMER_VECTOR));
    register(LVT_LINT0).write(MASKED);
    register(LVT_LINT1).write(DELIVERY_NMI);
    register(LVT_ERROR).write(MASKED);
    register(DIVIDE).write(0b1011); // divide by 1
    register(SPURIOUS).write(0x100 | u32::from(SPURIOUS_VECTOR));
}

/// This CPU's local APIC id.
#[must_use]
pub(crate) fn id() -> u32 {
    register(ID).read() >> 24
}

/// Acknowledges the interrupt in service: one store.
#[inline(always)]
pub(crate) fn end_of_interrupt() {
    // SAFETY: the register page is mapped; writing 0 to EOI (offset B0h) ends the interrupt in service.
    unsafe {
        core::arch::asm!(
            "mov dword ptr [__lapic_page + 0xb0], 0",
            options(nostack, preserves_flags)
        )
    };
}

/// Whether a device's interrupt or another CPU's kick waits for this CPU: one load each.
///
/// # Source
/// Intel SDM volume 3A, 11.8.4: the interrupt request register, a bit for each vector.
#[inline(always)]
pub(crate) fn is_other_pending() -> bool {
    const DEVICES: usize = REQUEST + 16 * (FIRST_DEVICE_VECTOR as usize / 32);
    const KICK: usize = REQUEST + 16 * (KICK_VECTOR as usize / 32);
    const { assert!(FIRST_DEVICE_VECTOR.is_multiple_of(32) && NR_DEVICE_VECTORS == 32) };
    register(DEVICES).read() != 0 || register(KICK).read() & 1 << (KICK_VECTOR % 32) != 0
}

/// [`is_other_pending`], or the timer's interrupt.
#[inline(always)]
pub(crate) fn is_any_pending() -> bool {
    const TIMER: usize = REQUEST + 16 * (TIMER_VECTOR as usize / 32);
    is_other_pending() || register(TIMER).read() & 1 << (TIMER_VECTOR % 32) != 0
}

/// The highest vector in service, for interrupts that no one expected.
#[must_use]
pub(crate) fn vector_in_service() -> Option<u8> {
    (0..8).rev().find_map(|i| {
        let bits = register(IN_SERVICE + 16 * i).read();
        (bits != 0).then(|| (32 * i) as u8 + (31 - bits.leading_zeros()) as u8)
    })
}

/// Chooses the timer's mode and unmasks it. `counts_hz` and `tsc_hz` relate its counter to the TSC.
pub(crate) fn start_timer(counts_hz: u64, tsc_hz: u64) {
    if tsc::has_deadline_timer() {
        DEADLINE_MODE.store(1, Relaxed);
        register(LVT_TIMER).write(MODE_TSC_DEADLINE | u32::from(TIMER_VECTOR));
    } else {
        let ratio = (u128::from(counts_hz) << 32) / u128::from(tsc_hz.max(1));
        COUNTS_PER_CYCLE.store(ratio as u64, Relaxed);
        register(LVT_TIMER).write(u32::from(TIMER_VECTOR));
    }
}

/// On a further CPU: unmasks the timer in the mode and at the rate that the boot CPU chose.
pub(crate) fn start_timer_as_boot_cpu() {
    set_timer_vector(TIMER_VECTOR);
}

/// Whether the timer is in TSC-deadline mode.
#[must_use]
pub fn is_deadline_mode() -> bool {
    DEADLINE_MODE.load(Relaxed) != 0
}

/// From the reading of the clock to the store that starts the counter, the same instructions wherever it is inlined, so
/// that one lead holds for all. `$after` follows the store; `$left` is what the clock was short of the deadline.
macro_rules! start_counter {
    ($deadline:expr, $after:literal, $left:tt, $rax:tt, $rdx:tt) => {
        // SAFETY: the register page is mapped; the initial count is at offset 380h.
        unsafe {
            core::arch::asm!(
                "rdtsc",
                "shl rdx, 32",
                "or rax, rdx",
                "sub {distance}, rax",
                "cmovb {distance}, {zero}",
                "mov rax, {distance}",
                "mul {ratio}",
                "shrd rax, rdx, 32",
                "cmp rax, {most}",
                "cmova rax, {most}",
                "cmp eax, 1", // zero would stop the timer
                "adc eax, 0",
                "mov dword ptr [__lapic_page + 0x380], eax",
                $after,
                distance = inout(reg) $deadline => $left,
                ratio = in(reg) COUNTS_PER_CYCLE.load(Relaxed),
                zero = in(reg) 0u64,
                most = in(reg) u64::from(u32::MAX),
                out("rax") $rax,
                out("rdx") $rdx,
                options(nostack),
            )
        }
    };
}

/// Measures how long [`arm`] itself takes from its reading of the clock to the start of the counter, so that the
/// interrupt comes at the deadline and not that much later. The interrupt must be off.
pub(crate) fn calibrate_arm() {
    if is_deadline_mode() {
        return;
    }
    let mut least = u64::MAX;
    for _ in 0..8 {
        let deadline = tsc::now() + (1 << 30);
        let (left, low, high): (u64, u64, u64);
        start_counter!(deadline, "rdtsc", left, low, high);
        least = least.min((high << 32 | low) - (deadline - left));
    }
    register(INITIAL_COUNT).write(0);
    // The second reading comes after the store: rather an interrupt a cycle late than one before its time.
    ARM_LEAD.store(least.saturating_sub(1), Relaxed);
}

/// Makes the timer interrupt come at `deadline` (cycles), at once if that is past. A deadline further away than the
/// counter reaches gives an earlier interrupt; the handler then arms it again.
///
/// # Context
/// Interrupts off.
#[cfg_attr(feature = "fast-paths", inline(always))]
pub(crate) fn arm(deadline: u64) {
    if DEADLINE_MODE.load(Relaxed) != 0 {
        // SAFETY: the MSR exists in this mode. Zero would disarm.
        unsafe { Msr::new(TSC_DEADLINE).write(deadline.max(1)) };
        return;
    }
    start_counter!(deadline.saturating_sub(ARM_LEAD.load(Relaxed)), "", _, _, _);
}

/// Has the timer interrupt come by another vector.
///
/// # Context
/// Interrupts off, on the CPU's own timer.
pub(crate) fn set_timer_vector(vector: u8) {
    let mode = if is_deadline_mode() {
        MODE_TSC_DEADLINE
    } else {
        0
    };
    register(LVT_TIMER).write(mode | u32::from(vector));
}

/// Starts the counter from its highest value with the interrupt masked, for measuring its frequency.
pub(crate) fn start_counting() {
    register(LVT_TIMER).write(MASKED | u32::from(TIMER_VECTOR));
    register(INITIAL_COUNT).write(u32::MAX);
}

/// Counts since [`start_counting`].
#[must_use]
pub(crate) fn counted() -> u32 {
    u32::MAX - register(CURRENT_COUNT).read()
}

/// Resets another CPU and has it wait for [`send_startup`].
pub(crate) fn send_init(apic_id: u32) {
    const INIT: u32 = 5 << 8;
    const ASSERT: u32 = 1 << 14;
    send(apic_id, INIT | ASSERT);
}

/// Starts another CPU in real mode at a page below 1 MiB.
pub(crate) fn send_startup(apic_id: u32, page: u8) {
    const STARTUP: u32 = 6 << 8;
    const ASSERT: u32 = 1 << 14;
    send(apic_id, STARTUP | ASSERT | u32::from(page));
}

/// Sends an interrupt of a vector to this CPU.
///
/// # Context
/// Any, NMIs included: one that comes between the two halves of [`send`] leaves the half that is written.
pub(crate) fn send_to_itself(vector: u8) {
    const ASSERT: u32 = 1 << 14;
    const ITSELF: u32 = 1 << 18;
    await_sent();
    register(ICR_LOW).write(u32::from(vector) | ASSERT | ITSELF);
}

/// Waits until the last message is on its way.
fn await_sent() {
    while register(ICR_LOW).read() & (1 << 12) != 0 {
        proof::bounded!("looks until the last message of the APIC is on its way");
        core::hint::spin_loop();
    }
}

/// Sends an interrupt, INIT or start-up message: `command` is the low half of the interrupt command register.
pub(crate) fn send(apic_id: u32, command: u32) {
    // The two halves belong together: an interrupt between them may send one of its own.
    let were_enabled = interrupts::are_enabled();
    interrupts::disable();
    register(ICR_HIGH).write(apic_id << 24);
    register(ICR_LOW).write(command);
    await_sent();
    if were_enabled {
        // SAFETY: they were on when this began, so no section is under way.
        unsafe { interrupts::enable() };
    }
}
