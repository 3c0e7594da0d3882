//! `events/SYSTEM/EVENT/hist`: what histograms have counted, as ftrace shows it.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt::Write;

use rustix::io::Errno;
use takt_tracer::decode::Names;
use takt_tracer::filter::trigger::{BoundTrigger, HITCOUNT, Hist, Key, Quantity, Trigger};
use takt_tracer::rules::{Action, HistEntry, HistView, MAX_KEYS, MAX_VALUES, RulesView};

use crate::tracefs::session::Session;
use crate::tracefs::tree::Of;
use crate::tracefs::{Result, render};

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
        let bytes = session.guest.hist(trigger.hist)?;
        if let Some(hist) = &read.hist {
            write(
                &mut out,
                &read,
                hist,
                &bound,
                &HistView::new(&bytes),
                &names,
            );
        }
    }
    Ok(out.into())
}

fn write(
    out: &mut String,
    trigger: &Trigger,
    hist: &Hist,
    bound: &BoundTrigger,
    view: &HistView<'_>,
    names: &Names,
) {
    let mut rows = rows(view.entries(), |keys| shown_keys(hist, bound, keys, names));
    rows.sort_by(|one, other| order(hist, bound, one, other, names));
    // Writing to a String does not fail.
    let _ = write!(
        out,
        "# event histogram\n#\n# trigger info: {}\n#\n\n",
        trigger.text(None)
    );
    for row in &rows {
        let keys = shown_keys(hist, bound, &row.keys, names);
        let _ = write!(out, "{{ {keys} }} {HITCOUNT}: {:10}", row.hits);
        for ((value, quantity), sum) in hist.values.iter().zip(&bound.values).zip(row.sums) {
            let _ = write!(
                out,
                "  {}: {:>10}",
                value.name,
                number(quantity, sum, names)
            );
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
fn shown_keys(hist: &Hist, bound: &BoundTrigger, keys: &[u64; MAX_KEYS], names: &Names) -> String {
    let keys: Vec<_> = (hist.keys.iter().zip(&bound.keys).zip(keys))
        .map(|((key, quantity), number)| {
            format!("{}: {}", key.name, shown(key, quantity, *number, names))
        })
        .collect();
    keys.join(", ")
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

/// By what was asked for, else by the hits; the keys decide last.
fn order(hist: &Hist, bound: &BoundTrigger, one: &Row, other: &Row, names: &Names) -> Ordering {
    let by_hits = (HITCOUNT.to_owned(), false);
    let sort = match &*hist.sort {
        [] => std::slice::from_ref(&by_hits),
        sort => sort,
    };
    for (name, is_descending) in sort {
        let place = |fields: &[Key]| fields.iter().position(|field| field.name == *name);
        let order = if let Some(at) = place(&hist.keys) {
            let of = |row: &Row| number(&bound.keys[at], row.keys[at], names);
            let text = |row: &Row| shown(&hist.keys[at], &bound.keys[at], row.keys[at], names);
            match bound.keys[at] {
                Quantity::Comm => text(one).cmp(&text(other)),
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

/// A number as it is meant.
fn number(quantity: &Quantity, number: u64, names: &Names) -> i128 {
    match quantity {
        Quantity::Unsigned => number.into(),
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

/// A key as its modifier says.
fn shown(key: &Key, quantity: &Quantity, raw: u64, names: &Names) -> String {
    let value = number(quantity, raw, names);
    match (&*key.modifier, quantity) {
        ("log2", _) => format!("~ 2^{raw:<2}"),
        ("execname", Quantity::Pid | Quantity::Comm) => {
            format!("{:<16}[{value:10}]", names.threads.comm(raw as u8))
        }
        (_, Quantity::Comm) => format!("{:<50}", names.threads.comm(raw as u8)),
        ("hex", _) => format!("{:x}", value as u64),
        ("sym" | "sym-offset", _) => format!("[{raw:x}] {:<45}", names.symbol(raw)),
        _ => format!("{value:10}"),
    }
}
