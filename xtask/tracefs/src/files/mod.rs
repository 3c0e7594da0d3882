//! The files, in groups. Each is a name and what reading and writing it does.

mod buffers;
mod commands;
mod control;
mod events;
mod functions;
mod hist;
mod latency;
mod osnoise;
mod output;
mod pids;
mod profile;
mod rules;
mod stack_max;

use rustix::io::Errno;

use super::session::Session;
use super::tree::Of;
use takt_base::term::printable;

type Read = fn(&mut Session, &Of) -> super::Result<Vec<u8>>;
type Write = fn(&mut Session, &Of, &str) -> super::Result<()>;
type Truncate = fn(&mut Session) -> super::Result<()>;

/// A file.
#[derive(Debug)]
pub struct File {
    /// Its name.
    pub name: &'static str,
    read: Option<Read>,
    write: Option<Write>,
    /// What opening it with truncation does: `>` and not `>>`.
    truncate: Option<Truncate>,
    /// Reading takes what is read away, and waits where there is nothing.
    pub is_pipe: bool,
    /// Whether this guest has it; all have those without.
    is_there: Option<fn(&Session) -> bool>,
}

impl File {
    const fn new(name: &'static str, read: Option<Read>, write: Option<Write>) -> Self {
        Self {
            name,
            read,
            write,
            truncate: None,
            is_pipe: false,
            is_there: None,
        }
    }

    const fn truncating(mut self, truncate: Truncate) -> Self {
        self.truncate = Some(truncate);
        self
    }

    const fn pipe(name: &'static str) -> Self {
        let mut file = Self::new(name, None, None);
        file.is_pipe = true;
        file
    }

    const fn if_there(mut self, is_there: fn(&Session) -> bool) -> Self {
        self.is_there = Some(is_there);
        self
    }

    /// Whether this guest has it.
    #[must_use]
    pub fn is_there(&self, session: &Session) -> bool {
        self.is_there.is_none_or(|is_there| is_there(session))
    }

    /// Whether it can be read.
    #[must_use]
    pub fn is_readable(&self) -> bool {
        self.read.is_some() || self.is_pipe
    }

    /// Whether it can be written.
    #[must_use]
    pub fn is_writable(&self) -> bool {
        self.write.is_some()
    }

    /// All of its content, with what would control a terminal escaped. A pipe is read by [`Session::pipe`].
    ///
    /// # Errors
    ///
    /// `EINVAL` if it cannot be read, and whatever the guest says.
    pub fn read(&self, session: &mut Session, of: &Of) -> super::Result<Vec<u8>> {
        let content = self.read.ok_or(Errno::INVAL)?(session, of)?;
        Ok(shown(session, content))
    }

    /// Writes to it, as one `write` does.
    ///
    /// # Errors
    ///
    /// `EINVAL` if it cannot be written or this cannot, and whatever the guest says.
    pub fn write(&self, session: &mut Session, of: &Of, bytes: &[u8]) -> super::Result<()> {
        let write = self.write.ok_or(Errno::INVAL)?;
        let text = std::str::from_utf8(bytes).map_err(|_| Errno::INVAL)?;
        write(session, of, text)
    }

    /// What opening it for writing with truncation does.
    ///
    /// # Errors
    ///
    /// Whatever the guest says.
    pub fn truncate(&self, session: &mut Session) -> super::Result<()> {
        self.truncate.map_or(Ok(()), |truncate| truncate(session))
    }
}

/// What a file has, for people: nothing of the guest's controls their terminal. Under the option `bin` it is not text.
pub(super) fn shown(session: &Session, content: Vec<u8>) -> Vec<u8> {
    match session.options.bin {
        true => content,
        false => printable(&content).into(),
    }
}

/// In the root, besides those in modules of their own ([`root`]).
static ROOT: [File; 22] = [
    File::new("README", Some(|_, _| Ok(README.into())), None),
    File::new("available_events", Some(events::available), None),
    File::new("available_tracers", Some(control::available_tracers), None),
    File::new(
        "buffer_size_kb",
        Some(buffers::size_kb),
        Some(buffers::set_size_kb),
    ),
    File::new("buffer_total_size_kb", Some(buffers::total_size_kb), None),
    File::new(
        "current_tracer",
        Some(control::current_tracer),
        Some(control::set_current_tracer),
    ),
    File::new(
        "error_log",
        Some(control::error_log),
        Some(|_, _, _| Ok(())),
    )
    .truncating(control::clear_error_log),
    File::new(
        "function_profile_enabled",
        Some(profile::enabled),
        Some(profile::set_enabled),
    )
    .if_there(profile::is_there),
    File::new("saved_cmdlines", Some(control::saved_cmdlines), None),
    File::new("set_event", Some(events::enabled), Some(events::set_event))
        .truncating(events::disable_all),
    File::new(
        "snapshot",
        Some(output::snapshot),
        Some(output::set_snapshot),
    ),
    File::new(
        "stack_max_size",
        Some(stack_max::size),
        Some(stack_max::set_size),
    )
    .if_there(stack_max::is_there),
    File::new("stack_trace", Some(stack_max::trace), None).if_there(stack_max::is_there),
    File::new(
        "stack_tracer_enabled",
        Some(stack_max::enabled),
        Some(stack_max::set_enabled),
    )
    .if_there(stack_max::is_there),
    File::new("trace", Some(output::trace), Some(|_, _, _| Ok(()))).truncating(output::clear),
    File::new(
        "trace_clock",
        Some(control::trace_clock),
        Some(control::set_trace_clock),
    ),
    File::new(
        "trace_entries",
        Some(buffers::entries),
        Some(buffers::set_entries),
    ),
    File::new("trace_marker", None, Some(output::marker)),
    File::new(
        "trace_options",
        Some(control::trace_options),
        Some(control::set_trace_options),
    ),
    File::pipe("trace_pipe"),
    File::new(
        "tracing_cpumask",
        Some(control::cpumask),
        Some(control::set_cpumask),
    ),
    File::new(
        "tracing_on",
        Some(control::tracing_on),
        Some(control::set_tracing_on),
    ),
];

/// The name of today for one that ftrace's first document (Linux 2.6.27) has. Those work, but are not listed.
pub(super) fn of_today(name: &str) -> &str {
    match name {
        "tracing_enabled" => "tracing_on",
        "iter_ctrl" => "trace_options",
        "trace_max_latency" => "tracing_max_latency",
        name => name,
    }
}

/// The folder with the profiler's tables.
pub(super) const TRACE_STAT: &str = "trace_stat";

/// Whether there is a folder `trace_stat`.
pub(super) use profile::is_there as has_profile;

/// In `trace_stat`, for each CPU.
pub(super) static FUNCTION_STAT: File = File::new("function", Some(profile::stat), None);
/// The files in the root, as far as the image has a use for them.
pub(super) fn root(session: &Session) -> impl Iterator<Item = &'static File> {
    let of_functions = functions::FILES.iter().chain(&pids::FILES);
    let all = ROOT.iter().chain(&latency::FILES).chain(of_functions);
    all.filter(|file| file.is_there(session))
}

/// Whether there is a folder `hwlat_detector`.
pub(super) use latency::has_tracers as has_hwlat;

/// The folder of the tracers `timerlat` and `osnoise`, the files in it, and for each CPU.
pub(super) use osnoise::{
    DIR as OSNOISE, FILES as OSNOISE_FILES, TIMERLAT_FD, is_there as has_osnoise,
};

/// In `hwlat_detector`.
pub(super) use latency::HWLAT;

/// The name of the clock at the beginning.
pub(super) const CLOCK: &str = control::CLOCKS[0];

/// Does what is left to do when a list is closed.
pub(super) use functions::finish as finish_list;

/// Whether the options of function_graph are there.
pub(super) use functions::has_functions;

/// In `options`.
pub(super) static OPTION: File = File::new("", Some(control::option), Some(control::set_option));

/// In `per_cpu/cpuN`.
pub(super) static PER_CPU: [File; 4] = [
    File::new(
        "snapshot",
        Some(output::snapshot),
        Some(output::set_snapshot),
    ),
    File::new("stats", Some(output::stats), None),
    File::new("trace", Some(output::trace), Some(|_, _, _| Ok(()))).truncating(output::clear),
    File::pipe("trace_pipe"),
];

/// In `events`.
pub(super) static ENABLE: File =
    File::new("enable", Some(events::enable), Some(events::set_enable));

/// In `events/SYSTEM`.
pub(super) static SYSTEM: [File; 2] = [
    File::new("enable", Some(events::enable), Some(events::set_enable)),
    File::new("filter", Some(rules::filter), Some(rules::set_filter)),
];

/// In `events/SYSTEM/EVENT`.
pub(super) static EVENT: [File; 6] = [
    File::new("enable", Some(events::enable), Some(events::set_enable)),
    File::new("filter", Some(rules::filter), Some(rules::set_filter)),
    File::new("format", Some(events::format), None),
    File::new("hist", Some(hist::show), None),
    File::new("id", Some(events::id), None),
    File::new("trigger", Some(rules::triggers), Some(rules::set_trigger)),
];

const README: &str = "\
tracing mini-HOWTO, of Takt:

  available_events   - all events that this image can record
  available_filter_functions - all functions that can be traced
  available_tracers  - all tracers that this image has
  buffer_size_kb     - how much of each CPU's ring is used; changed while current_tracer is nop
  current_tracer     - the tracer that runs; written to choose another, which begins with an empty buffer;
                       nop stops it and leaves what was recorded
  enabled_functions  - the functions whose entries are patched now, and what they call there; behind them, with # before
                       it, each that can never be traced, and why
  error_log          - what was wrong with the last commands, and where; written with > to clear it
  events/            - events by system: enable and filter, and for each event enable, format, id,
                         filter  - which are recorded: echo 'next_prio < 10 && next_comm == ctrl' > filter; 0 clears
                         trigger - what happens then: traceoff, traceon, snapshot, stacktrace,
                                   enable_event:SYSTEM:EVENT, disable_event:SYSTEM:EVENT, each perhaps with :COUNT,
                                   hist:keys=FIELD[,FIELD]:vals=FIELD:sort=FIELD:size=N; a key may have .hex, .sym,
                                   .execname, .log2, .buckets=N, or be common_cpu or stacktrace; :pause, :continue and
                                   :clear at its end are for one that there is; behind it perhaps `if FILTER`;
                                   with ! before it, it is taken away
                         hist    - what the histograms have counted
  function_graph_stats - what function_graph could not record since boot: functions too deep in a stack,
                       functions that never returned, functions skipped
  function_profile_enabled - 1 counts calls and times of functions anew; where the image has function tracing
  hwlat_detector/    - width and window: hwlat watches the clock for the one in each of the other, microseconds. With
                       several CPUs under icount its gaps are the turns of the others
  latency_trace      - as trace, in the latency format whatever the tracer
  max_graph_depth    - how deep function_graph looks; 0 is as deep as it can
  osnoise/           - what timerlat and osnoise are set to: cpus, timerlat_period_us, period_us, runtime_us,
                       stop_tracing_us, stop_tracing_total_us, print_stack, tracing_threshold, options. What osnoise
                       counts as HW has the time in it that the guest's CPUs wait for each other, or for the host
  options/           - one file for each of trace_options: 0 or 1
  per_cpu/           - trace, trace_pipe and stats of each CPU
  saved_cmdlines     - numbers and names of threads
  set_event          - enabled events; > replaces them, >> adds to them, !event removes one:
                         echo 'sched:*' > set_event
  set_event_notrace_pid - the threads whose events are not recorded
  set_event_pid      - the threads whose events are recorded, 0 the idle ones; empty is all. A switch or a wake-up is of
                       both threads
  set_ftrace_filter  - the functions that function and function_graph trace; > replaces, >> adds, !name removes:
                         echo 'takt_timerlat::*' > set_ftrace_filter
                         echo '*lock*' '!unlock*' >> set_ftrace_filter
                       name, pre*, *post, *mid*, a?c and a[b-d]e are held against whole names and against their last parts;
                       echo > set_ftrace_filter is all functions again. name:traceoff, name:traceon and name:stacktrace, each
                       perhaps with :COUNT, are done when such a function begins; with ! before it, it is taken away
  set_ftrace_notrace - functions that they do not trace, although the filter has them
  set_ftrace_pid     - the threads whose functions are traced, 0 the idle ones; empty is all but the one that carries out
                       what is written here (control)
  set_graph_function - the functions that function_graph begins at
  set_graph_notrace  - the functions that it leaves out with all that they call
  snapshot           - what was recorded before a moment, kept: 1 takes it, 0 frees it, 2 empties it
  stack_max_size     - bytes of the deepest use of a stack; written to forget what was found, and for the least to find
  stack_trace        - the deepest use of each stack, with the functions that reached it
  stack_trace_filter - the functions at whose entry that is looked for
  stack_tracer_enabled - 1 looks for it; where the image has function tracing
  trace              - what was recorded; written with > to clear it. With a latency tracer: the stretch of the
                       last maximum; with function_graph: nested calls and their durations
  trace_clock        - the clock of the time stamps; there is one, with several names
  trace_entries      - buffer_size_kb, counted in entries of 16 bytes
  trace_marker       - what is written here is recorded
  trace_options      - how trace and trace_pipe are shown; a name switches on, with `no` before it off;
                       those of function_graph (funcgraph-*) while it is the current tracer
  trace_stat/        - what function_profile_enabled has counted on each CPU
  trace_pipe         - as trace, but reading takes it away, and waits for more; ends when the tracer changes, or
                       with tracing_on 0 once something was read
  tracing_cpumask    - the CPUs that record, hexadecimal
  tracing_max_latency - the greatest latency that the tracer has met, in microseconds; 0 begins anew
  tracing_on         - 0 stops recording and keeps what there is, 1 goes on
  tracing_thresh     - a latency tracer keeps whatever is not shorter, in microseconds; 0 is new maxima only

Files that this image has no use for are not there.
";
