//! What a path in the shell means.

/// Where Linux has these files: what begins so begins at the root.
pub(super) const MOUNTS: [&str; 3] = [
    "/sys/kernel/tracing",
    "/sys/kernel/debug/tracing",
    "/debug/tracing",
];

/// The path from the root, without a slash before it, of what is called `text` in the folder `cwd`.
pub(super) fn resolve(cwd: &str, text: &str) -> String {
    let behind = |mount: &&str| {
        let rest = text.strip_prefix(mount)?;
        (rest.is_empty() || rest.starts_with('/')).then_some(rest)
    };
    let (begin, rest) = match MOUNTS.iter().find_map(behind) {
        Some(rest) => ("", rest),
        None if text.starts_with('/') => ("", text),
        None => (cwd, text),
    };
    let mut parts = Vec::new();
    for part in begin.split('/').chain(rest.split('/')) {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// As Linux would call the folder of this path from the root.
pub(super) fn absolute(path: &str) -> String {
    match path {
        "" => MOUNTS[0].into(),
        path => format!("{}/{path}", MOUNTS[0]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_begin_at_the_root_or_in_the_folder() {
        for (cwd, given, meant) in [
            ("", "/", ""),
            ("", ".", ""),
            ("", "./trace", "trace"),
            ("", "//a/b", "a/b"),
            ("events", "sched/enable", "events/sched/enable"),
            ("events", "", "events"),
            ("events/sched", "../irq/./enable", "events/irq/enable"),
            ("events", "../../../trace", "trace"),
            ("events", "/trace", "trace"),
            ("events", "/sys/kernel/tracing/trace", "trace"),
            ("events", "/sys/kernel/debug/tracing", ""),
            ("events", "/debug/tracing/options/raw", "options/raw"),
            ("", "/debug/tracingx", "debug/tracingx"),
        ] {
            assert_eq!(resolve(cwd, given), meant, "{given} in `{cwd}`");
        }
    }

    #[test]
    fn a_folder_has_an_absolute_name() {
        for path in ["", "events/sched"] {
            assert_eq!(resolve("x", &absolute(path)), path);
        }
    }
}
