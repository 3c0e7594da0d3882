//! `prove`: a bound for each stretch with interrupts off. What finds them is a program of its own, `takt-prove`, built when it
//! is first needed.

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result, anyhow};

use takt_base::term::{WithHelp, note};
use takt_base::{EXIT_ERROR, EXIT_THRESHOLD, output};
use takt_cli::Prove as Flags;
use takt_guest::Elf;
use takt_image::Recipe;
use takt_machine::run::folder::IMAGE;
use takt_sweep::prove;
use takt_sweep::response::{self, Costs, Response};

/// Changes an image at random; whether bounds follow.
fn mutate(image: &Path, nr: u32, seed: u64) -> Result<ExitCode> {
    let words = ["mutate", &nr.to_string(), &seed.to_string()];
    let found = prove::Mutations::read(&prove::run_on(image, &words)?, &Elf::open(image)?)?;
    output::print(&found.text())?;
    Ok(if found.is_followed() {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(EXIT_ERROR)
    })
}

/// The worst response times of a manifest's threads.
fn respond(manifest: &Path, image: &Path, json: Option<&Path>) -> Result<ExitCode> {
    let mut set = response::read(manifest)?;
    response::prove_functions(&mut set, image)?;
    let proof = prove::prove_image(image, false, &[response::CONFIG.to_owned()])?;
    for place in response::without_bound(&proof) {
        note(format_args!(
            "no bound is proved of the section from {place}: unless blocking_ns has its length, it is in no response"
        ));
    }
    let costs = Costs::of(&proof)?;
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

/// The image that is looked at: of a manifest's tasks, or Takt's.
fn recipe(manifest: Option<&Path>) -> Result<Recipe> {
    match manifest {
        Some(manifest) if response::has_tasks(manifest)? => Recipe::of_manifest(manifest, 0),
        _ => Ok(Recipe::takt(0)),
    }
}

/// Analyses, and prints.
pub(super) fn run(flags: &Flags) -> Result<ExitCode> {
    if let Some(file) = &flags.json {
        output::check_writable(file)?;
    }
    let swept = flags.sweep.as_ref().map(|dir| dir.join(IMAGE));
    let swept = swept.filter(|it| it.exists());
    let image = match (&flags.image, &swept) {
        (Some(path), _) | (None, Some(path)) => path.clone(),
        (None, None) => recipe(flags.manifest.as_deref())?.build()?.path,
    };
    if let Some(swept) = &swept {
        let id = |path: &Path| Ok::<_, anyhow::Error>(Elf::open(path)?.build_id());
        if id(&image)? != id(swept)? {
            let error = anyhow!("{} is not the image that was swept", image.display());
            return Err(error).help(format!("--image {}", swept.display()));
        }
    }
    if let Some(nr) = flags.mutations {
        return mutate(&image, nr, flags.seed);
    }
    if let Some(manifest) = &flags.manifest {
        return respond(manifest, &image, flags.json.as_deref());
    }
    let mut proof = prove::prove_image(&image, flags.any_keys, &flags.config)?;
    if let Some(sweep) = &flags.sweep {
        proof
            .compare(sweep)
            .with_context(|| format!("cannot compare with the sweep {}", sweep.display()))?;
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
