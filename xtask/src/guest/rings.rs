//! What is still in the guest's trace rings: a guest that died could not hand it over.

use std::io;

use takt_timerlat::stats::view::{Cpu, Memory, Ring};
use takt_tracer::ring::Word;
use takt_tracer::ring::observer::{Observed, Observer, RingView};

use crate::image::Elf;
use crate::qemu::Ram;
use crate::qemu::command::RAM_MIB;

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
#[derive(Debug)]
pub struct View<'r> {
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

impl<'r> View<'r> {
    /// The ring with its control words and its memory at these addresses of the guest.
    #[must_use]
    pub fn new(elf: &Elf, ram: &'r Ram, control: u64, memory: u64) -> Self {
        Self {
            ram,
            control: elf.to_physical(control),
            memory: elf.to_physical(memory),
        }
    }

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
/// What it says of its rings is not trusted: rings that cannot all be in its RAM are passed over,
/// so no more is taken than the RAM has.
///
/// # Errors
///
/// If the memory cannot be read.
pub fn rest(elf: &Elf, ram: &Ram, cpus: &[Cpu]) -> io::Result<Vec<Rest>> {
    let mut all = Vec::new();
    let mut room = RAM_MIB << 20;
    for (cpu, counters) in (0..).zip(cpus) {
        let Some(ring) = counters.ring else {
            continue;
        };
        if let Some(left) = room.checked_sub(u64::from(ring.sub_size) * u64::from(ring.nr_subs)) {
            room = left;
            rest_of(cpu, ring, elf, ram, &mut all)?;
        }
    }
    Ok(all)
}

fn rest_of(cpu: u8, ring: Ring, elf: &Elf, ram: &Ram, all: &mut Vec<Rest>) -> io::Result<()> {
    let Some(mut observer) = Observer::new(ring.sub_size, ring.nr_subs) else {
        return Ok(());
    };
    let view = View::new(elf, ram, ring.control, ring.memory);
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

#[cfg(test)]
mod tests {
    use super::*;
    use takt_tracer::wire::SubHeader;

    /// What a guest says of a ring of `nr_subs` sub-buffers of 256 bytes; its control words are at 0, its memory is
    /// at 256.
    fn cpu(nr_subs: u32) -> Cpu {
        let ring = Ring {
            control: 0,
            memory: 256,
            sub_size: 256,
            nr_subs,
        };
        Cpu {
            ring: Some(ring),
            ..Cpu::default()
        }
    }

    #[test]
    fn rings_that_do_not_fit_into_the_ram_are_passed_over() {
        let elf = Elf::open(&std::env::current_exe().unwrap()).unwrap();
        let ram = Ram::create(&std::env::temp_dir()).unwrap();
        let begun = SubHeader {
            version: SubHeader::VERSION,
            commit: 64,
            ..SubHeader::default()
        };
        ram.write_at(u64::from(Word::Pos.offset()), &64u64.to_le_bytes())
            .unwrap();
        ram.write_at(256, &begun.encode()).unwrap();
        let found = |nr_subs: &[u32]| {
            let cpus: Vec<_> = nr_subs.iter().map(|nr_subs| cpu(*nr_subs)).collect();
            let found = rest(&elf, &ram, &cpus).unwrap();
            found.iter().map(|sub| sub.cpu).collect::<Vec<_>>()
        };
        let all = (RAM_MIB << 20) as u32 / 256;
        assert_eq!(found(&[4, 4]), [0, 1]);
        assert_eq!(found(&[2 * all, 4]), [1]);
        assert_eq!(found(&[all, 4]), [0]);
    }
}
