//! A task that timerlat measures: what Linux has the file `osnoise/per_cpu/cpuN/timerlat_fd` for.
//!
//! ```ignore
//! let timerlat = Timerlat::open(0)?;
//! while timerlat.wait().is_ok() {
//!     work();
//! }
//! ```
//!
//! | condition | broken it is | Linux |
//! |---|---|---|
//! | a timerlat that measures tasks runs: `latency-run -u` or `-U`, on this CPU, or the tracer | [`Error::InvalidArgument`] | `EINVAL` |
//! | the tracer has `NO_OSNOISE_WORKLOAD` | [`Error::InvalidArgument`] | `EINVAL` |
//! | no other thread has this CPU's | [`Error::Busy`] | `EBUSY` |
//! | the thread runs on that CPU; it belongs to one for its life | [`Error::NotPermitted`] | `EPERM` |
//! | the kernel has a timer left | [`Error::OutOfResources`] | |
//! | the thread has opened it ([`Timerlat::wait`]) | [`Error::NoHandle`] | `EBADF` |
//!
//! When timerlat ends, whoever has it open is stopped by the fault `Killed`: in its `wait`, or at the next one.

use crate::{Cycles, Error, syscall};

/// Timerlat of the CPU on which the task runs. It is closed when it is dropped.
#[derive(Debug)]
pub struct Timerlat(());

impl Timerlat {
    /// From now on timerlat measures this task, which runs on that CPU.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] while no timerlat runs that measures tasks, or not on this CPU; [`Error::Busy`] if it measures
    /// another task there; [`Error::NotPermitted`] if the task runs on another CPU; [`Error::OutOfResources`] if the kernel has
    /// no timer left.
    pub fn open(cpu: u32) -> Result<Self, Error> {
        syscall::timerlat_open(cpu).map(|()| Self(()))
    }

    /// The work of the activation before is done; waits for the next one. Gives when that was due. If timerlat
    /// has ended the task is stopped.
    ///
    /// # Errors
    /// [`Error::NoHandle`] if the task has it no more.
    #[inline(always)]
    pub fn wait(&self) -> Result<Cycles, Error> {
        self.wait_after(Cycles::ZERO)
    }

    /// As [`wait`](Self::wait); says when the task itself found that it ran after the activation before, for a measurement that
    /// asks for it (cyclictest).
    ///
    /// # Errors
    /// As [`wait`](Self::wait).
    #[inline(always)]
    pub fn wait_after(&self, ran_at: Cycles) -> Result<Cycles, Error> {
        syscall::timerlat_wait(ran_at.get()).map(Cycles::new)
    }
}

impl Drop for Timerlat {
    fn drop(&mut self) {
        syscall::timerlat_close();
    }
}
