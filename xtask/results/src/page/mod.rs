//! The HTML page: one file with everything in it. No script, no request to anywhere; a Content-Security-Policy says so to
//! the browser as well.
//!
//! Each figure stands in an element with the attributes `data-run` (the run's number on the page, from 0) and
//! `data-path`, the JSON pointer of the same figure in what `latency-run --from RUN --json -` prints. It is taken from
//! there, and the tests hold both against each other.
//!
//! | module | part of the page |
//! |---|---|
//! | [`html`] | escaping, tables, legends |
//! | `figures` | verdict, table of figures, configuration |
//! | `pictures` | histograms, percentile curves, latency over time |
//! | `bound` | what a latency takes at most, proved, beside what was observed |
//! | `stopped` | what the latency consists of that hit a threshold |
//! | `worst` | causes of the worst ten, timeline of the worst |
//! | `comparison` | several runs |
//! | `scale` | the bench table's curves |

mod bound;
mod comparison;
mod figures;
pub mod html;
mod pictures;
mod scale;
mod stopped;
mod worst;

use anyhow::Result;

use crate::analysis::Story;
use crate::bench::Bench;
use crate::plot::svg;
use crate::source::Source;
use html::escape;

const STYLE: &str = include_str!("style.css");

/// A run on the page.
#[derive(Debug)]
pub struct Reported {
    /// Its figures.
    pub source: Source,
    /// What its trace tells, or why it tells nothing.
    pub story: std::result::Result<Story, String>,
}

/// Writes the page.
///
/// # Errors
///
/// If a picture cannot be drawn.
pub fn write(runs: &[Reported], bench: Option<&Bench>) -> Result<String> {
    let names: Vec<_> = runs.iter().map(|run| run.source.name.as_str()).collect();
    let title = format!("Takt: {}", names.join(", "));
    let mut body = format!("<header><h1>{}</h1>", escape(&title));
    if runs.len() > 1 {
        body += "<nav><a href=\"#comparison\">Comparison</a>";
        for (nr, name) in names.iter().enumerate() {
            body += &format!(" <a href=\"#run-{nr}\">{}</a>", escape(name));
        }
        body += "</nav>";
    }
    body += "</header>\n<main>\n";
    if runs.len() > 1 {
        body += &comparison::section(runs)?;
    }
    for (nr, run) in runs.iter().enumerate() {
        body += &run_section(nr, run, runs.len() > 1)?;
    }
    body += &scale::section(bench)?;
    body += "</main>\n";
    Ok(format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <title>{}</title>\n<style>\n{}{STYLE}</style>\n</head>\n<body>\n{body}</body>\n</html>\n",
        escape(&title),
        svg::style(),
    ))
}

fn run_section(nr: usize, run: &Reported, is_one_of_many: bool) -> Result<String> {
    let name = if is_one_of_many {
        format!("<h2>{}</h2>\n", escape(&run.source.name))
    } else {
        String::new()
    };
    Ok(format!(
        "<section class=\"run\" id=\"run-{nr}\">\n{name}{}{}{}{}{}{}</section>\n",
        figures::section(nr, &run.source),
        stopped::section(nr, &run.source),
        bound::section(nr, &run.source),
        pictures::section(nr, run)?,
        worst::section(nr, run)?,
        figures::configuration(nr, &run.source),
    ))
}
