//! `events/SYSTEM/EVENT/hist`: what histograms have counted, as ftrace shows it.

use std::cmp::Ordering;
use std::collections::{BTreeMap, HashMap};
use std::fmt::Write;

use rustix::io::Errno;
use takt_decode::Names;
use takt_decode::filter::trigger::{BoundTrigger, HITCOUNT, Hist, Key, Quantity, Trigger};
use takt_tracer::rules::{Action, HistEntry, HistView, MAX_KEYS, MAX_VALUES, RulesView, UNLIMITED};

use crate::session::Session;
use crate::tree::Of;
use crate::{Result, render};

/// How often a histogram is read at most.
const READS: usize = 100;

/// A histogram and what is needed to show it.
struct Shown<'s> {
    trigger: &'s Trigger,
    hist: &'s Hist,
    bound: &'s BoundTrigger,
    names: &'s Names,
    /// By the numbers that stand for them among the keys.
    stacks: HashMap<u64, Vec<u32>>,
}

/// A line: what is counted by, how often, and what is added up.
struct Row {
    keys: [u64; MAX_KEYS],
    hits: u64,
    sums: [u64; MAX_VALUES],
}

pub(super) fn show(session: &mut Session, of: &Of) -> Result<Vec<u8>> {
    let Of::Event(event) = of else {
        return Err(Errno::INVAL);
    };
    let names = render::names(session, &session.view()?);
    let def = session.table.get(*event).ok_or(Errno::NOENT)?;
    let rules = session.guest.rules()?;
    let rule = RulesView::new(&rules).find(*event);
    let mut out = String::new();
    for trigger in rule.iter().flat_map(|rule| rule.triggers()) {
        if trigger.action != Action::Hist {
            continue;
        }
        let Ok(read) = Trigger::parse(trigger.text) else {
            continue;
        };
        let Ok(bound) = read.bind(def, &session.table, &names) else {
            continue;
        };
        let bytes = counted(session, trigger.of as usize)?;
        let view = HistView::new(&bytes);
        if let Some(hist) = &read.hist {
            let shown = Shown {
                trigger: &read,
                hist,
                bound: &bound,
                names: &names,
                stacks: stacks(&bound, &view),
            };
            shown.write(&mut out, &view, trigger.left);
        }
    }
    Ok(out.into())
}

/// A histogram whose total is the sum of its lines, if the guest does not count too fast for that: it goes on counting while
/// it is read.
fn counted(session: &Session, hist: usize) -> Result<Vec<u8>> {
    let mut bytes = session.guest.hist(hist)?;
    for _ in 1..READS {
        let view = HistView::new(&bytes);
        let sum = (view.entries()).fold(0, |sum: u64, entry| sum.wrapping_add(entry.hits));
        if sum == view.hits {
            break;
        }
        bytes = session.guest.hist(hist)?;
    }
    Ok(bytes)
}

/// The stacks among the keys.
fn stacks(bound: &BoundTrigger, view: &HistView<'_>) -> HashMap<u64, Vec<u32>> {
    let mut stacks = HashMap::new();
    let is_stack = |quantity: &Quantity| *quantity == Quantity::Stack;
    if let Some(at) = bound.keys.iter().position(is_stack) {
        for entry in view.entries() {
            stacks.insert(entry.keys[at], view.callers(entry.place).collect());
        }
    }
    stacks
}

impl Shown<'_> {
    fn write(&self, out: &mut String, view: &HistView<'_>, left: u64) {
        let mut rows = rows(view.entries(), |keys| self.keys(keys));
        rows.sort_by(|one, other| self.order(one, other));
        // Writing to a String does not fail.
        let _ = write!(
            out,
            "# event histogram\n#\n# trigger info: {}\n#\n\n",
            self.trigger.text((left != UNLIMITED).then_some(left))
        );
        let is_last_stack = self.bound.keys.last() == Some(&Quantity::Stack);
        for row in &rows {
            let keys = self.keys(&row.keys);
            // A stack ends its line.
            let space = if is_last_stack { "" } else { " " };
            let _ = write!(out, "{{ {keys}{space}}} {HITCOUNT}: {:10}", row.hits);
            let values = self.hist.values.iter().zip(&self.bound.values);
            for ((value, quantity), sum) in values.zip(row.sums) {
                let sum = number(quantity, sum, self.names);
                let _ = write!(out, "  {}: {sum:>10}", value.name);
            }
            out.push('\n');
        }
        let _ = write!(
            out,
            "\nTotals:\n    Hits: {}\n    Entries: {}\n    Dropped: {}\n",
            view.hits,
            rows.len(),
            view.drops
        );
    }

    /// What is counted by, as it is shown.
    fn keys(&self, keys: &[u64; MAX_KEYS]) -> String {
        let keys: Vec<_> = (self.hist.keys.iter().zip(&self.bound.keys).zip(keys))
            .map(|((key, quantity), number)| {
                format!("{}:{}", key.name, self.key(key, quantity, *number))
            })
            .collect();
        keys.join(", ")
    }

    /// A key as its modifier says, with what separates it from its name.
    fn key(&self, key: &Key, quantity: &Quantity, raw: u64) -> String {
        let names = self.names;
        if *quantity == Quantity::Stack {
            let callers = self.stacks.get(&raw).into_iter().flatten();
            let functions = callers.flat_map(|caller| {
                let caller = u64::from(*caller);
                (names.inlined(caller).into_iter()).chain([names.symbol(caller)])
            });
            let lines = functions.map(|function| format!("{:9}{function}\n", ""));
            return format!("\n{}", lines.collect::<String>());
        }
        if let Some(size) = key.bucket_size() {
            let (first, next) = match quantity {
                // The target's buckets are of cycles.
                Quantity::Cycles => {
                    let size = names.clock.cycles_of_bucket(size);
                    let begin = |bucket: u64| names.clock.ns(bucket.saturating_mul(size));
                    (begin(raw), begin(raw.saturating_add(1)))
                }
                _ => {
                    let first = raw.saturating_mul(size.into());
                    (first, first.saturating_add(size.into()))
                }
            };
            return format!(" ~ {first}-{}", next.saturating_sub(1));
        }
        let value = number(quantity, raw, names);
        match (&*key.modifier, quantity) {
            ("log2", _) => format!(" ~ 2^{raw:<2}"),
            ("execname", Quantity::Pid | Quantity::Comm) => {
                format!(" {:<16}[{value:10}]", names.threads.comm(raw as u8))
            }
            (_, Quantity::Comm) => format!(" {:<50}", names.threads.comm(raw as u8)),
            (_, Quantity::IrqName) => format!(" {:<50}", names.irqs.shown(raw as u8)),
            ("hex", _) => format!(" {:x}", value as u64),
            ("sym" | "sym-offset", _) => format!(" [{raw:x}] {:<45}", names.symbol(raw)),
            _ => format!(" {value:10}"),
        }
    }

    /// By what was asked for, else by the hits; the keys decide last.
    fn order(&self, one: &Row, other: &Row) -> Ordering {
        let Self {
            hist, bound, names, ..
        } = self;
        let by_hits = (HITCOUNT.to_owned(), false);
        let sort = match &*hist.sort {
            [] => std::slice::from_ref(&by_hits),
            sort => sort,
        };
        for (name, is_descending) in sort {
            let place = |fields: &[Key]| fields.iter().position(|field| field.name == *name);
            let order = if let Some(at) = place(&hist.keys) {
                let of = |row: &Row| number(&bound.keys[at], row.keys[at], names);
                let text = |row: &Row| self.key(&hist.keys[at], &bound.keys[at], row.keys[at]);
                match bound.keys[at] {
                    Quantity::Comm | Quantity::IrqName | Quantity::Stack => {
                        text(one).cmp(&text(other))
                    }
                    _ => of(one).cmp(&of(other)),
                }
            } else if let Some(at) = place(&hist.values) {
                let of = |row: &Row| number(&bound.values[at], row.sums[at], names);
                of(one).cmp(&of(other))
            } else {
                one.hits.cmp(&other.hits)
            };
            let order = if *is_descending {
                order.reverse()
            } else {
                order
            };
            if order != Ordering::Equal {
                return order;
            }
        }
        Ordering::Equal
    }
}

/// The entries; those that are shown with the same keys are one: threads of one name, and the idle threads.
fn rows(
    entries: impl Iterator<Item = HistEntry>,
    shown_keys: impl Fn(&[u64; MAX_KEYS]) -> String,
) -> Vec<Row> {
    let mut by_key: BTreeMap<String, Row> = BTreeMap::new();
    for entry in entries {
        let row = by_key.entry(shown_keys(&entry.keys)).or_insert(Row {
            keys: entry.keys,
            hits: 0,
            sums: [0; MAX_VALUES],
        });
        row.hits = row.hits.wrapping_add(entry.hits);
        for (sum, more) in row.sums.iter_mut().zip(entry.sums) {
            *sum = sum.wrapping_add(more);
        }
    }
    let mut rows: Vec<_> = by_key.into_values().collect();
    rows.sort_by_key(|row| row.keys);
    rows
}

/// A number as it is meant.
fn number(quantity: &Quantity, number: u64, names: &Names) -> i128 {
    match quantity {
        Quantity::Unsigned | Quantity::IrqName | Quantity::Stack => number.into(),
        Quantity::Signed => number.cast_signed().into(),
        Quantity::Cycles => names.clock.ns(number).into(),
        Quantity::Pid | Quantity::Comm => names.threads.pid(number as u8).into(),
        Quantity::State(states) => {
            let mut states = states.iter();
            let state = states.find(|(raw, _)| *raw == number);
            state.map_or(number, |(_, state)| *state).into()
        }
    }
}
