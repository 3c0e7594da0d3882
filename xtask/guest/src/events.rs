//! The trace events of an image, as it describes them.

use anyhow::{Context, Result};
use takt_decode::EventTable;

use crate::Elf;
use takt_base::term::WithHelp;

/// The section with the descriptions. It is not loaded.
const SECTION: &str = ".takt.meta";

/// The descriptions of all events that the image declares. An image without any is no error.
///
/// # Errors
///
/// If they cannot be understood.
pub fn table(elf: &Elf) -> Result<EventTable> {
    let section = elf.section(SECTION).unwrap_or_default();
    EventTable::parse(section).with_context(|| {
        format!(
            "the event descriptions of {} cannot be read",
            elf.path.display()
        )
    })
    .help("the image may be of another version of Takt: use the xtask of the revision that it was built from")
}
