//! Rules of events: filters and triggers, worked out by the target when an event occurs.
//!
//! A static table: of so many events each a filter and a few triggers, their programs in a pool of words, histograms beside
//! it. Everything is atomics, so that it can be read by whoever meets an event, NMIs included, and by a host that reads the
//! RAM; it is changed by one at a time, while nobody else runs ([`Rules::set_filter`] and the like say so).
//!
//! It decides only; what a trigger does is its owner's: [`Verdict`].

mod action;
mod hist;
mod rule;
mod threads;
mod view;

use core::mem::offset_of;
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

pub use action::Action;
pub use hist::{
    BUCKETS, ENTRIES, Entry, FROM_STACK, Hist, HistSpec, LOG2, MAX_FRAMES, MAX_KEYS, MAX_VALUES,
    STACKS,
};
pub use rule::Rule;
pub(crate) use rule::spend;
use rule::{Range, RangeOf, Trigger};
pub use threads::{ThreadList, Threads};
pub use view::{HistEntry, HistView, RuleView, RulesView, TriggerView};

use crate::filter::program::{Program, Raw, change_set};

/// Events that can have rules at a time.
pub const MAX_RULES: usize = 16;
/// Triggers of an event.
pub const MAX_TRIGGERS: usize = 4;
/// Histograms.
pub const MAX_HISTS: usize = 4;
/// Words of all programs and texts together.
pub const POOL: usize = 8192;
/// Bytes of the longest filter or trigger, as it is written.
pub const MAX_TEXT: usize = 2048;
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

/// What is to be done about an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// It is recorded.
    pub is_recorded: bool,
    /// The [`bit`](Action::bit)s of the triggers that act; not that of [`Action::Hist`], which has acted.
    pub actions: u32,
}

/// A trigger to be added.
#[derive(Clone, Copy, Debug)]
pub struct NewTrigger<'t> {
    /// What it does.
    pub action: Action,
    /// How often at most; [`UNLIMITED`].
    pub left: u64,
    /// The event that [`Action::EnableEvent`] and [`Action::DisableEvent`] are about; else 0.
    pub other: u32,
    /// The program that has to let the event through; empty if every event does.
    pub condition: &'t [u32],
    /// For [`Action::Hist`] what the histogram counts ([`HistSpec`]), else empty.
    pub spec: &'t [u32],
    /// How it was written, for whoever looks: bytes, filled up with zeros.
    pub text: &'t [u32],
}

/// A text as the table has it: its bytes, filled up with zeros.
pub fn words_of(text: &str) -> impl Iterator<Item = u32> {
    text.as_bytes().chunks(4).map(|bytes| {
        let mut word = [0; 4];
        for (byte, of) in word.iter_mut().zip(bytes) {
            *byte = *of;
        }
        u32::from_le_bytes(word)
    })
}

/// Who finds the functions that are under way, the innermost first.
pub trait Stack {
    /// Puts their addresses into `frames`, which is all 0 and stays so behind the last.
    fn callers(frames: &mut [u32; MAX_FRAMES]);
}

/// The table.
#[repr(C)]
#[derive(Debug)]
pub struct Rules {
    threads: Threads,
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
    /// Bytes of the rules themselves with their programs and texts, which come first.
    pub const RULES_SIZE: usize = offset_of!(Self, hists);
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
            threads: Threads::new(),
            rules: [const { Rule::new() }; MAX_RULES],
            pool: [const { AtomicU32::new(0) }; POOL],
            hists: [const { Hist::new() }; MAX_HISTS],
        }
    }

    /// Of which threads events are recorded.
    ///
    /// # Context
    /// Any, NMI included.
    #[must_use]
    pub const fn threads(&self) -> &Threads {
        &self.threads
    }

    /// Whether no event has rules, and every thread's events are recorded.
    ///
    /// # Context
    /// Any.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.threads.is_empty() && self.rules.iter().all(|rule| rule.event.load(Relaxed) == 0)
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

    /// Says what is to be done about an event, counts it in histograms, and switches other events. `idle` has the
    /// [`bit`](Action::bit)s of the actions that would change nothing now, as stopping what does not run: such a trigger does
    /// not act, and none of its times is spent.
    ///
    /// # Context
    /// Any, NMI included.
    #[must_use]
    #[inline(never)]
    pub fn judge<S: Stack>(&self, rule: &Rule, raw: &Raw<'_>, idle: u32) -> Verdict {
        let holds = |range: &Range| {
            let code = range.of(&self.pool);
            code.is_none_or(|code| Program::assume(code).run(raw))
        };
        let mut actions = 0;
        for trigger in &rule.triggers {
            let Some(action) = trigger.action() else {
                continue;
            };
            if idle & action.bit() != 0 || !holds(&trigger.condition) {
                continue;
            }
            match action {
                Action::EnableEvent => self.switch_other(trigger, true),
                Action::DisableEvent => self.switch_other(trigger, false),
                _ if !spend(&trigger.left) => {}
                Action::Hist => {
                    let hist = self.hists.get(trigger.of.load(Relaxed) as usize);
                    if let (Some(hist), Some(spec)) = (hist, trigger.spec.of(&self.pool)) {
                        hist.count::<S, _>(HistSpec::assume(spec), raw);
                    }
                }
                _ => actions |= action.bit(),
            }
        }
        Verdict {
            // Asked last: a trigger may have switched this very event.
            is_recorded: !rule.is_soft() && holds(&rule.filter),
            actions,
        }
    }

    /// Has another event recorded or not, which is none of the trigger's times if it is so already.
    #[inline(never)]
    fn switch_other(&self, trigger: &Trigger, on: bool) {
        if let Some(other) = self.find(trigger.of.load(Relaxed))
            && other.is_soft() == on
            && spend(&trigger.left)
        {
            other.set_soft(!on);
        }
    }

    /// Whether an event occurs whatever is wanted of it: it has triggers, or another one's trigger switches it.
    ///
    /// # Context
    /// Any.
    #[must_use]
    #[inline(never)]
    pub fn is_kept(&self, event: u32) -> bool {
        let mut triggers = self.rules.iter().flat_map(|rule| &rule.triggers);
        self.find(event).is_some_and(Rule::has_triggers)
            || triggers.any(|trigger| trigger.other() == Some(event))
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
        self.named_in_steps(tid, name, &mut change_set);
    }

    /// The same while rules may be changed: `change` does what [`change_set`] does, where nobody changes any, unless
    /// somebody has since this was begun. Whoever does so knows of the thread.
    ///
    /// # Context
    /// IRQ-safe.
    pub fn named_in_steps(
        &self,
        tid: u8,
        name: &str,
        change: &mut dyn FnMut(&AtomicU32, u32, bool),
    ) {
        self.each_program(&mut |program| program.named(tid, name, change));
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

    /// Gives an event this filter, or takes its filter away if the program is empty. `text` is how it was written: bytes,
    /// filled up with zeros.
    ///
    /// # Errors
    /// [`RuleError::Unsound`], [`RuleError::Full`].
    ///
    /// # Context
    /// While nobody else runs.
    #[inline(never)]
    pub fn set_filter(&self, event: u32, code: &[u32], text: &[u32]) -> Result<(), RuleError> {
        if code.is_empty() {
            if let Some(rule) = self.find(event) {
                rule.filter.set((0, 0));
                rule.filter_text.set((0, 0));
                self.tidy(rule);
            }
            return Ok(());
        }
        Program::new(code).ok_or(RuleError::Unsound)?;
        let rule = self.claim(event)?;
        // The old one goes only when there is room for the new one.
        let stored = self.store_all([code, text]);
        if let Ok([code, text]) = stored {
            rule.filter.set(code);
            rule.filter_text.set(text);
        }
        self.tidy(rule);
        stored.map(|_| ())
    }

    /// Adds a trigger to an event's. The event that it switches has rules from then on.
    ///
    /// # Errors
    /// [`RuleError::Unsound`], [`RuleError::Full`].
    ///
    /// # Context
    /// While nobody else runs.
    #[inline(never)]
    pub fn add_trigger(&self, event: u32, new: &NewTrigger<'_>) -> Result<(), RuleError> {
        let action = new.action;
        if !new.condition.is_empty() {
            Program::new(new.condition).ok_or(RuleError::Unsound)?;
        }
        if (action == Action::Hist) != HistSpec::new(new.spec).is_some()
            || action.is_about_event() != (new.other != 0)
        {
            return Err(RuleError::Unsound);
        }
        let of = match action {
            Action::Hist => self.free_hist().ok_or(RuleError::Full)? as u32,
            _ => new.other,
        };
        let rule = self.claim(event)?;
        let other = match action.is_about_event() {
            true => self.claim(of).map(Some),
            false => Ok(None),
        };
        let mut places = rule.triggers.iter();
        let place = places.find(|trigger| trigger.action().is_none());
        let added = other.and_then(|_| {
            let trigger = place.ok_or(RuleError::Full)?;
            let [condition, spec, text] = self.store_all([new.condition, new.spec, new.text])?;
            trigger.condition.set(condition);
            trigger.spec.set(spec);
            trigger.text.set(text);
            trigger.left.store(new.left, Relaxed);
            trigger.of.store(of, Relaxed);
            if action == Action::Hist {
                self.hists[of as usize].clear();
            }
            trigger.action.store(action as u32, Relaxed);
            Ok(())
        });
        self.tidy(rule);
        if let Ok(Some(other)) = other {
            self.tidy(other);
        }
        added
    }

    /// Which other event a trigger switches, by its place.
    ///
    /// # Errors
    /// [`RuleError::Missing`].
    ///
    /// # Context
    /// Any.
    pub fn switched_by(&self, event: u32, place: usize) -> Result<Option<u32>, RuleError> {
        Ok(self.trigger(event, place)?.1.other())
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
        let (rule, trigger) = self.trigger(event, place)?;
        let other = trigger.other();
        trigger.action.store(0, Relaxed);
        for range in [&trigger.condition, &trigger.spec, &trigger.text] {
            range.set((0, 0));
        }
        self.tidy(rule);
        if let Some(rule) = other.and_then(|other| self.find(other)) {
            self.tidy(rule);
        }
        Ok(())
    }

    /// Says how often a trigger acts from here on, by its place; with 0 a histogram pauses.
    ///
    /// # Errors
    /// [`RuleError::Missing`].
    ///
    /// # Context
    /// Threads, one at a time.
    #[inline(never)]
    pub fn set_left(&self, event: u32, place: usize, left: u64) -> Result<(), RuleError> {
        let (_, trigger) = self.trigger(event, place)?;
        trigger.left.store(left, Relaxed);
        Ok(())
    }

    /// A trigger, by its place.
    #[inline(never)]
    fn trigger(&self, event: u32, place: usize) -> Result<(&Rule, &Trigger), RuleError> {
        let rule = self.find(event).ok_or(RuleError::Missing)?;
        let trigger = rule.triggers.get(place);
        let trigger = trigger.filter(|trigger| trigger.action().is_some());
        Ok((rule, trigger.ok_or(RuleError::Missing)?))
    }

    /// The rules of an event, or a place for them. None of 0, which is no event: places that are free have it.
    #[inline(never)]
    fn claim(&self, event: u32) -> Result<&Rule, RuleError> {
        if event == 0 {
            return Err(RuleError::Unsound);
        }
        if let Some(rule) = self.find(event) {
            return Ok(rule);
        }
        let mut rules = self.rules.iter();
        let rule = rules
            .find(|rule| rule.event.load(Relaxed) == 0)
            .ok_or(RuleError::Full)?;
        rule.want(true);
        rule.event.store(event, Relaxed);
        Ok(rule)
    }

    /// Gives the place back if nothing is left.
    fn tidy(&self, rule: &Rule) {
        if !rule.has_filter() && !self.is_kept(rule.event.load(Relaxed)) {
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
                    used |= 1 << (trigger.of.load(Relaxed) % MAX_HISTS as u32);
                }
            }
        }
        (used != u32::MAX).then(|| used.trailing_ones() as usize)
    }

    /// Copies all of these into the pool, one behind the other.
    #[inline(never)]
    fn store_all<const N: usize>(&self, parts: [&[u32]; N]) -> Result<[(u32, u32); N], RuleError> {
        let len = parts.iter().map(|part| part.len()).sum::<usize>() as u32;
        let mut start = self.gap(len).ok_or(RuleError::Full)?;
        Ok(parts.map(|part| {
            let begin = start;
            for (word, cell) in part.iter().zip(self.pool.iter().skip(begin as usize)) {
                cell.store(*word, Relaxed);
            }
            start += part.len() as u32;
            (begin, part.len() as u32)
        }))
    }

    /// Where in the pool the first gap begins that has room for so many words.
    #[inline(never)]
    fn gap(&self, len: u32) -> Option<u32> {
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
                return (start + len <= POOL as u32).then_some(start);
            }
            start = next;
        }
    }
}
