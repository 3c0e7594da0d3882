//! The documents: what stands in a console's block is run as it is typed, what looks like a command is one, and links lead
//! somewhere.

use std::fs;
use std::path::PathBuf;
use std::process::{self, Command};

use anyhow::{Context, Result, ensure};
use takt_base::paths;

use super::Stage;
use super::stage::{Done, program};

/// How lines begin that another end-to-end test types, or a step of `ci`: they take places or devices of their own.
const ELSEWHERE: &[(&str, &str)] = &[
    ("cargo xtask new ../demo", "new_runs_and_is_tested"),
    ("cd ../demo", "new_runs_and_is_tested"),
    ("cargo run", "new_runs_and_is_tested"),
    (
        "cargo install --path ../takt/xtask --bin takt",
        "new_from_git_runs",
    ),
    (
        "cargo install --git URL xtask --bin takt",
        "new_from_git_runs",
    ),
    ("takt new --git URL --rev REV ../demo", "new_from_git_runs"),
    (
        "cargo xtask new --c ../demo",
        "new_c_runs_and_is_told_errors",
    ),
    ("make run", "new_c_runs_and_is_told_errors"),
    (
        "cargo xtask run --manifest takt.app.toml",
        "new_with_tasks_runs",
    ),
    (
        "cargo xtask prove --manifest takt.app.toml",
        "responses_are_below_their_bounds",
    ),
    ("cargo xtask image --usb /dev/sda", "media_flash_and_kexec"),
    ("cargo xtask attach --serial /dev/ttyUSB0", "media_attach"),
    (
        "cargo xtask latency-sweep --slurm",
        "sweep_resumes_and_merges",
    ),
    ("cargo xtask budget check", "budgets and limits"),
    ("RUSTC_BOOTSTRAP=1 cargo check", "lints of the tracers"),
    ("pip install labgrid pytest", "attach_in_labgrid"),
    ("export LG_TAKT_IMAGE=", "attach_in_labgrid"),
    ("pytest --lg-env", "attach_in_labgrid"),
];

/// What does not end with 0.
const ENDS: &[(&str, i32)] = &[("cargo xtask latency-run --load plant -a 20", 2)];

/// A document.
struct Page {
    path: PathBuf,
    text: String,
}

impl Page {
    /// All of them, the first one that is read first.
    fn all() -> Result<Vec<Self>> {
        let top = paths::workspace();
        let mut found = Vec::new();
        for folder in [top.clone(), top.join("docs"), top.join("docs/lab")] {
            let entries = fs::read_dir(&folder)
                .with_context(|| format!("cannot list {}", folder.display()))?;
            let mut here = entries
                .map(|entry| Ok(entry?.path()))
                .collect::<Result<Vec<_>>>()?;
            here.retain(|path| path.extension().is_some_and(|it| it == "md"));
            here.sort();
            found.extend(here);
        }
        let read = |path: PathBuf| {
            let text = fs::read_to_string(&path)
                .with_context(|| format!("cannot read {}", path.display()))?;
            Ok(Self { path, text })
        };
        found.into_iter().map(read).collect()
    }

    fn name(&self) -> String {
        let top = paths::workspace();
        let path = self.path.strip_prefix(top).unwrap_or(&self.path);
        path.display().to_string()
    }

    /// Each line, and what block it stands in.
    fn lines(&self) -> impl Iterator<Item = (Option<&str>, &str)> {
        let mut block = None;
        self.text.lines().map(move |line| {
            let Some(fence) = line.trim_start().strip_prefix("```") else {
                return (block, line);
            };
            block = block.is_none().then_some(fence);
            (Some("fence"), "")
        })
    }

    /// Holds the lines that the page shows of a command's output, in a block with the command's name around it, against what that
    /// prints, and says whether there is such a block. What differs from machine to machine is left out.
    fn shows(&self, line: &str, stdout: &str) -> Result<bool> {
        let name = line.split(' ').next_back().unwrap_or_default();
        let marks = [
            format!("<!-- {name} -->\n```text\n"),
            format!("```\n<!-- /{name} -->"),
        ];
        let behind = self.text.split_once(&marks[0]);
        let Some((shown, _)) = behind.and_then(|(_, text)| text.split_once(&marks[1])) else {
            return Ok(false);
        };
        const OF_THE_MACHINE: [&str; 3] = ["accelerator", "duration", "run folder"];
        let is_exact = |line: &&str| !OF_THE_MACHINE.iter().any(|it| line.starts_with(it));
        let mut printed = stdout.lines();
        for line in shown.lines().filter(is_exact) {
            ensure!(
                printed.any(|it| it == line),
                "what is shown of it is another output, from here on: {line}"
            );
        }
        Ok(true)
    }

    /// What is typed in its consoles' blocks.
    fn typed(&self) -> impl Iterator<Item = &str> {
        self.lines()
            .filter(|(block, _)| *block == Some("console"))
            .filter_map(|(_, line)| line.trim_start().strip_prefix("$ "))
    }
}

/// Which test does it, if it is another one.
fn elsewhere(line: &str) -> Option<&'static (&'static str, &'static str)> {
    ELSEWHERE.iter().find(|(begin, _)| line.starts_with(begin))
}

/// Types all of it, page by page, in a project of its own.
pub(super) fn are_typed(stage: &Stage) -> Result<()> {
    let mut nr_shown = 0;
    for page in Page::all()? {
        for line in page.typed().filter(|line| elsewhere(line).is_none()) {
            let words = line.replacen("cargo xtask", "\"$XTASK\"", 1);
            let output = Command::new("sh")
                .args(["-c", &words])
                .envs(
                    stage
                        .command(&[])
                        .get_envs()
                        .filter_map(|(k, v)| Some((k, v?))),
                )
                .env("XTASK", program())
                .env("TAKT_PROJECT", stage.path())
                .current_dir(paths::workspace())
                .stdin(process::Stdio::null())
                .output()
                .context("cannot run sh")?;
            let end = ENDS.iter().find(|(it, _)| *it == line);
            let is_shown = Done::of(&output)
                .code(end.map_or(0, |(_, code)| *code))
                .and_then(|done| page.shows(line, &done.stdout))
                .with_context(|| format!("{}: `{line}`", page.name()))?;
            nr_shown += usize::from(is_shown);
        }
    }
    // The run and its trace in the README.
    ensure!(nr_shown == 2, "{nr_shown} outputs were compared");
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use clap::Parser;
    use clap::error::ErrorKind;

    use super::super::TESTS;
    use super::*;
    use takt_cli::Cli;
    use xtask::commands::has_ci_step;

    #[test]
    fn what_is_done_elsewhere_is_done_and_stands_in_a_document() {
        let pages = Page::all().unwrap();
        let typed = || pages.iter().flat_map(Page::typed);
        for it @ (begin, name) in ELSEWHERE {
            assert!(typed().any(|line| elsewhere(line) == Some(it)), "{begin}");
            let is_test = TESTS.iter().any(|(test, _)| test == name);
            assert!(is_test || has_ci_step(name), "{name}");
        }
        for (it, _) in ENDS {
            assert!(typed().any(|line| line == *it), "{it}");
        }
        for line in typed() {
            assert!(
                line.contains("cargo ") || elsewhere(line).is_some(),
                "nobody types {line}"
            );
        }
    }

    /// The words of a line, as the shell takes them.
    fn words(line: &str) -> Vec<String> {
        let line = line.replace(['[', ']', '…'], "");
        let output = Command::new("sh")
            .args(["-c", &format!("printf '%s\\0' {line}")])
            .output()
            .unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        text.split_terminator('\0').map(str::to_owned).collect()
    }

    /// What begins with `cargo xtask` or `takt` in a page is a command with flags that there are.
    #[test]
    fn commands_are_commands() {
        let (mut nr, mut wrong) = (0, Vec::new());
        for page in Page::all().unwrap() {
            let inline = page.lines().filter(|(block, _)| block.is_none());
            let inline = inline.flat_map(|(_, line)| line.split('`').skip(1).step_by(2));
            for line in page.typed().chain(inline) {
                let by = ["cargo xtask ", "takt "].map(|program| line.strip_prefix(program));
                let Some(rest) = by.into_iter().flatten().next() else {
                    continue;
                };
                let mut all = vec!["cargo xtask".to_owned()];
                all.extend(words(rest));
                // A command's name alone is one, too.
                let is_fine = |error: &clap::Error| {
                    matches!(
                        error.kind(),
                        ErrorKind::DisplayHelp
                            | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
                            | ErrorKind::MissingRequiredArgument
                    )
                };
                if let Err(error) = Cli::try_parse_from(all)
                    && !is_fine(&error)
                {
                    wrong.push(format!("{}: `{line}`: {error}", page.name()));
                }
                nr += 1;
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
        assert!(nr > 50, "{nr}");
    }

    /// As the page's readers have it: lower case, without punctuation, hyphens for spaces.
    fn anchor(heading: &str) -> String {
        let kept = heading
            .trim()
            .chars()
            .filter(|it| it.is_alphanumeric() || " -_".contains(*it));
        kept.collect::<String>().to_lowercase().replace(' ', "-")
    }

    fn anchors(text: &str) -> BTreeSet<String> {
        let heading = |line: &str| {
            let rest = line.trim_start_matches('#');
            (rest.len() < line.len() && rest.starts_with(' ')).then(|| anchor(rest))
        };
        text.lines().filter_map(heading).collect()
    }

    #[test]
    fn links_lead_somewhere() {
        let pages = Page::all().unwrap();
        let (mut linked, mut wrong) = (BTreeSet::new(), Vec::new());
        for page in &pages {
            for (_, line) in page.lines().filter(|(block, _)| block.is_none()) {
                for link in line.split("](").skip(1) {
                    let link = link.split(')').next().unwrap();
                    if link.contains("://") {
                        continue;
                    }
                    let (file, place) = link.split_once('#').unwrap_or((link, ""));
                    let path = match file {
                        "" => page.path.clone(),
                        _ => page.path.parent().unwrap().join(file),
                    };
                    let Ok(path) = path.canonicalize() else {
                        wrong.push(format!("{}: there is no {link}", page.name()));
                        continue;
                    };
                    if !place.is_empty()
                        && !anchors(&fs::read_to_string(&path).unwrap()).contains(place)
                    {
                        wrong.push(format!("{}: {link} has no such heading", page.name()));
                    }
                    linked.insert(path);
                }
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
        // And each page and drawing is found.
        let drawings = fs::read_dir(paths::workspace().join("docs/drawings")).unwrap();
        let drawings = drawings.map(|entry| entry.unwrap().path());
        for path in pages.iter().map(|page| page.path.clone()).chain(drawings) {
            let is_first = path.parent() == Some(Path::new(&paths::workspace()));
            let path = path.canonicalize().unwrap();
            assert!(is_first || linked.contains(&path), "{}", path.display());
        }
    }

    /// What the picture of an activation tells stands in the run and the trace that the README shows, which are held against what
    /// the commands print.
    #[test]
    fn the_picture_has_the_figures_of_the_readme() {
        let top = paths::workspace();
        let read = |path: &str| fs::read_to_string(top.join(path)).unwrap();
        let (readme, picture) = (read("README.md"), read("docs/drawings/activation.svg"));
        let figures = picture.split("class=\"figure\"").skip(1);
        let figures = figures.map(|text| text.split(['>', '<']).nth(1).unwrap());
        let mut nr = 0;
        for figure in figures {
            let recorded = format!(" 0.008000{figure:0>3}: ");
            let measured = format!(" timer_latency={figure} ns");
            assert!(
                readme.contains(&recorded) || readme.contains(&measured),
                "{figure}"
            );
            nr += 1;
        }
        assert_eq!(nr, 10);
    }

    #[test]
    fn the_readme_is_short() {
        let pages = Page::all().unwrap();
        let readme = pages.iter().find(|page| page.name() == "README.md");
        let nr = readme.unwrap().text.lines().count();
        assert!(nr <= 200, "{nr} lines");
    }
}
