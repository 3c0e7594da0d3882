//! Devices that a manifest gives to tasks, and what is nobody's to give.

use std::ops::Range;

use anyhow::{Result, bail, ensure};
use serde::Deserialize;
use takt_abi::NOTIFICATIONS;

use super::region::{Mapped, Source};
use super::{PAGE, check_name};

/// A device.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Device {
    /// What the task calls it, and traces its interrupt.
    pub name: String,
    /// Whose it is.
    pub task: String,
    /// Its ports.
    #[serde(default)]
    pub ports: Vec<Ports>,
    /// Its memory.
    #[serde(default)]
    pub memory: Vec<Memory>,
    /// Whether it can write to memory itself, where that is not known.
    pub dma: Option<Dma>,
    /// Its interrupt.
    pub interrupt: Option<Interrupt>,
}

/// Ports one behind the other.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ports {
    /// The first.
    pub first: u64,
    /// How many.
    pub count: u64,
}

/// Whole pages of a device's memory.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Memory {
    /// The first one's physical address.
    pub first: u64,
    /// Bytes.
    pub size: u64,
}

/// Whether a device masters the bus.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Dma {
    /// It cannot.
    None,
    /// It can: whoever drives it can write to any memory, and is trusted not to.
    Trusted,
}

/// An interrupt.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Interrupt {
    /// Its number on the ISA bus.
    pub isa: Option<u8>,
    /// Or the I/O APICs' pin of a PCI function: level-triggered, active low.
    pub pin: Option<u32>,
    /// The notification that the task receives.
    pub notification: u32,
}

/// Ports that are no task's.
const REFUSED_PORTS: &[(Range<u64>, &str)] = &[
    (0x00..0x20, "a DMA controller's"),
    // Chip sets have many of these at several places.
    (0x20..0x40, "an interrupt controller's"),
    (0x40..0x60, "the interval timer's"),
    (0x61..0x64, "those of NMIs and the speaker"),
    (0x64..0x68, "those of the machine's reset and of NMIs"),
    (0x70..0x78, "those of the clock and of NMIs"),
    (0x80..0xa0, "a DMA controller's, and the machine's reset"),
    (0xa0..0xc0, "an interrupt controller's, and those of SMIs"),
    (0xc0..0xe0, "a DMA controller's"),
    (0xf4..0xf8, "those that end QEMU"),
    (0x3b0..0x3e0, "the console's screen's"),
    (0x3f8..0x400, "COM1's, which the kernel writes to"),
    (0x402..0x405, "those that the host holds the guest by"),
    (0x4d0..0x4d2, "an interrupt controller's"),
    (0x510..0x51c, "QEMU's fw_cfg's, which writes to memory"),
    (0x600..0x680, "those of power management"),
    (
        0xcc0..0xcf8,
        "those by which QEMU takes devices and CPUs away, and of power management",
    ),
    (0xcf8..0xd00, "those of PCI's configuration space"),
];

/// Where PCI's functions have their ports: below are those of the chip set and of ISA.
const FIRST_PCI_PORT: u64 = 0x1000;

/// Physical memory that is no task's. The machine's own memory may go on above the first 3 GiB: that is known at boot.
const REFUSED_MEMORY: &[(Range<u64>, &str)] = &[
    (0..3 << 30, "the machine's memory and the kernel's"),
    (0xfec0_0000..0xfed0_0000, "the I/O APICs'"),
    (0xfed0_0000..0xfed0_1000, "the HPET's"),
    (
        0xfee0_0000..0xfef0_0000,
        "the local APICs' and that of messages to them",
    ),
    (0xff00_0000..1 << 32, "the firmware's"),
    (1 << 32..u64::MAX, "beyond 4 GiB"),
];

/// Interrupts that are no task's, by their numbers on the ISA bus, which are their pins as well but where ACPI says otherwise.
const REFUSED_LINES: [(u32, &str); 4] = [
    (0, "the interval timer's"),
    (2, "an interrupt controller's"),
    (8, "the clock's"),
    (13, "the FPU's"),
];

impl Ports {
    /// As the numbers that they are.
    #[must_use]
    pub fn range(&self) -> Range<u64> {
        self.first..self.first.saturating_add(self.count)
    }

    fn check(self) -> Result<()> {
        let range = self.range();
        ensure!(!range.is_empty(), "no ports");
        ensure!(range.end <= 0x1_0000, "there are ports up to 0xffff");
        for (refused, whose) in REFUSED_PORTS {
            if overlaps(&range, refused) {
                bail!(
                    "the ports {:#x} to {:#x} are {whose}",
                    refused.start,
                    refused.end - 1
                );
            }
        }
        Ok(())
    }
}

impl Memory {
    /// As the addresses that they are.
    #[must_use]
    pub fn range(&self) -> Range<u64> {
        self.first..self.first.saturating_add(self.size)
    }

    fn check(self) -> Result<()> {
        let range = self.range();
        ensure!(!range.is_empty(), "no memory");
        ensure!(
            (self.first | self.size).is_multiple_of(PAGE),
            "a device's memory is whole pages of {PAGE} bytes"
        );
        for (refused, whose) in REFUSED_MEMORY {
            if overlaps(&range, refused) {
                bail!(
                    "the memory from {:#x} on is {whose}",
                    refused.start.max(range.start)
                );
            }
        }
        Ok(())
    }
}

impl Interrupt {
    fn check(self) -> Result<()> {
        ensure!(
            self.isa.is_some() != self.pin.is_some(),
            "an interrupt has `isa` or `pin`"
        );
        ensure!(
            self.isa.is_none_or(|it| it < 16),
            "ISA's interrupts go to 15"
        );
        let number = self.isa.map(u32::from).or(self.pin);
        let refused = REFUSED_LINES.iter().find(|(line, _)| Some(*line) == number);
        if let Some((line, whose)) = refused {
            bail!("the interrupt {line} is {whose}");
        }
        ensure!(
            self.notification.is_power_of_two() && self.notification & NOTIFICATIONS != 0,
            "a notification is one bit of the lowest {}",
            NOTIFICATIONS.count_ones()
        );
        Ok(())
    }

    /// Whether both are the same line.
    fn is_same(self, other: Self) -> bool {
        (self.isa, self.pin) == (other.isa, other.pin)
    }
}

/// Whether two ranges have something in common.
fn overlaps<T: Ord>(a: &Range<T>, b: &Range<T>) -> bool {
    a.start < b.end && b.start < a.end
}

impl Device {
    /// Looks whether it can be given away; the others are those above it. An error comes with the key that it is about.
    pub(super) fn check(&self, others: &[Self]) -> Result<(), (&'static str, anyhow::Error)> {
        let names = others.iter().map(|it| &it.name);
        check_name("device", &self.name, "_", names).map_err(|error| ("name", error))?;
        self.check_ports(others).map_err(|error| ("ports", error))?;
        self.check_memory(others)
            .map_err(|error| ("memory", error))?;
        self.check_dma().map_err(|error| ("name", error))?;
        self.check_interrupt(others)
            .map_err(|error| ("interrupt", error))
    }

    /// What of its memory its task is to have, at no address yet.
    pub(super) fn mapped(&self) -> impl Iterator<Item = Mapped> {
        let memory = self.memory.iter().enumerate();
        memory.map(|(number, it)| Mapped {
            name: format!("memory_{}_{number}", self.name),
            at: 0,
            size: it.size,
            source: Source::Device(it.first),
        })
    }

    fn check_ports(&self, others: &[Self]) -> Result<()> {
        self.ports.iter().try_for_each(|it| it.check())?;
        let ranges = |it: &Self| it.ports.iter().map(Ports::range).collect();
        match self.common(others, ranges) {
            Some((at, whose)) => bail!("port {at:#x} is a port of `{whose}` already"),
            None => Ok(()),
        }
    }

    fn check_memory(&self, others: &[Self]) -> Result<()> {
        self.memory.iter().try_for_each(|it| it.check())?;
        let ranges = |it: &Self| it.memory.iter().map(Memory::range).collect();
        match self.common(others, ranges) {
            Some((at, whose)) => bail!("the memory at {at:#x} is memory of `{whose}` already"),
            None => Ok(()),
        }
    }

    /// Where one of its ranges meets another, and of which device that is.
    fn common<'d>(
        &'d self,
        others: &'d [Self],
        ranges: impl Fn(&Self) -> Vec<Range<u64>>,
    ) -> Option<(u64, &'d str)> {
        let all = ranges(self);
        all.iter().enumerate().find_map(|(number, one)| {
            let own = all[..number].iter().map(|it| (it.clone(), self));
            let theirs = others
                .iter()
                .flat_map(|it| ranges(it).into_iter().map(move |range| (range, it)));
            own.chain(theirs)
                .find(|(other, _)| overlaps(one, other))
                .map(|(other, device)| (one.start.max(other.start), &*device.name))
        })
    }

    fn check_dma(&self) -> Result<()> {
        let is_behind = |it: &Ports| it.range().end > FIRST_PCI_PORT;
        let may_master = !self.memory.is_empty() || self.ports.iter().any(is_behind);
        ensure!(
            self.dma.is_some() || !may_master,
            "`{}` may be able to write to any memory: say dma = \"none\", or \"trusted\" if it is",
            self.name
        );
        Ok(())
    }

    fn check_interrupt(&self, others: &[Self]) -> Result<()> {
        let Some(own) = self.interrupt else {
            return Ok(());
        };
        own.check()?;
        for other in others {
            let Some(interrupt) = other.interrupt else {
                continue;
            };
            ensure!(
                !own.is_same(interrupt),
                "it is the interrupt of `{}` already",
                other.name
            );
            ensure!(
                other.task != self.task || own.notification != interrupt.notification,
                "the notification is that of `{}` already",
                other.name
            );
        }
        Ok(())
    }
}
