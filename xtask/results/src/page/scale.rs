//! The scale curves of the bench table.

use anyhow::Result;

use super::html::{escape, head, legend, note, picture, table};
use crate::bench::Bench;
use crate::plot::{Role, scale};

/// The part of the page; without results it says how to get them.
pub(super) fn section(bench: Option<&Bench>) -> Result<String> {
    let mut out = String::from("<section id=\"scale\">\n<h2>Scale</h2>\n");
    let Some(bench) = bench.filter(|bench| !bench.curves.is_empty()) else {
        out += &note(
            "What operations cost among 1, 10, 100 … others is not here: cargo xtask bench --json runs/bench.json \
             measures it, and a report made afterwards shows it.",
        );
        return Ok(out + "</section>\n");
    };
    let title = "What an operation costs among how many others";
    let entries: Vec<_> = bench
        .curves
        .iter()
        .enumerate()
        .map(|(nr, curve)| (Role::Series(nr), format!("{} ({})", curve.name, curve.unit)))
        .collect();
    let svg = scale::picture(title, &bench.curves);
    out += &picture(title, &svg, &legend(&entries));
    let mut rows = head(1, &["operation", "others", "value"]);
    for curve in &bench.curves {
        for (nr, value) in &curve.points {
            rows += &format!(
                "<tr><td>{}</td><td class=\"n\">{nr}</td><td class=\"n\" data-bench=\"{}-{nr}\">{value}</td></tr>",
                escape(&curve.name),
                escape(&curve.name)
            );
        }
    }
    out += &table(&rows);
    Ok(out + "</section>\n")
}
