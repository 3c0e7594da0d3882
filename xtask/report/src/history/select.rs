//! Naming runs: `latest`, `latest~2`, the first digits of an id; and filtering them.

use anyhow::{Context, Result, anyhow};
use xtask::cli::HistoryFilter;
use xtask::history::Entry;
use xtask::term::WithHelp;

use super::Database;

const LATEST: &str = "latest";

/// How runs are named.
const NAMES: &str = "a run is named by the first digits of its id, or as latest, latest~1 …; cargo xtask history list \
                     shows them";

/// Whether this could name a run of the history.
#[must_use]
pub fn looks_like_a_name(text: &str) -> bool {
    let is_id = (4..=16).contains(&text.len()) && text.bytes().all(|it| it.is_ascii_hexdigit());
    is_id || back(text).is_some()
}

/// How many runs before the latest.
fn back(text: &str) -> Option<usize> {
    match text.strip_prefix(LATEST)? {
        "" => Some(0),
        rest => rest.strip_prefix('~')?.parse().ok(),
    }
}

/// The id of the run that is named.
///
/// # Errors
///
/// If there is none of that name, or more than one.
pub fn one(database: &Database, name: &str) -> Result<String> {
    let ids = database.ids()?;
    if ids.is_empty() {
        return if database.has_spooled() {
            Err(anyhow!("no run of the spool could be taken into the history"))
                .help("see the notes above; of a folder that cannot be written make a copy, and name that by --history")
        } else {
            Err(anyhow!("the history is empty")).help("make a run: cargo xtask latency-run")
        };
    }
    if let Some(back) = back(name) {
        let nr = ids.len();
        return ids
            .into_iter()
            .nth(back)
            .with_context(|| format!("there is no run {name}: the history has {nr}"))
            .help(format!(
                "the first one is latest~{}; cargo xtask history list shows all",
                nr - 1
            ));
    }
    if name.is_empty() {
        return Err(anyhow!("an empty name names no run")).help(NAMES);
    }
    let prefix = name.to_ascii_lowercase();
    let mut fitting: Vec<_> = ids
        .into_iter()
        .filter(|id| id.starts_with(&prefix))
        .collect();
    match fitting.len() {
        1 => Ok(fitting.remove(0)),
        0 => Err(anyhow!("there is no run {name} in the history")).help(NAMES),
        nr => {
            let some: Vec<_> = fitting.iter().take(5).map(|id| &id[..12]).collect();
            let more = if nr > some.len() { " …" } else { "" };
            Err(anyhow!(
                "{nr} runs begin with {name}: {}{more}",
                some.join(", ")
            ))
            .help("give more digits")
        }
    }
}

/// The runs that a filter lets through, the latest first, at most `limit` of them.
///
/// # Errors
///
/// If the filter is none, or the database cannot be read.
pub(crate) fn filtered(
    database: &Database,
    filter: &HistoryFilter,
    limit: usize,
) -> Result<Vec<Entry>> {
    let ids = match &filter.like {
        Some(name) => {
            let like = database.entry(&one(database, name)?)?;
            database.ids_of(&like.configuration().key())?
        }
        None => database.ids()?,
    };
    let mut fields = Vec::new();
    for text in &filter.fields {
        let (name, value) = text
            .split_once('=')
            .ok_or_else(|| anyhow!("--config {text}: it has to be FIELD=VALUE"))
            .help("as in --config load=mix; cargo xtask history show lists the fields of a run")?;
        fields.push((name, value));
    }
    let mut entries = Vec::new();
    for id in ids {
        if entries.len() >= limit {
            break;
        }
        let Some(entry) = database.sound_entry(&id)? else {
            continue;
        };
        let configuration = entry.configuration();
        if let Some((name, _)) = fields
            .iter()
            .find(|(name, _)| configuration.get(name).is_none())
        {
            let known: Vec<_> = configuration.fields().map(|(name, _)| name).collect();
            return Err(anyhow!("no configuration has a field {name}"))
                .help(format!("there are: {}", known.join(", ")));
        }
        if fields
            .iter()
            .all(|(name, value)| configuration.get(name).as_deref() == Some(value))
        {
            entries.push(entry);
        }
    }
    Ok(entries)
}

/// Digits of an id that people see.
const SHORT: usize = 8;

/// The part of an id that people see.
#[must_use]
pub fn short(id: &str) -> &str {
    id.get(..SHORT).unwrap_or(id)
}
