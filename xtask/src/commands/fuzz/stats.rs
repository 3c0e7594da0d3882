//! What libFuzzer says while it runs.

/// Figures and messages out of libFuzzer's output, taken in line by line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Stats {
    /// Inputs that were run.
    pub(super) executions: u64,
    /// Of them per second.
    pub(super) per_second: u64,
    /// Edges that the seeds reach, and the kept inputs of former runs; and all of them at the end.
    pub(super) first_coverage: u64,
    pub(super) coverage: u64,
    /// Inputs that are kept, because each reaches something new.
    pub(super) inputs: u64,
    /// The most memory that the process had.
    pub(super) peak_mib: u64,
    /// Where the input is that broke something.
    pub(super) artifact: Option<String>,
    /// What broke: the panic's lines, libFuzzer's error.
    pub(super) message: Vec<String>,
    /// The line of a panic comes next.
    is_panic: bool,
}

impl Stats {
    /// Takes in a line.
    pub(super) fn take(&mut self, line: &str) {
        let line = line.trim_end();
        if std::mem::take(&mut self.is_panic) {
            self.message.push(line.to_owned());
        }
        if line.starts_with('#') {
            self.progress(line);
        } else if let Some(stat) = line.strip_prefix("stat::") {
            self.stat(stat);
        } else if let Some((_, path)) = line.split_once("Test unit written to ") {
            self.artifact = Some(path.to_owned());
        } else if line.contains("panicked at ") {
            self.message.push(line.to_owned());
            self.is_panic = true;
        } else if let Some((_, error)) = line.split_once("ERROR: ") {
            self.message.push(error.to_owned());
        } else if line.starts_with("memory allocation of ") {
            self.message.push(line.to_owned());
        }
    }

    /// `#2097152 pulse  cov: 1023 ft: 4000 corp: 300/20Kb lim: 4096 exec/s: 12000 rss: 80Mb`
    fn progress(&mut self, line: &str) {
        let after = |key: &str| {
            let (_, rest) = line.split_once(key)?;
            number(rest)
        };
        self.executions = number(&line[1..]).unwrap_or(self.executions);
        if let Some(coverage) = after(" cov: ") {
            if self.first_coverage == 0 {
                self.first_coverage = coverage;
            }
            self.coverage = coverage;
        }
        self.inputs = after(" corp: ").unwrap_or(self.inputs);
        self.peak_mib = after(" rss: ").unwrap_or(self.peak_mib);
    }

    /// `number_of_executed_units: 123456`
    fn stat(&mut self, stat: &str) {
        let Some((name, value)) = stat.split_once(':') else {
            return;
        };
        let place = match name {
            "number_of_executed_units" => &mut self.executions,
            "average_exec_per_sec" => &mut self.per_second,
            "peak_rss_mb" => &mut self.peak_mib,
            _ => return,
        };
        *place = number(value.trim_start()).unwrap_or(*place);
    }
}

/// The digits at the beginning.
fn number(text: &str) -> Option<u64> {
    let end = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    text[..end].parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Stats {
        let mut stats = Stats::default();
        text.lines().for_each(|line| stats.take(line));
        stats
    }

    #[test]
    fn figures_are_found() {
        let stats = read(
            "INFO: seed corpus: files: 5\n\
             #6\tINITED cov: 812 ft: 1000 corp: 5/1234b exec/s: 0 rss: 45Mb\n\
             #99\tNEW    cov: 900 ft: 1100 corp: 6/1300b lim: 64 exec/s: 0 rss: 46Mb L: 1/2 MS: 1 EraseBytes-\n\
             #1234\tDONE   cov: 1023 ft: 4000 corp: 300/20Kb lim: 4096 exec/s: 617 rss: 80Mb\n\
             stat::number_of_executed_units: 1234\n\
             stat::average_exec_per_sec:     617\n\
             stat::peak_rss_mb:              81\n",
        );
        assert_eq!((stats.first_coverage, stats.coverage), (812, 1023));
        assert_eq!((stats.executions, stats.per_second), (1234, 617));
        assert_eq!((stats.inputs, stats.peak_mib), (300, 81));
        assert_eq!((stats.artifact, stats.message), (None, vec![]));
    }

    #[test]
    fn a_crash_is_found() {
        let stats = read(
            "thread '<unnamed>' (7) panicked at a.rs:1:2:\nboom\nnote: run with\n\
             ==7== ERROR: libFuzzer: deadly signal\n\
             artifact_prefix='/a/'; Test unit written to /a/crash-0123\n",
        );
        assert_eq!(stats.artifact.as_deref(), Some("/a/crash-0123"));
        let message = [
            "thread '<unnamed>' (7) panicked at a.rs:1:2:",
            "boom",
            "libFuzzer: deadly signal",
        ];
        assert_eq!(stats.message, message);
    }
}
