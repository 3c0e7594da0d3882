//! Several runs beside one another.

use anyhow::Result;
use serde_json::Value;

use super::Reported;
use super::figures::{COLUMNS, Latency, slots};
use super::html::{cell, escape, head, legend, note, picture, table};
use crate::history::compare;
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
    let nr_slots = runs
        .iter()
        .map(|run| run.source.run.distributions.len())
        .min()
        .unwrap_or(0);
    for index in 0..nr_slots {
        let slot = &slots(&runs[0].source.run)[index];
        out += &format!(
            "<h3>{}</h3>\n<div class=\"pictures\">\n",
            escape(&slot.name)
        );
        for latency in slot.latencies {
            let title = format!("{}, {}", latency.title(), slot.name);
            out += &pictures(runs, index, *latency, &title)?;
        }
        out += "</div>\n";
    }
    Ok(out + "</section>\n")
}

fn pictures(runs: &[Reported], index: usize, latency: Latency, title: &str) -> Result<String> {
    let distributions = runs.iter().map(|run| &run.source.run.distributions[index]);
    let all: Vec<_> = distributions.map(|both| latency.of(both)).collect();
    let width = histogram::width(all.iter().copied());
    let series: Vec<_> = all
        .iter()
        .enumerate()
        .map(|(nr, all)| (Role::Series(nr), histogram::cut(all, width)))
        .collect();
    let mut out = String::new();
    for scale in [Scale::Linear, Scale::Log] {
        let title = format!("{title} ({scale})");
        out += &picture(&title, &histogram::picture(&title, scale, &series)?, "");
    }
    let curves: Vec<_> = all
        .iter()
        .enumerate()
        .map(|(nr, all)| (Role::Series(nr), *all))
        .collect();
    let title = format!("{title}: percentiles");
    out += &picture(&title, &percentiles::picture(&title, &curves)?, "");
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
    for (index, slot) in slots(&runs[0].source.run).iter().enumerate() {
        for latency in slot.latencies {
            for (nr, run) in runs.iter().enumerate() {
                let document = &run.source.document;
                if document.pointer(&format!("/cpus/{index}")).is_none() {
                    continue;
                }
                rows += &format!(
                    "<tr><th scope=\"row\">{}</th><td>{}</td><td><span class=\"swatch f{}\"></span>{}</td>",
                    escape(&slot.name),
                    latency.name(),
                    Role::Series(nr).number(),
                    escape(&run.source.name)
                );
                for (_, column) in COLUMNS {
                    let path = format!("/cpus/{index}/{}/{column}", latency.key());
                    let mut shown = cell(nr, document, &path);
                    let first = runs[0].source.document.pointer(&path);
                    if let Some(more) =
                        difference(first, document.pointer(&path)).filter(|_| nr > 0)
                    {
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

/// Each run against the first in words: exact, or with a statistical test.
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
