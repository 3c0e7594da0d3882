//! The search for sub-buffers in the trace rings of a guest that has died.
//!
//! Input: how many CPUs, for each of them what the status block says of its ring (addresses of control words and
//! memory, `u64`; bytes of a sub-buffer and number of them, `u32`), and the guest's memory from address 0 on.

use takt_timerlat::stats::MAX_CPUS;
use takt_timerlat::stats::view::{Cpu, Ring};
use takt_tracer::ring::Word;
use xtask::guest::rings;
use xtask::image::Elf;

use crate::image;
use crate::sample::{self, SUB};
use crate::targets::rtt::ram;

thread_local! {
    static ELF: Elf = image::image("rzcobs");
}

/// Bytes of a ring's description.
const RING: usize = 24;

/// Looks for what was not handed over.
///
/// # Panics
///
/// If a property does not hold.
pub fn run(input: &[u8]) {
    let Some((nr_cpus, mut rest)) = input.split_first() else {
        return;
    };
    let mut cpus = Vec::new();
    while let Some((raw, behind)) = rest.split_first_chunk::<RING>()
        && cpus.len() < usize::from(*nr_cpus) % (MAX_CPUS + 1)
    {
        rest = behind;
        let (words, _) = raw.as_chunks::<8>();
        let [control, memory, sizes] = [0, 1, 2].map(|index| u64::from_le_bytes(words[index]));
        let ring = Ring {
            control,
            memory,
            sub_size: sizes as u32,
            nr_subs: (sizes >> 32) as u32,
        };
        cpus.push(Cpu {
            ring: Some(ring),
            ..Cpu::default()
        });
    }
    let ram = ram(rest);
    let Ok(found) = ELF.with(|elf| rings::rest(elf, &ram, &cpus)) else {
        return;
    };
    for sub in found {
        let ring = cpus[usize::from(sub.cpu)].ring.expect("it was given one");
        assert_eq!(sub.bytes.len(), ring.sub_size as usize);
    }
}

/// A ring with one full sub-buffer and one that is begun: alone, for two CPUs, and beside one that no RAM has room for.
#[must_use]
pub fn seeds() -> Vec<Vec<u8>> {
    let (control, ring) = (0u64, 0x100u64);
    let sizes = SUB as u64 | 4 << 32;
    let place = [control, ring, sizes].map(u64::to_le_bytes).concat();
    let huge = [control, ring, 1 << 31 | 1 << 32]
        .map(u64::to_le_bytes)
        .concat();
    let mut memory = vec![0; ring as usize];
    for (word, value) in [(Word::Pos, SUB as u64 + 80), (Word::Consumed, 0)] {
        let at = control as usize + word.offset() as usize;
        memory[at..at + 8].copy_from_slice(&value.to_le_bytes());
    }
    memory.extend(sample::sub(0, 0, 0, &sample::records()));
    memory.extend(sample::sub(0, 1, 0, &sample::records()[..1]));
    memory.resize(memory.len() + 2 * SUB, 0);
    vec![
        [&[1], &*place, &memory].concat(),
        [&[2], &*place, &place, &memory].concat(),
        [&[2], &*huge, &place, &memory].concat(),
    ]
}
