//! The tracer `sched_switch`: wake-ups and switches, which are the events of these names switched on together.

use core::sync::atomic::{AtomicU8, Ordering::Relaxed};

use takt_tracer::event::Event;

use super::tracer::Tracer;
use super::{control, events};
use crate::error::Error;

/// The tracer; the bits say which of its events it has switched on.
pub(super) struct SchedSwitch(AtomicU8);

pub(super) static SCHED_SWITCH: SchedSwitch = SchedSwitch(AtomicU8::new(0));

fn ids() -> [u32; 2] {
    [
        events::sched_wakeup::Event::id().number(),
        events::sched_switch::Event::id().number(),
    ]
}

impl Tracer for SchedSwitch {
    fn name(&self) -> &'static str {
        "sched_switch"
    }

    fn start(&self) -> Result<(), Error> {
        let mut ours = 0;
        for (bit, id) in ids().into_iter().enumerate() {
            if !control::is_enabled(id) {
                control::enable(id, true)?;
                ours |= 1 << bit;
            }
        }
        self.0.store(ours, Relaxed);
        Ok(())
    }

    fn stop(&self) -> Result<(), Error> {
        for (bit, id) in ids().into_iter().enumerate() {
            if self.0.load(Relaxed) & 1 << bit != 0 {
                control::enable(id, false)?;
            }
        }
        self.0.store(0, Relaxed);
        Ok(())
    }
}
