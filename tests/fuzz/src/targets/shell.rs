//! The words of `tracefs shell` and the options of traces.
//!
//! Input: what a user types.

use takt_guest::options::{GRAPH_NAMES, NAMES, Options, split};
use takt_guest::syntax::{Command, parse};

/// Parses, writes it out again with every word quoted, and parses that.
///
/// # Panics
///
/// If the two are not the same, or an option is not what it was set to.
pub fn run(input: &[u8]) {
    let Ok(text) = core::str::from_utf8(input) else {
        return;
    };
    if let Ok(pipelines) = parse(text) {
        let written: Vec<_> = pipelines
            .iter()
            .map(|commands| commands.iter().map(write).collect::<Vec<_>>().join("|"))
            .collect();
        assert_eq!(parse(&written.join(";")).as_ref(), Ok(&pipelines));
        for word in pipelines
            .iter()
            .flatten()
            .flat_map(|command| &command.words)
        {
            set(word);
        }
    }
}

fn write(command: &Command) -> String {
    let quote = |word: &str| format!("'{}'", word.replace('\'', r"'\''"));
    let mut words: Vec<_> = command.words.iter().map(|word| quote(word)).collect();
    if let Some(redirect) = &command.redirect {
        let sign = if redirect.is_append { ">>" } else { ">" };
        words.push(format!("{sign}{}", quote(&redirect.file)));
    }
    words.join(" ")
}

fn set(word: &str) {
    let mut options = Options::default();
    let (name, on) = split(word);
    if options.set_by_name(word) {
        assert!(NAMES.contains(&name) || GRAPH_NAMES.contains(&name));
        assert!(options.get(name).is_none_or(|is| is == on));
    } else {
        assert_eq!(options, Options::default());
    }
}

/// Lines, good and bad.
#[must_use]
pub fn seeds() -> Vec<Vec<u8>> {
    [
        "echo function_graph > current_tracer; cat trace # all of it\nls events/sched",
        "echo 'sched:* !irq:x' >> set_event; echo \"a \\\" b\" nosym-offset > trace_options",
        "echo -n a\\ b >trace_marker;; echo nofuncgraph-cpu funcgraph-proc; exit 1",
        "cat trace | grep -v 'x|y' |\n head -5 > trace_marker; cd events\\\n/sched",
        "echo 'unmatched; echo > > x || y & z",
        "",
    ]
    .map(|line| line.as_bytes().to_vec())
    .into()
}
