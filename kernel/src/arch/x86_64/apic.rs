//! The local APIC in xAPIC mode: end of interrupt, the one-shot timer, inter-processor interrupts.
//!
//! Its page is mapped at `__lapic_page` inside the image, so that a register is one absolute address and the end of
//! interrupt one instruction. A firmware that left x2APIC on is taken back to xAPIC mode.
//!
//! Source: Intel SDM vol. 3A, chapter 11 (10 in older editions).

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use bitflags::bitflags;
use volatile::VolatilePtr;
use x86_64::registers::model_specific::{ApicBaseFlags, Msr};

use super::interrupts::{
    self, FIRST_DEVICE_VECTOR, KICK_VECTOR, NR_DEVICE_VECTORS, SPURIOUS_VECTOR, TIMER_VECTOR,
};
use super::proof;
use super::tsc;
use crate::clock::Instant;

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

bitflags! {
    /// An entry of the local vector table; its lowest byte is the vector.
    #[derive(Clone, Copy)]
    #[repr(transparent)]
    struct Local: u32 {
        /// It comes as an NMI.
        const NMI = 4 << 8;
        const MASKED = 1 << 16;
        /// The timer's: it comes when the TSC reaches a deadline, else when the counter reaches zero.
        const TSC_DEADLINE = 2 << 17;
    }

    /// The low half of the interrupt command register; its lowest byte is the vector.
    #[derive(Clone, Copy)]
    #[repr(transparent)]
    pub(crate) struct Command: u32 {
        const NMI = 4 << 8;
        const INIT = 5 << 8;
        const STARTUP = 6 << 8;
        /// The last message is not on its way yet.
        const PENDING = 1 << 12;
        const ASSERT = 1 << 14;
        /// To this CPU, whatever the high half says.
        const TO_ITSELF = 1 << 18;
    }

    /// The spurious interrupt's register; its lowest byte is the vector.
    #[derive(Clone, Copy)]
    #[repr(transparent)]
    struct Spurious: u32 {
        const APIC_ENABLED = 1 << 8;
    }
}

impl Local {
    const fn vector(vector: u8) -> Self {
        Self::from_bits_retain(vector as u32)
    }
}

impl Command {
    /// An interrupt of this vector.
    pub(crate) const fn interrupt(vector: u8) -> Self {
        Self::from_bits_retain(vector as u32).union(Self::ASSERT)
    }
}

unsafe extern "C" {
    static __lapic_page: u8;
}

/// Virtual address of the register page.
pub(crate) fn page() -> usize {
    &raw const __lapic_page as usize
}

#[inline(always)]
fn register(offset: usize) -> VolatilePtr<'static, u32> {
    typed_register(offset)
}

#[inline(always)]
fn typed_register<T>(offset: usize) -> VolatilePtr<'static, T> {
    debug_assert!(offset < 0x1000);
    // SAFETY: the page is not at zero. Asked for, that would cost each access a comparison, since only the linker knows it.
    let address = unsafe { core::ptr::NonNull::new_unchecked((page() + offset) as *mut T) };
    // SAFETY: the page is mapped uncached for the life of the system (`paging::build`).
    unsafe { VolatilePtr::new(address) }
}

#[inline(always)]
fn set_local(entry: usize, value: Local) {
    typed_register(entry).write(value);
}

/// Physical address of the register page.
pub(crate) fn physical_base() -> u64 {
    // SAFETY: reading IA32_APIC_BASE has no effect.
    unsafe { Msr::new(APIC_BASE).read() & 0xf_ffff_f000 }
}

/// What relates the timer's counter to the TSC, where [`arm`] has it at hand.
#[repr(C, align(32))]
struct Counting {
    /// Counts per 2^32 cycles, rounded down to less than they are.
    ratio: AtomicU64,
    /// Cycles from the reading of the TSC in [`arm`] to the timer's start, found by [`calibrate_arm`].
    lead: AtomicU64,
    /// The most cycles that can be counted.
    longest: AtomicU64,
    /// No cycles.
    none: u64,
}

static COUNTING: Counting = Counting {
    ratio: AtomicU64::new(0),
    lead: AtomicU64::new(0),
    longest: AtomicU64::new(0),
    none: 0,
};
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
    const X2APIC: u64 = ApicBaseFlags::X2APIC_ENABLE.bits();
    const ENABLED: u64 = ApicBaseFlags::LAPIC_ENABLE.bits();
    let mut base = Msr::new(APIC_BASE);
    // SAFETY: the page stays where it is; leaving x2APIC needs one step through "disabled" (SDM 11.12.5).
    unsafe {
        let flags = base.read();
        if flags & X2APIC != 0 {
            base.write(flags & !(X2APIC | ENABLED));
        }
        base.write((flags & !X2APIC) | ENABLED);
    }
    register(TASK_PRIORITY).write(0);
    set_local(LVT_TIMER, Local::MASKED | Local::vector(TIMER_VECTOR));
    set_local(LVT_LINT0, Local::MASKED);
    set_local(LVT_LINT1, Local::NMI);
    set_local(LVT_ERROR, Local::MASKED);
    register(DIVIDE).write(0b1011); // divide by 1
    let spurious = Spurious::from_bits_retain(SPURIOUS_VECTOR.into());
    typed_register(SPURIOUS).write(spurious | Spurious::APIC_ENABLED);
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
    if tsc::Facts::has_deadline_timer() {
        DEADLINE_MODE.store(1, Relaxed);
        set_local(LVT_TIMER, Local::TSC_DEADLINE | Local::vector(TIMER_VECTOR));
    } else {
        let counts = (u128::from(counts_hz.max(1)) << 32) - 1;
        let ratio = ((counts / u128::from(tsc_hz.max(1))) as u64).max(1);
        COUNTING.ratio.store(ratio, Relaxed);
        let longest = u64::from(u32::MAX - 1) << 32;
        COUNTING.longest.store(longest / ratio, Relaxed);
        set_local(LVT_TIMER, Local::vector(TIMER_VECTOR));
    }
}

/// On a further CPU: unmasks the timer in the mode and at the rate that the boot CPU chose.
pub(crate) fn start_timer_as_boot_cpu() {
    set_timer_vector(TIMER_VECTOR);
}

/// Whether the timer is in TSC-deadline mode.
fn is_deadline_mode() -> bool {
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
                "add rax, [rip + {counting} + {lead}]",
                "sub {distance}, rax",
                "cmovb {distance}, [rip + {counting} + {none}]",
                "cmp {distance}, [rip + {counting} + {longest}]",
                "cmova {distance}, [rip + {counting} + {longest}]",
                "mov rax, [rip + {counting} + {ratio}]",
                "mul {distance}",
                "shrd rax, rdx, 32",
                "inc eax", // the ratio is rounded down: rather a count too late, and zero would stop the timer
                "mov dword ptr [__lapic_page + 0x380], eax",
                $after,
                distance = inout(reg) $deadline => $left,
                counting = sym COUNTING,
                ratio = const core::mem::offset_of!(Counting, ratio),
                lead = const core::mem::offset_of!(Counting, lead),
                longest = const core::mem::offset_of!(Counting, longest),
                none = const core::mem::offset_of!(Counting, none),
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
    COUNTING.lead.store(least.saturating_sub(1), Relaxed);
}

/// Makes the timer interrupt come at `deadline`, at once if that is past. A deadline further away than the
/// counter reaches gives an earlier interrupt; the handler then arms it again.
///
/// # Context
/// Interrupts off.
#[cfg_attr(feature = "fast-paths", inline(always))]
pub(crate) fn arm(deadline: Instant) {
    let deadline = deadline.cycles();
    if DEADLINE_MODE.load(Relaxed) != 0 {
        // SAFETY: the MSR exists in this mode. Zero would disarm.
        unsafe { Msr::new(TSC_DEADLINE).write(deadline.max(1)) };
        return;
    }
    start_counter!(deadline, "", _, _, _);
}

/// Makes the timer interrupt come as soon as interrupts are on: shorter than [`arm`].
///
/// # Context
/// Interrupts off.
#[inline(always)]
pub(crate) fn arm_at_once() {
    if DEADLINE_MODE.load(Relaxed) != 0 {
        // SAFETY: the MSR exists in this mode. One is long past.
        unsafe { Msr::new(TSC_DEADLINE).write(1) };
    } else {
        register(INITIAL_COUNT).write(1);
    }
}

/// Has the timer interrupt come by another vector.
///
/// # Context
/// Interrupts off, on the CPU's own timer.
pub(crate) fn set_timer_vector(vector: u8) {
    let mode = if is_deadline_mode() {
        Local::TSC_DEADLINE
    } else {
        Local::empty()
    };
    set_local(LVT_TIMER, mode | Local::vector(vector));
}

/// Starts the counter from its highest value with the interrupt masked, for measuring its frequency.
pub(crate) fn start_counting() {
    set_local(LVT_TIMER, Local::MASKED | Local::vector(TIMER_VECTOR));
    register(INITIAL_COUNT).write(u32::MAX);
}

/// Counts since [`start_counting`].
#[must_use]
pub(crate) fn counted() -> u32 {
    u32::MAX - register(CURRENT_COUNT).read()
}

/// Resets another CPU and has it wait for [`send_startup`].
pub(crate) fn send_init(apic_id: u32) {
    send(apic_id, Command::INIT | Command::ASSERT);
}

/// Starts another CPU in real mode at a page below 1 MiB.
pub(crate) fn send_startup(apic_id: u32, page: u8) {
    send(apic_id, Command::STARTUP | Command::interrupt(page));
}

/// Sends an interrupt of a vector to this CPU.
///
/// # Context
/// Any, NMIs included: one that comes between the two halves of [`send`] leaves the half that is written.
pub(crate) fn send_to_itself(vector: u8) {
    await_sent();
    typed_register(ICR_LOW).write(Command::interrupt(vector) | Command::TO_ITSELF);
}

/// Waits until the last message is on its way.
fn await_sent() {
    while typed_register::<Command>(ICR_LOW)
        .read()
        .contains(Command::PENDING)
    {
        proof::bounded!("looks until the last message of the APIC is on its way");
        core::hint::spin_loop();
    }
}

/// Sends an interrupt, INIT or start-up message.
pub(crate) fn send(apic_id: u32, command: Command) {
    // The two halves belong together: an interrupt between them may send one of its own.
    let were_enabled = interrupts::are_enabled();
    interrupts::disable();
    register(ICR_HIGH).write(apic_id << 24);
    typed_register(ICR_LOW).write(command);
    await_sent();
    if were_enabled {
        // SAFETY: they were on when this began, so no section is under way.
        unsafe { interrupts::enable() };
    }
}
