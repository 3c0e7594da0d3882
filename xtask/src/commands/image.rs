//! `image`: media that a machine boots from.

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result};

use crate::cli::Image;
use crate::image::{Elf, Recipe};
use crate::media::{Contents, iso, strip};
use crate::run::words;
use crate::{output, paths, setup};

/// Builds the image and puts it where the flags say.
pub(super) fn run(flags: &Image) -> Result<ExitCode> {
    for file in [&flags.to.iso, &flags.to.elf].into_iter().flatten() {
        output::check_writable(file)?;
    }
    let elf = match &flags.image {
        Some(image) => Elf::open(image)?,
        None => Elf::open(&recipe(flags).build()?.path)?,
    };
    let contents = Contents {
        image: strip::strip(&elf.data)
            .with_context(|| format!("{} cannot be put on a medium", elf.path.display()))?,
        words: words::translate(&flags.append, &elf)?.line,
    };
    if let Some(file) = &flags.to.elf {
        output::write_or_nothing(file, &contents.image)?;
        return done(file, &elf);
    }
    let tools = setup::ensure_grub(!flags.no_install)?;
    if let Some(file) = &flags.to.iso {
        output::write_or_nothing(file, &iso::make(&contents, &tools)?)?;
        return done(file, &elf);
    }
    Ok(ExitCode::SUCCESS)
}

fn recipe(flags: &Image) -> Recipe {
    let takt = Recipe::takt(flags.verbose);
    let (kind, name) = match (&flags.example, &flags.bin) {
        (Some(example), _) => ("--example", example.clone()),
        (None, Some(bin)) => ("--bin", bin.clone()),
        (None, None) => (takt.kind, takt.name.clone()),
    };
    Recipe {
        package: flags.package.clone().unwrap_or(takt.package.clone()),
        kind,
        name,
        ..takt
    }
    .with_features(&flags.features)
    .for_words(&flags.append)
}

/// Says what is where.
fn done(file: &Path, elf: &Elf) -> Result<ExitCode> {
    let size = file.metadata().map_or(0, |meta| meta.len());
    output::line(format_args!(
        "{}: {:.1} MB; symbols and the log's formats are in {}",
        file.display(),
        size as f64 / 1e6,
        paths::shown(&elf.path)
    ))?;
    Ok(ExitCode::SUCCESS)
}
