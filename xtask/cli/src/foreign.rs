//! Flags of the programs that commands are named after which have no meaning here: for the help, and for who types one.

use clap::error::{ContextKind, ErrorKind};

/// Flags, and why there are none, or what is there instead.
type Foreign = (&'static [&'static str], &'static str);

/// Of `rtla timerlat`.
const TIMERLAT: [Foreign; 6] = [
    (&["-C", "--cgroup"], "there are no cgroups"),
    (
        &["-H", "--house-keeping"],
        "what reads the trace is the host, not a CPU that is measured",
    ),
    (
        &["--deepest-idle-state", "--dma-latency"],
        "a halted CPU has one idle state",
    ),
    (
        &["-s", "--stack"],
        "-a shows the stack; for one of every activation: tracefs shell, osnoise/print_stack",
    ),
    (
        &["--filter", "--trigger"],
        "trace --filter chooses afterwards; tracefs shell has events/SYSTEM/EVENT/filter and trigger",
    ),
    (
        &["--dump-tasks"],
        "the trace of each CPU ends with the thread that ran there: -t",
    ),
];

/// Of `rtla osnoise` and `rtla hwnoise`.
const OSNOISE: [Foreign; 8] = [
    (
        &["-P", "--priority"],
        "the threads have priority 2: above the load cpu, and below all other threads",
    ),
    (
        &["-a", "--auto", "--on-threshold", "--on-end"],
        "-s US stops, and -t saves the trace",
    ),
    (
        &["--warm-up"],
        "the first sampling is as any other: no cache has to warm up under icount",
    ),
    (
        &["--with-zeros", "--no-header", "--no-summary", "--no-index"],
        "the histogram has one form; cargo xtask trace has each noise",
    ),
    (
        &["--filter", "--trigger"],
        "trace --filter chooses afterwards; tracefs shell has events/SYSTEM/EVENT/filter and trigger",
    ),
    (&["-C", "--cgroup"], "there are no cgroups"),
    (&["--dma-latency"], "a halted CPU has one idle state"),
    (&["-q", "--quiet"], "nothing is shown before the end anyway"),
];

/// Of `cyclictest`.
const CYCLICTEST: [Foreign; 6] = [
    (&["-c", "--clock"], "there is one clock"),
    (
        &[
            "-n",
            "-r",
            "-s",
            "-x",
            "--nanosleep",
            "--relative",
            "--system",
            "--posix_timers",
        ],
        "there is one way to sleep, until an absolute time",
    ),
    (
        &["-e", "--latency", "--laptop", "--deepest-idle-state"],
        "a halted CPU has one idle state",
    ),
    (
        &["--default-system"],
        "nothing of a system is tuned for the measurement",
    ),
    (
        &["--mainaffinity"],
        "what reads the threads' results is the host, not a CPU that is measured",
    ),
    (
        &[
            "-F",
            "-R",
            "-u",
            "-U",
            "--fifo",
            "--resolution",
            "--unbuffered",
            "--numa",
        ],
        "there is nothing to choose: -v, --json and the run folder have what is measured",
    ),
];

fn of(command: &str) -> &'static [Foreign] {
    match command {
        "latency-run" => &TIMERLAT,
        "osnoise" | "hwnoise" => &OSNOISE,
        "cyclictest" => &CYCLICTEST,
        _ => &[],
    }
}

/// They, a line each, for a command's help.
pub(super) fn help(command: &str) -> String {
    let line = |(flags, why): &Foreign| format!("  {}: {why}\n", flags.join(", "));
    of(command).iter().map(line).collect()
}

/// What to do instead of the flag that clap does not know.
pub(super) fn advice(error: &clap::Error) -> Option<&'static str> {
    if error.kind() != ErrorKind::UnknownArgument {
        return None;
    }
    let flag = error.get(ContextKind::InvalidArg)?.to_string();
    let text = error.to_string();
    // Behind the name of this program, whichever it was called by.
    let usage = text.lines().find_map(|line| line.strip_prefix("Usage: "))?;
    let found = usage
        .split_whitespace()
        .find_map(|word| Some(of(word)).filter(|flags| !flags.is_empty()))?
        .iter()
        .find(|(flags, _)| flags.contains(&&*flag));
    found.map(|(_, why)| *why)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::{Cli, called};

    #[test]
    fn who_types_a_foreign_flag_is_told_why_there_is_none() {
        for (words, says) in [
            ("latency-run --deepest-idle-state 0", Some("idle state")),
            ("osnoise top -P f:1", Some("priority 2")),
            ("osnoise hist --cgroup=x", Some("cgroups")),
            ("osnoise top --warm-up 5", Some("under icount")),
            ("osnoise hist --with-zeros", Some("one form")),
            ("hwnoise -q", Some("before the end")),
            ("cyclictest -n -i 1000", Some("absolute")),
            ("cyclictest --default-system -q", Some("tuned")),
            ("cyclictest --mainaffinity=1", Some("host")),
            ("cyclictest --deepest-idle-state 0", Some("idle state")),
            ("latency-run --no-such", None),
            ("doctor -u", None),
        ] {
            let words = ["xtask"].into_iter().chain(words.split(' '));
            for program in ["cargo xtask", "takt"] {
                let error = called(program)
                    .try_get_matches_from(words.clone())
                    .unwrap_err();
                let advice = advice(&error);
                let is_told = match (advice, says) {
                    (Some(advice), Some(says)) => advice.contains(says),
                    (advice, says) => advice == says,
                };
                assert!(is_told, "{program} {words:?}: {advice:?}, {error}");
            }
        }
    }

    /// What is there is not said not to be.
    #[test]
    fn none_of_them_is_known() {
        let cli = Cli::command();
        for (name, path) in [
            ("latency-run", &["latency-run"][..]),
            ("osnoise", &["osnoise", "top"]),
            ("osnoise", &["osnoise", "hist"]),
            ("hwnoise", &["hwnoise"]),
            ("cyclictest", &["cyclictest"]),
        ] {
            let command = path
                .iter()
                .fold(&cli, |it, name| it.find_subcommand(name).unwrap());
            for flag in of(name).iter().flat_map(|(flags, _)| *flags) {
                let known = command.get_arguments().any(|argument| {
                    let long = argument.get_long_and_visible_aliases().unwrap_or_default();
                    let short = argument.get_short_and_visible_aliases().unwrap_or_default();
                    long.iter().any(|it| *flag == format!("--{it}"))
                        || short.iter().any(|it| *flag == format!("-{it}"))
                });
                assert!(!known, "{path:?} has {flag}");
            }
        }
    }
}
