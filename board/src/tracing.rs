//! Carries out what the command line and the host set of the tracer ([`Setting`]).

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use takt_kernel::trace::{self, Mode};

use crate::capture;
use crate::cmdline::CommandLine;
use crate::setting::{Errno, Setting, Snapshot};
#[cfg(feature = "function")]
use crate::setting::{Ids, List};

/// Where the settings on the command line are carried out.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// As soon as the command line is known, so that the boot can be traced: what can be done without threads and
    /// interrupts.
    Boot,
    /// In the first thread: the rest.
    Thread,
}

/// A bit for each of the command line's first words: it was carried out.
static DONE: AtomicU64 = AtomicU64::new(0);

/// Carries out the settings on the command line, in their order but for the buffers' size, which comes first, and starts
/// recording if an event or a tracer was switched on, unless `tracing_on=0` says otherwise. What could not be done yet is
/// done in the next stage; what cannot be done at all is logged by the last.
///
/// # Context
/// A thread of the boot CPU, before other CPUs are started; for [`Stage::Boot`] its boot context.
pub(crate) fn apply(line: &CommandLine<'_>, stage: Stage) {
    if stage == Stage::Boot {
        // Complete capture unless it is said otherwise.
        trace::set_mode(Mode::StopWhenFull);
    }
    let mut is_wanted = false;
    for is_size in [true, false] {
        for (index, word) in line.words().enumerate() {
            // Further words have none, and wait for the thread.
            let bit = u32::try_from(index)
                .ok()
                .and_then(|index| 1u64.checked_shl(index));
            let bit = bit.unwrap_or(0);
            if DONE.load(Relaxed) & bit != 0 || stage == Stage::Boot && bit == 0 {
                continue;
            }
            let Some(parsed) = Setting::parse(word) else {
                continue;
            };
            if matches!(parsed, Ok(Setting::BufferSize(_))) != is_size {
                continue;
            }
            match parsed.and_then(|setting| carry_out_in(stage, setting).map(|()| setting)) {
                Ok(setting) => {
                    DONE.fetch_or(bit, Relaxed);
                    is_wanted |= wants_recording(&setting);
                }
                Err(error) if stage == Stage::Thread => defmt::warn!("{=str}: {}", word, error),
                Err(_) => {}
            }
        }
    }
    if is_wanted && !trace::is_wanted() && line.get("tracing_on") != Some("0") {
        trace::tracing_on();
        trace::record_threads();
    }
}

/// Whether a setting is for something that is to be recorded.
fn wants_recording(setting: &Setting<'_>) -> bool {
    match setting {
        Setting::Events { ids, .. } => ids.iter().next().is_some(),
        Setting::Tracer(_) => true,
        _ => false,
    }
}

/// [`carry_out`], where the stage has what it needs.
fn carry_out_in(stage: Stage, setting: Setting<'_>) -> Result<(), Errno> {
    let waits = match setting {
        // It is a thread.
        Setting::Tracer(name) => name == "hwlat",
        // In cycles, of which nobody knows yet how long they are.
        Setting::MaxLatency(_) | Setting::Thresh(_) => true,
        _ => false,
    };
    if stage == Stage::Boot && waits {
        return Err(Errno::Busy);
    }
    carry_out(setting)
}

/// Carries out a setting.
///
/// # Errors
/// The number that Linux gives; everything is as it was then, except that of a list of events those before the culprit
/// are switched.
///
/// # Context
/// Threads, one at a time.
pub fn carry_out(setting: Setting<'_>) -> Result<(), Errno> {
    match setting {
        Setting::Tracer(name) => trace::set_tracer(name)?,
        Setting::Events { ids, on } => {
            for id in ids.iter() {
                // An event whose code the image does not contain cannot occur, so it is as good as switched.
                trace::enable(id, on)?;
            }
        }
        Setting::TracingOn(true) => trace::tracing_on(),
        Setting::TracingOn(false) => trace::tracing_off(),
        Setting::Marker(text) => trace::record_marker(text),
        Setting::Overwrite(on) => trace::set_mode(if on {
            Mode::Overwrite
        } else {
            Mode::StopWhenFull
        }),
        Setting::Cpumask(mask) => trace::set_cpumask(mask)?,
        Setting::BufferSize(nr_subs) => trace::set_buffer_size(nr_subs)?,
        Setting::Clear => clear(),
        // As Linux has it: there is nothing to free or to empty either.
        Setting::Snapshot(_) if trace::snapshot::is_reserved() => return Err(Errno::Busy),
        Setting::Snapshot(Snapshot::Take) => trace::snapshot::take()?,
        Setting::Snapshot(Snapshot::Free) => trace::snapshot::free(),
        Setting::Snapshot(Snapshot::Clear) => trace::snapshot::clear(),
        Setting::Program { .. }
        | Setting::EventFilter { .. }
        | Setting::EventTrigger(_)
        | Setting::EventTriggerOff { .. } => rules(setting)?,
        Setting::Filter(_)
        | Setting::Notrace(_)
        | Setting::More(..)
        | Setting::Pids(_)
        | Setting::GraphFilter(_)
        | Setting::GraphNotrace(_)
        | Setting::GraphDepth(_)
        | Setting::FuncStackTrace(_)
        | Setting::FunctionTrace(_)
        | Setting::FunctionProfile(_)
        | Setting::StackTracer(_)
        | Setting::StackFilter(_)
        | Setting::StackMax(_) => functions(setting)?,
        Setting::StackTrace(on) => stack_after_events(on)?,
        Setting::MaxLatency(_)
        | Setting::Thresh(_)
        | Setting::HwlatWindow(_)
        | Setting::HwlatWidth(_) => latencies(setting)?,
    }
    Ok(())
}

/// Empties the rings: what was recorded is read no more. A complete capture loses nothing, it is handed over as ever.
fn clear() {
    if trace::snapshot::is_reserved() {
        trace::snapshot::clear();
    }
    trace::forget(|cpu| {
        if !capture::is_active() {
            // Gives them back to the writers, who would lose what is new if they may not overwrite.
            trace::drain(cpu, |_| true);
        }
    });
}

/// Where the words of a filter or trigger are put before it is set.
#[cfg(feature = "rules")]
static PROGRAM: spin::Mutex<[u32; PROGRAM_WORDS]> = spin::Mutex::new([0; PROGRAM_WORDS]);
#[cfg(feature = "rules")]
const PROGRAM_WORDS: usize = takt_tracer::filter::program::MAX_WORDS;

/// Filters and triggers of events.
#[cfg(feature = "rules")]
fn rules(setting: Setting<'_>) -> Result<(), Errno> {
    use takt_kernel::trace::rules::events::{self, Trigger};
    use takt_tracer::rules::UNLIMITED;

    // One setting at a time is carried out.
    let mut program = PROGRAM.lock();
    match setting {
        Setting::Program { at, words } => {
            let place = program.get_mut(at..).ok_or(Errno::NoMemory)?;
            if words.iter().count() > place.len() {
                return Err(Errno::NoMemory);
            }
            for (cell, word) in place.iter_mut().zip(words.iter()) {
                *cell = word;
            }
        }
        Setting::EventFilter { event, len, text } => {
            let code = program.get(..len).ok_or(Errno::Invalid)?;
            events::set_filter(event, code, text)?;
        }
        Setting::EventTrigger(trigger) => {
            let (spec, behind) = program
                .split_at_checked(trigger.nr_spec)
                .ok_or(Errno::Invalid)?;
            let trigger_of_event = Trigger {
                action: trigger.action,
                left: trigger.count.map_or(UNLIMITED, u64::from),
                condition: behind.get(..trigger.nr_condition).ok_or(Errno::Invalid)?,
                spec,
                text: trigger.text,
            };
            events::add_trigger(trigger.event, &trigger_of_event)?;
        }
        Setting::EventTriggerOff { event, place } => events::remove_trigger(event, place)?,
        _ => return Err(Errno::NoEntry),
    }
    Ok(())
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

    fn with(mut filter: Filter, ids: Ids<'_>) -> Filter {
        for id in ids.iter() {
            filter.insert(id as usize);
        }
        filter
    }
    match setting {
        Setting::Filter(None) => function::set_filter(&Filter::ALL)?,
        Setting::Filter(Some(ids)) => function::set_filter(&with(Filter::NONE, ids))?,
        Setting::Notrace(ids) => function::set_notrace(&with(Filter::NONE, ids))?,
        Setting::More(list, ids) => {
            let with_more = |filter| with(filter, ids);
            match list {
                List::Filter => function::set_filter(&with_more(function::filter()))?,
                List::Notrace => function::set_notrace(&with_more(function::notrace()))?,
                List::GraphFilter => {
                    let roots = function::graph_functions().unwrap_or(Filter::NONE);
                    function::set_graph_functions(Some(&with_more(roots)))?;
                }
                List::GraphNotrace => {
                    function::set_graph_notrace(&with_more(function::graph_notrace()))?;
                }
                List::StackFilter => {
                    function::set_stack_filter(&with_more(function::stack_filter()))?;
                }
            }
        }
        Setting::Pids(ids) => {
            let mut tids = heapless::Vec::<u8, 256>::new();
            for id in ids.iter() {
                let tid = u8::try_from(id).map_err(|_| Errno::Invalid)?;
                tids.push(tid).map_err(|_| Errno::NoMemory)?;
            }
            function::set_pids(&tids)?;
        }
        Setting::GraphFilter(ids) => {
            let roots = ids.map(|ids| with(Filter::NONE, ids));
            function::set_graph_functions(roots.as_ref())?;
        }
        Setting::GraphNotrace(ids) => {
            function::set_graph_notrace(&with(Filter::NONE, ids))?;
        }
        Setting::FuncStackTrace(on) => function::set_stack_trace(on)?,
        Setting::FunctionTrace(on) => function::set_function_trace(on)?,
        Setting::FunctionProfile(on) => function::set_profile(on)?,
        Setting::StackTracer(on) => function::set_stack_tracer(on)?,
        Setting::StackFilter(None) => function::set_stack_filter(&Filter::ALL)?,
        Setting::StackFilter(Some(ids)) => {
            function::set_stack_filter(&with(Filter::NONE, ids))?;
        }
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

#[cfg(feature = "stacktrace")]
fn stack_after_events(on: bool) -> Result<(), Errno> {
    Ok(trace::stack::set_after_events(on)?)
}

/// No stack can be recorded by this image.
#[cfg(not(feature = "stacktrace"))]
fn stack_after_events(_: bool) -> Result<(), Errno> {
    Err(Errno::NoEntry)
}

/// What the latency tracers keep.
#[cfg(feature = "latency-tracers")]
fn latencies(setting: Setting<'_>) -> Result<(), Errno> {
    use takt_kernel::trace::{hwlat, latency};

    match setting {
        Setting::MaxLatency(nanos) => latency::set_max(nanos),
        Setting::Thresh(nanos) => latency::set_thresh(nanos),
        Setting::HwlatWindow(nanos) => hwlat::set_window(nanos, hwlat::window().1)?,
        Setting::HwlatWidth(nanos) => hwlat::set_window(hwlat::window().0, nanos)?,
        _ => return Err(Errno::NoEntry),
    }
    Ok(())
}

/// There are no such tracers in this image.
#[cfg(not(feature = "latency-tracers"))]
fn latencies(_: Setting<'_>) -> Result<(), Errno> {
    Err(Errno::NoEntry)
}
