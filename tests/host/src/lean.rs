//! What costs cycles and is of no use on one CPU is not there.

use anyhow::{Result, ensure};

use super::Stage;
use takt_guest::Elf;
use takt_guest::disassembly::locked;
use takt_image::Recipe;

/// Modules by their mangled names.
const MODULES: [&str; 6] = [
    "4sync9semaphore",
    "4sync9raw_mutex",
    "4sync2pi",
    "4sync7condvar",
    "4sync11event_flags",
    "4sync5queue",
];

/// While one CPU runs, what waits for others executes no `lock` prefix.
pub(super) fn no_locks(_: &Stage) -> Result<()> {
    let elf = Elf::open(&Recipe::takt(0).build()?.path)?;
    let functions = elf.functions();
    let ends = functions.iter().skip(1).map(|(begin, _)| *begin);
    let mut nr = 0;
    for ((begin, name), end) in functions.iter().zip(ends.chain([elf.code_end()])) {
        if MODULES.iter().any(|module| name.contains(module)) {
            let found = locked(&elf, *begin..end);
            ensure!(found.is_empty(), "{name}: {found:x?}");
            nr += 1;
        }
    }
    ensure!(nr >= 20, "{nr} functions");
    Ok(())
}

/// `stmxcsr [rdx + offset]` and `ldmxcsr [rax + offset]`, without the offset: only switches have them.
const MXCSR: [[u8; 3]; 2] = [[0x0f, 0xae, 0x5a], [0x0f, 0xae, 0x50]];

/// A switch does nothing with MXCSR where no code does. (What does, and what is to happen then, is among the tests on the target.)
pub(super) fn no_mxcsr(_: &Stage) -> Result<()> {
    let elf = Elf::open(&Recipe::takt(0).build()?.path)?;
    let code = elf.code();
    let mut places = code.iter().flat_map(|(_, code)| code.windows(3));
    let found = places.find(|place| MXCSR.iter().any(|it| it == place));
    ensure!(found.is_none(), "{found:x?}");
    Ok(())
}
