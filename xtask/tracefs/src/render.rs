//! What `trace`, `latency_trace`, `trace_pipe` and `per_cpu/cpuN/stats` show, by the current tracer.

use std::env;
use std::fmt::Write as _;
use std::io::Write;
use std::sync::Arc;

use takt_decode::{EventTable, Item, Names, Switches, Threads, TscClock, write_header, write_item};
use takt_tracer::control::ControlView;

use super::buffer::{Content, Entry, Reading, read, read_snapshot};
use super::counts::{Counts, counts};
use super::session::Session;
use super::{errno, format};
use takt_host::graph::Graph;
use takt_host::latency::{Finder, Latency, Lines, Stretch, is_latency_tracer, is_wakeup};
use takt_host::{Export, Facts};

/// `trace` of one CPU or of all: a latency tracer's is about the stretch that it has kept, function_graph's shows calls,
/// every other's what there is.
pub(super) fn trace(session: &mut Session, cpu: Option<usize>) -> super::Result<Vec<u8>> {
    match session.tracer()?.as_str() {
        tracer if is_latency_tracer(tracer) => latency(session, cpu),
        _ if session.options.latency_format => latency(session, cpu),
        "function_graph" => graph(session, cpu),
        _ => records(session, cpu),
    }
}

/// The rings' content, of one CPU or of all.
fn content<'t>(
    session: &Session,
    view: &ControlView,
    table: &'t EventTable,
    cpu: Option<usize>,
) -> super::Result<Content<'t>> {
    let cpus: Vec<_> = cpu.map_or_else(|| Session::cpus(view).collect(), |cpu| vec![cpu]);
    read(
        &session.guest,
        view,
        table,
        cpus,
        &session.consumed,
        Reading::Look,
    )
}

/// Where the records of the stretch come from that a latency tracer has kept: the snapshot, where the rings overwrite what
/// is old.
fn kept<'t>(
    session: &Session,
    view: &ControlView,
    table: &'t EventTable,
    cpu: Option<usize>,
) -> super::Result<Content<'t>> {
    if !view.is_overwrite {
        return content(session, view, table, cpu);
    }
    let cpus: Vec<_> = cpu.map_or_else(|| Session::cpus(view).collect(), |cpu| vec![cpu]);
    read_snapshot(&session.guest, view, table, cpus)
}

/// What there is, in the latency format; with a latency tracer the stretch that it has kept.
pub(super) fn latency(session: &mut Session, cpu: Option<usize>) -> super::Result<Vec<u8>> {
    let view = session.view()?;
    let tracer = session.tracer()?;
    let table = Arc::clone(&session.table);
    let mut stretch = None;
    let content = if is_latency_tracer(&tracer) {
        // Before the records: those of what is kept later are not looked for.
        let Some(max) = session.guest.latency()?.kept else {
            // As Linux has it where nothing was found.
            return Ok(format!("# tracer: {tracer}\n#\n").into());
        };
        let content = kept(session, &view, &table, cpu)?;
        let mut finder = Finder::new(&tracer).only(max);
        for entry in &content.entries {
            if let Entry::Record(record) = entry {
                finder.see(record);
            }
        }
        let without = Stretch::without_records(&max, is_wakeup(&tracer));
        stretch = Some(finder.found().unwrap_or(without));
        content
    } else {
        content(session, &view, &table, cpu)?
    };
    let mut out = Vec::new();
    let mut names = names(session, &view);
    if !is_plain(session) {
        for entry in &content.entries {
            let Entry::Record(record) = entry else {
                continue;
            };
            if stretch.is_none_or(|stretch| stretch.has(record)) {
                write_entry(&mut out, session, entry, &mut names);
            }
        }
        return Ok(out);
    }
    let export = Latency::new(&mut out, &env::temp_dir()).map_err(|error| errno(&error))?;
    let places = stretch.map(|stretch| Lines::of(&stretch, &session.guest.elf));
    let mut export = export
        .of(&tracer, stretch)
        .places(places.unwrap_or_default())
        .clock(clock(session))
        .verbose(session.options.verbose);
    for (tid, prio) in session.guest.priorities() {
        export.prio(tid, prio);
    }
    let facts = Facts {
        // Of a stretch as many are shown as there are.
        in_file: if stretch.is_some() {
            0
        } else {
            content.nr_records
        },
        lost: 0,
        nr_cpus: view.nr_cpus,
    };
    feed(&mut export, facts, &content.entries, &mut names).map_err(|error| errno(&error))?;
    export.end(&names).map_err(|error| errno(&error))?;
    drop(export);
    Ok(out)
}

/// What latencies are measured by.
fn clock(session: &Session) -> String {
    let accel = session.guest.accel;
    format!("{}, a nanosecond is {}", accel.name(), accel.ns_means())
}

/// Calls and their durations.
fn graph(session: &mut Session, cpu: Option<usize>) -> super::Result<Vec<u8>> {
    let view = session.view()?;
    let table = Arc::clone(&session.table);
    let content = content(session, &view, &table, cpu)?;
    let mut names = names(session, &view);
    let mut graph = Graph::new(Vec::new());
    graph.show(session.options.graph);
    graph.hide(session.guest.tracer_events("function_graph")?);
    let facts = Facts {
        in_file: content.nr_records,
        lost: 0,
        nr_cpus: view.nr_cpus,
    };
    feed(&mut graph, facts, &content.entries, &mut names).map_err(|error| errno(&error))?;
    graph.end(&names).map_err(|error| errno(&error))?;
    Ok(graph.out)
}

fn feed(
    export: &mut impl Export,
    facts: Facts,
    entries: &[Entry<'_>],
    names: &mut Names,
) -> std::io::Result<()> {
    export.begin(facts)?;
    entries
        .iter()
        .try_for_each(|entry| export.item(&item(entry), names))
}

/// Whether records are shown as text.
fn is_plain(session: &Session) -> bool {
    !(session.options.raw || session.options.hex || session.options.bin)
}

/// Everything in the rings, of one CPU or of all.
fn records(session: &mut Session, cpu: Option<usize>) -> super::Result<Vec<u8>> {
    let view = session.view()?;
    let cpus: Vec<_> = cpu.map_or_else(|| Session::cpus(&view).collect(), |cpu| vec![cpu]);
    let table = Arc::clone(&session.table);
    // Before the records: what is written in between is in the buffer, and not overrun.
    let mut stats = Vec::new();
    for cpu in cpus {
        stats.push((cpu, stats_of(session, &view, cpu)?.entries));
    }
    let content = content(session, &view, &table, cpu)?;
    let mut written = 0;
    let mut has_overrun = false;
    for (cpu, entries) in stats {
        written += entries;
        has_overrun |= entries > content.nr_records + session.nr_read[cpu];
    }
    let written = written.max(content.nr_records);
    let mut out = Vec::new();
    let tracer = view.tracers().nth(view.tracer as usize).unwrap_or("nop");
    let plain = is_plain(session);
    if plain {
        header(&mut out, tracer, content.nr_records, written, view.nr_cpus);
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

/// What stands before the records, with the tracer's name.
pub(super) fn header(out: &mut Vec<u8>, tracer: &str, in_buffer: u64, written: u64, nr_cpus: u32) {
    // Writing to a Vec does not fail.
    let _ = write_header(out, tracer, in_buffer, written, nr_cpus);
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
    let content = read(
        &session.guest,
        view,
        &table,
        cpus,
        &session.consumed,
        Reading::GoOn,
    )?;
    session.consumed = content.next;
    let mut out = Vec::new();
    if content.entries.is_empty() {
        return Ok(out);
    }
    let mut names = names(session, view);
    let is_graph = session.tracer()? == "function_graph";
    if is_graph {
        session.graph.show(session.options.graph);
        session
            .graph
            .hide(session.guest.tracer_events("function_graph")?);
    }
    for entry in &content.entries {
        if let Entry::Record(record) = entry {
            session.nr_read[usize::from(record.cpu) % session.nr_read.len()] += 1;
        }
        if is_graph {
            let shown = session.graph.item(&item(entry), &mut names);
            shown.map_err(|error| errno(&error))?;
        } else {
            write_entry(&mut out, session, entry, &mut names);
        }
    }
    out.append(&mut session.graph.out);
    Ok(out)
}

/// What a pipe has still to say at its end: calls whose return did not come.
pub(super) fn pipe_rest(session: &mut Session) -> super::Result<Vec<u8>> {
    let view = session.view()?;
    let names = names(session, &view);
    session.graph.end(&names).map_err(|error| errno(&error))?;
    Ok(std::mem::take(&mut session.graph).out)
}

/// The names of the guest's threads and interrupts as they are now, and of its functions as the options say.
pub(super) fn names(session: &Session, view: &ControlView) -> Names {
    let mut threads = Threads::new(session.guest.nr_idle());
    for (tid, name) in session.guest.threads() {
        threads.name(tid, &name);
    }
    let symbols = Arc::clone(&session.symbols);
    let options = session.options;
    let mut names = Names::new(view.tsc_hz, threads);
    for (vector, name) in session.guest.irqs() {
        names.irqs.set(vector, &name);
    }
    names.offsets = options.sym_offset;
    let names = names.with_symbols(move |address| {
        let (mut name, offset, size) = symbols.find(address)?;
        // Writing to a String does not fail.
        if options.sym_offset {
            let _ = write!(name, "+{offset:#x}/{size:#x}");
        }
        if options.sym_addr {
            let _ = write!(name, " <{address:016x}>");
        }
        Some(name)
    });
    let inlined = Arc::clone(&session.inlined);
    let names = names.with_inlined(move |address| inlined.at(address));
    let names = match session.tracer().as_deref() {
        Ok("sched_switch") => names.with_switches(Switches::new(session.guest.priorities())),
        _ => names,
    };
    if options.print_parent {
        names
    } else {
        names.without_parents()
    }
}

fn item<'t>(entry: &Entry<'t>) -> Item<'t> {
    match entry {
        Entry::Record(record) => Item::Record(record.clone()),
        Entry::Lost { cpu, ts, events } => Item::Lost {
            cpu: *cpu,
            ts: *ts,
            events: *events,
            // Their events are counted.
            sub_buffers: 0,
        },
    }
}

pub(super) fn write_entry(
    out: &mut Vec<u8>,
    session: &Session,
    entry: &Entry<'_>,
    names: &mut Names,
) {
    if let Entry::Record(record) = entry
        && !is_plain(session)
    {
        return format::plain_numbers(out, record, names, session.options);
    }
    // Writing to a Vec does not fail.
    let _ = write_item(out, &item(entry), names);
}

/// The counters of a CPU since the trace was last cleared.
fn stats_of(session: &Session, view: &ControlView, cpu: usize) -> super::Result<Counts> {
    let Some(ring) = session.guest.ring(view, cpu) else {
        return Ok(Counts::default());
    };
    let (now, then) = (counts(&ring, view)?, session.cleared[cpu]);
    Ok(Counts {
        entries: now.entries.saturating_sub(then.entries),
        dropped: now.dropped.saturating_sub(then.dropped),
        commit_overrun: now.commit_overrun.saturating_sub(then.commit_overrun),
    })
}

/// `stats` of a CPU.
pub(super) fn stats(session: &mut Session, cpu: usize) -> super::Result<Vec<u8>> {
    let view = session.view()?;
    let table = Arc::clone(&session.table);
    // Before the records: what is written in between is in the buffer, and not overrun.
    let sums = stats_of(session, &view, cpu)?;
    let content = read(
        &session.guest,
        &view,
        &table,
        [cpu],
        &session.consumed,
        Reading::Look,
    )?;
    let clock = TscClock::new(view.tsc_hz);
    let mut times = content.entries.iter().filter_map(|entry| match entry {
        Entry::Record(record) => Some(record.ts),
        Entry::Lost { .. } => None,
    });
    let oldest = times.next().unwrap_or(0);
    let newest = times.next_back().unwrap_or(oldest);
    // Those of the records that a reader would find, as Linux counts.
    let bytes: u64 = content
        .entries
        .iter()
        .map(|entry| match entry {
            Entry::Record(record) => u64::from(record.len),
            Entry::Lost { .. } => 0,
        })
        .sum();
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
    line("bytes", bytes.to_string());
    line("oldest event ts", seconds(clock.ns(oldest)));
    line("now ts", seconds(clock.ns(view.now.max(newest))));
    line("dropped events", sums.dropped.to_string());
    line("read events", read.to_string());
    Ok(out)
}

fn seconds(ns: u64) -> String {
    format!("{:>5}.{:06}", ns / 1_000_000_000, ns / 1000 % 1_000_000)
}
