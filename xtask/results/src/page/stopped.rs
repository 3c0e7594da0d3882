//! What the latency consists of that hit a threshold: the rows of `latency-run --auto`.

use crate::analysis::rows::{Breakdown, Row};
use serde::Deserialize;

use super::html::{cell, details, escape, head, note, table};
use crate::source::Source;

/// The part of the page; empty for a run that hit none.
pub(super) fn section(nr: usize, source: &Source) -> String {
    let Ok(Some(it)) = Option::<Breakdown>::deserialize(&source.document["analysis"]) else {
        return String::new();
    };
    let mut out = format!(
        "<h3>What stopped the run</h3>\n<p>{}</p>\n",
        escape(&it.cause().unwrap_or_default())
    );
    let mut rows = head(1, &["row", "ns", "percent"]);
    for (index, row) in it.rows.iter().enumerate() {
        let ns = cell(nr, &source.document, &format!("/analysis/rows/{index}/ns"));
        rows += &format!(
            "<tr class=\"stopped\"><th scope=\"row\">{}</th>{ns}<td class=\"n\">{:.2}</td><td>{}</td></tr>",
            escape(row.group.name()),
            it.percent(row.ns),
            escape(&behind(row)),
        );
    }
    let whole = cell(nr, &source.document, "/analysis/latency_ns");
    rows += &format!(
        "<tr><th scope=\"row\">the latency</th>{whole}<td class=\"n\">100.00</td><td></td></tr>"
    );
    out += &table(&rows);
    if !it.stack.is_empty() {
        let frames: String = it
            .stack
            .iter()
            .map(|frame| format!("<li><code>{}</code></li>", escape(frame)))
            .collect();
        let (_, owner) = it.stack_owner();
        out += &details(&format!("{owner}: stack"), &format!("<ol>{frames}</ol>"));
    }
    out + &it.notes.iter().map(|text| note(text)).collect::<String>()
}

/// Who and what is behind a row.
fn behind(row: &Row) -> String {
    let parts = row.parts.iter().map(|part| match part.who.as_str() {
        "" => format!("{} {}", part.cause, part.ns),
        who => format!("{who} {}", part.ns),
    });
    let sections = row.sections.iter().map(ToString::to_string);
    parts.chain(sections).collect::<Vec<_>>().join("; ")
}
