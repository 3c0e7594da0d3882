//! `history plot`: a metric over runs.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, anyhow};
use clap::ValueEnum;
use takt_base::output;
use takt_base::paths;
use takt_base::term::WithHelp;
use takt_cli::{HistoryPlot as Flags, Metric};
use takt_machine::record::Distributions;
use takt_machine::record::Run;
use takt_results::history::{Entry, History};
use takt_timerlat::stats::ExactHistogram;

use super::{columns, or_dash, print, select};
use crate::plot::trend::{self, Line};
use crate::plot::{NR_SERIES, svg};

/// Draws.
pub(super) fn run(history: &History, flags: &Flags) -> Result<ExitCode> {
    let name = flags
        .metric
        .to_possible_value()
        .map_or_else(String::new, |it| it.get_name().to_owned());
    let path = flags
        .output
        .clone()
        .unwrap_or_else(|| PathBuf::from(format!("{name}.svg")));
    if path.extension().is_none_or(|it| it != "svg") {
        return Err(anyhow!(
            "{}: pictures are SVG, so its name has to end in .svg",
            path.display()
        ))
        .help(format!("-o {}", path.with_extension("svg").display()));
    }
    let mut entries = entries(history, flags)?;
    if entries.is_empty() {
        return Err(anyhow!("no run has such a configuration")).help("cargo xtask history list");
    }
    entries.reverse();
    let labels: Vec<_> = entries
        .iter()
        .map(|entry| entry.record.git.clone())
        .collect();
    let mut lines: Vec<Line> = Vec::new();
    let mut rows = vec![
        ["run", "revision", "result", "conf.", &name]
            .map(String::from)
            .to_vec(),
    ];
    for (at, entry) in entries.iter().enumerate() {
        let key = entry.configuration().key();
        let value = value(flags.metric, &entry.run()?);
        rows.push(vec![
            select::short(&entry.id).into(),
            entry.record.git.clone(),
            entry.record.outcome(),
            key.clone(),
            or_dash(value),
        ]);
        let Some(value) = value else { continue };
        match lines.iter_mut().find(|line| line.name == key) {
            Some(line) => line.points.push((at, value)),
            None => lines.push(Line {
                name: key,
                points: vec![(at, value)],
            }),
        }
    }
    if lines.is_empty() {
        return Err(anyhow!("no run has {name}")).help("cargo xtask history list");
    }
    if lines.len() > NR_SERIES {
        return Err(anyhow!("these runs have {} configurations", lines.len()))
            .help("choose one: --like RUN, or some: --config FIELD=VALUE");
    }
    let picture = trend::picture(&format!("{name} in ns"), &labels, &lines)?;
    let picture = svg::standalone(&picture);
    output::write_or_nothing(&path, picture.as_bytes()).help("name another file: -o FILE.svg")?;
    print(&format!(
        "{}\n{}\n",
        columns(&rows, |nr| nr == 4),
        paths::shown(&path)
    ))
}

/// The runs that are wanted: by default those like the latest.
fn entries(history: &History, flags: &Flags) -> Result<Vec<Entry>> {
    if flags.filter.like.is_some() || !flags.filter.fields.is_empty() {
        return select::filtered(history, &flags.filter, usize::MAX);
    }
    let latest = history.entry(&select::one(history, "latest")?)?;
    let places = history.of_configuration(&latest.configuration().key())?;
    let sound = |place| history.sound_entry(place).transpose();
    places.iter().filter_map(sound).collect()
}

/// A metric of a run over all measured threads.
fn value(metric: Metric, run: &Run) -> Option<f64> {
    use Metric::{
        IrqAvg, IrqMax, IrqMin, IrqP50, IrqP99, IrqP999, ThreadAvg, ThreadMax, ThreadMin,
        ThreadP50, ThreadP99, ThreadP999,
    };
    let Distributions { irq, thread, .. } = run.over_all();
    let all: &ExactHistogram = match metric {
        IrqMin | IrqAvg | IrqP50 | IrqP99 | IrqP999 | IrqMax => &irq,
        ThreadMin | ThreadAvg | ThreadP50 | ThreadP99 | ThreadP999 | ThreadMax => &thread,
    };
    let ns = match metric {
        IrqAvg | ThreadAvg => return all.avg(),
        IrqMin | ThreadMin => all.min(),
        IrqP50 | ThreadP50 => all.percentile(500),
        IrqP99 | ThreadP99 => all.percentile(990),
        IrqP999 | ThreadP999 => all.percentile(999),
        IrqMax | ThreadMax => all.max(),
    };
    ns.map(|ns| ns as f64)
}
