//! `takt-prove IMAGE [any]`: what is proved of an image, as JSON. `cargo xtask prove` is for reading.
#![forbid(unsafe_code)]

use std::io::Write;
use std::path::PathBuf;

use anyhow::{Context, Result};

fn main() -> Result<()> {
    let mut words = std::env::args_os().skip(1);
    let path: PathBuf = words.next().context("which image?")?.into();
    let any_keys = words.next().is_some_and(|it| it == "any");
    let proof = takt_prove::prove(&path, any_keys)?;
    let mut out = std::io::stdout().lock();
    serde_json::to_writer(&mut out, &proof)?;
    writeln!(out)?;
    Ok(())
}
