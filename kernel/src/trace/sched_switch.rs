//! The tracer `sched_switch`: wake-ups and switches, which are the events of these names switched on together.

use takt_tracer::event::Event;

use super::events;
use super::tracer::{Events, Tracer};
use crate::error::Error;

static EVENTS: Events = Events::new(&[
    || events::sched_wakeup::Event::id().number(),
    || events::sched_switch::Event::id().number(),
]);

/// The tracer.
pub(super) struct SchedSwitch;

impl Tracer for SchedSwitch {
    fn name(&self) -> &'static str {
        "sched_switch"
    }

    fn start(&self) -> Result<(), Error> {
        EVENTS.start()
    }

    fn stop(&self) -> Result<(), Error> {
        EVENTS.stop()
    }
}
