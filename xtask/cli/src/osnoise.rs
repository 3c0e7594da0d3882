//! Flags of `osnoise` and `hwnoise`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use takt_timerlat::config::Load;

use super::foreign;
use super::units::{micros, positive_time};
use super::values::named;
use takt_base::units::CpuSet;

/// Flags of `osnoise`.
#[derive(Debug, Args)]
pub struct Osnoise {
    /// What is shown.
    #[command(subcommand)]
    pub command: OsnoiseCommand,
}

/// What is shown.
#[derive(Debug, Subcommand)]
pub enum OsnoiseCommand {
    /// For each CPU the share that was left to the thread, the noise, and what it was (rtla osnoise top).
    Top(Sampling),
    /// A histogram of single noises (rtla osnoise hist).
    Hist(Hist),
}

/// Flags of `osnoise hist`.
#[derive(Debug, Args)]
pub struct Hist {
    /// What is measured.
    #[command(flatten)]
    pub sampling: Sampling,
    /// Width of the buckets in µs, fractions allowed.
    #[arg(short, long, value_name = "US", value_parser = micros, default_value = "1")]
    pub bucket_size: u64,
    /// Number of buckets; what is longer counts as over.
    #[arg(short = 'E', long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..), default_value_t = 256)]
    pub entries: u64,
}

/// What is measured. The letters are rtla's.
#[derive(Debug, Args)]
#[command(after_help = format!("\
Runs under icount: a nanosecond is a guest instruction, and nothing but the guest itself can be noise. With several \
CPUs QEMU runs one after the other: a noise that nothing of the guest's explains is counted in the column Turns then, never \
in HW, and all times have the others' turns in them.
The threads have priority 2: above the load cpu, which so is no noise, and below all other threads.
Flags of rtla osnoise that have no meaning here:
{}Exit codes: 0 measured, 1 error, 2 a limit stopped the tracing, 3 events were lost, 130 interrupted.", foreign::help("osnoise")))]
pub struct Sampling {
    /// Period of the samplings in µs; in what is left of it the thread sleeps.
    #[arg(short, long, value_name = "US", value_parser = micros, default_value = "100000", help_heading = "Measurement")]
    pub period: u64,
    /// How long each samples, in µs.
    #[arg(short, long, value_name = "US", value_parser = micros, default_value = "100000", help_heading = "Measurement")]
    pub runtime: u64,
    /// Noise is what keeps the thread from reading the clock for more than this many µs [default: as many as the guest has
    /// CPUs: to record a noise is a turn that all others wait for].
    #[arg(short = 'T', long, value_name = "US", value_parser = micros, help_heading = "Measurement")]
    pub threshold: Option<u64>,
    /// How long to measure, in the guest's time: 500ms, 5s; without a unit, seconds [default: 1s; an application that
    /// measures nothing itself is sampled until it ends].
    #[arg(short, long, value_name = "TIME", value_parser = positive_time, help_heading = "Measurement")]
    pub duration: Option<u64>,
    /// CPUs to measure on [default: all].
    #[arg(short, long, value_name = "CPUS", help_heading = "Measurement")]
    pub cpus: Option<CpuSet>,
    /// CPUs that are kept free of measuring.
    #[arg(short = 'H', long, value_name = "CPUS", help_heading = "Measurement")]
    pub house_keeping: Option<CpuSet>,
    /// What runs beside the measurement, on the measured CPUs.
    #[arg(long, value_parser = named::<Load>(), default_value_t = Load::None, help_heading = "Measurement")]
    pub load: Load,

    /// Stop tracing at a single noise of this many µs, fractions allowed.
    #[arg(short, long, value_name = "US", value_parser = micros, help_heading = "Thresholds")]
    pub stop: Option<u64>,
    /// Stop tracing when the noise of one sampling adds up to this many µs.
    #[arg(short = 'S', long, value_name = "US", value_parser = micros, help_heading = "Thresholds")]
    pub stop_total: Option<u64>,

    /// Events to record beside the noises: sched, sched:sched_switch, sched_*; lists and repeated.
    #[arg(
        short,
        long,
        value_name = "EVENTS",
        value_delimiter = ',',
        help_heading = "Trace"
    )]
    pub event: Vec<String>,
    /// Save the trace as text if a limit stopped the tracing, and say where. -t=FILE names the file.
    #[arg(short, long, value_name = "FILE", num_args = 0..=1, require_equals = true, default_missing_value = "osnoise_trace.txt", help_heading = "Trace")]
    pub trace: Option<PathBuf>,

    /// CPUs of the guest, 1 to 8 [default: as many as --cpus needs].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=8), help_heading = "Machine")]
    pub smp: Option<u8>,
    /// Boot this ELF file instead of building the image: any Takt application that has the tracer osnoise.
    #[arg(long, value_name = "ELF", help_heading = "Machine")]
    pub image: Option<PathBuf>,
    /// End the guest after this many seconds of real time [default: 600 for an application that measures nothing itself;
    /// what ends with --duration has no limit].
    #[arg(long, value_name = "S", help_heading = "Machine")]
    pub timeout: Option<u64>,
    /// Never install anything.
    #[arg(long, help_heading = "Machine")]
    pub no_install: bool,

    /// Run folder [default: the next free runs/osnoise-NNN].
    #[arg(short, long, value_name = "DIR", help_heading = "Output")]
    pub output: Option<PathBuf>,
    /// Replace the run that is in the folder of --output.
    #[arg(long, requires = "output", help_heading = "Output")]
    pub force: bool,
    /// The results as JSON on stdout.
    #[arg(long, help_heading = "Output")]
    pub json: bool,
    /// Say what is done: the kernel's command line, the run folder.
    #[arg(short = 'D', long, help_heading = "Output")]
    pub debug: bool,
}
