//! Flags of `latency-run`: the words are those of `rtla timerlat top` and `hist` (rtla 7).

mod config;

use std::path::PathBuf;

use clap::{ArgAction, Args};
use takt_timerlat::config::{Load, Policy, User};
use takt_tracer::control::Tracer;

use super::actions::{Action, TRACE_FILE, at_end};
use super::cyclictest::Cyclic;
use super::foreign;
use super::units::{micros, priority, time};
use super::values::named;
use takt_base::units::CpuSet;
use takt_machine::qemu::accel::AccelChoice;

/// Flags of `latency-run`.
#[derive(Debug, Args)]
#[command(after_help = format!("\
IRQ latency reaches from an activation's deadline to the time stamp of the interrupt's entry, under icount \
4 ns at least where the interrupt is the timer's own. Under load it may be 0 to 3: another timer's interrupt was being \
entered when the activation fell due, and has handled it as well.
Flags of rtla timerlat that have no meaning here:
{}Exit codes: 0 passed, 1 error, 2 a threshold was hit, 3 tainted, 130 interrupted before the duration was over.
Environment: TAKT_QEMU is the QEMU to use instead of qemu-system-x86_64; TAKT_HISTORY the folder that the history is kept \
in; NO_COLOR is honoured.", foreign::help("latency-run")))]
pub struct LatencyRun {
    /// The threads of `cyclictest`, which is measured instead of timerlat then.
    #[arg(skip)]
    pub cyclic: Option<Cyclic>,
    /// Period in µs, fractions allowed.
    #[arg(short, long, value_name = "US", value_parser = micros, default_value = "1000", help_heading = "Measurement")]
    pub period: u64,
    /// How long to measure, in the guest's time: 500ms, 5s, 10m, 1h; without a unit, seconds. 0: until Ctrl-C, which is
    /// a pass then.
    #[arg(short, long, value_name = "TIME", value_parser = time, default_value = "10s", help_heading = "Measurement")]
    pub duration: u64,
    /// Run for this long before anything is counted.
    #[arg(long, value_name = "TIME", value_parser = time, default_value = "0s", help_heading = "Measurement")]
    pub warm_up: u64,
    /// CPUs to measure on, as in 0-1,3 [default: all that the guest has].
    #[arg(short, long, value_name = "CPUS", help_heading = "Measurement")]
    pub cpus: Option<CpuSet>,
    /// Policy and priority of the measured thread: f:95 or 95 (FIFO), r:95 (round robin), 1 to 99.
    #[arg(short = 'P', long, value_name = "PRIO", value_parser = priority, default_value = "95", help_heading = "Measurement")]
    pub priority: (Policy, u8),
    /// Measure a thread in user space on each CPU, Takt's own protected task: besides IRQ and thread latency the time until it has
    /// come back from user space.
    #[arg(short = 'u', long, conflicts_with_all = ["kernel_threads", "user_load", "manifest"], help_heading = "Measurement")]
    pub user_threads: bool,
    /// Measure threads of the kernel: so it is without any of these.
    #[arg(
        short = 'k',
        long,
        conflicts_with = "user_load",
        help_heading = "Measurement"
    )]
    pub kernel_threads: bool,
    /// Measure those of the tasks of --manifest that ask for it (takt_user::timerlat).
    #[arg(short = 'U', long, requires = "manifest", help_heading = "Measurement")]
    pub user_load: bool,
    /// Start the protected tasks of this manifest, takt.app.toml, beside the measurement.
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with = "image",
        help_heading = "Measurement"
    )]
    pub manifest: Option<PathBuf>,
    /// What runs beside the measurement.
    #[arg(long, value_parser = named::<Load>(), default_value_t = Load::None, help_heading = "Measurement")]
    pub load: Load,

    /// Stop if an IRQ latency is higher than this many µs, fractions allowed [default: never].
    #[arg(short, long = "irq", value_name = "US", value_parser = micros, help_heading = "Thresholds")]
    pub irq_threshold: Option<u64>,
    /// Stop if a thread latency is higher than this many µs, fractions allowed [default: never].
    #[arg(short = 'T', long = "thread", value_name = "US", value_parser = micros, help_heading = "Thresholds")]
    pub thread_threshold: Option<u64>,

    /// Stop if a thread latency is higher than this many µs, and take it apart: what it consists of, to the nanosecond, with
    /// the section, thread or interrupt that is behind it (rtla's automatic analysis).
    #[arg(short, long, value_name = "US", value_parser = micros, conflicts_with = "thread_threshold", help_heading = "Thresholds")]
    pub auto: Option<u64>,

    /// Hold both latencies of every activation against a count of the executed instructions, which a plugin of QEMU's takes
    /// from outside; any difference is an error. Takes about twice as long; under icount only. With several CPUs the table
    /// shows each latency without the time in which other CPUs ran as well.
    #[arg(long, help_heading = "Measurement")]
    pub verify: bool,

    /// As -a, and say nothing but what the latency consists of and the verdict.
    #[arg(long, value_name = "US", value_parser = micros, conflicts_with_all = ["auto", "thread_threshold"], help_heading = "Thresholds")]
    pub aa_only: Option<u64>,
    /// Do not look for the cause of a latency above a threshold.
    #[arg(long, conflicts_with_all = ["auto", "aa_only"], help_heading = "Thresholds")]
    pub no_aa: bool,
    /// Save the trace as text if a threshold was hit, and say where: --on-threshold trace. -t=FILE names the file.
    #[arg(short, long, value_name = "FILE", num_args = 0..=1, require_equals = true, default_missing_value = TRACE_FILE, help_heading = "Thresholds")]
    pub trace: Option<PathBuf>,
    /// What is done if a threshold was hit, in the order given: trace[,file=FILE], signal,num=N,pid=PID (or pid=parent),
    /// shell,command=COMMAND, continue. If one fails, those behind it are not done, and the exit code is 1. With continue
    /// the measurement goes on from the very instruction, at each threshold again; under icount, where no time passes
    /// meanwhile.
    #[arg(long, value_name = "ACTION", help_heading = "Thresholds")]
    pub on_threshold: Vec<Action>,
    /// The same at the end of every measurement, where nothing goes on.
    #[arg(long, value_name = "ACTION", value_parser = at_end, help_heading = "Thresholds")]
    pub on_end: Vec<Action>,

    /// Trace events to record: sched, sched:sched_switch, sched_*, all, none; lists and repeated; -a
    /// adds sched, irq, timer and timerlat, which it reads. [default: sched,irq,timer,timerlat,mutex,print]
    #[arg(
        short,
        long,
        value_name = "EVENTS",
        value_delimiter = ',',
        help_heading = "Trace"
    )]
    pub event: Vec<String>,

    /// Switch a tracer on as well (ftrace: current_tracer). With function the image that is booted is another one, whose
    /// functions have entries that can be patched.
    #[arg(long, value_parser = named::<Tracer>(), default_value_t = Tracer::Nop, help_heading = "Trace")]
    pub tracer: Tracer,
    /// Only these functions: name, pre*, *post, *mid*; with ! before it: not these; repeated
    /// (ftrace: set_ftrace_filter) [default: all; `xtask functions` lists them].
    #[arg(long, value_name = "PATTERN", help_heading = "Trace")]
    pub function_filter: Vec<String>,
    /// Not these functions, although the filter has them (ftrace: set_ftrace_notrace).
    #[arg(long, value_name = "PATTERN", help_heading = "Trace")]
    pub function_notrace: Vec<String>,
    /// function_graph: only these functions and what they call (ftrace: set_graph_function).
    #[arg(long, value_name = "PATTERN", help_heading = "Trace")]
    pub graph_function: Vec<String>,
    /// function_graph: neither these functions nor what they call (ftrace: set_graph_notrace).
    #[arg(long, value_name = "PATTERN", help_heading = "Trace")]
    pub graph_notrace: Vec<String>,
    /// function_graph: no more than so many calls within each other [default: 32].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), help_heading = "Trace")]
    pub max_graph_depth: Option<u32>,
    /// More words for the kernel's command line; ftrace=, trace_event=, trace_options=, trace_buf_size=,
    /// tracing_cpumask=, ftrace_filter=, ftrace_notrace=, ftrace_graph_filter=, ftrace_graph_notrace=, stacktrace and
    /// stacktrace_filter= as Linux spells them.
    #[arg(
        long,
        value_name = "TEXT",
        default_value = "",
        hide_default_value = true,
        help_heading = "Trace"
    )]
    pub append: String,
    /// Size of each CPU's trace buffer in KiB [default: what the image has].
    #[arg(long, value_name = "KIB", value_parser = clap::value_parser!(u32).range(1..), help_heading = "Trace")]
    pub trace_buffer_size: Option<u32>,
    /// Let `tracefs --attach` control the tracer while this runs: a thread of the guest looks for its settings every
    /// 5 ms, which the latencies show.
    #[arg(long, help_heading = "Trace")]
    pub live: bool,

    /// auto: KVM where the CPU has it and a probe boot works, else TCG.
    #[arg(long, value_parser = named::<AccelChoice>(), default_value_t = AccelChoice::Auto, help_heading = "Machine")]
    pub accel: AccelChoice,
    /// TCG without icount: time is the host's, and so are the latencies.
    #[arg(long, help_heading = "Machine")]
    pub no_icount: bool,
    /// CPUs of the guest, 1 to 8 [default: as many as --cpus needs].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=8), help_heading = "Machine")]
    pub smp: Option<u8>,
    /// Boot this ELF file instead of building the image.
    #[arg(long, value_name = "ELF", help_heading = "Machine")]
    pub image: Option<PathBuf>,
    /// Never install anything.
    #[arg(long, help_heading = "Machine")]
    pub no_install: bool,

    /// Width of the histogram's buckets in µs, or in ns with -n [default: 1 ns in JSON, what fits on the terminal].
    #[arg(short, long, value_name = "US", value_parser = clap::value_parser!(u64).range(1..), help_heading = "Output")]
    pub bucket_size: Option<u64>,
    /// Number of buckets, from 0 up; samples beyond are overflow [default: as many as it takes].
    #[arg(short = 'E', long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..), help_heading = "Output")]
    pub entries: Option<u64>,
    /// -b is in ns. All that is printed is in ns anyway.
    #[arg(short, long, help_heading = "Output")]
    pub nano: bool,
    /// What is left out.
    #[command(flatten)]
    pub parts: Parts,
    /// Run folder [default: the next free runs/WORKLOAD-NNN].
    #[arg(short, long, value_name = "DIR", help_heading = "Output")]
    pub output: Option<PathBuf>,
    /// Replace the run that is in the folder of --output.
    #[arg(long, requires = "output", help_heading = "Output")]
    pub force: bool,
    /// Write the results as JSON to this file; `-` is stdout, and then the text is left out.
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub json: Option<PathBuf>,
    /// Do not keep this run in the history (`xtask history`).
    #[arg(long, conflicts_with = "history", help_heading = "Output")]
    pub no_history: bool,
    /// Keep it in the history in this folder [default: TAKT_HISTORY, or runs/.history].
    #[arg(long, value_name = "DIR", help_heading = "Output")]
    pub history: Option<PathBuf>,
    /// Only the summary and the verdict, and nothing while it runs.
    #[arg(short, long, conflicts_with = "verbose", help_heading = "Output")]
    pub quiet: bool,
    /// More: cargo's output, clocks, threads, QEMU's command line; twice: every log level in the
    /// image.
    #[arg(short, long, visible_short_alias = 'D', visible_alias = "debug", action = ArgAction::Count, help_heading = "Output")]
    pub verbose: u8,
    /// Say what would be built and booted, and do nothing.
    #[arg(long, help_heading = "Output")]
    pub dry_run: bool,
    /// Report on an earlier run's folder without booting.
    #[arg(long, value_name = "DIR", conflicts_with_all = [
        "aa_only", "trace", "on_threshold", "on_end", "trace_buffer_size", "verify", "period", "duration", "warm_up", "cpus", "priority", "load",
        "user_threads", "kernel_threads", "user_load", "manifest", "irq_threshold", "thread_threshold", "auto", "event", "append", "live", "accel", "no_icount", "smp", "image", "output",
        "force", "dry_run", "no_history", "history",
    ], help_heading = "Output")]
    pub from: Option<PathBuf>,
}

/// What is left out of the report.
#[derive(Clone, Copy, Debug, Default, Args)]
pub struct Parts {
    /// Leave the IRQ latency out.
    #[arg(long, conflicts_with = "no_thread", help_heading = "Output")]
    pub no_irq: bool,
    /// Leave the thread latency out.
    #[arg(long, help_heading = "Output")]
    pub no_thread: bool,
    /// Leave out what is measured and on what.
    #[arg(long, help_heading = "Output")]
    pub no_header: bool,
    /// Leave out the table of both latencies.
    #[arg(long, help_heading = "Output")]
    pub no_summary: bool,
    /// Histograms: leave out which latencies a bucket counts.
    #[arg(long, help_heading = "Output")]
    pub no_index: bool,
    /// Histograms: with the buckets that are empty.
    #[arg(long, help_heading = "Output")]
    pub with_zeros: bool,
}

impl LatencyRun {
    /// Whose threads are measured.
    #[must_use]
    pub fn user(&self) -> User {
        match (self.user_threads, self.user_load, &self.manifest) {
            (true, ..) => User::Own,
            (_, true, _) => User::Any,
            (_, _, Some(_)) => User::Beside,
            _ => User::None,
        }
    }

    /// The threshold of the thread latency, in ns.
    #[must_use]
    pub fn thread_limit(&self) -> Option<u64> {
        self.auto.or(self.aa_only).or(self.thread_threshold)
    }

    /// The width of the histogram's buckets, in ns.
    #[must_use]
    pub fn bucket_ns(&self) -> Option<u64> {
        let unit = if self.nano { 1 } else { 1000 };
        Some(self.bucket_size?.saturating_mul(unit))
    }

    /// What the user has for the kernel's command line.
    #[must_use]
    pub fn appended(&self) -> String {
        let size = self.trace_buffer_size;
        let size = size.map(|kib| format!("trace_buf_size={kib}K"));
        let parts = [size.as_deref(), Some(&*self.append)];
        let parts: Vec<_> = (parts.into_iter().flatten())
            .filter(|text| !text.is_empty())
            .collect();
        parts.join(" ")
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::{Cli, Command};

    fn flags(words: &str) -> Result<LatencyRun, clap::Error> {
        let words = ["xtask", "latency-run"].into_iter().chain(words.split(' '));
        match Cli::try_parse_from(words)?.command {
            Command::LatencyRun(flags) => Ok(*flags),
            _ => unreachable!(),
        }
    }

    #[test]
    fn flags_mean_what_they_mean_in_rtla() {
        assert_eq!(flags("-b 2").unwrap().bucket_ns(), Some(2000));
        assert_eq!(flags("-n -b 2").unwrap().bucket_ns(), Some(2));
        assert_eq!(flags("-D").unwrap().verbose, 1);
        let file = |words| flags(words).unwrap().trace;
        assert_eq!(file("-t"), Some(TRACE_FILE.into()));
        assert_eq!(file("-t=x"), Some("x".into()));
        assert_eq!(file("--trace=x -q"), Some("x".into()));
        assert_eq!(file("-q"), None);
        for words in ["-a 3", "--aa-only 3", "-T 3"] {
            assert_eq!(flags(words).unwrap().thread_limit(), Some(3000));
        }
        assert_eq!(
            flags("--trace-buffer-size 64 --append x=1")
                .unwrap()
                .appended(),
            "trace_buf_size=64K x=1"
        );
        assert_eq!(
            flags("--on-threshold trace --on-threshold shell,command=true")
                .unwrap()
                .on_threshold
                .len(),
            2
        );
        for words in [
            "-a 3 --no-aa",
            "-a 3 --aa-only 3",
            "--no-irq --no-thread",
            "--on-end continue",
        ] {
            assert!(flags(words).is_err(), "{words}");
        }
    }
}
