//! `new --c`: a program in C, with the kernel as a static library.

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result};

use super::put;
use super::source::{RUNNER, utf8};
use takt_base::input;
use takt_base::{output, paths};
use takt_image::library::{self, Library};

const MAKEFILE: &str = include_str!("../../../templates/c/Makefile.txt");
const MAIN: &str = include_str!("../../../templates/c/main.c.txt");
const LINK_ARGS: &str = include_str!("../../../../board/ld/link-args.txt");

/// Makes the folder. `shown` is its name as the user wrote it.
pub(super) fn make(shown: &Path, path: &Path, name: &str) -> Result<ExitCode> {
    let library = library::build(0)?;
    output::to_folder(path, |dir| write(dir, name, &library))?;
    let shown = shown.display();
    output::line(format_args!(
        "{shown}: the program `{name}`, in C\n  cd {shown}\n  make run      boots it in QEMU, with its log and its trace"
    ))?;
    Ok(ExitCode::SUCCESS)
}

fn write(dir: &Path, name: &str, library: &Library) -> Result<()> {
    let takt = paths::workspace();
    put(&dir.join("Makefile"), makefile(name, &takt)?.as_bytes())?;
    put(&dir.join("main.c"), MAIN.as_bytes())?;
    put(&dir.join(".gitignore"), b"/build\n/runs\n")?;
    let copies = [
        ("takt.h", library.header.clone()),
        ("libtakt.a", library.archive.clone()),
        ("takt.ld", takt.join("board/ld/takt.ld")),
        ("trace.x", takt.join("tracer/trace.x")),
        ("defmt.x", library.defmt.clone()),
    ];
    for (file, source) in copies {
        let bytes =
            input::read(&source).with_context(|| format!("cannot read {}", source.display()))?;
        put(&dir.join("takt").join(file), &bytes)?;
    }
    Ok(())
}

fn makefile(name: &str, takt: &Path) -> Result<String> {
    let arguments: Vec<_> = LINK_ARGS.split_whitespace().collect();
    let runner = format!("{} {}", quoted(RUNNER), quoted(utf8(takt)?));
    Ok(MAKEFILE
        .replace("{link args}", &arguments.join(" "))
        .replace("{runner}", &runner)
        .replace("{name}", name))
}

/// A word for the shell, in a line of a makefile.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', "'\\''")).replace('$', "$$")
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    /// By the shell as make calls it: with each `$$` as one `$`.
    #[test]
    fn the_runner_gets_the_folder_whatever_its_name() {
        let takt = Path::new("/a b/it's $HOME \"takt\" # 1");
        let text = makefile("demo", takt).unwrap();
        let (_, line) = text.split_once("\t@sh -c ").unwrap();
        let (line, _) = line.split_once('\n').unwrap();
        // What is run instead says what it is given.
        let line = line.replace(&quoted(RUNNER), &quoted("echo \"$0\" \"$@\""));
        let line = line.replace("$(ARGS)", "--smp 2").replace("$$", "$");
        let output = Command::new("sh")
            .args(["-c", &format!("sh -c {line}")])
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        let expected = format!("{} build/demo --smp 2\n", takt.display());
        assert_eq!(said, expected, "{output:?}");
    }
}
