//! `new --tasks`: an application of protected tasks, with an image of its own.

use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;

use super::source::Source;
use super::{PROFILE, write};
use takt_base::output;

/// The files, by their names in the application's folder.
const FILES: [(&str, &str); 11] = [
    (
        "Cargo.toml",
        include_str!("../../../templates/tasks/Cargo.toml.txt"),
    ),
    (
        ".cargo/config.toml",
        include_str!("../../../templates/tasks/config.toml.txt"),
    ),
    (
        "build.rs",
        include_str!("../../../templates/tasks/build.rs.txt"),
    ),
    (
        "takt.app.toml",
        include_str!("../../../templates/tasks/takt.app.toml.txt"),
    ),
    (
        "takt.toml",
        include_str!("../../../templates/new/takt.toml.txt"),
    ),
    (
        "src/main.rs",
        include_str!("../../../templates/tasks/src/main.rs.txt"),
    ),
    (
        "tasks/Cargo.toml",
        include_str!("../../../templates/tasks/tasks/Cargo.toml.txt"),
    ),
    (
        "tasks/supervisor.rs",
        include_str!("../../../templates/tasks/tasks/supervisor.rs.txt"),
    ),
    (
        "tasks/worker.rs",
        include_str!("../../../templates/tasks/tasks/worker.rs.txt"),
    ),
    (
        "README.md",
        include_str!("../../../templates/tasks/README.md.txt"),
    ),
    (".gitignore", "/target\n/runs\n"),
];

/// Makes the folder. `shown` is its name as the user wrote it.
pub(super) fn make(shown: &Path, path: &Path, name: &str, source: &Source) -> Result<ExitCode> {
    output::to_folder(path, |dir| write(dir, &FILES, name, source))?;
    let (shown, takt) = (shown.display(), source.tool());
    output::line(format_args!(
        "{shown}: the application `{name}`, of two tasks\n  cd {shown}\n  \
         {takt} run --manifest takt.app.toml     boots it in QEMU, with its log and its trace"
    ))?;
    source.tell_install()?;
    Ok(ExitCode::SUCCESS)
}

/// The template of a file.
#[cfg(test)]
pub(super) fn file(name: &str) -> Option<&'static str> {
    let found = FILES.iter().find(|(file, _)| *file == name);
    found.map(|(_, text)| *text)
}

/// The profile of images and tasks.
pub(super) fn profile() -> String {
    let profile = PROFILE.replace("{profile}", "image");
    let heading = "[profile.image]\n";
    let more = format!("{heading}inherits = \"release\"\npanic = \"abort\"\n");
    profile.replacen(heading, &more, 1).trim_end().to_owned()
}
