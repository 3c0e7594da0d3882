//! The end: readable reports of exceptions and panics, and the way out of the machine.
//!
//! Reports go to the machine's emergency console byte by byte: no lock, no allocation, no interrupt needed. Addresses
//! are symbolised by the host.

use core::fmt::{self, Write};

use spin::Once;

use crate::arch::exceptions::{self, ExceptionFrame};
use crate::arch::{descriptors, interrupts, percpu};
use crate::backtrace::Backtrace;
use crate::thread;

/// How a run ended, as the host is told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum ExitCode {
    /// All went well.
    Passed = 0x10,
    /// The program says that it failed.
    Failed = 0x11,
    /// A latency threshold was hit.
    Threshold = 0x12,
    /// An exception or a panic.
    Fault = 0x13,
}

/// What the kernel needs of the machine that it runs on.
pub trait Machine: Sync {
    /// Writes to a console that works at any time.
    fn emergency_write(&self, text: &[u8]);
    /// Powers the machine off, or resets it.
    fn exit(&self, code: ExitCode) -> !;
    /// Runs in each CPU's idle thread before it halts, with interrupts on; may be preempted at any point.
    fn idle(&self);
}

static MACHINE: Once<&'static dyn Machine> = Once::new();

/// Introduces the machine. At boot, before anything else can fail.
pub fn set_machine(machine: &'static dyn Machine) {
    MACHINE.call_once(|| machine);
}

pub(crate) fn idle() {
    if let Some(machine) = MACHINE.get() {
        machine.idle();
    }
}

/// Ends the run.
pub fn exit(code: ExitCode) -> ! {
    interrupts::disable();
    if let Some(machine) = MACHINE.get() {
        machine.exit(code);
    }
    interrupts::halt_forever()
}

/// The emergency console as a formatter.
pub struct Emergency;

impl Write for Emergency {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if let Some(machine) = MACHINE.get() {
            machine.emergency_write(text.as_bytes());
        }
        Ok(())
    }
}

/// An exception.
pub(crate) struct Fault<'a> {
    pub(crate) frame: &'a ExceptionFrame,
    /// The address of a page fault.
    pub(crate) address: u64,
    /// It happened while another was being reported.
    pub(crate) nested: bool,
}

/// Reports an exception and stops the machine.
pub(crate) fn report(fault: &Fault<'_>) -> ! {
    // Writing cannot fail; there is nowhere to report it anyway.
    let _ = describe(fault);
    exit(ExitCode::Fault)
}

fn describe(fault: &Fault<'_>) -> fmt::Result {
    let f = fault.frame;
    let out = &mut Emergency;
    writeln!(
        out,
        "\n*** {}{}",
        exceptions::name(f.vector),
        if fault.nested {
            " while reporting another"
        } else {
            ""
        }
    )?;
    if f.vector == 14 {
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
    // A stack overflow shows as a fault on a guard page, or as a double fault when the CPU itself had to push there.
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
    backtrace(out, f.rip, f.rbp)
}

fn where_it_happened(out: &mut Emergency) -> fmt::Result {
    let count = percpu::preempt_byte();
    // SAFETY: reads the running thread's block.
    let current = unsafe { percpu::current().as_ref() };
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
fn backtrace(out: &mut Emergency, rip: u64, rbp: u64) -> fmt::Result {
    writeln!(out, "backtrace:\n  {rip:#018x}")?;
    for call in Backtrace::for_report(rbp as usize).take(16) {
        writeln!(out, "  {call:#018x}")?;
    }
    writeln!(out, "*** end of report")
}

/// Whether one of the two words of a frame lies on a guard page.
pub(crate) fn is_guarded(frame: usize) -> bool {
    guard_owner(frame).is_some() || guard_owner(frame + 8).is_some()
}

/// Whose stack ends at this guard page.
struct Owner(&'static str, &'static str);

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} '{}'", self.0, self.1)
    }
}

fn guard_owner(address: usize) -> Option<Owner> {
    let page = address & !0xfff;
    let mut owner = None;
    descriptors::for_each_guard(|guard, name| {
        if guard == page {
            owner = Some(Owner("the CPU's stack", name));
        }
    });
    thread::for_each_stack(|guard| {
        if guard == page {
            owner = Some(Owner(
                "thread",
                thread::name_by_guard(guard).unwrap_or("(ended)"),
            ));
        }
    });
    owner
}

/// For the image's `#[panic_handler]`: reports and stops the machine. Never through defmt, whose lock may be held.
pub fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
    interrupts::disable();
    // SAFETY: this CPU's own block.
    let block = unsafe { &mut *percpu::this() };
    block.in_exception += 1;
    if block.in_exception > 1 {
        exit(ExitCode::Fault);
    }
    let _ = describe_panic(info);
    exit(ExitCode::Fault)
}

fn describe_panic(info: &core::panic::PanicInfo<'_>) -> fmt::Result {
    let out = &mut Emergency;
    writeln!(out, "\n*** panic: {}", info.message())?;
    if let Some(place) = info.location() {
        writeln!(
            out,
            "at {}:{}:{}",
            place.file(),
            place.line(),
            place.column()
        )?;
    }
    where_it_happened(out)?;
    let (rip, rbp) = interrupts::frame_pointer();
    backtrace(out, rip, rbp)
}
