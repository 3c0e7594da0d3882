//! The high precision event timer as a second timer, beside the kernel's: an interrupt after some time, or again and again.
//!
//! Each of its comparators is a [`Timer`]. Its interrupts come as messages if the HPET can send some, else by a pin of an I/O
//! APIC. The kernel's own timers know of all this nothing, so that one can be held against the other.
//!
//! Source: IA-PC HPET specification 1.0a, 2.3.

use core::ptr::NonNull;

use bitflags::bitflags;
use takt_kernel::Error;
use takt_kernel::irq::Irq;
use takt_kernel::time::Nanos;
use volatile::VolatilePtr;

use crate::hpet::{CAPABILITIES, CONFIGURATION, COUNTER, Configuration};
use crate::ioapic::{Line, Pin, Polarity, Trigger};
use crate::lock::IrqLock;
use crate::pci::message_address;

const PERIOD: usize = 4;

bitflags! {
    /// The lower half of a comparator's configuration.
    #[derive(Clone, Copy)]
    #[repr(transparent)]
    struct Comparator: u32 {
        const INTERRUPT = 1 << 2;
        const PERIODIC = 1 << 3;
        const CAN_BE_PERIODIC = 1 << 4;
        /// The next write to the comparator sets it, the one behind it the period.
        const SET_VALUE = 1 << 6;
        const BITS_32 = 1 << 8;
        const MESSAGES = 1 << 14;
        const HAS_MESSAGES = 1 << 15;
    }
}

/// In a comparator's configuration, the pin at which its interrupts come in.
const PIN_SHIFT: u32 = 9;

/// Counts of the counter by which the comparator is ahead at least: a comparator that is passed already waits for a whole turn.
const MIN_COUNTS: u32 = 128;

struct State {
    /// Of the registers, if there is an HPET.
    base: Option<usize>,
    /// A bit for each comparator that somebody has.
    taken: u32,
}

static STATE: IrqLock<State> = IrqLock::new(State {
    base: None,
    taken: 0,
});

/// Notes where ACPI says that it is.
pub(crate) fn init(base: Option<usize>) {
    STATE.with(|state| state.base = base);
}

fn register<T>(base: usize, offset: usize) -> VolatilePtr<'static, T> {
    let at = NonNull::new((base + offset) as *mut T).unwrap_or(NonNull::dangling());
    // SAFETY: ACPI says that the HPET's registers are there, and they are mapped.
    unsafe { VolatilePtr::new(at) }
}

#[derive(Debug)]
enum Way {
    Message(Irq),
    Pin(Line),
}

impl Way {
    /// Has the interrupts of the comparator with its registers there come to a handler.
    fn find(base: usize, offset: usize, irq: Irq, cpu: usize) -> Result<Self, Error> {
        let configuration = register::<Comparator>(base, offset);
        if configuration.read().contains(Comparator::HAS_MESSAGES) {
            let (irq, address) = irq.routed(|_| message_address(cpu))?;
            register::<u32>(base, offset + 0x10).write(irq.vector().into());
            register::<u32>(base, offset + 0x14).write(address);
            configuration.write(Comparator::BITS_32 | Comparator::MESSAGES);
            return Ok(Self::Message(irq));
        }
        let pins = register::<u32>(base, offset + 4).read();
        let free = |gsi: &u32| pins & 1 << gsi != 0 && !Pin::is_routed(*gsi);
        // The lower ones are those of ISA.
        let free = || (0..32).rev().find(free).ok_or(Error::OutOfResources);
        let (irq, gsi) = irq.routed(|_| free())?;
        let pin = Pin {
            gsi,
            trigger: Trigger::Edge,
            polarity: Polarity::High,
        };
        let line = pin.route(irq, cpu)?;
        let pin = Comparator::from_bits_retain(pin.gsi << PIN_SHIFT);
        configuration.write(Comparator::BITS_32 | pin);
        line.unmask();
        Ok(Self::Pin(line))
    }
}

/// A comparator of the HPET, with a handler.
///
/// # Context
/// Any but NMIs; in the handler as well.
#[derive(Debug)]
pub struct Timer {
    base: usize,
    /// Of the comparator's registers.
    offset: usize,
    way: Way,
    /// Femtoseconds per count.
    period_fs: u32,
}

impl Timer {
    /// A comparator, the first of which is 0. It is stopped; its interrupts come to `irq`'s handler on a CPU.
    ///
    /// # Errors
    /// `irq` is released, then: [`Error::InvalidArgument`] if there is no HPET, it has no such comparator, or the CPU does not run;
    /// [`Error::InvalidState`] if somebody has the comparator; [`Error::OutOfResources`] if all pins have handlers that it could
    /// come in at.
    pub fn take(comparator: u8, irq: Irq, cpu: usize) -> Result<Self, Error> {
        let claim = |state: &mut State| {
            let base = state.base.ok_or(Error::InvalidArgument)?;
            let last = register::<u32>(base, CAPABILITIES).read() >> 8 & 0x1f;
            if u32::from(comparator) > last {
                return Err(Error::InvalidArgument);
            }
            if state.taken & 1 << comparator != 0 {
                return Err(Error::InvalidState);
            }
            state.taken |= 1 << comparator;
            register::<Configuration>(base, CONFIGURATION)
                .update(|before| (before - Configuration::LEGACY) | Configuration::ENABLE);
            Ok(base)
        };
        let (irq, base) = irq.routed(|_| STATE.with(claim))?;
        let offset = 0x100 + 0x20 * usize::from(comparator);
        let give_back = |_: &_| STATE.with(|state| state.taken &= !(1 << comparator));
        Ok(Self {
            base,
            offset,
            way: Way::find(base, offset, irq, cpu).inspect_err(give_back)?,
            period_fs: register(base, PERIOD).read(),
        })
    }

    /// The vector and the name.
    #[must_use]
    pub fn irq(&self) -> &Irq {
        match &self.way {
            Way::Message(irq) => irq,
            Way::Pin(line) => line.irq(),
        }
    }

    /// Whether its interrupts come as messages.
    #[must_use]
    pub fn has_messages(&self) -> bool {
        matches!(self.way, Way::Message(_))
    }

    /// Counts in that time, rounded down; the counter has 32 bits, and half of a turn is behind it.
    fn counts(&self, time: Nanos) -> Result<u32, Error> {
        let counts = u128::from(time.get()) * 1_000_000 / u128::from(self.period_fs.max(1));
        let counts = u32::try_from(counts).map_err(|_| Error::InvalidArgument)?;
        match counts {
            0..=0x7fff_ffff => Ok(counts.max(MIN_COUNTS)),
            _ => Err(Error::InvalidArgument),
        }
    }

    fn configure(&self, set: Comparator, clear: Comparator) -> Comparator {
        let configuration = register::<Comparator>(self.base, self.offset);
        let before = configuration.read();
        configuration.write((before - clear) | set);
        before
    }

    /// Stops it, and has it come once, so long from now or a count earlier, but not sooner than in 128 counts; later where that
    /// has passed before it is set.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if it is more than half a turn of the counter's 32 bits: 21 s or more, by its frequency.
    pub fn one_shot(&mut self, time: Nanos) -> Result<(), Error> {
        let mut counts = self.counts(time)?;
        self.stop();
        let (counter, comparator) = self.counter_and_comparator();
        STATE.with(|_| {
            self.configure(Comparator::INTERRUPT, Comparator::PERIODIC);
            loop {
                let target = counter.read().wrapping_add(counts);
                comparator.write(target);
                // Whoever holds the machine up in between (SMIs), or a counter that is slow to read, may have it passed.
                if target.wrapping_sub(counter.read()) as i32 > 0 {
                    return;
                }
                counts = counts.saturating_mul(2).min(i32::MAX as u32);
            }
        });
        Ok(())
    }

    /// Stops it, and has it come in this period, rounded down to whole counts, but not in less than 128 counts.
    ///
    /// # Errors
    /// As [`one_shot`](Self::one_shot); [`Error::InvalidState`] if the comparator cannot.
    pub fn periodic(&mut self, period: Nanos) -> Result<(), Error> {
        let counts = self.counts(period)?;
        if !self.stop().contains(Comparator::CAN_BE_PERIODIC) {
            return Err(Error::InvalidState);
        }
        let (counter, comparator) = self.counter_and_comparator();
        STATE.with(|_| {
            self.configure(
                Comparator::INTERRUPT | Comparator::PERIODIC | Comparator::SET_VALUE,
                Comparator::empty(),
            );
            comparator.write(counter.read().wrapping_add(counts));
            comparator.write(counts);
        });
        Ok(())
    }

    /// It comes no more; gives what its configuration was.
    fn stop(&self) -> Comparator {
        self.configure(Comparator::empty(), Comparator::INTERRUPT)
    }

    /// It comes no more.
    pub fn cancel(&mut self) {
        self.stop();
    }

    fn counter_and_comparator(&self) -> (VolatilePtr<'static, u32>, VolatilePtr<'static, u32>) {
        (
            register(self.base, COUNTER),
            register(self.base, self.offset + 8),
        )
    }
}
