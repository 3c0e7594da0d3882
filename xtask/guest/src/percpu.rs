//! Where the memory of each of the guest's CPUs lies, and what in it is of use here (`takt_kernel::arch::percpu`).

use std::io;

use takt_timerlat::stats::view::Memory;

use crate::Elf;
use crate::Ram;

/// More CPUs than this no image has.
const MAX_CPUS: u64 = 256;

/// The CPUs' memories, as the image's symbols tell.
#[derive(Clone, Copy, Debug)]
pub struct PerCpu {
    base: u64,
    size: u64,
    control: u64,
    tid: u64,
    nr_cpus: u8,
}

impl PerCpu {
    /// Those of an image; `None` if it does not tell.
    #[must_use]
    pub fn of(elf: &Elf) -> Option<Self> {
        let symbol = |name| elf.symbol(name).ok();
        Some(Self {
            base: symbol("takt_percpu")?,
            size: symbol("takt_percpu_size")?,
            control: symbol("takt_percpu_control")?,
            tid: symbol("takt_percpu_tid")?,
            nr_cpus: u8::try_from(symbol("takt_max_cpus")?.min(MAX_CPUS - 1)).ok()?,
        })
    }

    /// Those of `nr_cpus` CPUs from address `base` on, so far apart, with the ring's control words so far inside.
    #[must_use]
    pub fn new(base: u64, size: u64, control: u64, nr_cpus: u8) -> Self {
        Self {
            base,
            size,
            control,
            tid: 0,
            nr_cpus,
        }
    }

    /// How many CPUs there can be.
    #[must_use]
    pub fn nr_cpus(&self) -> u8 {
        self.nr_cpus
    }

    /// The address of the memory of the trace ring of CPU `cpu`.
    #[must_use]
    pub fn ring_memory(&self, cpu: u8) -> u64 {
        let offset = self.size.wrapping_mul(cpu.into());
        self.base.wrapping_add(offset)
    }

    /// The address of that ring's control words.
    #[must_use]
    pub fn ring_control(&self, cpu: u8) -> u64 {
        self.ring_memory(cpu).wrapping_add(self.control)
    }

    /// The id of the thread that runs on CPU `cpu`.
    ///
    /// # Errors
    ///
    /// If the memory cannot be read.
    pub fn current(&self, elf: &Elf, ram: &Ram, cpu: u8) -> io::Result<u8> {
        let address = self.ring_memory(cpu).wrapping_add(self.tid);
        let mut tid = [0];
        ram.read_exact_at(elf.to_physical(address), &mut tid)?;
        Ok(tid[0])
    }
}
