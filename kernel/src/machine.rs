//! The one door to the machine: what the crate that brings it up (`takt-board`), the instrument and tests need of the CPU,
//! and what the kernel needs of them.
//!
//! `arch` is the kernel's own. What of it can hurt is unsafe here and says what the caller owes. Bringing the kernel up is
//! [`boot`](crate::boot), likewise. What only tests need is there with feature `tests`.
//!
//! An application comes by without this module. So safe code cannot send another CPU anywhere, reset it, take its timer away
//! or change what the kernel counts:
//!
//! ```compile_fail,E0603
//! takt_kernel::arch::apic::send_startup(1, 8);
//! ```
//! ```compile_fail,E0603
//! takt_kernel::arch::percpu::preempt_dec(takt_kernel_is_left);
//! extern "C" fn takt_kernel_is_left() {}
//! ```
//! ```compile_fail,E0603
//! takt_kernel::arch::apic::end_of_interrupt();
//! ```
//! ```compile_fail,E0133
//! takt_kernel::machine::send_startup(1, 8);
//! ```
//! ```compile_fail,E0133
//! takt_kernel::machine::send_init(1);
//! ```
//! ```compile_fail
//! takt_kernel::machine::send_ipi(0, 4 << 8);
//! ```
//! ```compile_fail,E0624
//! core::mem::forget(takt_kernel::machine::Text::lock());
//! ```
//! ```compile_fail,E0133
//! core::mem::forget(takt_kernel::machine::Text::take());
//! ```
//! ```compile_fail,E0133
//! let _ = takt_kernel::machine::start_counting();
//! ```
//! ```compile_fail
//! takt_kernel::machine::set_tsc_hz(1);
//! ```
//! ```compile_fail,E0133
//! takt_kernel::boot::run();
//! ```
//! ```compile_fail,E0603
//! use takt_kernel::machine::Emergency;
//! ```
//! Nor can it write to a ring at any place that it likes:
//!
//! ```compile_fail,E0425
//! use takt_tracer::ring::CpuRing;
//! takt_kernel::trace::KernelRing.store32::<0>(0x7fff_ff00, 1);
//! ```
//! What these would do with the door's key compiles:
//!
//! ```no_run
//! // SAFETY: this is never run.
//! unsafe { takt_kernel::machine::send_startup(1, 8) };
//! // SAFETY: nor is this.
//! unsafe { takt_kernel::boot::run() };
//! ```

use core::fmt::{self, Write};

use spin::Once;

use crate::arch::percpu::CpuRef;
use crate::arch::{apic, interrupts, msr};
use crate::context;
use crate::cpus::{self, is_smp};
use crate::lock;
use crate::other_cpu;

pub use crate::arch::descriptors::image_range;
pub use crate::arch::marks;
pub use crate::arch::paging::{Window, find, map_devices, map_window, physical};
pub use crate::arch::stop::Text;
pub use crate::arch::tsc::Facts as TscFacts;
#[cfg(feature = "tests")]
pub use crate::probe::ring::ModelSink;
pub use x86_64::instructions::port::Port;

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
    /// Powers the machine off, or resets it; where it cannot, the CPU halts behind this.
    fn exit(&self, code: ExitCode);
    /// Runs in each CPU's idle thread before it halts, with interrupts on; may be preempted at any point.
    fn idle(&self);
}

/// Does what other CPUs ask of this one, for who waits with interrupts off and would else keep them waiting, for itself perhaps. Says
/// whether another CPU goes on: none does where there is one, or where this one ends the run or reports a fault.
///
/// ```compile_fail,E0133
/// takt_kernel::machine::serve_other_cpus();
/// ```
///
/// # Safety
/// Interrupts are off, and this is no NMI.
#[inline(always)]
pub unsafe fn serve_other_cpus() -> bool {
    let do_others_go_on = is_smp!() && !cpus::is_over();
    if do_others_go_on {
        other_cpu::serve_while_waiting(CpuRef::this());
    }
    do_others_go_on
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

/// Has all other CPUs halt for good. What this one then asks for may be what one of them had.
pub(crate) fn halt_others() {
    if is_smp!() {
        cpus::halt_others();
        lock::free_all();
    }
}

/// Ends the run, on all CPUs.
pub fn exit(code: ExitCode) -> ! {
    interrupts::disable();
    halt_others();
    if let Some(machine) = MACHINE.get() {
        machine.exit(code);
    }
    halt_forever()
}

/// Halts for good, as do all other CPUs.
pub(crate) fn halt_forever() -> ! {
    interrupts::disable();
    halt_others();
    interrupts::halt_forever()
}

/// Reads a model-specific register; `None` if the CPU has none of that number.
///
/// # Panics
/// In an NMI: the exception of one that is not there lets the next NMI come.
///
/// # Context
/// Any but NMIs.
#[must_use]
pub fn read_msr(number: u32) -> Option<u64> {
    assert!(!context::is_nmi(), "a register is asked for in an NMI");
    msr::read(number)
}

/// The emergency console as a formatter.
pub(crate) struct Emergency;

impl Write for Emergency {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        say(text.as_bytes());
        Ok(())
    }
}

/// Writes to the emergency console.
pub(crate) fn say(text: &[u8]) {
    if let Some(machine) = MACHINE.get() {
        machine.emergency_write(text);
    }
}

/// Resets another CPU and has it wait for [`send_startup`].
///
/// # Safety
/// It does not run, or nothing that it does is needed any more: it stops wherever it is, perhaps with a lock of the kernel's.
pub unsafe fn send_init(apic_id: u32) {
    apic::send_init(apic_id);
}

/// Starts another CPU in real mode at a page below 1 MiB.
///
/// # Safety
/// It waits for this since [`send_init`], and the page has code that takes it to [`boot::secondary`](crate::boot::secondary)
/// or keeps it off all memory.
pub unsafe fn send_startup(apic_id: u32, page: u8) {
    apic::send_startup(apic_id, page);
}

/// Sends a message by the local APIC, for tests: `command` is the low half of the interrupt command register.
///
/// # Safety
/// It is an interrupt of a device's vector or an NMI, or as [`send_init`] and [`send_startup`] have it. An interrupt that a
/// handler does not expect is the caller's to answer for.
///
/// # Source
/// Intel SDM volume 3A, 11.6.1.
#[cfg(feature = "tests")]
pub unsafe fn send_ipi(apic_id: u32, command: u32) {
    apic::send(apic_id, apic::Command::from_bits_retain(command));
}

/// Changes the frequency of the TSC, for tests, by which lengths of time become cycles.
///
/// # Safety
/// Nobody goes by what became cycles before: no timer, budget or watchdog, and no one who divides one by the other.
#[cfg(feature = "tests")]
pub unsafe fn set_tsc_hz(hz: u64) {
    crate::clock::set_tsc_hz(hz);
}

/// Starts the counter of this CPU's timer from its highest value, with its interrupt masked, for measuring its frequency. What it gives
/// says what has been counted.
///
/// # Safety
/// Before [`boot::scheduling`](crate::boot::scheduling): no deadline comes any more.
pub unsafe fn start_counting() -> impl Fn() -> u32 {
    apic::start_counting();
    apic::counted
}

/// Calls `f` with the lowest address of the guard and the name of every per-CPU stack, for tests.
#[cfg(feature = "tests")]
pub fn for_each_guard(f: impl FnMut(usize, &'static str)) {
    crate::arch::descriptors::for_each_guard(f);
}

/// Where the stub of an interrupt begins, for tests.
#[cfg(all(feature = "tests", feature = "latency-tracers"))]
#[must_use]
pub fn entry_of(vector: u8) -> usize {
    crate::arch::divert::entry_of(vector)
}

/// All uses of all keys, for tests: the key's address, and that of the five bytes of code.
#[cfg(feature = "tests")]
pub fn branch_places() -> impl Iterator<Item = (u16, u32)> {
    crate::arch::jump_label::places()
}
