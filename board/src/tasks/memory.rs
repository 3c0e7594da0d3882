//! Devices' memory that tasks have, held against what only the machine knows.
//!
//! That it is nobody else's xtask has seen to, as far as it is known there.

use core::ops::Range;

use takt_kernel::task::{Task, all};

use super::packed;
use crate::acpi::Ecam;
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
    for (task, memory) in of(packed::all()) {
        if map.has_ram(&memory) {
            panic!(
                "task '{task}' cannot have the memory at {:#x}, which is RAM",
                memory.start
            );
        }
    }
}

/// What a function has in a base address register.
fn bar_of(function: Function, slot: u8) -> Option<Range<u64>> {
    let (address, size) = match function.bar(slot)? {
        Bar::Memory32 { address, size, .. } => (address.into(), size.into()),
        Bar::Memory64 { address, size, .. } => (address, size),
        Bar::Io { .. } => return None,
    };
    Some(address..address.saturating_add(size))
}

/// Where a function's table of messages is.
fn messages_of(function: Function) -> Option<Range<u64>> {
    /// Bytes of an entry.
    const ENTRY: u64 = 16;
    let table = function.capabilities().find_map(|it| match it {
        Capability::MsiX(table) => Some(table),
        _ => None,
    })?;
    let begin = bar_of(function, table.table_bar())?.start + u64::from(table.table_offset());
    Some(begin..begin + ENTRY * u64::from(table.table_size()))
}

/// Looks whether a task has memory by which it could do what no device is for: configure others, send messages as interrupts, or
/// have one write to memory of which the manifest says that it does not.
///
/// # Panics
/// If so.
pub(crate) fn check(ecam: Option<&Ecam>) {
    for (task, memory) in of(all()) {
        let refuse = |why: &str| -> ! {
            panic!(
                "task '{task}' cannot have the memory at {:#x}: {why}",
                memory.start
            );
        };
        let space = ecam.map(|it| {
            let base = it.base as u64;
            base..base + ((u64::from(it.last_bus) + 1) << 20)
        });
        if space.is_some_and(|space| overlap(&memory, &space)) {
            refuse("it is PCI's configuration space");
        }
        let is_harmless = packed::without_dma()
            .iter()
            .any(|(address, _)| *address as u64 == memory.start);
        for function in pci::functions() {
            // Pages are given whole.
            let table =
                messages_of(function).map(|it| it.start & !0xfff..it.end.next_multiple_of(0x1000));
            if table.is_some_and(|table| overlap(&memory, &table)) {
                refuse("a function's table of messages (MSI-X) is there");
            }
            let mut bars = (0..6).filter_map(|slot| bar_of(function, slot));
            if is_harmless && bars.any(|bar| overlap(&memory, &bar)) {
                refuse(
                    "it is a PCI function's, which can write to memory: the manifest has to say dma = \"trusted\"",
                );
            }
        }
    }
}
