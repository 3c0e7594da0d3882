//! Flags of `latency-sweep`.

use std::path::PathBuf;

use clap::Args;
use clap::error::{ContextKind, ErrorKind};
use takt_timerlat::config::Policy;
use takt_timerlat::sweep::WORKLOADS;

use super::units;
use takt_timerlat::sweep::PRIORITIES;

/// The flags that say what is swept and how: a sweep that was begun has its own.
const PLAN: [&str; 11] = [
    "workload", "entry", "example", "bin", "package", "image", "window", "step", "priority",
    "events", "append",
];

/// Flags of `latency-sweep`.
#[derive(Debug, Args)]
#[command(after_long_help = workloads_help())]
pub struct LatencySweep {
    /// What is interrupted: a name of the list below, `all` (all but the loads) or `loads`; lists and repeated
    /// [default: all; with --example, --bin or --image what that marks].
    #[arg(
        long,
        value_name = "NAME",
        value_delimiter = ',',
        help_heading = "What"
    )]
    pub workload: Vec<String>,
    /// A function without arguments that is called again and again: its name, or the end of it (`module::name`). Others are
    /// refused, as far as the debug information tells.
    #[arg(long, value_name = "SYMBOL", help_heading = "What")]
    pub entry: Vec<String>,
    /// An example of the package instead of our own image: what it marks by `sweep_begin!()` and `sweep_end!()` is swept,
    /// or --entry.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["bin", "image"], help_heading = "What")]
    pub example: Option<String>,
    /// A binary of the package, likewise.
    #[arg(
        long,
        value_name = "NAME",
        conflicts_with = "image",
        help_heading = "What"
    )]
    pub bin: Option<String>,
    /// Package that holds it.
    #[arg(
        short,
        long,
        value_name = "NAME",
        default_value = "takt-board",
        help_heading = "What"
    )]
    pub package: String,
    /// An ELF file that was built before, likewise.
    #[arg(long, value_name = "ELF", help_heading = "What")]
    pub image: Option<PathBuf>,
    /// Sweep no more than this of a stretch; a load, which has no end, for this long (ns, us, ms; without a unit ns)
    /// [default: all of it; loads: 20us].
    #[arg(long, value_name = "NS", value_parser = units::nanoseconds, help_heading = "How")]
    pub window: Option<u64>,
    /// Instructions from one arrival to the next; above 1 the maximum may be missed.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..), help_heading = "How")]
    pub step: u32,
    /// Priority of the measured thread, 70 to 99 (FIFO), also as f:95.
    #[arg(short = 'P', long, value_name = "PRIO", default_value = "95", value_parser = priority, help_heading = "How")]
    pub priority: u8,
    /// Trace events that are on: sched, sched:sched_switch, sched_*, all, none; lists and repeated.
    #[arg(
        short,
        long = "event",
        value_name = "EVENTS",
        value_delimiter = ',',
        default_value = "none",
        help_heading = "How"
    )]
    pub events: Vec<String>,
    /// More words for the kernel's command line.
    #[arg(
        long,
        value_name = "TEXT",
        default_value = "",
        hide_default_value = true,
        help_heading = "How"
    )]
    pub append: String,
    /// On a Slurm cluster, as an array job of N tasks, in a folder that its nodes share. Those that are killed are run again; in
    /// the end the sweep is that of one machine. Behind `--` are words for sbatch.
    #[arg(long, value_name = "N", num_args = 0..=1, require_equals = true, default_missing_value = "16", value_parser = clap::value_parser!(u32).range(1..), conflicts_with = "shard", help_heading = "Work")]
    pub slurm: Option<u32>,
    /// What is told to sbatch.
    #[arg(last = true, value_name = "SBATCH ARGS", requires = "slurm")]
    pub sbatch: Vec<String>,
    /// Boots at the same time [default: the host's CPUs; with --slurm 1 of each task].
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..), help_heading = "Work")]
    pub jobs: Option<u16>,
    /// Only part I of N, as in 2/4: the others are for other machines, and --merge puts them together.
    #[arg(long, value_name = "I/N", value_parser = shard, help_heading = "Work")]
    pub shard: Option<(u32, u32)>,
    /// Take over what was measured in these folders, of the same image with the same flags; with --resume: into that one.
    /// What none of them has is measured here.
    #[arg(long, value_name = "DIR", num_args = 1.., conflicts_with_all = PLAN, help_heading = "Work")]
    pub merge: Vec<PathBuf>,
    /// Go on with the sweep in this folder, which was interrupted, with its image and its flags.
    #[arg(long, value_name = "DIR", conflicts_with_all = PLAN, conflicts_with = "output", help_heading = "Work")]
    pub resume: Option<PathBuf>,
    /// Never install anything.
    #[arg(long, help_heading = "Work")]
    pub no_install: bool,
    /// Folder for the results [default: the next free runs/sweep-NNN].
    #[arg(short, long, value_name = "DIR", help_heading = "Results")]
    pub output: Option<PathBuf>,
    /// Write the results as JSON to this file as well; `-` is stdout, instead of the tables.
    #[arg(long, value_name = "FILE", help_heading = "Results")]
    pub json: Option<PathBuf>,
    /// Show the results in this folder again; nothing is booted.
    #[arg(long, value_name = "DIR", conflicts_with_all = PLAN, conflicts_with_all = ["resume", "merge", "shard", "slurm", "output"], help_heading = "Results")]
    pub from: Option<PathBuf>,
    /// No progress.
    #[arg(short, long, help_heading = "Results")]
    pub quiet: bool,
    /// Show cargo's own output; twice: also put every log level into the image.
    #[arg(short, long, action = clap::ArgAction::Count, help_heading = "Results")]
    pub verbose: u8,
}

fn workloads_help() -> String {
    let mut text = String::from("Workloads:\n");
    for workload in WORKLOADS {
        text.push_str(&format!("  {:24} {}\n", workload.name, workload.about));
    }
    text.push_str(
        "\nExit codes: 0 every boundary that was asked for was met where it was expected (of a shard: none elsewhere), 1 error, or the sweep is not \
         complete, 130 interrupted.\nEnvironment: TAKT_QEMU is the QEMU to use instead of qemu-system-x86_64; NO_COLOR is honoured.",
    );
    text
}

/// A priority that is above all threads of a workload.
fn priority(text: &str) -> Result<u8, String> {
    match units::priority(text) {
        Ok((Policy::Fifo, priority)) if PRIORITIES.contains(&priority) => Ok(priority),
        Ok((Policy::RoundRobin, _)) => Err("the policy is FIFO (f) in a sweep".into()),
        // Another policy is refused in words of its own.
        Err(error) if text.contains(':') && !text.starts_with(['f', 'F']) => Err(error),
        _ => Err(format!(
            "the measured thread has to be above the workloads' own: {} to {}",
            PRIORITIES.start(),
            PRIORITIES.end()
        )),
    }
}

/// What to do about flags that exclude each other, where that is not plain.
pub(super) fn advice(error: &clap::Error) -> Option<&'static str> {
    let named = [ContextKind::InvalidArg, ContextKind::PriorArg].map(|kind| {
        let value = error.get(kind);
        value.map(ToString::to_string).unwrap_or_default()
    });
    let is_begun = |flag: &String| {
        ["--merge ", "--resume ", "--from "]
            .iter()
            .any(|it| flag.starts_with(it))
    };
    let is_sweep = error.to_string().contains(" latency-sweep ");
    let is_it = error.kind() == ErrorKind::ArgumentConflict && is_sweep;
    (is_it && named.iter().any(is_begun)).then_some(
        "a sweep that was begun has an image, stretches and flags of its own, written down in its folder: leave the others out",
    )
}

fn shard(text: &str) -> Result<(u32, u32), String> {
    let parse = || {
        let (index, of) = text.split_once('/')?;
        let (index, of): (u32, u32) = (index.parse().ok()?, of.parse().ok()?);
        (1..=of).contains(&index).then_some((index, of))
    };
    parse().ok_or_else(|| "a shard is I/N with I from 1 to N, as in 2/4".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn priorities() {
        assert_eq!(priority("f:70"), Ok(70));
        for bad in ["100", "69", "0", "f:100", "x"] {
            let error = priority(bad).unwrap_err();
            assert!(error.ends_with(": 70 to 99"), "{bad}: {error}");
        }
        assert!(priority("r:80").unwrap_err().contains("policy"));
    }

    #[test]
    fn flags_of_a_sweep_that_was_begun_are_explained() {
        use clap::Parser;
        let advice = |words: &str| {
            let words = format!("xtask {words}");
            let error = crate::Cli::try_parse_from(words.split(' ')).unwrap_err();
            super::advice(&error)
        };
        for words in [
            "latency-sweep --merge a --workload semaphore",
            "latency-sweep --workload semaphore --resume a",
            "latency-sweep --from a --step 5",
        ] {
            assert!(advice(words).is_some(), "{words}");
        }
        for words in [
            "latency-sweep --example a --bin b",
            "latency-sweep --step 0",
            "latency-run --from a --period 100",
        ] {
            assert!(advice(words).is_none(), "{words}");
        }
    }

    #[test]
    fn shards() {
        assert_eq!(shard("2/4"), Ok((2, 4)));
        assert_eq!(shard("1/1"), Ok((1, 1)));
        for bad in ["0/4", "5/4", "1", "1/", "/1", "a/b", "1/0"] {
            assert!(shard(bad).is_err(), "{bad}");
        }
    }
}
