//! `takt-prove IMAGE [any] [WHAT=VALUE...]`: what is proved of an image, of whose system that is known, as JSON; `takt-prove IMAGE mutate NUMBER SEED`: whether bounds follow
//! changes; `takt-prove IMAGE whole [WHAT=VALUE...] FUNCTION...`: of each function what it takes whatever is off, up to where it comes back and up to a
//! switch. `cargo xtask prove` is for reading.
#![forbid(unsafe_code)]

use std::ffi::OsString;
use std::io::Write;
use std::path::PathBuf;

use anyhow::{Context, Result};
use takt_prove::Config;

fn main() -> Result<()> {
    let mut words = std::env::args_os().skip(1);
    let path: PathBuf = words.next().context("which image?")?.into();
    let mut words = words.peekable();
    let mut out = std::io::stdout().lock();
    if words.next_if(|it| it == "mutate").is_some() {
        let (nr, seed) = (number(words.next())?, number(words.next())?);
        serde_json::to_writer(&mut out, &takt_prove::mutate(&path, nr as usize, seed)?)?;
    } else if words.next_if(|it| it == "whole").is_some() {
        let names = words.map(|it| it.into_string().ok().context("a word that is no text"));
        let (known, names): (Vec<_>, Vec<_>) = names
            .collect::<Result<Vec<_>>>()?
            .into_iter()
            .partition(|it| it.contains('='));
        let found = takt_prove::whole(&path, &Config::new(false, known)?, &names)?;
        serde_json::to_writer(&mut out, &found)?;
    } else {
        let any_keys = words.next_if(|it| it == "any").is_some();
        let words = words.map(|it| it.into_string().ok().context("a word that is no text"));
        let config = Config::new(any_keys, words.collect::<Result<Vec<_>>>()?)?;
        serde_json::to_writer(&mut out, &takt_prove::prove(&path, &config)?)?;
    }
    writeln!(out)?;
    Ok(())
}

fn number(word: Option<OsString>) -> Result<u64> {
    let word = word.context("a number is missing")?;
    let text = word.to_str().context("no number")?;
    text.parse().with_context(|| format!("{text} is no number"))
}
