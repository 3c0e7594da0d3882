//! [`Tracer`]: the tracers by name, for whoever chooses one.

use crate::named;

named! {
    /// A tracer, as in ftrace's `current_tracer`. An image need not have all of them.
    #[derive(Default)]
    pub enum Tracer {
        /// Nothing.
        #[default]
        Nop = "nop",
        /// Wake-ups and switches.
        SchedSwitch = "sched_switch",
        /// The longest stretch with interrupts off.
        Irqsoff = "irqsoff",
        /// The longest stretch with preemption off.
        Preemptoff = "preemptoff",
        /// The longest stretch with either off.
        Preemptirqsoff = "preemptirqsoff",
        /// The longest time from a wake-up until the thread runs.
        Wakeup = "wakeup",
        /// The same: all threads are real-time threads.
        WakeupRt = "wakeup_rt",
        /// Gaps in the clock that no software explains; keeps the CPU half of the time.
        Hwlat = "hwlat",
        /// Latency of a timer's interrupt and of the thread that it wakes, on every CPU.
        Timerlat = "timerlat",
        /// What interrupts a thread that computes, on every CPU.
        Osnoise = "osnoise",
        /// The entry of every function.
        Function = "function",
        /// Entry and return of every function; `trace --format graph` shows them nested, with durations.
        FunctionGraph = "function_graph",
    }
}

const MAXIMUM: &str = "tracer:latency_max";
const WAKEUP: &str = "sched:sched_wakeup";
const SWITCH: &str = "sched:sched_switch";

impl Tracer {
    /// Whether it needs entries of functions that can be patched.
    #[must_use]
    pub const fn is_of_functions(self) -> bool {
        matches!(self, Self::Function | Self::FunctionGraph)
    }

    /// Whether it needs a thread to begin in: it starts threads, or interrupts to calibrate with.
    #[must_use]
    pub const fn needs_thread(self) -> bool {
        matches!(
            self,
            Self::Hwlat
                | Self::Irqsoff
                | Self::Preemptoff
                | Self::Preemptirqsoff
                | Self::Timerlat
                | Self::Osnoise
        )
    }

    /// The events that it switches on for itself, in the order of their bits in
    /// [`TRACER_EVENTS`](super::TRACER_EVENTS).
    #[must_use]
    pub const fn events(self) -> &'static [&'static str] {
        match self {
            Self::Nop | Self::Function => &[],
            Self::SchedSwitch => &[WAKEUP, SWITCH],
            Self::Irqsoff | Self::Preemptoff | Self::Preemptirqsoff => &[MAXIMUM],
            Self::Wakeup | Self::WakeupRt => &[MAXIMUM, WAKEUP, SWITCH],
            Self::Hwlat => &[MAXIMUM, "tracer:hwlat"],
            Self::Timerlat => &["ftrace:timerlat"],
            Self::Osnoise => &["ftrace:osnoise"],
            Self::FunctionGraph => &[SWITCH, "irq:irq_handler_entry", "irq:irq_handler_exit"],
        }
    }
}
