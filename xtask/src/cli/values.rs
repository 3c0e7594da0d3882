//! Choices on the command line.

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Workload {
    /// One periodic thread per CPU; IRQ and thread latency apart.
    Timerlat,
    /// Several threads of descending priority and growing interval.
    Cyclictest,
}

/// What runs beside the measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Load {
    /// Nothing: the CPU sleeps between two activations.
    None,
    /// A thread that computes all the time.
    Cpu,
    /// Frequent interrupts of lower importance.
    Irq,
    /// Threads that contend for mutexes.
    Lock,
    /// All of them.
    Mix,
}

/// What else is traced besides events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[value(rename_all = "snake_case")]
pub enum Tracer {
    /// Nothing.
    #[default]
    Nop,
    /// Wake-ups and switches.
    SchedSwitch,
    /// The longest stretch with interrupts off.
    Irqsoff,
    /// The longest stretch with preemption off.
    Preemptoff,
    /// The longest stretch with either off.
    Preemptirqsoff,
    /// The longest time from a wake-up until the thread runs.
    Wakeup,
    /// The same: all threads are real-time threads.
    WakeupRt,
    /// Gaps in the clock that no software explains; keeps the CPU half of the time.
    Hwlat,
    /// The entry of every function.
    Function,
    /// Entry and return of every function; `trace --format graph` shows them nested, with durations.
    #[value(name = "function_graph")]
    FunctionGraph,
}

impl Tracer {
    /// Whether it needs entries of functions that can be patched.
    #[must_use]
    pub fn is_of_functions(self) -> bool {
        matches!(self, Self::Function | Self::FunctionGraph)
    }
}

/// The accelerator asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AccelChoice {
    /// KVM where it works, else TCG.
    Auto,
    /// Hardware virtualisation: real time.
    Kvm,
    /// QEMU's translator: with icount, virtual time that counts instructions.
    Tcg,
}

macro_rules! display_as_value {
    ($($name:ident),+) => {$(
        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.to_possible_value().as_ref().map_or("?", |value| value.get_name()))
            }
        }
    )+};
}
display_as_value!(Workload, Load, Tracer, AccelChoice, Format);

/// What `trace` writes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Format {
    /// ftrace's text.
    Text,
    /// The text of ftrace's latency tracers: times from the first event on, and marks where it takes long. Of a run with
    /// such a tracer only the stretch of its last maximum, unless --from or --to say what is wanted.
    Latency,
    /// trace-cmd's file, for `trace-cmd report` and KernelShark.
    #[value(name = "trace.dat")]
    TraceDat,
    /// The Common Trace Format, for babeltrace2 and Trace Compass: a folder.
    Ctf,
    /// Perfetto's protobuf, for ui.perfetto.dev.
    Perfetto,
    /// One JSON object a line.
    Json,
    /// Comma-separated values with a header line.
    Csv,
    /// Chrome's trace events (JSON), for about:tracing, Perfetto and speedscope.
    Chrome,
    /// Folded stacks: the ns that each thread ran, and each interrupt in it.
    Flamegraph,
    /// ftrace's function_graph: what --tracer function_graph has recorded, nested, with net durations.
    Graph,
}

impl Format {
    /// Whether it is a folder.
    #[must_use]
    pub const fn is_folder(self) -> bool {
        matches!(self, Self::Ctf)
    }

    /// Whether it is not for a terminal.
    #[must_use]
    pub const fn is_binary(self) -> bool {
        matches!(self, Self::TraceDat | Self::Perfetto)
    }
}
