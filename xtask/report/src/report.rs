//! `report`: the page of one or several runs.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, anyhow};
use takt_base::output;
use takt_base::paths;
use takt_base::term;
use takt_base::term::WithHelp;
use takt_cli::Report as Flags;
use takt_results::analysis;

use crate::bench::Bench;
use crate::page::{self, Reported};
use crate::source::Source;

/// Runs that one page can tell apart.
const MAX_RUNS: usize = crate::plot::NR_SERIES;

/// Where bench's results are looked for if the user names no file.
const BENCH: &str = "bench.json";

/// The page's name in a run folder.
const PAGE: &str = "report.html";

/// Writes the page.
pub(crate) fn run(flags: &Flags) -> Result<ExitCode> {
    if flags.runs.len() > MAX_RUNS {
        return Err(anyhow!(
            "{} runs on one page are too many: at most {MAX_RUNS}",
            flags.runs.len()
        ))
        .help(
            "make several pages; cargo xtask history plot draws a figure over any number of runs",
        );
    }
    let named: Vec<_> = match &*flags.runs {
        [] => vec![None],
        runs => runs.iter().map(|run| Some(run.as_str())).collect(),
    };
    let mut runs = Vec::new();
    for named in named {
        let source = Source::open(named, flags.history.as_deref())?;
        if let Some(same) = runs
            .iter()
            .find(|it: &&Reported| it.source.is_same(&source))
        {
            return Err(anyhow!(
                "{} and {} are one run, which is on the page once",
                same.source.name,
                source.name
            ))
            .help("name each run once");
        }
        let story = match &source.folder {
            Some(dir) => analysis::read(dir, &source.run).map_err(|error| term::one_line(&error)),
            None => Err(
                "its run folder is not there any more, or holds another run; the history keeps histograms, no traces"
                    .into(),
            ),
        };
        runs.push(Reported { source, story });
    }
    let bench = match &flags.bench {
        Some(path) => Some(Bench::read(path)?),
        None => Some(paths::runs().join(BENCH))
            .filter(|path| path.is_file())
            .map(|path| Bench::read(&path))
            .transpose()?,
    };
    if flags.output.as_deref().is_some_and(output::is_stdout) {
        return output::print(&page::write(&runs, bench.as_ref())?);
    }
    let path = flags.output.clone().unwrap_or_else(|| default_path(&runs));
    let html = page::write(&runs, bench.as_ref())?;
    output::write_or_nothing(&path, html.as_bytes()).help("name another file: -o FILE")?;
    output::print(&format!("{}\n", paths::shown(&path)))
}

/// In the first run's folder, or here.
fn default_path(runs: &[Reported]) -> PathBuf {
    let first = runs.first().map(|run| &run.source);
    match first.and_then(|source| source.folder.as_ref()) {
        Some(dir) => dir.join(PAGE),
        None => {
            let name = first.map_or("", |source| &source.name);
            PathBuf::from(format!("report-{}.html", name.replace(' ', "-")))
        }
    }
}
