//! Device interrupts: who handles which vector.

use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering::Relaxed};

use crate::arch::interrupts::{FIRST_DEVICE_VECTOR, NR_DEVICE_VECTORS};
use crate::arch::{apic, percpu};
use crate::error::Error;
use crate::lock;
use crate::sched::{self, IrqExit};
use crate::static_branch;
use crate::trace::{self, trace};

/// A handler: is told its argument and the time stamp taken by the entry's third instruction.
pub type Handler = fn(usize, u64);

struct Slot {
    handler: AtomicPtr<()>,
    argument: AtomicU64,
}

static HANDLERS: [Slot; NR_DEVICE_VECTORS] = [const {
    Slot {
        handler: AtomicPtr::new(core::ptr::null_mut()),
        argument: AtomicU64::new(0),
    }
}; NR_DEVICE_VECTORS];

/// The last unexpected vector, for reports.
static LAST_UNEXPECTED: AtomicU32 = AtomicU32::new(0);

/// Sets the handler of a device vector. It runs with interrupts off, must not block and be short.
///
/// # Errors
/// [`Error::InvalidArgument`] if the vector is not a device's; [`Error::InvalidState`] if it has a handler.
pub fn register(vector: u8, handler: Handler, argument: usize) -> Result<(), Error> {
    let index = usize::from(vector).wrapping_sub(usize::from(FIRST_DEVICE_VECTOR));
    let slot = HANDLERS.get(index).ok_or(Error::InvalidArgument)?;
    if !slot.handler.load(Relaxed).is_null() {
        return Err(Error::InvalidState);
    }
    slot.argument.store(argument as u64, Relaxed);
    slot.handler
        .store(handler as *mut (), core::sync::atomic::Ordering::Release);
    Ok(())
}

/// Called by the entry stub of device vectors and of unexpected ones (`vector` 0).
///
/// The traced form is a function of its own, so that this one keeps nothing across a call and saves no register.
pub(crate) extern "C" fn device_interrupt(at: u64, vector: u64) -> IrqExit {
    if static_branch!(trace::events::irq_handler_entry::ID)
        || static_branch!(trace::events::irq_handler_exit::ID)
    {
        return traced_device_interrupt(at, vector);
    }
    handle(at, vector);
    sched::irq_exit(lock::enter_irq())
}

#[inline(never)]
extern "C" fn traced_device_interrupt(at: u64, vector: u64) -> IrqExit {
    trace!(irq_handler_entry, vector as u32);
    handle(at, vector);
    trace!(irq_handler_exit, vector as u32);
    sched::irq_exit(lock::enter_irq())
}

#[inline(always)]
fn handle(at: u64, vector: u64) {
    // SAFETY: this CPU's own block.
    unsafe { (*percpu::this()).nr_irqs += 1 };
    let slot = HANDLERS.get((vector as usize).wrapping_sub(usize::from(FIRST_DEVICE_VECTOR)));
    match slot.map(|slot| (slot.handler.load(Relaxed), slot.argument.load(Relaxed))) {
        Some((handler, argument)) if !handler.is_null() => {
            // SAFETY: only `register` stores there, and it stores a `Handler`.
            let handler = unsafe { core::mem::transmute::<*mut (), Handler>(handler) };
            handler(argument as usize, at);
            apic::end_of_interrupt();
        }
        _ => unexpected(vector as u32),
    }
}

/// An interrupt that no one expected: counted, and acknowledged if the local APIC says that one is in service.
#[cold]
fn unexpected(vector: u32) {
    // SAFETY: this CPU's own block.
    unsafe { (*percpu::this()).nr_unexpected += 1 };
    let in_service = apic::vector_in_service();
    if in_service.is_some() {
        apic::end_of_interrupt();
    }
    LAST_UNEXPECTED.store(in_service.map_or(vector, u32::from), Relaxed);
}

/// Unexpected and spurious interrupts of a CPU since boot.
#[must_use]
pub fn unexpected_count(cpu: usize) -> u64 {
    // SAFETY: reads one word that only its CPU writes.
    let count = unsafe { &raw const (*percpu::of(cpu)).nr_unexpected };
    // SAFETY: as above.
    unsafe { count.read_volatile() }
}

/// The vector of the last unexpected interrupt, on any CPU.
#[must_use]
pub fn last_unexpected() -> u32 {
    LAST_UNEXPECTED.load(Relaxed)
}

/// Interrupts taken by a CPU since boot.
#[must_use]
pub fn count(cpu: usize) -> u64 {
    // SAFETY: reads one word that only its CPU writes.
    let count = unsafe { &raw const (*percpu::of(cpu)).nr_irqs };
    // SAFETY: as above.
    unsafe { count.read_volatile() }
}

static NMI_HANDLER: AtomicPtr<()> = AtomicPtr::new(core::ptr::null_mut());

/// Sets what runs in a non-maskable interrupt. It may touch nothing that a section protects; trace points are fine.
pub fn set_nmi_handler(handler: fn()) {
    NMI_HANDLER.store(handler as *mut (), Relaxed);
}

pub(crate) fn nmi() {
    let handler = NMI_HANDLER.load(Relaxed);
    if !handler.is_null() {
        // SAFETY: only `set_nmi_handler` stores there, and it stores a `fn()`.
        unsafe { core::mem::transmute::<*mut (), fn()>(handler)() };
    }
}
