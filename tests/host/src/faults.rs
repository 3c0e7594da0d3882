//! The table of faults, `tests/FAULTS.md`: each row has tests, and they are there.

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::{Path, PathBuf};

    use takt_base::paths;

    const TABLE: &str = include_str!("../../FAULTS.md");

    /// Where the images' tests are: in a file, or a folder, of the first part of their names.
    const IMAGES: [&str; 3] = ["ontarget", "tasks", "functions"];

    /// Whether a file declares it; a row of a table of tests has its texts behind the name.
    fn declares(file: &Path, name: &str) -> bool {
        let text = fs::read_to_string(file).unwrap_or_default();
        let is_there = |begin: &str| text.contains(begin);
        is_there(&format!("fn {name}(")) || is_there(&format!("fn {name} ["))
    }

    fn files_in(dir: &Path) -> Vec<PathBuf> {
        let entries = fs::read_dir(dir).into_iter().flatten().flatten();
        entries.map(|it| it.path()).collect()
    }

    /// Whether there is such a test: `module::name` of an image, `path/file.rs::name` of the host, or one from end to end.
    fn exists(test: &str) -> bool {
        let root = paths::workspace();
        if let Some((file, name)) = test.split_once(".rs::") {
            return declares(&root.join(format!("{file}.rs")), name);
        }
        let Some((module, _)) = test.split_once("::") else {
            return crate::TESTS.iter().any(|(name, _)| *name == test);
        };
        let name = test.rsplit("::").next().unwrap_or_default();
        IMAGES.iter().any(|image| {
            let dir = root.join("tests/src/bin").join(image);
            let mut files = files_in(&dir.join(module));
            files.push(dir.join(format!("{module}.rs")));
            files.iter().any(|file| declares(file, name))
        })
    }

    #[test]
    fn every_fault_has_tests() {
        let rows = TABLE.lines().filter(|line| line.starts_with("| "));
        let rows: Vec<Vec<_>> = rows
            .map(|row| row.split('|').map(str::trim).collect())
            .filter(|row: &Vec<_>| row[1] != "fault")
            .collect();
        assert!(rows.len() > 40, "{} rows", rows.len());
        for row in rows {
            let [_, fault, what, tests, without, _] = row[..] else {
                panic!("{row:?} has other columns");
            };
            let names: Vec<_> = tests.split('`').skip(1).step_by(2).collect();
            assert!(!names.is_empty() && !what.is_empty(), "{fault}");
            assert!(!without.is_empty(), "{fault}: it was not seen to fail");
            for name in names {
                assert!(exists(name), "{fault}: there is no test {name}");
            }
        }
    }

    #[test]
    fn what_is_not_there_is_noticed() {
        for name in [
            "faults::nothing",
            "nothing",
            "nothing::panic",
            "tests/src/lib.rs::nothing",
        ] {
            assert!(!exists(name), "{name}");
        }
    }
}
