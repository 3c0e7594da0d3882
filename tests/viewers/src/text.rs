//! The lines of ftrace's text, taken apart.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail};

/// The lines of each CPU.
pub type Cpus = BTreeMap<u8, Vec<Entry>>;

/// A line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    /// An event.
    Event(Event),
    /// Something is missing; what is missing in one place is one entry.
    Lost {
        /// The number of events, if it is known.
        events: Option<u64>,
        /// Sub-buffers.
        sub_buffers: u64,
        /// When the event before it was, in ns; 0 if there is none.
        after: u64,
    },
}

/// An event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// When.
    pub ns: u64,
    /// Whose.
    pub task: String,
    /// Its number.
    pub pid: u32,
    /// The four columns.
    pub flags: String,
    /// Its name.
    pub name: String,
    /// Of a stack its functions, one a line.
    pub message: String,
}

/// The name of the event that is a text.
const PRINT: &str = "print";

/// The name of the event that is a stack.
pub const STACK: &str = "kernel_stack";

impl Entry {
    /// Events that are missing.
    #[must_use]
    pub fn lost_events(&self) -> u64 {
        match self {
            Self::Lost { events, .. } => events.unwrap_or(0),
            Self::Event(_) => 0,
        }
    }

    /// Sub-buffers that are missing.
    #[must_use]
    pub fn lost_sub_buffers(&self) -> u64 {
        match self {
            Self::Lost { sub_buffers, .. } => *sub_buffers,
            Self::Event(_) => 0,
        }
    }
}

/// Adds what is lost to the CPU's lines.
pub fn add_lost(lines: &mut Vec<Entry>, more: Option<u64>, more_subs: u64) {
    if let Some(Entry::Lost {
        events,
        sub_buffers,
        ..
    }) = lines.last_mut()
    {
        *events = events.zip(more).map(|(one, other)| one + other);
        *sub_buffers += more_subs;
        return;
    }
    let after = match lines.last() {
        Some(Entry::Event(event)) => event.ns,
        _ => 0,
    };
    lines.push(Entry::Lost {
        events: more,
        sub_buffers: more_subs,
        after,
    });
}

/// Our own text.
pub fn parse(text: &str) -> Result<Cpus> {
    let mut cpus = Cpus::new();
    let mut last_cpu = 0;
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let what = || format!("our line `{line}`");
        if let Some(function) = line.strip_prefix(" => ") {
            let event = match cpus.get_mut(&last_cpu).and_then(|lines| lines.last_mut()) {
                Some(Entry::Event(event)) if event.name == STACK => event,
                _ => bail!("a function without a stack: {function}"),
            };
            // What is inlined is known to whoever has the image, and no part of the record.
            if !function.ends_with(" (inlined)") {
                add_function(&mut event.message, function);
            }
            continue;
        }
        if let Some(lost) = line.strip_prefix("CPU:") {
            let (cpu, events, sub_buffers) = lost_line(lost).with_context(what)?;
            add_lost(cpus.entry(cpu).or_default(), Some(events), sub_buffers);
        } else {
            let (cpu, event) = event_line(line).with_context(what)?;
            last_cpu = cpu;
            cpus.entry(cpu).or_default().push(Entry::Event(event));
        }
    }
    Ok(cpus)
}

/// Adds a function to a stack's message.
pub fn add_function(message: &mut String, function: &str) {
    if !message.is_empty() {
        message.push('\n');
    }
    message.push_str(function);
}

/// `0 [LOST 5 EVENTS]`
fn lost_line(line: &str) -> Option<(u8, u64, u64)> {
    let (cpu, rest) = line.split_once(" [LOST ")?;
    let (count, what) = rest.strip_suffix(']')?.split_once(' ')?;
    let count = count.parse().ok()?;
    let cpu = cpu.parse().ok()?;
    match what {
        "EVENTS" => Some((cpu, count, 0)),
        "SUB-BUFFERS" => Some((cpu, 0, count)),
        _ => None,
    }
}

/// `  main-8  [000] d...  0.016044571: irq_disable: caller=x`
fn event_line(line: &str) -> Option<(u8, Event)> {
    let (who, rest) = line.split_once(" [")?;
    let (task, pid) = who.trim().rsplit_once('-')?;
    let (cpu, rest) = rest.split_once("] ")?;
    let (flags, rest) = rest.split_at_checked(4)?;
    let (time, rest) = rest.split_once(": ")?;
    let (name, message) = match rest {
        "<stack trace>" => (STACK, ""),
        // As in Linux it has the name of a function before it instead of its own.
        text if text.starts_with("tracing_mark_write: ") => (PRINT, text),
        rest => rest.split_once(':')?,
    };
    let event = Event {
        ns: nanoseconds(time)?,
        task: task.to_owned(),
        pid: pid.trim().parse().ok()?,
        flags: flags.to_owned(),
        name: name.to_owned(),
        message: message.trim().to_owned(),
    };
    Some((cpu.parse().ok()?, event))
}

/// Seconds with nine decimals.
pub fn nanoseconds(text: &str) -> Option<u64> {
    let (seconds, decimals) = text.trim().split_once('.')?;
    if decimals.len() != 9 {
        return None;
    }
    Some(seconds.parse::<u64>().ok()? * 1_000_000_000 + decimals.parse::<u64>().ok()?)
}
