//! Joining: a thread waits for another's end, and gives its control block back.

use super::exit;
use super::handle::{Thread, current};
use super::ids::give_id_back;
use super::table::watch_quanta;
use super::tcb::{EXITED, TcbRef, Wait, Woken};
use crate::arch::percpu::CpuRef;
use crate::arch::{interrupts, proof};
use crate::clock::Instant;
use crate::error::Error;
use crate::sched;
use crate::section::{self, Kernel};
use crate::wait;

impl Thread {
    /// Waits for its end and gives its exit code; the handle is void afterwards.
    ///
    /// # Errors
    /// [`Error::TimedOut`], [`Error::NoSuchThread`], [`Error::Deadlock`] for the calling thread itself,
    /// [`Error::InvalidState`] if another thread waits for it already, [`Error::WrongContext`].
    #[inline(never)]
    pub fn join(&self, deadline: Instant) -> Result<usize, Error> {
        if !sched::may_block() {
            return Err(Error::WrongContext);
        }
        let mut section = section::enter_thread();
        let is_announced = self.begin_join(&mut section);
        section.leave_quietly();
        let mut woken = Woken::Object;
        if is_announced? {
            woken = wait::finish(deadline);
        }
        let mut section = section::enter_thread();
        // Its stack and its block are free when this returns.
        while self.block(&mut section).is_ok() && exit::is_leaving(&section, self.place()) {
            section.leave_quietly();
            interrupts::window();
            core::hint::spin_loop();
            proof::bounded!("looks whether a thread that ends has left its stack");
            section = section::enter_thread();
        }
        let result = self.end_join(&mut section, woken);
        section.leave_quietly();
        let (exit_code, watched) = result?;
        if let Some(cpu) = watched {
            watch_quanta(cpu, false);
        }
        Ok(exit_code)
    }

    /// Announces the wait for its end, unless it has ended already.
    fn begin_join(&self, kernel: &mut Kernel) -> Result<bool, Error> {
        let t = self.block(kernel)?;
        if self.place() == TcbRef::current() {
            return Err(Error::Deadlock);
        }
        if t.state & EXITED != 0 {
            return Ok(false);
        }
        if t.joiner.is_some() {
            return Err(Error::InvalidState);
        }
        t.joiner = Some(current().tid());
        wait::announce_alone(kernel, Wait::Join);
        Ok(true)
    }

    /// Gives its exit code, and its CPU if that no longer has a round-robin thread in it.
    fn end_join(
        &self,
        kernel: &mut Kernel,
        woken: Woken,
    ) -> Result<(usize, Option<CpuRef>), Error> {
        // Meanwhile another thread may have joined it first, and its block be someone else's.
        let t = self.block(kernel)?;
        if woken == Woken::TimedOut {
            if t.joiner == Some(current().tid()) {
                t.joiner = None;
            }
            return Err(Error::TimedOut);
        }
        let (exit_code, cpu, was_round_robin) = (t.exit_code, t.cpu, t.round_robin);
        t.give_back();
        give_id_back(kernel, self.tid());
        Ok((exit_code, (was_round_robin != 0).then_some(cpu)))
    }
}
