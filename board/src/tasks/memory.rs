//! Devices' memory and ports that tasks have, held against what only the machine knows.
//!
//! That it is nobody else's xtask has seen to, as far as it is known there.

use core::ops::Range;

use takt_kernel::task::{Task, all};

use super::takt_declared;
use crate::acpi::{self, Tables};
use crate::drivers::watchdog::chip_set_registers;
use crate::ioapic;
use crate::loader::MemoryMap;
use crate::pci::{self, Bar, Capability, Function};

/// The devices' memory of some tasks.
fn of(tasks: &'static [Task]) -> impl Iterator<Item = (&'static str, Range<u64>)> {
    tasks.iter().flat_map(|task| {
        let memory = task.device_memory();
        memory.map(|(address, size)| (task.name(), address as u64..(address + size) as u64))
    })
}

fn overlap(a: &Range<u64>, b: &Range<u64>) -> bool {
    a.start < b.end && b.start < a.end
}

/// Looks whether a task has RAM for a device's memory.
///
/// # Panics
/// Then.
pub(crate) fn check_ram(map: &MemoryMap<'_>) {
    for (task, memory) in of(takt_declared.tasks) {
        if map.has_ram(&memory) {
            panic!(
                "task '{task}' cannot have the memory at {:#x}, which is RAM",
                memory.start
            );
        }
    }
}

/// What a function has in its base address registers.
fn bars_of(function: Function) -> impl Iterator<Item = Bar> {
    let mut slot = 0;
    core::iter::from_fn(move || {
        while slot < 6 {
            let bar = function.bar(slot);
            // The register behind one of 64 bits is its upper half.
            slot += if let Some(Bar::Memory64 { .. }) = bar {
                2
            } else {
                1
            };
            if bar.is_some() {
                return bar;
            }
        }
        None
    })
}

/// The memory of one.
fn memory_of(bar: Bar) -> Option<Range<u64>> {
    let (address, size) = match bar {
        Bar::Memory32 { address, size, .. } => (address.into(), size.into()),
        Bar::Memory64 { address, size, .. } => (address, size),
        Bar::Io { .. } => return None,
    };
    Some(address..address.saturating_add(size))
}

/// The ports of one: as many as it may have at most (PCI Local Bus Specification 3.0, 6.2.5.1).
fn ports_of(bar: Bar) -> Option<Range<u64>> {
    const MOST: u64 = 256;
    match bar {
        Bar::Io { port } if port != 0 => Some(port.into()..u64::from(port) + MOST),
        _ => None,
    }
}

/// Where a function's table of messages is.
fn messages_of(function: Function) -> Option<Range<u64>> {
    /// Bytes of an entry.
    const ENTRY: u64 = 16;
    let table = function.capabilities().find_map(|it| match it {
        Capability::MsiX(table) => Some(table),
        _ => None,
    })?;
    let begin =
        memory_of(function.bar(table.table_bar())?)?.start + u64::from(table.table_offset());
    Some(begin..begin + ENTRY * u64::from(table.table_size()))
}

/// What of the kernel's own is in this memory, if something is.
fn kernels(memory: &Range<u64>, tables: &Tables) -> Option<&'static str> {
    let has = |first: u64, len: u64| overlap(memory, &(first..first.saturating_add(len)));
    if (tables.spaces).is_some_and(|it| acpi::has_space(it, memory)) {
        return Some("PCI's configuration space");
    }
    // Source: IA-PC HPET specification 1.0a, 2.3.1.
    if tables.hpet.is_some_and(|it| has(it as u64, 0x400)) {
        return Some("the HPET's");
    }
    // By them devices write where they were kept from.
    if (tables.iommus).is_some_and(|it| acpi::has_iommu(it, memory)) {
        return Some("an IOMMU's");
    }
    // By them interrupts get another way, and the watchdog no more resets the machine.
    if chip_set_registers().is_some_and(|(_, it)| has(it.start.into(), it.len() as u64)) {
        return Some("the chip set's");
    }
    ioapic::addresses()
        .any(|it| has(it.into(), 0x1000))
        .then_some("an I/O APIC's")
}

/// Looks whether a task has ports by which the machine's power is managed.
fn check_ports(tables: &Tables) {
    let chip_set = chip_set_registers().map(|(it, _)| u64::from(it.start)..u64::from(it.end));
    for task in all() {
        for ports in task.ports() {
            let ports = u64::from(*ports.start())..u64::from(*ports.end()) + 1;
            let by_acpi = tables.fixed.and_then(|it| acpi::power_port(it, &ports));
            let is_met = |it: &&Range<u64>| overlap(it, &ports);
            let by_chip_set = || {
                chip_set
                    .as_ref()
                    .filter(is_met)
                    .map(|it| it.start.max(ports.start))
            };
            if let Some(port) = by_acpi.or_else(by_chip_set) {
                panic!(
                    "task '{}' cannot have the port {port:#x}: it is power management's",
                    task.name()
                );
            }
        }
    }
}

/// Looks whether a task has memory or ports by which it could do what no device is for: configure others, send messages as
/// interrupts, be in the kernel's way, or have one write to memory of which the manifest says that it does not.
///
/// # Panics
/// If so.
pub(crate) fn check(tables: &Tables) {
    check_ports(tables);
    // Bridges are not asked: there may be more than one host bridge.
    let functions = || pci::functions_to(tables.ecam.map_or(u8::MAX, |it| it.last_bus));
    for (first, last) in takt_declared.ports_without_dma {
        let ports = u64::from(*first)..u64::from(*last) + 1;
        let mut bars = functions().flat_map(bars_of).filter_map(ports_of);
        if bars.any(|bar| overlap(&ports, &bar)) {
            panic!(
                "no task can have the ports {first:#x} to {last:#x}: they are a PCI function's, which can write to memory: the manifest has to say dma = \"trusted\""
            );
        }
    }
    for (task, memory) in of(all()) {
        let refuse = |why: &str| -> ! {
            panic!(
                "task '{task}' cannot have the memory at {:#x}: it is {why}",
                memory.start
            );
        };
        if let Some(what) = kernels(&memory, tables) {
            refuse(what);
        }
        let is_harmless = takt_declared
            .without_dma
            .iter()
            .any(|(address, _)| *address as u64 == memory.start);
        for function in functions() {
            // Pages are given whole.
            let table =
                messages_of(function).map(|it| it.start & !0xfff..it.end.next_multiple_of(0x1000));
            if table.is_some_and(|table| overlap(&memory, &table)) {
                refuse("a function's table of messages (MSI-X)");
            }
            let mut bars = bars_of(function).filter_map(memory_of);
            if is_harmless && bars.any(|bar| overlap(&memory, &bar)) {
                refuse(
                    "a PCI function's, which can write to memory: the manifest has to say dma = \"trusted\"",
                );
            }
        }
    }
}
