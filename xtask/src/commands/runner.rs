//! `runner`: what cargo calls with an image that it has built.

use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;

use super::{dispatch, test};
use crate::cli::{Cli, Runner};
use crate::image::Elf;
use crate::setup;

/// Boots the image, or runs the tests in it.
pub(super) fn run(flags: Runner) -> Result<ExitCode> {
    let elf = Elf::open(&flags.image)?;
    if test::has_tests(&elf) {
        // The flags that cargo's own harness knows (`--nocapture`) have no meaning here.
        let filters: Vec<_> = flags
            .args
            .into_iter()
            .filter(|word| !word.starts_with('-'))
            .collect();
        setup::ensure_qemu(true)?;
        return test::of_image(&elf, &filters);
    }
    let words = ["xtask", "run", "--image"].map(str::to_owned);
    let image = flags.image.to_string_lossy().into_owned();
    let words = words.into_iter().chain([image]).chain(flags.args);
    match Cli::try_parse_from(words) {
        Ok(cli) => dispatch(cli),
        Err(error) => error.exit(),
    }
}
