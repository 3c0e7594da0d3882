//! What finds bounds is a program of its own, `takt-prove`, built when it is first needed.

use std::path::Path;
use std::process::{Command, Stdio};
use std::{fs, io};

use anyhow::{Context, Result, ensure};
use serde::de::IgnoredAny;
use takt_base::setup::build::{Package, Profile, bring_up_to_date};
use takt_base::{input, paths};
use takt_guest::Elf;
use takt_guest::place::Names;
use takt_tracer::wire;

use super::{FoundWhole, Proof, Whole};

const PACKAGE: Package = Package {
    name: "takt-prove",
    profile: Profile::Dev,
    file: "takt-prove",
    first: "it takes half a minute",
    takes: "half a minute",
    needs: "cargo xtask doctor says whether all is there",
};

/// Analyses an image; with `any_keys` static keys may be on. `config` is what else is known of the system: `WHAT=VALUE`.
///
/// # Errors
///
/// If `takt-prove` does not build or cannot read the image.
pub fn prove_image(image: &Path, any_keys: bool, config: &[String]) -> Result<Proof> {
    let elf = Elf::open(image)?;
    let any = any_keys.then_some("any");
    let words: Vec<_> = any
        .into_iter()
        .chain(config.iter().map(|it| &**it))
        .collect();
    let proof = Proof::read(&kept(image, &words)?, &elf)?;
    Ok(Proof {
        config: config.to_vec(),
        ..proof
    })
}

/// What these functions and entries take, whatever is off: from their first instructions to where they come back
/// ([`Stretch::same`](super::Stretch::same)), and to the switch to another thread. By symbols, or by paths in Rust; of `clock:` and a
/// thread's function from where it goes on behind a switch to its clock. `config` is as there.
///
/// # Errors
///
/// As [`prove_image`], or if the image has none of a name.
pub fn wholes(image: &Path, config: &[String], names: &[&str]) -> Result<Vec<Whole>> {
    let config = config.iter().map(|it| &**it);
    let words: Vec<_> = std::iter::once("whole")
        .chain(config)
        .chain(names.iter().copied())
        .collect();
    let found: Vec<FoundWhole> = serde_json::from_slice(&kept(image, &words)?)?;
    let elf = Elf::open(image)?;
    let names = Names::new(&elf);
    Ok(found.into_iter().map(|it| it.named(&names)).collect())
}

/// What was written of the same image before, by the same `takt-prove` for the same words, or what it writes now.
fn kept(image: &Path, words: &[&str]) -> Result<Vec<u8>> {
    let program = bring_up_to_date(&PACKAGE)?.metadata()?;
    let mut all = input::read(image)?;
    let program = (program.len(), program.modified()?, words);
    all.extend(format!("{program:?}").into_bytes());
    let name = format!("{:016x}.json", wire::checksum(&all));
    let dir = paths::target().join("proofs");
    // One that is damaged is none.
    if let Ok(found) = input::read(dir.join(&name))
        && serde_json::from_slice::<IgnoredAny>(&found).is_ok()
    {
        return Ok(found);
    }
    let found = run_on(image, words)?;
    // Whoever reads it finds all of it or nothing; that it cannot be kept costs time only.
    let passing = dir.join(format!(".{name}{}", paths::passing_mark()));
    let is_kept = fs::create_dir_all(&dir)
        .and_then(|()| fs::write(&passing, &found))
        .and_then(|()| fs::rename(&passing, dir.join(&name)))
        .and_then(|()| forget_oldest(&dir));
    drop(is_kept);
    Ok(found)
}

/// Keeps some of the files in a folder, the newest.
fn forget_oldest(dir: &Path) -> io::Result<()> {
    const MOST: usize = 64;
    let mut all = Vec::new();
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        // Another one may have removed it.
        if let Ok(modified) = entry.metadata().and_then(|it| it.modified()) {
            all.push((modified, entry.path()));
        }
    }
    all.sort();
    let too_many = all.len().saturating_sub(MOST);
    for (_, path) in &all[..too_many] {
        let _ = fs::remove_file(path);
    }
    Ok(())
}

/// Runs `takt-prove` on an image; what it has written.
///
/// # Errors
///
/// As [`prove_image`].
pub fn run_on(image: &Path, words: &[&str]) -> Result<Vec<u8>> {
    let program = bring_up_to_date(&PACKAGE)?;
    let mut command = Command::new(&program);
    command.arg(image).args(words).stderr(Stdio::inherit());
    let done = command
        .output()
        .with_context(|| format!("cannot run {}", program.display()))?;
    ensure!(
        done.status.success(),
        "{} has not come to its end",
        program.display()
    );
    Ok(done.stdout)
}
