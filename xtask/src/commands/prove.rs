//! `prove`: a bound for each stretch with interrupts off. What finds them is a program of its own, `takt-prove`, built when it
//! is first needed.

use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, Result, ensure};

use takt_base::setup::build::{Package, Profile, bring_up_to_date};
use takt_base::term::note;
use takt_base::{EXIT_ERROR, EXIT_THRESHOLD, output};
use takt_cli::Prove as Flags;
use takt_guest::Elf;
use takt_image::Recipe;
use takt_sweep::prove::{self, Proof};
use takt_sweep::response::{self, Costs, Response};

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
    let words: &[&str] = if any_keys { &["any"] } else { &[] };
    Proof::read(&run_on(image, words)?, &elf)
}

/// Runs `takt-prove` on an image; what it has written.
fn run_on(image: &Path, words: &[&str]) -> Result<Vec<u8>> {
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

/// Changes an image at random; whether bounds follow.
fn mutate(image: &Path, nr: u32, seed: u64) -> Result<ExitCode> {
    let words = ["mutate", &nr.to_string(), &seed.to_string()];
    let found = prove::Mutations::read(&run_on(image, &words)?, &Elf::open(image)?)?;
    output::print(&found.text())?;
    Ok(if found.is_followed() {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(EXIT_ERROR)
    })
}

/// The worst response times of a manifest's threads.
fn respond(manifest: &Path, image: &Path, json: Option<&Path>) -> Result<ExitCode> {
    let set = response::read(manifest)?;
    let costs = Costs::of(&prove_image(image, false)?)?;
    let found = response::responses(&set, costs);
    if let Some(file) = json {
        let document = serde_json::json!({
            "schema": response::SCHEMA, "costs": costs, "threads": found, "interrupts": set.interrupts,
        });
        output::to_named(file, &(serde_json::to_string_pretty(&document)? + "\n"))?;
    }
    if !json.is_some_and(output::is_stdout) {
        output::print(&response::text(&set, costs, &found))?;
    }
    Ok(match found.iter().all(Response::holds) {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(EXIT_THRESHOLD),
    })
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
    if let Some(nr) = flags.mutations {
        return mutate(&image, nr, flags.seed);
    }
    if let Some(manifest) = &flags.manifest {
        return respond(manifest, &image, flags.json.as_deref());
    }
    let mut proof = prove_image(&image, flags.any_keys)?;
    if let Some(sweep) = &flags.sweep {
        proof
            .compare(sweep)
            .with_context(|| format!("cannot read the sweep {}", sweep.display()))?;
    }
    let refuted: Vec<_> = proof.refuted().into_iter().map(prove::refutation).collect();
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
    for text in refuted {
        note(format_args!("{text}"));
    }
    Ok(ExitCode::from(EXIT_ERROR))
}
