//! A trace on its way through filters into an export.

use std::fs::File;
use std::io::BufReader;

use anyhow::Result;
use takt_decode::filter::Filters;
use takt_decode::{Damage, EventTable, Item, Names, TraceFile};

use super::{Export, Selection};

/// What is to be exported of a trace.
#[derive(Debug)]
pub struct Wanted<'w> {
    /// The events of the image.
    pub table: &'w EventTable,
    /// What records have to be.
    pub filters: &'w Filters<'w>,
    /// Where and when they have to be recorded.
    pub selection: Selection,
}

/// What was seen of a trace.
#[derive(Clone, Copy, Debug, Default)]
pub struct Passed {
    /// Records that were exported.
    pub nr_matching: u64,
    /// Damage in sub-buffers.
    pub nr_damages: u64,
    /// The time of the last item, in cycles.
    last: u64,
    /// Sub-buffers that are missing before it, with an unknown number of events.
    missing: u64,
}

/// Gives an export what is wanted of a trace, and tells `note` of each damage. Everything that is done for each record is done
/// here, and for one kind of file, so that it is compiled with this crate's optimization.
///
/// # Errors
///
/// If the trace cannot be read, or the export not be written.
pub fn pass(
    trace: &mut TraceFile<BufReader<File>>,
    wanted: &Wanted<'_>,
    names: &mut Names,
    export: &mut dyn Export,
    note: &dyn Fn(&Damage),
) -> Result<Passed> {
    let mut passed = Passed::default();
    let mut merge = trace.merge(wanted.table);
    while let Some(item) = merge.next() {
        let item = item?;
        let mut is_wanted = wanted.selection.has(&item, names);
        match &item {
            Item::Record(record) if names.clock.ns(record.ts) > wanted.selection.to => {
                // So is whatever comes.
                break;
            }
            Item::Record(record) => {
                // Its names are wanted all the same.
                names.learn(record);
                is_wanted = is_wanted && wanted.filters.matches(record, names);
                passed.nr_matching += u64::from(is_wanted);
            }
            Item::Damage(damage) => {
                passed.nr_damages += 1;
                note(damage);
            }
            Item::Lost { .. } => {}
        }
        passed.see(&item);
        if is_wanted {
            export.item(&item, names)?;
        }
        if let Item::Record(record) = item {
            merge.give_back(record);
        }
    }
    Ok(passed)
}

impl Passed {
    fn see(&mut self, item: &Item<'_>) {
        match item {
            Item::Record(record) => self.last = self.last.max(record.ts),
            Item::Lost {
                ts, sub_buffers, ..
            } => {
                self.last = self.last.max(*ts);
                self.missing += sub_buffers;
            }
            Item::Damage(_) => {}
        }
    }

    /// The loss at the end, behind which there is no sub-buffer that would show it: what a run has counted (`expected` events)
    /// and its file does not have (only `found`). `None` where nothing is missing, or where no one can say how much of it at the
    /// end, or on which CPU.
    #[must_use]
    pub fn lost_at_end(&self, nr_cpus: u32, found: u64, expected: u64) -> Option<Item<'static>> {
        (nr_cpus == 1 && self.missing == 0 && found < expected).then(|| Item::Lost {
            cpu: 0,
            ts: self.last,
            events: expected - found,
            sub_buffers: 0,
        })
    }
}
