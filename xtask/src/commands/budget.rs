//! `budget`: latency under test.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail};
use takt_timerlat::sweep::SweepBlock;

use super::bench;
use takt_base::term::WithHelp;
use takt_base::{EXIT_THRESHOLD, input, output, paths, setup, term};
use takt_cli::{Budget as Flags, BudgetCheck, BudgetCommand, BudgetFlags};
use takt_guest::Elf;
use takt_image::Recipe;
use takt_machine::run::provenance;
use takt_sweep::What;
use takt_sweep::budget::file::{FILE, Functions};
use takt_sweep::budget::{Budget, changes, figures};
use takt_sweep::document::Document;
use takt_sweep::prove;
use takt_sweep::response::CONFIG;

/// Everything that has a budget.
type Figures = (BTreeMap<String, u64>, BTreeMap<String, Functions>);

/// Measures, and compares or writes.
pub(super) fn run(flags: &Flags) -> Result<ExitCode> {
    let (BudgetCommand::Check(BudgetCheck { flags: how, .. }) | BudgetCommand::Update(how)) =
        &flags.command;
    let is_check = matches!(flags.command, BudgetCommand::Check(_));
    let dir = folder(how, is_check)?;
    let path = dir.join(FILE);
    let compiler = compiler(&dir)?;
    match &flags.command {
        BudgetCommand::Check(BudgetCheck { json, flags }) => {
            // What is wrong with a file is said before minutes are spent.
            if let Some(file) = json {
                output::check_writable(file)?;
            }
            let mut budget = Budget::read(&path, &compiler)?;
            if flags.bounds {
                budget.figures.retain(|name, _| figures::is_of_proof(name));
                budget.functions.clear();
            }
            let (figures, functions) = measure(flags)?;
            let found = changes::find(&budget, &figures, &functions);
            if !json.as_deref().is_some_and(output::is_stdout) {
                output::print(&found.text())?;
            }
            if let Some(file) = json {
                output::to_named(file, &found.json(&budget)?)?;
            }
            if !found.is_of_same() {
                return Err(anyhow::anyhow!(
                    "{} is outdated: it has not the figures that are measured",
                    path.display()
                ))
                .help("look at the figures, then: cargo xtask budget update");
            }
            if !found.is_kept() {
                term::note("if that is meant: cargo xtask budget update");
                return Ok(ExitCode::from(EXIT_THRESHOLD));
            }
            if !found.shrunk.is_empty() {
                term::note("what shrank stays so with: cargo xtask budget update");
            }
            Ok(ExitCode::SUCCESS)
        }
        BudgetCommand::Update(flags) => {
            // That which is built now, whatever happens to the sources in the minutes to come.
            let mut revision = provenance::git_revision_of(&dir);
            let (mut figures, mut functions) = measure(flags)?;
            if flags.bounds {
                // What was not measured stays as it was.
                let before = Budget::read(&path, &compiler)?;
                let is_other = |(name, _): &(String, u64)| !figures::is_of_proof(name);
                figures.extend(before.figures.into_iter().filter(is_other));
                (revision, functions) = (before.revision, before.functions);
            }
            if let Ok(before) = Budget::read(&path, &compiler) {
                let found = changes::find(&before, &figures, &functions);
                output::print(&found.text())?;
            }
            let nr = figures.len();
            if flags.image.is_none() {
                let page = dir.join(bench::page::FILE);
                let text = input::read_to_string(&page)
                    .with_context(|| format!("cannot read {}", page.display()))?;
                output::write_whole(&page, bench::page::with(&text, &figures)?.as_bytes())?;
            }
            Budget::new(revision, compiler, figures, functions).write(&path)?;
            output::line(format_args!("{nr} figures in {FILE}"))?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// Where the file is.
fn folder(flags: &BudgetFlags, is_check: bool) -> Result<PathBuf> {
    let Some(image) = &flags.image else {
        return Ok(paths::workspace());
    };
    let project = paths::project();
    if paths::is_takt(&project) && !(is_check && flags.bounds) {
        return Err(anyhow::anyhow!(
            "the budget of {} would stand among Takt's own",
            image.display()
        ))
        .help("run this in the application's folder");
    }
    Ok(project)
}

/// The compiler that builds the images of what is in this folder.
fn compiler(dir: &Path) -> Result<String> {
    let output = Command::new("rustc")
        .arg("--version")
        .current_dir(dir)
        .output()
        .context("cannot run rustc")?;
    let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    if text.is_empty() {
        bail!("rustc does not tell its version");
    }
    Ok(text)
}

/// Writes the first budget of an application in this folder: the sizes of its image.
pub(super) fn begin(dir: &Path, image: &Path) -> Result<()> {
    let (figures, functions) = of_image(&Elf::open(image)?, None)?;
    let revision = provenance::git_revision_of(dir);
    Budget::new(revision, compiler(dir)?, figures, functions).write(&dir.join(FILE))
}

fn measure(flags: &BudgetFlags) -> Result<Figures> {
    if flags.bounds {
        return Ok((bounds(flags.image.as_deref())?, BTreeMap::new()));
    }
    setup::ensure_qemu(!flags.no_install)?;
    match &flags.image {
        Some(image) => of_image(&Elf::open(image)?, flags.jobs),
        None => of_takt(flags.jobs),
    }
}

/// The bounds of an image, or of Takt's own.
fn bounds(image: Option<&Path>) -> Result<BTreeMap<String, u64>> {
    let is_takts = image.is_none();
    let image = match image {
        Some(image) => image.into(),
        None => Recipe::takt(0).build()?.path,
    };
    if is_takts {
        let config = [CONFIG.to_owned()];
        refuse(&prove::above_limits(&prove::prove_image(
            &image, false, &config,
        )?))?;
    }
    Ok(figures::of_proof(&prove::prove_image(&image, false, &[])?))
}

/// Of an application: what its image takes, and what a sweep of the stretches that it marks finds.
fn of_image(elf: &Elf, jobs: Option<u16>) -> Result<Figures> {
    let (sizes, bytes) = bench::sizes_of(elf)?;
    let mut figures: BTreeMap<_, _> = sizes.into_iter().collect();
    let mut functions = BTreeMap::from([("image-text".to_owned(), bytes)]);
    let is_swept = [SweepBlock::SYMBOL, "takt_mark_begin"].map(|name| elf.symbol(name).is_ok());
    if is_swept == [true; 2] {
        tell!("Sweeping what the image marks …");
        let document = super::latency_sweep::whole(elf, vec![What::Marked], jobs)?;
        let (of_sweep, paths) = complete(&document)?;
        figures.extend(of_sweep);
        functions.extend(paths);
    }
    Ok((figures, functions))
}

fn complete(document: &Document) -> Result<Figures> {
    if !document.is_complete() {
        bail!("the sweep is not complete; see cargo xtask latency-sweep");
    }
    Ok(figures::of_sweep(document))
}

fn of_takt(jobs: Option<u16>) -> Result<Figures> {
    let mut all = BTreeMap::new();
    let bench::Rows {
        values,
        missed,
        functions: of_rows,
    } = bench::rows()?;
    refuse(&missed)?;
    for (name, value) in values {
        all.insert(format!("bench.{name}"), value);
    }
    tell!("Looking for bounds …");
    all.extend(bounds(None)?);
    tell!("Sweeping every primitive …");
    let recipe = Recipe {
        name: "sweep".into(),
        ..Recipe::takt(0)
    };
    let image = recipe.build()?.path;
    let elf = Elf::open(&image)?;
    let mut functions = BTreeMap::new();
    // Where nothing counts times at switches that is known of the proof, too.
    for (counts_at_switches, config) in [(true, &[][..]), (false, &[CONFIG.to_owned()])] {
        let what = What::primitives_by(counts_at_switches);
        let document = super::latency_sweep::whole(&elf, what, jobs)?;
        hold_against(&image, &document, config)?;
        let (of_sweep, paths) = complete(&document)?;
        refuse(&figures::above_limits(&of_sweep))?;
        all.extend(of_sweep);
        functions.extend(paths);
    }
    let named = |(name, of_row)| (format!("bench.{name}"), of_row);
    functions.extend(of_rows.into_iter().map(named));
    Ok((all, functions))
}

/// Fails if a sweep has met a stretch of its image that took longer than what is proved of it.
fn hold_against(image: &Path, sweep: &Document, config: &[String]) -> Result<()> {
    let mut proof = prove::prove_image(image, false, config)?;
    proof.compare_with(sweep);
    if let Some(it) = proof.refuted().first() {
        bail!(prove::refutation(it));
    }
    if let Some(it) = proof.ratios.filter(|_| !config.is_empty()) {
        tell!("{}", it.text());
    }
    Ok(())
}

/// Fails if there are figures above their limits.
fn refuse(above: &[String]) -> Result<()> {
    if !above.is_empty() {
        bail!(
            "above the limit that no budget can raise: {}",
            above.join(", ")
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The benchmark's page says what the budget says, which `check` holds against what is measured.
    #[test]
    fn the_page_has_the_figures_of_the_budget() {
        let budget = Budget::parse(include_str!("../../../takt.budget.toml")).unwrap();
        let page = include_str!("../../../docs/benchmarks.md");
        let expected = bench::page::with(page, &budget.figures).unwrap();
        assert!(
            page == expected,
            "cargo xtask budget update writes docs/benchmarks.md anew"
        );
    }
}
