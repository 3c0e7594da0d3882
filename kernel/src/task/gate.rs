//! How the line of a task's first interrupt is masked and unmasked while one CPU runs.

use core::sync::atomic::{AtomicPtr, AtomicU32, Ordering::Relaxed};

/// How a line is masked: a register of an I/O APIC, which is selected by a first word and written by another one 16 bytes behind it
/// (82093AA, 3.1).
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
    pub(crate) io_apic: AtomicPtr<u32>,
}

/// In words, where the other word is.
pub(crate) const DATA: usize = 4;

static NOWHERE: [AtomicU32; DATA + 1] = [const { AtomicU32::new(0) }; DATA + 1];

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
        let io_apic = self.io_apic.load(Relaxed);
        // SAFETY: an I/O APIC's register, by the promise made to `Task::set_gate`, or nobody's memory. Interrupts are off and no other
        // CPU runs, so the second word belongs to the first.
        unsafe { io_apic.write_volatile(self.register.load(Relaxed)) };
        // SAFETY: its data register, for the one that was just selected.
        unsafe {
            io_apic
                .wrapping_add(DATA)
                .write_volatile(self.masked.load(Relaxed));
        };
    }
}
