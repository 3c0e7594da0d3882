//! What the command line says of tracing, for every image: `events=` with the ids to switch on (the host knows the
//! names), `mode=capture|flight`.

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
    if nr_events > 0 {
        trace::tracing_on();
        trace::record_threads();
    }
    nr_events
}
