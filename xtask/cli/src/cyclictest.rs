//! Flags of `cyclictest`: its own letters, each with its meaning here or the reason why it has none.

use std::path::PathBuf;
use std::str::FromStr;

use anyhow::{Context, Result, ensure};
use clap::{ArgAction, Args, Parser};
use takt_timerlat::config::{Load, Policy};

use super::foreign;
use super::latency_run::LatencyRun;
use super::units::{micros, micros_or_none, time};
use super::values::named;
use super::{Cli, Command};
use takt_base::units::CpuSet;
use takt_machine::qemu::accel::AccelChoice;
use takt_machine::run::lines::Lines;

/// What cyclictest measures, where it differs from timerlat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cyclic {
    /// Number of threads.
    pub threads: u8,
    /// What each thread's interval has more than the one before, in ns.
    pub distance_ns: u64,
    /// How much lower each thread's priority is than the one before.
    pub prio_step: u8,
    /// How long after a multiple of `align_ns` the first activation is.
    pub offset_ns: u64,
    /// On a multiple of what the first activation lies; 0 is the interval.
    pub align_ns: u64,
    /// How much later each thread's first activation is than the one before.
    pub stagger_ns: u64,
    /// How the lines look that are shown meanwhile.
    pub lines: Lines,
}

/// What may stand behind `-a`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Affinity {
    /// These CPUs.
    Cpus(CpuSet),
    /// `-at`: all of them, and a thread on each.
    AllWithThreads,
}

impl FromStr for Affinity {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "t" => Ok(Self::AllWithThreads),
            cpus => cpus.parse().map(Self::Cpus),
        }
    }
}

/// Flags of `cyclictest`.
#[derive(Debug, Args)]
#[command(
    disable_help_flag = true,
    after_help = format!("\
stdout is what cyclictest prints; what else there is to say, and the verdict, is on stderr. The run is kept as latency-run \
keeps its own: cargo xtask latency-run --from, trace, report and history read it.
Flags of cyclictest that have no meaning here:
{}Exit codes: 0 passed, 1 error, 2 a latency was above -b, 3 tainted, 130 interrupted before -D or -l was over.
Environment: TAKT_QEMU is the QEMU to use instead of qemu-system-x86_64; TAKT_HISTORY the folder that the history is kept \
in; NO_COLOR is honoured.", foreign::help("cyclictest"))
)]
pub struct Cyclictest {
    /// Interval of the first thread in µs, fractions allowed.
    #[arg(short, long, value_name = "US", value_parser = micros, default_value = "1000", help_heading = "Measurement")]
    pub interval: u64,
    /// What each thread's interval has more than the one before, in µs; 0 with a histogram.
    #[arg(short, long, value_name = "US", value_parser = micros_or_none, default_value = "500", help_heading = "Measurement")]
    pub distance: u64,
    /// Number of activations of the first thread, with which the measurement ends; 0: no limit.
    #[arg(
        short,
        long,
        value_name = "N",
        default_value_t = 0,
        help_heading = "Measurement"
    )]
    pub loops: u64,
    /// How long to measure, in the guest's time: seconds, or with m, h, d (also ms, us, ns). Without -D and -l: until Ctrl-C,
    /// which is a pass then.
    #[arg(short = 'D', long, value_name = "TIME", value_parser = time, default_value = "0", help_heading = "Measurement")]
    pub duration: u64,
    /// Priority of the threads, 1 to 99.
    #[arg(short, long, visible_alias = "prio", value_name = "PRIO", default_value_t = 95, value_parser = clap::value_parser!(u8).range(1..=99), help_heading = "Measurement")]
    pub priority: u8,
    /// Each thread's priority is one lower than that of the one before.
    #[arg(long, help_heading = "Measurement")]
    pub priospread: bool,
    /// Policy of the threads. There is none below the real-time policies.
    #[arg(long, value_parser = named::<Policy>(), default_value_t = Policy::Fifo, help_heading = "Measurement")]
    pub policy: Policy,
    /// Number of threads, 1 to 8; without a number one for each CPU [default: 1].
    #[arg(short, long, value_name = "N", num_args = 0..=1, value_parser = clap::value_parser!(u8).range(1..=8), help_heading = "Measurement")]
    pub threads: Option<Option<u8>>,
    /// CPUs that the threads are spread over in turn, as in 0-1,3; without a list, and without the flag, all of them. -at
    /// is -a -t.
    #[arg(short, long, value_name = "CPUS", num_args = 0..=1, help_heading = "Measurement")]
    pub affinity: Option<Option<Affinity>>,
    /// As -a and -t: a thread on each CPU, all of the same priority. With --smp=N the guest has N CPUs, 1 to 8 [default: as
    /// many as -a needs].
    #[arg(short = 'S', long, value_name = "N", num_args = 0..=1, require_equals = true, value_parser = clap::value_parser!(u8).range(1..=8), conflicts_with = "priospread", help_heading = "Measurement")]
    pub smp: Option<Option<u8>>,
    /// Each thread's first activation is this many µs after that of the one before. Without it all are at the same time.
    #[arg(short = 'A', long, value_name = "US", num_args = 0..=1, value_parser = micros_or_none, conflicts_with = "secaligned", help_heading = "Measurement")]
    pub aligned: Option<Option<u64>>,
    /// The first activation is at a full second of the guest's clock, or this many µs behind it.
    #[arg(long, value_name = "US", num_args = 0..=1, value_parser = micros_or_none, help_heading = "Measurement")]
    pub secaligned: Option<Option<u64>>,
    /// No effect: all memory is locked, always.
    #[arg(short, long, help_heading = "Measurement")]
    pub mlockall: bool,
    /// Measure protected tasks, one on each CPU, which read the clock in user space (Takt's own flag).
    #[arg(long, conflicts_with = "image", help_heading = "Measurement")]
    pub user_threads: bool,
    /// What runs beside the measurement (Takt's own flag).
    #[arg(long, value_parser = named::<Load>(), default_value_t = Load::None, help_heading = "Measurement")]
    pub load: Load,

    /// Stop if a latency is higher than this many µs, fractions allowed. The trace ends with the record of that latency.
    #[arg(short, long, value_name = "US", value_parser = micros, help_heading = "Trace")]
    pub breaktrace: Option<u64>,
    /// No effect: each latency is a record of the trace.
    #[arg(long, help_heading = "Trace")]
    pub tracemark: bool,
    /// Trace events to record, as for latency-run. -v and --spike add timerlat, which they read.
    #[arg(
        long,
        value_name = "EVENTS",
        value_delimiter = ',',
        help_heading = "Trace"
    )]
    pub event: Vec<String>,

    /// Also print a histogram of the latencies below this, in µs, or in ns with -N.
    #[arg(short, long, value_name = "MAX", value_parser = clap::value_parser!(u64).range(1..=1_000_000), help_heading = "Output")]
    pub histogram: Option<u64>,
    /// The same with a column for all threads together.
    #[arg(short = 'H', long, value_name = "MAX", conflicts_with = "histogram", value_parser = clap::value_parser!(u64).range(1..=1_000_000), help_heading = "Output")]
    pub histofall: Option<u64>,
    /// Write the histogram to this file instead.
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub histfile: Option<PathBuf>,
    /// Latencies in ns instead of µs.
    #[arg(short = 'N', long, help_heading = "Output")]
    pub nsecs: bool,
    /// Nothing while it runs; the summary, or with -h the histogram alone.
    #[arg(short, long, conflicts_with = "verbose", help_heading = "Output")]
    pub quiet: bool,
    /// Print each latency instead of the summary, as it comes: thread, number of the activation, latency.
    #[arg(short, long, help_heading = "Output")]
    pub verbose: bool,
    /// With -v: only the highest of so many in turn.
    #[arg(short, long, value_name = "N", requires = "verbose", value_parser = clap::value_parser!(u64).range(1..), help_heading = "Output")]
    pub oscope: Option<u64>,
    /// Show nothing new while it runs until there is a new maximum.
    #[arg(short = 'M', long = "refresh_on_max", help_heading = "Output")]
    pub refresh_on_max: bool,
    /// List the latencies above this many µs, fractions allowed.
    #[arg(long, value_name = "US", value_parser = micros, help_heading = "Output")]
    pub spike: Option<u64>,
    /// With --spike: so many at most.
    #[arg(
        long,
        value_name = "N",
        default_value_t = 1024,
        requires = "spike",
        help_heading = "Output"
    )]
    pub spike_nodes: usize,
    /// Write the results as cyclictest's JSON to this file; `-` is stdout, and then the text is left out.
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub json: Option<PathBuf>,
    /// Run folder [default: the next free runs/cyclictest-NNN].
    #[arg(long, value_name = "DIR", help_heading = "Output")]
    pub output: Option<PathBuf>,
    /// Replace the run that is in the folder of --output.
    #[arg(long, requires = "output", help_heading = "Output")]
    pub force: bool,
    /// Do not keep this run in the history (`xtask history`).
    #[arg(long, conflicts_with = "history", help_heading = "Output")]
    pub no_history: bool,
    /// Keep it in the history in this folder [default: TAKT_HISTORY, or runs/.history].
    #[arg(long, value_name = "DIR", help_heading = "Output")]
    pub history: Option<PathBuf>,
    /// Say what would be built and booted, and do nothing.
    #[arg(long, help_heading = "Output")]
    pub dry_run: bool,
    /// Print help.
    #[arg(long, action = ArgAction::Help, help_heading = "Output")]
    help: Option<bool>,

    /// auto: KVM where the CPU has it and a probe boot works, else TCG.
    #[arg(long, value_parser = named::<AccelChoice>(), default_value_t = AccelChoice::Auto, help_heading = "Machine")]
    pub accel: AccelChoice,
    /// TCG without icount: time is the host's, and so are the latencies.
    #[arg(long, help_heading = "Machine")]
    pub no_icount: bool,
    /// Boot this ELF file instead of building the image.
    #[arg(long, value_name = "ELF", help_heading = "Machine")]
    pub image: Option<PathBuf>,
    /// Never install anything.
    #[arg(long, help_heading = "Machine")]
    pub no_install: bool,
    /// More words for the kernel's command line, as for latency-run.
    #[arg(
        long,
        value_name = "TEXT",
        default_value = "",
        hide_default_value = true,
        help_heading = "Machine"
    )]
    pub append: String,
}

impl Cyclictest {
    /// The histogram that is asked for: its end, in the unit that is printed, and whether it has a column for all.
    #[must_use]
    pub fn histogram(&self) -> Option<(u64, bool)> {
        let of_all = self.histofall.map(|end| (end, true));
        self.histogram.map(|end| (end, false)).or(of_all)
    }

    /// How lines for threads look.
    #[must_use]
    pub fn lines(&self) -> Lines {
        Lines {
            is_ns: self.nsecs,
            is_on_max: self.refresh_on_max,
        }
    }

    /// Whether each latency is needed, not their distribution alone.
    #[must_use]
    pub fn needs_samples(&self) -> bool {
        self.verbose || self.spike.is_some()
    }

    /// The measurement, in the words of `latency-run`.
    ///
    /// # Errors
    ///
    /// If so many loops, or an interval, take longer than a clock counts.
    pub fn measurement(&self) -> Result<LatencyRun> {
        let (cpus, is_with_threads) = match self.affinity.flatten() {
            None => (None, false),
            Some(Affinity::Cpus(cpus)) => (Some(cpus), false),
            Some(Affinity::AllWithThreads) => (None, true),
        };
        let smp = self.smp.flatten();
        let nr_cpus = cpus.map_or_else(|| smp.unwrap_or(1), |cpus| cpus.iter().count() as u8);
        let threads = match (self.threads, self.smp) {
            (Some(Some(threads)), _) => threads,
            (None, None) if !is_with_threads => 1,
            _ => nr_cpus,
        };
        ensure!(
            !self.user_threads || threads == nr_cpus,
            "--user-threads: a protected task on each CPU, so as many threads as CPUs (-S, or -t and -a)"
        );
        let by_loops = (self.interval.checked_mul(self.loops))
            .with_context(|| format!("--loops {} take longer than 500 years", self.loops))?;
        let distance = match self.histogram() {
            Some(_) => 0,
            None => self.distance,
        };
        let longest = (distance.checked_mul(u64::from(threads.saturating_sub(1))))
            .and_then(|longer| longer.checked_add(self.interval));
        ensure!(
            longest.is_some(),
            "--distance: the last thread's interval would be longer than 500 years"
        );
        let limits = [self.duration, by_loops].into_iter().filter(|ns| *ns != 0);
        let mut event = self.event.clone();
        if self.needs_samples() && !event.is_empty() {
            event.push("timerlat".into());
        }
        Ok(LatencyRun {
            cyclic: Some(Cyclic {
                threads,
                distance_ns: distance,
                prio_step: self.priospread.into(),
                offset_ns: self.secaligned.flatten().unwrap_or(0),
                align_ns: self.secaligned.map_or(0, |_| 1_000_000_000),
                stagger_ns: self.aligned.flatten().unwrap_or(0),
                lines: self.lines(),
            }),
            period: self.interval,
            duration: limits.min().unwrap_or(0),
            priority: (self.policy, self.priority),
            cpus,
            smp,
            user_threads: self.user_threads,
            load: self.load,
            thread_threshold: self.breaktrace,
            event,
            append: self.append.clone(),
            accel: self.accel,
            no_icount: self.no_icount,
            image: self.image.clone(),
            no_install: self.no_install,
            output: self.output.clone(),
            force: self.force,
            json: self.json.clone(),
            no_history: self.no_history,
            history: self.history.clone(),
            quiet: self.quiet,
            dry_run: self.dry_run,
            ..LatencyRun::without_flags()?
        })
    }
}

impl LatencyRun {
    /// What `latency-run` without any flag does.
    fn without_flags() -> Result<Self> {
        match Cli::try_parse_from(["xtask", "latency-run"])?.command {
            Command::LatencyRun(flags) => Ok(*flags),
            _ => anyhow::bail!("these are the words of another command"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use takt_machine::qemu::Accel;
    use takt_machine::run::RunConfig;

    fn config(words: &str) -> Result<RunConfig> {
        let words = ["xtask", "cyclictest"]
            .into_iter()
            .chain(words.split_whitespace());
        match Cli::try_parse_from(words)?.command {
            Command::Cyclictest(flags) => flags.measurement()?.config(),
            _ => unreachable!(),
        }
    }

    #[test]
    fn letters_mean_what_they_mean_in_cyclictest() {
        for (words, says) in [
            (
                "",
                "period_ns=1000000 duration_ns=0 warmup_ns=0 smp=1 cpus=0x1 prio=95 policy=fifo load=none",
            ),
            (
                "-i200 -l 5000 -p80",
                "period_ns=200000 duration_ns=1000000000 warmup_ns=0 smp=1 cpus=0x1 prio=80",
            ),
            ("-l 5000 -D 2", "duration_ns=2000000000 "),
            ("-D 1m", "duration_ns=60000000000 "),
            (
                "-t3 -d 250 --priospread",
                "threads=3 distance_ns=250000 prio_step=1 ",
            ),
            (
                "-t -a 0-3",
                "smp=4 cpus=0xf prio=95 policy=fifo load=none plant_ns=30000 threads=4 distance_ns=500000 prio_step=0",
            ),
            (
                "-t 5 -a 2,3",
                "smp=4 cpus=0xc prio=95 policy=fifo load=none plant_ns=30000 threads=5 ",
            ),
            (
                "--smp=4 -h 400 -q",
                "smp=4 cpus=0xf prio=95 policy=fifo load=none plant_ns=30000 threads=4 distance_ns=0 prio_step=0",
            ),
            (
                "-S -m -p98",
                "smp=1 cpus=0x1 prio=98 policy=fifo load=none plant_ns=30000 threads=1 ",
            ),
            (
                "-mp95 --smp=2",
                "smp=2 cpus=0x3 prio=95 policy=fifo load=none plant_ns=30000 threads=2 distance_ns=500000 prio_step=0",
            ),
            (
                "-Sp90 -i200 -h400 -q",
                "period_ns=200000 duration_ns=0 warmup_ns=0 smp=1 cpus=0x1 prio=90 policy=fifo load=none plant_ns=30000 \
                 threads=1 distance_ns=0 ",
            ),
            (
                "-m -S -p 90 -i 200 -h 400 -D 5 -q",
                "period_ns=200000 duration_ns=5000000000 warmup_ns=0 smp=1 cpus=0x1 prio=90 ",
            ),
            ("-Smp95", "smp=1 cpus=0x1 prio=95 "),
            ("-at -p 80", "smp=1 cpus=0x1 prio=80 "),
            (
                "-a0-1 -t --priority=80 --mlockall --interval=500 --distance=0",
                "period_ns=500000 duration_ns=0 warmup_ns=0 smp=2 cpus=0x3 prio=80 policy=fifo load=none plant_ns=30000 \
                 threads=2 distance_ns=0 ",
            ),
            ("--prio 70 -A", "prio=70 "),
            ("-t 2 -A 20", "offset_ns=0 align_ns=0 stagger_ns=20000 "),
            ("--secaligned", "offset_ns=0 align_ns=1000000000 "),
            ("--secaligned 70", "offset_ns=70000 align_ns=1000000000 "),
            ("-b 12.5 --tracemark", "stop_irq_ns=0 stop_thread_ns=12500 "),
            ("--policy rr -N -M -q", "policy=rr"),
            ("-m -v -o 10 --spike 5", "load=none"),
        ] {
            let line = config(words).unwrap().kernel_cmdline(Accel::Tcg, &[]);
            assert!(line.contains(says), "{words}: {line}");
        }
        assert_eq!(
            config("-v --event none").unwrap().events,
            ["none", "timerlat"]
        );
    }

    #[test]
    fn what_has_no_meaning_is_refused() {
        for words in [
            "-p 0",
            "-t 9",
            "--policy other",
            "-A 10 --secaligned",
            "-t 8 -p 5 --priospread",
            "-t 2 -p 5 --priospread --load cpu",
            "-S --priospread",
            "-h 10 -H 10",
            "-q -v",
            "-o 3",
            "-t 2 -A 1000",
            "-n",
            "-t 3 -d 9223372036854775",
            "-l 18446744073709551615",
        ] {
            assert!(config(words).is_err(), "{words}");
        }
    }
}
