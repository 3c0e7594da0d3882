//! Capacities by file: `TAKT_CONFIG` names a `takt.toml` of lines `max_threads = 16`, one for each variable of `src/config.rs`
//! that is to have another value than its default. A variable of the environment counts more.

use std::collections::BTreeMap;
use std::path::Path;
use std::{env, fs};

/// The variables, as `src/config.rs` names them.
fn known() -> Vec<&'static str> {
    let parts = include_str!("src/config.rs")
        .split("option_env!(\"")
        .skip(1);
    parts
        .filter_map(|part| Some(part.split_once('"')?.0))
        .collect()
}

/// The values of a file, by variable.
fn parse(text: &str, known: &[&str]) -> Result<BTreeMap<String, u64>, String> {
    let mut values = BTreeMap::new();
    for (at, line) in text.lines().enumerate() {
        let line = line.split_once('#').map_or(line, |(line, _)| line).trim();
        if line.is_empty() {
            continue;
        }
        let at = at + 1;
        let (name, value) = line
            .split_once('=')
            .ok_or_else(|| format!("line {at} is not `NAME = NUMBER`"))?;
        let (name, value) = (name.trim(), value.trim().replace('_', ""));
        let variable = format!("TAKT_{}", name.to_uppercase());
        if !known.contains(&variable.as_str()) || name != name.to_lowercase() {
            let names = known
                .iter()
                .map(|name| name["TAKT_".len()..].to_lowercase());
            let names: Vec<_> = names.collect();
            return Err(format!(
                "line {at}: there is no capacity `{name}`; there are {}",
                names.join(", ")
            ));
        }
        let number = value
            .parse()
            .map_err(|_| format!("line {at}: `{value}` is no number"))?;
        if values.insert(variable, number).is_some() {
            return Err(format!("line {at}: `{name}` stands there twice"));
        }
    }
    Ok(values)
}

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=src/config.rs");
    println!("cargo::rerun-if-env-changed=TAKT_CONFIG");
    let Some(path) = env::var_os("TAKT_CONFIG") else {
        return;
    };
    let path = Path::new(&path);
    println!("cargo::rerun-if-changed={}", path.display());
    let known = known();
    let values = fs::read_to_string(path)
        .map_err(|error| error.to_string())
        .and_then(|text| parse(&text, &known));
    match values {
        Ok(values) => {
            for (variable, value) in values {
                println!("cargo::rerun-if-env-changed={variable}");
                if env::var_os(&variable).is_none() {
                    println!("cargo::rustc-env={variable}={value}");
                }
            }
        }
        Err(error) => println!("cargo::error={}: {error}", path.display()),
    }
}
