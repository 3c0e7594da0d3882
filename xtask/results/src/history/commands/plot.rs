//! `history plot`: a metric over runs.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::history::{Entry, History};
use anyhow::{Result, anyhow};
use takt_base::output;
use takt_base::paths;
use takt_base::term::WithHelp;
use takt_machine::record::Run;

use super::select::Filter;
use super::{columns, or_dash, print, select};
use crate::plot::trend::{self, Line};
use crate::plot::{NR_SERIES, svg};

/// Draws the figure `name`, which is `value` of each run, to a file; by default to one of that name.
///
/// # Errors
///
/// If runs cannot be read, or the picture cannot be written.
pub fn run(
    history: &History,
    filter: Filter<'_>,
    name: &str,
    value: impl Fn(&Run) -> Option<f64>,
    path: Option<&Path>,
) -> Result<ExitCode> {
    let path = path.map_or_else(|| PathBuf::from(format!("{name}.svg")), Path::to_path_buf);
    if path.extension().is_none_or(|it| it != "svg") {
        return Err(anyhow!(
            "{}: pictures are SVG, so its name has to end in .svg",
            path.display()
        ))
        .help(format!("-o {}", path.with_extension("svg").display()));
    }
    let mut entries = entries(history, filter)?;
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
        ["run", "revision", "result", "conf.", name]
            .map(String::from)
            .to_vec(),
    ];
    for (at, entry) in entries.iter().enumerate() {
        let key = entry.configuration().key();
        let value = value(&entry.run()?);
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
    let picture = trend::picture(&format!("{name} in ns"), &labels, &lines);
    let picture = svg::standalone(&picture);
    output::write_or_nothing(&path, picture.as_bytes()).help("name another file: -o FILE.svg")?;
    print(&format!(
        "{}\n{}\n",
        columns(&rows, |nr| nr == 4),
        paths::shown(&path)
    ))
}

/// The runs that are wanted: by default those like the latest.
fn entries(history: &History, filter: Filter<'_>) -> Result<Vec<Entry>> {
    if filter.like.is_some() || !filter.fields.is_empty() {
        return select::filtered(history, filter, usize::MAX);
    }
    let latest = history.entry(&select::one(history, "latest")?)?;
    let places = history.of_configuration(&latest.configuration().key())?;
    let sound = |place| history.sound_entry(place).transpose();
    places.iter().filter_map(sound).collect()
}
