//! `prove`: a bound for each stretch with interrupts off. What finds them is a program of its own, `takt-prove`, built when it
//! is first needed.

use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, Result, ensure};

use crate::cli::Prove as Flags;
use crate::image::{Elf, Recipe};
use crate::prove::{self, Proof};
use crate::setup::build::{Package, Profile, bring_up_to_date};
use crate::term::note;
use crate::{EXIT_ERROR, output};

const PACKAGE: Package = Package {
    name: "takt-prove",
    profile: Profile::Dev,
    file: "takt-prove",
    first: "it takes half a minute",
    takes: "half a minute",
    needs: "cargo xtask doctor says whether all is there",
};

/// Analyses an image; with `any_keys` static keys may be on.
pub(super) fn prove_image(image: &Path, any_keys: bool) -> Result<Proof> {
    let elf = Elf::open(image)?;
    let program = bring_up_to_date(&PACKAGE)?;
    let mut command = Command::new(&program);
    command.arg(image).stderr(Stdio::inherit());
    if any_keys {
        command.arg("any");
    }
    let done = command
        .output()
        .with_context(|| format!("cannot run {}", program.display()))?;
    ensure!(
        done.status.success(),
        "{} has not come to its end",
        program.display()
    );
    Proof::read(&done.stdout, &elf)
}

/// Analyses, and prints.
pub(super) fn run(flags: &Flags) -> Result<ExitCode> {
    if let Some(file) = &flags.json {
        output::check_writable(file)?;
    }
    let image = match &flags.image {
        Some(path) => path.clone(),
        None => Recipe::takt(0).build()?.path,
    };
    let mut proof = prove_image(&image, flags.any_keys)?;
    if let Some(sweep) = &flags.sweep {
        proof
            .compare(sweep)
            .with_context(|| format!("cannot read the sweep {}", sweep.display()))?;
    }
    let refuted: Vec<_> = proof.refuted().into_iter().map(|it| it.begin).collect();
    if let Some(text) = &flags.section {
        proof.keep(text);
    }
    if let Some(file) = &flags.json {
        output::to_named(file, &(serde_json::to_string_pretty(&proof)? + "\n"))?;
    }
    if !flags.json.as_deref().is_some_and(output::is_stdout) {
        let shown = prove::Shown {
            path: flags.path,
            witness: flags.sweep.is_some(),
        };
        output::print(&prove::text(&proof, shown))?;
    }
    if refuted.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    for begin in refuted {
        note(format_args!(
            "the stretch at {begin:#x} took longer than its bound: the analysis is wrong"
        ));
    }
    Ok(ExitCode::from(EXIT_ERROR))
}
