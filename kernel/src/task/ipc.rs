//! Messages: synchronous, one at a time to each task; and notifications.
//!
//! Whoever calls leaves the message in its frame, announces that it waits for the task's [`served`](super::object::Port::served),
//! and waits; so it lends its priority to the task, to whom that waits for, and circles are found. The message is taken over
//! inside a section: by the caller if the task waits to receive, else by the task when it comes to that. So is the reply, by the
//! task. Each is left in the frame of the one that it is for, which is only woken then.
//!
//! A call whose receiver waits, and a reply to the only caller, are mostly made by the assembly of `arch::ipc` in one stretch, with
//! the same effect: what is here is its model, and does all that is rare.

use core::sync::atomic::Ordering::Relaxed;

use takt_abi::{Error, NOTIFICATIONS, WORDS, rights};
use takt_scheduler::Placement;

use super::account::NO_LIFE;
use super::frame::Frame;
use super::object::{GONE, MAX_PEERS, Port, Task, all};
use super::program::Peer;
use crate::clock::{Instant, Nanos};
use crate::other_cpu;
use crate::probe::trace;
use crate::sched;
use crate::section::{self, Kernel, Kind, Section};
use crate::switch::{self, AtOnce, Handoff};
use crate::thread::tcb::{TcbRef, Wait, Woken};
use crate::wait;

impl Task {
    /// The peer that a handle names, if the handle allows this, and the life of it that the handle means.
    pub(super) fn peer(
        &self,
        handle: u64,
        right: u8,
    ) -> Result<(&'static Task, &Peer, u32), Error> {
        let number = usize::try_from(handle).unwrap_or(usize::MAX);
        let peer = self.program.peers.get(number).ok_or(Error::NoHandle)?;
        if peer.rights & right != right {
            return Err(Error::NoRight);
        }
        let task = all().get(peer.task).ok_or(Error::NoHandle)?;
        let life = self.handles.lives[number % MAX_PEERS].load(Relaxed);
        Ok((task, peer, life))
    }

    /// [`Call::Call`](takt_abi::Call::Call), and the same with a time-out.
    #[inline(always)]
    pub(super) fn call(&self, handle: u64, deadline: Instant) -> Result<Handoff, Error> {
        let (task, _, life) = self.peer(handle, rights::CALL)?;
        let value = self.handles.values[handle as usize % MAX_PEERS].load(Relaxed);
        task.port.begin_call(value, life)?;
        if deadline == Instant::NEVER {
            return Ok(wait::begin_wait());
        }
        task.port.wait_for_reply(deadline)
    }

    /// [`Call::Notify`](takt_abi::Call::Notify).
    #[inline(always)]
    pub(super) fn notify(&self, handle: u64, bits: u64) -> Result<Handoff, Error> {
        let (task, _, life) = self.peer(handle, rights::NOTIFY)?;
        task.port.notify(checked_bits(bits)?, life)
    }

    /// [`Call::Renew`](takt_abi::Call::Renew).
    pub(super) fn renew(&self, handle: u64) -> Result<(), Error> {
        let (task, peer, _) = self.peer(handle, 0)?;
        if !task.is_alive() {
            return Err(Error::Dead);
        }
        self.bind(handle as usize, peer, task.generation());
        Ok(())
    }

    /// At the beginning of a life, each handle means the life that its task lives or lived last.
    pub(super) fn renew_all(&self) {
        for (number, peer) in self.program.peers.iter().enumerate() {
            let task = all().get(peer.task);
            self.bind(number, peer, task.map_or(NO_LIFE, Self::generation));
        }
    }

    fn bind(&self, number: usize, peer: &Peer, life: u32) {
        let if_allowed = |right| match peer.short & right {
            0 => NO_LIFE,
            _ => life,
        };
        let (handles, number) = (&self.handles, number % MAX_PEERS);
        handles.lives[number].store(life, Relaxed);
        handles.calls[number].store(if_allowed(rights::CALL), Relaxed);
        handles.notifies[number].store(if_allowed(rights::NOTIFY), Relaxed);
    }
}

impl Port {
    /// Its thread, once it has one.
    #[inline(always)]
    pub(super) fn thread(&self) -> TcbRef {
        // SAFETY: a task that lives or has lived has a thread, and nobody asks for that of one that has not.
        unsafe { TcbRef::of_address(self.thread.load(Relaxed)) }
    }

    /// Whether its task lives that life.
    #[inline(always)]
    fn check(&self, _: &Kernel, life: u32) -> Result<(), Error> {
        let lives = self.life.load(Relaxed);
        if lives == life {
            return Ok(());
        }
        core::hint::cold_path();
        // While it is dead a handle of its last life means the dead.
        Err(if lives == 0 && self.last_life() == life {
            Error::Dead
        } else {
            Error::Stale
        })
    }

    /// The life that its task lives, or lived last.
    fn last_life(&self) -> u32 {
        let task = core::ptr::from_ref(self).wrapping_byte_sub(core::mem::offset_of!(Task, port));
        // SAFETY: a port is a part of its task.
        unsafe { &*task.cast::<Task>() }.generation()
    }

    /// Whether its task waits to receive: not if its time has come and it has yet to learn of that.
    #[inline(always)]
    fn is_open(&self, kernel: &Kernel) -> bool {
        self.open.load(Relaxed) != 0 && kernel.look_at(self.thread()).woken == Woken::Not
    }

    /// The task has the message of `from`.
    #[inline(always)]
    fn take(&self, kernel: &mut Kernel, from: TcbRef, bits: u32) {
        let frame = Frame::of(self.thread());
        frame.copy(Frame::of(from));
        let value = kernel.look_at(from).exchange as u64;
        frame.give(Ok(value | u64::from(bits)));
        self.caller.store(from.as_ptr() as usize, Relaxed);
    }

    /// Sends the message in the running thread's frame. Whoever does then waits for the reply, unless there is an error; the task may
    /// have run meanwhile.
    #[inline(never)]
    pub(super) fn begin_call(&self, value: u64, life: u32) -> Result<(), Error> {
        let me = TcbRef::current();
        let mut section = section::enter_thread();
        let mut checked = self.check(&section, life);
        if checked.is_ok() && self.thread() == me {
            checked = Err(Error::Deadlock);
        }
        if checked.is_err() {
            section.leave_quietly();
            return checked;
        }
        section.thread(me).exchange = value as usize;
        trace!(ipc_call, self.thread().tid().raw());
        self.served.announce(&mut section);
        if !self.is_open(&section) {
            section.leave_quietly();
            // Whom the task calls once it has taken the message, on another CPU perhaps, it finds itself.
            let is_taken = || self.caller.load(Relaxed) == me.as_ptr() as usize;
            return self.served.check_and_lend(is_taken).map_err(|_| {
                // The task may have taken the message before.
                self.forget_me();
                Error::Deadlock
            });
        }
        // It waits for nobody, so there is no circle.
        self.open.store(0, Relaxed);
        self.take(&mut section, me, 0);
        let (thread, prio) = (self.thread(), section.look_at(me).prio);
        let lends = prio.is_more_important_than(section.look_at(thread).prio);
        if thread.is_elsewhere() {
            if lends {
                other_cpu::walk_when_woken(thread);
            }
            sched::wake_anywhere(section, thread).leave();
            return Ok(());
        }
        let mut section = match lends {
            true => sched::requeue(section, thread.tid(), prio, Placement::Tail),
            false => section.narrow(),
        };
        sched::wake(&mut section, thread, Woken::Object);
        section.leave();
        Ok(())
    }

    /// Waits for the reply, until `deadline` at most.
    #[inline(never)]
    pub(super) fn wait_for_reply(&self, deadline: Instant) -> Result<Handoff, Error> {
        let woken = wait::finish(deadline);
        if woken != Woken::TimedOut {
            return Ok(Handoff::done(Ok(())));
        }
        self.forget_me();
        Err(Error::TimedOut)
    }

    /// The running thread waits no longer: a reply to its message goes nowhere, whatever it asks for next.
    fn forget_me(&self) {
        let section = section::enter_thread();
        let me = TcbRef::current().as_ptr() as usize;
        if self.caller.load(Relaxed) == me {
            self.caller.store(GONE, Relaxed);
        }
        section.leave_quietly();
    }

    /// Adds notifications.
    #[inline(always)]
    fn notify(&self, bits: u32, life: u32) -> Result<Handoff, Error> {
        let section = section::enter_thread();
        if let Err(error) = self.check(&section, life) {
            section.leave_quietly();
            return Err(error);
        }
        Ok(self.add(section, bits))
    }

    /// Adds those of a device, in its handler, unless the task is dead.
    #[inline(always)]
    pub(super) fn raise(&self, bits: u32) {
        let section = section::enter_irq();
        if self.life.load(Relaxed) == 0 {
            return section.release();
        }
        // A switch is the interrupt's end.
        let _ = self.add(section, bits).finish_staying();
    }

    #[inline(always)]
    fn add<K: Kind>(&self, section: Section<K>, bits: u32) -> Handoff {
        let all = self.bits.load(Relaxed) | bits;
        let mask = self.mask.load(Relaxed);
        if all & mask == 0 || !self.is_open(&section) {
            self.bits.store(all, Relaxed);
            return Handoff::stay(section, Ok(()));
        }
        self.bits.store(all & !mask, Relaxed);
        self.open.store(0, Relaxed);
        let thread = self.thread();
        let frame = Frame::of(thread);
        frame.set_message(&[0; WORDS]);
        frame.give(Ok(u64::from(all & mask)));
        let tid = section.look_at(thread).tid;
        switch::wake_taken::<_, AtOnce>(section, tid)
    }

    /// [`Call::Receive`](takt_abi::Call::Receive), by the task's thread.
    #[inline(never)]
    pub(super) fn receive(&self, mask: u64, deadline: Instant) -> Result<Handoff, Error> {
        let mask = checked_bits(mask)?;
        if self.caller.load(Relaxed) != 0 {
            return Err(Error::NotReplied);
        }
        let me = TcbRef::current();
        let mut section = section::enter_thread();
        let pending = self.bits.load(Relaxed);
        let arrived = pending & mask;
        self.bits.store(pending & !mask, Relaxed);
        if let Some(from) = self.served.first(&mut section) {
            self.take(&mut section, from, arrived);
            return Ok(Handoff::stay(section, Ok(())));
        }
        if arrived != 0 {
            Frame::of(me).give(Ok(arrived.into()));
            return Ok(Handoff::stay(section, Ok(())));
        }
        self.mask.store(mask, Relaxed);
        self.open.store(self.life.load(Relaxed), Relaxed);
        if deadline == Instant::NEVER {
            section.thread(me).woken = Woken::Not;
            return Ok(wait::block_alone(section.narrow(), Wait::Message));
        }
        wait::announce_alone(&mut section, Wait::Message);
        section.leave();
        if wait::finish(deadline) != Woken::TimedOut {
            return Ok(Handoff::done(Ok(())));
        }
        let section = section::enter_thread();
        self.open.store(0, Relaxed);
        section.leave_quietly();
        Err(Error::TimedOut)
    }

    /// [`Call::Reply`](takt_abi::Call::Reply), by the task's thread, with the message in its frame.
    #[inline(never)]
    pub(super) fn reply(&self) -> Result<Handoff, Error> {
        let section = section::enter();
        let caller = self.caller.swap(0, Relaxed);
        if caller <= GONE {
            section.leave_quietly();
            return match caller {
                GONE => Ok(Handoff::done(Ok(()))),
                _ => Err(Error::NothingToReply),
            };
        }
        // SAFETY: `take` put it there.
        let caller = unsafe { TcbRef::of_address(caller) };
        if !self.served.is_waited_for_by(&section, caller) {
            // Its time has come, and it has yet to learn of that.
            return Ok(Handoff::stay(section, Ok(())));
        }
        trace!(ipc_reply, self.thread().tid().raw());
        let frame = Frame::of(caller);
        frame.copy(Frame::of(self.thread()));
        frame.give(Ok(0));
        Ok(self.served.serve(section, caller))
    }

    /// The task's thread ends its life: nobody sends to it any more.
    pub(super) fn close(&self) {
        let section = section::enter_thread();
        self.life.store(0, Relaxed);
        self.open.store(0, Relaxed);
        self.caller.store(0, Relaxed);
        section.leave_quietly();
    }

    /// All who wait for a reply go on without: a section for each.
    pub(super) fn release_callers(&self) {
        loop {
            let mut section = section::enter();
            let Some(first) = self.served.first(&mut section) else {
                return section.leave_quietly();
            };
            let frame = Frame::of(first);
            frame.set_message(&[0; WORDS]);
            frame.give(Err(Error::Dead));
            // It cannot fail.
            let _ = self.served.serve(section, first).finish();
        }
    }

    /// A life begins: there are no notifications of the one before.
    pub(super) fn open_for(&self, life: u32) {
        let section = section::enter_thread();
        self.bits.store(0, Relaxed);
        self.life.store(life, Relaxed);
        section.leave_quietly();
    }
}

fn checked_bits(bits: u64) -> Result<u32, Error> {
    match u32::try_from(bits) {
        Ok(bits) if bits & !NOTIFICATIONS == 0 => Ok(bits),
        _ => Err(Error::InvalidArgument),
    }
}

/// The time that a call's argument means.
pub(super) fn deadline(nanos: u64) -> Instant {
    match nanos {
        u64::MAX => Instant::NEVER,
        nanos => Instant::ZERO + Nanos::new(nanos).to_cycles(),
    }
}
