//! Memory that is lent for a call, and what whoever receives it does with that.

use core::marker::PhantomData;

use crate::abi::{self, Call, Lending, MAX_LEASES, lease};
use crate::{Error, Instant, Message, Peer, syscall};

/// Memory of the task's that it lends for a call: it is borrowed meanwhile.
///
/// Its length is below 4 GiB, as that of all that a task has is.
#[derive(Debug)]
pub struct Lease<'a> {
    lease: abi::Lease,
    memory: PhantomData<&'a mut [u8]>,
}

impl<'a> Lease<'a> {
    /// To be read by whoever is called.
    #[must_use]
    pub fn read(memory: &'a [u8]) -> Self {
        // SAFETY: shared for so long, and not written to.
        unsafe { Self::from_raw(memory.as_ptr().cast_mut(), memory.len(), lease::READ) }
    }

    /// To be written to.
    #[must_use]
    pub fn write(memory: &'a mut [u8]) -> Self {
        // SAFETY: borrowed for so long, and any bytes are of its type.
        unsafe { Self::from_raw(memory.as_mut_ptr(), memory.len(), lease::WRITE) }
    }

    /// To be read and written to.
    #[must_use]
    pub fn read_write(memory: &'a mut [u8]) -> Self {
        let rights = lease::READ | lease::WRITE;
        // SAFETY: borrowed mutably for so long, and any bytes are of its type.
        unsafe { Self::from_raw(memory.as_mut_ptr(), memory.len(), rights) }
    }

    /// Any memory, as that of a region that tasks share; with [`rights`](lease) of which the call makes sure that the task has them itself.
    ///
    /// # Safety
    /// With [`lease::WRITE`] whoever is called may write to it for `'a`, and any bytes may be there.
    #[must_use]
    pub unsafe fn from_raw(memory: *mut u8, size: usize, rights: u32) -> Self {
        Self {
            lease: abi::Lease {
                address: memory.expose_provenance() as u64,
                // Of a length that there cannot be the kernel will say so.
                size: u32::try_from(size).unwrap_or(u32::MAX),
                rights,
            },
            memory: PhantomData,
        }
    }
}

impl Peer {
    /// As [`call_until`](Self::call_until), and lends memory, until it returns: by numbers, as they stand here.
    ///
    /// # Errors
    /// [`Error::BadAddress`] for memory that the task does not have in one part, or not for that; and those of
    /// [`call_until`](Self::call_until).
    pub fn call_lending<const NR: usize>(
        self,
        message: Message,
        leases: [Lease<'_>; NR],
        deadline: Instant,
    ) -> Result<Message, Error> {
        const { assert!(NR <= MAX_LEASES, "more than can be lent") };
        let mut lending = Lending {
            deadline: deadline.nanos(),
            leases: [abi::Lease::NONE; MAX_LEASES],
        };
        for (to, lease) in lending.leases.iter_mut().zip(&leases) {
            *to = lease.lease;
        }
        syscall::call_lending(self.number(), message, &lending)
    }
}

/// What is lent with the message that was received last, by its number; it is given back by the reply, or by the end of the
/// caller's wait.
///
/// ```ignore
/// // The caller:
/// let mut answer = [0; 1024];
/// SERVER.call_lending([1; 6], [Lease::read(b"question"), Lease::write(&mut answer)], Instant::NEVER)?;
///
/// // Who is called, before the reply:
/// let mut question = [0; 64];
/// let size = Leased::new(0).info()?.size;
/// Leased::new(0).read(0, &mut question[..size])?;
/// Leased::new(1).write(0, b"answer")?;
/// ```
///
/// | error | |
/// |---|---|
/// | `BadAddress` | of the call: the caller does not have all of that memory, or may not do that with it, or it is a device's. Of a copy: the same of the task's own memory |
/// | `InvalidArgument` | rights that there are not; a copy that goes beyond the window |
/// | `NoLease`, `NoRight` | nothing is lent by that number; not for that |
/// | `Revoked` | the caller waits no more: its time has come, its budget or itself is at its end. A part may be copied |
/// | `NothingToReply` | no message waits for a reply: what was lent with the one before ended with that |
///
/// Where both windows are in one region, the bytes are copied forwards. Others who have the region see a copy while it is made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Leased(u32);

/// What a lease is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Info {
    /// Bytes.
    pub size: usize,
    /// What may be done with it: [`lease`].
    pub rights: u32,
}

impl Leased {
    /// The one of this number. Whether there is one shows when it is used.
    #[must_use]
    pub const fn new(number: u32) -> Self {
        Self(number)
    }

    /// What it is.
    ///
    /// # Errors
    /// [`Error::NoLease`]; [`Error::Revoked`] if the caller waits no more; [`Error::NothingToReply`].
    pub fn info(self) -> Result<Info, Error> {
        syscall::lease_info(self.0).map(|value| Info {
            size: value as u32 as usize,
            rights: (value >> 32) as u32,
        })
    }

    /// Copies from it, from its byte `offset` on.
    ///
    /// # Errors
    /// [`Error::NoRight`]; [`Error::InvalidArgument`] beyond its end; those of [`info`](Self::info): a part may be copied by then.
    #[inline(always)]
    pub fn read(self, offset: usize, to: &mut [u8]) -> Result<(), Error> {
        let at = to.as_mut_ptr().expose_provenance();
        // SAFETY: it is borrowed.
        unsafe { syscall::copy(Call::LeaseRead, self.0, offset, at, to.len()) }
    }

    /// Copies to it, from its byte `offset` on.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    #[inline(always)]
    pub fn write(self, offset: usize, from: &[u8]) -> Result<(), Error> {
        let at = from.as_ptr().expose_provenance();
        // SAFETY: nothing of the task's is written.
        unsafe { syscall::copy(Call::LeaseWrite, self.0, offset, at, from.len()) }
    }
}
