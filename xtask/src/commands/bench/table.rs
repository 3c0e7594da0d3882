//! The results as a table and as JSON.

use std::fmt::Write;

use anyhow::Result;
use serde_json::{Value, json};

use super::spec::Row;
use takt_base::output;

const HEAD: [&str; 7] = ["", "Takt", "unit", "anchor", "must", "aim", "verdict"];

/// The cells of a row, after its title.
fn cells(row: &Row) -> [String; 7] {
    let limit = |limit: Option<u64>| limit.map(|limit| format!("≤ {limit}")).unwrap_or_default();
    [
        row.title.clone(),
        group_digits(row.value),
        row.unit.into(),
        row.anchor
            .map(|anchor| format!("{} {}", group_digits(anchor), row.source))
            .unwrap_or_default(),
        limit(row.must),
        limit(row.aim),
        row.verdict().into(),
    ]
}

/// Thousands separated, as people read them.
fn group_digits(value: u64) -> String {
    let digits = value.to_string();
    let mut out = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Rows with their group's name before the first of each group.
fn grouped(rows: &[Row]) -> impl Iterator<Item = (Option<&'static str>, &Row)> {
    let mut last = "";
    rows.iter().map(move |row| {
        let heading = (row.group != last).then_some(row.group);
        last = row.group;
        (heading, row)
    })
}

/// The table for a terminal.
pub(super) fn text(rows: &[Row]) -> String {
    let mut widths = HEAD.map(|head| head.chars().count());
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(cells(row)) {
            *width = cell.chars().count().max(*width);
        }
    }
    let line = |cells: [String; 7]| {
        let mut out = String::new();
        for (i, (cell, width)) in cells.iter().zip(widths).enumerate() {
            let pad = " ".repeat(width - cell.chars().count());
            out += &match i {
                1 | 3..=5 => format!("{pad}{cell}  "),
                _ => format!("{cell}{pad}  "),
            };
        }
        out.trim_end().to_owned() + "\n"
    };
    let mut out = line(HEAD.map(Into::into));
    for (heading, row) in grouped(rows) {
        if let Some(heading) = heading {
            out += &format!("\n{heading}\n");
        }
        out += &line(cells(row));
    }
    out + "\n" + super::spec::NOTES
}

/// The table for the documents.
pub(super) fn markdown(rows: &[Row]) -> String {
    let mut out = String::new();
    for (heading, row) in grouped(rows) {
        if let Some(heading) = heading {
            // Writing to a String does not fail.
            let _ = write!(
                out,
                "\n### {heading}\n\n|{}|\n|---|--:|---|--:|--:|--:|---|\n",
                HEAD.join("|")
            );
        }
        out += &format!("|{}|\n", cells(row).join("|"));
    }
    out + "\n" + super::spec::NOTES
}

/// `takt.bench/1`.
pub(super) fn json(rows: &[Row]) -> Result<String> {
    let rows: Vec<Value> = rows
        .iter()
        .map(|row| {
            json!({"name": row.name, "unit": row.unit, "value": row.value, "anchor": row.anchor})
        })
        .collect();
    let document = json!({"schema": "takt.bench/1", "rows": rows});
    Ok(output::json_pretty(&document)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_grouped() {
        assert_eq!(group_digits(0), "0");
        assert_eq!(group_digits(999), "999");
        assert_eq!(group_digits(1_680_000_000), "1,680,000,000");
    }
}
