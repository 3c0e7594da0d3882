//! The end: readable reports of exceptions and panics, and the way out of the machine.
//!
//! Reports go to the machine's emergency console byte by byte: no lock, no allocation, no interrupt needed. Addresses
//! are symbolised by the host.

use core::fmt::{self, Write};
use core::panic::{Location, PanicInfo};
use core::sync::atomic::{AtomicPtr, Ordering::Relaxed};

use crate::arch::frame::ExceptionFrame;
use crate::arch::{interrupts, msr, percpu};
use crate::backtrace::Backtrace;
use crate::config::{MAX_CPUS, cpu_index};
use crate::cpus::{self, is_smp};
use crate::guards::guard_owner;
use crate::machine::{self, Emergency};
use crate::section;
use crate::thread::tcb::{NEVER_WAITS, Tcb, TcbRef};

pub use crate::machine::{ExitCode, exit};

const PAGE_FAULT: u64 = 14;
const MACHINE_CHECK: u64 = 18;

/// An exception.
pub(crate) struct Fault<'a> {
    pub(crate) frame: &'a ExceptionFrame,
    /// The address of a page fault.
    pub(crate) address: u64,
    /// It happened while another was being reported.
    pub(crate) nested: bool,
}

/// An exception or a panic of this CPU is about to be reported: no other CPU goes on. Says how many there are now. A machine check comes
/// to all CPUs, of which each tells what its banks have.
pub(crate) fn begin(cpu: &percpu::PerCpu, vector: Option<u64>) -> u32 {
    let nr = cpu.exception_begins();
    if nr == 1 && vector != Some(MACHINE_CHECK) {
        machine::halt_others();
    }
    nr
}

/// Reports an exception and stops the machine.
pub(crate) fn report(fault: &Fault<'_>) -> ! {
    if cfg!(feature = "reports") {
        // Writing cannot fail; there is nowhere to report it anyway.
        let _ = describe(fault);
    } else {
        say(fault.frame.rip);
    }
    exit(ExitCode::Fault)
}

/// All that is said of a fault without feature `reports`: the address of the instruction.
#[cold]
fn say(rip: u64) {
    let mut text = *b"\n*** fault at 0x0000000000000000\n";
    let mut rest = rip;
    for digit in text[16..32].iter_mut().rev() {
        *digit = b"0123456789abcdef"[rest as usize & 0xf];
        rest >>= 4;
    }
    machine::say(&text);
}

fn describe(fault: &Fault<'_>) -> fmt::Result {
    let f = fault.frame;
    let out = &mut Emergency;
    writeln!(
        out,
        "\n*** {}{}",
        exception_name(f.vector),
        if fault.nested {
            " while reporting another"
        } else {
            ""
        }
    )?;
    interrupted_panic(out)?;
    if f.vector == MACHINE_CHECK {
        machine_check(out)?;
    }
    if f.vector == PAGE_FAULT {
        let access = match f.code & 0x12 {
            0x10 => "executing",
            0x02 => "writing",
            _ => "reading",
        };
        let why = if f.code & 1 == 0 {
            "not mapped"
        } else {
            "not permitted"
        };
        writeln!(out, "{access} {:#018x}: {why}", fault.address)?;
    }
    // A stack overflow shows as a fault in a guard, or as a double fault when the CPU itself had to push there.
    for address in [fault.address, f.rsp, f.rsp.wrapping_sub(8)] {
        if let Some(owner) = guard_owner(address as usize) {
            writeln!(out, "stack overflow of {owner}")?;
            break;
        }
    }
    where_it_happened(out)?;
    writeln!(
        out,
        "error code {:#x}, rflags {:#x}, cs {:#x}, ss {:#x}",
        f.code, f.rflags, f.cs, f.ss
    )?;
    writeln!(
        out,
        "rip {:#018x} rsp {:#018x} rbp {:#018x}",
        f.rip, f.rsp, f.rbp
    )?;
    writeln!(
        out,
        "rax {:#018x} rbx {:#018x} rcx {:#018x} rdx {:#018x}",
        f.rax, f.rbx, f.rcx, f.rdx
    )?;
    writeln!(
        out,
        "rsi {:#018x} rdi {:#018x} r8  {:#018x} r9  {:#018x}",
        f.rsi, f.rdi, f.r8, f.r9
    )?;
    writeln!(
        out,
        "r10 {:#018x} r11 {:#018x} r12 {:#018x} r13 {:#018x}",
        f.r10, f.r11, f.r12, f.r13
    )?;
    writeln!(out, "r14 {:#018x} r15 {:#018x}", f.r14, f.r15)?;
    backtrace(out, f.rip, f.rbp, f.rsp)
}

/// What the CPU's banks of errors have.
///
/// Source: Intel SDM volume 3B, 16.3 (machine-check MSRs).
fn machine_check(out: &mut Emergency) -> fmt::Result {
    const CAPABILITIES: u32 = 0x179;
    const VALID: u64 = 1 << 63;
    const HAS_ADDRESS: u64 = 1 << 58;
    let nr = msr::read(CAPABILITIES).unwrap_or(0) as u32 & 0xff;
    for bank in 0..nr {
        let [status, address] = [1, 2].map(|register| 0x400 + 4 * bank + register);
        let Some(status) = msr::read(status).filter(|it| it & VALID != 0) else {
            continue;
        };
        write!(out, "bank {bank}: status {status:#018x}")?;
        match msr::read(address).filter(|_| status & HAS_ADDRESS != 0) {
            Some(address) => writeln!(out, ", address {address:#018x}")?,
            None => writeln!(out)?,
        }
    }
    Ok(())
}

fn where_it_happened(out: &mut Emergency) -> fmt::Result {
    let count = percpu::preempt_byte();
    // SAFETY: reads the running thread's block.
    let current = unsafe { percpu::current().cast::<Tcb>().as_ref() };
    let name = current.map_or("(none yet)", |t| t.name_or_none());
    writeln!(
        out,
        "cpu {} thread {} '{name}' preempt-depth {}{}{}",
        percpu::cpu(),
        percpu::current_tid(),
        count & 0xf,
        if count & percpu::HARDIRQ != 0 {
            ", in an interrupt"
        } else {
            ""
        },
        if count & percpu::NMI != 0 {
            ", in an NMI"
        } else {
            ""
        },
    )
}

/// Follows the frame pointers as long as they look like some.
// The compiler moves the walk by more SSE registers than interrupts keep elsewhere (see `sse`).
#[inline(never)]
#[unsafe(link_section = ".text.sse.fault_backtrace")]
#[cfg_attr(
    feature = "function",
    patchable_function_entry(prefix_nops = 0, entry_nops = 0)
)]
fn backtrace(out: &mut Emergency, rip: u64, rbp: u64, rsp: u64) -> fmt::Result {
    writeln!(out, "backtrace:\n  {rip:#018x}")?;
    for call in Backtrace::for_report(rbp as usize, rip as usize, rsp as usize).take(16) {
        writeln!(out, "  {call:#018x}")?;
    }
    writeln!(out, "*** end of report")
}

/// For the image's `#[panic_handler]`: reports and stops the machine. Never through defmt, whose lock may be held.
pub fn panic(info: &PanicInfo<'_>) -> ! {
    interrupts::disable();
    let nr = begin(percpu::this(), None);
    if nr > 2 || nr > 1 && !cfg!(feature = "reports") {
        exit(ExitCode::Fault);
    }
    if nr > 1 {
        let _ = describe_another_panic(info);
    } else if cfg!(feature = "reports") {
        never_waits();
        let _ = describe_panic(info);
    } else {
        machine::say(b"\n*** panic\n");
    }
    exit(ExitCode::Fault)
}

/// What prints the values of a panic's message is the application's: it does not keep the machine from stopping. With one guard more, which
/// nobody drops: so those that it has do not enable interrupts, and it is not taken for a boot context, which has none.
fn never_waits() {
    let mut section = section::own_irq();
    let atomic = &mut section.thread(TcbRef::current()).atomic;
    // There is room for it (`preempt::irq_save`).
    *atomic = (*atomic | NEVER_WAITS) + 1;
    section.release();
}

/// Where each CPU's panic is that is being reported, which does not end: what prints a value of its message may panic, too.
static PANICS: [AtomicPtr<Location<'static>>; MAX_CPUS] =
    [const { AtomicPtr::new(core::ptr::null_mut()) }; MAX_CPUS];

fn panic_of_this_cpu() -> &'static AtomicPtr<Location<'static>> {
    &PANICS[cpu_index(percpu::cpu())]
}

fn describe_panic(info: &PanicInfo<'_>) -> fmt::Result {
    let out = &mut Emergency;
    let place = info
        .location()
        .map_or(core::ptr::null(), core::ptr::from_ref);
    panic_of_this_cpu().store(place.cast_mut().cast(), Relaxed);
    // The place first: what prints the message's values may never end.
    writeln!(out)?;
    describe_location(out, info)?;
    write!(out, "*** panic: ")?;
    describe_message(out, info)?;
    describe_thread(out)
}

/// The message. What prints its values may use what the kernel protects, as long as that is whole.
fn describe_message(out: &mut Emergency, info: &PanicInfo<'_>) -> fmt::Result {
    let message = info.message();
    match message.as_str() {
        None if is_smp!() && cpus::is_half_changed() => {
            writeln!(out, "(not printed: another CPU was halted with a lock)")
        }
        _ => writeln!(out, "{message}"),
    }
}

/// A panic while one is being reported. Its own message comes last: what prints that may panic as well.
fn describe_another_panic(info: &PanicInfo<'_>) -> fmt::Result {
    let out = &mut Emergency;
    writeln!(out, "\n*** panic while reporting another")?;
    interrupted_panic(out)?;
    describe_location(out, info)?;
    describe_thread(out)?;
    write!(out, "it says: ")?;
    describe_message(out, info)
}

/// Says where the panic is whose report was interrupted, if one was.
fn interrupted_panic(out: &mut Emergency) -> fmt::Result {
    // SAFETY: null, or that of a panic whose report has not ended.
    match unsafe { panic_of_this_cpu().load(Relaxed).as_ref() } {
        Some(place) => writeln!(out, "the report was of the panic at {place}"),
        None => Ok(()),
    }
}

fn describe_location(out: &mut Emergency, info: &PanicInfo<'_>) -> fmt::Result {
    match info.location() {
        Some(place) => writeln!(out, "at {place}"),
        None => Ok(()),
    }
}

/// Where it happened but for the place in the source.
fn describe_thread(out: &mut Emergency) -> fmt::Result {
    where_it_happened(out)?;
    let (rip, rbp) = interrupts::frame_pointer();
    backtrace(out, rip, rbp, rbp)
}

/// The manual's name of an exception.
fn exception_name(vector: u64) -> &'static str {
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
