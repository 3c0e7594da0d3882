//! Flags of `compare`.

use std::path::PathBuf;

use clap::{ArgAction, Args, Subcommand, ValueEnum};
use takt_timerlat::config::Load;

use super::units::{micros, positive_time, time};

/// Flags of `compare`.
#[derive(Debug, Args)]
pub struct Compare {
    /// With what.
    #[command(subcommand)]
    pub command: CompareCommand,
}

/// The systems.
#[derive(Debug, Subcommand)]
pub enum CompareCommand {
    /// Debian's PREEMPT_RT kernel with its timerlat tracer and cyclictest, in the same QEMU with the same settings, and
    /// Takt beside it: both under icount, where a nanosecond is one guest instruction. Debian's packages, of
    /// versions that are pinned, are fetched the first time (some 75 MB), kept in target/linux-rt and not installed.
    LinuxRt(LinuxRt),
}

/// Loads that both systems have something comparable for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum CompareLoad {
    /// Nothing.
    None,
    /// A process or thread that computes all the time.
    Cpu,
    /// Takt all of its loads; Linux the same kinds: dd and cat, forked in a loop, timers' interrupts, contended mutexes.
    Mix,
}

impl From<CompareLoad> for Load {
    fn from(load: CompareLoad) -> Self {
        match load {
            CompareLoad::None => Self::None,
            CompareLoad::Cpu => Self::Cpu,
            CompareLoad::Mix => Self::Mix,
        }
    }
}

/// Flags of `compare linux-rt`.
#[derive(Debug, Args)]
#[command(after_help = "\
Takt must be below a fifteenth of Linux's thread latency and a tenth of its IRQ latency, median and maximum each.
Exit codes: 0 it is, 1 error, 2 it is not, 3 tainted, 130 interrupted.
Environment: TAKT_QEMU is the QEMU to use instead of qemu-system-x86_64; NO_COLOR is honoured.")]
pub struct LinuxRt {
    /// Period in µs, whole ones.
    #[arg(short, long, value_name = "US", value_parser = micros, default_value = "1000", help_heading = "Measurement")]
    pub period: u64,
    /// How long timerlat and cyclictest measure, each, in the guest's time: 500ms, 5s; without a unit, seconds.
    #[arg(short, long, value_name = "TIME", value_parser = positive_time, default_value = "3s", help_heading = "Measurement")]
    pub duration: u64,
    /// timerlat: run for this long before anything is counted.
    #[arg(long, value_name = "TIME", value_parser = time, default_value = "100ms", help_heading = "Measurement")]
    pub warm_up: u64,
    /// What runs beside the measurement.
    #[arg(long, value_enum, default_value_t = CompareLoad::None, help_heading = "Measurement")]
    pub load: CompareLoad,

    /// Boot the kernel in this Debian package instead of the pinned one.
    #[arg(long, value_name = "FILE.deb", help_heading = "Systems")]
    pub kernel: Option<PathBuf>,
    /// Where Debian's packages are kept [default: target/linux-rt]. In a folder that is named, packages of your own are taken
    /// instead of the pinned ones.
    #[arg(long, value_name = "DIR", help_heading = "Systems")]
    pub packages: Option<PathBuf>,
    /// Boot this ELF file instead of building Takt's image.
    #[arg(long, value_name = "ELF", help_heading = "Systems")]
    pub image: Option<PathBuf>,
    /// Never install anything, and fetch nothing.
    #[arg(long, help_heading = "Systems")]
    pub no_install: bool,

    /// Run folder, with both systems' output [default: the next free runs/compare-NNN].
    #[arg(short, long, value_name = "DIR", help_heading = "Output")]
    pub output: Option<PathBuf>,
    /// Replace the run that is in the folder of --output.
    #[arg(long, requires = "output", help_heading = "Output")]
    pub force: bool,
    /// Write the results as JSON to this file; `-` is stdout, and then the text is left out.
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub json: Option<PathBuf>,
    /// Only the figures and the verdict, and nothing while it runs.
    #[arg(short, long, conflicts_with = "verbose", help_heading = "Output")]
    pub quiet: bool,
    /// More: all packages with their checksums, cargo's output.
    #[arg(short, long, action = ArgAction::Count, help_heading = "Output")]
    pub verbose: u8,
}
