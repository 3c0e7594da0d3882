//! Starting the other CPUs: INIT, start-up message, real mode, long mode, idle.
//!
//! One CPU is started at a time, so what it is told lies in statics.
//!
//! Source: Intel SDM vol. 3A, 9.4.4 (MP initialisation protocol), ACPI 6.4, 5.2.12 (MADT).

use core::arch::{asm, global_asm};
use core::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed};

use spin::Once;
use takt_kernel::config::{IDLE_STACK_SIZE, MAX_CPUS};
use takt_kernel::machine::{self, Text};
use takt_kernel::time::{self, Nanos};
use takt_kernel::{boot, smp, thread_stack};

use crate::acpi::ApicIds;

thread_stack!(static STACKS: [IDLE_STACK_SIZE; MAX_CPUS - 1]);

/// The page below 1 MiB where a CPU begins.
const TRAMPOLINE_PAGE: u8 = 8;
const TRAMPOLINE: usize = TRAMPOLINE_PAGE as usize * 4096;

/// The memory that has to be RAM for CPUs to begin.
pub(crate) const TRAMPOLINE_RANGE: core::ops::Range<u64> =
    TRAMPOLINE as u64..TRAMPOLINE as u64 + 4096;

static CPUS: Once<ApicIds> = Once::new();

/// Top of the stack for the CPU that is being started.
static STACK_TOP: AtomicU64 = AtomicU64::new(0);
/// Top of its memory, for as long as the CPU goes by physical addresses.
static MEMORY_TOP: AtomicU64 = AtomicU64::new(0);
/// Its number.
static NUMBER: AtomicU32 = AtomicU32::new(0);
/// How far it is. Whoever changes that from [`WAITED_FOR`] decides whether it runs.
static PROGRESS: AtomicU8 = AtomicU8::new(GIVEN_UP);
const WAITED_FOR: u8 = 0;
const CAME: u8 = 1;
const GIVEN_UP: u8 = 2;

unsafe extern "C" {
    static ap_trampoline: u8;
    static ap_trampoline_end: u8;
}

global_asm!(
    ".if {MAX_CPUS} > 1",
    ".section .rodata.trampoline, \"a\"",
    ".code16",
    ".balign 16",
    ".global ap_trampoline",
    "ap_trampoline:",
    "cli",
    "cld",
    "xor ax, ax",
    "mov ds, ax",
    ".byte 0x66, 0x0f, 0x01, 0x16", // lgdt with a 32-bit base; the assembler takes no difference of symbols
    ".word {base} + ap_gdt_pointer - ap_trampoline",
    "mov eax, cr0",
    "or eax, 1",
    "mov cr0, eax",
    ".byte 0x66, 0xea", // jmp far, 32-bit: not to be had in Intel syntax
    ".long {base} + ap_protected - ap_trampoline",
    ".word 8",
    ".code32",
    "ap_protected:",
    "mov ax, 0x10",
    "mov ds, ax",
    "mov es, ax",
    "mov ss, ax",
    "mov eax, offset ap_start32",
    "jmp eax",
    ".balign 8",
    "ap_gdt: .quad 0, 0x00cf9b000000ffff, 0x00cf93000000ffff",
    "ap_gdt_pointer: .word 23",
    ".long {base} + ap_gdt - ap_trampoline",
    ".global ap_trampoline_end",
    "ap_trampoline_end:",
    //
    ".section .text.boot, \"ax\"",
    ".code32",
    "ap_start32:",
    "mov esp, [{memory_top}]",
    "call enter_long_mode_32",
    "lgdt [boot_gdt_pointer]",
    ".byte 0xea",
    ".long ap_start64",
    ".word 8",
    ".code64",
    "ap_start64:",
    "mov eax, 0x10",
    "mov ds, eax",
    "mov es, eax",
    "mov ss, eax",
    "xor eax, eax",
    "mov fs, eax",
    "mov gs, eax",
    "mov rsp, [{stack_top}]",
    "xor ebp, ebp",
    "call {secondary}",
    "ud2",
    ".text",
    ".endif",
    MAX_CPUS = const MAX_CPUS,
    base = const TRAMPOLINE,
    stack_top = sym STACK_TOP,
    memory_top = sym MEMORY_TOP,
    secondary = sym secondary,
);

#[unsafe(link_section = ".text.notrace.ap")]
extern "C" fn secondary() -> ! {
    if !decide(CAME) {
        loop {
            // SAFETY: nobody counts on it any more. The next INIT has it begin anew.
            unsafe { asm!("cli", "hlt") };
        }
    }
    let (cpu, stack) = (
        NUMBER.load(Relaxed) as usize,
        STACK_TOP.load(Relaxed) as usize,
    );
    // SAFETY: once on each CPU, which came from long mode's entry with interrupts off, on that stack.
    unsafe { boot::secondary(cpu, stack) }
}

/// Says whether it is this that becomes of the CPU.
#[inline(always)]
fn decide(outcome: u8) -> bool {
    PROGRESS
        .compare_exchange(WAITED_FOR, outcome, Relaxed, Relaxed)
        .is_ok()
}

/// Notes the CPUs that ACPI lists.
pub(crate) fn set_cpus(cpus: ApicIds) {
    CPUS.call_once(|| cpus);
}

/// Starts CPUs until `wanted` run or there are no more; says how many run. Those that run already go on.
///
/// # Context
/// A thread of the boot CPU that may block; elsewhere none is started. A CPU that does not come up within 100 ms is passed
/// over, and comes no more.
pub fn start(wanted: usize) -> u32 {
    // With waits that fail, a CPU would come up when nobody expects it.
    if time::sleep(Nanos::ZERO).is_err() {
        return smp::nr_online();
    }
    let Some(cpus) = CPUS.get().filter(|_| smp::this_cpu() == 0) else {
        return smp::nr_online();
    };
    // No one rewrites code while a CPU comes up.
    // SAFETY: it is given back when they have, or have not, after 100 ms each.
    let Ok(mut text) = (unsafe { Text::take() }) else {
        return smp::nr_online();
    };
    #[cfg(feature = "osnoise")]
    takt_kernel::trace::osnoise::cpus_starting();
    for &apic_id in cpus.as_slice() {
        if (0..MAX_CPUS).any(|cpu| smp::apic_id(cpu) == Some(apic_id)) {
            continue;
        }
        let number = smp::nr_online() as usize;
        if number >= wanted.min(MAX_CPUS) {
            break;
        }
        boot::before_secondary(&mut text);
        if !start_one(number, apic_id) {
            defmt::warn!("the CPU with APIC id {=u32} did not start", apic_id);
            // It waits for another start-up message then, and does not come upon the next one's stack later.
            // SAFETY: ACPI lists the CPU, and nothing runs on it.
            unsafe { machine::send_init(apic_id) };
        }
    }
    drop(text);
    if takt_kernel::trace::is_wanted() {
        // Those that were just started record as well.
        takt_kernel::trace::tracing_on();
    }
    // So have the tracers that have a thread on each CPU.
    #[cfg(feature = "osnoise")]
    if let Err(error) = takt_kernel::trace::osnoise::cpus_started() {
        defmt::warn!(
            "a tracer has no thread on the CPUs that were started: {}",
            error
        );
    }
    smp::nr_online()
}

fn start_one(number: usize, apic_id: u32) -> bool {
    let (start, end) = (&raw const ap_trampoline, &raw const ap_trampoline_end);
    // SAFETY: both symbols stand around the trampoline.
    let len = unsafe { end.offset_from(start) } as usize;
    // SAFETY: the page below 1 MiB is conventional memory that nothing else uses, mapped writable.
    unsafe { core::ptr::copy_nonoverlapping(start, TRAMPOLINE as *mut u8, len) };
    let top = STACKS[number - 1].top();
    STACK_TOP.store(top as u64, Relaxed);
    MEMORY_TOP.store(machine::physical(top - 1) + 1, Relaxed);
    NUMBER.store(number as u32, Relaxed);
    core::sync::atomic::fence(core::sync::atomic::Ordering::SeqCst);
    // SAFETY: ACPI lists the CPU, and it does not run yet.
    unsafe { machine::send_init(apic_id) };
    let _ = time::sleep(Nanos::from_millis(10));
    PROGRESS.store(WAITED_FOR, Relaxed);
    for _ in 0..2 {
        // SAFETY: it waits since INIT, and at that page is the trampoline, which goes to `boot::secondary`.
        unsafe { machine::send_startup(apic_id, TRAMPOLINE_PAGE) };
        for _ in 0..100 {
            if comes_online(number) {
                return true;
            }
        }
    }
    if decide(GIVEN_UP) {
        return false;
    }
    // It came at the last moment.
    while !comes_online(number) {}
    true
}

/// Waits a little; says whether the CPU is there.
fn comes_online(number: usize) -> bool {
    let _ = time::sleep(Nanos::from_micros(500));
    smp::is_online(number)
}
