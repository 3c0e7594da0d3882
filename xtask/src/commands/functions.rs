//! `functions`: the functions that can be traced.

use std::io::Write;
use std::process::ExitCode;

use anyhow::Result;

use takt_base::output;
use takt_cli::Functions as Flags;
use takt_guest::Elf;
use takt_guest::functions::{Functions, Selection};
use takt_image::Recipe;

/// Prints what ftrace's `available_filter_functions` shows, or the part of it that is asked for.
pub(super) fn run(flags: &Flags) -> Result<ExitCode> {
    let path = match &flags.image {
        Some(path) => path.clone(),
        None => Recipe::takt(0).with_features(&["function"]).build()?.path,
    };
    let functions = Functions::of(&Elf::open(&path)?)?;
    let mut wanted: Selection = functions.available().map(|function| function.id).collect();
    if !flags.patterns.is_empty() {
        functions.write(&mut wanted, &flags.patterns.join(" "), false)?;
    }
    output::to_stdout(|out| {
        for function in wanted.iter().filter_map(|id| functions.get(*id)) {
            writeln!(out, "{}", function.name)?;
        }
        Ok(())
    })
}
