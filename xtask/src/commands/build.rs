//! `build`: the kernel image.

use std::process::ExitCode;

use anyhow::Result;

use takt_base::output;
use takt_cli::Build;
use takt_image::{Recipe, lean};

/// Builds an image and prints where it is.
pub(super) fn run(flags: &Build) -> Result<ExitCode> {
    let (kind, name) = match &flags.example {
        Some(example) => ("--example", example),
        None => ("--bin", &flags.bin),
    };
    let recipe = Recipe {
        package: flags.package.clone(),
        kind,
        name: name.clone(),
        features: flags.features.clone(),
        ..Recipe::takt(flags.verbose)
    };
    let recipe = match &flags.manifest {
        Some(manifest) => recipe.with_tasks(manifest),
        None => recipe,
    };
    let built = recipe.build()?;
    lean::tell(&built.kept);
    output::line(format_args!("{}", built.path.display()))?;
    Ok(ExitCode::SUCCESS)
}
