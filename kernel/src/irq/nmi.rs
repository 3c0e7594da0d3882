//! Non-maskable interrupts: what runs in one, and what it may use.
//!
//! An NMI comes between any two instructions, of a kernel section too: what a section protects may be half changed then.
//! So its handler gives nothing, wakes no one and waits for nothing. It computes, changes atomics of its own, records, and
//! has [`Nmi`]: what else it wants done is for the handler of an interrupt that it raises.
//!
//! The kernel's calls do not ask whether this is an NMI, since each would be longer by that. So it is for whoever sets the
//! handler to promise it, and safe code cannot:
//!
//! ```compile_fail,E0133
//! takt_kernel::irq::set_nmi_handler(|_| {});
//! ```
//! ```compile_fail,E0308
//! fn knows_of_no_nmi() {}
//! unsafe { takt_kernel::irq::set_nmi_handler(knows_of_no_nmi) };
//! ```
//! ```no_run
//! // SAFETY: it does nothing.
//! unsafe { takt_kernel::irq::set_nmi_handler(|_| {}) };
//! ```
//! What waits finds out by itself ([`Error::WrongContext`](crate::Error::WrongContext)). That a handler has made a reschedule
//! due, or left preemption disabled, is seen when it returns: the kernel panics.

use core::marker::PhantomData;
use core::sync::atomic::{AtomicPtr, Ordering::Relaxed};

use crate::arch::{percpu, proof};

/// What an NMI's handler has of the kernel, besides trace points.
#[derive(Debug)]
pub struct Nmi {
    interrupted_ip: usize,
    /// Of this CPU, and of this one time.
    _not_send: PhantomData<*const ()>,
}

impl Nmi {
    /// Address of the instruction that was to be executed next.
    #[must_use]
    pub fn interrupted_ip(&self) -> usize {
        self.interrupted_ip
    }
}

/// A handler of NMIs.
pub type NmiHandler = fn(&Nmi);

static HANDLER: AtomicPtr<()> = AtomicPtr::new(core::ptr::null_mut());

/// Sets what runs in a non-maskable interrupt, on every CPU.
///
/// # Safety
/// The handler calls nothing of the kernel's but trace points and what [`Nmi`] has, and takes no lock that a thread or an
/// interrupt takes. `preempt::disable` is allowed, if its guard is dropped.
pub unsafe fn set_nmi_handler(handler: NmiHandler) {
    HANDLER.store(handler as *mut (), Relaxed);
}

/// NMIs of this CPU since boot.
#[must_use]
pub fn nmi_count() -> u64 {
    percpu::this().nr_nmis.load(Relaxed)
}

/// Runs the handler.
///
/// # Panics
/// If it has changed the preempt count.
pub(crate) fn run_handler(interrupted_ip: usize) {
    let handler = HANDLER.load(Relaxed);
    if handler.is_null() {
        return;
    }
    // SAFETY: only `set_nmi_handler` stores there, and it stores an `NmiHandler`.
    let handler = unsafe { core::mem::transmute::<*mut (), NmiHandler>(handler) };
    let before = percpu::preempt_byte();
    proof::targets!("an NMI's handler");
    handler(&Nmi {
        interrupted_ip,
        _not_send: PhantomData,
    });
    if percpu::preempt_byte() != before {
        misused();
    }
}

#[cold]
#[inline(never)]
fn misused() -> ! {
    panic!("an NMI's handler has woken a thread, or left preemption disabled");
}
