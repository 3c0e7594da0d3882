//! Naming runs: `latest`, `latest~2`, the first digits of an id; and filtering them.

use crate::history::{Entry, History, RunFile, Summary};
use anyhow::{Context, Result, anyhow};
use takt_base::term::WithHelp;

/// Which runs are meant.
#[derive(Clone, Copy, Debug)]
pub struct Filter<'a> {
    /// What fields of their configuration are, as in load=mix.
    pub fields: &'a [String],
    /// A run of the same configuration.
    pub like: Option<&'a str>,
}

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

/// The run that is named.
///
/// # Errors
///
/// If there is none of that name, or more than one.
pub fn one(history: &History, name: &str) -> Result<RunFile> {
    let runs = history.runs();
    if runs.is_empty() {
        return Err(anyhow!("the history is empty")).help("make a run: cargo xtask latency-run");
    }
    if let Some(back) = back(name) {
        let nr = runs.len();
        return runs
            .get(back)
            .cloned()
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
    let fitting: Vec<_> = runs
        .iter()
        .filter(|run| run.id.starts_with(&prefix))
        .collect();
    match *fitting {
        [run] => Ok(run.clone()),
        [] => Err(anyhow!("there is no run {name} in the history")).help(NAMES),
        _ => {
            let nr = fitting.len();
            let some: Vec<_> = fitting.iter().take(5).map(|run| &run.id[..12]).collect();
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
/// If the filter is none, or a run cannot be read.
pub(crate) fn filtered(history: &History, filter: Filter<'_>, limit: usize) -> Result<Vec<Entry>> {
    let places = like(history, filter)?;
    let mut fields = Vec::new();
    for text in filter.fields {
        let (name, value) = text
            .split_once('=')
            .ok_or_else(|| anyhow!("--config {text}: it has to be FIELD=VALUE"))
            .help("as in --config load=mix; cargo xtask history show lists the fields of a run")?;
        fields.push((name, value));
    }
    let mut entries = Vec::new();
    for place in places {
        if entries.len() >= limit {
            break;
        }
        let Some(entry) = history.sound_entry(&place)? else {
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

/// The runs of the configuration that a filter names by a run; all if it names none.
fn like(history: &History, filter: Filter<'_>) -> Result<Vec<RunFile>> {
    match &filter.like {
        Some(name) => {
            let like = history.entry(&one(history, name)?)?;
            history.of_configuration(&like.configuration().key())
        }
        None => Ok(history.runs().to_vec()),
    }
}

/// What a list says of the runs that a filter lets through, the latest first, at most `limit` of them.
///
/// # Errors
///
/// As [`filtered`].
pub(crate) fn listed(
    history: &History,
    filter: Filter<'_>,
    limit: usize,
) -> Result<Vec<(RunFile, Summary)>> {
    if filter.fields.is_empty() {
        let mut places = like(history, filter)?;
        places.truncate(limit);
        return history.summaries(&places);
    }
    let entries = filtered(history, filter, limit)?;
    let listed = entries
        .iter()
        .map(|entry| Ok((RunFile::of(entry), Summary::of(entry)?)));
    listed.collect()
}

/// Digits of an id that people see.
const SHORT: usize = 8;

/// The part of an id that people see.
#[must_use]
pub fn short(id: &str) -> &str {
    id.get(..SHORT).unwrap_or(id)
}
