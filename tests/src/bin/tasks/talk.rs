//! What tasks log and trace.

use takt_kernel::time::{Instant, Nanos};
use takt_tests::{check, target_test};

use crate::start;

/// A program of its own, and what it is told.
const TALKER: usize = 8;
const SAYS: u64 = 0;
const BABBLES: u64 = 1;
const FLOODS: u64 = 2;

/// Starts it; each is told what it is by a whole number.
fn talk(what: u64) -> takt_tests::harness::Outcome {
    start((TALKER, 0), what as u32)?.succeeds()
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

    /// A thousand lines in no time: what is too much is dropped at once.
    fn a_flood_of_frames_is_dropped(Alone) {
        let begun = Instant::now();
        talk(FLOODS)?;
        let took = (Instant::now() - begun).to_nanos();
        check!(took < Nanos::from_millis(2), "a thousand lines took {took:?}");
        Ok(())
    }
}
