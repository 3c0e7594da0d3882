//! The function profiler: how often each function is called, and how long it takes.
//!
//! It uses what the function graph uses: the entry pushes a frame on the shadow stack, here with the time, and the
//! return pops it. Times are gross, as ftrace's are by default: those of called functions, of interrupts and of other
//! threads that ran meanwhile are in them, and so is what it costs to profile the functions that it calls. What it costs
//! to profile the function itself is not: it is what an empty function takes, which is measured when the profiler is
//! switched on, and subtracted.
//!
//! What is profiled is what the tracers' filter has (`set_ftrace_filter` without `set_ftrace_notrace`). Functions of an
//! NMI, and those that the function graph has no room for, are not counted.
//!
//! Tables are per CPU and threads do not migrate, so each number belongs to one CPU, and every change is one instruction
//! (of the sum of squares two, which an interrupt between them does not disturb: it leaves the carry as it was).

use core::arch::asm;
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

use takt_tracer::profile::{Entry, View};

use super::set::{SharedFilter, id_of};
use crate::arch::percpu;
use crate::clock::{AtomicCycles, Cycles};
use crate::config::{MAX_CPUS, MAX_FUNCTIONS};

/// The functions that are profiled, all things considered.
pub(super) static PROFILED: SharedFilter = SharedFilter::none();

/// Zeros, so that they lie in `.bss`.
#[unsafe(export_name = "TAKT_FUNCTION_PROFILE")]
pub(super) static TABLES: [[Entry; MAX_FUNCTIONS]; MAX_CPUS] =
    [const { [const { Entry::new() }; MAX_FUNCTIONS] }; MAX_CPUS];

#[unsafe(export_name = "TAKT_FUNCTION_PROFILE_ENABLED")]
pub(super) static ENABLED: AtomicU32 = AtomicU32::new(0);

/// What is subtracted from each time.
pub(super) static OVERHEAD: AtomicCycles = AtomicCycles::new(Cycles::ZERO);

/// Whether the profiler is on.
///
/// # Context
/// Any.
#[must_use]
pub fn is_profiling() -> bool {
    ENABLED.load(Relaxed) != 0
}

/// What it has counted of the function with this id on a CPU; nothing if there is no such function or CPU.
///
/// # Context
/// Any; numbers that are changing may be of different calls.
#[must_use]
pub fn profile_of(cpu: usize, id: usize) -> View {
    TABLES
        .get(cpu)
        .and_then(|table| table.get(id))
        .map_or_else(View::default, Entry::view)
}

/// This CPU's entry of the function that begins at this address.
#[inline(never)]
pub(super) fn entry_of(ip: u32) -> Option<&'static Entry> {
    TABLES.get(percpu::cpu())?.get(id_of(ip as usize)?)
}

/// A function begins.
#[inline(never)]
pub(super) fn entered(ip: u32) {
    if let Some(entry) = entry_of(ip) {
        // SAFETY: a counter of this CPU, changed by one instruction.
        unsafe { asm!("inc qword ptr [{}]", in(reg) entry.hits.as_ptr(), options(nostack)) };
    }
}

/// A function returns after so long.
#[cold]
#[inline(never)]
pub(super) fn returned(ip: u32, time: Cycles) {
    let Some(entry) = entry_of(ip).filter(|_| is_profiling()) else {
        return;
    };
    let cycles = (time - OVERHEAD.load()).get();
    let square = u128::from(cycles) * u128::from(cycles);
    // SAFETY: counters of this CPU; see the module's text.
    unsafe {
        asm!("add [{total}], {cycles}", "add [{squares}], {low}", "adc [{squares} + 8], {high}",
             total = in(reg) entry.cycles.as_ptr(), squares = in(reg) entry.squares.as_ptr(), cycles = in(reg) cycles,
             low = in(reg) square as u64, high = in(reg) (square >> 64) as u64, options(nostack));
    }
}
