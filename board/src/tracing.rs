//! Carries out what the command line and the host set of the tracer ([`Setting`]).

#[cfg(feature = "rules")]
use takt_kernel::sync::Mutex;
use takt_kernel::trace::{self, Mode};

use takt_tracer::control::Tracer;
use takt_tracer::control::setting::{Errno, Ids, Osnoise, Setting, Snapshot};
use takt_tracer::named::Named;

#[cfg(feature = "capture")]
use crate::capture;
use crate::cmdline::CommandLine;

/// Where the settings on the command line are carried out.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// As soon as the command line is known, so that the boot can be traced: up to the first that has to wait.
    Boot,
    /// In the first thread: the rest.
    Thread,
}

/// What the boot leaves for the first thread.
struct Left {
    /// The words that were not looked at yet begin with this one.
    next: usize,
    /// Recording was started. Whatever has stopped it since, a trigger for one, it is not started anew.
    has_started: bool,
    /// Words that could not be carried out, by their numbers. Said later: nobody knows yet how long a cycle is.
    refused: heapless::Vec<(usize, Errno), 8>,
}

static LEFT: spin::Mutex<Left> = spin::Mutex::new(Left {
    next: 0,
    has_started: false,
    refused: heapless::Vec::new(),
});

/// Carries out the settings on the command line, in their order but for the buffers' sizes, which come first, and starts
/// recording if an event or a tracer was switched on, unless `tracing_on=0` says otherwise. What cannot be carried out is
/// logged by the first thread.
///
/// # Context
/// The boot context, then a thread of the boot CPU, before other CPUs are started.
pub(crate) fn apply(line: &CommandLine<'_>, stage: Stage) {
    let mut left = LEFT.lock();
    let settings = || {
        let words = line.words().enumerate();
        words.filter_map(|(index, word)| Some((index, Setting::parse(word)?)))
    };
    if stage == Stage::Boot {
        // Complete capture unless it is said otherwise.
        trace::set_mode(Mode::StopWhenFull);
        for (index, parsed) in settings().filter(|(_, parsed)| is_size(parsed)) {
            try_setting(&mut left, index, parsed);
        }
    }
    let mut is_wanted = false;
    let begin = left.next;
    for (index, parsed) in settings().skip_while(|(index, _)| *index < begin) {
        if stage == Stage::Boot && parsed.is_ok_and(waits) {
            break;
        }
        left.next = index + 1;
        if !is_size(&parsed) {
            is_wanted |= try_setting(&mut left, index, parsed);
        }
    }
    if is_wanted && !left.has_started && line.get("tracing_on") != Some("0") {
        left.has_started = true;
        trace::tracing_on();
        trace::record_names();
    }
    if stage == Stage::Thread {
        for (index, error) in &left.refused {
            let word = line.words().nth(*index).unwrap_or_default();
            defmt::warn!("{=str}: {}", word, error);
        }
    }
}

fn is_size(parsed: &Result<Setting<'_>, Errno>) -> bool {
    matches!(parsed, Ok(Setting::BufferSize(_)))
}

/// Carries out the setting of a word; says whether it was for something that is to be recorded.
fn try_setting(left: &mut Left, index: usize, parsed: Result<Setting<'_>, Errno>) -> bool {
    match parsed.and_then(|setting| carry_out(setting).map(|()| setting)) {
        Ok(Setting::Events(ids) | Setting::EventsOff(ids)) => ids.iter().next().is_some(),
        Ok(Setting::Tracer(_)) => true,
        Ok(_) => false,
        Err(error) => {
            // Of so many the last are not said.
            let _ = left.refused.push((index, error));
            false
        }
    }
}

/// Whether a setting needs more than the boot context has.
fn waits(setting: Setting<'_>) -> bool {
    match setting {
        Setting::Tracer(name) => Tracer::from_name(name).is_some_and(Tracer::needs_thread),
        // In cycles, of which nobody knows yet how long they are.
        Setting::MaxLatency(_) | Setting::Thresh(_) => true,
        // CPUs that run.
        Setting::Osnoise(_) => true,
        _ => false,
    }
}

/// Lists of functions lie on the boot stack while they are carried out, several at a time.
#[cfg(feature = "function")]
const _: () = assert!(
    size_of::<takt_kernel::trace::function::Filter>() <= takt_kernel::config::IDLE_STACK_SIZE / 16,
    "TAKT_MAX_FUNCTIONS is too large for the boot stack"
);

/// Carries out a setting.
///
/// # Errors
/// The number that Linux gives; everything is as it was then, except that of a list of events those before the culprit
/// are switched.
///
/// # Context
/// Threads, one at a time; the boot context where it has what the setting needs.
pub fn carry_out(setting: Setting<'_>) -> Result<(), Errno> {
    match setting {
        Setting::Tracer(name) => trace::set_tracer(name)?,
        Setting::Events(ids) => enable(ids, true)?,
        Setting::EventsOff(ids) => enable(ids, false)?,
        Setting::TracingOn(true) => trace::tracing_on(),
        Setting::TracingOn(false) => trace::tracing_off(),
        Setting::Marker(text) => trace::record_marker(text),
        Setting::Overwrite(on) => trace::set_mode(if on {
            Mode::Overwrite
        } else {
            Mode::StopWhenFull
        }),
        Setting::Cpumask(mask) => trace::set_cpumask(mask)?,
        Setting::BufferSize(nr_subs) => trace::set_buffer_size(nr_subs as usize)?,
        Setting::Clear(()) => clear(),
        // As Linux has it: there is nothing to free or to empty either.
        Setting::Snapshot(_) if trace::snapshot::is_reserved() => return Err(Errno::Busy),
        Setting::Snapshot(Snapshot::Take) => trace::snapshot::take()?,
        Setting::Snapshot(Snapshot::Free) => trace::snapshot::free(),
        Setting::Snapshot(Snapshot::Clear) => trace::snapshot::clear(),
        Setting::Program(_)
        | Setting::EventFilter(_)
        | Setting::EventTrigger(_)
        | Setting::EventTriggerCount(_)
        | Setting::EventTriggerOff(_)
        | Setting::EventPids(_)
        | Setting::EventNotracePids(_) => rules(setting)?,
        Setting::Functions(..)
        | Setting::FunctionCommand(_)
        | Setting::Pids(_)
        | Setting::GraphDepth(_)
        | Setting::FuncStackTrace(_)
        | Setting::FunctionTrace(_)
        | Setting::FunctionProfile(_)
        | Setting::StackTracer(_)
        | Setting::StackMax(_) => functions(setting)?,
        Setting::StackTrace(on) => stack_after_events(on)?,
        Setting::Osnoise(it) => osnoise(it)?,
        Setting::MaxLatency(_)
        | Setting::Thresh(_)
        | Setting::HwlatWindow(_)
        | Setting::HwlatWidth(_) => latencies(setting)?,
        // Only a thread that waits for settings can let time pass between them.
        Setting::Pass(_) => return Err(Errno::Invalid),
    }
    Ok(())
}

/// Switches events.
fn enable(ids: Ids<'_>, on: bool) -> Result<(), Errno> {
    for id in ids.iter() {
        // An event whose code the image does not contain cannot occur, so it is as good as switched.
        trace::enable(id, on)?;
    }
    Ok(())
}

/// Empties the rings: what was recorded is read no more. A complete capture loses nothing, it is handed over as ever.
fn clear() {
    if trace::snapshot::is_reserved() {
        trace::snapshot::clear();
    }
    trace::forget(|cpu| {
        if !is_captured() {
            // Gives them back to the writers, who would lose what is new if they may not overwrite.
            trace::discard(cpu);
        }
    });
}

fn is_captured() -> bool {
    #[cfg(feature = "capture")]
    return capture::is_active();
    #[cfg(not(feature = "capture"))]
    false
}

/// Where the words of a filter or trigger are put before it is set: the longest program and the longest text, and more
/// than a histogram needs.
#[cfg(feature = "rules")]
static PROGRAM: Mutex<[u32; PROGRAM_WORDS]> = Mutex::new([0; PROGRAM_WORDS]);
#[cfg(feature = "rules")]
const PROGRAM_WORDS: usize =
    takt_tracer::filter::program::MAX_WORDS + takt_tracer::rules::MAX_TEXT / 4 + 32;

/// Filters and triggers of events, and of which threads events are recorded.
#[cfg(feature = "rules")]
fn rules(setting: Setting<'_>) -> Result<(), Errno> {
    use takt_kernel::trace::rules::events;
    use takt_tracer::control::setting::{EventFilter, EventTriggerCount, EventTriggerOff, Program};
    use takt_tracer::rules::{NewTrigger, ThreadList, UNLIMITED};

    let left = |count: Option<u32>| count.map_or(UNLIMITED, u64::from);
    // One setting at a time is carried out, which may have to wait.
    let mut program = PROGRAM.lock()?;
    let mut rest = &program[..];
    let mut take = |nr: u32| -> Result<&[u32], Errno> {
        let (words, behind) = rest.split_at_checked(nr as usize).ok_or(Errno::Invalid)?;
        rest = behind;
        Ok(words)
    };
    match setting {
        Setting::Program(Program { at, words }) => {
            let place = program.get_mut(at as usize..).ok_or(Errno::NoMemory)?;
            if words.iter().count() > place.len() {
                return Err(Errno::NoMemory);
            }
            for (cell, word) in place.iter_mut().zip(words.iter()) {
                *cell = word;
            }
        }
        Setting::EventFilter(EventFilter {
            event,
            len,
            nr_text,
        }) => {
            events::set_filter(event, take(len)?, take(nr_text)?)?;
        }
        Setting::EventTrigger(trigger) => {
            let new = NewTrigger {
                action: trigger.action,
                left: left(trigger.count),
                other: trigger.other,
                spec: take(trigger.nr_spec)?,
                condition: take(trigger.nr_condition)?,
                text: take(trigger.nr_text)?,
            };
            events::add_trigger(trigger.event, &new)?;
        }
        Setting::EventTriggerCount(EventTriggerCount {
            event,
            place,
            count,
        }) => events::set_trigger_count(event, place as usize, left(count))?,
        Setting::EventTriggerOff(EventTriggerOff { event, place }) => {
            events::remove_trigger(event, place as usize)?;
        }
        Setting::EventPids(ids) => events::set_threads(ThreadList::Only, &threads(ids)?)?,
        Setting::EventNotracePids(ids) => events::set_threads(ThreadList::Not, &threads(ids)?)?,
        _ => return Err(Errno::NoEntry),
    }
    Ok(())
}

/// A list of threads.
#[cfg(any(feature = "rules", feature = "function"))]
fn threads(ids: Ids<'_>) -> Result<heapless::Vec<u8, 256>, Errno> {
    let mut tids = heapless::Vec::new();
    for id in ids.iter() {
        let tid = u8::try_from(id).map_err(|_| Errno::Invalid)?;
        tids.push(tid).map_err(|_| Errno::NoMemory)?;
    }
    Ok(tids)
}

/// There are none in this image.
#[cfg(not(feature = "rules"))]
fn rules(_: Setting<'_>) -> Result<(), Errno> {
    Err(Errno::NoEntry)
}

/// What the tracer of functions is about.
#[cfg(feature = "function")]
fn functions(setting: Setting<'_>) -> Result<(), Errno> {
    use takt_kernel::trace::function::{self, Filter};
    use takt_tracer::control::setting::{Chosen, List};
    use takt_tracer::rules::UNLIMITED;

    fn with(mut filter: Filter, ids: Ids<'_>) -> Filter {
        for id in ids.iter() {
            filter.insert(id as usize);
        }
        filter
    }
    fn listed(list: List) -> Filter {
        match list {
            List::Filter => function::filter(),
            List::Notrace => function::notrace(),
            List::GraphFilter => function::graph_functions().unwrap_or(Filter::NONE),
            List::GraphNotrace => function::graph_notrace(),
            List::StackFilter => function::stack_filter(),
        }
    }
    match setting {
        Setting::Functions(list, chosen) => {
            let is_graph = list == List::GraphFilter;
            let filter = match chosen {
                Chosen::All if is_graph => return Ok(function::set_graph_functions(None)?),
                Chosen::All => Filter::ALL,
                Chosen::Only(ids) => with(Filter::NONE, ids),
                Chosen::More(ids) => with(listed(list), ids),
            };
            match list {
                List::Filter => function::set_filter(&filter)?,
                List::Notrace => function::set_notrace(&filter)?,
                List::GraphFilter => function::set_graph_functions(Some(&filter))?,
                List::GraphNotrace => function::set_graph_notrace(&filter)?,
                List::StackFilter => function::set_stack_filter(&filter)?,
            }
        }
        Setting::FunctionCommand(command) => {
            let left = command.count.map_or(UNLIMITED, u64::from);
            let functions = with(Filter::NONE, command.ids);
            function::set_command(&functions, command.action, left)?;
        }
        Setting::Pids(ids) => function::set_pids(&threads(ids)?)?,
        Setting::FuncStackTrace(on) => function::set_stack_trace(on)?,
        Setting::FunctionTrace(on) => function::set_function_trace(on)?,
        Setting::FunctionProfile(on) => function::set_profile(on)?,
        Setting::StackTracer(on) => function::set_stack_tracer(on)?,
        Setting::StackMax(bytes) => function::set_stack_max(bytes)?,
        Setting::GraphDepth(depth) => function::set_max_graph_depth(depth),
        _ => return Err(Errno::NoEntry),
    }
    Ok(())
}

/// There is no such tracer in this image.
#[cfg(not(feature = "function"))]
fn functions(_: Setting<'_>) -> Result<(), Errno> {
    Err(Errno::NoEntry)
}

#[cfg(all(feature = "stacktrace", feature = "rules"))]
fn stack_after_events(on: bool) -> Result<(), Errno> {
    Ok(trace::rules::events::set_stacktrace(on)?)
}

/// No stack can be recorded after an event by this image.
#[cfg(not(all(feature = "stacktrace", feature = "rules")))]
fn stack_after_events(_: bool) -> Result<(), Errno> {
    Err(Errno::NoEntry)
}

/// What the latency tracers keep.
#[cfg(feature = "latency-tracers")]
fn latencies(setting: Setting<'_>) -> Result<(), Errno> {
    use takt_kernel::time::Nanos;
    use takt_kernel::trace::{hwlat, latency};

    match setting {
        Setting::MaxLatency(nanos) => latency::set_max(Nanos::new(nanos)),
        Setting::Thresh(nanos) => latency::set_thresh(Nanos::new(nanos)),
        Setting::HwlatWindow(nanos) => hwlat::set_window(Nanos::new(nanos), hwlat::window().1)?,
        Setting::HwlatWidth(nanos) => hwlat::set_window(hwlat::window().0, Nanos::new(nanos))?,
        _ => return Err(Errno::NoEntry),
    }
    Ok(())
}

/// What the tracers timerlat and osnoise are set to.
#[cfg(feature = "osnoise")]
fn osnoise(it: Osnoise) -> Result<(), Errno> {
    Ok(trace::osnoise::set(it.param, it.value)?)
}

/// There are no such tracers in this image.
#[cfg(not(feature = "osnoise"))]
fn osnoise(_: Osnoise) -> Result<(), Errno> {
    Err(Errno::NoEntry)
}

/// There are no such tracers in this image.
#[cfg(not(feature = "latency-tracers"))]
fn latencies(_: Setting<'_>) -> Result<(), Errno> {
    Err(Errno::NoEntry)
}
