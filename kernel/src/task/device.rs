//! Interrupts of devices that tasks have.
//!
//! Each comes as a notification. Its line is masked from then on until the task acknowledges it: so a driver that does not
//! keeps nobody from anything. A life begins with its lines masked, and whatever ended the one before has them masked.
//!
//! The lines themselves are the board's: [`Lines`], and its handler calls [`Task::interrupt`]. The line of a task's first interrupt is
//! masked and unmasked by its [`Gate`](super::gate::Gate) while one CPU runs, which is shorter; so does the assembly of `arch::entry_task` that
//! acknowledges it.

use core::ops::RangeInclusive;
use core::sync::atomic::Ordering::Relaxed;

use spin::Once;
use takt_abi::Error;

use super::object::Task;
use super::program::{Interrupt, Mapped};
use crate::arch::percpu;
use crate::arch::ports::Ports;
use crate::cpus::is_smp;
use crate::preempt;

/// The lines that interrupts of tasks come by, by their numbers.
///
/// # Context
/// Any but NMIs; they are called with whatever interrupts were.
pub trait Lines: Sync {
    /// Keeps the interrupt back.
    fn mask(&self, number: usize);
    /// Lets it come.
    fn unmask(&self, number: usize);
    /// Has it come to this CPU.
    fn set_cpu(&self, number: usize, cpu: usize);
}

static LINES: Once<&'static dyn Lines> = Once::new();

/// Introduces the lines, all of them masked.
pub fn set_lines(lines: &'static dyn Lines) {
    // Nobody comes in between who would wait for the end of this.
    let guard = preempt::irq_save();
    LINES.call_once(|| lines);
    guard.restore();
}

impl Task {
    /// Devices' memory that it has: physical addresses and sizes.
    pub fn device_memory(&self) -> impl Iterator<Item = (usize, usize)> {
        let mappings = self.program.mappings.iter();
        mappings.filter_map(|it| match it.memory {
            Mapped::Device(address, size) => Some((address, size)),
            Mapped::Region(..) => None,
        })
    }

    /// The ports that it has.
    #[must_use]
    pub fn ports(&self) -> &'static [RangeInclusive<u16>] {
        self.program.ports.map_or(&[], Ports::ranges)
    }

    /// The interrupts that it has.
    #[must_use]
    pub fn interrupts(&self) -> &'static [Interrupt] {
        self.program.interrupts
    }

    /// Says how the line of its first interrupt is masked: the I/O APIC, its register, and what that is while the line is unmasked
    /// and masked.
    ///
    /// # Safety
    /// It is so, and nobody else writes to that I/O APIC with interrupts on, as long as one CPU runs.
    pub unsafe fn set_gate(&self, io_apic: *mut u32, register: u32, [unmasked, masked]: [u32; 2]) {
        let Some(first) = self.interrupts().first() else {
            return;
        };
        self.gate.io_apic.store(io_apic.cast(), Relaxed);
        self.gate.register.store(register, Relaxed);
        self.gate.unmasked.store(unmasked, Relaxed);
        self.gate.masked.store(masked, Relaxed);
        self.gate.notification.store(first.notification, Relaxed);
    }

    /// An interrupt of its has come: its line is masked, and the task receives the notification, if it lives.
    ///
    /// # Safety
    /// `interrupt` is one of the task's, and this is its handler.
    #[inline(always)]
    pub unsafe fn interrupt(&self, interrupt: &Interrupt) {
        let notification = interrupt.notification;
        if is_smp!() || self.gate.notification.load(Relaxed) != notification {
            core::hint::cold_path();
            self.for_each_line(|lines, it| {
                if it.notification == notification {
                    lines.mask(it.number);
                }
            });
        } else {
            self.gate.mask();
        }
        self.port.raise(notification);
    }

    /// [`Call::Acknowledge`](takt_abi::Call::Acknowledge).
    pub(super) fn acknowledge(&self, notifications: u64) -> Result<(), Error> {
        let own = self.program.interrupt_notifications;
        if notifications & !u64::from(own) != 0 {
            return Err(Error::NoHandle);
        }
        self.for_each_line(|lines, it| {
            if notifications & u64::from(it.notification) != 0 {
                lines.unmask(it.number);
            }
        });
        Ok(())
    }

    /// A life begins: its interrupts come to the CPU of its thread, which this is.
    pub(super) fn route(&self) {
        self.for_each_line(|lines, it| lines.set_cpu(it.number, percpu::cpu()));
    }

    /// A life has ended: no interrupts come.
    pub(super) fn mask(&self) {
        self.for_each_line(|lines, it| lines.mask(it.number));
    }

    #[inline(always)]
    fn for_each_line(&self, act: impl Fn(&dyn Lines, &Interrupt)) {
        if let Some(lines) = LINES.get() {
            self.interrupts().iter().for_each(|it| act(*lines, it));
        }
    }
}
