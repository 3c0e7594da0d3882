//! The smallest image and each part that it does without: all boot, and take what the documentation says.

use anyhow::{Context, Result, ensure};

use super::Stage;
use takt_guest::Elf;
use takt_image::small::{MORE, PARTS, Size, recipe, size_of};
use takt_machine::run::once::Folder;
use takt_machine::run::provenance::git_revision;

/// What the smallest image may take.
const MOST: Size = Size {
    code: 16 << 10,
    ram: 128 << 10,
};

/// The documentation is not wrong by more than so many bytes and a twentieth. RAM is whole pages.
const SLACK: Size = Size {
    code: 200,
    ram: 4096,
};

const PAGE: &str = include_str!("../../../docs/CAPACITIES.md");

pub(super) fn smallest_and_parts(stage: &Stage) -> Result<()> {
    let folder = Folder::create_at(stage.dir("boots").into())?;
    let smallest = measure(&folder, None)?;
    let mut wrong = Vec::new();
    let mut look = |part: &str, size: Size| {
        if !is_told(part, size)? {
            let (code, ram) = (rounded(size.code), rounded(size.ram));
            wrong.push(format!("| `{part}` | {code} | {ram} |"));
        }
        anyhow::Ok(())
    };
    look("image", smallest)?;
    for part in PARTS.into_iter().chain(more()) {
        let with = measure(&folder, Some(part))?;
        let more = Size {
            code: with.code.saturating_sub(smallest.code),
            ram: with.ram.saturating_sub(smallest.ram),
        };
        look(part, more)?;
    }
    look("function", of_functions()?)?;
    ensure!(
        wrong.is_empty(),
        "docs/CAPACITIES.md does not say what is measured:\n{}",
        wrong.join("\n")
    );
    ensure!(
        smallest.code <= MOST.code && smallest.ram <= MOST.ram,
        "{smallest:?} is more than {MOST:?}"
    );
    Ok(())
}

/// Which of [`MORE`] are measured, since each is a build: those that have the others in them, and of the others two in turn, by what
/// the commit is called; or all.
fn more() -> Vec<&'static str> {
    if std::env::var_os("TAKT_ALL_PARTS").is_some() {
        return MORE.into();
    }
    let (mut measured, others): (Vec<_>, Vec<_>) = MORE
        .into_iter()
        .partition(|part| ["default", "tasks"].contains(part));
    let revision = git_revision();
    let digits = revision.get(..4).unwrap_or_default();
    let turn = usize::from_str_radix(digits, 16).unwrap_or_default();
    measured.extend(others.iter().cycle().skip(turn % others.len()).take(2));
    measured
}

/// What function tracing adds to the image that is measured, as the budget has both.
fn of_functions() -> Result<Size> {
    const BUDGET: &str = include_str!("../../../takt.budget.toml");
    let figure = |image: &str, what: &str| -> Result<u64> {
        let begin = format!("\"bench.image-{image}-{what}\" = ");
        let value = BUDGET.lines().find_map(|line| line.strip_prefix(&begin));
        Ok(value.with_context(|| format!("no {begin}"))?.parse()?)
    };
    let more = |parts: &[&str]| -> Result<u64> {
        parts.iter().try_fold(0, |sum, part| {
            Ok(sum + figure("function", part)? - figure("full", part)?)
        })
    };
    Ok(Size {
        code: more(&["text", "rodata"])?,
        ram: more(&["text", "rodata", "data", "bss"])?,
    })
}

/// Builds an image, sees that it runs to its end, and how large it is.
fn measure(folder: &Folder, part: Option<&str>) -> Result<Size> {
    let context = || format!("the smallest image with {}", part.unwrap_or("nothing"));
    let elf = Elf::open(&recipe(part).build()?.path).with_context(context)?;
    folder.boot(&elf, "").with_context(context)?;
    size_of(&elf).with_context(context)
}

/// Whether the table has these figures of a part.
fn is_told(part: &str, more: Size) -> Result<bool> {
    let begin = format!("| `{part}` | ");
    let mut cells = PAGE
        .lines()
        .find_map(|line| line.strip_prefix(&begin))
        .with_context(|| format!("docs/CAPACITIES.md has no row of {part}"))?
        .split(" | ");
    let mut number = || -> Option<u64> { cells.next()?.replace(',', "").parse().ok() };
    let (code, ram) = (number(), number());
    let is_right = |told: Option<u64>, is: u64, slack: u64| {
        told.is_some_and(|told| told.abs_diff(is) <= slack + is / 20)
    };
    Ok(is_right(code, more.code, SLACK.code) && is_right(ram, more.ram, SLACK.ram))
}

/// A hundred bytes more or less are no news.
fn rounded(bytes: u64) -> u64 {
    (bytes + 50) / 100 * 100
}
