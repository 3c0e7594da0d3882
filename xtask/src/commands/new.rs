//! `new`: an application outside of this repository, with everything in its own files that an image is built with.

mod in_c;
mod name;
mod source;
mod with_tasks;

use std::fs;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result};

use self::source::Source;
use super::budget;
use takt_base::output;
use takt_base::term::WithHelp;
use takt_cli::New;
use takt_image::build::{RUSTFLAGS, TARGET, build_outside};

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

/// What of Takt's own files an application begins with: the toolchain, and the versions of all crates that it is tested with.
const COPIES: [(&str, &str); 2] = [
    (
        "rust-toolchain.toml",
        include_str!("../../../rust-toolchain.toml"),
    ),
    ("Cargo.lock", include_str!("../../../Cargo.lock")),
];

/// Makes the folder, and builds what is in it: its first budget is of that.
pub(super) fn run(flags: &New) -> Result<ExitCode> {
    let path = std::path::absolute(&flags.path)?;
    let name = match &flags.name {
        Some(name) => name.clone(),
        None => name::of_folder(&path)?,
    };
    name::check(&name)?;
    if flags.c {
        return in_c::make(&flags.path, &path, &name);
    }
    let source = Source::of(flags)?;
    if flags.tasks {
        return with_tasks::make(&flags.path, &path, &name, &source);
    }
    output::to_folder(&path, |dir| write(dir, &FILES, &name, &source))?;
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
    source.tell_install()?;
    Ok(ExitCode::SUCCESS)
}

fn write(dir: &Path, files: &[(&str, &str)], name: &str, source: &Source) -> Result<()> {
    for (file, text) in files {
        put(&dir.join(file), filled(text, name, source)?.as_bytes())?;
    }
    for (file, text) in COPIES {
        put(&dir.join(file), text.as_bytes())?;
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
fn filled(text: &str, name: &str, source: &Source) -> Result<String> {
    let flags = RUSTFLAGS.split_whitespace().chain(["-C", "panic=abort"]);
    let flags: Vec<_> = flags.collect();
    let flags: Vec<_> = flags
        .chunks(2)
        .map(|pair| format!("    \"{}\",", pair.join("\", \"")))
        .collect();
    let mut text = text
        .replace("{profiles}", &profiles())
        .replace("{profile}", &with_tasks::profile())
        .replace("{target}", TARGET)
        .replace("{rustflags}", &flags.join("\n"))
        // What JSON writes, TOML reads as the same.
        .replace("{runner}", &serde_json::to_string(&source.runner()?)?)
        .replace("{alias}", &source.alias()?)
        .replace("{takt}", source.tool());
    for (package, dependency) in source.dependencies()? {
        text = text.replace(&format!("{{{package}}}"), &dependency);
    }
    Ok(text
        .replace("{name}", name)
        .replace("{crate}", &name.replace('-', "_")))
}

fn profiles() -> String {
    let profiles = ["dev", "release"].map(|name| PROFILE.replace("{profile}", name));
    profiles.join("\n").trim_end().to_owned()
}

#[cfg(test)]
mod tests {
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
                // An application has not all of Takt's dependencies and has some of its own.
                let made = made["package"]
                    .get(package)
                    .unwrap_or(&made["package"]["*"]);
                assert_eq!(made, value, "{name}.{package}");
            }
        }
    }

    #[test]
    fn files_are_sound_whatever_the_folders_name() {
        let takt = Source::Path("/a b/it's \"takt\"".into());
        let file = |name: &str| {
            let (_, text) = FILES.iter().find(|(file, _)| *file == name).unwrap();
            filled(text, "my-app", &takt).unwrap()
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

    #[test]
    fn tasks_have_all_from_git() {
        let git = Source::Git {
            url: "https://host/takt".into(),
            rev: Some("v1".into()),
        };
        let file = |name: &str| {
            let text = with_tasks::file(name).unwrap();
            filled(text, "my-app", &git).unwrap()
        };
        let had = |manifest: &str, package: &str| {
            let manifest = toml(&file(manifest));
            let had = &manifest["dependencies"][package];
            assert_eq!(had["git"], "https://host/takt");
            assert_eq!(had["rev"], "v1");
        };
        had("Cargo.toml", "takt-board");
        had("tasks/Cargo.toml", "takt-user");
        // What there are no sources for the program `takt` does.
        let config = toml(&file(".cargo/config.toml"));
        assert!(config["alias"].is_null() && config["env"]["TAKT_CONFIG"].is_object());
        assert!(file("README.md").contains("$ takt run --manifest takt.app.toml "));
    }

    fn own_flags() -> String {
        RUSTFLAGS.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn all_capacities_and_features_are_in_the_table() {
        let page = include_str!("../../../docs/CAPACITIES.md");
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
}
