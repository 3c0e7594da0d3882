//! Devices' interrupts by the pins of the I/O APIC and as messages, and PCI's functions.

use core::ptr::NonNull;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use takt_board::ioapic::{Pin, Polarity, Trigger};
use takt_board::pci::{self, Bar, Capability, Function};
use takt_kernel::irq::{self, NR_DEVICE_VECTORS};
use takt_kernel::machine::{self, Port};
use takt_kernel::smp;
use takt_kernel::sync::Semaphore;
use takt_kernel::time::{Instant, Nanos, sleep};
use takt_tests::harness::{Failure, PRIORITY};
use takt_tests::worker::{burn, join, spawn};
use takt_tests::{check, check_eq, check_err, target_test};
use volatile::VolatilePtr;

static NR: AtomicU32 = AtomicU32::new(0);
static CPU: AtomicU32 = AtomicU32::new(0);
static BYTES: AtomicU64 = AtomicU64::new(0);

fn note() {
    CPU.store(smp::this_cpu() as u32, Relaxed);
    NR.fetch_add(1, Relaxed);
}

/// How many interrupts have come since the last call, after a moment.
fn came() -> u32 {
    burn(2_000);
    NR.swap(0, Relaxed)
}

const COM1: u16 = 0x3f8;

// Of the interrupt command register: an interrupt that a CPU sends to itself.
const ASSERT: u32 = 1 << 14;
const TO_ITSELF: u32 = 1 << 18;

fn uart(register: u16, value: u8) {
    // SAFETY: COM1's registers.
    unsafe { Port::<u8>::new(COM1 + register).write(value) };
}

extern "C" fn on_com1(_: usize, _: Instant) {
    // SAFETY: COM1's line status register. The line may still have been up when it was given to another CPU.
    if unsafe { Port::<u8>::new(COM1 + 5).read() } & 1 == 0 {
        return;
    }
    // SAFETY: COM1's data register: reading it takes the interrupt back.
    let byte = unsafe { Port::<u8>::new(COM1).read() };
    BYTES.store(BYTES.load(Relaxed) << 8 | u64::from(byte), Relaxed);
    note();
}

static ASK: Semaphore = Semaphore::new(0, 1);
static ASKED: Semaphore = Semaphore::new(0, 1);
static DELAY: AtomicU64 = AtomicU64::new(0);
static FOUND: AtomicU32 = AtomicU32::new(0);

/// Address and size of edu's memory, as it is asked.
fn memory(edu: Function) -> Option<(u32, u32)> {
    match edu.bar(0)? {
        Bar::Memory32 { address, size, .. } => Some((address, size)),
        _ => None,
    }
}

/// Asks for the size of edu's memory, so much later, each time that it is told to.
fn asks_for_the_size(_: usize) {
    let Ok(edu) = edu() else { return };
    let expected = memory(edu);
    while ASK.take().is_ok() && DELAY.load(Relaxed) != u64::MAX {
        let _ = sleep(Nanos::new(DELAY.load(Relaxed)));
        FOUND.fetch_add(u32::from(memory(edu) == expected), Relaxed);
        let _ = ASKED.give();
    }
}

extern "C" fn on_message(_: usize, _: Instant) {
    note();
}

fn register(base: usize, offset: usize) -> VolatilePtr<'static, u32> {
    let at = NonNull::new((base + offset) as *mut u32).unwrap_or(NonNull::dangling());
    // SAFETY: a register of a device whose memory is mapped there.
    unsafe { VolatilePtr::new(at) }
}

fn there_is<T>(what: &str, it: Option<T>) -> Result<T, Failure> {
    it.ok_or_else(|| Failure::new(format_args!("there is no {what}")))
}

/// QEMU's device for lessons: a write to 0x60 raises an interrupt.
fn edu() -> Result<Function, Failure> {
    there_is("edu", Function::find(0x1234, 0x11e8))
}

target_test! {
    /// A byte that COM1 sends to itself comes by its pin; not while that is masked; and nobody else gets the pin.
    fn a_pin_has_one_handler(Alone) {
        let pin = Pin::isa(4)?;
        check_eq!(pin, Pin { gsi: 4, trigger: Trigger::Edge, polarity: Polarity::High });
        let line = pin.route(irq::request("com1", on_com1, 0)?, 0)?;
        check_eq!(line.irq().name(), "com1");
        // Each gives its vector back: there are not so many.
        for _ in 0..=NR_DEVICE_VECTORS {
            check_err!(pin.route(irq::request("second", on_com1, 0)?, 0), InvalidState);
        }
        uart(4, 0x1b);
        uart(1, 1);
        uart(0, b'a');
        let masked = came();
        // SAFETY: COM1's data register.
        let lost = unsafe { Port::<u8>::new(COM1).read() };
        line.unmask();
        for byte in *b"bcd" {
            uart(0, byte);
            burn(2_000);
        }
        let open = came();
        line.mask();
        uart(0, b'e');
        let again = came();
        uart(1, 0);
        uart(4, 3);
        check_eq!((masked, lost, open, again), (0, b'a', 3, 0));
        check_eq!(BYTES.load(Relaxed), u64::from_be_bytes(*b"\0\0\0\0\0bcd"));
        Ok(())
    }

    /// The interval timer's line comes in at pin 2, as the MADT says. Pins that there are not, and CPUs that do not run, are
    /// refused.
    fn pins_are_as_acpi_says(Shared) {
        check_eq!(Pin::isa(0)?.gsi, 2);
        check_err!(Pin::isa(16), InvalidArgument);
        let none = Pin { gsi: 99, trigger: Trigger::Edge, polarity: Polarity::High };
        check_err!(none.route(irq::request("none", on_message, 0)?, 0), InvalidArgument);
        check_err!(Pin::isa(7)?.route(irq::request("none", on_message, 0)?, 1), InvalidArgument);
        Ok(())
    }

    /// A handler is given the highest vector that is free; when there is none, that is said.
    fn vectors_are_given_out(Alone) {
        let first = irq::request("first", on_message, 0)?;
        let second = irq::request("second", on_message, 0)?;
        check_eq!(first.vector(), second.vector() + 1);
        let mut nr = 0;
        let last = loop {
            match irq::request("more", on_message, 0) {
                Ok(_) => nr += 1,
                Err(error) => break error,
            }
        };
        check!(nr < 32 && last == takt_kernel::Error::OutOfResources);
        // One that is given back has its name still, which traces may tell of, and nobody's handler.
        let vector = second.vector();
        check_eq!(irq::name_of(vector.into()), "second");
        second.release();
        check_eq!(irq::name_of(vector.into()), "unexpected");
        // SAFETY: a vector whose handler the test has registered.
        unsafe { machine::send_ipi(0, u32::from(vector) | ASSERT | TO_ITSELF) };
        check_eq!((came(), irq::unexpected_count(0), irq::last_unexpected()), (0, 1, vector.into()));
        check_err!(irq::request("third", on_message, 0), OutOfResources);
        check_err!(irq::register(vector, "third", on_message, 0), InvalidState);
        let second = irq::request("second", on_message, 0)?;
        check_eq!((second.vector(), irq::name_of(vector.into())), (vector, "second"));
        // SAFETY: a vector whose handler the test has registered.
        unsafe { machine::send_ipi(0, u32::from(vector) | ASSERT | TO_ITSELF) };
        check_eq!((came(), irq::unexpected_count(0)), (1, 1));
        Ok(())
    }

    /// All functions are found, each once, those of devices with several among them; their memory has its size, and
    /// capabilities are read.
    fn functions_of_pci(Shared) {
        let mut last = None;
        let mut nr = 0;
        for function in pci::functions() {
            let at = function.address();
            check!(last < Some(at), "{last:?} before {at:?}");
            last = Some(at);
            nr += 1;
        }
        // q35: host bridge, LPC bridge, SMBus; two consoles, entropy, edu, network, watchdog, bridge.
        check_eq!(nr, 10);
        // The LPC bridge is function 0 of device 31, and SMBus function 3.
        let smbus = there_is("SMBus", Function::find_class((0x0c, 0x05, 0x00)))?;
        check_eq!((smbus.address().device(), smbus.address().function()), (31, 3));
        let Some(Bar::Memory32 { address, size, prefetchable: false }) = edu()?.bar(0) else {
            return Err(Failure::new(format_args!("edu's memory: {:?}", edu()?.bar(0))));
        };
        check!(address != 0 && size == 1 << 20);
        check!(edu()?.bar(1).is_none() && edu()?.bar(6).is_none());
        check!(edu()?.capabilities().any(|it| matches!(it, Capability::Msi(_))));
        // A bridge has two base address registers, and what lies behind them stays as it is: the numbers of its buses.
        let bridge = there_is("bridge", Function::find_class((6, 4, 0)))?;
        let buses = bridge.read(0x18);
        let Some(Bar::Memory32 { address, size: 4096, .. }) = bridge.bar(0) else {
            return Err(Failure::new(format_args!("the bridge's memory: {:?}", bridge.bar(0))));
        };
        check!(address != 0);
        check!(bridge.bar(1).is_none() && bridge.bar(2).is_none());
        check_eq!(bridge.read(0x18), buses);
        check!(bridge.capabilities().any(|it| matches!(it, Capability::MsiX(_))));
        Ok(())
    }

    /// Two ask for a size at once, and find what one alone finds.
    fn sizes_at_once(Shared) {
        let edu = edu()?;
        let expected = (memory(edu), edu.enable_memory(0));
        let other = spawn(0, PRIORITY + 1, asks_for_the_size, 0)?;
        // The other one comes a little later each time, until this one has its answer before.
        for delay in (0..3_000).step_by(13) {
            DELAY.store(delay, Relaxed);
            ASK.give()?;
            check_eq!((memory(edu), edu.enable_memory(0)), expected);
            ASKED.take()?;
        }
        DELAY.store(u64::MAX, Relaxed);
        ASK.give()?;
        join(&[other])?;
        check_eq!(FOUND.load(Relaxed), 3_000_u32.div_ceil(13));
        Ok(())
    }

    /// A message comes to its handler, not while it is masked, and a second handler is refused.
    fn messages(Alone) {
        let edu = edu()?;
        let base = there_is("memory of edu", edu.enable_memory(0))?;
        // They are writes to memory, which it may not make yet.
        check_err!(edu.enable_msi(irq::request("edu", on_message, 0)?, 0), InvalidState);
        check_eq!(edu.read(4) & 7, 3);
        // SAFETY: it was told of no transfer.
        unsafe { edu.enable_dma() };
        let msi = edu.enable_msi(irq::request("edu", on_message, 0)?, 0)?;
        for _ in 0..=NR_DEVICE_VECTORS {
            check_err!(edu.enable_msi(irq::request("second", on_message, 0)?, 0), InvalidState);
        }
        let raise = register(base, 0x60);
        for _ in 0..3 {
            raise.write(1);
        }
        let open = came();
        msi.mask();
        // Masked it has a handler still.
        check_err!(edu.enable_msi(irq::request("second", on_message, 0)?, 0), InvalidState);
        raise.write(1);
        let masked = came();
        msi.unmask();
        raise.write(1);
        check_eq!((open, masked, came()), (3, 0, 1));
        // A host bridge sends none.
        let bridge = there_is("host bridge", pci::functions().next())?;
        check_err!(bridge.enable_msi(irq::request("none", on_message, 0)?, 0), InvalidArgument);
        Ok(())
    }

    /// The same of a function whose interrupts have messages of their own.
    ///
    /// Source: Intel 82574L data sheet, 10.2.4 (ICR, ICS, IMS, IVAR).
    fn messages_of_a_table(Alone) {
        const LINK: u32 = 1 << 24;
        let network = there_is("network", Function::find(0x8086, 0x10d3))?;
        let base = there_is("memory of the network's", network.enable_memory(0))?;
        // SAFETY: it was told of no transfer.
        unsafe { network.enable_dma() };
        let msix = network.enable_msix(4, irq::request("link", on_message, 0)?, 0)?;
        for _ in 0..=NR_DEVICE_VECTORS {
            check_err!(network.enable_msix(4, irq::request("second", on_message, 0)?, 0), InvalidState);
            check_err!(network.enable_msix(99, irq::request("none", on_message, 0)?, 0), InvalidArgument);
            check_err!(network.enable_msix(3, irq::request("none", on_message, 0)?, 7), InvalidArgument);
        }
        let (cause, mask, entries) = (register(base, 0xc8), register(base, 0xd0), register(base, 0xe4));
        // Causes that have no queue come by entry 4.
        entries.write(0xc << 16);
        mask.write(LINK);
        let raised = || -> Result<u32, Failure> {
            // Takes the last one back.
            register(base, 0xc0).write(u32::MAX);
            cause.write(LINK);
            // The device sends one in 128 us at most.
            sleep(Nanos::from_millis(1))?;
            Ok(came())
        };
        check_eq!((raised()?, raised()?), (1, 1));
        msix.mask();
        check_eq!(raised()?, 0);
        msix.unmask();
        check_eq!(came(), 1);
        Ok(())
    }

    /// An interrupt comes to the CPU that it was given to, whether by a pin or as a message.
    fn they_come_to_a_cpu(TwoCpus) {
        check_eq!(takt_board::smp::start(2), 2);
        let line = Pin::isa(4)?.route(irq::request("com1", on_com1, 0)?, 1)?;
        uart(4, 0x1b);
        uart(1, 1);
        line.unmask();
        let send = |value: u8| -> Result<(u32, u32), Failure> {
            uart(0, value);
            for _ in 0..1_000 {
                if NR.load(Relaxed) != 0 {
                    break;
                }
                sleep(Nanos::from_micros(100))?;
            }
            Ok((NR.swap(0, Relaxed), CPU.load(Relaxed)))
        };
        let there = send(b'a')?;
        line.set_cpu(0)?;
        let here = send(b'b')?;
        uart(1, 0);
        uart(4, 3);
        let bytes = BYTES.swap(0, Relaxed);
        check_eq!((there, here, bytes), ((1, 1), (1, 0), 0x6162));
        let edu = edu()?;
        let base = there_is("memory of edu", edu.enable_memory(0))?;
        // SAFETY: it was told of no transfer.
        unsafe { edu.enable_dma() };
        let mut msi = edu.enable_msi(irq::request("edu", on_message, 0)?, 0)?;
        msi.set_cpu(1)?;
        register(base, 0x60).write(1);
        sleep(Nanos::from_millis(1))?;
        check_eq!((NR.load(Relaxed), CPU.load(Relaxed)), (1, 1));
        check_err!(msi.set_cpu(7), InvalidArgument);
        Ok(())
    }
}
