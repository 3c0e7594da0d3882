//! What `trace`, `trace_pipe` and `per_cpu/cpuN/stats` show.

use std::fmt::Write as _;
use std::io::Write;
use std::sync::Arc;

use takt_tracer::control::ControlView;
use takt_tracer::decode::{Item, Names, Threads, TscClock, write_header, write_item};

use super::buffer::{Counts, Entry, counts, read};
use super::format;
use super::session::Session;

/// Everything in the rings, of one CPU or of all.
pub(super) fn trace(session: &mut Session, cpu: Option<usize>) -> super::Result<Vec<u8>> {
    let view = session.view()?;
    let cpus: Vec<_> = cpu.map_or_else(|| Session::cpus(&view).collect(), |cpu| vec![cpu]);
    let table = Arc::clone(&session.table);
    let begin = session.begin(&view);
    let content = read(
        &session.guest,
        &view,
        &table,
        cpus.iter().copied(),
        &begin,
        None,
    )?;
    let mut written = 0;
    let mut has_overrun = false;
    for cpu in cpus {
        let stats = stats_of(session, &view, cpu)?;
        written += stats.entries;
        has_overrun |= stats.entries > content.nr_records + session.nr_read[cpu];
    }
    let mut out = Vec::new();
    let mut head = Vec::new();
    // Writing to a Vec does not fail.
    let _ = write_header(&mut head, content.nr_records, written, view.nr_cpus);
    let head = String::from_utf8_lossy(&head);
    let tracer = view.tracers().nth(view.tracer as usize).unwrap_or("nop");
    let plain = !(session.options.raw || session.options.hex || session.options.bin);
    if plain {
        let _ = out.write_all(
            head.replacen("tracer: nop", &format!("tracer: {tracer}"), 1)
                .as_bytes(),
        );
    }
    let mut names = names(session, &view);
    let mut started = [false; takt_tracer::control::MAX_CPUS];
    for (number, entry) in content.entries.iter().enumerate() {
        if plain && session.options.annotate && has_overrun {
            annotate(&mut out, entry, &mut started, number);
        }
        write_entry(&mut out, session, entry, &mut names);
    }
    Ok(out)
}

/// Says where a CPU's buffer begins, if another one's began earlier.
fn annotate(out: &mut Vec<u8>, entry: &Entry<'_>, started: &mut [bool], number: usize) {
    if let Entry::Record(record) = entry
        && let Some(started) = started.get_mut(usize::from(record.cpu))
        && !std::mem::replace(started, true)
        && number > 0
    {
        // Writing to a Vec does not fail.
        let _ = writeln!(out, "##### CPU {} buffer started ####", record.cpu);
    }
}

/// What is new since the pipes were last read, of one CPU or of all; it is gone then.
pub(super) fn pipe(
    session: &mut Session,
    view: &ControlView,
    cpu: Option<usize>,
) -> super::Result<Vec<u8>> {
    let cpus: Vec<_> = cpu.map_or_else(|| Session::cpus(view).collect(), |cpu| vec![cpu]);
    let table = Arc::clone(&session.table);
    let begin = session.begin(view);
    let content = read(
        &session.guest,
        view,
        &table,
        cpus.iter().copied(),
        &begin,
        Some(&session.lost),
    )?;
    for cpu in cpus {
        session.consumed[cpu] = content.next[cpu];
        session.lost[cpu] = content.lost[cpu];
    }
    let mut out = Vec::new();
    if content.entries.is_empty() {
        return Ok(out);
    }
    let mut names = names(session, view);
    for entry in &content.entries {
        if let Entry::Record(record) = entry {
            session.nr_read[usize::from(record.cpu) % session.nr_read.len()] += 1;
        }
        write_entry(&mut out, session, entry, &mut names);
    }
    Ok(out)
}

/// The names of the guest's threads as they are now, and of its functions as the options say.
pub(super) fn names(session: &Session, view: &ControlView) -> Names {
    let mut threads = Threads::new(session.guest.nr_idle());
    for (tid, name) in session.guest.threads() {
        threads.name(tid, &name);
    }
    let symbols = Arc::clone(&session.symbols);
    let options = session.options;
    let mut names = Names::new(view.tsc_hz, threads);
    names.offsets = options.sym_offset;
    names.with_symbols(move |address| {
        let (mut name, offset, size) = symbols.find(address)?;
        // Writing to a String does not fail.
        if options.sym_offset {
            let _ = write!(name, "+{offset:#x}/{size:#x}");
        }
        if options.sym_addr {
            let _ = write!(name, " <{address:016x}>");
        }
        Some(name)
    })
}

pub(super) fn write_entry(
    out: &mut Vec<u8>,
    session: &Session,
    entry: &Entry<'_>,
    names: &mut Names,
) {
    let options = session.options;
    let item = match entry {
        Entry::Lost {
            cpu,
            ts,
            events,
            sub_buffers,
        } => Item::Lost {
            cpu: *cpu,
            ts: *ts,
            events: *events,
            sub_buffers: *sub_buffers,
        },
        Entry::Record(record) if options.bin || options.hex || options.raw => {
            return format::plain_numbers(out, record, names, options);
        }
        Entry::Record(record) => Item::Record(record.clone()),
    };
    // Writing to a Vec does not fail.
    let _ = write_item(out, &item, names);
}

/// The counters of a CPU since the trace was last cleared.
fn stats_of(session: &Session, view: &ControlView, cpu: usize) -> super::Result<Counts> {
    let Some(ring) = session.guest.ring(view, cpu) else {
        return Ok(Counts::default());
    };
    let (now, then) = (counts(&ring, view)?, session.cleared[cpu]);
    Ok(Counts {
        entries: now.entries.saturating_sub(then.entries),
        bytes: now.bytes.saturating_sub(then.bytes),
        dropped: now.dropped.saturating_sub(then.dropped),
        commit_overrun: now.commit_overrun.saturating_sub(then.commit_overrun),
    })
}

/// `stats` of a CPU.
pub(super) fn stats(session: &mut Session, cpu: usize) -> super::Result<Vec<u8>> {
    let view = session.view()?;
    let table = Arc::clone(&session.table);
    let begin = session.begin(&view);
    let content = read(&session.guest, &view, &table, [cpu], &begin, None)?;
    let sums = stats_of(session, &view, cpu)?;
    let clock = TscClock::new(view.tsc_hz);
    let mut times = content.entries.iter().filter_map(|entry| match entry {
        Entry::Record(record) => Some(record.ts),
        Entry::Lost { .. } => None,
    });
    let oldest = times.next().unwrap_or(0);
    let newest = times.next_back().unwrap_or(oldest);
    let read = session.nr_read[cpu];
    let overrun = sums.entries.saturating_sub(content.nr_records + read);
    let mut out = Vec::new();
    let mut line = |name: &str, value: String| {
        // Writing to a Vec does not fail.
        let _ = writeln!(out, "{name}: {value}");
    };
    line("entries", content.nr_records.to_string());
    line("overrun", overrun.to_string());
    line("commit overrun", sums.commit_overrun.to_string());
    line("bytes", sums.bytes.to_string());
    line("oldest event ts", seconds(clock.ns(oldest)));
    line("now ts", seconds(clock.ns(view.now.max(newest))));
    line("dropped events", sums.dropped.to_string());
    line("read events", read.to_string());
    Ok(out)
}

fn seconds(ns: u64) -> String {
    format!("{:>5}.{:06}", ns / 1_000_000_000, ns / 1000 % 1_000_000)
}
