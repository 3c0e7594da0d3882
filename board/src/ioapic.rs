//! The I/O APICs: which pin's interrupt comes as which vector to which CPU.
//!
//! A pin belongs to one handler: [`Pin::route`] refuses a second one. All pins are masked at boot, whatever a firmware left
//! open.
//!
//! Source: Intel 82093AA data sheet, 3.0; ACPI specification 6.4, 5.2.12.3 and 5.2.12.5.

use core::ptr::NonNull;

use bitflags::bitflags;
use spin::Once;
use takt_kernel::irq::Irq;
use takt_kernel::{Error, smp};
use volatile::VolatilePtr;

use crate::acpi::{IoApic, Wiring};
use crate::lock::IrqLock;

/// When a pin's signal is an interrupt.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Trigger {
    /// When it comes.
    Edge,
    /// While it is there: the handler has the device take it back, or it comes again.
    Level,
}

/// Which signal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Polarity {
    /// The high one.
    High,
    /// The low one.
    Low,
}

/// A pin of an I/O APIC, at which a device's interrupts come in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pin {
    /// Its number among those of all I/O APICs (ACPI: global system interrupt).
    pub gsi: u32,
    /// When its signal is an interrupt.
    pub trigger: Trigger,
    /// Which signal.
    pub polarity: Polarity,
}

/// What the MADT says.
static WIRING: Once<Wiring> = Once::new();

/// Pins that are routed, a bit each. Locked whenever an I/O APIC is accessed, since its index and data register belong together.
static ROUTED: IrqLock<[u64; MAX_PINS / 64]> = IrqLock::new([0; MAX_PINS / 64]);

/// As many as eight I/O APICs of 24 pins have, and some more.
const MAX_PINS: usize = 256;

// Registers of the redirection table: two for each pin.
const TABLE: u32 = 0x10;

bitflags! {
    /// The lower half of a pin's entry there; its lowest byte is the vector.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    #[repr(transparent)]
    struct Entry: u32 {
        const ACTIVE_LOW = 1 << 13;
        const LEVEL = 1 << 15;
        const MASKED = 1 << 16;
    }
}

fn register<T>(io_apic: IoApic, index: u32) -> VolatilePtr<'static, T> {
    fn at<T>(io_apic: IoApic, offset: usize) -> VolatilePtr<'static, T> {
        let address = (io_apic.address as usize + offset) as *mut T;
        // SAFETY: ACPI names the page, which lies where devices are mapped, and is no RAM by the loader's memory map.
        unsafe { VolatilePtr::new(NonNull::new(address).unwrap_or(NonNull::dangling())) }
    }
    at(io_apic, 0).write(index);
    at(io_apic, 0x10)
}

fn nr_pins(io_apic: IoApic) -> u32 {
    (register::<u32>(io_apic, 1).read() >> 16 & 0xff) + 1
}

/// Notes the wiring, and masks every pin.
pub(crate) fn init(wiring: Wiring) {
    let wiring = WIRING.call_once(|| wiring);
    ROUTED.with(|_| {
        for io_apic in wiring.io_apics() {
            for pin in 0..nr_pins(io_apic) {
                takt_kernel::proof::goes_over_parts();
                register(io_apic, TABLE + 2 * pin).write(Entry::MASKED);
            }
        }
    });
}

/// The addresses of their registers.
#[cfg(feature = "tasks")]
pub(crate) fn addresses() -> impl Iterator<Item = u32> {
    let all = WIRING.get().into_iter().flat_map(Wiring::io_apics);
    all.map(|it| it.address)
}

impl Pin {
    /// The pin of an ISA interrupt, 0 to 15, as ACPI describes it; else edge-triggered and active high.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for other numbers.
    pub fn isa(irq: u8) -> Result<Self, Error> {
        let source = WIRING.get().and_then(|wiring| wiring.isa(irq));
        let source = source.ok_or(Error::InvalidArgument)?;
        Ok(Self {
            gsi: source.gsi,
            trigger: match source.flags >> 2 & 3 {
                3 => Trigger::Level,
                _ => Trigger::Edge,
            },
            polarity: match source.flags & 3 {
                3 => Polarity::Low,
                _ => Polarity::High,
            },
        })
    }

    /// Whether a pin has a handler, or is none of those that could have one.
    pub(crate) fn is_routed(gsi: u32) -> bool {
        ROUTED.with(|routed| {
            let word = routed.get(gsi as usize / 64);
            word.is_none_or(|word| word & 1 << (gsi % 64) != 0)
        })
    }

    /// Has the pin's interrupts come to `irq`'s handler on a CPU. It is masked still: see [`Line::unmask`].
    ///
    /// # Errors
    /// `irq` is released, then:
    /// [`Error::InvalidArgument`] if no I/O APIC has the pin, or the CPU does not run; [`Error::InvalidState`] if the pin
    /// has another handler.
    ///
    /// # Context
    /// Any but NMIs.
    pub fn route(self, irq: Irq, cpu: usize) -> Result<Line, Error> {
        let (irq, (io_apic, index, low)) = irq.routed(|irq| self.wire(irq.vector(), cpu))?;
        Ok(Line {
            io_apic,
            index,
            low,
            irq,
        })
    }

    /// Has its entry, the register of whose lower half is told, say this vector, and be masked.
    fn wire(self, vector: u8, cpu: usize) -> Result<(IoApic, u32, Entry), Error> {
        let mut wired = WIRING.get().into_iter().flat_map(Wiring::io_apics);
        let destination = destination(cpu)?;
        let mut low = Entry::from_bits_retain(vector.into());
        low.set(Entry::LEVEL, self.trigger == Trigger::Level);
        low.set(Entry::ACTIVE_LOW, self.polarity == Polarity::Low);
        ROUTED.with(|routed| {
            let (io_apic, index) = wired
                .find_map(|io_apic| {
                    let pin = self.gsi.checked_sub(io_apic.first)?;
                    (pin < nr_pins(io_apic)).then_some((io_apic, TABLE + 2 * pin))
                })
                .ok_or(Error::InvalidArgument)?;
            let word = routed
                .get_mut(self.gsi as usize / 64)
                .ok_or(Error::InvalidArgument)?;
            if *word & 1 << (self.gsi % 64) != 0 {
                return Err(Error::InvalidState);
            }
            *word |= 1 << (self.gsi % 64);
            register(io_apic, index).write(low | Entry::MASKED);
            register(io_apic, index + 1).write(destination);
            Ok((io_apic, index, low))
        })
    }
}

/// The upper half of an entry: a CPU.
fn destination(cpu: usize) -> Result<u32, Error> {
    let id = smp::apic_id(cpu).ok_or(Error::InvalidArgument)?;
    Ok(id << 24)
}

/// A pin with its handler.
#[derive(PartialEq, Eq, Debug)]
pub struct Line {
    io_apic: IoApic,
    /// Of the register that is the lower half of the pin's entry.
    index: u32,
    /// That half, unmasked.
    low: Entry,
    irq: Irq,
}

impl Line {
    /// The vector and the name.
    #[must_use]
    pub fn irq(&self) -> &Irq {
        &self.irq
    }

    /// Lets the interrupts come.
    ///
    /// # Context
    /// Any but NMIs.
    pub fn unmask(&self) {
        ROUTED.with(|_| register(self.io_apic, self.index).write(self.low));
    }

    /// Keeps them back. What comes meanwhile at an edge is lost; a level is still there afterwards.
    ///
    /// # Context
    /// Any but NMIs; in the handler as well.
    pub fn mask(&self) {
        ROUTED.with(|_| register(self.io_apic, self.index).write(self.low | Entry::MASKED));
    }

    /// Its I/O APIC, the register there that masks it, and what that is while the line is unmasked and masked.
    #[cfg(all(feature = "image", feature = "tasks"))]
    pub(crate) fn registers(&self) -> (*mut u32, u32, [u32; 2]) {
        let io_apic = self.io_apic.address as usize as *mut u32;
        let masked = self.low | Entry::MASKED;
        (io_apic, self.index, [self.low.bits(), masked.bits()])
    }

    /// Has the next ones come to another CPU.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] if it does not run.
    ///
    /// # Context
    /// As [`mask`](Self::mask).
    pub fn set_cpu(&self, cpu: usize) -> Result<(), Error> {
        let destination = destination(cpu)?;
        ROUTED.with(|_| register(self.io_apic, self.index + 1).write(destination));
        Ok(())
    }
}
