//! What several CPUs do at the kernel's lock while the random stress runs, counted from outside, under icount.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use anyhow::{Context, Result, ensure};

use crate::counted::Plugin;
use crate::counted::log::Log;
use crate::image::Elf;

/// The ways into the lock, and the first thing behind their code.
const LOCKS: [&str; 2] = ["takt_thunk_lock", "takt_thunk_lock_thread"];
const BEHIND: &str = "takt_thunk_unlock";
/// PAUSE, which a CPU executes once in each round of its waiting.
const PAUSE: [u8; 2] = [0xf3, 0x90];
/// Instructions of a round: PAUSE, a jump, a comparison and another jump.
const ROUND: u64 = 4;

/// The plugin that counts.
pub(super) fn plugin(image: &Elf) -> Result<Plugin> {
    let [first, second] = LOCKS.map(|name| image.symbol(name));
    let (entries, behind) = ([first?, second?], image.symbol(BEHIND)?);
    let code = image.code_at(entries[0]);
    let len = usize::try_from(behind.saturating_sub(entries[0]))?;
    let code = code.get(..len).context("the lock's code is cut")?;
    let pauses = code
        .windows(PAUSE.len())
        .zip(entries[0]..)
        .filter(|(bytes, _)| *bytes == PAUSE)
        .map(|(_, at)| at);
    Plugin::with_marks(entries.into_iter().chain(pauses))
}

/// What the plugin has logged of a guest, in words; `notes` are the guest's, which begin with how many operations it did.
pub(super) fn describe(log: &Path, notes: &str) -> Result<String> {
    let operations = notes.trim_start_matches([' ', '(']).split(' ').next();
    let operations: u64 = operations
        .and_then(|number| number.parse().ok())
        .with_context(|| format!("no number of operations in `{notes}`"))?;
    let file = File::open(log).context("cannot read the log of executed instructions")?;
    let mut log = Log::new(BufReader::new(file))?;
    let (mut acquired, mut waited) = (0, 0);
    while let Some(event) = log.next_event()? {
        match event.mark {
            Some(mark) if (mark as usize) < LOCKS.len() => acquired += 1,
            Some(_) => waited += ROUND,
            None => {}
        }
    }
    ensure!(
        acquired > 0 && operations > 0,
        "nobody has taken the kernel's lock"
    );
    let each = |count: u64| {
        format!(
            "{}.{:02}",
            count / operations,
            count * 100 / operations % 100
        )
    };
    Ok(format!(
        " (kernel lock: {} acquisitions and {} instructions waited an operation)",
        each(acquired),
        each(waited)
    ))
}
