//! `bench`: instruction counts and sizes, beside the figures of other systems and our own limits.
//!
//! | module | content |
//! |---|---|
//! | `spec` | the rows: names, groups, anchors, limits |
//! | `images` | building and booting the images |
//! | `executed` | of which functions the rows consist |
//! | `functions` | what function tracing costs |
//! | `latency` | IRQ and thread latency of the idle system |
//! | `lines` | the cache lines of data that a switch touches |
//! | `locks` | what two CPUs take of a lock of the kernel's |
//! | `records` | the bytes of records, on average |
//! | `sizes` | what an image's sections take |
//! | `table` | the table as text or Markdown, and JSON |
//!
//! Everything is measured under icount, where one instruction is one nanosecond and every run gives the same numbers.

pub(super) mod executed;
mod functions;
pub(super) mod images;
mod latency;
mod lines;
mod locks;
mod records;
mod sizes;
mod spec;
mod table;
mod tasks;

use std::collections::{BTreeMap, HashMap};
use std::process::ExitCode;

use anyhow::Result;

use takt_base::term::note;
use takt_base::{output, setup};
use takt_cli::Bench;
use takt_guest::Elf;
use takt_machine::run::once::Folder;
use takt_sweep::budget::file::Functions;

/// The row of which functions are told in bytes.
const TEXT: &str = "image-full-text";

/// What was measured: the value by the row's name.
type Values = HashMap<String, u64>;

/// What an application's image takes: text, data and bss, and the bytes of its functions.
///
/// # Errors
///
/// If it cannot be read.
pub(super) fn sizes_of(elf: &Elf) -> Result<(Vec<(String, u64)>, Functions)> {
    let mut values = Values::new();
    sizes::of_image("image", elf, &mut values)?;
    // Read-only data has the names of source files in it, whose folders differ from machine to machine.
    values.retain(|name, _| ["image-text", "image-data", "image-bss"].contains(&name.as_str()));
    Ok((values.into_iter().collect(), sizes::functions(elf)?))
}

/// Measures everything and prints it.
pub(super) fn run(flags: &Bench) -> Result<ExitCode> {
    if let Some(file) = &flags.json {
        output::check_writable(file)?;
    }
    setup::ensure_qemu(!flags.no_install)?;
    let values = measure(|_, _, _| Ok(()))?;
    let rows = spec::rows(&values);
    if !flags.json.as_deref().is_some_and(output::is_stdout) {
        output::print(&table::text(&rows))?;
    }
    if let Some(file) = &flags.json {
        output::to_named(file, &table::json(&rows)?)?;
    }
    let missed: Vec<_> = rows
        .iter()
        .filter(|row| row.misses_must())
        .map(|row| row.name.as_str())
        .collect();
    if missed.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    note(format!("above the limit: {}", missed.join(", ")));
    let is_known = |name: &&str| flags.except.iter().any(|known| known == name);
    Ok(if missed.iter().all(is_known) {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// The page with the table, which the figures of budgets make.
pub(super) mod page {
    use std::collections::BTreeMap;

    use anyhow::{Context, Result};

    use super::{Values, spec, table};

    /// Its file, in the workspace.
    pub(in crate::commands) const FILE: &str = "docs/benchmarks.md";

    /// Between these lines of the page the table stands.
    const MARKS: [&str; 2] = ["<!-- bench -->\n", "<!-- /bench -->\n"];

    /// The page with the table of these figures.
    ///
    /// # Errors
    ///
    /// If there is no place for the table.
    pub(in crate::commands) fn with(page: &str, figures: &BTreeMap<String, u64>) -> Result<String> {
        let named = figures.iter();
        let named = named.filter_map(|(name, value)| Some((name.strip_prefix("bench.")?, *value)));
        let values: Values = named
            .map(|(name, value)| (name.to_owned(), value))
            .collect();
        let parts = || {
            let (before, rest) = page.split_once(MARKS[0])?;
            Some((before, rest.split_once(MARKS[1])?.1))
        };
        let (before, behind) =
            parts().with_context(|| format!("{FILE} has no place for the table"))?;
        let table = table::markdown(&spec::rows(&values));
        Ok([before, MARKS[0], table.trim_start(), MARKS[1], behind].concat())
    }
}

/// What budgets take from here.
pub(super) struct Rows {
    /// Each row's name and value.
    pub(super) values: Vec<(String, u64)>,
    /// The names of those above their limits.
    pub(super) missed: Vec<String>,
    /// The functions that they consist of, as far as that can be told, in instructions; of text in bytes.
    pub(super) functions: BTreeMap<String, Functions>,
}

/// Measures everything and prints nothing.
pub(super) fn rows() -> Result<Rows> {
    let mut functions = BTreeMap::new();
    let values = measure(|elf, folder, rows| {
        tell!("Recording instructions …");
        functions = executed::functions(elf, folder, rows)?;
        Ok(())
    })?;
    functions.insert(TEXT.into(), sizes::functions(&images::takt(&[])?)?);
    let rows = spec::rows(&values);
    let missed = rows.iter().filter(|row| row.misses_must());
    Ok(Rows {
        missed: missed.map(|row| row.name.clone()).collect(),
        values: rows.into_iter().map(|row| (row.name, row.value)).collect(),
        functions,
    })
}

/// Notes how far apart the averages are of what is measured among 10, 100 and 1,000 timers.
fn spreads(values: &mut Values) {
    for row in ["timer-random-insert", "timer-random-cancel"] {
        let averages = [10, 100, 1000].map(|nr| values.get(&format!("{row}-{nr}")).copied());
        let known = || averages.iter().flatten();
        if let (Some(least), Some(most)) = (known().min(), known().max()) {
            values.insert(format!("{row}-spread"), most - least);
        }
    }
}

/// Measures everything. `look` is shown the image that counts instructions, and what it says.
fn measure(look: impl FnOnce(&Elf, &Folder, &[(String, u64)]) -> Result<()>) -> Result<Values> {
    let mut values = Values::new();
    let folder = Folder::create()?;
    let takt = images::takt(&[])?;
    tell!("Measuring latencies …");
    latency::measure(&takt, &folder, &mut values)?;
    records::measure(&takt, &folder, &mut values)?;
    let bench = images::build("bench")?;
    tell!("Counting instructions …");
    let rows = images::lines(&folder.boot_counting(&bench, |arguments| arguments)?.serial)?;
    look(&bench, &folder, &rows)?;
    let lines = lines::of_yield(&bench, &folder, &rows)?;
    values.insert("yield-lines".into(), lines);
    values.extend(rows);
    spreads(&mut values);
    sizes::of_image("image-full", &takt, &mut values)?;
    sizes::of_tracer("tracer-text", &takt, &mut values)?;
    sizes::of_image("image-minimal", &images::build("minimal")?, &mut values)?;
    for name in sizes::FOOTPRINTS {
        let image = images::build(name)?;
        sizes::of_image(&name.replace("events", "footprint"), &image, &mut values)?;
    }
    sizes::per_event(&mut values);
    tasks::measure(&folder, &mut values)?;
    locks::measure(&folder, &mut values)?;
    tell!("Tracing functions …");
    functions::measure(&folder, &mut values)?;
    Ok(values)
}
