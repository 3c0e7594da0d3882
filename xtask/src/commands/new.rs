//! `new`: an application outside of this repository, with everything in its own files that an image is built with.

mod in_c;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, anyhow};

use super::budget;
use crate::cli::New;
use crate::image::build::{RUSTFLAGS, TARGET, build_outside};
use crate::term::WithHelp;
use crate::{output, paths};

/// The files, by their names in the application's folder; what stands in braces is put in.
const FILES: [(&str, &str); 9] = [
    (
        "Cargo.toml",
        include_str!("../../templates/new/Cargo.toml.txt"),
    ),
    (
        ".cargo/config.toml",
        include_str!("../../templates/new/config.toml.txt"),
    ),
    ("build.rs", include_str!("../../templates/new/build.rs.txt")),
    (
        "takt.toml",
        include_str!("../../templates/new/takt.toml.txt"),
    ),
    (
        "src/main.rs",
        include_str!("../../templates/new/src/main.rs.txt"),
    ),
    (
        "src/lib.rs",
        include_str!("../../templates/new/src/lib.rs.txt"),
    ),
    (
        "src/lamp.rs",
        include_str!("../../templates/new/src/lamp.rs.txt"),
    ),
    (
        "tests/ontarget.rs",
        include_str!("../../templates/new/tests/ontarget.rs.txt"),
    ),
    (".gitignore", "/target\n/runs\n"),
];

/// A profile of an image.
const PROFILE: &str = include_str!("../../templates/new/profile.toml.txt");

/// Takt's packages in an application, and where they are in its sources.
const PACKAGES: [(&str, &str); 4] = [
    ("takt-board", "board"),
    ("takt-kernel", "kernel"),
    ("takt-tracer", "tracer"),
    ("takt-test", "tests/harness"),
];

/// What of Takt's own files an application begins with: the toolchain, and the versions of all crates that it is tested with.
const COPIES: [&str; 2] = ["rust-toolchain.toml", "Cargo.lock"];

/// Brings the tool up to date and runs it in the application's folder: there it would be built with the flags of an image.
/// Where it is built does not depend on where the user has cargo put what it builds.
const RUNNER: &str = r#"(cd "$0" && cargo build --quiet --package xtask --target-dir target) && exec "$0/target/debug/xtask" runner "$@""#;

/// Makes the folder, and builds what is in it: its first budget is of that.
pub(super) fn run(flags: &New) -> Result<ExitCode> {
    let path = std::path::absolute(&flags.path)?;
    let name = match &flags.name {
        Some(name) => name.clone(),
        None => of_folder(&path)?,
    };
    check(&name)?;
    if flags.c {
        return in_c::make(&flags.path, &path, &name);
    }
    output::to_folder(&path, |dir| write(dir, &name))?;
    let shown = flags.path.display();
    tell!("Building `{name}` …");
    let begun = build_outside(&path, &name).and_then(|image| budget::begin(&path, &image));
    begun
        .with_context(|| format!("{shown} is there, but not its budget"))
        .help(format!(
            "when it builds: cd {shown} && cargo build && takt budget update --image ELF"
        ))?;
    output::line(format_args!(
        "{shown}: the application `{name}`\n  cd {shown}\n  cargo run     boots it in QEMU, with its log and its trace\n  \
         cargo test    runs its tests on the target"
    ))?;
    Ok(ExitCode::SUCCESS)
}

fn of_folder(path: &Path) -> Result<String> {
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

fn check(name: &str) -> Result<()> {
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

fn write(dir: &Path, name: &str) -> Result<()> {
    let takt = paths::workspace();
    for (file, text) in FILES {
        put(&dir.join(file), filled(text, name, &takt)?.as_bytes())?;
    }
    for file in COPIES {
        let source = takt.join(file);
        let bytes =
            fs::read(&source).with_context(|| format!("cannot read {}", source.display()))?;
        put(&dir.join(file), &bytes)?;
    }
    Ok(())
}

fn put(path: &Path, bytes: &[u8]) -> Result<()> {
    let cannot = || format!("cannot write {}", path.display());
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent).with_context(cannot)?;
    }
    fs::write(path, bytes).with_context(cannot)
}

/// A template with everything put in.
fn filled(text: &str, name: &str, takt: &Path) -> Result<String> {
    let flags = RUSTFLAGS.split_whitespace().chain(["-C", "panic=abort"]);
    let flags: Vec<_> = flags.collect();
    let flags: Vec<_> = flags
        .chunks(2)
        .map(|pair| format!("    \"{}\",", pair.join("\", \"")))
        .collect();
    let runner = ["sh", "-c", RUNNER, utf8(takt)?];
    let mut text = text
        .replace("{profiles}", &profiles())
        .replace("{target}", TARGET)
        .replace("{rustflags}", &flags.join("\n"))
        // What JSON writes, TOML reads as the same.
        .replace("{runner}", &serde_json::to_string(&runner)?);
    for (package, place) in PACKAGES {
        let path: PathBuf = takt.join(place);
        let source = format!("path = {}", serde_json::to_string(utf8(&path)?)?);
        text = text.replace(&format!("{{{package}}}"), &source);
    }
    Ok(text
        .replace("{name}", name)
        .replace("{crate}", &name.replace('-', "_")))
}

fn utf8(path: &Path) -> Result<&str> {
    path.to_str()
        .ok_or_else(|| anyhow!("the name of {} is not UTF-8", path.display()))
}

fn profiles() -> String {
    let profiles = ["dev", "release"].map(|name| PROFILE.replace("{profile}", name));
    profiles.join("\n").trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::process::Command;

    use super::*;
    use serde_json::{Map, Value};

    fn toml(text: &str) -> Value {
        basic_toml::from_str(text).unwrap()
    }

    #[test]
    fn profiles_are_those_of_takts_own_images() {
        let own = toml(include_str!("../../../Cargo.toml"));
        let profiles = toml(&profiles());
        // The workspace's own packages are dependencies of an application.
        let expected = |profile: &Value| {
            let mut all: Map<_, _> = profile.as_object().unwrap().clone();
            all.remove("inherits");
            all.remove("package");
            // That is among the flags.
            assert_eq!(all.remove("panic"), Some("abort".into()));
            all
        };
        for name in ["dev", "release"] {
            let made = &profiles["profile"][name];
            for (key, value) in expected(&own["profile"]["image"]) {
                assert_eq!(made[&key], value, "{name}.{key}");
            }
            let packages = own["profile"]["image"]["package"].as_object().unwrap();
            for (package, value) in packages {
                assert_eq!(&made["package"][package], value, "{name}.{package}");
            }
        }
    }

    #[test]
    fn files_are_sound_whatever_the_folders_name() {
        let takt = Path::new("/a b/it's \"takt\"");
        let file = |name: &str| {
            let (_, text) = FILES.iter().find(|(file, _)| *file == name).unwrap();
            filled(text, "my-app", takt).unwrap()
        };
        let manifest = toml(&file("Cargo.toml"));
        assert_eq!(manifest["package"]["name"], "my-app");
        assert_eq!(
            manifest["dependencies"]["takt-board"]["path"],
            "/a b/it's \"takt\"/board"
        );
        let config = toml(&file(".cargo/config.toml"));
        let target = &config["target"][TARGET];
        assert_eq!(target["runner"][3], "/a b/it's \"takt\"");
        let flags = target["rustflags"].as_array().unwrap();
        let flags: Vec<_> = flags.iter().map(|flag| flag.as_str().unwrap()).collect();
        assert_eq!(flags.join(" "), format!("{} -C panic=abort", own_flags()));
        assert!(file("src/main.rs").contains("use my_app::"));
    }

    /// The tool is found again wherever the user has cargo put what it builds.
    #[test]
    fn the_runner_runs_what_it_has_built() {
        let dir = tempfile::tempdir().unwrap();
        let cargo = dir.path().join("cargo");
        let script = "#!/bin/sh\nto=${CARGO_BUILD_TARGET_DIR:-target}\n\
            while [ $# -gt 0 ]; do [ \"$1\" = --target-dir ] && to=$2; shift; done\n\
            mkdir -p $to/debug && cp /bin/echo $to/debug/xtask\n";
        fs::write(&cargo, script).unwrap();
        fs::set_permissions(&cargo, fs::Permissions::from_mode(0o755)).unwrap();
        let output = Command::new("sh")
            .args(["-c", RUNNER])
            .arg(dir.path())
            .args(["ELF", "--list"])
            .env("PATH", format!("{}:/usr/bin:/bin", dir.path().display()))
            .env("CARGO_BUILD_TARGET_DIR", dir.path().join("elsewhere"))
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert_eq!(said, "runner ELF --list\n", "{output:?}");
    }

    fn own_flags() -> String {
        RUSTFLAGS.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn all_capacities_and_features_are_in_the_table() {
        let page = include_str!("../../../docs/APPLICATION.md");
        let config = include_str!("../../../kernel/src/config.rs");
        let capacities: Vec<_> = config.split("option_env!(\"TAKT_").skip(1).collect();
        assert!(capacities.len() > 15);
        for part in capacities {
            let (name, rest) = part.split_once("\"), ").unwrap();
            let (value, _) = rest.split_once(");").unwrap();
            let value: u64 = value
                .split(" * ")
                .map(|it| it.parse::<u64>().unwrap())
                .product();
            let row = format!("| `{}` | {value} |", name.to_lowercase());
            assert!(page.contains(&row), "{row}");
        }
        let board = toml(include_str!("../../../board/Cargo.toml"));
        for name in board["features"].as_object().unwrap().keys() {
            let is_there = name == "default" || page.contains(&format!("| `{name}` |"));
            assert!(is_there, "{name}");
        }
    }

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
