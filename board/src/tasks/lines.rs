//! The lines of interrupts that tasks have: pins of the I/O APICs.

use spin::Once;
use takt_kernel::Error;
use takt_kernel::irq::{self, NR_DEVICE_VECTORS};
use takt_kernel::task::{self, Interrupt, Lines, Source, Task};
use takt_kernel::time::Instant;

use crate::ioapic::{Line, Pin, Polarity, Trigger};

/// An interrupt and whose it is.
struct Own(&'static Task, &'static Interrupt);

/// By the numbers of the interrupts.
static OWN: [Once<Own>; NR_DEVICE_VECTORS] = [const { Once::new() }; NR_DEVICE_VECTORS];
static LINES: [Once<Line>; NR_DEVICE_VECTORS] = [const { Once::new() }; NR_DEVICE_VECTORS];

struct Pins;

impl Pins {
    fn line(number: usize) -> Option<&'static Line> {
        LINES.get(number)?.get()
    }
}

impl Lines for Pins {
    fn mask(&self, number: usize) {
        if let Some(line) = Self::line(number) {
            line.mask();
        }
    }

    fn unmask(&self, number: usize) {
        if let Some(line) = Self::line(number) {
            line.unmask();
        }
    }

    fn set_cpu(&self, number: usize, cpu: usize) {
        // A task runs on a CPU that there is.
        let _ = Self::line(number).map(|line| line.set_cpu(cpu));
    }
}

extern "C" fn on_interrupt(own: usize, _: Instant) {
    // SAFETY: `wire` gives the address of one in `OWN`.
    let Own(task, interrupt) = unsafe { &*(own as *const Own) };
    // SAFETY: its handler, by `wire`.
    unsafe { task.interrupt(interrupt) };
}

fn wire(task: &'static Task, interrupt: &'static Interrupt) -> Result<(), Error> {
    let number = interrupt.number;
    let (Some(own), Some(line)) = (OWN.get(number), LINES.get(number)) else {
        return Err(Error::OutOfResources);
    };
    let own = own.call_once(|| Own(task, interrupt));
    let pin = match interrupt.source {
        Source::Isa(number) => Pin::isa(number)?,
        Source::Pin(gsi) => Pin {
            gsi,
            trigger: Trigger::Level,
            polarity: Polarity::Low,
        },
    };
    let argument = core::ptr::from_ref(own) as usize;
    let irq = irq::request(interrupt.device, on_interrupt, argument)?;
    let routed = pin.route(irq, 0)?;
    let is_first = task.interrupts().first().map(|it| it.number) == Some(number);
    if is_first {
        let (io_apic, register, values) = routed.registers();
        // SAFETY: they are the line's, and all accesses to an I/O APIC are with interrupts off.
        unsafe { task.set_gate(io_apic, register, values) };
    }
    line.call_once(|| routed);
    Ok(())
}

/// Has the interrupts of all tasks come to them, masked as yet.
///
/// # Panics
/// If one cannot.
pub(crate) fn wire_all() {
    task::set_lines(&Pins);
    for task in task::all() {
        for interrupt in task.interrupts() {
            if let Err(error) = wire(task, interrupt) {
                panic!(
                    "task '{}' cannot have the interrupt of '{}', {:?}: {error:?}",
                    task.name(),
                    interrupt.device,
                    interrupt.source
                );
            }
        }
    }
}
