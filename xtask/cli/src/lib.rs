//! The command line: flags, their units and defaults.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]
#![deny(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "`output` and `term` write what can fail: into a closed pipe, onto a full disk"
)]

#[macro_use(tell)]
extern crate takt_base;

mod actions;
mod app;
mod attach;
mod compare;
mod cyclictest;
mod foreign;
mod image;
mod latency_run;
mod latency_sweep;
mod osnoise;
mod prove;
mod report;
mod tracefs;
mod units;
mod values;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand};
use takt_base::units::CpuSet;
use takt_host::Format;
use values::named;

pub use actions::Action;
pub use app::{New, Runner, TestWords};
pub use attach::Attach;
pub use compare::{Compare, CompareCommand, LinuxRt};
pub use cyclictest::{Cyclic, Cyclictest};
pub use image::{Image, To};
pub use latency_run::{LatencyRun, Parts};
pub use latency_sweep::LatencySweep;
pub use osnoise::{Osnoise, OsnoiseCommand, Sampling};
pub use prove::Prove;
pub use report::{
    History, HistoryCommand, HistoryCompare, HistoryFilter, HistoryList, HistoryMerge, HistoryPlot,
    HistoryPrune, HistoryShow, Metric, Report,
};
pub use tracefs::{Guest, Mount, Shell, Tracefs, TracefsCommand};

use takt_base::{EXIT_ERROR, term};
use takt_machine::run::console::Line;

/// Builds, boots, measures and reads Takt.
#[derive(Debug, Parser)]
#[command(
    name = "cargo xtask",
    bin_name = "cargo xtask",
    version,
    disable_help_subcommand = true
)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Boots the kernel in QEMU and measures IRQ latency and thread latency.
    LatencyRun(Box<LatencyRun>),
    /// Boots the kernel in QEMU and measures as cyclictest does, with its flags and its output.
    Cyclictest(Box<Cyclictest>),
    /// Takes in a run of a machine that is not QEMU's, over a serial line, and reports on it as latency-run does.
    Attach(Attach),
    /// Moves an interrupt over every instruction of a stretch of code: the exact worst case of both latencies.
    LatencySweep(Box<LatencySweep>),
    /// Measures what interrupts a thread that computes, on every CPU (rtla osnoise).
    Osnoise(Osnoise),
    /// Measures what the hardware, or whatever runs beneath, takes of a thread that computes with interrupts off (rtla hwnoise).
    Hwnoise(Sampling),
    /// Measures another system in the same QEMU and prints both side by side.
    Compare(Compare),
    /// Says what this machine has, what is missing and which accelerator would be used.
    Doctor,
    /// Runs every test, on the host and on the target.
    Test(Test),
    /// Measures instruction counts and sizes.
    Bench(Bench),
    /// Latency under test: measures everything that has a budget in takt.budget.toml and fails where it grew.
    Budget(Budget),
    /// Prints the trace of a run as ftrace's text, or writes it in the format of another tool.
    Trace(Trace),
    /// Prints the log of a run.
    Log(Read),
    /// Makes an HTML page of one or several runs: pictures, causes of the worst latencies, comparison.
    Report(Report),
    /// The runs so far: lists, shows, compares, merges and draws them.
    History(History),
    /// Boots an example or another image and prints its log and trace.
    Run(Run),
    /// Makes an application outside this repository: a thread, an event, a driver, a test.
    New(New),
    /// What `cargo run` and `cargo test` call in an application: boots the image, or runs the tests in it.
    Runner(Runner),
    /// Live control of the tracer, as Linux's tracefs: a shell on its files, or a FUSE mount.
    Tracefs(Tracefs),
    /// Builds the kernel image.
    Build(Build),
    /// Makes media that a real machine boots from: an ISO file, a USB stick, a folder for the network.
    Image(Image),
    /// Lists the functions that can be traced (ftrace: available_filter_functions).
    Functions(Functions),
    /// Proves for stretches with interrupts off how many instructions they take at most.
    Prove(Prove),
    /// Runs the fuzz targets for a bounded time.
    Fuzz(Fuzz),
    /// Does what CI does: format, lints, documentation, tests.
    Ci,
    /// Prints what a shell completes `takt` by.
    #[command(after_help = "\
bash: takt completions bash > ~/.local/share/bash-completion/completions/takt
zsh:  takt completions zsh > a folder of $fpath, as _takt
fish: takt completions fish > ~/.config/fish/completions/takt.fish")]
    Completions(Completions),
    /// Writes manual pages: takt.1, and one for each command.
    Man(Man),
}

/// Flags of `completions`.
#[derive(Debug, Args)]
pub struct Completions {
    /// The shell.
    pub shell: clap_complete::Shell,
}

/// Flags of `man`.
#[derive(Debug, Args)]
pub struct Man {
    /// The folder that the pages are written to; it is made if it is not there. `man -l FILE` shows one.
    pub dir: PathBuf,
}

/// Flags of `trace`.
#[derive(Debug, Args)]
pub struct Trace {
    /// Run folder, or the name of one in runs/ [default: the latest one there].
    pub run: Option<PathBuf>,
    /// What to write.
    #[arg(
        short,
        long,
        value_parser = named::<Format>(),
        value_name = "FORMAT",
        default_value = "text",
        conflicts_with = "json"
    )]
    pub format: Format,
    /// One JSON object a line: --format json.
    #[arg(long)]
    pub json: bool,
    /// Write to this file instead of stdout; ctf is a folder and needs one.
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Only what these CPUs recorded: a list of numbers and ranges.
    #[arg(long, value_name = "CPUS")]
    pub cpu: Option<CpuSet>,
    /// Only events for which this holds, in ftrace's filter language: 'prev_prio < 10 && next_comm == "ctrl"'. Behind an
    /// event's name it is for that event only: 'sched_switch: next_pid != 0'. May be repeated; all of them have to hold.
    #[arg(long, value_name = "EXPR")]
    pub filter: Vec<String>,
    /// Only what was recorded from this time on (ns, us, ms, s, m, h, d).
    #[arg(long, value_name = "TIME", value_parser = units::time)]
    pub from: Option<u64>,
    /// Only what was recorded up to this time. The file is read no further than that takes: what is damaged or missing
    /// behind it is not said.
    #[arg(long, value_name = "TIME", value_parser = units::time)]
    pub to: Option<u64>,
}

/// Flags of `log`.
#[derive(Debug, Args)]
pub struct Read {
    /// Run folder, or the name of one in runs/ [default: the latest one there].
    pub run: Option<PathBuf>,
    /// One JSON object a line instead of text.
    #[arg(long)]
    pub json: bool,
}

/// Flags of `run`.
#[derive(Debug, Args)]
#[command(after_help = "\
Exit codes: 0 the guest ended well, 1 error, 2 it stopped at a threshold, 3 tainted (something that it sent or logged is \
lost), 130 interrupted.")]
pub struct Run {
    /// Name of the example (or of the binary, with --bin).
    #[arg(required_unless_present_any = ["image", "manifest", "manifest_path"])]
    pub name: Option<String>,
    /// This ELF file instead of one that is built.
    #[arg(long, value_name = "ELF", conflicts_with_all = ["name", "package", "bin", "features", "manifest_path"])]
    pub image: Option<PathBuf>,
    /// Cargo.toml of an application elsewhere, which `new` makes: its image is built by its own files and booted; with
    /// --append ftrace=function (or function_graph) so that its functions can be traced.
    #[arg(long, value_name = "FILE")]
    pub manifest_path: Option<PathBuf>,
    /// An application of protected tasks: those of this manifest, a `takt.app.toml` (docs/TASKS.md), in an image that starts
    /// them.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["name", "image", "package", "bin", "manifest_path"])]
    pub manifest: Option<PathBuf>,
    /// Package that holds it [default: takt-board; with --manifest-path its own].
    #[arg(short, long, value_name = "NAME")]
    pub package: Option<String>,
    /// It is a binary, not an example.
    #[arg(long)]
    pub bin: bool,
    /// More words for the kernel's command line; ftrace=, trace_event=, trace_options=, trace_buf_size=,
    /// tracing_cpumask=, ftrace_filter=, ftrace_notrace=, ftrace_graph_filter=, ftrace_graph_notrace=, stacktrace and
    /// stacktrace_filter= as Linux spells them.
    #[arg(
        long,
        value_name = "TEXT",
        default_value = "",
        hide_default_value = true
    )]
    pub append: String,
    /// Trace events to record: sched, sched:sched_switch, sched_*, all, none; lists and repeated
    /// [default: sched,irq,timer,mutex,task,print and the application's own].
    #[arg(short, long = "event", value_name = "EVENTS", value_delimiter = ',')]
    pub events: Vec<String>,
    /// More cargo features of the package.
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub features: Vec<String>,
    /// CPUs of the guest, 1 to 8 [default: 1; with --manifest as many as its tasks are for].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=8))]
    pub smp: Option<u8>,
    /// More of QEMU's own arguments, with spaces between them, for devices that the guest is to have: '-device i6300esb'.
    #[arg(
        long,
        value_name = "ARGS",
        default_value = "",
        hide_default_value = true,
        allow_hyphen_values = true
    )]
    pub qemu: String,
    /// Type to the guest and read what it writes: its serial port on this terminal (stdio; Ctrl-A x ends it), on a new
    /// pseudo-terminal (pty) or behind a TCP port (tcp:HOST:PORT). Idle time passes as yours does then.
    #[arg(long, value_name = "WHERE")]
    pub serial: Option<Line>,
    /// Stop the guest after this many seconds of real time [default: 60; with --serial never].
    #[arg(long, value_name = "S", value_parser = clap::value_parser!(u64).range(1..))]
    pub timeout: Option<u64>,
    /// Run folder [default: the next free runs/NAME-NNN].
    #[arg(short, long, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// Replace the run that is in the folder of --output.
    #[arg(long, requires = "output")]
    pub force: bool,
    /// Never install anything.
    #[arg(long)]
    pub no_install: bool,
    /// Show cargo's own output; twice: also put every log level into the image.
    #[arg(short, long, action = clap::ArgAction::Count)]
    pub verbose: u8,
}

/// Flags of `functions`.
#[derive(Debug, Args)]
pub struct Functions {
    /// Only these: name, pre*, *post, *mid*; with ! before it: not these. A pattern without :: is held against the last
    /// part of a name as well.
    #[arg(value_name = "PATTERN")]
    pub patterns: Vec<String>,
    /// Of this ELF file [default: the image that latency-run --tracer function boots].
    #[arg(long, value_name = "ELF")]
    pub image: Option<PathBuf>,
}

/// Flags of `build`.
#[derive(Debug, Args)]
pub struct Build {
    /// Package that holds the image.
    #[arg(long, value_name = "NAME", default_value = "takt-board")]
    pub package: String,
    /// Its binary.
    #[arg(
        long,
        value_name = "NAME",
        default_value = "timerlat",
        conflicts_with = "example"
    )]
    pub bin: String,
    /// An example of it instead of a binary.
    #[arg(long, value_name = "NAME")]
    pub example: Option<String>,
    /// Cargo features of it.
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "image"
    )]
    pub features: Vec<String>,
    /// Its protected tasks: those of this manifest, a `takt.app.toml` (docs/TASKS.md).
    #[arg(long, value_name = "FILE")]
    pub manifest: Option<PathBuf>,
    /// Show cargo's own output; twice: also put every log level into the image.
    #[arg(short, long, action = clap::ArgAction::Count)]
    pub verbose: u8,
}

/// Flags of `test`.
#[derive(Debug, Args)]
pub struct Test {
    /// Never install anything.
    #[arg(long)]
    pub no_install: bool,
    /// Only tests whose name contains this.
    #[arg(long, value_name = "TEXT")]
    pub filter: Option<String>,
    /// The on-target tests of this ELF file, and no others.
    #[arg(long, value_name = "ELF", conflicts_with_all = ["host", "target"])]
    pub image: Option<PathBuf>,
    /// Only the tests of the host.
    #[arg(long)]
    pub host: bool,
    /// Only those that boot the kernel: on target and end to end.
    #[arg(long)]
    pub target: bool,
    /// Seed of the random stress, in each of its machines, instead of its own.
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Operations of the random stress in each of its machines [default: some thousands].
    #[arg(long, value_name = "N")]
    pub operations: Option<u64>,
}

/// Flags of `bench`.
#[derive(Debug, Args)]
pub struct Bench {
    /// Write the rows as JSON to this file; `-` is stdout.
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// One more row that may be above its limit: said, but no failure. May be repeated.
    #[arg(long, value_name = "ROW")]
    pub except: Vec<String>,
    /// Never install anything.
    #[arg(long)]
    pub no_install: bool,
}

/// Flags of `budget`.
#[derive(Debug, Args)]
pub struct Budget {
    /// What to do.
    #[command(subcommand)]
    pub command: BudgetCommand,
}

/// What `budget` does.
#[derive(Debug, Subcommand)]
pub enum BudgetCommand {
    /// Measures, and says what grew beyond its figure in takt.budget.toml, by how much and in which function.
    #[command(after_help = "\
Every benchmark and a sweep of every primitive are measured, which takes some minutes.
Exit codes: 0 nothing grew, 1 error, or takt.budget.toml has other figures or another compiler's, 2 something grew.")]
    Check(BudgetCheck),
    /// Measures and writes takt.budget.toml anew, with the revision that the figures are of.
    Update(BudgetFlags),
}

/// Flags of `budget check`.
#[derive(Debug, Args)]
pub struct BudgetCheck {
    /// Write what is found as JSON to this file as well; `-` is stdout, instead of the tables.
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// How to measure.
    #[command(flatten)]
    pub flags: BudgetFlags,
}

/// Flags of both.
#[derive(Debug, Args)]
pub struct BudgetFlags {
    /// The budget of an application outside of this repository: sizes of this ELF file, and a sweep of what it marks. Its
    /// takt.budget.toml is beside its Cargo.lock.
    #[arg(long, value_name = "ELF")]
    pub image: Option<PathBuf>,
    /// Only the bounds of sections, as `prove` finds them: nothing is booted. With --image in Takt's own folder: whether another
    /// file keeps Takt's.
    #[arg(long, conflicts_with = "jobs")]
    pub bounds: bool,
    /// Boots at the same time [default: the host's CPUs].
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub jobs: Option<u16>,
    /// Never install anything.
    #[arg(long)]
    pub no_install: bool,
}

/// Flags of `fuzz`.
#[derive(Debug, Args)]
pub struct Fuzz {
    /// Fuzz target [default: all of them].
    pub target: Option<String>,
    /// Seconds for each target.
    #[arg(long, value_name = "S", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    pub seconds: u32,
    /// Only list the targets.
    #[arg(long)]
    pub list: bool,
    /// Never install anything.
    #[arg(long)]
    pub no_install: bool,
}

/// Parses the process's arguments.
///
/// # Errors
///
/// The exit code, once help or the error is printed: clap's own code for a wrong flag is 2, which
/// here means that a threshold was hit.
pub fn parse() -> Result<Cli, ExitCode> {
    let parsed = called(term::program())
        .try_get_matches()
        .and_then(|it| Cli::from_arg_matches(&it));
    parsed.map_err(|error| refuse(&error))
}

/// The command line of the program as it is installed.
#[must_use]
pub fn installed() -> clap::Command {
    called("takt")
}

/// The command line of this program, called by one of its two names.
fn called(name: &'static str) -> clap::Command {
    Cli::command().name(name).bin_name(name)
}

/// Prints help or an error, with what to do instead; gives the exit code.
#[must_use]
pub fn refuse(error: &clap::Error) -> ExitCode {
    // Nothing can be done if not even this can be printed.
    let _ = error.print();
    if let Some(advice) = latency_sweep::advice(error).or_else(|| foreign::advice(error)) {
        tell!("help: {advice}");
    }
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => ExitCode::SUCCESS,
        _ => ExitCode::from(EXIT_ERROR),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definition_is_sound() {
        Cli::command().debug_assert();
    }
}
