//! Places in the kernel that more than an event wants to hear of.
//!
//! Such a place has a static key of its own, which is on while anyone wants it: its event, or a tracer. What is behind it
//! is out of line and asks there who it is. So a tracer costs the hot paths no further NOP.

use core::sync::atomic::{AtomicU8, Ordering::Relaxed};

use takt_tracer::event::Event;

use super::events;
use crate::arch::jump_label::{self, Writable, keys};

keys! {
    /// Interrupts were disabled.
    pub(crate) IRQ_OFF;
    /// Interrupts are about to be enabled.
    pub(crate) IRQ_ON;
    /// Preemption was disabled.
    pub(crate) PREEMPT_OFF;
    /// Preemption is about to be enabled.
    pub(crate) PREEMPT_ON;
    /// An interrupt's handling begins.
    pub(crate) IRQ_ENTRY;
    /// A thread is about to be put into its run queue.
    pub(crate) WAKEUP;
    /// Another thread is about to run.
    pub(crate) SWITCH;
}

/// A bit of [`Place::users`]: the place's event.
const EVENT: u8 = 1;
/// Another: a tracer.
const TRACER: u8 = 2;

struct Place {
    key: &'static [u8; 2],
    event: fn() -> u32,
    users: AtomicU8,
}

impl Place {
    const fn new<E: Event>(key: &'static [u8; 2]) -> Self {
        Self {
            key,
            event: || E::id().number(),
            users: AtomicU8::new(0),
        }
    }

    /// # Safety
    /// That of [`jump_label::set`].
    #[inline(never)]
    unsafe fn set(&self, text: &mut Writable, user: u8, on: bool) {
        let before = self.users.load(Relaxed);
        let after = if on { before | user } else { before & !user };
        self.users.store(after, Relaxed);
        if (before == 0) != (after == 0) {
            // SAFETY: the caller's duty.
            unsafe { jump_label::set(text, core::ptr::from_ref(self.key) as u32, after != 0) };
        }
    }
}

static PLACES: [Place; 7] = [
    Place::new::<events::irq_disable::Event>(&IRQ_OFF),
    Place::new::<events::irq_enable::Event>(&IRQ_ON),
    Place::new::<events::preempt_disable::Event>(&PREEMPT_OFF),
    Place::new::<events::preempt_enable::Event>(&PREEMPT_ON),
    Place::new::<events::irq_handler_entry::Event>(&IRQ_ENTRY),
    Place::new::<events::sched_wakeup::Event>(&WAKEUP),
    Place::new::<events::sched_switch::Event>(&SWITCH),
];

/// An event was switched on, or is about to be switched off.
///
/// # Safety
/// That of [`jump_label::set`].
#[cold]
#[inline(never)]
pub(super) unsafe fn set_event(text: &mut Writable, id: u32, on: bool) {
    if let Some(place) = PLACES.iter().find(|place| (place.event)() == id) {
        // SAFETY: the caller's duty.
        unsafe { place.set(text, EVENT, on) };
    }
}

/// A tracer wants to hear of these places, or no longer.
///
/// # Safety
/// That of [`jump_label::set`].
#[cold]
#[inline(never)]
pub(super) unsafe fn set_tracer(text: &mut Writable, keys: &[&'static [u8; 2]], on: bool) {
    let is_wanted = |place: &&Place| keys.iter().any(|key| core::ptr::eq(*key, place.key));
    for place in PLACES.iter().filter(is_wanted) {
        // SAFETY: the caller's duty.
        unsafe { place.set(text, TRACER, on) };
    }
}
