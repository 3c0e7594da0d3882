//! Flags of `tracefs`.

use std::path::PathBuf;

use clap::{ArgAction, Args, Subcommand};
use takt_timerlat::config::Load;

use super::values::named;

/// Flags of `tracefs`.
#[derive(Debug, Args)]
pub struct Tracefs {
    /// In which way.
    #[command(subcommand)]
    pub command: TracefsCommand,
}

/// The ways.
#[derive(Debug, Subcommand)]
pub enum TracefsCommand {
    /// A shell with cat, echo, ls, cd, head, tail, grep and wc on the files.
    Shell(Shell),
    /// Mounts the files with FUSE until Ctrl-C or the guest's end.
    Mount(Mount),
}

/// Flags of `tracefs shell`.
#[derive(Debug, Args)]
#[command(after_help = "\
A guest runs in the host's time unless --icount is given: latencies are then the host's as well.
Exit code: that of the last command; 127 for one that there is not, 130 after Ctrl-C.")]
pub struct Shell {
    /// Carry these out instead of reading commands from stdin.
    #[arg(short, value_name = "COMMANDS")]
    pub commands: Option<String>,
    /// Under icount: a nanosecond is a guest instruction, and the guest stands still between commands. `sleep` lets exactly
    /// so much of its time pass, a command that sets something as much as it takes, reading none (but for a pipe that
    /// waits). The same commands give the same output each time.
    #[arg(long, conflicts_with = "attach")]
    pub icount: bool,
    /// Which guest.
    #[command(flatten)]
    pub guest: Guest,
}

/// Flags of `tracefs mount`.
#[derive(Debug, Args)]
pub struct Mount {
    /// An empty folder.
    pub dir: PathBuf,
    /// Which guest.
    #[command(flatten)]
    pub guest: Guest,
}

/// Which guest: one that is started, or one that runs.
#[derive(Debug, Args)]
pub struct Guest {
    /// Attach to a run that goes on: its --output, or timerlat, cyclictest, tracefs. It can be controlled if it was
    /// started by tracefs or with latency-run --live, else only be read.
    #[arg(long, value_name = "RUN", conflicts_with_all = ["append", "smp", "load", "image"])]
    pub attach: Option<PathBuf>,
    /// More words for the kernel's command line; ftrace=, trace_event=, trace_options=, trace_buf_size=,
    /// tracing_cpumask=, ftrace_filter=, ftrace_notrace=, ftrace_graph_filter=, ftrace_graph_notrace=, stacktrace and
    /// stacktrace_filter= as Linux spells them.
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub append: String,
    /// CPUs of the guest, 1 to 8: no more than the host has, unless under icount.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=8), default_value_t = 1)]
    pub smp: u8,
    /// What runs beside cyclictest, which has one thread on each CPU (or timerlat with --append workload=timerlat).
    #[arg(long, value_parser = named::<Load>(), default_value_t = Load::None)]
    pub load: Load,
    /// Boot this ELF file instead of building the image with all tracers, function and function_graph included.
    #[arg(long, value_name = "ELF")]
    pub image: Option<PathBuf>,
    /// Never install anything.
    #[arg(long)]
    pub no_install: bool,
    /// Show cargo's own output; twice: also put every log level into the image.
    #[arg(short, long, action = ArgAction::Count)]
    pub verbose: u8,
}
