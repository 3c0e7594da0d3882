//! Rules of events: filters and triggers, worked out by the target when an event occurs.
//!
//! A static table: of so many events each a filter and a few triggers, their programs in a pool of words, histograms beside
//! it. Everything is atomics, so that it can be read by whoever meets an event, NMIs included, and by a host that reads the
//! RAM; it is changed by one at a time, while nobody else runs ([`Rules::set_filter`] and the like say so).
//!
//! It decides only; what a trigger does is its owner's: [`Verdict`].

mod hist;
mod rule;
mod view;

use core::mem::offset_of;
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

pub use hist::{ENTRIES, Entry, Hist, HistSpec, LOG2, MAX_KEYS, MAX_VALUES};
pub use rule::Rule;
use rule::{Range, RangeOf};
pub use view::{HistEntry, HistView, RuleView, RulesView, TriggerView};

use crate::filter::program::{Program, Raw};

/// Events that can have rules at a time.
pub const MAX_RULES: usize = 16;
/// Triggers of an event.
pub const MAX_TRIGGERS: usize = 4;
/// Histograms.
pub const MAX_HISTS: usize = 4;
/// Words of all programs together.
pub const POOL: usize = 4096;
/// Bytes of a filter's or trigger's text.
pub const MAX_TEXT: usize = 248;
/// How often a trigger acts that always does.
pub const UNLIMITED: u64 = u64::MAX;

/// Why a rule was not set. Nothing has changed then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleError {
    /// The program or the histogram's description is none.
    Unsound,
    /// There is no room for it.
    Full,
    /// There is none of that number.
    Missing,
}

/// What a trigger does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Action {
    /// Stops recording, after the event.
    TraceOff = 1,
    /// Starts recording, before the event.
    TraceOn = 2,
    /// Takes a snapshot, after the event.
    Snapshot = 3,
    /// Records the stack, after the event.
    Stacktrace = 4,
    /// Counts in a histogram.
    Hist = 5,
}

impl Action {
    /// All of them, with the names that ftrace has for them.
    pub const ALL: [(Self, &'static str); 5] = [
        (Self::TraceOff, "traceoff"),
        (Self::TraceOn, "traceon"),
        (Self::Snapshot, "snapshot"),
        (Self::Stacktrace, "stacktrace"),
        (Self::Hist, "hist"),
    ];

    /// The action with this number.
    #[must_use]
    pub fn from_number(number: u32) -> Option<Self> {
        Some(match number {
            1 => Self::TraceOff,
            2 => Self::TraceOn,
            3 => Self::Snapshot,
            4 => Self::Stacktrace,
            5 => Self::Hist,
            _ => return None,
        })
    }

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        let mut all = Self::ALL.into_iter();
        all.find(|(action, _)| *action == self)
            .map_or("", |(_, name)| name)
    }

    /// The action of this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        let mut all = Self::ALL.into_iter();
        all.find(|(_, of)| *of == name).map(|(action, _)| action)
    }

    /// The action's bit in [`Verdict::actions`].
    #[must_use]
    pub const fn bit(self) -> u32 {
        1 << self as u32
    }
}

/// What is to be done about an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// It is recorded.
    pub is_recorded: bool,
    /// The [`bit`](Action::bit)s of the triggers that act; not that of [`Action::Hist`], which has acted.
    pub actions: u32,
}

/// The table.
#[repr(C)]
#[derive(Debug)]
pub struct Rules {
    rules: [Rule; MAX_RULES],
    pool: [AtomicU32; POOL],
    hists: [Hist; MAX_HISTS],
}

impl Default for Rules {
    fn default() -> Self {
        Self::new()
    }
}

impl Rules {
    /// Name of the symbol under which an image holds it.
    pub const SYMBOL: &'static str = "TAKT_RULES";
    /// Bytes of the rules themselves, which come first.
    pub const RULES_SIZE: usize = offset_of!(Self, pool);
    /// Bytes of a histogram.
    pub const HIST_SIZE: usize = size_of::<Hist>();

    /// Where a histogram begins, in bytes.
    #[must_use]
    pub const fn hist_offset(hist: usize) -> usize {
        offset_of!(Self, hists) + hist * Self::HIST_SIZE
    }

    /// An empty table: zeros.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            rules: [const { Rule::new() }; MAX_RULES],
            pool: [const { AtomicU32::new(0) }; POOL],
            hists: [const { Hist::new() }; MAX_HISTS],
        }
    }

    /// Whether any event has rules.
    ///
    /// # Context
    /// Any.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rules.iter().all(|rule| rule.event.load(Relaxed) == 0)
    }

    /// The rules of an event.
    ///
    /// # Context
    /// Any, NMI included.
    #[must_use]
    #[inline(never)]
    pub fn find(&self, event: u32) -> Option<&Rule> {
        let mut rules = self.rules.iter();
        rules.find(|rule| rule.event.load(Relaxed) == event && event != 0)
    }

    /// Says what is to be done about an event, and counts it in histograms. `idle` has the [`bit`](Action::bit)s of the
    /// actions that would change nothing now, as stopping what does not run: such a trigger does not act, and none of its
    /// times is spent.
    ///
    /// # Context
    /// Any, NMI included.
    #[must_use]
    #[inline(never)]
    pub fn judge(&self, rule: &Rule, raw: &Raw<'_>, idle: u32) -> Verdict {
        let holds = |range: &Range| {
            let code = range.of(&self.pool);
            code.is_none_or(|code| Program::assume(code).run(raw))
        };
        let mut verdict = Verdict {
            is_recorded: !rule.is_soft() && holds(&rule.filter),
            actions: 0,
        };
        for trigger in &rule.triggers {
            let Some(action) = trigger.action() else {
                continue;
            };
            if idle & action.bit() != 0 || !holds(&trigger.condition) || !trigger.spend() {
                continue;
            }
            if action == Action::Hist {
                let hist = self.hists.get(trigger.hist.load(Relaxed) as usize);
                if let (Some(hist), Some(spec)) = (hist, trigger.spec.of(&self.pool)) {
                    hist.count(HistSpec::assume(spec), raw);
                }
            } else {
                verdict.actions |= action.bit();
            }
        }
        verdict
    }

    /// Whether a filter or a trigger's condition is about threads' names.
    ///
    /// # Context
    /// Any.
    #[must_use]
    pub fn has_names(&self) -> bool {
        let mut has_names = false;
        self.each_program(&mut |program| has_names |= program.has_names());
        has_names
    }

    /// A thread has this name from now on: filters and conditions that are about names know it.
    ///
    /// # Context
    /// IRQ-safe; not while a rule is changed.
    pub fn named(&self, tid: u8, name: &str) {
        self.each_program(&mut |program| program.named(tid, name));
    }

    /// Every filter and every trigger's condition.
    #[inline(never)]
    fn each_program(&self, each: &mut dyn FnMut(Program<'_, AtomicU32>)) {
        for rule in &self.rules {
            rule.each_range(&mut |range, what| {
                if let (RangeOf::Program, Some(code)) = (what, range.of(&self.pool)) {
                    each(Program::assume(code));
                }
            });
        }
    }

    /// Gives an event this filter, or takes its filter away if the program is empty. `text` is how it was written; what is
    /// longer than [`MAX_TEXT`] is cut off.
    ///
    /// # Errors
    /// [`RuleError::Unsound`], [`RuleError::Full`].
    ///
    /// # Context
    /// While nobody else runs.
    #[inline(never)]
    pub fn set_filter(&self, event: u32, code: &[u32], text: &str) -> Result<(), RuleError> {
        if code.is_empty() {
            if let Some(rule) = self.find(event) {
                rule.filter.set((0, 0));
                rule.filter_text.set("");
                Self::tidy(rule);
            }
            return Ok(());
        }
        Program::new(code).ok_or(RuleError::Unsound)?;
        let rule = self.claim(event)?;
        // The old one goes only when there is room for the new one.
        let stored = self.store(code);
        if let Ok(range) = stored {
            rule.filter.set(range);
            rule.filter_text.set(text);
        }
        Self::tidy(rule);
        stored.map(|_| ())
    }

    /// Adds a trigger to an event's. `condition` is a program or empty, `spec` a histogram's description or empty.
    ///
    /// # Errors
    /// [`RuleError::Unsound`], [`RuleError::Full`].
    ///
    /// # Context
    /// While nobody else runs.
    #[inline(never)]
    pub fn add_trigger(
        &self,
        event: u32,
        action: Action,
        left: u64,
        condition: &[u32],
        spec: &[u32],
        text: &str,
    ) -> Result<(), RuleError> {
        if !condition.is_empty() {
            Program::new(condition).ok_or(RuleError::Unsound)?;
        }
        if (action == Action::Hist) != HistSpec::new(spec).is_some() {
            return Err(RuleError::Unsound);
        }
        let hist = match action {
            Action::Hist => self.free_hist().ok_or(RuleError::Full)?,
            _ => 0,
        };
        let rule = self.claim(event)?;
        let mut places = rule.triggers.iter();
        let added = places
            .find(|trigger| trigger.action().is_none())
            .ok_or(RuleError::Full)
            .and_then(|trigger| {
                trigger.condition.set(self.store(condition)?);
                let stored = self
                    .store(spec)
                    .inspect_err(|_| trigger.condition.set((0, 0)));
                trigger.spec.set(stored?);
                trigger.left.store(left, Relaxed);
                trigger.hist.store(hist as u32, Relaxed);
                trigger.text.set(text);
                if action == Action::Hist {
                    self.hists[hist].clear();
                }
                trigger.action.store(action as u32, Relaxed);
                Ok(())
            });
        Self::tidy(rule);
        added
    }

    /// Takes a trigger away, by its place.
    ///
    /// # Errors
    /// [`RuleError::Missing`].
    ///
    /// # Context
    /// While nobody else runs.
    #[inline(never)]
    pub fn remove_trigger(&self, event: u32, place: usize) -> Result<(), RuleError> {
        let rule = self.find(event).ok_or(RuleError::Missing)?;
        let trigger = rule
            .triggers
            .get(place)
            .filter(|trigger| trigger.action().is_some())
            .ok_or(RuleError::Missing)?;
        trigger.action.store(0, Relaxed);
        trigger.condition.set((0, 0));
        trigger.spec.set((0, 0));
        Self::tidy(rule);
        Ok(())
    }

    /// The rules of an event, or a place for them.
    #[inline(never)]
    fn claim(&self, event: u32) -> Result<&Rule, RuleError> {
        if let Some(rule) = self.find(event) {
            return Ok(rule);
        }
        let mut rules = self.rules.iter();
        let rule = rules
            .find(|rule| rule.event.load(Relaxed) == 0)
            .ok_or(RuleError::Full)?;
        rule.is_soft.store(0, Relaxed);
        rule.event.store(event, Relaxed);
        Ok(rule)
    }

    /// Gives the place back if nothing is left.
    fn tidy(rule: &Rule) {
        if !rule.has_filter() && !rule.has_triggers() {
            rule.event.store(0, Relaxed);
        }
    }

    /// A histogram that no trigger counts in.
    fn free_hist(&self) -> Option<usize> {
        // A bit for each that there is not, or that is used.
        let mut used = u32::MAX << MAX_HISTS;
        for rule in &self.rules {
            for trigger in &rule.triggers {
                if trigger.action() == Some(Action::Hist) {
                    used |= 1 << (trigger.hist.load(Relaxed) % MAX_HISTS as u32);
                }
            }
        }
        (used != u32::MAX).then(|| used.trailing_ones() as usize)
    }

    /// Copies words into the pool, in the first gap that has room for them.
    #[inline(never)]
    fn store(&self, words: &[u32]) -> Result<(u32, u32), RuleError> {
        if words.is_empty() {
            return Ok((0, 0));
        }
        let len = words.len() as u32;
        let mut start = 0;
        loop {
            // Behind what lies where it was to be.
            let mut next = start;
            for rule in &self.rules {
                rule.each_range(&mut |range, _| {
                    let (other, of) = (range.start.load(Relaxed), range.len.load(Relaxed));
                    if of != 0 && other < start + len && start < other + of {
                        next = next.max(other + of);
                    }
                });
            }
            if next == start {
                break;
            }
            start = next;
        }
        if start + len > POOL as u32 {
            return Err(RuleError::Full);
        }
        for (word, cell) in words.iter().zip(&self.pool[start as usize..]) {
            cell.store(*word, Relaxed);
        }
        Ok((start, len))
    }
}
