//! `latency-sweep`: the exact worst case.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Mutex;

use anyhow::{Context, Result};
use indicatif::{ProgressBar, ProgressStyle};
use takt_timerlat::sweep::{SweepBlock, find};

use takt_base::term::{Help, WithHelp};
use takt_base::{EXIT_ERROR, input, output, paths, setup, term};
use takt_cli::LatencySweep;
use takt_guest::Elf;
use takt_guest::signature::Signature;
use takt_guest::symbolize::{SymbolNames, without_hash};
use takt_guest::{patterns, words};
use takt_image::Recipe;
use takt_machine::run::signals::{Watch, Wish};
use takt_machine::run::{folder, provenance};
use takt_sweep::document::{self, Document};
use takt_sweep::work::{Shard, jobs};
use takt_sweep::{Folder, Plan, Progress, SweepConfig, What, slurm, text};

/// Sweeps, or shows the results of an earlier sweep.
pub(super) fn run(flags: &LatencySweep) -> Result<ExitCode> {
    if let Some(dir) = &flags.from {
        let dir = named(dir)?;
        return show(flags, &load(&dir)?, &dir);
    }
    if let Some(file) = &flags.json {
        output::check_writable(file)?;
    }
    setup::ensure_qemu(!flags.no_install)?;
    let folder = open(flags)?;
    let elf = folder.elf()?;
    let shard = match flags.shard {
        Some((index, of)) => Shard {
            index: index - 1,
            of,
        },
        None => Shard { index: 0, of: 1 },
    };
    let progress = Bar::new(flags.quiet)?;
    let on_a_cluster = |tasks| {
        let array = slurm::Array {
            tasks,
            jobs: flags.jobs.unwrap_or(1),
            sbatch: &flags.sbatch,
        };
        slurm::run(&folder, array, &progress)
    };
    let measured = flags.slurm.map_or(Ok(()), on_a_cluster);
    let measured =
        measured.and_then(|()| takt_sweep::run(&folder, &elf, jobs(flags.jobs), shard, &progress));
    progress.finish();
    let measured = measured.map_err(|error| match error.is::<Help>() {
        true => error,
        false => error.context(Help(format!(
            "what was measured is kept: cargo xtask latency-sweep --resume {}{}",
            paths::shown(folder.dir()),
            flags
                .slurm
                .map(|tasks| format!(" --slurm={tasks}"))
                .unwrap_or_default()
        ))),
    })?;
    let document = document::write(&folder, &elf, &measured);
    let json = output::json_pretty(&document)?;
    output::write_or_nothing(&folder.dir().join(document::FILE), json.as_bytes())?;
    show(flags, &document, folder.dir())
}

/// Sweeps these stretches of an image and keeps nothing but the result.
pub(super) fn whole(elf: &Elf, what: Vec<What>, nr_jobs: Option<u16>) -> Result<Document> {
    let dir = takt_base::scratch::folder()?;
    let plan = Plan::new(SweepConfig::new(what, elf), None);
    let folder = Folder::create(dir.path(), plan, &elf.data)?;
    let progress = Bar::new(false)?;
    let all = Shard { index: 0, of: 1 };
    let measured = takt_sweep::run(&folder, elf, jobs(nr_jobs), all, &progress);
    progress.finish();
    Ok(document::write(&folder, elf, &measured?))
}

/// The folder of an earlier sweep, by its path or by its name in runs/.
fn named(dir: &Path) -> Result<PathBuf> {
    folder::named_folder(dir, &paths::runs())
}

fn load(dir: &Path) -> Result<Document> {
    let file = dir.join(document::FILE);
    let json = input::read(&file)
        .with_context(|| format!("cannot read {}", file.display()))
        .help(match dir.join(folder::SWEEP).is_file() {
            true => "an interrupted sweep has none yet: go on with it by --resume".into(),
            false => folder::other_way(dir, folder::NAME_A_SWEEP),
        })?;
    Document::read(&json)
        .with_context(|| format!("{} cannot be used", file.display()))
        .help("--resume writes it anew from what was measured")
}

/// The folder to work in and what is swept there: that of an earlier sweep, or a new one.
fn open(flags: &LatencySweep) -> Result<Folder> {
    if let Some(dir) = &flags.resume {
        let folder = Folder::open(&named(dir)?)?;
        if !flags.merge.is_empty() {
            folder.take_over(&folder.gather(&opened(&flags.merge)?)?)?;
        }
        return Ok(folder);
    }
    let shards = opened(&flags.merge)?;
    if let Some(first) = shards.first() {
        // What cannot be put together is refused before anything is written.
        let image = first.elf()?.data;
        let parts = first.gather(&shards)?;
        let folder = Folder::create(&output(flags)?, first.plan().clone(), &image)?;
        folder.take_over(&parts)?;
        return Ok(folder);
    }
    let elf = image(flags)?;
    elf.symbol(SweepBlock::SYMBOL)?;
    let table = takt_guest::events::table(&elf)?;
    let config = SweepConfig {
        window_ns: flags.window,
        step: flags.step,
        priority: flags.priority,
        event_ids: patterns::resolve(&flags.events, &words::known(&table))?,
        words: words::translate(&flags.append, &elf)?.line,
        ..SweepConfig::new(what(flags, &elf)?, &elf)
    };
    // What an image that was built before was built from is not known.
    let git = flags.image.is_none().then(provenance::git_revision);
    Folder::create(&output(flags)?, Plan::new(config, git), &elf.data)
}

fn opened(dirs: &[PathBuf]) -> Result<Vec<Folder>> {
    dirs.iter().map(|dir| Folder::open(&named(dir)?)).collect()
}

fn output(flags: &LatencySweep) -> Result<PathBuf> {
    match &flags.output {
        Some(dir) => Ok(dir.clone()),
        None => folder::next_free(&paths::runs(), "sweep"),
    }
}

fn image(flags: &LatencySweep) -> Result<Elf> {
    if let Some(path) = &flags.image {
        return Elf::open(path);
    }
    let (kind, name) = match (&flags.example, &flags.bin) {
        (Some(example), _) => ("--example", example.as_str()),
        (None, Some(bin)) => ("--bin", bin.as_str()),
        (None, None) => ("--bin", "sweep"),
    };
    let recipe = Recipe {
        package: flags.package.clone(),
        kind,
        name: name.into(),
        ..Recipe::takt(flags.verbose)
    }
    .for_words(&flags.append);
    Elf::open(&recipe.build()?.path)
}

/// What the flags name.
fn what(flags: &LatencySweep, elf: &Elf) -> Result<Vec<What>> {
    let is_own = flags.example.is_none() && flags.bin.is_none() && flags.image.is_none();
    let mut what = Vec::new();
    for name in &flags.workload {
        match name.as_str() {
            "all" => what.extend(What::primitives()),
            "loads" => what.extend(What::loads()),
            name if find(name).is_some() => what.push(What::Workload(name.into())),
            name => {
                return Err(anyhow::anyhow!("there is no workload `{name}`"))
                    .help("cargo xtask latency-sweep --help lists them");
            }
        }
    }
    for name in &flags.entry {
        what.push(entry(name, elf)?);
    }
    if what.is_empty() && is_own {
        what = What::primitives();
    } else if what.is_empty() {
        what.push(What::Marked);
    }
    let mut seen: Vec<What> = Vec::new();
    what.retain(|it| {
        let is_new = !seen.contains(it);
        seen.push(it.clone());
        is_new
    });
    Ok(what)
}

/// The function of this name.
fn entry(name: &str, elf: &Elf) -> Result<What> {
    let names = SymbolNames::new(elf);
    let is_meant = |full: &str| {
        let plain = without_hash(full);
        plain == name || plain.ends_with(&format!("::{name}"))
    };
    let found: Vec<_> = names
        .iter()
        .filter(|(_, full)| is_meant(full))
        .map(|(address, full)| (address, full.into_owned()))
        .collect();
    match found.as_slice() {
        [(address, _)] => {
            check_callable(name, Signature::of(elf, *address))?;
            Ok(What::Entry {
                symbol: name.into(),
                address: *address,
            })
        }
        [] => Err(anyhow::anyhow!(
            "{} has no function `{name}`",
            elf.path.display()
        ))
        .help("a function that was inlined everywhere is not there: #[inline(never)]"),
        several => {
            let names: Vec<_> = several.iter().map(|(_, full)| full.as_str()).collect();
            Err(anyhow::anyhow!(
                "`{name}` may be any of {}",
                names.join(", ")
            ))
            .help("name more of its path")
        }
    }
}

/// Whether a function can be called with nothing.
fn check_callable(name: &str, signature: Option<Signature>) -> Result<()> {
    let Some(signature) = signature else {
        term::note(format_args!(
            "the image does not say whether `{name}` takes arguments: it is called without"
        ));
        return Ok(());
    };
    let wrapper = format!(
        "sweep a function without arguments that calls it: #[inline(never)] fn …() {{ black_box({name}(…)); }}"
    );
    if !signature.arguments.is_empty() {
        return Err(anyhow::anyhow!(
            "`{name}` cannot be swept by --entry, which calls it without arguments: it takes {}",
            signature.arguments.join(", ")
        ))
        .help(wrapper);
    }
    if signature.has_hidden_argument() {
        return Err(anyhow::anyhow!(
            "`{name}` cannot be swept by --entry, which calls it without arguments: its result of {} bytes goes to a \
             place that the caller names",
            signature.result
        ))
        .help(wrapper);
    }
    Ok(())
}

/// Prints the results.
fn show(flags: &LatencySweep, document: &Document, dir: &Path) -> Result<ExitCode> {
    if let Some(file) = &flags.json {
        output::to_named(file, &output::json_pretty(document)?)?;
    }
    if !flags.json.as_deref().is_some_and(output::is_stdout) {
        output::print(&text::render(document))?;
        tell!("results in {}", paths::shown(dir));
    }
    if document.is_complete() {
        return Ok(ExitCode::SUCCESS);
    }
    let advice = match flags.shard {
        Some(_) => "this was one shard: put them together by --merge",
        None => "see above what was not hit, not measured or astray",
    };
    term::note(format_args!("the sweep is not complete: {advice}"));
    let is_shard = flags.shard.is_some() && document.results.iter().all(|it| it.astray.is_empty());
    Ok(ExitCode::from(if is_shard { 0 } else { EXIT_ERROR }))
}

/// Progress on stderr, and Ctrl-C.
struct Bar {
    bar: ProgressBar,
    watch: Mutex<Watch>,
}

impl Bar {
    fn new(is_quiet: bool) -> Result<Self> {
        let bar = if is_quiet {
            ProgressBar::hidden()
        } else {
            ProgressBar::new(1)
        };
        bar.set_style(
            ProgressStyle::with_template("{msg} {wide_bar} {percent:>3} % {eta:>4}")
                .unwrap_or_else(|_| ProgressStyle::default_bar()),
        );
        Ok(Self {
            bar,
            watch: Mutex::new(Watch::start().context("cannot watch for Ctrl-C")?),
        })
    }

    /// What is being done.
    fn say(&self, what: &str) {
        self.bar.set_message(format!("{what:22}"));
    }

    fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

impl Progress for Bar {
    fn paths(&self, done: usize, all: usize) {
        self.bar.set_length(all as u64);
        self.bar.set_position(done as u64);
        self.say("reading the paths");
    }

    fn arrivals(&self, all: u64, known: u64) {
        self.bar.reset();
        self.bar.set_length(all);
        self.bar.set_position(known);
        self.say("moving the interrupt");
    }

    fn measured(&self, more: u64) {
        self.bar.inc(more);
    }

    fn ways(&self, done: usize, all: usize, number: usize) {
        if (done, number) == (0, 0) {
            self.bar.reset();
        }
        self.bar.set_length(all as u64);
        self.bar.set_position(done as u64);
        match number {
            0 => self.say("comparing"),
            _ => self.say(&format!("reading way {number}")),
        }
    }

    fn is_over(&self) -> bool {
        let mut watch = self
            .watch
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        watch.wish() != Wish::None
    }
}
