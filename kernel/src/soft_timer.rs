//! Software timers: a function that runs in the timer interrupt at an absolute time.
//!
//! A [`Timer`] is a number, by which its CPU's queue knows it, and a slot here, which says what is to be called. It expires on the CPU
//! that created it.

use core::cell::UnsafeCell;
#[cfg(feature = "osnoise")]
use core::sync::atomic::Ordering::{AcqRel, Release};
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

use takt_scheduler::TimerId;

use crate::arch::percpu::{self, CpuRef};
use crate::arch::proof;
use crate::clock::Instant;
#[cfg(feature = "osnoise")]
use crate::config::MAX_CPUS;
use crate::config::{KERNEL_TIMERS, MAX_THREADS, MAX_TIMERS};
use crate::error::Error;
use crate::irq;
use crate::other_cpu;
use crate::section::{self, Scheduled};
use crate::thread::handle::Thread;
use crate::thread::park;
use crate::timers;

/// What a timer's function is told.
#[derive(Clone, Copy, Debug)]
pub struct Expiry {
    /// When it was to expire.
    pub deadline: Instant,
    /// When the interrupt came: the time stamp of its third instruction.
    pub at: Instant,
}

/// All zeros for a slot that was not handed out, so that the table lies in `.bss`.
#[derive(Clone, Copy)]
struct Slot {
    function: Option<fn(usize, Expiry)>,
    argument: usize,
    /// The handle of the thread that is unparked after the function, or 0, which is no thread's.
    wakes: u32,
}

/// The last ones are the kernel's own, of all CPUs.
struct Slots(UnsafeCell<[Slot; MAX_TIMERS + KERNEL_TIMERS]>);

// SAFETY: a slot is written before its timer is first armed and read by that timer's interrupt only.
unsafe impl Sync for Slots {}

static SLOTS: Slots = Slots(UnsafeCell::new(
    [Slot {
        function: None,
        argument: 0,
        wakes: 0,
    }; MAX_TIMERS + KERNEL_TIMERS],
));
static NR_USED: AtomicU32 = AtomicU32::new(0);
/// What a tracer on each CPU has given back: the index and one, or 0.
#[cfg(feature = "osnoise")]
static RETURNED: [AtomicU32; MAX_CPUS] = [const { AtomicU32::new(0) }; MAX_CPUS];

/// A timer of the CPU that created it. An application's is never given back: timers belong to the system's design.
#[derive(Clone, Copy, Debug)]
pub struct Timer {
    id: TimerId,
    cpu: u32,
}

impl Timer {
    /// Creates a timer on this CPU that calls `function(argument, expiry)` when it expires.
    ///
    /// # Errors
    /// [`Error::OutOfResources`] when all [`MAX_TIMERS`] are in use.
    ///
    /// # Context
    /// Any but NMI. The function runs in the timer interrupt: it must not block and be short.
    pub fn new(function: fn(usize, Expiry), argument: usize) -> Result<Self, Error> {
        Self::with(Slot {
            function: Some(function),
            argument,
            wakes: 0,
        })
    }

    /// Creates a timer on this CPU that calls `function(argument, expiry)` and then wakes `thread` as
    /// [`Thread::unpark`] does: the shortest way from a deadline to a thread.
    ///
    /// # Errors
    /// As [`Timer::new`].
    ///
    /// # Context
    /// As [`Timer::new`].
    pub fn waking(
        thread: Thread,
        function: fn(usize, Expiry),
        argument: usize,
    ) -> Result<Self, Error> {
        Self::with(Slot {
            function: Some(function),
            argument,
            wakes: thread.handle(),
        })
    }

    /// Disarms it, and leaves it to whoever creates one next. By the only thread that has it, on the CPU that created it,
    /// one on each CPU: [`take`] empties this CPU's place first, so it is empty here.
    #[cfg(feature = "osnoise")]
    pub(crate) fn give_back(self) {
        self.cancel();
        let index = self.id.index() - MAX_THREADS;
        RETURNED[self.cpu as usize].store(index as u32 + 1, Release);
    }

    /// Disarms it, and has it call this and wake that thread from now on. By the only thread that has it, on the CPU that created
    /// it.
    #[cfg(feature = "tasks")]
    pub(crate) fn pass_to(&self, thread: Thread, function: fn(usize, Expiry)) {
        self.cancel();
        let index = self.id.index() - MAX_THREADS;
        // SAFETY: it was handed out, so it is there.
        let argument = unsafe { (*place_of(index)).argument };
        let slot = Slot {
            function: Some(function),
            argument,
            wakes: thread.handle(),
        };
        // SAFETY: its place is there, it was disarmed, and nobody else arms it.
        unsafe { fill(index, slot) };
    }

    fn with(slot: Slot) -> Result<Self, Error> {
        let index = take()?;
        // SAFETY: the index was handed out to this call alone, and the timer is not armed yet.
        unsafe { fill(index as usize, slot) };
        Ok(Self {
            id: TimerId::new((MAX_THREADS + index as usize) as u16),
            cpu: percpu::cpu() as u32,
        })
    }

    /// Arms it, or moves it if it is armed.
    ///
    /// To move it is not atomic where others are armed: it is disarmed first, and a [`cancel`](Self::cancel) that an
    /// interrupt or another thread calls before this returns may find it so, and does not keep it from being armed.
    ///
    /// A function that arms its own timer for a time that is over by then is called again in the same interrupt, and keeps threads
    /// from running for as long as it does that: periods are to be longer than what they are for.
    ///
    /// # Context
    /// Threads and interrupt handlers. With interrupts on the place among many timers is looked for in short sections,
    /// else in one stretch. On another CPU than the timer's this waits with interrupts off until that CPU has taken an
    /// interrupt.
    #[inline(always)]
    pub fn arm(&self, deadline: Instant) {
        other_cpu::call(
            || self.cpu(),
            || {
                timers::insert_and_leave(section::own(), self.id, deadline);
            },
        );
    }

    /// Disarms it; says whether it was armed.
    ///
    /// # Context
    /// Threads and interrupt handlers.
    pub fn cancel(&self) -> bool {
        other_cpu::call(
            || self.cpu(),
            || {
                let mut section = section::own();
                let was_armed = timers::cancel(&mut section, self.id);
                section.leave_quietly();
                was_armed
            },
        )
    }

    /// The CPU whose timer it is.
    #[inline(always)]
    fn cpu(&self) -> CpuRef {
        CpuRef::of(self.cpu as usize)
    }

    /// Its number, as trace records name it.
    #[must_use]
    pub fn number(&self) -> u16 {
        self.id.raw()
    }
}

/// The index of a slot that no one has.
fn take() -> Result<u32, Error> {
    #[cfg(feature = "osnoise")]
    {
        let (others, own) = RETURNED.split_at(percpu::cpu());
        let mut places = own.iter().chain(others);
        if let Some(index) = places.find_map(|place| place.swap(0, AcqRel).checked_sub(1)) {
            return Ok(index);
        }
    }
    NR_USED
        .fetch_update(Relaxed, Relaxed, |n| {
            ((n as usize) < MAX_TIMERS).then_some(n + 1)
        })
        .map_err(|_| Error::OutOfResources)
}

/// Where the slot of that number is.
#[inline(always)]
fn place_of(index: usize) -> *mut Slot {
    SLOTS.0.get().cast::<Slot>().wrapping_add(index)
}

/// # Safety
/// `index` is below [`MAX_TIMERS`] and [`KERNEL_TIMERS`] together, and the timer is not armed.
unsafe fn fill(index: usize, slot: Slot) {
    // SAFETY: the caller's duty.
    unsafe { place_of(index).write(slot) };
}

/// Makes a timer of the kernel's own, of this number among those, with this function and what it is told.
///
/// # Panics
/// If there are not so many.
///
/// # Safety
/// It is not armed, and no one else makes it.
#[inline(always)]
pub(crate) unsafe fn init(number: usize, function: fn(usize, Expiry), argument: usize) {
    assert!(number < KERNEL_TIMERS);
    let slot = Slot {
        function: Some(function),
        argument,
        wakes: 0,
    };
    // SAFETY: the caller's duty; no one is given this place.
    unsafe { fill(MAX_TIMERS + number, slot) };
}

/// The id of a timer of the kernel's own.
#[cfg(feature = "tasks")]
pub(crate) const fn kernels(number: usize) -> TimerId {
    TimerId::new((MAX_THREADS + MAX_TIMERS + number) as u16)
}

/// Calls the timer's function and wakes its thread, inside the timer interrupt's section.
#[inline(always)]
pub(crate) fn expired(scheduled: &mut Scheduled, id: TimerId, expiry: Expiry) {
    let index = id.index() - MAX_THREADS;
    proof::targets!("a timer's function");
    // SAFETY: ids from MAX_THREADS up belong to slots, and only timers that were handed out are ever armed.
    let slot = unsafe { &*place_of(index) };
    // SAFETY: a slot that was handed out has a function.
    let function = unsafe { slot.function.unwrap_unchecked() };
    scheduled.nest(|| irq::call(|| function(slot.argument, expiry)));
    // There may be none, or it has ended.
    let _ = park::unpark(scheduled, slot.wakes);
}
