//! `report`: the page of one or several runs.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::analysis;
use anyhow::{Result, anyhow};
use takt_base::output;
use takt_base::paths;
use takt_base::term;
use takt_base::term::WithHelp;

use crate::bench::Bench;
use crate::page::{self, Reported};
use crate::source::Source;

/// Runs that one page can tell apart.
const MAX_RUNS: usize = crate::plot::NR_SERIES;

/// Where bench's results are looked for if the user names no file.
const BENCH: &str = "bench.json";

/// The page's name in a run folder.
const PAGE: &str = "report.html";

/// What the user wants.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// Names of runs; without any it is the latest.
    pub runs: &'a [String],
    /// Where the page goes, if not into the first run's folder.
    pub output: Option<&'a Path>,
    /// What `bench` has measured.
    pub bench: Option<&'a Path>,
    /// Where the history is.
    pub history: Option<&'a Path>,
}

/// Writes the page.
///
/// # Errors
///
/// If a run cannot be read or the page cannot be written.
pub fn run(wanted: &Wanted<'_>) -> Result<ExitCode> {
    if wanted.runs.len() > MAX_RUNS {
        return Err(anyhow!(
            "{} runs on one page are too many: at most {MAX_RUNS}",
            wanted.runs.len()
        ))
        .help(
            "make several pages; cargo xtask history plot draws a figure over any number of runs",
        );
    }
    let named: Vec<_> = match wanted.runs {
        [] => vec![None],
        runs => runs.iter().map(|run| Some(run.as_str())).collect(),
    };
    let mut runs = Vec::new();
    for named in named {
        let source = Source::open(named, wanted.history)?;
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
    let bench = match wanted.bench {
        Some(path) => Some(Bench::read(path)?),
        None => Some(paths::runs().join(BENCH))
            .filter(|path| path.is_file())
            .map(|path| Bench::read(&path))
            .transpose()?,
    };
    if wanted.output.is_some_and(output::is_stdout) {
        return output::print(&page::write(&runs, bench.as_ref())?);
    }
    let path = wanted
        .output
        .map_or_else(|| default_path(&runs), Path::to_path_buf);
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
