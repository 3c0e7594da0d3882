//! Leases: windows of its own memory that a caller lends to whom it calls, until it goes on.
//!
//! Both are found by the tasks' own descriptions, where the identity mapping has them, and copied there by the borrower's thread:
//! a section for each [`PIECE`], which looks first whether the lender still waits. So nothing is copied once that has gone on, for
//! whatever reason and on whichever CPU, and it never waits for the borrower.
//!
//! A caller that lends waits with its call on its stack in the kernel, so that it takes back what it lends before it goes on: the
//! short way of messages knows nothing of leases.

use core::sync::atomic::Ordering::Relaxed;

use takt_abi::{Error, Lease, Lending, MAX_LEASES, lease, rights};

use super::frame::Frame;
use super::ipc::deadline;
use super::lease::Window;
use super::object::{GONE, MAX_PEERS, Port, Task};
use crate::arch::space::{self, Access};
use crate::clock::Instant;
use crate::section::{self, Kernel};
use crate::switch::Handoff;
use crate::thread::tcb::TcbRef;

/// Bytes that are copied in one section, of which the words are two thirds of its instructions.
const PIECE: usize = 512;

/// Where a call that copies has its two further arguments among a message's words.
const OFFSET: usize = 2;
const SIZE: usize = 3;

impl Task {
    /// [`Call::CallLending`](takt_abi::Call::CallLending), with the address of a [`Lending`].
    #[inline(never)]
    pub(super) fn call_lending(&self, handle: u64, at: u64) -> Result<Handoff, Error> {
        let (task, _, life) = self.peer(handle, rights::CALL)?;
        let value = self.handles.values[handle as usize % MAX_PEERS].load(Relaxed);
        let result = self.lend(at).and_then(|deadline| {
            task.port.begin_call(value, life)?;
            task.port.wait_for_reply(deadline)
        });
        self.leases.close();
        result
    }

    /// Lends what is to be lent; gives the time until which to wait.
    fn lend(&self, at: u64) -> Result<Instant, Error> {
        const SIZE: usize = size_of::<Lending>();
        let list = self.program.find(at as usize, SIZE, Access::Read);
        let mut lending = Lending {
            deadline: 0,
            leases: [Lease::NONE; MAX_LEASES],
        };
        let copy = (&raw mut lending).cast();
        // SAFETY: so much is there, and any bytes are one. Others may write to it where it lies in a region: they are read once.
        unsafe { space::copy(copy, list.ok_or(Error::BadAddress)?, SIZE) };
        self.leases.open(&self.program, &lending.leases)?;
        Ok(deadline(lending.deadline))
    }

    /// Copies from or to a lease, as the right to that says, by the borrower's thread; `own` is its own address.
    #[inline(never)]
    pub(super) fn copy_leased(&self, number: u64, own: u64, right: u32) -> Result<(), Error> {
        let words = &Frame::of(TcbRef::current()).words;
        let (offset, size) = (words[OFFSET].load(Relaxed), words[SIZE].load(Relaxed));
        let (lender, window) = self.port.lease(number)?;
        if window.rights & right == 0 {
            return Err(Error::NoRight);
        }
        let whole = u64::from(window.size);
        if size > whole || offset > whole - size {
            return Err(Error::InvalidArgument);
        }
        let access = match right {
            lease::READ => Access::Write,
            _ => Access::Read,
        };
        let own = self.program.find(own as usize, size as usize, access);
        let own = own.ok_or(Error::BadAddress)?;
        let lent = window.memory.wrapping_add(offset as usize);
        let (mut to, mut from) = match right {
            lease::READ => (own, lent.cast_const()),
            _ => (lent, own.cast_const()),
        };
        let mut left = size as usize;
        loop {
            let piece = left.min(PIECE);
            let section = section::enter_thread();
            // Neither does it go on for one that is to stop.
            if !self.port.is_lent_by(&section, lender) || self.pending.is_some() {
                section.leave_quietly();
                return Err(Error::Revoked);
            }
            // SAFETY: the lender waits, and cannot go on before the section ends: so this is within what it lends, and its own. The
            // other one is the running task's.
            (to, from) = unsafe { space::copy(to, from, piece) };
            section.leave_quietly();
            left -= piece;
            if left == 0 {
                return Ok(());
            }
        }
    }
}

impl Port {
    /// Whether the thread of this control block waits for the task's reply, or has yet to learn that it does no more.
    #[inline(always)]
    fn is_lent_by(&self, _: &Kernel, lender: usize) -> bool {
        self.caller.load(Relaxed) == lender
    }

    /// What is lent by this number with the message that was received last, and the control block of whoever lends it.
    fn lease(&self, number: u64) -> Result<(usize, Window), Error> {
        let section = section::enter_thread();
        let lender = self.caller.load(Relaxed);
        let window = match lender {
            0 => Err(Error::NothingToReply),
            GONE => Err(Error::Revoked),
            _ => {
                // SAFETY: `take` put it there.
                let space = unsafe { TcbRef::of_address(lender) }.space();
                // SAFETY: it waits for this task's reply, so it is a task's.
                let task = unsafe { Task::of_space(space) };
                task.leases.window(number)
            }
        };
        section.leave_quietly();
        Ok((lender, window?))
    }

    /// [`Call::LeaseInfo`](takt_abi::Call::LeaseInfo).
    #[inline(never)]
    pub(super) fn lease_info(&self, number: u64) -> Result<u64, Error> {
        let (_, window) = self.lease(number)?;
        Ok(u64::from(window.rights) << 32 | u64::from(window.size))
    }
}
