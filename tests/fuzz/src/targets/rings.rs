//! The search for sub-buffers in the trace rings of a guest that has died.
//!
//! Input: how many CPUs, where their memory begins, how far apart it is, where in it the ring's control words are (`u64`
//! each), bytes of a sub-buffer and number of them (`u32`), and the guest's memory from address 0 on.

use takt_guest::Elf;
use takt_guest::percpu::PerCpu;
use takt_guest::rings;
use takt_tracer::ring::Word;

use crate::image;
use crate::sample::{self, SUB};
use crate::targets::rtt::ram;

thread_local! {
    static ELF: Elf = image::image("rzcobs");
}

/// Bytes of the rings' description.
const RINGS: usize = 32;

/// Looks for what was not handed over.
///
/// # Panics
///
/// If a property does not hold.
pub fn run(input: &[u8]) {
    let Some((nr_cpus, rest)) = input.split_first() else {
        return;
    };
    let Some((raw, memory)) = rest.split_first_chunk::<RINGS>() else {
        return;
    };
    let (words, _) = raw.as_chunks::<8>();
    let [base, size, control, shape] = [0, 1, 2, 3].map(|index| u64::from_le_bytes(words[index]));
    let (sub_size, nr_subs) = (shape as u32, (shape >> 32) as u32);
    let cpus = PerCpu::new(base, size, control, *nr_cpus);
    let ram = ram(memory);
    let Ok(found) = ELF.with(|elf| rings::rest_in(elf, &ram, &cpus, (sub_size, nr_subs))) else {
        return;
    };
    for sub in found {
        assert!(sub.cpu < *nr_cpus);
        assert_eq!(sub.bytes.len(), sub_size as usize);
    }
}

/// A ring with one full sub-buffer and one that is begun: alone, for two CPUs, beside one that is beyond the RAM, and one that
/// no RAM has room for.
#[must_use]
pub fn seeds() -> Vec<Vec<u8>> {
    let (control, ring) = (0u64, 0x100u64);
    // The control words lie before the ring.
    let place = |size: u64, shape: u64| {
        [ring, size, control.wrapping_sub(ring), shape]
            .map(u64::to_le_bytes)
            .concat()
    };
    let shape = SUB as u64 | 4 << 32;
    let mut memory = vec![0; ring as usize];
    for (word, value) in [(Word::Pos, SUB as u64 + 80), (Word::Consumed, 0)] {
        let at = control as usize + word.offset() as usize;
        memory[at..at + 8].copy_from_slice(&value.to_le_bytes());
    }
    memory.extend(sample::sub(0, 0, 0, &sample::records()));
    memory.extend(sample::sub(0, 1, 0, &sample::records()[..1]));
    memory.resize(memory.len() + 2 * SUB, 0);
    vec![
        [&[1], &*place(0, shape), &memory].concat(),
        [&[2], &*place(0, shape), &memory].concat(),
        [&[2], &*place(1 << 40, shape), &memory].concat(),
        [&[2], &*place(0, 1 << 31 | 1 << 32), &memory].concat(),
    ]
}
