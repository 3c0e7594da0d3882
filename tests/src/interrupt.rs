//! Interrupts on demand: at once from a thread, or from a device some time later.

use core::sync::atomic::{AtomicPtr, Ordering::Relaxed};

use takt_kernel::irq::{self, FIRST_DEVICE_VECTOR, Irq, Nmi};
use takt_kernel::machine::{self, Port};
use takt_kernel::smp;
use takt_kernel::time::Instant;

/// Vector of interrupts that a thread raises by an instruction.
pub const SOFTWARE: u8 = FIRST_DEVICE_VECTOR + 1;
/// Vector of the interval timer's interrupts.
const DEVICE: u8 = FIRST_DEVICE_VECTOR + 2;

static ON_SOFTWARE: AtomicPtr<()> = AtomicPtr::new(core::ptr::null_mut());
static SOFTWARE_IRQ: spin::Once<Irq> = spin::Once::new();
static ON_DEVICE: AtomicPtr<()> = AtomicPtr::new(core::ptr::null_mut());

/// Registers the handlers.
pub fn init() {
    // They stay when a second call finds them there.
    let software = irq::register(
        SOFTWARE,
        "software",
        dispatch,
        &raw const ON_SOFTWARE as usize,
    );
    if let Ok(irq) = software {
        SOFTWARE_IRQ.call_once(|| irq);
    }
    let _ = irq::register(DEVICE, "device", dispatch, &raw const ON_DEVICE as usize);
}

extern "C" fn dispatch(slot: usize, _at: Instant) {
    // SAFETY: `init` passes the address of one of the two statics.
    let function = unsafe { &*(slot as *const AtomicPtr<()>) }.load(Relaxed);
    if !function.is_null() {
        // SAFETY: only a `fn()` is stored there.
        unsafe { core::mem::transmute::<*mut (), fn()>(function)() };
    }
}

/// Runs `function` in an interrupt, now.
pub fn raise(function: fn()) {
    ON_SOFTWARE.store(function as *mut (), Relaxed);
    // SAFETY: the gate leads to the kernel's stub for that vector, which keeps every register.
    unsafe { core::arch::asm!("int {}", const SOFTWARE) };
}

/// As [`request`], in an NMI.
pub fn request_in_nmi(nmi: &Nmi, function: fn()) {
    ON_SOFTWARE.store(function as *mut (), Relaxed);
    if let Some(irq) = SOFTWARE_IRQ.get() {
        nmi.raise(irq);
    }
}

/// The local APIC's id of the CPU that this runs on.
#[must_use]
pub fn own_apic_id() -> u32 {
    smp::apic_id(smp::this_cpu()).unwrap_or_default()
}

/// Has a non-maskable interrupt come to the CPU itself, at once.
pub fn raise_nmi() {
    const DELIVER_AS_NMI: u32 = 4 << 8;
    // SAFETY: the kernel takes NMIs at any instruction.
    unsafe { machine::send_ipi(own_apic_id(), DELIVER_AS_NMI) };
}

/// Has an interrupt of a device's vector run `function` as soon as interrupts are on.
///
/// Source: Intel SDM volume 3A, 11.6.1 (interrupt command register, shorthand for the CPU itself).
pub fn request(function: fn()) {
    const ASSERT: u32 = 1 << 14;
    const TO_ITSELF: u32 = 1 << 18;
    ON_SOFTWARE.store(function as *mut (), Relaxed);
    // SAFETY: a vector whose handler `init` has registered.
    unsafe { machine::send_ipi(0, u32::from(SOFTWARE) | ASSERT | TO_ITSELF) };
}

const IO_APIC: usize = 0xfec0_0000;
/// The interval timer's pin at the I/O APIC of a PC.
const PIN: u32 = 2;
const PIT_HZ: u64 = 1_193_182;

fn io_apic(register: u32, value: u32) {
    // SAFETY: the I/O APIC's index register; the devices' gigabyte is mapped one to one.
    unsafe { (IO_APIC as *mut u32).write_volatile(register) };
    // SAFETY: its data register.
    unsafe { ((IO_APIC + 0x10) as *mut u32).write_volatile(value) };
}

fn out(port: u16, value: u8) {
    // SAFETY: the port belongs to the interval timer, which the kernel does not use.
    unsafe { Port::<u8>::new(port).write(value) };
}

/// Has the interval timer's interrupt run `function` after some microseconds (at most 54,000): an interrupt that comes
/// from outside at any moment, also while the CPU is halted.
///
/// Source: Intel 8254 data sheet (mode 0), Intel 82093AA data sheet, 3.2.4 (redirection table).
pub fn after_us(us: u64, function: fn()) {
    ON_DEVICE.store(function as *mut (), Relaxed);
    device_after_us(us, u32::from(DEVICE));
}

/// Has the interval timer raise a non-maskable interrupt after some microseconds (at most 54,000). What then runs is set
/// by [`irq::set_nmi_handler`].
pub fn nmi_after_us(us: u64) {
    const DELIVER_AS_NMI: u32 = 4 << 8;
    device_after_us(us, DELIVER_AS_NMI);
}

fn device_after_us(us: u64, redirection: u32) {
    io_apic(0x10 + 2 * PIN + 1, 0);
    io_apic(0x10 + 2 * PIN, redirection);
    let ticks = (us * PIT_HZ / 1_000_000).clamp(1, 0xffff);
    out(0x43, 0x30);
    out(0x40, ticks as u8);
    out(0x40, (ticks >> 8) as u8);
}
