//! The file with the budgets.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result, anyhow};
use serde::{Deserialize, Serialize};
use takt_tracer::wire;

use takt_base::input;
use takt_base::output::write_whole;
use takt_base::term::{WithHelp, note};

/// Its name, at the top of the workspace.
pub const FILE: &str = "takt.budget.toml";

/// Version of the file.
pub const SCHEMA: &str = "takt.budget/1";

/// What stands above the figures.
const HEAD: &str = "\
# Latencies, section lengths, costs and sizes, in exact instructions and bytes. `cargo xtask budget check` measures them anew
# and fails where one grew. Written by `cargo xtask budget update`; of a file that was changed by hand it is said.
";

/// Instructions by function; of an image's text, bytes.
pub type Functions = BTreeMap<String, u64>;

/// All budgets.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Budget {
    /// [`SCHEMA`].
    pub schema: String,
    /// The revision that was measured.
    pub revision: String,
    /// The compiler that built it: another one gives other figures.
    pub compiler: String,
    /// Check sum of everything else.
    pub digest: String,
    /// Whether it was changed after it was written: the check sum is another one.
    #[serde(skip)]
    pub is_edited: bool,
    /// The figures by name.
    pub figures: BTreeMap<String, u64>,
    /// What the paths of the swept workloads, the rows of the benchmark and the text of the image consist of.
    pub functions: BTreeMap<String, Functions>,
}

impl Budget {
    /// Puts the figures into a budget.
    #[must_use]
    pub fn new(
        revision: String,
        compiler: String,
        figures: BTreeMap<String, u64>,
        functions: BTreeMap<String, Functions>,
    ) -> Self {
        let mut budget = Self {
            schema: SCHEMA.into(),
            revision,
            compiler,
            digest: String::new(),
            is_edited: false,
            figures,
            functions,
        };
        budget.digest = budget.sum();
        budget
    }

    fn sum(&self) -> String {
        use std::fmt::Write;
        // Independent of how a file is laid out.
        let mut text = format!("{}\n{}\n{}\n", self.schema, self.revision, self.compiler);
        let mut add = |name: &str, value: u64| {
            // Writing to a String does not fail.
            let _ = writeln!(text, "{name} {value}");
        };
        for (name, value) in &self.figures {
            add(name, *value);
        }
        for (workload, functions) in &self.functions {
            for (name, value) in functions {
                add(&format!("{workload} {name}"), *value);
            }
        }
        format!("{:016x}", wire::checksum(text.as_bytes()))
    }

    /// Reads the file.
    ///
    /// # Errors
    ///
    /// If it is not there, is none, or was written by another version or for another compiler.
    pub fn read(path: &Path, compiler: &str) -> Result<Self> {
        let text = input::read_to_string(path)
            .with_context(|| format!("cannot read {}", path.display()))
            .help("cargo xtask budget update writes it")?;
        let budget =
            Self::parse(&text).with_context(|| format!("{} is refused", path.display()))?;
        if budget.is_edited {
            note(format_args!(
                "{} was changed by hand: its check sum is not that of its figures, which may never have been measured",
                path.display()
            ));
        }
        if budget.compiler != compiler {
            return Err(anyhow!(
                "{} is outdated: it was measured with {}, this is {compiler}",
                path.display(),
                budget.compiler
            ))
            .help("look at the figures, then: cargo xtask budget update");
        }
        Ok(budget)
    }

    /// Reads the text of a file of any compiler.
    ///
    /// # Errors
    ///
    /// As [`read`](Self::read).
    pub fn parse(text: &str) -> Result<Self> {
        const ADVICE: &str = "take the file of the last commit (git checkout), or look at the figures: cargo xtask budget update";
        let mut budget: Self = basic_toml::from_str(text)
            .context("it is not a file of budgets, or was cut")
            .help(ADVICE)?;
        if budget.schema != SCHEMA {
            return Err(anyhow!("it is outdated: {}, not {SCHEMA}", budget.schema)).help(ADVICE);
        }
        budget.is_edited = budget.digest != budget.sum();
        Ok(budget)
    }

    /// Writes the file, whole or not at all.
    ///
    /// # Errors
    ///
    /// If it cannot be written.
    pub fn write(&self, path: &Path) -> Result<()> {
        let text = format!("{HEAD}{}", basic_toml::to_string(self)?);
        write_whole(path, text.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn budget() -> Budget {
        let figures = [("bench.yield", 60), ("sweep.semaphore.length", 19)];
        let functions = [("Semaphore::give", 12), ("a in b<T, 7>", 7)];
        let named = |all: &[(&str, u64)]| all.iter().map(|(k, v)| ((*k).to_owned(), *v)).collect();
        Budget::new(
            "0123".into(),
            "rustc 1".into(),
            named(&figures),
            BTreeMap::from([("semaphore".into(), named(&functions))]),
        )
    }

    #[test]
    fn a_file_is_read_as_it_was_written() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(FILE);
        budget().write(&path).unwrap();
        assert_eq!(Budget::read(&path, "rustc 1").unwrap(), budget());
        let text = fs::read_to_string(&path).unwrap();
        assert!(
            text.starts_with("# Lat") && text.contains("\"bench.yield\" = 60"),
            "{text}"
        );
    }

    #[test]
    fn what_was_changed_by_hand_is_read_and_marked() {
        let text = basic_toml::to_string(&budget()).unwrap();
        assert!(!Budget::parse(&text).unwrap().is_edited);
        for (from, to) in [
            ("= 60", "= 61"),
            ("= 12", "= 11"),
            ("0123", "0124"),
            ("\"bench.yield\"", "\"bench.other\""),
        ] {
            let changed = text.replacen(from, to, 1);
            assert_ne!(changed, text);
            assert!(Budget::parse(&changed).unwrap().is_edited, "{from}");
        }
    }

    #[test]
    fn what_is_outdated_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(FILE);
        let is_refused = |path: &Path, why: &str| {
            let error = format!("{:#}", Budget::read(path, "rustc 1").unwrap_err());
            assert!(error.contains(why), "{error}");
            assert!(error.contains("help: "), "{error}");
        };
        is_refused(&path, "cannot read");
        fs::write(&path, "schema = 1").unwrap();
        is_refused(&path, "not a file of budgets");
        let mut other = budget();
        other.compiler = "rustc 2".into();
        other.digest = other.sum();
        other.write(&path).unwrap();
        is_refused(&path, "measured with rustc 2");
        let mut older = budget();
        older.schema = "takt.budget/0".into();
        older.digest = older.sum();
        older.write(&path).unwrap();
        is_refused(&path, "takt.budget/0");
    }
}
