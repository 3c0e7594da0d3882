//! `test`: every test, closing with one line `N passed, N failed`.
//!
//! | part | what |
//! |---|---|
//! | [`host`] | `cargo test` of the crates that run on the host |
//! | [`target`] | the images `ontarget`, `functions`, `tasks`, `registers` and `registers-all`, booted under icount: by [`guest`] |
//! | [`end_to_end`] | `latency-run` and the commands that read its run folder, as a user types them |
//!
//! The first two run at the same time. Progress and failures go to stderr; every failure is shown again at the end.

mod counted;
mod end_to_end;
mod guest;
mod host;
mod storm;
mod stress;
mod tally;
mod target;
pub(super) mod waits;
mod written;

pub(super) use target::Choice;

use std::io::Write;
use std::process::ExitCode;
use std::thread;

use anyhow::{Context, Result, bail, ensure};

use takt_base::{output, paths};
use takt_cli::Test;
use takt_guest::Elf;
use takt_image::{Kept, Recipe};
use tally::Tally;

/// Runs the tests that the flags ask for. Without `--host` and `--target` that is all of them.
pub(super) fn run(flags: &Test) -> Result<ExitCode> {
    let on_host = flags.host || !flags.target;
    let on_target = flags.target || !flags.host;
    takt_base::setup::ensure_qemu(!flags.no_install)?;
    let filter = flags.filter.as_deref();
    if let Some(image) = &flags.image {
        let elf = Elf::open(image)?;
        if !has_tests(&elf) {
            bail!("the image {} has no on-target tests", image.display());
        }
        let tally = Tally::default();
        target::run(&elf, &Choice::having(filter), &flags.into(), &tally);
        return tally.finish();
    }
    let tally = Tally::default();
    if on_target {
        thread::scope(|scope| {
            let target = scope.spawn(|| {
                for image in &IMAGES {
                    if let Err(error) = image.test(filter, flags, &tally) {
                        tally.failed("target", image.name, &format!("{error:#}"));
                    }
                }
            });
            if on_host {
                host::run(filter, &tally);
            }
            end_to_end::run(filter, !flags.no_install, &tally);
            target.join()
        })
        .map_err(|_| anyhow::anyhow!("the thread that boots the target tests panicked"))?;
    } else {
        host::run(filter, &tally);
    }
    if let Some(text) = filter.filter(|_| tally.is_empty()) {
        tally.failed("filter", text, "no test has this in its name");
    }
    tally.finish()
}

/// An image with on-target tests.
struct Image {
    name: &'static str,
    /// Where its sources are.
    folder: &'static str,
    build: fn(name: &str) -> Result<Elf>,
}

const IMAGES: [Image; 5] = [
    Image {
        name: "ontarget",
        folder: "ontarget",
        build: |_| ontarget(),
    },
    Image {
        name: "functions",
        folder: "functions",
        build: |name| build(&Recipe::tests(name, &["function"]), |_| true),
    },
    Image {
        name: "tasks",
        folder: "tasks",
        build: |name| with_tasks(name, "tests/tasks/takt.app.toml"),
    },
    Image {
        name: "registers",
        folder: "registers",
        build: |name| build(&Recipe::tests(name, &[]), |kept| *kept == Kept::Two),
    },
    Image {
        name: "registers-all",
        folder: "registers",
        build: |name| {
            let is_clobber = |kept: &Kept| matches!(kept, Kept::All(found) if found.function.contains("clobber"));
            build(&Recipe::tests(name, &[]), is_clobber)
        },
    },
];

impl Image {
    /// Builds the image and runs its tests, if there are some whose names have `filter`.
    fn test(&self, filter: Option<&str>, flags: &Test, tally: &Tally) -> Result<()> {
        let written = written::names(self.folder)?;
        let choice = Choice::having(filter);
        if !written.iter().any(|name| choice.has(name)) {
            return Ok(());
        }
        let image = (self.build)(self.name)?;
        let listed = target::run(&image, &choice, &flags.into(), tally);
        if let Some(name) = listed.iter().find(|name| !written.contains(*name)) {
            bail!("its test {name} is not where its name says, and would not be found by --filter");
        }
        Ok(())
    }
}

/// Whether there are on-target tests in an image.
pub(super) fn has_tests(elf: &Elf) -> bool {
    let [start, end] = ["__tests_start", "__tests_end"].map(|name| elf.symbol(name).ok());
    start != end
}

/// Runs the on-target tests of an image that are chosen.
pub(super) fn of_image(elf: &Elf, choice: &Choice) -> Result<ExitCode> {
    let tally = Tally::default();
    target::run(elf, choice, &stress::Flags::default(), &tally);
    tally.finish()
}

/// Prints their names as libtest does.
pub(super) fn list_of_image(elf: &Elf, choice: &Choice) -> Result<ExitCode> {
    let names = target::names(elf, choice)?;
    output::to_stdout(|out| {
        for name in &names {
            writeln!(out, "{name}: test")?;
        }
        Ok(writeln!(out, "\n{} tests, 0 benchmarks", names.len())?)
    })
}

/// The image with the kernel's own.
pub(in crate::commands) fn ontarget() -> Result<Elf> {
    build(&Recipe::tests("ontarget", &["ontarget"]), |_| true)
}

/// One with the tasks of a manifest.
pub(in crate::commands) fn with_tasks(name: &str, manifest: &str) -> Result<Elf> {
    let manifest = paths::workspace().join(manifest);
    let recipe = Recipe::tests(name, &[]).with_tasks(&manifest);
    build(&recipe, |kept| *kept == Kept::Two)
}

/// Builds an image with on-target tests, whose interrupts have to keep this.
fn build(recipe: &Recipe, is_expected: fn(&Kept) -> bool) -> Result<Elf> {
    let name = &recipe.name;
    let built = recipe.build()?;
    let kept = &built.kept;
    ensure!(
        is_expected(kept),
        "interrupts of the image `{name}` keep {kept:?}"
    );
    Elf::open(&built.path).with_context(|| format!("the image `{name}` with on-target tests"))
}
