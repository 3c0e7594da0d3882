//! What `snapshot` shows.

use std::io::Write;
use std::sync::Arc;

use super::buffer::{has_snapshot, read_snapshot};
use super::render::{header, names, write_entry};
use super::session::Session;

/// The snapshot of one CPU or of all; how to take one if there is none, or nothing in it.
pub(super) fn show(session: &mut Session, cpu: Option<usize>) -> super::Result<Vec<u8>> {
    let view = session.view()?;
    let cpus: Vec<_> = cpu.map_or_else(|| Session::cpus(&view).collect(), |cpu| vec![cpu]);
    let table = Arc::clone(&session.table);
    let content = read_snapshot(&session.guest, &view, &table, cpus)?;
    let tracer = session.tracer()?;
    let mut out = Vec::new();
    if content.entries.is_empty() {
        let state = if has_snapshot(&session.guest, &view)? {
            "allocated"
        } else {
            "freed"
        };
        // Writing to a Vec does not fail.
        let _ = write!(
            out,
            "# tracer: {tracer}\n#\n#\n# * Snapshot is {state} *\n#\n# Snapshot commands:\n\
             # echo 0 > snapshot : frees it, and gives its half of the buffers back\n\
             # echo 1 > snapshot : takes one: what was recorded up to now is kept here\n\
             # echo 2 > snapshot : empties it; so does any other number\n"
        );
        return Ok(out);
    }
    let options = session.options;
    if !(options.raw || options.hex || options.bin) {
        let nr_records = content.nr_records;
        header(&mut out, &tracer, nr_records, nr_records, view.nr_cpus);
    }
    let mut names = names(session, &view);
    for entry in &content.entries {
        write_entry(&mut out, session, entry, &mut names);
    }
    Ok(out)
}
