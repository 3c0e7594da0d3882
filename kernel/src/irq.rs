//! Device interrupts: who handles which vector. NMIs: [`nmi`](set_nmi_handler).

use core::mem::offset_of;
use core::sync::atomic::{
    AtomicPtr, AtomicU32, AtomicU64, AtomicUsize,
    Ordering::{Acquire, Relaxed, Release},
};

use crate::arch::interrupts::KICK_VECTOR;
use crate::arch::percpu::CpuRef;
use crate::arch::{apic, percpu};
use crate::clock::Instant;
use crate::cpus;
use crate::error::Error;
use crate::other_cpu;
use crate::probe::{self, trace};
use crate::thread::tcb::TcbRef;
use takt_tracer::wire::KERNEL_IRQS;

mod nmi;

pub use nmi::{Nmi, NmiHandler, nmi_count, set_nmi_handler};

pub use crate::arch::interrupts::{
    FIRST_DEVICE_VECTOR, NR_DEVICE_VECTORS, TIMER_VECTOR, are_enabled,
};
pub(crate) use nmi::run_handler as run_nmi_handler;

/// A handler: is told its argument and when the interrupt came, by the time stamp at the beginning of its entry.
pub type Handler = extern "C" fn(usize, Instant);

/// What a vector's stub calls. The stub knows the slot's address, and the distances of its fields.
#[repr(C)]
pub(crate) struct Slot {
    handler: AtomicPtr<()>,
    argument: AtomicU64,
}

impl Slot {
    const fn unexpected(vector: u64) -> Self {
        Self {
            handler: AtomicPtr::new(unexpected as Handler as *mut ()),
            argument: AtomicU64::new(vector),
        }
    }
}

pub(crate) const SLOT_SIZE: usize = size_of::<Slot>();
pub(crate) const SLOT_HANDLER: usize = offset_of!(Slot, handler);
pub(crate) const SLOT_ARGUMENT: usize = offset_of!(Slot, argument);

/// One slot for each device vector, and one for all others. Those without a handler have [`unexpected`], so that no
/// stub has to ask.
pub(crate) static HANDLERS: [Slot; NR_DEVICE_VECTORS + 1] = {
    let mut slots = [const { Slot::unexpected(0) }; NR_DEVICE_VECTORS + 1];
    let mut index = 0;
    while index < NR_DEVICE_VECTORS {
        slots[index] = Slot::unexpected(FIRST_DEVICE_VECTOR as u64 + index as u64);
        index += 1;
    }
    slots
};

/// A handler's name: the parts of a `&'static str`; without a length, none. It is set once, so that the parts belong together
/// whenever they are read.
#[repr(C)]
struct Name {
    text: AtomicPtr<u8>,
    len: AtomicUsize,
}

impl Name {
    /// Sets it, which has none. Only who has just set the vector's bit in [`REGISTERED`] does so.
    fn set(&self, name: &'static str) {
        self.text.store(name.as_ptr().cast_mut(), Relaxed);
        self.len.store(name.len(), Release);
    }

    fn get(&self) -> Option<&'static str> {
        let len = self.len.load(Acquire);
        let text = self.text.load(Relaxed);
        // SAFETY: only `set` stores there, once, and it stores the parts of a `&'static str`, the length last.
        let bytes = (len != 0).then(|| unsafe { core::slice::from_raw_parts(text, len) });
        // SAFETY: all of the bytes of a `str`.
        bytes.map(|bytes| unsafe { core::str::from_utf8_unchecked(bytes) })
    }
}

/// Names of the device vectors' handlers, for people. A host that reads the RAM looks them up here, so it is said how many
/// there are and of which vector the first is.
#[unsafe(export_name = "takt_irq_names")]
static NAMES: [Name; NR_DEVICE_VECTORS] = [const {
    Name {
        text: AtomicPtr::new(core::ptr::null_mut()),
        len: AtomicUsize::new(0),
    }
}; NR_DEVICE_VECTORS];

core::arch::global_asm!(
    ".global takt_irq_names_first, takt_irq_names_nr",
    ".set takt_irq_names_first, {}", ".set takt_irq_names_nr, {}",
    const FIRST_DEVICE_VECTOR, const NR_DEVICE_VECTORS,
);

/// A bit for each device vector that has a handler.
static REGISTERED: AtomicU32 = AtomicU32::new(0);

const _: () = assert!(NR_DEVICE_VECTORS <= 32);

/// The last unexpected vector, for reports.
static LAST_UNEXPECTED: AtomicU32 = AtomicU32::new(0);

/// A device vector that has a handler: what an interrupt is routed to. The board takes it by value, so that no two devices
/// share a handler.
///
/// Dropped, it keeps vector and handler for good; [`release`](Self::release) gives them back. What a board's driver has opened
/// stays open, so its vector is its own for the life of the system.
#[derive(PartialEq, Eq, Debug)]
pub struct Irq {
    vector: u8,
    name: &'static str,
}

impl Irq {
    /// The vector; higher ones are served first.
    #[must_use]
    pub fn vector(&self) -> u8 {
        self.vector
    }

    /// What traces call its handler.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Gives the vector back: the next handler of this name has it. Whoever routed interrupts to it has seen to it that none
    /// comes any more.
    ///
    /// # Context
    /// Any but NMIs. Waits for each other CPU to take an interrupt.
    pub fn release(self) {
        let index = usize::from(self.vector - FIRST_DEVICE_VECTOR);
        let unexpected = unexpected as Handler as *mut ();
        HANDLERS[index].handler.store(unexpected, Relaxed);
        // Another CPU's stub may have read the handler and not yet the argument, which the next one's replaces.
        for cpu in cpus::bits(cpus::online()) {
            other_cpu::call(|| CpuRef::of(cpu), || {});
        }
        REGISTERED.fetch_and(!(1 << index), Release);
    }

    /// With what comes of routing interrupts to it; [released](Self::release) if that fails.
    ///
    /// # Errors
    /// Those of `route`.
    pub fn routed<T, E>(self, route: impl FnOnce(&Self) -> Result<T, E>) -> Result<(Self, T), E> {
        match route(&self) {
            Ok(way) => Ok((self, way)),
            Err(error) => {
                self.release();
                Err(error)
            }
        }
    }
}

impl Nmi {
    /// Has the handler of a device's vector run on this CPU, as soon as interrupts are on: that one may give and wake.
    pub fn raise(&self, irq: &Irq) {
        apic::send_to_itself(irq.vector);
    }
}

/// Sets the handler of the highest device vector that has none, best of one whose handler of this name has
/// [released](Irq::release) it: see [`register`].
///
/// # Errors
/// [`Error::OutOfResources`] if all [`NR_DEVICE_VECTORS`] have one, or had one of another name.
pub fn request(name: &'static str, handler: Handler, argument: usize) -> Result<Irq, Error> {
    let all = || (0..NR_DEVICE_VECTORS).rev();
    let of_name = all().filter(|index| NAMES[*index].get() == Some(name));
    for index in of_name.chain(all()) {
        match register(FIRST_DEVICE_VECTOR + index as u8, name, handler, argument) {
            Err(Error::InvalidState) => {}
            result => return result,
        }
    }
    Err(Error::OutOfResources)
}

/// Sets the handler of a device vector, and its name, which traces show and the vector keeps for good: they tell of the past
/// as well. It runs with interrupts off, must not block and be short. The interrupt is acknowledged when it returns.
///
/// # Errors
/// [`Error::InvalidArgument`] if the vector is not a device's; [`Error::InvalidState`] if it has a handler, or had one of
/// another name.
pub fn register(
    vector: u8,
    name: &'static str,
    handler: Handler,
    argument: usize,
) -> Result<Irq, Error> {
    let index = usize::from(vector).wrapping_sub(usize::from(FIRST_DEVICE_VECTOR));
    let slot = HANDLERS[..NR_DEVICE_VECTORS]
        .get(index)
        .ok_or(Error::InvalidArgument)?;
    if REGISTERED.fetch_or(1 << index, Acquire) & 1 << index != 0 {
        return Err(Error::InvalidState);
    }
    match NAMES[index].get() {
        None => NAMES[index].set(name),
        Some(known) if known == name => {}
        Some(_) => {
            REGISTERED.fetch_and(!(1 << index), Release);
            return Err(Error::InvalidState);
        }
    }
    slot.argument.store(argument as u64, Relaxed);
    slot.handler.store(handler as *mut (), Release);
    record_name(vector, name);
    Ok(Irq { vector, name })
}

/// Tells what a device interrupt's handler is called.
pub(crate) fn record_name(vector: u8, name: &str) {
    crate::trace_event!(probe::events::irq_name, vector, name.as_bytes());
}

/// Calls `f` with each device vector that has a handler, and with its name.
pub(crate) fn for_each(mut f: impl FnMut(u8, &str)) {
    for index in 0..NR_DEVICE_VECTORS as u8 {
        if REGISTERED.load(Relaxed) & 1 << index != 0 {
            let vector = FIRST_DEVICE_VECTOR + index;
            f(vector, name_of(vector.into()));
        }
    }
}

const _: () = assert!(KERNEL_IRQS[0].0 == TIMER_VECTOR && KERNEL_IRQS[1].0 == KICK_VECTOR);

/// What an interrupt's handler is called, as Linux calls its own.
///
/// # Context
/// Any.
#[must_use]
pub fn name_of(vector: u32) -> &'static str {
    const TIMER: u32 = TIMER_VECTOR as u32;
    const KICK: u32 = KICK_VECTOR as u32;
    match vector {
        TIMER => return KERNEL_IRQS[0].1,
        KICK => return KERNEL_IRQS[1].1,
        _ => {}
    }
    let index = (vector as usize).wrapping_sub(usize::from(FIRST_DEVICE_VECTOR));
    let is_registered = index < NR_DEVICE_VECTORS && REGISTERED.load(Relaxed) & 1 << index != 0;
    let name = is_registered.then(|| NAMES[index].get()).flatten();
    name.unwrap_or("unexpected")
}

/// The vector of a slot; 0 for all that no one expected.
pub(crate) fn vector_of(slot: &Slot) -> u32 {
    let index = (core::ptr::from_ref(slot) as usize - HANDLERS.as_ptr() as usize) / SLOT_SIZE;
    if index < NR_DEVICE_VECTORS {
        index as u32 + u32::from(FIRST_DEVICE_VECTOR)
    } else {
        0
    }
}

/// The same while no hook is timed.
pub(crate) extern "C" fn device_irq_recorded(slot: &Slot) {
    probe::irq_recorded(vector_of(slot));
}

/// Calls a device's handler or a timer's function.
///
/// # Panics
/// In an image with assertions, if it leaves preemption disabled: that is so for whom it has interrupted, then.
#[inline(always)]
pub(crate) fn call(act: impl FnOnce()) {
    if !cfg!(feature = "asserts") {
        return act();
    }
    let before = percpu::depth();
    act();
    assert!(
        percpu::depth() == before,
        "an interrupt's handler has left preemption disabled"
    );
}

/// What the entry stub calls instead of the handler while the event of the interrupt's end is on, and in an image with assertions.
pub(crate) extern "C" fn traced_device_interrupt(slot: &Slot, at: Instant) {
    let handler = slot.handler.load(Relaxed);
    // SAFETY: only `register` and `release` store there, and they store a `Handler`, as does the table's beginning.
    let handler = unsafe { core::mem::transmute::<*mut (), Handler>(handler) };
    call(|| handler(slot.argument.load(Relaxed) as usize, at));
    trace!(irq_handler_exit, vector_of(slot));
}

/// The handler of a vector that no one expected: counts it. The stub acknowledges it, as any other; if no interrupt is
/// in service, that has no effect (SDM vol. 3A, 11.8.5).
#[cold]
extern "C" fn unexpected(vector: usize, _: Instant) {
    percpu::count(&percpu::this().nr_unexpected);
    let in_service = apic::vector_in_service();
    // Of a vector that was given back the argument is its last owner's.
    let vector = in_service.or(u8::try_from(vector).ok()).unwrap_or(0);
    LAST_UNEXPECTED.store(vector.into(), Relaxed);
}

/// What an interrupt came upon.
#[derive(Clone, Copy, Debug)]
pub struct Interrupted {
    /// Address of the instruction that was to be executed next.
    pub ip: usize,
    /// How often preemption was disabled.
    pub preempt_depth: u8,
}

/// What the interrupt that is being handled came upon.
///
/// # Context
/// Interrupt handlers and timers' functions; elsewhere it tells of some interrupt before.
#[must_use]
pub fn interrupted() -> Interrupted {
    Interrupted {
        ip: TcbRef::current().interrupted_ip(),
        preempt_depth: percpu::depth(),
    }
}

/// Unexpected and spurious interrupts of a CPU since boot.
///
/// # Panics
/// If `cpu` is not below [`MAX_CPUS`](crate::config::MAX_CPUS).
#[must_use]
pub fn unexpected_count(cpu: usize) -> u64 {
    percpu::of(cpu).nr_unexpected.load(Relaxed)
}

/// The vector of the last unexpected interrupt, on any CPU.
#[must_use]
pub fn last_unexpected() -> u32 {
    LAST_UNEXPECTED.load(Relaxed)
}

/// Interrupts taken by a CPU since boot.
///
/// # Panics
/// If `cpu` is not below [`MAX_CPUS`](crate::config::MAX_CPUS).
#[must_use]
pub fn count(cpu: usize) -> u64 {
    percpu::of(cpu).nr_irqs.load(Relaxed)
}
