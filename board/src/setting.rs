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
//! | `stacktrace`, `func_stack_trace` | `0`, `1` | `trace_options=stacktrace`, `func_stack_trace` |
//! | `function_profile`, `stack_tracer` | `0`, `1` | `function_profile_enabled`; `stacktrace`, `kernel.stack_tracer_enabled` |
//! | `stack_max_size` | bytes | the same |
//! | `stack_trace_filter` | ids of functions | the same |
//! | `tracing_max_latency`, `tracing_thresh` | nanoseconds | the same (there microseconds) |
//! | `hwlat_window`, `hwlat_width` | nanoseconds | `hwlat_detector/window`, `width` (there microseconds) |
//!
//! A filter of functions that is `*` takes all of them; a list of functions is added to with `+=`.
//!
//! Parsing is pure, tested and fuzzed on the host.

use core::ops::RangeInclusive;

use takt_kernel::Error;
use takt_tracer::rules::Action;

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

/// Hexadecimal numbers separated by commas.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Words<'a>(&'a str);

impl<'a> Words<'a> {
    fn parse(text: &'a str) -> Result<Self, Errno> {
        text.split(',')
            .try_for_each(|word| hexadecimal(word).map(|_| ()))?;
        Ok(Self(text))
    }

    /// The numbers.
    pub fn iter(self) -> impl Iterator<Item = u32> + use<'a> {
        self.0.split(',').filter_map(|word| hexadecimal(word).ok())
    }
}

/// The fields of a value that has several: separated by commas, the last one with whatever is in it.
struct Fields<'a>(&'a str);

impl<'a> Fields<'a> {
    fn word(&mut self) -> Result<&'a str, Errno> {
        let (word, rest) = self.0.split_once(',').ok_or(Errno::Invalid)?;
        self.0 = rest;
        Ok(word)
    }

    fn number(&mut self) -> Result<u32, Errno> {
        decimal(self.word()?).ok_or(Errno::Invalid)
    }

    fn program(mut self) -> Result<Setting<'a>, Errno> {
        Ok(Setting::Program {
            at: self.number()? as usize,
            words: Words::parse(self.0)?,
        })
    }

    fn filter(mut self) -> Result<Setting<'a>, Errno> {
        Ok(Setting::EventFilter {
            event: self.number()?,
            len: self.number()? as usize,
            text: self.0,
        })
    }

    fn trigger(mut self) -> Result<Setting<'a>, Errno> {
        let event = self.number()?;
        let action = Action::from_name(self.word()?).ok_or(Errno::Invalid)?;
        let count = match self.word()? {
            "-" => None,
            count => Some(decimal(count).ok_or(Errno::Invalid)?),
        };
        Ok(Setting::EventTrigger(EventTrigger {
            event,
            action,
            count,
            nr_spec: self.number()? as usize,
            nr_condition: self.number()? as usize,
            text: self.0,
        }))
    }

    fn trigger_off(mut self) -> Result<Setting<'a>, Errno> {
        Ok(Setting::EventTriggerOff {
            event: self.number()?,
            place: decimal(self.0).ok_or(Errno::Invalid)? as usize,
        })
    }
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

/// Numbers separated by commas, and ranges of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ids<'a>(&'a str);

impl<'a> Ids<'a> {
    fn parse(text: &'a str) -> Result<Self, Errno> {
        let parts = text.split(',').filter(|part| !part.is_empty());
        if parts.clone().all(|part| range(part).is_some()) {
            Ok(Self(text))
        } else {
            Err(Errno::Invalid)
        }
    }

    /// The numbers.
    pub fn iter(self) -> impl Iterator<Item = u32> + use<'a> {
        self.0.split(',').filter_map(range).flatten()
    }
}

/// The greatest id of anything: a longer range would be gone through number by number all the same.
const MAX_ID: u32 = 0xffff;

/// `7` or `7-12`, both ends included.
fn range(text: &str) -> Option<RangeInclusive<u32>> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last) = (decimal(first)?, decimal(last)?);
    (first <= last && last <= MAX_ID).then_some(first..=last)
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

fn choice(value: &str, [off, on]: [&str; 2]) -> Result<bool, Errno> {
    if value == on {
        Ok(true)
    } else if value == off {
        Ok(false)
    } else {
        Err(Errno::Invalid)
    }
}

/// A number of 32 bits, digits only.
fn decimal(text: &str) -> Option<u32> {
    let is_plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_plain)
}

fn nanoseconds(text: &str) -> Result<u64, Errno> {
    let is_plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !is_plain {
        return Err(Errno::Invalid);
    }
    text.parse().map_err(|_| Errno::Overflow)
}

fn hexadecimal(text: &str) -> Result<u32, Errno> {
    let digits = text.strip_prefix("0x").unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Err(Errno::Invalid);
    }
    u32::from_str_radix(digits, 16).map_err(|_| Errno::Overflow)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Option<Result<Setting<'_>, Errno>> {
        Setting::parse(text)
    }

    #[test]
    fn settings_are_read() {
        assert_eq!(parse("ftrace=nop"), Some(Ok(Setting::Tracer("nop"))));
        assert_eq!(parse("tracing_on=0"), Some(Ok(Setting::TracingOn(false))));
        assert_eq!(
            parse("trace_marker=a b=c"),
            Some(Ok(Setting::Marker("a b=c")))
        );
        assert_eq!(parse("mode=flight"), Some(Ok(Setting::Overwrite(true))));
        assert_eq!(parse("tracing_cpumask=f"), Some(Ok(Setting::Cpumask(15))));
        assert_eq!(parse("trace_buf_subs=8"), Some(Ok(Setting::BufferSize(8))));
        assert_eq!(parse("trace_clear="), Some(Ok(Setting::Clear)));
        let Some(Ok(Setting::Program { at: 8, words })) = parse("program=8,1f,0,ffffffff") else {
            unreachable!("they are words")
        };
        assert!(words.iter().eq([0x1f, 0, u32::MAX]));
        assert_eq!(
            parse("event_filter=4,13,prio < 10, or not"),
            Some(Ok(Setting::EventFilter {
                event: 4,
                len: 13,
                text: "prio < 10, or not"
            }))
        );
        assert_eq!(
            parse("event_trigger=6,traceoff,3,0,5,if x"),
            Some(Ok(Setting::EventTrigger(EventTrigger {
                event: 6,
                action: Action::TraceOff,
                count: Some(3),
                nr_spec: 0,
                nr_condition: 5,
                text: "if x"
            })))
        );
        assert_eq!(
            parse("event_trigger_off=6,1"),
            Some(Ok(Setting::EventTriggerOff { event: 6, place: 1 }))
        );
        let taken = Setting::Snapshot(Snapshot::Take);
        assert_eq!(parse("snapshot=1"), Some(Ok(taken)));
        let Some(Ok(Setting::Events { ids, on: false })) = parse("events_off=4,,6") else {
            unreachable!("it is a list")
        };
        assert!(ids.iter().eq([4, 6]));
        let Some(Ok(Setting::Filter(Some(ids)))) = parse("ftrace_filter=3,7-9") else {
            unreachable!("it is a list with a range")
        };
        assert!(ids.iter().eq([3, 7, 8, 9]));
        let Some(Ok(Setting::More(List::GraphNotrace, ids))) = parse("ftrace_graph_notrace+=1-2")
        else {
            unreachable!("it adds to a list")
        };
        assert!(ids.iter().eq([1, 2]));
        assert_eq!(parse("ftrace_pid+=1"), None);
        assert_eq!(parse("ftrace_filter=*"), Some(Ok(Setting::Filter(None))));
        assert_eq!(parse("stacktrace=0"), Some(Ok(Setting::StackTrace(false))));
        assert_eq!(
            parse("func_stack_trace=1"),
            Some(Ok(Setting::FuncStackTrace(true)))
        );
        assert_eq!(
            parse("function_profile=1"),
            Some(Ok(Setting::FunctionProfile(true)))
        );
        assert_eq!(
            parse("stack_tracer=0"),
            Some(Ok(Setting::StackTracer(false)))
        );
        assert_eq!(parse("stack_max_size=96"), Some(Ok(Setting::StackMax(96))));
        let all = parse("stack_trace_filter=*");
        assert_eq!(all, Some(Ok(Setting::StackFilter(None))));
        let Some(Ok(Setting::More(List::StackFilter, ids))) = parse("stack_trace_filter+=5") else {
            unreachable!("it adds to a list")
        };
        assert!(ids.iter().eq([5]));
        assert_eq!(parse("tracing_thresh=20"), Some(Ok(Setting::Thresh(20))));
        assert_eq!(parse("hwlat_width=5"), Some(Ok(Setting::HwlatWidth(5))));
        assert_eq!(parse("hwlat_window=9"), Some(Ok(Setting::HwlatWindow(9))));
    }

    #[test]
    fn nonsense_has_linuxs_numbers() {
        for (text, error) in [
            ("tracing_on=2", Errno::Invalid),
            ("tracing_on=", Errno::Invalid),
            ("events=4,x", Errno::Invalid),
            ("events=+4", Errno::Invalid),
            ("events=99999999999", Errno::Invalid),
            ("mode=", Errno::Invalid),
            ("tracing_cpumask=g", Errno::Invalid),
            ("tracing_cpumask=", Errno::Invalid),
            ("tracing_cpumask=100000000", Errno::Overflow),
            ("trace_buf_subs=-1", Errno::Invalid),
            ("trace_clear=1", Errno::Invalid),
            ("snapshot=3", Errno::Invalid),
            ("program=1", Errno::Invalid),
            ("program=1,", Errno::Invalid),
            ("program=1,100000000", Errno::Overflow),
            ("event_filter=4", Errno::Invalid),
            ("event_trigger=6,explode,-,0,0,", Errno::Invalid),
            ("event_trigger=6,hist,-,0,0", Errno::Invalid),
            ("event_trigger_off=6", Errno::Invalid),
            ("ftrace_filter=9-7", Errno::Invalid),
            ("ftrace_filter=0-65536", Errno::Invalid),
            ("ftrace_pid=x", Errno::Invalid),
            ("stacktrace=", Errno::Invalid),
            ("function_profile=on", Errno::Invalid),
            ("stack_tracer=", Errno::Invalid),
            ("stack_max_size=-1", Errno::Invalid),
            ("stack_trace_filter=x", Errno::Invalid),
            ("func_stack_trace=2", Errno::Invalid),
            ("tracing_max_latency=-1", Errno::Invalid),
            ("hwlat_width=", Errno::Invalid),
            ("tracing_max_latency=99999999999999999999", Errno::Overflow),
        ] {
            assert_eq!(parse(text), Some(Err(error)), "{text}");
        }
        assert_eq!(parse("period_ns=1"), None);
        assert_eq!(parse("ftrace"), None);
    }
}
