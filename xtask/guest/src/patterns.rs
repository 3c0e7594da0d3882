//! Which trace events a pattern means: `sched`, `sched:sched_switch`, `sched_*`, `all`, `none`.

use std::collections::BTreeSet;

use anyhow::{Result, anyhow};
use takt_decode::EventDef;
use takt_tracer::filter::glob::matches;

use takt_base::term::WithHelp;

/// An event of the image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Known {
    /// `system:event`.
    pub name: String,
    /// Its number in the wire format.
    pub id: u32,
}

impl From<&EventDef> for Known {
    fn from(event: &EventDef) -> Self {
        Self {
            name: event.name.clone(),
            id: event.id,
        }
    }
}

/// The ids of the events that `patterns` name, ascending.
///
/// # Errors
///
/// If a pattern names none; what comes near is listed.
pub fn resolve(patterns: &[String], known: &[Known]) -> Result<Vec<u32>> {
    let mut ids = BTreeSet::new();
    for pattern in patterns.iter().map(|pattern| pattern.trim()) {
        if pattern == "none" {
            ids.clear();
            continue;
        }
        let mut found = known
            .iter()
            .filter(|event| means(pattern, &event.name))
            .peekable();
        if found.peek().is_none() {
            return unknown(pattern, known);
        }
        ids.extend(found.map(|event| event.id));
    }
    Ok(ids.into_iter().collect())
}

/// Whether `pattern` means the event: by its whole name, its system, its name without the system,
/// each with wildcards. With nothing before or behind the colon that is anything.
#[must_use]
pub fn means(pattern: &str, name: &str) -> bool {
    let (system, event) = name.split_once(':').unwrap_or(("", name));
    match pattern.split_once(':') {
        _ if pattern == "all" => true,
        Some((wanted_system, "")) => glob(wanted_system, system),
        Some(("", wanted_event)) => glob(wanted_event, event),
        Some((wanted_system, wanted_event)) => {
            glob(wanted_system, system) && glob(wanted_event, event)
        }
        None => glob(pattern, system) || glob(pattern, event),
    }
}

/// `*` for any run of characters, `?` for one, `[a-c]` and `[!a-c]` for one of these or of the others; a text is meant by
/// itself, whatever it has in it.
pub fn glob(pattern: &str, text: &str) -> bool {
    pattern == text || matches(pattern.as_bytes(), text.as_bytes())
}

fn unknown(pattern: &str, known: &[Known]) -> Result<Vec<u32>> {
    let error = Err(anyhow!(
        "`{pattern}` is no trace event and no system of this image"
    ));
    let mut names: BTreeSet<&str> = BTreeSet::new();
    for event in known {
        names.insert(&event.name);
        names.extend(event.name.split_once(':').map(|(system, _)| system));
    }
    let wanted = pattern.trim_matches('*');
    let near = |name: &&&str| {
        let event = name.split_once(':').map_or(**name, |(_, event)| event);
        let allowed = wanted.len().max(3) / 3;
        (!wanted.is_empty() && name.contains(wanted))
            || distance(wanted, event) <= allowed
            || distance(wanted, name) <= allowed
    };
    let mut list: Vec<_> = names.iter().filter(near).copied().collect();
    if list.is_empty() {
        list = names
            .into_iter()
            .filter(|name| !name.contains(':'))
            .collect();
        return error.help(format!("systems are: {}", list.join(", ")));
    }
    error.help(format!("did you mean: {}", list.join(", ")))
}

/// Levenshtein's distance.
fn distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.chars().count()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, y) in b.chars().enumerate() {
            let substituted = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = substituted.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn known() -> Vec<Known> {
        [
            "sched:sched_switch",
            "sched:sched_wakeup",
            "irq:irq_handler_entry",
            "timer:timer_start",
            "takt:clock",
        ]
        .iter()
        .zip((2..).step_by(2))
        .map(|(name, id)| Known {
            name: (*name).into(),
            id,
        })
        .collect()
    }

    fn ids(patterns: &str) -> Result<Vec<u32>> {
        let patterns: Vec<_> = patterns.split(',').map(str::to_owned).collect();
        resolve(&patterns, &known())
    }

    #[test]
    fn systems_events_and_wildcards() {
        for (patterns, expected) in [
            ("sched", vec![2, 4]),
            ("sched:", vec![2, 4]),
            (":sched_switch", vec![2]),
            (":*_start,:irq_*", vec![6, 8]),
            ("sched:sched_switch", vec![2]),
            ("sched_switch", vec![2]),
            ("sched_*", vec![2, 4]),
            ("*:*_start,irq", vec![6, 8]),
            ("all", vec![2, 4, 6, 8, 10]),
            ("all,none", vec![]),
            ("none,timer", vec![8]),
            ("sched:*_wake??", vec![4]),
        ] {
            assert_eq!(ids(patterns).unwrap(), expected, "{patterns}");
        }
    }

    #[test]
    fn what_is_unknown_is_answered_with_what_is_near() {
        for (pattern, near) in [
            ("sched_swich", "sched:sched_switch"),
            ("handler", "irq_handler_entry"),
            ("xyz", "systems are: irq, sched, takt, timer"),
        ] {
            let error = format!("{:#}", ids(pattern).unwrap_err());
            assert!(error.contains(pattern) && error.contains(near), "{error}");
        }
        assert!(ids("").is_err() && ids(":").is_err() && ids(":sched").is_err());
    }

    proptest! {
        #[test]
        fn a_text_matches_itself_and_any_of_it_starred(text in "[a-z_]{0,12}", at in 0usize..13) {
            prop_assert!(glob(&text, &text));
            let at = at.min(text.len());
            let starred = format!("{}*{}", &text[..at], &text[at..]);
            prop_assert!(glob(&starred, &text));
        }
    }
}
