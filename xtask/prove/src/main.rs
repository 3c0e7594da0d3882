//! `takt-prove IMAGE [any]`: what is proved of an image, as JSON; `takt-prove IMAGE mutate NUMBER SEED`: whether bounds follow
//! changes. `cargo xtask prove` is for reading.
#![forbid(unsafe_code)]

use std::ffi::OsString;
use std::io::Write;
use std::path::PathBuf;

use anyhow::{Context, Result};

fn main() -> Result<()> {
    let mut words = std::env::args_os().skip(1);
    let path: PathBuf = words.next().context("which image?")?.into();
    let what = words.next();
    let mut out = std::io::stdout().lock();
    if what.as_ref().is_some_and(|it| it == "mutate") {
        let (nr, seed) = (number(words.next())?, number(words.next())?);
        serde_json::to_writer(&mut out, &takt_prove::mutate(&path, nr as usize, seed)?)?;
    } else {
        let any_keys = what.is_some_and(|it| it == "any");
        serde_json::to_writer(&mut out, &takt_prove::prove(&path, any_keys)?)?;
    }
    writeln!(out)?;
    Ok(())
}

fn number(word: Option<OsString>) -> Result<u64> {
    let word = word.context("a number is missing")?;
    let text = word.to_str().context("no number")?;
    text.parse().with_context(|| format!("{text} is no number"))
}
