//! What is still in the guest's trace rings: a guest that died could not hand it over.

use std::io;

use takt_timerlat::stats::view::{Cpu, Memory, Ring};
use takt_tracer::ring::Word;
use takt_tracer::ring::observer::{Observed, Observer, RingView};

use crate::image::Elf;
use crate::qemu::Ram;

/// A sub-buffer that was not handed over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rest {
    /// The CPU it is of.
    pub cpu: u8,
    /// Its number.
    pub seq: u64,
    /// Its bytes, as many as a sub-buffer has.
    pub bytes: Vec<u8>,
}

/// A ring in the guest's memory.
struct View<'r> {
    ram: &'r Ram,
    control: u64,
    memory: u64,
}

impl RingView for View<'_> {
    type Error = io::Error;

    fn load(&self, word: Word) -> io::Result<u64> {
        let mut bytes = [0; 8];
        self.copy_at(self.control, word.offset(), &mut bytes)?;
        Ok(u64::from_le_bytes(bytes))
    }

    fn copy(&self, offset: u32, out: &mut [u8]) -> io::Result<()> {
        self.copy_at(self.memory, offset, out)
    }
}

impl View<'_> {
    fn copy_at(&self, base: u64, offset: u32, out: &mut [u8]) -> io::Result<()> {
        let address = base
            .checked_add(offset.into())
            .ok_or(io::ErrorKind::UnexpectedEof)?;
        self.ram.read_exact_at(address, out)
    }
}

/// The sub-buffers of all CPUs that were not handed over, the last of each perhaps written in
/// part only. The guest must have ended.
///
/// # Errors
///
/// If the memory cannot be read.
pub fn rest(elf: &Elf, ram: &Ram, cpus: &[Cpu]) -> io::Result<Vec<Rest>> {
    let mut all = Vec::new();
    for (cpu, counters) in (0..).zip(cpus) {
        if let Some(ring) = counters.ring {
            rest_of(cpu, ring, elf, ram, &mut all)?;
        }
    }
    Ok(all)
}

fn rest_of(cpu: u8, ring: Ring, elf: &Elf, ram: &Ram, all: &mut Vec<Rest>) -> io::Result<()> {
    let Some(mut observer) = Observer::new(ring.sub_size, ring.nr_subs) else {
        return Ok(());
    };
    let view = View {
        ram,
        control: elf.to_physical(ring.control),
        memory: elf.to_physical(ring.memory),
    };
    let consumed = view.load(Word::Consumed)?;
    let mut bytes = vec![0; ring.sub_size as usize];
    // As many as there can be: what the guest has written is not to be trusted.
    for _ in 0..ring.nr_subs {
        match observer.poll(&view, &mut bytes)? {
            Observed::Full { seq } if seq >= consumed => all.push(Rest {
                cpu,
                seq,
                bytes: bytes.clone(),
            }),
            Observed::Full { .. } => {}
            Observed::Busy { .. } => observer.skip(),
            _ => break,
        }
    }
    if let Observed::Partial { seq, committed, .. } = observer.poll_current(&view, &mut bytes)?
        && seq >= consumed
        && committed > takt_tracer::wire::SUB_HEADER
    {
        all.push(Rest { cpu, seq, bytes });
    }
    Ok(())
}
