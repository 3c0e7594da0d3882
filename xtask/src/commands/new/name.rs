//! The name of what `new` makes.

use std::fs;
use std::path::Path;

use anyhow::{Result, anyhow};

use takt_base::term::WithHelp;

/// That of the folder that is made.
///
/// # Errors
///
/// If it has none that can be written down.
pub(super) fn of_folder(path: &Path) -> Result<String> {
    // Of `demo/..` too.
    let resolved = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    resolved
        .file_name()
        .and_then(|name| name.to_str())
        .map(str::to_owned)
        .ok_or_else(|| anyhow!("{} has no name for a package", path.display()))
        .help("give it one: --name NAME")
}

/// Names of crates that an application cannot have: of keywords, of what each crate knows, of its dependencies, and of its own
/// parts.
const TAKEN: [&str; 62] = [
    "abstract",
    "alloc",
    "as",
    "async",
    "await",
    "become",
    "box",
    "break",
    "build",
    "const",
    "continue",
    "core",
    "crate",
    "defmt",
    "deps",
    "do",
    "dyn",
    "else",
    "embedded_hal",
    "enum",
    "examples",
    "extern",
    "false",
    "final",
    "fn",
    "for",
    "gen",
    "if",
    "impl",
    "in",
    "let",
    "loop",
    "macro",
    "match",
    "mod",
    "move",
    "mut",
    "ontarget",
    "override",
    "priv",
    "proc_macro",
    "pub",
    "ref",
    "return",
    "self",
    "static",
    "std",
    "struct",
    "super",
    "test",
    "trait",
    "true",
    "try",
    "type",
    "typeof",
    "unsafe",
    "unsized",
    "use",
    "virtual",
    "where",
    "while",
    "yield",
];

/// Refuses a name that no package or crate can have.
///
/// # Errors
///
/// What is wrong with it.
pub(super) fn check(name: &str) -> Result<()> {
    let is_plain = name.starts_with(|c: char| c.is_ascii_lowercase())
        && name
            .chars()
            .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || "-_".contains(c));
    // Packages `a-b` and `a_b` are one crate.
    let krate = name.replace('-', "_");
    if is_plain && !TAKEN.contains(&krate.as_str()) && !krate.starts_with("takt_") {
        return Ok(());
    }
    let why = match is_plain {
        true => "the name is taken",
        false => "small letters, digits, - and _, a letter first",
    };
    Err(anyhow!("no package can have the name `{name}`: {why}")).help("give another: --name NAME")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_no_package_can_have_are_refused() {
        for name in ["demo", "my-app", "a_1"] {
            assert!(check(name).is_ok(), "{name}");
        }
        for name in [
            "",
            "1a",
            "Demo",
            "a b",
            "ä",
            "std",
            "takt-kernel",
            "takt_kernel",
            "embedded-hal",
            "ontarget",
            "loop",
            "where",
            "gen",
        ] {
            let error = format!("{:#}", check(name).unwrap_err());
            assert!(error.contains("--name"), "{name}: {error}");
        }
    }
}
