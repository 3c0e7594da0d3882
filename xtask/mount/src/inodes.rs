//! [`Inodes`]: numbers of files.

use std::collections::HashMap;

use fuser::INodeNo;

/// Numbers for paths, given out as they are looked up.
#[derive(Debug, Default)]
pub(super) struct Inodes {
    paths: Vec<String>,
    numbers: HashMap<String, u64>,
}

impl Inodes {
    /// The number of a path, which keeps it.
    pub(super) fn number(&mut self, path: &str) -> u64 {
        if path.is_empty() {
            return INodeNo::ROOT.into();
        }
        if let Some(number) = self.numbers.get(path) {
            return *number;
        }
        self.paths.push(path.to_owned());
        // 1 is the root.
        let number = self.paths.len() as u64 + 1;
        self.numbers.insert(path.to_owned(), number);
        number
    }

    /// The path of that number.
    pub(super) fn path(&self, number: u64) -> Option<String> {
        match number {
            1 => Some(String::new()),
            _ => self
                .paths
                .get(usize::try_from(number).ok()?.checked_sub(2)?)
                .cloned(),
        }
    }
}
