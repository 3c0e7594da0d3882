//! What can be set of the tracer, at boot and live: `name=value`.
//!
//! One parser for the words of the kernel's command line and for the lines that the host sends to a running system, and
//! one place that carries them out. Names of events are the host's; here an event is its id.
//!
//! | setting | value | ftrace's |
//! |---|---|---|
//! | `ftrace` | a tracer | `ftrace=`, `current_tracer` |
//! | `events`, `events_off` | ids, separated by commas | `trace_event=`, `set_event` |
//! | `tracing_on` | `0`, `1` | `tracing_on` |
//! | `trace_marker` | a text; on the command line one word | `trace_marker` |
//! | `mode` | `flight`, `capture` | `trace_options=overwrite`, `nooverwrite` |
//! | `tracing_cpumask` | a hexadecimal number | `tracing_cpumask=`, `tracing_cpumask` |
//! | `trace_buf_subs` | sub-buffers of each CPU | `trace_buf_size=`, `buffer_size_kb` |
//! | `trace_clear` | nothing | writing to `trace` |
//! | `snapshot` | `0` free, `1` take, `2` clear | `snapshot` |
//! | `ftrace_filter`, `ftrace_notrace` | ids of functions, as `3,7-12` | the same, `set_ftrace_filter`, `set_ftrace_notrace` |
//! | `ftrace_pid` | ids of threads | `set_ftrace_pid` |
//! | `ftrace_graph_filter`, `ftrace_graph_notrace` | ids of functions | the same, `set_graph_function`, `set_graph_notrace` |
//! | `ftrace_graph_max_depth` | a number | the same, `max_graph_depth` |
//! | `program` | a number, then hexadecimal words: put there, for the next two | |
//! | `event_filter` | an event's id, how many of these words are the filter, how it was written | `events/…/filter` |
//! | `event_trigger` | an id, what it does, how often or `-`, how many of these words describe a histogram and how many, behind them, are the condition, how it was written | `events/…/trigger` |
//! | `event_trigger_off` | an id, the trigger's place | `events/…/trigger` |
//! | `stacktrace`, `func_stack_trace`, `function-trace` | `0`, `1` | `trace_options=stacktrace` and the others |
//! | `function_profile`, `stack_tracer` | `0`, `1` | `function_profile_enabled`; `stacktrace`, `kernel.stack_tracer_enabled` |
//! | `stack_max_size` | bytes | the same |
//! | `stack_trace_filter` | ids of functions | the same |
//! | `tracing_max_latency`, `tracing_thresh` | nanoseconds | the same (there microseconds) |
//! | `hwlat_window`, `hwlat_width` | nanoseconds | `hwlat_detector/window`, `width` (there microseconds) |
//!
//! A filter of functions that is `*` takes all of them; a list of functions is added to with `+=`.
//!
//! Parsing is pure, tested and fuzzed on the host.

mod fields;
mod lists;
#[cfg(test)]
mod tests;
mod values;

use fields::Fields;
use takt_kernel::Error;
use takt_tracer::rules::Action;
use values::{choice, decimal, hexadecimal, nanoseconds};

pub use lists::{Ids, Words};

/// Why a setting was not carried out: the number that Linux gives.
#[derive(Clone, Copy, PartialEq, Eq, Debug, defmt::Format)]
#[repr(i32)]
pub enum Errno {
    /// There is no such setting.
    NoEntry = 2,
    /// Not for lack of trying: not enough memory.
    NoMemory = 12,
    /// Not possible now.
    Busy = 16,
    /// The value is not one.
    Invalid = 22,
    /// The value is out of range.
    Overflow = 75,
}

impl From<Error> for Errno {
    fn from(error: Error) -> Self {
        match error {
            Error::OutOfResources => Self::NoMemory,
            Error::InvalidState | Error::WouldBlock | Error::WrongContext => Self::Busy,
            Error::Overflow => Self::Overflow,
            _ => Self::Invalid,
        }
    }
}

/// A setting and its value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Setting<'a> {
    /// Chooses a tracer.
    Tracer(&'a str),
    /// Switches events on or off: a list of ids, each of which is a number.
    Events {
        /// The list.
        ids: Ids<'a>,
        /// On, not off.
        on: bool,
    },
    /// Starts or stops recording.
    TracingOn(bool),
    /// Records a text.
    Marker(&'a str),
    /// Whether the oldest is overwritten when a ring is full, or what is new is lost.
    Overwrite(bool),
    /// The CPUs that record.
    Cpumask(u32),
    /// How many sub-buffers of each CPU's ring are used.
    BufferSize(usize),
    /// Empties the rings.
    Clear,
    /// What happens to the snapshot.
    Snapshot(Snapshot),
    /// Puts words where those of a filter or trigger are looked for.
    Program {
        /// The first one's place.
        at: usize,
        /// The words.
        words: Words<'a>,
    },
    /// Gives an event a filter; none if it has no words.
    EventFilter {
        /// The event's id.
        event: u32,
        /// Words of the program.
        len: usize,
        /// How it was written.
        text: &'a str,
    },
    /// Gives an event a trigger.
    EventTrigger(EventTrigger<'a>),
    /// Takes a trigger away.
    EventTriggerOff {
        /// The event's id.
        event: u32,
        /// The trigger's place.
        place: usize,
    },
    /// The functions that are traced; `None` for all.
    Filter(Option<Ids<'a>>),
    /// The functions that are not.
    Notrace(Ids<'a>),
    /// More functions for one of the lists: a line has no room for many.
    More(List, Ids<'a>),
    /// The threads whose functions are traced; all if there are none.
    Pids(Ids<'a>),
    /// The functions whose calls `function_graph` follows; `None` for all.
    GraphFilter(Option<Ids<'a>>),
    /// The functions that it leaves out with all that they call.
    GraphNotrace(Ids<'a>),
    /// How deep it follows calls; 0 for all the way.
    GraphDepth(u32),
    /// Whether a stack is recorded after every event.
    StackTrace(bool),
    /// Whether a stack is recorded after every function that the tracer `function` records.
    FuncStackTrace(bool),
    /// Whether the tracers of latencies have functions recorded as well.
    FunctionTrace(bool),
    /// Whether functions are profiled.
    FunctionProfile(bool),
    /// Whether the deepest use of each stack is looked for.
    StackTracer(bool),
    /// The functions at whose entry it is looked for; `None` for all.
    StackFilter(Option<Ids<'a>>),
    /// Forgets what was found of stacks, and what is to be found has to be deeper than so many bytes.
    StackMax(u32),
    /// The greatest latency so far, in ns.
    MaxLatency(u64),
    /// The latency from which on each is kept, in ns; 0 for new maxima only.
    Thresh(u64),
    /// How often the hwlat detector watches the clock, in ns.
    HwlatWindow(u64),
    /// For how long it does, in ns.
    HwlatWidth(u64),
}

/// A list of functions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum List {
    /// [`Setting::Filter`].
    Filter,
    /// [`Setting::Notrace`].
    Notrace,
    /// [`Setting::GraphFilter`].
    GraphFilter,
    /// [`Setting::GraphNotrace`].
    GraphNotrace,
    /// [`Setting::StackFilter`].
    StackFilter,
}

impl List {
    /// The list of this name.
    fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "ftrace_filter" => Self::Filter,
            "ftrace_notrace" => Self::Notrace,
            "ftrace_graph_filter" => Self::GraphFilter,
            "ftrace_graph_notrace" => Self::GraphNotrace,
            "stack_trace_filter" => Self::StackFilter,
            _ => return None,
        })
    }
}

/// A trigger.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EventTrigger<'a> {
    /// The event's id.
    pub event: u32,
    /// What it does.
    pub action: Action,
    /// How often at most; `None` for always.
    pub count: Option<u32>,
    /// Words that describe a histogram.
    pub nr_spec: usize,
    /// Words of the condition's program, behind those.
    pub nr_condition: usize,
    /// How it was written.
    pub text: &'a str,
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

impl<'a> Setting<'a> {
    /// Reads `name=value`; `None` if there is no setting of that name.
    ///
    /// # Errors
    /// If the value is not one of that setting's.
    #[must_use]
    pub fn parse(text: &'a str) -> Option<Result<Self, Errno>> {
        let (name, value) = text.split_once('=')?;
        if let Some(list) = name.strip_suffix('+').and_then(List::parse) {
            return Some(Ids::parse(value).map(|ids| Self::More(list, ids)));
        }
        Some(match name {
            "ftrace" => Ok(Self::Tracer(value)),
            "events" => Ids::parse(value).map(|ids| Self::Events { ids, on: true }),
            "events_off" => Ids::parse(value).map(|ids| Self::Events { ids, on: false }),
            "tracing_on" => choice(value, ["0", "1"]).map(Self::TracingOn),
            "trace_marker" => Ok(Self::Marker(value)),
            "mode" => choice(value, ["capture", "flight"]).map(Self::Overwrite),
            "tracing_cpumask" => hexadecimal(value).map(Self::Cpumask),
            "trace_buf_subs" => decimal(value)
                .map(|nr| Self::BufferSize(nr as usize))
                .ok_or(Errno::Invalid),
            "trace_clear" if value.is_empty() => Ok(Self::Clear),
            "trace_clear" => Err(Errno::Invalid),
            "snapshot" => match value {
                "0" => Ok(Self::Snapshot(Snapshot::Free)),
                "1" => Ok(Self::Snapshot(Snapshot::Take)),
                "2" => Ok(Self::Snapshot(Snapshot::Clear)),
                _ => Err(Errno::Invalid),
            },
            "program" => Fields(value).program(),
            "event_filter" => Fields(value).filter(),
            "event_trigger" => Fields(value).trigger(),
            "event_trigger_off" => Fields(value).trigger_off(),
            "ftrace_filter" if value == "*" => Ok(Self::Filter(None)),
            "ftrace_filter" => Ids::parse(value).map(|ids| Self::Filter(Some(ids))),
            "ftrace_notrace" => Ids::parse(value).map(Self::Notrace),
            "ftrace_pid" => Ids::parse(value).map(Self::Pids),
            "ftrace_graph_filter" if value == "*" => Ok(Self::GraphFilter(None)),
            "ftrace_graph_filter" => Ids::parse(value).map(|ids| Self::GraphFilter(Some(ids))),
            "ftrace_graph_notrace" => Ids::parse(value).map(Self::GraphNotrace),
            "ftrace_graph_max_depth" => decimal(value).map(Self::GraphDepth).ok_or(Errno::Invalid),
            "stacktrace" => choice(value, ["0", "1"]).map(Self::StackTrace),
            "func_stack_trace" => choice(value, ["0", "1"]).map(Self::FuncStackTrace),
            "function-trace" => choice(value, ["0", "1"]).map(Self::FunctionTrace),
            "function_profile" => choice(value, ["0", "1"]).map(Self::FunctionProfile),
            "stack_tracer" => choice(value, ["0", "1"]).map(Self::StackTracer),
            "stack_max_size" => decimal(value).map(Self::StackMax).ok_or(Errno::Invalid),
            "stack_trace_filter" if value == "*" => Ok(Self::StackFilter(None)),
            "stack_trace_filter" => Ids::parse(value).map(|ids| Self::StackFilter(Some(ids))),
            "tracing_max_latency" => nanoseconds(value).map(Self::MaxLatency),
            "tracing_thresh" => nanoseconds(value).map(Self::Thresh),
            "hwlat_window" => nanoseconds(value).map(Self::HwlatWindow),
            "hwlat_width" => nanoseconds(value).map(Self::HwlatWidth),
            _ => return None,
        })
    }
}
