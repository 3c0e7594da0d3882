//! `error_log`: what was wrong with a command, and where.

use std::collections::VecDeque;
use std::fmt::Write;

/// As many as ftrace keeps.
const MAX: usize = 8;

/// The last errors.
#[derive(Debug, Default)]
pub(super) struct ErrorLog(VecDeque<String>);

impl ErrorLog {
    /// Notes that `command`, written to `file`, is wrong at byte `at`. `now` is the guest's time in nanoseconds.
    pub(super) fn add(&mut self, now: u64, file: &str, command: &str, at: usize, what: &str) {
        let command: String = command
            .chars()
            .map(|c| if c.is_control() { ' ' } else { c })
            .collect();
        let column = command
            .get(..at.min(command.len()))
            .map_or(0, |before| before.chars().count());
        let entry = format!(
            "[{:>5}.{:06}] {file}: error: {what}\n  Command: {command}\n{:>width$}\n",
            now / 1_000_000_000,
            now / 1000 % 1_000_000,
            '^',
            width = "  Command: ".len() + column + 1,
        );
        self.0.push_back(entry);
        if self.0.len() > MAX {
            self.0.pop_front();
        }
    }

    /// The text of the file.
    pub(super) fn text(&self) -> String {
        let mut out = String::new();
        for entry in &self.0 {
            // Writing to a String does not fail.
            let _ = write!(out, "{entry}");
        }
        out
    }

    /// Forgets them.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_caret_stands_under_the_culprit() {
        let mut log = ErrorLog::default();
        log.add(
            2_000_003_000,
            "set_event",
            "sched:* sched:x",
            8,
            "No such event",
        );
        assert_eq!(
            log.text(),
            "[    2.000003] set_event: error: No such event\n  Command: sched:* sched:x\n                   ^\n"
        );
        (0..MAX).for_each(|_| log.add(0, "x", "ä\nb", 99, "y"));
        assert_eq!(log.text().lines().count(), 3 * MAX);
        log.clear();
        assert_eq!(log.text(), "");
    }
}
