//! [`Rule`]: what an event has, its filter and its triggers, as they lie in the table.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use super::{Action, MAX_TRIGGERS, UNLIMITED};

/// What lies in a range.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum RangeOf {
    /// A filter, or a trigger's condition.
    Program,
    /// A histogram's keys and values, or a text.
    Other,
}

/// A range of the pool.
#[repr(C)]
#[derive(Debug)]
pub(super) struct Range {
    pub(super) start: AtomicU32,
    pub(super) len: AtomicU32,
}

impl Range {
    pub(super) const fn new() -> Self {
        Self {
            start: AtomicU32::new(0),
            len: AtomicU32::new(0),
        }
    }

    pub(super) fn of<'p>(&self, pool: &'p [AtomicU32]) -> Option<&'p [AtomicU32]> {
        let (start, len) = (self.start.load(Relaxed), self.len.load(Relaxed));
        let range = start as usize..start as usize + len as usize;
        pool.get(range).filter(|words| !words.is_empty())
    }

    pub(super) fn set(&self, (start, len): (u32, u32)) {
        // The length last and first: a range that is being changed is empty.
        self.len.store(0, Relaxed);
        self.start.store(start, Relaxed);
        self.len.store(len, Relaxed);
    }
}

/// A trigger of an event.
#[repr(C)]
#[derive(Debug)]
pub(super) struct Trigger {
    /// [`Action`] as a number; 0 if there is none.
    pub(super) action: AtomicU32,
    /// Which histogram, or the event that it switches.
    pub(super) of: AtomicU32,
    /// How often it acts from here on.
    pub(super) left: AtomicU64,
    pub(super) condition: Range,
    /// A histogram's keys and values.
    pub(super) spec: Range,
    /// How it was written.
    pub(super) text: Range,
}

impl Trigger {
    pub(super) const fn new() -> Self {
        Self {
            action: AtomicU32::new(0),
            of: AtomicU32::new(0),
            left: AtomicU64::new(0),
            condition: Range::new(),
            spec: Range::new(),
            text: Range::new(),
        }
    }

    pub(super) fn action(&self) -> Option<Action> {
        Action::from_number(self.action.load(Relaxed))
    }

    /// The event that it switches.
    pub(super) fn other(&self) -> Option<u32> {
        let is_about_event = self.action().is_some_and(Action::is_about_event);
        is_about_event.then(|| self.of.load(Relaxed))
    }
}

/// Counts down how often something acts; whether it may.
pub(crate) fn spend(left: &AtomicU64) -> bool {
    let spent = left.fetch_update(Relaxed, Relaxed, |left| match left {
        UNLIMITED => Some(UNLIMITED),
        left => left.checked_sub(1),
    });
    spent.is_ok()
}

/// The rules of an event.
#[repr(C)]
#[derive(Debug)]
pub struct Rule {
    /// The event's id; 0 if nobody has this place.
    pub(super) event: AtomicU32,
    /// 1 if the event occurs for triggers only and is not recorded.
    pub(super) is_soft: AtomicU32,
    /// 1 if the event was switched on, whatever triggers have made of it since.
    pub(super) is_wanted: AtomicU32,
    pub(super) filter: Range,
    /// How the filter was written.
    pub(super) filter_text: Range,
    pub(super) triggers: [Trigger; MAX_TRIGGERS],
}

impl Rule {
    pub(super) const fn new() -> Self {
        Self {
            event: AtomicU32::new(0),
            is_soft: AtomicU32::new(0),
            is_wanted: AtomicU32::new(0),
            filter: Range::new(),
            filter_text: Range::new(),
            triggers: [const { Trigger::new() }; MAX_TRIGGERS],
        }
    }

    /// Whether the event occurs for triggers only.
    #[must_use]
    pub fn is_soft(&self) -> bool {
        self.is_soft.load(Relaxed) != 0
    }

    pub(super) fn set_soft(&self, is_soft: bool) {
        self.is_soft.store(u32::from(is_soft), Relaxed);
    }

    /// The event is switched on, or off: then it occurs for triggers only.
    pub fn want(&self, on: bool) {
        self.is_wanted.store(u32::from(on), Relaxed);
        self.set_soft(!on);
    }

    /// What [`want`](Self::want) has said last.
    #[must_use]
    pub fn is_wanted(&self) -> bool {
        self.is_wanted.load(Relaxed) != 0
    }

    /// Whether there is a trigger.
    #[must_use]
    #[inline(never)]
    pub fn has_triggers(&self) -> bool {
        self.triggers
            .iter()
            .any(|trigger| trigger.action().is_some())
    }

    pub(super) fn has_filter(&self) -> bool {
        self.filter.len.load(Relaxed) != 0
    }

    /// Every range that the rule may have.
    #[inline(never)]
    pub(super) fn each_range(&self, each: &mut dyn FnMut(&Range, RangeOf)) {
        for trigger in &self.triggers {
            each(&trigger.condition, RangeOf::Program);
            each(&trigger.spec, RangeOf::Other);
            each(&trigger.text, RangeOf::Other);
        }
        each(&self.filter, RangeOf::Program);
        each(&self.filter_text, RangeOf::Other);
    }
}
