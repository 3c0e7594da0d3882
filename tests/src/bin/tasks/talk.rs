//! What tasks log and trace.

use takt_kernel::task::{Ended, all};
use takt_kernel::time::{Instant, Nanos};
use takt_kernel::trace;
use takt_tests::harness::{Failure, Outcome, print};
use takt_tests::{check, check_eq, note, target_test};

use crate::start;

/// A program of its own, and what it is told.
pub(crate) const TALKER: usize = 8;
const SAYS: u64 = 0;
const BABBLES: u64 = 1;
const FLOODS: u64 = 2;
const EMITS: u64 = 3;
const WAITS: u64 = 4;
const MEASURES: u64 = 5;
const FORGES: u64 = 6;
const EMITS_TOO_MANY: u64 = 7;
/// For a second.
pub(crate) const EMITS_IN_BURSTS: u64 = 8;
const EMITS_TOO_MUCH: u64 = 9;
const EMITS_TOO_MANY_WORDS: u64 = 10;

/// Its events, in the order of their names.
pub(crate) const PAIR: usize = 1;
const TEXT: usize = 2;
const WORDS: usize = 3;

fn talk(what: u64) -> Outcome {
    start((TALKER, 0), what as u32)?.succeeds()
}

/// The number that it ends with.
fn number_of(what: u64) -> Result<u64, Failure> {
    match start((TALKER, 0), what as u32)?.end()? {
        Ended::Exited(code) => Ok(code),
        Ended::Stopped(fault) => Err(Failure::new(format_args!("{fault}"))),
    }
}

/// Switches one of its events.
pub(crate) fn switch(event: usize, on: bool) -> Outcome {
    let id = core::ptr::from_ref(all()[TALKER].events()[event].id) as u32;
    check_eq!(trace::enable(id, on)?, 1);
    check_eq!(trace::is_enabled(id), on);
    Ok(())
}

/// How many records there are of this event after that.
fn recorded(event: usize, what: u64) -> Result<u64, Failure> {
    switch(event, true)?;
    trace::tracing_on();
    let before = trace::counters_of(0).entries;
    talk(what)?;
    Ok(trace::counters_of(0).entries - before)
}

target_test! {
    /// Lines by defmt, of each level and of values that defmt encodes in ways of their own. What they are is for the host to see.
    fn lines_are_taken(Alone) {
        talk(SAYS)
    }

    /// A task that gives what is no frame, and what it does not have.
    fn rubbish_is_taken(Alone) {
        talk(BABBLES)?;
        talk(SAYS)
    }

    /// What is on is emitted, in each life, and nothing else.
    fn events_are_emitted_while_they_are_on(Shared) {
        check_eq!(all()[TALKER].events().len(), 4);
        check_eq!(number_of(EMITS)?, 0);
        switch(PAIR, true)?;
        check_eq!(number_of(EMITS)?, 1);
        check_eq!(number_of(EMITS)?, 1);
        switch(PAIR, false)?;
        check_eq!(number_of(EMITS)?, 0);
        let waits = start((TALKER, 0), WAITS as u32)?;
        takt_kernel::time::sleep(Nanos::from_millis(1))?;
        check!(all()[TALKER].is_alive());
        switch(PAIR, true)?;
        waits.succeeds()?;
        switch(PAIR, false)
    }

    /// A task whose events are on: what it has emitted is for the host to see.
    fn events_are_recorded(Alone) {
        for event in 0..all()[TALKER].events().len() {
            switch(event, true)?;
        }
        check_eq!(number_of(EMITS)?, 4);
        check_eq!(number_of(EMITS)?, 4);
        Ok(())
    }

    /// What is none of its events is refused, and what is off is not recorded, whatever its flag says.
    fn events_are_not_forged(Alone) {
        talk(FORGES)
    }

    /// Exact instructions of an event of a task's with a record of 16 bytes, off and on.
    fn events_are_cheap(Alone) {
        let off = number_of(MEASURES)?;
        switch(PAIR, true)?;
        let not_recorded = number_of(MEASURES)?;
        trace::tracing_on();
        let on = number_of(MEASURES)?;
        note!("off {off}, on {on}, on while nothing is recorded {not_recorded}");
        check!(off <= 3, "an event that is off takes {off} instructions");
        check!(on <= 250, "an event takes {on} instructions");
        print(format_args!("bench task-event insn {on}\n"));
        print(format_args!("bench task-event-off insn {off}\n"));
        Ok(())
    }

    /// Twenty thousand events in no time: what is too much is dropped, and said; a while later events are recorded again.
    fn a_flood_of_events_is_dropped(Alone) {
        check_eq!(recorded(PAIR, EMITS_TOO_MANY)?, 10_001);
        Ok(())
    }

    /// The same of events with 512 bytes, each of which counts as 33.
    fn a_flood_of_long_events_is_dropped(Alone) {
        check_eq!(recorded(TEXT, EMITS_TOO_MUCH)?, 10_000 / 33 + 2);
        Ok(())
    }

    /// The same of events with eight words, each of which counts as 3.
    fn a_flood_of_wide_events_is_dropped(Alone) {
        check_eq!(recorded(WORDS, EMITS_TOO_MANY_WORDS)?, 10_000 / 3 + 1);
        Ok(())
    }

    /// A thousand lines in no time: what is too much is dropped at once.
    fn a_flood_of_frames_is_dropped(Alone) {
        let begun = Instant::now();
        talk(FLOODS)?;
        let took = (Instant::now() - begun).to_nanos();
        note!("{took:?}");
        check!(took < Nanos::from_millis(1), "a thousand lines took {took:?}");
        Ok(())
    }
}
