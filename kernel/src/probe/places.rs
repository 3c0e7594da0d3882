//! Places in the kernel that more than an event wants to hear of.
//!
//! Such a place ([`place`](crate::arch::place)) has a static key of its own, which is on while anyone wants it: its event, or
//! a tracer. The hook that is called then asks who it is. So a tracer costs the hot paths no further NOP.

use core::sync::atomic::{AtomicU8, Ordering::Relaxed};

use super::events;
use crate::arch::jump_label::{self, Key, Writable, keys, number};
use crate::arch::proof;
use crate::compact::rolled;

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
    key: Key,
    event: Key,
    users: AtomicU8,
}

impl Place {
    const fn new(key: Key, event: Key) -> Self {
        Self {
            key,
            event,
            users: AtomicU8::new(0),
        }
    }

    #[inline(never)]
    fn set(&self, text: &mut Writable, user: u8, on: bool) {
        let before = self.users.load(Relaxed);
        if (before & user != 0) == on {
            return;
        }
        let after = before ^ user;
        self.users.store(after, Relaxed);
        // The first one, or the last.
        if before == 0 || after == 0 {
            jump_label::set(text, number(self.key), on);
        }
    }
}

static PLACES: [Place; 7] = [
    Place::new(&IRQ_OFF, &events::irq_disable::ID),
    Place::new(&IRQ_ON, &events::irq_enable::ID),
    Place::new(&PREEMPT_OFF, &events::preempt_disable::ID),
    Place::new(&PREEMPT_ON, &events::preempt_enable::ID),
    Place::new(&IRQ_ENTRY, &events::irq_handler_entry::ID),
    Place::new(&WAKEUP, &events::sched_wakeup::ID),
    Place::new(&SWITCH, &events::sched_switch::ID),
];

/// Places that a tracer wants to hear of, by their bits.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Places(pub(crate) u8);

impl Places {
    /// Where interrupts are disabled and enabled, and where an interrupt's handling begins.
    pub(crate) const IRQS: Self = Self(1 << 0 | 1 << 1 | ENTRY);
    /// Where preemption is disabled and enabled.
    pub(crate) const PREEMPTION: Self = Self(1 << 2 | 1 << 3);
    /// Both.
    pub(crate) const ALL: Self = Self(Self::IRQS.0 | Self::PREEMPTION.0);
    /// Where threads are woken and switched to.
    pub(crate) const THREADS: Self = Self(1 << 5 | 1 << 6);

    /// Whether interrupts' beginnings are among them.
    pub(crate) const fn have_interrupts(self) -> bool {
        self.0 & ENTRY != 0
    }
}

/// The bit of the place where an interrupt's handling begins.
const ENTRY: u8 = 1 << 4;

/// An event was switched on, or is about to be switched off.
#[inline(always)]
pub(crate) fn set_event(text: &mut Writable, id: u32, on: bool) {
    if let Some(place) = rolled(&PLACES).find(|place| number(place.event) == id) {
        place.set(text, EVENT, on);
    }
}

/// A tracer wants to hear of these places, or no longer.
#[cold]
#[inline(never)]
pub(crate) fn set_tracer(text: &mut Writable, places: Places, on: bool) {
    let mut left = places.0;
    for place in rolled(&PLACES) {
        proof::bounded!("places of events that a tracer may hear of");
        if left & 1 != 0 {
            place.set(text, TRACER, on);
        }
        left >>= 1;
    }
}
