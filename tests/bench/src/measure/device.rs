//! Interrupts of devices, from the instruction that has the device raise one: COM1, which sends to itself, by a pin of the I/O
//! APIC; QEMU's `edu` by a message.
//!
//! `-entry` is the time stamp that the entry takes, `-handler` the handler's first instruction, `-thread` the interrupted thread
//! that then takes what the handler gave, `-woken` a more important thread that waited for it.

use core::ptr::NonNull;

use takt_board::ioapic::Pin;
use takt_board::pci::Function;
use takt_kernel::irq;
use takt_kernel::machine::Port;
use takt_kernel::sync::Semaphore;
use takt_kernel::time::Instant;
use volatile::VolatilePtr;

use super::ROUNDS;
use crate::clock::{START, Value, stamp};
use crate::report::insn;
use crate::threads::{MAIN, join, must, spawn};

static ENTRY: Value = Value::new();
static HANDLER: Value = Value::new();
static RESULT: Value = Value::new();
static CAME: Semaphore = Semaphore::new(0, 1);

pub(super) fn all() {
    com1();
    // Not every machine has one.
    if let Some(edu) = Function::find(0x1234, 0x11e8) {
        messages(edu);
    }
}

const COM1: u16 = 0x3f8;
const INTERRUPTS: u16 = 1;
const MODEM_CONTROL: u16 = 4;

#[inline(always)]
fn write(register: u16, value: u8) {
    // SAFETY: COM1's registers.
    unsafe { Port::<u8>::new(COM1 + register).write(value) };
}

extern "C" fn on_com1(_: usize, at: Instant) {
    note(stamp(), at);
    // SAFETY: COM1's data register: reading it takes the interrupt back.
    unsafe { Port::<u8>::new(COM1).read() };
    // Someone waits for it, or will: it cannot overflow.
    let _ = CAME.give();
}

extern "C" fn on_edu(_: usize, at: Instant) {
    note(stamp(), at);
    // As above.
    let _ = CAME.give();
}

#[inline(always)]
fn note(now: u32, at: Instant) {
    ENTRY.set(START.until(at.cycles() as u32));
    HANDLER.set(START.until(now));
}

/// The UART's transmitter is connected to its receiver meanwhile.
fn com1() {
    let irq = must("request", irq::request("com1", on_com1, 0));
    let line = must("route", Pin::isa(4).and_then(|pin| pin.route(irq, 0)));
    line.unmask();
    write(MODEM_CONTROL, 0x1b);
    write(INTERRUPTS, 1);
    let measured = measure(|| write(0, b'x'));
    write(INTERRUPTS, 0);
    write(MODEM_CONTROL, 0x03);
    line.mask();
    report("line", measured);
}

fn messages(edu: Function) {
    let Some(base) = edu.enable_memory(0) else {
        return;
    };
    let irq = must("request", irq::request("edu", on_edu, 0));
    // SAFETY: it was told of no transfer.
    unsafe { edu.enable_dma() };
    let msi = must("enable_msi", edu.enable_msi(irq, 0));
    let raise = NonNull::new((base + 0x60) as *mut u32).unwrap_or(NonNull::dangling());
    // SAFETY: the register that raises an interrupt, in memory that is mapped.
    let raise = unsafe { VolatilePtr::new(raise) };
    let measured = measure(|| raise.write(1));
    msi.mask();
    report("message", measured);
}

#[inline(always)]
fn measure(raise: impl Fn()) -> [u32; 4] {
    for _ in 0..ROUNDS {
        START.set();
        raise();
        let taken = CAME.take();
        RESULT.take();
        must("take", taken);
    }
    let [entry, handler, thread] = [&ENTRY, &HANDLER, &RESULT].map(Value::get);
    let other = spawn(0, MAIN + 1, |_| {
        for _ in 0..ROUNDS {
            let taken = CAME.take();
            RESULT.take();
            must("take", taken);
        }
    });
    for _ in 0..ROUNDS {
        START.set();
        raise();
    }
    join(other);
    [entry, handler, thread, RESULT.get()]
}

fn report(by: &str, measured: [u32; 4]) {
    for (what, value) in ["entry", "handler", "thread", "woken"]
        .into_iter()
        .zip(measured)
    {
        insn(format_args!("{by}-{what}"), value);
    }
}
