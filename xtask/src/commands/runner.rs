//! `runner`: what cargo calls with an image that it has built.

use std::iter;
use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;

use super::dispatch;
use super::test::{self, Choice};
use takt_base::{setup, term};
use takt_cli::{Cli, Runner, TestWords};
use takt_guest::Elf;
use takt_image::lean;

/// Boots the image, or runs the tests in it.
pub(super) fn run(flags: Runner) -> Result<ExitCode> {
    lean::tell(&lean::make(&flags.image)?);
    let elf = Elf::open(&flags.image)?;
    if test::has_tests(&elf) {
        // The first word would be the program's name.
        let words = iter::once("test".into()).chain(flags.args);
        return match TestWords::try_parse_from(words) {
            Ok(words) => tests(&elf, words),
            Err(error) => Ok(takt_cli::refuse(&error)),
        };
    }
    let words = ["xtask", "run", "--image"].map(str::to_owned);
    let image = flags.image.to_string_lossy().into_owned();
    let words = words.into_iter().chain([image]).chain(flags.args);
    match Cli::try_parse_from(words) {
        Ok(cli) => dispatch(cli),
        Err(error) => Ok(takt_cli::refuse(&error)),
    }
}

/// Runs the tests that are chosen, or lists them.
fn tests(elf: &Elf, words: TestWords) -> Result<ExitCode> {
    let without_effect = [
        (
            words.test_threads.is_some_and(|nr| nr > 1),
            "--test-threads: tests on the target run one after another",
        ),
        (
            words.nocapture || words.show_output,
            "what a test prints is shown where it fails",
        ),
        (words.ignored, "no test on the target is ignored"),
    ];
    for (_, why) in without_effect.iter().filter(|(is_given, _)| *is_given) {
        term::note(why);
    }
    setup::ensure_qemu(true)?;
    let choice = Choice {
        only: words.only,
        skip: words.skip,
        is_exact: words.exact,
        is_none: words.ignored,
    };
    match words.list {
        true => test::list_of_image(elf, &choice),
        false => test::of_image(elf, &choice),
    }
}
