//! Stopping the other CPUs while the kernel's text is rewritten.
//!
//! Who wants to patch takes the [`Text`] lock, then kicks every other CPU and waits until each stands in the handler of
//! that interrupt, or in a wait for a lock of the board's, with interrupts off: at a boundary between instructions, in code that nobody rewrites. Then it writes
//! and lets them go; each serialises first, so that it does not go on with bytes fetched before (Intel SDM vol. 3A,
//! 9.1.3). A CPU that waits for a lock with interrupts off comes later, when it has had its turn: no one who
//! stands here holds that lock.

use core::marker::PhantomData;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use super::jump_label::Writable;
use super::{interrupts, percpu, proof};
use crate::compact::counted;
use crate::config::MAX_CPUS;
use crate::cpus::{self, GENERATION, STOP, STOPPED};
use crate::error::Error;
use crate::sync::held::{Held, Right};
use crate::sync::raw_mutex::RawMutex;

static TEXT: RawMutex = RawMutex::new();
/// The flags that [`stop_others`] has kept, where that is asserted.
static KEPT: AtomicU64 = AtomicU64::new(0);

/// The right to rewrite the kernel's text. While it is held no CPU may be started either, since one that begins cannot
/// be stopped.
pub struct Text {
    _held: Held<OfText>,
}

enum OfText {}

impl Right for OfText {
    const MUTEX: &'static RawMutex = &TEXT;
}

impl Text {
    /// Waits until no one else has it.
    ///
    /// # Errors
    /// Those of [`Mutex::lock`](crate::sync::Mutex::lock).
    ///
    /// # Context
    /// Threads that may block.
    #[inline(always)]
    pub(crate) fn lock() -> Result<Self, Error> {
        let _held = Held::wait()?;
        Ok(Self { _held })
    }

    /// The same for who is no part of the kernel.
    ///
    /// # Errors
    /// Those of [`Mutex::lock`](crate::sync::Mutex::lock).
    ///
    /// # Safety
    /// It is given back, and soon: until then no event is switched, no tracer chosen and no thread counted, on any CPU, and whoever
    /// wants to waits.
    ///
    /// # Context
    /// Threads that may block.
    pub unsafe fn take() -> Result<Self, Error> {
        Self::lock()
    }

    /// Runs `patch` while every other CPU stands still and interrupts are off here.
    #[inline(always)]
    pub(crate) fn patch<R>(&mut self, patch: impl FnOnce(&mut Writable) -> R) -> R {
        patch(&mut self.stop().text)
    }

    /// Stops every other CPU, with interrupts off here, until what it gives is dropped.
    #[inline(always)]
    pub(crate) fn stop(&mut self) -> Stopped<'_> {
        let (flags, text) = stop_others();
        Stopped {
            text,
            flags,
            _lock: PhantomData,
        }
    }
}

/// Every other CPU stands still. It borrows the [`Text`] that it came from: who gave that back while the CPUs stand still
/// would let another thread stop them a second time, and who stopped them twice would let them go with the first.
pub(crate) struct Stopped<'t> {
    /// The right to write to the text.
    pub(crate) text: Writable,
    /// What the flags were.
    flags: u64,
    _lock: PhantomData<&'t mut Text>,
}

impl Drop for Stopped<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        resume_others(self.flags);
    }
}

/// Disables interrupts, waits until every other CPU stands still, and lifts write protection; says what the flags were.
///
/// Not inlined, since there are many who patch.
#[inline(never)]
fn stop_others() -> (u64, Writable) {
    let flags = interrupts::flags();
    interrupts::disable();
    proof::flags_kept!(flags);
    if cfg!(feature = "asserts") {
        KEPT.store(flags, Relaxed);
    }
    STOPPED.store(0, Relaxed);
    GENERATION.fetch_add(STOP, Release);
    let others = cpus::online() & !(1 << percpu::cpu());
    for cpu in counted(MAX_CPUS) {
        proof::bounded!("CPUs that may have to be stopped");
        if others >> cpu & 1 != 0 {
            cpus::kick(percpu::CpuRef::of(cpu));
        }
    }
    while STOPPED.load(Acquire) != others {
        proof::not_alone!("nobody else is to stand still");
        core::hint::spin_loop();
    }
    // SAFETY: interrupts are off, and every other CPU stands still.
    let text = unsafe { Writable::lift() };
    (flags, text)
}

#[inline(never)]
fn resume_others(flags: u64) {
    // SAFETY: what `stop_others` has begun ends here.
    unsafe { Writable::restore() };
    GENERATION.fetch_add(STOP, Release);
    if cfg!(feature = "asserts") {
        assert_eq!(KEPT.load(Relaxed), flags, "not the flags that were kept");
    }
    let flags = proof::flags_again!(flags);
    // SAFETY: the flags that `stop_others` found.
    unsafe { interrupts::set_flags(flags) };
}
