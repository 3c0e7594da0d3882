//! Listening to records, while there is anybody to tell what is heard.

use core::sync::atomic::Ordering::Relaxed;

use super::noise::{COUNTS, CPUS, IS_CHOSEN, IS_ON, NMI, SOFT, TOLD, heard};
use crate::arch::jump_label::{self, Writable, number};
use crate::clock::Instant;
use crate::error::Error;
use crate::trace::control;
use crate::trace::enabled::is_enabled;
use crate::trace::rules::{events as rules, table};

/// A tracer begins whose events these are. `counts`: it asks for [`Interference`].
pub(super) fn begin(counts: bool) -> Result<(), Error> {
    COUNTS.store(counts, Relaxed);
    IS_CHOSEN.store(true, Relaxed);
    let begun = update();
    IS_CHOSEN.store(begun.is_ok(), Relaxed);
    begun
}

/// It has ended.
pub(super) fn end() -> Result<(), Error> {
    IS_CHOSEN.store(false, Relaxed);
    update()
}

/// Listens if there is anybody to tell. Called when an event was switched, too.
///
/// # Context
/// Threads that may block, one at a time.
pub(in crate::trace) fn update() -> Result<(), Error> {
    let is_told = || TOLD.iter().any(|key| is_enabled(number(key)));
    let is_wanted = IS_CHOSEN.load(Relaxed) && (COUNTS.load(Relaxed) || is_told());
    if is_wanted == IS_ON.load(Relaxed) {
        return Ok(());
    }
    rules::change(&mut |text| {
        listen(text, is_wanted);
        Ok(())
    })
}

fn listen(text: &mut Writable, on: bool) {
    for cpu in &CPUS {
        for begin in [&cpu.irq, &cpu.softirq, &cpu.thread] {
            begin.at.store(Instant::ZERO);
        }
    }
    if on {
        for (place, id) in heard().into_iter().enumerate() {
            if !is_enabled(id) {
                SOFT.fetch_or(1 << place, Relaxed);
                control::switch(text, id, true);
            }
        }
        IS_ON.store(true, Relaxed);
    } else {
        IS_ON.store(false, Relaxed);
        let soft = SOFT.swap(0, Relaxed);
        for (place, id) in heard().into_iter().enumerate() {
            if soft & 1 << place != 0 && !table::is_kept(id) {
                control::switch(text, id, false);
            }
        }
    }
    jump_label::set(text, (&raw const NMI) as u32, on);
}
