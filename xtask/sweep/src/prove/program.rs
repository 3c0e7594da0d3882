//! What finds bounds is a program of its own, `takt-prove`, built when it is first needed.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use takt_base::setup::build::{Package, Profile, bring_up_to_date};
use takt_guest::Elf;

use super::Proof;

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
