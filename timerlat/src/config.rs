//! [`Config`]: what is measured and against which load, as the kernel's command line has it.
//!
//! Each parameter is declared once here, with its word, its type and its default. The host prints a configuration, the
//! target reads it.

use core::fmt::{self, Display, Formatter};

use takt_tracer::named;
use takt_tracer::named::Named;

named! {
    /// What is measured.
    #[cfg_attr(feature = "workload", derive(defmt::Format))]
    pub enum Workload {
        /// One periodic thread per CPU; IRQ and thread latency apart.
        Timerlat = "timerlat",
        /// Several threads of growing interval that sleep until an absolute time.
        Cyclictest = "cyclictest",
        /// Nothing: what runs is a tracer's.
        None = "none",
    }
}

named! {
    /// What runs beside the measurement.
    #[cfg_attr(feature = "workload", derive(defmt::Format))]
    pub enum Load {
        /// Nothing: the CPU sleeps between two activations.
        None = "none",
        /// A thread that computes all the time.
        Cpu = "cpu",
        /// Frequent interrupts of lower importance.
        Irq = "irq",
        /// Threads that contend for mutexes.
        Lock = "lock",
        /// These three.
        Mix = "mix",
        /// Sections with interrupts off and with preemption off in turn, 30 µs each (or --append plant_ns=NS).
        Plant = "plant",
    }
}

named! {
    /// How threads of the same priority share a CPU.
    #[derive(Default)]
    #[cfg_attr(feature = "workload", derive(defmt::Format))]
    pub enum Policy {
        /// One runs until it waits.
        #[default]
        Fifo = "fifo",
        /// They take turns, 100 ms each.
        RoundRobin = "rr",
    }
}

named! {
    /// Whose threads timerlat measures: the word `user` on the command line of an image with tasks.
    #[derive(Default)]
    pub enum User {
        /// The kernel's.
        #[default]
        None = "none",
        /// Takt's own task on each CPU.
        Own = "own",
        /// Those of the manifest's tasks that ask for it.
        Any = "any",
        /// The kernel's, beside the tasks of a manifest.
        Beside = "beside",
    }
}

/// The most important of the loads' threads: what is measured has to be above it.
pub const LOAD_PRIORITY: u8 = 4;

/// A value on the command line.
trait Word: Display + Sized {
    /// Reads it.
    fn read(text: &str) -> Option<Self>;
}

/// Numbers are decimal, or hexadecimal behind `0x`.
fn number(text: &str) -> Option<u64> {
    let (digits, radix) = match text.strip_prefix("0x") {
        Some(digits) => (digits, 16),
        None => (text, 10),
    };
    // `from_str_radix` would take a sign.
    let is_plain = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    u64::from_str_radix(digits, radix).ok().filter(|_| is_plain)
}

impl Word for u64 {
    fn read(text: &str) -> Option<Self> {
        number(text)
    }
}

impl Word for u32 {
    fn read(text: &str) -> Option<Self> {
        number(text)?.try_into().ok()
    }
}

impl Word for u8 {
    fn read(text: &str) -> Option<Self> {
        number(text)?.try_into().ok()
    }
}

/// A bit for each CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuMask(pub u32);

impl CpuMask {
    /// The first so many, 32 at most.
    #[must_use]
    pub const fn first(nr: u8) -> Self {
        Self(match nr {
            0 => 0,
            nr => u32::MAX >> (32_u8.saturating_sub(nr)),
        })
    }

    /// Whether this CPU is in it.
    #[must_use]
    pub const fn has(self, cpu: usize) -> bool {
        cpu < 32 && self.0 >> cpu & 1 != 0
    }
}

impl Display for CpuMask {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

impl Word for CpuMask {
    fn read(text: &str) -> Option<Self> {
        u32::read(text).map(Self)
    }
}

impl Word for Workload {
    fn read(text: &str) -> Option<Self> {
        Self::from_name(text)
    }
}

impl Word for Load {
    fn read(text: &str) -> Option<Self> {
        Self::from_name(text)
    }
}

impl Word for Policy {
    fn read(text: &str) -> Option<Self> {
        Self::from_name(text)
    }
}

/// Declares the parameters: field, type, default, word.
macro_rules! config {
    ($($(#[$meta:meta])* $field:ident: $ty:ty = $default:expr, $word:literal;)+) => {
        /// A run's parameters.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct Config {
            $($(#[$meta])* pub $field: $ty,)+
        }

        impl Default for Config {
            fn default() -> Self {
                Self { $($field: $default,)+ }
            }
        }

        impl Config {
            /// Reads a configuration; `find` gives the value of a word, if the command line has it.
            ///
            /// # Errors
            /// A value that is none of its word's.
            pub fn read<'a>(find: impl Fn(&str) -> Option<&'a str>) -> Result<Self, &'a str> {
                let default = Self::default();
                Ok(Self {
                    $($field: match find($word) {
                        Some(text) => <$ty as Word>::read(text).ok_or(text)?,
                        None => default.$field,
                    },)+
                })
            }
        }

        /// The words of the kernel's command line.
        impl Display for Config {
            fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
                let mut space = "";
                $(
                    write!(f, "{space}{}={}", $word, self.$field)?;
                    space = " ";
                )+
                let _ = space;
                Ok(())
            }
        }
    };
}

config! {
    /// What is measured.
    workload: Workload = Workload::Timerlat, "workload";
    /// Time between two activations, in nanoseconds.
    period_ns: u64 = 1_000_000, "period_ns";
    /// How long is measured, in nanoseconds; 0 means until the host stops it.
    duration_ns: u64 = 5_000_000_000, "duration_ns";
    /// How long runs before it counts, in nanoseconds.
    warmup_ns: u64 = 0, "warmup_ns";
    /// CPUs that are started.
    smp: u32 = 1, "smp";
    /// CPUs that are measured.
    cpus: CpuMask = CpuMask(1), "cpus";
    /// Priority of the measured threads, 1 to 99; of cyclictest's first.
    prio: u8 = 95, "prio";
    /// Policy of the measured threads.
    policy: Policy = Policy::Fifo, "policy";
    /// What else runs.
    load: Load = Load::None, "load";
    /// How long the sections of the load `plant` are, in nanoseconds.
    plant_ns: u64 = 30_000, "plant_ns";
    /// cyclictest: number of threads.
    threads: u32 = 1, "threads";
    /// cyclictest: how much longer each thread's interval is than the one before, in nanoseconds.
    distance_ns: u64 = 500_000, "distance_ns";
    /// cyclictest: how much lower each thread's priority is than the one before.
    prio_step: u8 = 0, "prio_step";
    /// The first activation comes this much after a multiple of `align_ns`, in nanoseconds.
    offset_ns: u64 = 0, "offset_ns";
    /// The first activation lies on a multiple of this, in nanoseconds; 0 means of the period.
    align_ns: u64 = 0, "align_ns";
    /// cyclictest: how much later each thread's first activation is than the one before, in nanoseconds.
    stagger_ns: u64 = 0, "stagger_ns";
    /// An interrupt latency above this stops the run, in nanoseconds; 0 means none.
    stop_irq_ns: u64 = 0, "stop_irq_ns";
    /// A thread latency above this stops the run, in nanoseconds; 0 means none.
    stop_thread_ns: u64 = 0, "stop_thread_ns";
}

impl Config {
    /// The interval of cyclictest's `n`-th thread, in ns.
    #[must_use]
    pub const fn interval_of(&self, n: u64) -> u64 {
        self.period_ns
            .saturating_add(self.distance_ns.saturating_mul(n))
    }

    /// The priority of cyclictest's `n`-th thread, counted from 0.
    #[must_use]
    pub const fn prio_of(&self, n: u8) -> u8 {
        match self.prio.saturating_sub(n.saturating_mul(self.prio_step)) {
            0 => 1,
            prio => prio,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    fn read(line: &str) -> Result<Config, &str> {
        let words = || {
            line.split_whitespace()
                .filter_map(|word| word.split_once('='))
        };
        Config::read(|name| words().rfind(|(of, _)| *of == name).map(|(_, value)| value))
    }

    #[test]
    fn what_is_printed_is_read() {
        let config = Config {
            workload: Workload::Cyclictest,
            period_ns: 250_500,
            duration_ns: 2_000_000_000,
            cpus: CpuMask(5),
            prio: 90,
            policy: Policy::RoundRobin,
            prio_step: 1,
            load: Load::Mix,
            threads: 3,
            stop_thread_ns: 12_000,
            ..Config::default()
        };
        let line = config.to_string();
        assert_eq!(
            line,
            "workload=cyclictest period_ns=250500 duration_ns=2000000000 warmup_ns=0 smp=1 cpus=0x5 prio=90 policy=rr \
             load=mix plant_ns=30000 threads=3 distance_ns=500000 prio_step=1 offset_ns=0 align_ns=0 stagger_ns=0 stop_irq_ns=0 stop_thread_ns=12000"
        );
        assert_eq!(read(&line), Ok(config));
        assert_eq!(read("quiet"), Ok(Config::default()));
    }

    #[test]
    fn a_bad_value_is_named() {
        for (line, value) in [
            ("prio=256", "256"),
            ("load=heavy", "heavy"),
            ("period_ns=+1", "+1"),
            ("period_ns=", ""),
            ("duration_ns=18446744073709551616", "18446744073709551616"),
            ("cpus=0x", "0x"),
        ] {
            assert_eq!(read(line), Err(value), "{line}");
        }
    }
}
