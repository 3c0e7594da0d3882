//! The table as a host reads it from a RAM. Nothing in it is trusted to be possible.

use core::mem::offset_of;

use super::hist::{ENTRIES, Entry, Hist, MAX_FRAMES, MAX_KEYS, MAX_VALUES, READY, STACKS};
use super::rule::{Range, Trigger};
use super::threads::WORDS;
use super::{Action, MAX_RULES, MAX_TRIGGERS, POOL, Rule, Rules, ThreadList, Threads};

/// The text of which a [`Range`] lies at `at`; empty if it is none.
fn text_at(table: &[u8], at: usize) -> &str {
    let word = |offset: usize| u32_at(table, at + offset) as usize;
    let start = word(offset_of!(Range, start)).min(POOL);
    let len = word(offset_of!(Range, len)).min(POOL);
    let begin = offset_of!(Rules, pool) + 4 * start;
    let bytes = table.get(begin..begin + 4 * len).unwrap_or_default();
    let text = core::str::from_utf8(bytes).unwrap_or_default();
    text.trim_end_matches('\0')
}

/// A trigger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TriggerView<'b> {
    /// Its place among those of the event.
    pub place: usize,
    /// What it does.
    pub action: Action,
    /// Which histogram, or the event that it switches.
    pub of: u32,
    /// How often it acts from here on; [`UNLIMITED`](super::UNLIMITED).
    pub left: u64,
    /// How it was written.
    pub text: &'b str,
}

/// The rules of an event.
#[derive(Clone, Copy, Debug)]
pub struct RuleView<'b> {
    table: &'b [u8],
    /// Where in the table it lies.
    at: usize,
    /// The event's id.
    pub event: u32,
    /// It occurs for its triggers only.
    pub is_soft: bool,
    /// How the filter was written; empty if there is none.
    pub filter: &'b str,
}

impl<'b> RuleView<'b> {
    /// The triggers.
    pub fn triggers(&self) -> impl Iterator<Item = TriggerView<'b>> + use<'b> {
        let Self { table, at, .. } = *self;
        (0..MAX_TRIGGERS).filter_map(move |place| {
            let at = at + offset_of!(Rule, triggers) + place * size_of::<Trigger>();
            let action = u32_at(table, at + offset_of!(Trigger, action));
            Some(TriggerView {
                place,
                action: Action::from_number(action)?,
                of: u32_at(table, at + offset_of!(Trigger, of)),
                left: u64_at(table, at + offset_of!(Trigger, left)),
                text: text_at(table, at + offset_of!(Trigger, text)),
            })
        })
    }
}

/// All rules.
#[derive(Clone, Copy, Debug)]
pub struct RulesView<'b>(&'b [u8]);

impl<'b> RulesView<'b> {
    /// Those in the first [`Rules::RULES_SIZE`] bytes of a table; none if there are fewer.
    #[must_use]
    pub const fn new(bytes: &'b [u8]) -> Self {
        Self(bytes)
    }

    /// The events that have rules.
    pub fn rules(self) -> impl Iterator<Item = RuleView<'b>> {
        (0..MAX_RULES).filter_map(move |place| {
            let at = offset_of!(Rules, rules) + place * size_of::<Rule>();
            let event = u32_at(self.0, at + offset_of!(Rule, event));
            (event != 0).then(|| RuleView {
                table: self.0,
                at,
                event,
                is_soft: u32_at(self.0, at + offset_of!(Rule, is_soft)) != 0,
                filter: text_at(self.0, at + offset_of!(Rule, filter_text)),
            })
        })
    }

    /// The threads of a list.
    pub fn threads(self, list: ThreadList) -> impl Iterator<Item = u8> {
        let at =
            offset_of!(Rules, threads) + offset_of!(Threads, lists) + list as usize * 4 * WORDS;
        let has =
            move |tid: &u8| u32_at(self.0, at + usize::from(tid / 32) * 4) >> (tid % 32) & 1 != 0;
        (0..=u8::MAX).filter(has)
    }

    /// The rules of an event.
    #[must_use]
    pub fn find(self, event: u32) -> Option<RuleView<'b>> {
        self.rules().find(|rule| rule.event == event)
    }
}

/// A place of a histogram that is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HistEntry {
    /// Which place it is.
    pub place: usize,
    /// Its keys; those that the histogram does not have are 0.
    pub keys: [u64; MAX_KEYS],
    /// Events.
    pub hits: u64,
    /// Sums.
    pub sums: [u64; MAX_VALUES],
}

/// A histogram.
#[derive(Clone, Copy, Debug)]
pub struct HistView<'b> {
    bytes: &'b [u8],
    /// Events that were counted.
    pub hits: u64,
    /// Events that found no place.
    pub drops: u64,
}

impl<'b> HistView<'b> {
    /// The one in these [`Rules::HIST_SIZE`] bytes.
    #[must_use]
    pub fn new(bytes: &'b [u8]) -> Self {
        Self {
            bytes,
            hits: u64_at(bytes, offset_of!(Hist, hits)),
            drops: u64_at(bytes, offset_of!(Hist, drops)),
        }
    }

    /// What was counted; a key may stand in two places.
    pub fn entries(&self) -> impl Iterator<Item = HistEntry> + use<'b> {
        let bytes = self.bytes;
        (0..ENTRIES).filter_map(move |place| {
            let start = offset_of!(Hist, entries) + place * size_of::<Entry>();
            let bytes = bytes.get(start..start + size_of::<Entry>())?;
            if u32_at(bytes, offset_of!(Entry, state)) != READY {
                return None;
            }
            let number = |at: usize| u64_at(bytes, at);
            Some(HistEntry {
                place,
                keys: core::array::from_fn(|at| number(offset_of!(Entry, keys) + 8 * at)),
                hits: number(offset_of!(Entry, hits)),
                sums: core::array::from_fn(|at| number(offset_of!(Entry, sums) + 8 * at)),
            })
        })
    }

    /// The functions of a place that has a stack among its keys, the innermost first.
    pub fn callers(&self, place: usize) -> impl Iterator<Item = u32> + use<'b> {
        let bytes = self.bytes;
        let begin = offset_of!(Hist, entries) + (STACKS + place % STACKS) * size_of::<Entry>();
        let callers = (0..MAX_FRAMES).map(move |at| {
            let [pair, half] = [at / 2, at % 2];
            u32_at(bytes, begin + Entry::SPARE[pair] + 4 * half)
        });
        callers.take_while(|caller| *caller != 0)
    }
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    crate::wire::u32_at(bytes, at).unwrap_or(0)
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    crate::wire::u64_at(bytes, at).unwrap_or(0)
}
