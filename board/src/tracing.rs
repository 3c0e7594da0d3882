//! What the command line says of tracing, for every image: `events=` with the ids to switch on (the host knows the
//! names), `mode=capture|flight`. With feature `function` also `ftrace=function` and what it is about: functions in
//! `ftrace_filter=` and `ftrace_notrace=`, by their ids in ranges (`3,7-12`), threads in `ftrace_pid=`.

use takt_kernel::trace::{self, Mode};

use crate::cmdline::CommandLine;

/// Chooses the mode, switches the listed events on, and starts recording if there are any. Says how many are on.
///
/// # Context
/// A thread of the boot CPU, before other CPUs are started.
pub(crate) fn apply(line: &CommandLine<'_>) -> u32 {
    let mode = line.choice("mode", &["capture", "flight"], 0).unwrap_or(0);
    trace::set_mode([Mode::StopWhenFull, Mode::Overwrite][mode]);
    let mut nr_events = 0;
    for id in line.list("events") {
        let Some(id) = id.ok().and_then(|id| u32::try_from(id).ok()) else {
            defmt::warn!("the list of events on the command line has a bad number");
            continue;
        };
        // An event whose code the image does not contain cannot occur.
        if trace::enable(id, true).is_ok_and(|nr_places| nr_places > 0) {
            nr_events += 1;
        }
    }
    #[cfg(feature = "function")]
    let nr_events = nr_events + functions(line);
    if nr_events > 0 {
        trace::tracing_on();
        trace::record_threads();
    }
    nr_events
}

/// Starts the function tracer if the command line says so; says how many events that makes.
#[cfg(feature = "function")]
fn functions(line: &CommandLine<'_>) -> u32 {
    use takt_kernel::trace::function::{self, Filter};

    if line.get("ftrace") != Some("function") {
        return 0;
    }
    let filter = |key| Filter::of_ids(line.ranges(key).flatten());
    let begin = || {
        if line.get("ftrace_filter").is_some() {
            function::set_filter(&filter("ftrace_filter"))?;
        }
        function::set_notrace(&filter("ftrace_notrace"))?;
        let mut tids = heapless::Vec::<u8, 16>::new();
        for tid in line.list("ftrace_pid").flatten() {
            if u8::try_from(tid).is_ok_and(|tid| tids.push(tid).is_ok()) {
                continue;
            }
            defmt::warn!("the list of threads to be traced has a bad number or is too long");
        }
        function::set_pids(&tids)?;
        function::start()
    };
    match begin() {
        Ok(()) => 2,
        Err(error) => {
            defmt::error!("functions cannot be traced: {}", error);
            0
        }
    }
}
