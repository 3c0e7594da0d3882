//! The table as a host reads it from a RAM. Nothing in it is trusted to be possible.

use core::mem::offset_of;

use super::hist::{ENTRIES, Entry, Hist, MAX_KEYS, MAX_VALUES, READY};
use super::rule::{Text, Trigger};
use super::{Action, MAX_RULES, MAX_TEXT, MAX_TRIGGERS, Rule, Rules};

/// A text of the table.
struct TextView<'b>(&'b [u8]);

impl<'b> TextView<'b> {
    fn at(bytes: &'b [u8], at: usize) -> Self {
        let len = u64_at(bytes, at + offset_of!(Text, len)).min(MAX_TEXT as u64) as usize;
        let start = at + offset_of!(Text, bytes);
        Self(bytes.get(start..start + len).unwrap_or_default())
    }

    /// The text; empty if it is none.
    fn into_str(self) -> &'b str {
        core::str::from_utf8(self.0).unwrap_or("")
    }
}

/// A trigger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TriggerView<'b> {
    /// Its place among those of the event.
    pub place: usize,
    /// What it does.
    pub action: Action,
    /// Which histogram.
    pub hist: usize,
    /// How often it acts from here on; [`UNLIMITED`](super::UNLIMITED).
    pub left: u64,
    /// How it was written.
    pub text: &'b str,
}

/// The rules of an event.
#[derive(Clone, Copy, Debug)]
pub struct RuleView<'b> {
    bytes: &'b [u8],
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
        let bytes = self.bytes;
        (0..MAX_TRIGGERS).filter_map(move |place| {
            let at = offset_of!(Rule, triggers) + place * size_of::<Trigger>();
            let action = u32_at(bytes, at + offset_of!(Trigger, action));
            Some(TriggerView {
                place,
                action: Action::from_number(action)?,
                hist: u32_at(bytes, at + offset_of!(Trigger, hist)) as usize,
                left: u64_at(bytes, at + offset_of!(Trigger, left)),
                text: TextView::at(bytes, at + offset_of!(Trigger, text)).into_str(),
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
            let start = offset_of!(Rules, rules) + place * size_of::<Rule>();
            let bytes = self.0.get(start..start + size_of::<Rule>())?;
            let event = u32_at(bytes, offset_of!(Rule, event));
            (event != 0).then(|| RuleView {
                bytes,
                event,
                is_soft: u32_at(bytes, offset_of!(Rule, is_soft)) != 0,
                filter: match u32_at(bytes, offset_of!(Rule, filter) + 4) {
                    0 => "",
                    _ => TextView::at(bytes, offset_of!(Rule, filter_text)).into_str(),
                },
            })
        })
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
                keys: core::array::from_fn(|at| number(offset_of!(Entry, keys) + 8 * at)),
                hits: number(offset_of!(Entry, hits)),
                sums: core::array::from_fn(|at| number(offset_of!(Entry, sums) + 8 * at)),
            })
        })
    }
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    crate::wire::u32_at(bytes, at).unwrap_or(0)
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    crate::wire::u64_at(bytes, at).unwrap_or(0)
}
