//! What finds bounds is a program of its own, `takt-prove`, built when it is first needed.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use takt_base::setup::build::{Package, Profile, bring_up_to_date};
use takt_guest::Elf;
use takt_guest::place::Names;

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
    let proof = Proof::read(&run_on(image, &words)?, &elf)?;
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
    let found: Vec<FoundWhole> = serde_json::from_slice(&run_on(image, &words)?)?;
    let elf = Elf::open(image)?;
    let names = Names::new(&elf);
    Ok(found.into_iter().map(|it| it.named(&names)).collect())
}

/// What tells one `takt-prove` from another: its length and when it was built.
///
/// # Errors
///
/// If it does not build.
pub fn version() -> Result<Vec<u8>> {
    version_of(&bring_up_to_date(&PACKAGE)?)
}

/// Which program it is.
pub(crate) fn version_of(program: &Path) -> Result<Vec<u8>> {
    let program = program.metadata()?;
    Ok(format!("{} {:?}", program.len(), program.modified()?).into_bytes())
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
