//! What a task lends, by the numbers that whom it has called knows.

use core::sync::atomic::{AtomicPtr, AtomicU32, Ordering::Relaxed};

use takt_abi::{Error, Lease, MAX_LEASES, lease};

use super::program::Program;
use crate::arch::space::Access;

/// What a task lends. It changes while nobody has the task as its caller.
pub(super) struct Leases([Slot; MAX_LEASES]);

struct Slot {
    memory: AtomicPtr<u8>,
    size: AtomicU32,
    /// 0 if it is none.
    rights: AtomicU32,
}

/// One of them: a window of the task's memory.
pub(super) struct Window {
    /// Where the identity mapping has it.
    pub(super) memory: *mut u8,
    /// Bytes.
    pub(super) size: u32,
    /// What may be done with it: [`lease`].
    pub(super) rights: u32,
}

impl Leases {
    pub(super) const fn new() -> Self {
        Self(
            [const {
                Slot {
                    memory: AtomicPtr::new(core::ptr::null_mut()),
                    size: AtomicU32::new(0),
                    rights: AtomicU32::new(0),
                }
            }; MAX_LEASES],
        )
    }

    /// Checks what a program's task wants to lend, and lends it.
    pub(super) fn open(
        &self,
        program: &Program,
        leases: &[Lease; MAX_LEASES],
    ) -> Result<(), Error> {
        for (slot, lent) in self.0.iter().zip(leases) {
            let access = match lent.rights {
                0 => continue,
                lease::READ => Access::Read,
                // What may be written to may be read.
                rights if rights & !(lease::READ | lease::WRITE) == 0 => Access::Write,
                _ => return Err(Error::InvalidArgument),
            };
            let memory = program.find(lent.address as usize, lent.size as usize, access);
            slot.memory.store(memory.ok_or(Error::BadAddress)?, Relaxed);
            slot.size.store(lent.size, Relaxed);
            slot.rights.store(lent.rights, Relaxed);
        }
        Ok(())
    }

    /// Takes all back.
    pub(super) fn close(&self) {
        for slot in &self.0 {
            slot.rights.store(0, Relaxed);
        }
    }

    /// The one of this number.
    #[inline(always)]
    pub(super) fn window(&self, number: u64) -> Result<Window, Error> {
        let number = usize::try_from(number).unwrap_or(usize::MAX);
        let slot = self.0.get(number).ok_or(Error::NoLease)?;
        match slot.rights.load(Relaxed) {
            0 => Err(Error::NoLease),
            rights => Ok(Window {
                memory: slot.memory.load(Relaxed),
                size: slot.size.load(Relaxed),
                rights,
            }),
        }
    }
}
