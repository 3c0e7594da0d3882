//! The fuzz targets.

/// A fuzz target: a module of package `takt-fuzz`.
#[derive(Debug)]
pub(super) struct Target {
    /// Its name.
    pub(super) name: &'static str,
    /// What it feeds.
    pub(super) what: &'static str,
    /// Bytes of the longest input.
    pub(super) max_len: u32,
}

impl Target {
    /// The name of its module, by which the program knows it.
    pub(super) fn module(&self) -> String {
        self.name.replace('-', "_")
    }
}

/// All of them.
pub(super) const TARGETS: [Target; 12] = [
    Target {
        name: "trace-file",
        what: "the decoder of trace.bin and log.bin, from frames to text and JSON",
        max_len: 4096,
    },
    Target {
        name: "trace-meta",
        what: "the event descriptions of an image (.takt.meta), and records of such events",
        max_len: 2048,
    },
    Target {
        name: "filter",
        what: "the language of filters, and filters over records",
        max_len: 256,
    },
    Target {
        name: "rules",
        what: "the language of triggers, and the table of filters and triggers",
        max_len: 512,
    },
    Target {
        name: "rtt",
        what: "the reader of the guest's RTT block",
        max_len: 1024,
    },
    Target {
        name: "rings",
        what: "the search for events in the memory of a guest that has died",
        max_len: 4096,
    },
    Target {
        name: "capture",
        what: "the reader of the stream that the guest sends",
        max_len: 4096,
    },
    Target {
        name: "log",
        what: "the decoder of the guest's log",
        max_len: 1024,
    },
    Target {
        name: "status",
        what: "the reader of the guest's status block",
        max_len: 1024,
    },
    Target {
        name: "command-line",
        what: "the kernel's command line, against a model",
        max_len: 512,
    },
    Target {
        name: "settings",
        what: "the target's settings of the tracer, from the host's bytes on",
        max_len: 512,
    },
    Target {
        name: "shell",
        what: "the words of tracefs shell, written out and read again",
        max_len: 512,
    },
];

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::*;
    use takt_base::paths;

    #[test]
    fn every_target_has_a_module_and_every_module_is_a_target() {
        let folder = paths::workspace().join("tests/fuzz/src/targets");
        let mut modules: Vec<_> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().path().file_stem().unwrap().to_owned())
            .filter(|name| name != "mod")
            .collect();
        let mut targets: Vec<OsString> = TARGETS.iter().map(|it| it.module().into()).collect();
        modules.sort_unstable();
        targets.sort_unstable();
        assert_eq!(modules, targets);
    }
}
