//! The guest's threads, read out of its memory (`takt_kernel::thread::tcb`).

use takt_timerlat::stats::view::Memory;

use crate::image::Elf;
use crate::qemu::Ram;

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
        let text = self.elf.to_physical(self.u64_at(name)?);
        let len = self.u64_at(name.checked_add(8)?)?;
        if len > MAX_NAME {
            return None;
        }
        let mut bytes = vec![0; len as usize];
        self.ram.read_exact_at(text, &mut bytes).ok()?;
        String::from_utf8(bytes).ok()
    }

    /// The address of a thread's control block.
    #[must_use]
    pub fn block(self, tid: u8) -> Option<u64> {
        let pointer = self.table.checked_add(u64::from(tid) * 8)?;
        Some(self.elf.to_physical(self.u64_at(pointer)?))
    }

    fn u64_at(self, address: u64) -> Option<u64> {
        let mut bytes = [0; 8];
        self.ram.read_exact_at(address, &mut bytes).ok()?;
        Some(u64::from_le_bytes(bytes))
    }
}
