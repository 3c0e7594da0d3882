//! The bound of the thread latency that is proved, beside what was observed.

use serde::Deserialize;

use super::html::{cell, escape, head, note, table};
use crate::analysis::bound::{Bound, REFUTED};
use crate::source::Source;

/// The part of the page; empty for a run of which nothing was to be proved.
pub(super) fn section(nr: usize, source: &Source) -> String {
    let told = &source.document["bound"];
    if let Some(why) = told["none"].as_str() {
        return note(&format!("There is no proved bound: {why}."));
    }
    let Ok(bound) = Bound::deserialize(&told["proved"]) else {
        return String::new();
    };
    let mut rows = head(1, &["part", "instructions", "from"]);
    for (name, instructions, place) in bound.rows() {
        rows += &format!(
            "<tr><th scope=\"row\">{}</th><td class=\"n\">{instructions}</td><td>{}</td></tr>",
            escape(name),
            escape(place),
        );
    }
    for (name, path, says) in [
        ("the bound", "/bound/total", bound.formula()),
        ("observed maximum", "/bound/proved/observed", String::new()),
        ("ratio", "/bound/ratio", String::new()),
    ] {
        let figure = cell(nr, &source.document, path);
        rows += &format!(
            "<tr><th scope=\"row\">{name}</th>{figure}<td>{}</td></tr>",
            escape(&says)
        );
    }
    let mut out = format!(
        "<h3>Proved bound of the thread latency</h3>\n{}",
        table(&rows)
    );
    if !bound.holds() {
        out += &note(REFUTED.trim());
    }
    if !bound.without.is_empty() {
        out += &note(&format!("Not in it: {}.", bound.without.join(", ")));
    }
    out
}
