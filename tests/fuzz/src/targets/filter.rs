//! Filters: the parser, what it prints again, and evaluation over the sample's records.
//!
//! Input: the text of a filter.

use takt_decode::filter::{Filter, Filters};
use takt_decode::{EventTable, Names, SubBuffer, Threads};
use takt_tracer::wire::{SUB_HEADER, SubHeader};

use crate::sample;

/// Reads a filter and tries it on every record of the sample.
///
/// # Panics
///
/// If a property does not hold.
pub fn run(input: &[u8]) {
    let Ok(text) = core::str::from_utf8(input) else {
        return;
    };
    let filter = match Filter::parse(text) {
        Ok(filter) => filter,
        Err(error) => {
            assert!(error.at <= text.len() && text.is_char_boundary(error.at));
            assert!(!error.reason.is_empty() && error.caret(text).ends_with('^'));
            return;
        }
    };
    let again = Filter::parse(&filter.to_string());
    assert_eq!(again.as_ref(), Ok(&filter), "it is read as it is printed");
    let table = EventTable::parse(&sample::metadata()).expect("the sample is good");
    let filters = match Filters::bind(std::slice::from_ref(&filter), &table) {
        Ok(filters) => filters,
        Err((error, number)) => {
            assert!(number == 0 && error.at < text.len() && !error.reason.is_empty());
            return;
        }
    };
    let records = sample::records().concat();
    let header = SubHeader {
        version: SubHeader::VERSION,
        commit: (SUB_HEADER as usize + records.len()) as u64,
        ..SubHeader::default()
    };
    let bytes = [&header.encode(), &*records].concat();
    let mut sub = SubBuffer::new(bytes, 0).expect("the sample is good");
    let names = Names::new(0, Threads::new(1));
    while let Some(item) = sub.next(&table) {
        if let Ok(record) = item {
            let _ = filters.matches(&record, &names);
        }
    }
}

/// Filters with everything that there is.
#[must_use]
pub fn seeds() -> Vec<Vec<u8>> {
    let fields: Vec<String> = EventTable::parse(&sample::metadata())
        .iter()
        .flat_map(EventTable::iter)
        .flat_map(|event| {
            let format = takt_decode::ftrace::Format::new(event);
            let test =
                |name: &str| format!("{}: {name} == 0 || {name} ~ \"*a[b-c]?\"", event.event());
            format
                .fields
                .iter()
                .map(|field| test(&field.name))
                .collect::<Vec<_>>()
        })
        .collect();
    let texts = [
        "common_pid != 0 && !(CPU == 1 || COMM ~ \"swap*\")",
        "common_flags & 0x8 && common_preempt_count >= -1",
        "sched:sched_switch: prev_comm != 'x' && common_type < 18446744073709551615",
        "prio <> 10",
    ];
    let texts = texts.iter().map(|text| (*text).to_owned());
    texts.chain(fields).map(String::into_bytes).collect()
}
