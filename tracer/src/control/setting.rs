//! [`Setting`]: what can be set of the tracer, at boot and live, as `name=value`.
//!
//! Each is declared once here, with its name and how its value is read and written. The kernel's command line, the lines
//! that a host sends to a running system and the host's own files all go through this table. Names of events and functions
//! are the host's; here an event or a function is its id.
//!
//! Parsing is pure, tested and fuzzed on the host.

mod errno;
mod fields;
mod lists;
#[cfg(test)]
mod tests;
mod values;

use core::fmt;

pub use errno::Errno;
pub use fields::{
    EventFilter, EventTrigger, EventTriggerCount, EventTriggerOff, FunctionCommand, Osnoise,
    Program,
};
pub use lists::{Chosen, Ids, List, Words};
use values::{bit, decimal, hexadecimal, ids, mode, nanoseconds, nothing, several, snapshot, text};

/// Declares the settings: name, variant, type of the value, and the module that reads and writes it.
macro_rules! settings {
    ($($(#[$meta:meta])* $name:literal => $Variant:ident($ty:ty): $codec:ident;)+) => {
        /// A setting and its value.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum Setting<'a> {
            $($(#[$meta])* $Variant($ty),)+
            /// Which functions stand in a list: ftrace's files and boot parameters of the same names.
            Functions(List, Chosen<'a>),
        }

        impl<'a> Setting<'a> {
            /// Reads `name=value`; `None` if there is no setting of that name.
            ///
            /// # Errors
            /// If the value is not one of that setting's.
            #[must_use]
            pub fn parse(text: &'a str) -> Option<Result<Self, Errno>> {
                let (name, value) = text.split_once('=')?;
                Some(match name {
                    $($name => $codec::parse(value).map(Self::$Variant),)+
                    _ => {
                        let (list, chosen) = Chosen::parse(name, value)?;
                        chosen.map(|chosen| Self::Functions(list, chosen))
                    }
                })
            }
        }

        impl fmt::Display for Setting<'_> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self {
                    $(Self::$Variant(value) => {
                        f.write_str(concat!($name, "="))?;
                        $codec::print(value, f)
                    })+
                    Self::Functions(list, chosen) => chosen.print(*list, f),
                }
            }
        }
    };
}

settings! {
    /// Chooses a tracer: `ftrace=`, `current_tracer`.
    "ftrace" => Tracer(&'a str): text;
    /// Switches events on: `trace_event=`, `set_event`.
    "events" => Events(Ids<'a>): ids;
    /// Switches events off.
    "events_off" => EventsOff(Ids<'a>): ids;
    /// Starts or stops recording.
    "tracing_on" => TracingOn(bool): bit;
    /// Records a text; on the command line one word.
    "trace_marker" => Marker(&'a str): text;
    /// `flight`: the oldest is overwritten when a ring is full (ftrace's option `overwrite`); `capture`: what is new is lost.
    "mode" => Overwrite(bool): mode;
    /// A bit for each CPU that records.
    "tracing_cpumask" => Cpumask(u32): hexadecimal;
    /// How many sub-buffers of each CPU's ring are used: `trace_buf_size=`, `buffer_size_kb`.
    "trace_buf_subs" => BufferSize(u32): decimal;
    /// Empties the rings, as writing to `trace` does.
    "trace_clear" => Clear(()): nothing;
    /// What happens to the snapshot.
    "snapshot" => Snapshot(Snapshot): snapshot;
    /// Puts words where the next two look for them: a program, how a histogram counts, the text as it was written.
    "program" => Program(Program<'a>): several;
    /// Gives an event a filter: `events/…/filter`.
    "event_filter" => EventFilter(EventFilter): several;
    /// Gives an event a trigger: `events/…/trigger`.
    "event_trigger" => EventTrigger(EventTrigger): several;
    /// Says how often a trigger acts from here on.
    "event_trigger_count" => EventTriggerCount(EventTriggerCount): several;
    /// Takes a trigger away.
    "event_trigger_off" => EventTriggerOff(EventTriggerOff): several;
    /// The threads whose events are recorded; all if there are none: `set_event_pid`.
    "event_pid" => EventPids(Ids<'a>): ids;
    /// The threads whose events are not recorded: `set_event_notrace_pid`.
    "event_notrace_pid" => EventNotracePids(Ids<'a>): ids;
    /// What is done at functions' entries: `FUNC:traceoff` in `set_ftrace_filter`.
    "ftrace_command" => FunctionCommand(FunctionCommand<'a>): several;
    /// The threads whose functions are traced; all if there are none.
    "ftrace_pid" => Pids(Ids<'a>): ids;
    /// How deep `function_graph` follows calls; 0 for all the way: `max_graph_depth`.
    "ftrace_graph_max_depth" => GraphDepth(u32): decimal;
    /// Whether a stack is recorded after every event.
    "stacktrace" => StackTrace(bool): bit;
    /// Whether a stack is recorded after every function that the tracer `function` records.
    "func_stack_trace" => FuncStackTrace(bool): bit;
    /// Whether the tracers of latencies have functions recorded as well.
    "function-trace" => FunctionTrace(bool): bit;
    /// Whether functions are profiled: `function_profile_enabled`.
    "function_profile" => FunctionProfile(bool): bit;
    /// Whether the deepest use of each stack is looked for: `stacktrace`, `kernel.stack_tracer_enabled`.
    "stack_tracer" => StackTracer(bool): bit;
    /// Forgets what was found of stacks, and what is to be found has to be deeper than so many bytes.
    "stack_max_size" => StackMax(u32): decimal;
    /// The greatest latency so far, in ns.
    "tracing_max_latency" => MaxLatency(u64): nanoseconds;
    /// The latency from which on each is kept, in ns; 0 for new maxima only.
    "tracing_thresh" => Thresh(u64): nanoseconds;
    /// How often the hwlat detector watches the clock, in ns: `hwlat_detector/window`.
    "hwlat_window" => HwlatWindow(u64): nanoseconds;
    /// For how long it does, in ns: `hwlat_detector/width`.
    "hwlat_width" => HwlatWidth(u64): nanoseconds;
    /// Lets so many nanoseconds pass before the next setting; for a guest that stands still between settings
    /// ([`gate`](super::gate)), counted from where it stood.
    "pass" => Pass(u64): nanoseconds;
    /// A parameter of `timerlat` and `osnoise`: a file in `osnoise`, there in microseconds.
    "osnoise" => Osnoise(Osnoise): several;
}

/// What can be done with the snapshot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Snapshot {
    /// Gives its memory back.
    Free,
    /// Takes one.
    Take,
    /// Empties it.
    Clear,
}
