//! The scale curves of `cargo xtask bench --json`: rows whose names end in a number of things, as in `pick-250`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::Value;
use takt_base::input;
use takt_base::schema;

/// Schema that is read.
const SCHEMA: &str = "takt.bench/1";
/// Rows that make a curve.
const NR_POINTS: usize = 3;

/// What an operation costs among so many others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Curve {
    /// The rows' name without the number.
    pub name: String,
    /// The rows' unit.
    pub unit: String,
    /// How many others, and the row's value; ascending.
    pub points: Vec<(u64, u64)>,
}

/// The curves of a file.
#[derive(Clone, Debug)]
pub struct Bench {
    /// The file.
    pub path: PathBuf,
    /// Its curves, by their names.
    pub curves: Vec<Curve>,
}

impl Bench {
    /// Reads a file.
    ///
    /// # Errors
    ///
    /// If it cannot be read or is not one of `cargo xtask bench --json`.
    pub fn read(path: &Path) -> Result<Self> {
        let cannot = || format!("cannot read {}", path.display());
        let text = input::read_to_string(path).with_context(cannot)?;
        let document: Value = serde_json::from_str(&text).with_context(cannot)?;
        schema::check(&document, SCHEMA).with_context(|| {
            format!(
                "{} is not what `cargo xtask bench --json` writes",
                path.display()
            )
        })?;
        Ok(Self {
            path: path.to_owned(),
            curves: curves(&document),
        })
    }
}

fn curves(document: &Value) -> Vec<Curve> {
    let mut found = BTreeMap::<(String, String), Vec<(u64, u64)>>::new();
    for row in document["rows"].as_array().into_iter().flatten() {
        let point = || {
            let (name, nr) = row["name"].as_str()?.rsplit_once('-')?;
            let key = (name.to_owned(), row["unit"].as_str()?.to_owned());
            Some((key, (nr.parse().ok()?, row["value"].as_u64()?)))
        };
        if let Some((key, point)) = point() {
            found.entry(key).or_default().push(point);
        }
    }
    found
        .into_iter()
        .filter(|(_, points)| points.len() >= NR_POINTS)
        .map(|((name, unit), mut points)| {
            points.sort_unstable();
            Curve { name, unit, points }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn rows_with_numbers_are_curves() {
        let row = |name: &str, value: u64| json!({"name": name, "unit": "insn", "value": value});
        let rows = [
            row("pick-10", 80),
            row("pick-1", 79),
            row("pick-250", 81),
            row("event-off", 1),
            row("two-1", 5),
            row("two-2", 6),
        ];
        let found = curves(&json!({"rows": rows}));
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].name, "pick");
        assert_eq!(found[0].points, [(1, 79), (10, 80), (250, 81)]);
    }
}
