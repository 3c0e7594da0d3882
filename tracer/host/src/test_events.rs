//! Descriptions of events for tests.

use takt_decode::EventTable;

/// The events with these ids and texts, as an image has them.
///
/// # Panics
///
/// If a text is no description.
pub(super) fn events(texts: &[(u64, impl AsRef<str>)]) -> EventTable {
    let mut section = Vec::new();
    for (id, text) in texts {
        let text = text.as_ref();
        section.extend(id.to_le_bytes());
        section.extend((text.len() as u64).to_le_bytes());
        section.extend(text.as_bytes());
        section.resize(section.len().next_multiple_of(8), 0);
    }
    EventTable::parse(&section).unwrap()
}
