//! The names of the guest's threads and interrupts, read out of its memory (`takt_kernel::thread::tcb`, `takt_kernel::irq`).

use takt_timerlat::stats::view::Memory;

use crate::Elf;
use crate::Ram;

/// Longer names are garbage.
const MAX_NAME: u64 = 64;

/// The guest's table of threads.
#[derive(Clone, Copy, Debug)]
pub struct Threads<'r> {
    elf: &'r Elf,
    ram: &'r Ram,
    table: u64,
}

impl<'r> Threads<'r> {
    /// The table of `elf` in `ram`; `None` if the image does not say where it is.
    #[must_use]
    pub fn new(elf: &'r Elf, ram: &'r Ram) -> Option<Self> {
        let table = elf.physical("takt_tcbs").ok()?;
        Some(Self { elf, ram, table })
    }

    /// The threads that exist, with their names.
    pub fn all(self) -> impl Iterator<Item = (u8, String)> + use<'r> {
        let nr = self.elf.symbol("takt_max_threads").unwrap_or_default();
        (0..=u8::MAX)
            .take_while(move |tid| u64::from(*tid) < nr)
            .filter_map(move |tid| Some((tid, self.name(tid)?)))
    }

    /// The name of a thread, if it exists.
    #[must_use]
    pub fn name(self, tid: u8) -> Option<String> {
        let offset = |name: &str| self.elf.symbol(name).ok();
        let block = self.block(tid)?;
        let handle = self.u64_at(block.checked_add(offset("takt_tcb_handle")?)?)?;
        if handle & offset("takt_tcb_in_use")? == 0 {
            return None;
        }
        let name = block.checked_add(offset("takt_tcb_name")?)?;
        text_at(self.elf, self.ram, name)
    }

    /// The address of a thread's control block.
    #[must_use]
    pub fn block(self, tid: u8) -> Option<u64> {
        let pointer = self.table.checked_add(u64::from(tid) * 8)?;
        Some(self.elf.to_physical(self.u64_at(pointer)?))
    }

    fn u64_at(self, address: u64) -> Option<u64> {
        u64_at(self.ram, address)
    }
}

/// The device interrupts that have a handler, with its name; none if the image does not say where they are.
#[must_use]
pub fn of_irqs(elf: &Elf, ram: &Ram) -> Vec<(u8, String)> {
    let symbol = |name: &str| elf.symbol(name).unwrap_or_default();
    let Ok(table) = elf.physical("takt_irq_names") else {
        return Vec::new();
    };
    let first = symbol("takt_irq_names_first");
    let of = |index: u64| {
        let name = text_at(elf, ram, table.checked_add(index * 16)?)?;
        Some((u8::try_from(first + index).ok()?, name))
    };
    let all = 0..symbol("takt_irq_names_nr").min(256);
    all.filter_map(of)
        .filter(|(_, name)| !name.is_empty())
        .collect()
}

/// A text of the guest's, whose address and length lie here.
fn text_at(elf: &Elf, ram: &Ram, place: u64) -> Option<String> {
    let text = elf.to_physical(u64_at(ram, place)?);
    let len = u64_at(ram, place.checked_add(8)?)?;
    if len > MAX_NAME {
        return None;
    }
    let mut bytes = vec![0; len as usize];
    ram.read_exact_at(text, &mut bytes).ok()?;
    String::from_utf8(bytes).ok()
}

fn u64_at(ram: &Ram, address: u64) -> Option<u64> {
    let mut bytes = [0; 8];
    ram.read_exact_at(address, &mut bytes).ok()?;
    Some(u64::from_le_bytes(bytes))
}
