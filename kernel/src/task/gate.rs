//! How the line of a task's first interrupt is masked and unmasked while one CPU runs.

use core::ptr::NonNull;
use core::sync::atomic::{AtomicPtr, AtomicU32, Ordering::Relaxed};

use volatile::{VolatilePtr, map_field};

/// An I/O APIC's registers: which of those behind `data` it is stands in `select` (82093AA, 3.1).
#[repr(C)]
pub(crate) struct IoApic {
    select: u32,
    _reserved: [u32; 3],
    pub(crate) data: u32,
}

/// How a line is masked: by a register of an I/O APIC.
#[repr(C)]
pub(crate) struct Gate {
    /// The notification of its interrupt, or 0.
    pub(crate) notification: AtomicU32,
    /// Which register.
    pub(crate) register: AtomicU32,
    /// What it is while the line is unmasked.
    pub(crate) unmasked: AtomicU32,
    pub(super) masked: AtomicU32,
    /// Where the I/O APIC is; where there is no line, memory that nobody reads.
    pub(crate) io_apic: AtomicPtr<IoApic>,
}

static NOWHERE: [AtomicU32; size_of::<IoApic>() / 4] =
    [const { AtomicU32::new(0) }; size_of::<IoApic>() / 4];

impl Gate {
    pub(super) const fn new() -> Self {
        Self {
            notification: AtomicU32::new(0),
            register: AtomicU32::new(0),
            unmasked: AtomicU32::new(0),
            masked: AtomicU32::new(0),
            io_apic: AtomicPtr::new(NOWHERE.as_ptr().cast_mut().cast()),
        }
    }

    /// Masks the line, with interrupts off, while one CPU runs.
    #[inline(always)]
    pub(super) fn mask(&self) {
        // SAFETY: a static's address, or an I/O APIC's by the promise made to `Task::set_gate`.
        let io_apic = unsafe { NonNull::new_unchecked(self.io_apic.load(Relaxed)) };
        // SAFETY: its registers, or nobody's memory. Interrupts are off and no other CPU runs, so nobody selects another register
        // in between.
        let io_apic = unsafe { VolatilePtr::new(io_apic) };
        map_field!(io_apic.select).write(self.register.load(Relaxed));
        map_field!(io_apic.data).write(self.masked.load(Relaxed));
    }
}
