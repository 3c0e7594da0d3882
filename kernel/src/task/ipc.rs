//! Messages: synchronous, one at a time to each task.
//!
//! Whoever calls takes the task's `door`, leaves the message, stands in the queue of `served` and only then says that there is
//! one: so the task, which owns `served`, finds a caller there whenever it replies. It replies by giving `served` to the
//! caller, who gives it back at once, before the task itself may have come to want it: it never stands open. Both are the kernel's mutexes: so whoever waits lends its priority to the one that is
//! served, that one to the task, and the task to whom it calls itself; and circles are found.

use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use takt_scheduler::ThreadId;

use takt_abi::{Error, FAULT, MESSAGE, NOTIFICATIONS, WORDS, rights};

use super::object::{MAX_PEERS, Shared, Task, all};
use super::program::Peer;
use crate::clock::Instant;
use crate::error;
use crate::probe::trace;
use crate::sync::Mode;
use crate::sync::raw_mutex::Long;
use crate::thread::tcb::TcbRef;

/// What is said of a message.
pub(super) struct About {
    pub(super) badge: u32,
    pub(super) is_fault: bool,
    /// The life of the receiver that it is meant for.
    pub(super) generation: u32,
}

impl Task {
    /// The peer that a handle names, if the handle allows this, and the life of it that the handle means.
    fn peer(&self, handle: u64, right: u8) -> Result<(&'static Task, &Peer, u32), Error> {
        let number = usize::try_from(handle).unwrap_or(usize::MAX);
        let peer = self.program.peers.get(number).ok_or(Error::NoHandle)?;
        if peer.rights & right != right {
            return Err(Error::NoRight);
        }
        let task = all().get(peer.task).ok_or(Error::NoHandle)?;
        let generation = self.peers[number % MAX_PEERS].load(Relaxed);
        Ok((task, peer, generation))
    }

    /// [`Call::Call`](takt_abi::Call::Call).
    pub(super) fn call(&self, handle: u64, words: &mut [u64; WORDS]) -> Result<(), Error> {
        let (task, peer, generation) = self.peer(handle, rights::CALL)?;
        let about = About {
            badge: peer.badge,
            is_fault: false,
            generation,
        };
        task.ask(about, words)
    }

    /// [`Call::Notify`](takt_abi::Call::Notify).
    pub(super) fn notify(&self, handle: u64, bits: u64) -> Result<(), Error> {
        let (task, _, generation) = self.peer(handle, rights::NOTIFY)?;
        let bits = checked_bits(bits)?;
        task.check(generation)?;
        task.arrived.set(bits);
        Ok(())
    }

    /// [`Call::Renew`](takt_abi::Call::Renew).
    pub(super) fn renew(&self, handle: u64) -> Result<(), Error> {
        let (task, ..) = self.peer(handle, 0)?;
        let generation = task.generation();
        task.check(generation)?;
        self.peers[handle as usize % MAX_PEERS].store(generation, Relaxed);
        Ok(())
    }

    /// At the beginning of a life, each handle means the life that its task lives or lived last.
    pub(super) fn renew_all(&self) {
        for (peer, known) in self.program.peers.iter().zip(&self.peers) {
            let task = all().get(peer.task);
            known.store(task.map_or(0, Self::generation), Relaxed);
        }
    }

    /// Whether it lives, and lives that life.
    fn check(&self, generation: u32) -> Result<(), Error> {
        if self.generation() != generation {
            return Err(Error::Stale);
        }
        match self.is_alive.load(Acquire) {
            true => Ok(()),
            false => Err(Error::Dead),
        }
    }

    /// Sends this task a message, and waits for the reply.
    #[inline(always)]
    pub(super) fn ask(&self, about: About, words: &mut [u64; WORDS]) -> Result<(), Error> {
        ask(self, about, words)
    }

    fn ask_inside(&self, about: About, words: &mut [u64; WORDS]) -> Result<(), Error> {
        self.check(about.generation)?;
        // SAFETY: the caller has the door, and the task does not serve.
        unsafe {
            *self.shared.get() = Shared {
                words: *words,
                badge: about.badge,
                is_fault: about.is_fault,
                generation: about.generation,
                // Unless it replies.
                result: Err(Error::Dead),
            };
        };
        trace!(ipc_call, self.tid.load(Relaxed));
        let waited = self.served.lock_after(|| self.arrived.set(MESSAGE));
        // It was not told of the message, or has ended.
        waited.map_err(no_wait)?;
        // SAFETY: the task has replied, or does not live: what it left is the caller's.
        let shared = unsafe { &*self.shared.get() };
        let result = shared.result;
        if result.is_ok() {
            *words = shared.words;
        }
        // It is this thread's.
        let _ = match self.is_alive.load(Acquire) {
            true => self
                .served
                .pass_to(TcbRef::of(ThreadId::new(self.tid.load(Relaxed)))),
            false => self.served.unlock(),
        };
        result
    }

    /// [`Call::Receive`](takt_abi::Call::Receive): what came, and the badge.
    #[inline(always)]
    pub(super) fn receive(
        &self,
        mask: u64,
        deadline: Instant,
        words: &mut [u64; WORDS],
    ) -> Result<u64, Error> {
        receive(self, mask, deadline, words)
    }

    /// [`Call::Reply`](takt_abi::Call::Reply).
    #[inline(always)]
    pub(super) fn reply(&self, words: &[u64; WORDS]) -> Result<(), Error> {
        reply(self, words)
    }

    /// The caller goes on with this result.
    fn let_go(&self, result: Result<(), Error>) {
        self.answer(result);
        self.serve();
    }

    /// Has the task's thread own `served`: the last caller may have yet to give it back, or has done so already.
    pub(super) fn serve(&self) {
        let _ = self.served.lock(Instant::NEVER, Long::Accepted);
    }

    /// The caller goes on with this result, and the task does not serve.
    pub(super) fn answer(&self, result: Result<(), Error>) {
        // SAFETY: there is a message, and its sender waits.
        unsafe { (*self.shared.get()).result = result };
        self.owes.store(false, Release);
        // It is this thread's, since it lives.
        let _ = self.served.unlock();
    }
}

fn checked_bits(bits: u64) -> Result<u32, Error> {
    match u32::try_from(bits) {
        Ok(bits) if bits & !NOTIFICATIONS == 0 => Ok(bits),
        _ => Err(Error::InvalidArgument),
    }
}

/// Why a mutex was not waited for: a circle, or its owner has ended.
fn no_wait(error: error::Error) -> Error {
    match error {
        error::Error::Deadlock => Error::Deadlock,
        _ => Error::Dead,
    }
}

/// [`Task::ask`].
// As `calls::call`.
#[inline(never)]
#[unsafe(link_section = ".text.sse.task_ask")]
#[cfg_attr(
    feature = "function",
    patchable_function_entry(prefix_nops = 0, entry_nops = 0)
)]
fn ask(task: &Task, about: About, words: &mut [u64; WORDS]) -> Result<(), Error> {
    task.check(about.generation)?;
    task.door
        .lock(Instant::NEVER, Long::Accepted)
        .map_err(no_wait)?;
    let result = task.ask_inside(about, words);
    // It is this thread's.
    let _ = task.door.unlock();
    result
}

/// [`Task::receive`].
// As `calls::call`.
#[inline(never)]
#[unsafe(link_section = ".text.sse.task_receive")]
#[cfg_attr(
    feature = "function",
    patchable_function_entry(prefix_nops = 0, entry_nops = 0)
)]
fn receive(
    task: &Task,
    mask: u64,
    deadline: Instant,
    words: &mut [u64; WORDS],
) -> Result<u64, Error> {
    let mask = checked_bits(mask)?;
    if task.owes.load(Relaxed) {
        return Err(Error::NotReplied);
    }
    loop {
        let arrived = task
            .arrived
            .wait(mask | MESSAGE, Mode::AnyClear, deadline)
            .map_err(|_| Error::TimedOut)?;
        let bits = arrived & mask;
        if arrived & MESSAGE == 0 {
            return Ok(bits.into());
        }
        // SAFETY: there is a message, whose sender waits until it is replied to.
        let shared = unsafe { &*task.shared.get() };
        if shared.generation != task.generation() {
            task.let_go(Err(Error::Stale));
            if bits == 0 {
                continue;
            }
            return Ok(bits.into());
        }
        task.owes.store(true, Relaxed);
        *words = shared.words;
        let fault = if shared.is_fault { FAULT } else { 0 };
        return Ok(u64::from(bits | MESSAGE | fault) | u64::from(shared.badge) << 32);
    }
}

/// [`Task::reply`].
// As `calls::call`.
#[inline(never)]
#[unsafe(link_section = ".text.sse.task_reply")]
#[cfg_attr(
    feature = "function",
    patchable_function_entry(prefix_nops = 0, entry_nops = 0)
)]
fn reply(task: &Task, words: &[u64; WORDS]) -> Result<(), Error> {
    if !task.owes.load(Relaxed) {
        return Err(Error::NothingToReply);
    }
    // SAFETY: it serves.
    unsafe { (*task.shared.get()).words = *words };
    trace!(ipc_reply, task.tid.load(Relaxed));
    task.let_go(Ok(()));
    Ok(())
}
