//! `budget check --bounds`: an instruction more is found where nothing runs that is measured.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};

use super::Stage;
use super::stage::{Done, FIRST};
use takt_guest::Elf;

/// Who switches interrupts off for hwlat's tracer, which no workload has on.
const FUNCTION: &str = "hwlat4body";
/// `cli`, and the static branch behind it while it is not taken: `test eax, …`.
const PLACE: [u8; 2] = [0xfa, 0xa9];
/// In as many bytes: an instruction of four, and one more.
const ONE_MORE: [u8; 5] = [0x0f, 0x1f, 0x40, 0x00, 0x90];

pub(super) fn planted_instruction(stage: &Stage) -> Result<()> {
    let check = |path: &str| stage.xtask(&["budget", "check", "--bounds", "--image", path]);
    let path = Path::new(&stage.dir(FIRST)).join("takt.elf");
    let grows = |done: &Done| done.stdout.contains("bound.hwlat::watch");
    let before = check(&path.display().to_string())?;
    ensure!(!grows(&before), "{}", before.stdout);

    let elf = Elf::open(&path)?;
    let functions = elf.functions();
    let (begin, _) = functions
        .iter()
        .find(|(_, name)| name.contains(FUNCTION))
        .context("there is no such function")?;
    let code = elf.code_at(*begin);
    let at = code.windows(2).position(|bytes| bytes == PLACE);
    let at = begin + at.context("it has no such place")? as u64 + 1;
    let end = functions.iter().find(|(address, _)| address > begin);
    ensure!(end.is_none_or(|(end, _)| at < *end), "it has no such place");
    let offset = elf.offset_of_code(at, ONE_MORE.len());
    let offset = offset.context("the code is not in the file")?;
    let mut image = fs::read(&path)?;
    image[offset..offset + ONE_MORE.len()].copy_from_slice(&ONE_MORE);
    let planted = stage.dir("planted.elf");
    fs::write(&planted, image)?;
    let done = check(&planted)?;
    // With figures that nobody has looked at yet it is no success either.
    ensure!(grows(&done) && done.code != Some(0), "{}", done.stdout);
    Ok(())
}
