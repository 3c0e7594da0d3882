//! `completions` and `man`: what a shell and `man` know of the command line.

use std::process::ExitCode;

use anyhow::{Context, Result};
use takt_base::output;
use takt_cli::{Completions, Man};

/// Prints a shell's completions.
pub(super) fn completions(flags: &Completions) -> Result<ExitCode> {
    let mut text = Vec::new();
    clap_complete::generate(flags.shell, &mut takt_cli::installed(), "takt", &mut text);
    output::print(&String::from_utf8(text)?)
}

/// Writes the manual's pages.
pub(super) fn pages(flags: &Man) -> Result<ExitCode> {
    let dir = &flags.dir;
    std::fs::create_dir_all(dir)
        .and_then(|()| clap_mangen::generate_to(takt_cli::installed(), dir))
        .with_context(|| format!("cannot write manual pages to {}", dir.display()))?;
    Ok(ExitCode::SUCCESS)
}
