//! What is still in the guest's trace rings: a guest that died could not hand it over.

use std::io;

use takt_timerlat::stats::view::Memory;
use takt_tracer::ring::Word;
use takt_tracer::ring::observer::{Observed, Observer, RingView};

use super::percpu::PerCpu;
use crate::Elf;
use crate::Ram;
use crate::ram::RAM_MIB;

/// The symbols whose values are a sub-buffer's size and their number in a ring (`takt_kernel::config`).
pub const SUB_SIZE: &str = "takt_trace_sub_size";
/// See [`SUB_SIZE`].
pub const NR_SUBS: &str = "takt_trace_nr_subs";

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
/// part only. The guest must have ended. There are none if the image does not say where its rings are.
///
/// # Errors
///
/// If the memory cannot be read.
pub fn rest(elf: &Elf, ram: &Ram) -> io::Result<Vec<Rest>> {
    let symbol = |name| elf.symbol(name).ok().and_then(|it| u32::try_from(it).ok());
    match (PerCpu::of(elf), symbol(SUB_SIZE), symbol(NR_SUBS)) {
        (Some(cpus), Some(sub_size), Some(nr_subs)) => {
            rest_in(elf, ram, &cpus, (sub_size, nr_subs))
        }
        _ => Ok(Vec::new()),
    }
}

/// The rest of rings that lie there and are of this shape: bytes of a sub-buffer, and how many there are.
///
/// # Errors
///
/// If the memory cannot be read.
pub fn rest_in(
    elf: &Elf,
    ram: &Ram,
    cpus: &PerCpu,
    (sub_size, nr_subs): (u32, u32),
) -> io::Result<Vec<Rest>> {
    let mut all = Vec::new();
    // An image can say anything; its rings are in its RAM.
    let ring = u64::from(sub_size) * u64::from(nr_subs);
    if ring.saturating_mul(cpus.nr_cpus().into()) > RAM_MIB << 20 {
        return Ok(all);
    }
    for cpu in 0..cpus.nr_cpus() {
        let view = View::new(elf, ram, cpus.ring_control(cpu), cpus.ring_memory(cpu));
        if let Some(observer) = Observer::new(sub_size, nr_subs) {
            rest_of(cpu, &view, observer, (sub_size, nr_subs), &mut all)?;
        }
    }
    Ok(all)
}

fn rest_of(
    cpu: u8,
    view: &View<'_>,
    mut observer: Observer,
    (sub_size, nr_subs): (u32, u32),
    all: &mut Vec<Rest>,
) -> io::Result<()> {
    let consumed = view.load(Word::Consumed)?;
    let mut bytes = vec![0; sub_size as usize];
    // As many as there can be: what the guest has written is not to be trusted.
    for _ in 0..nr_subs {
        match observer.poll(view, &mut bytes)? {
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
    if let Observed::Partial { seq, committed, .. } = observer.poll_current(view, &mut bytes)?
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

    #[test]
    fn rings_that_do_not_fit_into_the_ram_are_passed_over() {
        let elf = Elf::open(&std::env::current_exe().unwrap()).unwrap();
        let ram = Ram::create(&std::env::temp_dir()).unwrap();
        let begun = SubHeader {
            version: SubHeader::VERSION,
            commit: 64,
            ..SubHeader::default()
        };
        let found = |cpus: &PerCpu, nr_subs| {
            let found = rest_in(&elf, &ram, cpus, (256, nr_subs)).unwrap();
            found.iter().map(|sub| sub.cpu).collect::<Vec<_>>()
        };
        // Memory at 256, control words behind four sub-buffers.
        let cpus = PerCpu::new(256, 0x1000, 4 * 256, 2);
        for cpu in 0..2 {
            let pos = cpus.ring_control(cpu) + u64::from(Word::Pos.offset());
            ram.write_at(pos, &64u64.to_le_bytes()).unwrap();
            ram.write_at(cpus.ring_memory(cpu), &begun.encode())
                .unwrap();
        }
        assert_eq!(found(&cpus, 4), [0, 1]);
        let all = (RAM_MIB << 20) as u32 / 256;
        assert_eq!(found(&cpus, all / 2), [0, 1]);
        assert!(found(&cpus, all).is_empty());
    }
}
