//! Several runs beside one another.

use anyhow::Result;
use serde_json::Value;

use super::Reported;
use super::figures::{COLUMNS, Latency, slots};
use super::html::{cell, escape, head, legend, note, picture, table};
use crate::history::commands::compare;
use crate::plot::histogram::{self, Scale};
use crate::plot::{Role, percentiles};

/// The part of the page.
pub(super) fn section(runs: &[Reported]) -> Result<String> {
    let mut out = String::from("<section id=\"comparison\">\n<h2>Comparison</h2>\n");
    let entries: Vec<_> = runs
        .iter()
        .enumerate()
        .map(|(nr, run)| {
            let record = &run.source.run.record;
            (
                Role::Series(nr),
                format!("{} ({})", run.source.name, record.git),
            )
        })
        .collect();
    out += &legend(&entries);
    out += &configurations(runs);
    out += &differences(runs);
    out += &words(runs);
    for place in shared(runs) {
        out += &format!(
            "<h3>{}</h3>\n<div class=\"pictures\">\n",
            escape(&place.name)
        );
        for (latency, measured) in &place.latencies {
            if measured.len() > 1 {
                let title = format!("{}, {}", latency.title(), place.name);
                out += &pictures(runs, *latency, measured, &title)?;
            }
        }
        out += "</div>\n";
    }
    Ok(out + "</section>\n")
}

/// What one or several of the runs have measured, by its name: a run on CPU 1 has nothing to do with another's CPU 0.
struct Measured {
    name: String,
    /// Each latency with the runs that have it, and where it is among what they have measured.
    latencies: Vec<(Latency, Vec<(usize, usize)>)>,
}

/// All places of all runs, in the order in which they come.
fn places(runs: &[Reported]) -> Vec<Measured> {
    let mut all: Vec<Measured> = Vec::new();
    for (nr, run) in runs.iter().enumerate() {
        for (index, slot) in slots(&run.source.run).into_iter().enumerate() {
            let at = all.iter().position(|it| it.name == slot.name);
            let at = at.unwrap_or_else(|| {
                all.push(Measured {
                    name: slot.name,
                    latencies: Vec::new(),
                });
                all.len() - 1
            });
            for &latency in slot.latencies {
                let known = &mut all[at].latencies;
                match known.iter_mut().find(|(it, _)| *it == latency) {
                    Some((_, measured)) => measured.push((nr, index)),
                    None => known.push((latency, vec![(nr, index)])),
                }
            }
        }
    }
    all
}

/// Those that more than one run has.
fn shared(runs: &[Reported]) -> impl Iterator<Item = Measured> {
    let is_shared = |(_, measured): &(Latency, Vec<_>)| measured.len() > 1;
    places(runs)
        .into_iter()
        .filter(move |place| place.latencies.iter().any(is_shared))
}

fn pictures(
    runs: &[Reported],
    latency: Latency,
    measured: &[(usize, usize)],
    title: &str,
) -> Result<String> {
    let all: Vec<_> = measured
        .iter()
        .map(|&(nr, index)| {
            let both = &runs[nr].source.run.distributions[index];
            (Role::Series(nr), latency.of(both))
        })
        .collect();
    let width = histogram::width(all.iter().map(|(_, all)| *all));
    let series: Vec<_> = all
        .iter()
        .map(|(role, all)| (*role, histogram::cut(all, width)))
        .collect();
    let mut out = String::new();
    for scale in [Scale::Linear, Scale::Log] {
        let title = format!("{title} ({scale})");
        out += &picture(&title, &histogram::picture(&title, scale, &series), "");
    }
    let title = format!("{title}: percentiles");
    out += &picture(&title, &percentiles::picture(&title, &all), "");
    Ok(out)
}

/// What the runs' configurations do not have in common.
fn configurations(runs: &[Reported]) -> String {
    let first = &runs[0].source;
    let mut rows = String::new();
    for run in &runs[1..] {
        for (field, ours, theirs) in first.configuration.differences(&run.source.configuration) {
            rows += &format!(
                "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>",
                escape(&run.source.name),
                escape(&field),
                escape(&ours),
                escape(&theirs)
            );
        }
    }
    if rows.is_empty() {
        return note("All have the same configuration.");
    }
    let head = head(4, &["run", "field", &first.name, "there"]);
    format!(
        "{}{}",
        note("The configurations differ, so not every difference below is one of the revision:"),
        table(&(head + &rows))
    )
}

/// Each figure of each run, and how much it differs from the first's.
fn differences(runs: &[Reported]) -> String {
    let titles: Vec<_> = ["", "", "run"]
        .into_iter()
        .chain(COLUMNS.map(|(title, _)| title))
        .collect();
    let mut rows = head(3, &titles);
    for place in places(runs) {
        for (latency, measured) in &place.latencies {
            for &(nr, index) in measured {
                let source = &runs[nr].source;
                rows += &format!(
                    "<tr><th scope=\"row\">{}</th><td>{}</td><td><span class=\"swatch f{}\"></span>{}</td>",
                    escape(&place.name),
                    latency.name(),
                    Role::Series(nr).number(),
                    escape(&source.name)
                );
                // What the first run has not measured is no difference to it.
                let first = measured.first().filter(|(first, _)| *first == 0 && nr > 0);
                for (_, column) in COLUMNS {
                    let path = |index: usize| format!("/cpus/{index}/{}/{column}", latency.key());
                    let mut shown = cell(nr, &source.document, &path(index));
                    let first =
                        first.and_then(|&(_, at)| runs[0].source.document.pointer(&path(at)));
                    if let Some(more) = difference(first, source.document.pointer(&path(index))) {
                        let end = shown.len() - "</td>".len();
                        shown.insert_str(end, &format!(" <span class=\"more\">{more}</span>"));
                    }
                    rows += &shown;
                }
                rows += "</tr>";
            }
        }
    }
    table(&rows)
}

/// How much more the second is, with its sign.
fn difference(first: Option<&Value>, second: Option<&Value>) -> Option<String> {
    let (first, second) = (first?, second?);
    if let (Some(a), Some(b)) = (first.as_i64(), second.as_i64()) {
        return Some(if a == b {
            "=".into()
        } else {
            format!("{:+}", b - a)
        });
    }
    let more = second.as_f64()? - first.as_f64()?;
    Some(if more == 0.0 {
        "=".into()
    } else {
        format!("{more:+.3}")
    })
}

/// Each run against the first in words: exactly under icount, else how far apart they are.
fn words(runs: &[Reported]) -> String {
    let mut out = String::new();
    for run in &runs[1..] {
        let comparison = compare::Comparison::new(&runs[0].source.run, &run.source.run);
        let lines = comparison.words().into_iter();
        let lines = lines.map(|line| format!("<li>{}</li>", escape(&line)));
        out += &format!(
            "<p>{} against {}:</p><ul>{}</ul>\n",
            escape(&run.source.name),
            escape(&runs[0].source.name),
            lines.collect::<String>()
        );
    }
    out
}
