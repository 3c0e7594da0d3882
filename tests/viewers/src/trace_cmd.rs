//! What `trace-cmd report` says of a `trace.dat`.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result, ensure};

use crate::say;
use crate::text::{Cpus, Entry, Event, STACK, add_function, add_lost, nanoseconds};

/// Characters of a thread's name in the columns with flags.
const TASK: usize = 8;

/// Reads a file in every way that finds fault with it.
///
/// # Errors
///
/// If it fails, or says what is not understood.
pub fn read(file: &Path) -> Result<Cpus> {
    let file = file.to_str().context("a path that is no text")?;
    let (stdout, stderr) = say("trace-cmd", &["report", "-i", file, "--check-events"])?;
    ensure!(
        stdout.is_empty() && stderr.is_empty(),
        "trace-cmd report --check-events: {stdout}{stderr}"
    );
    // Without its plugins, which have formats of their own for the scheduler's events.
    let args = ["report", "-i", file, "-N", "-t", "-l", "--ts-check"];
    let (stdout, stderr) = say("trace-cmd", &args)?;
    ensure!(stderr.is_empty(), "trace-cmd report: {stderr}");
    let mut cpus = Cpus::new();
    for line in stdout.lines() {
        let what = || format!("trace-cmd's line `{line}`");
        if line.starts_with("cpus=") || (line.starts_with("CPU ") && line.ends_with(" is empty")) {
            continue;
        }
        if let Some(lost) = line.strip_prefix("CPU:") {
            let (cpu, events) = lost_line(lost).with_context(what)?;
            add_lost(cpus.entry(cpu).or_default(), events, 0);
            continue;
        }
        let (cpu, event) = event_line(line).with_context(what)?;
        let lines = cpus.entry(cpu).or_default();
        if event.name == "lost" {
            let (events, sub_buffers) = lost_event(&event.message).with_context(what)?;
            add_lost(lines, (sub_buffers == 0).then_some(events), 0);
        } else {
            lines.push(Entry::Event(event));
        }
    }
    name_functions(file, &mut cpus)?;
    Ok(cpus)
}

/// Asks for the stacks again, with the plugin that shows their functions by name.
fn name_functions(file: &str, cpus: &mut Cpus) -> Result<()> {
    let is_stack = |entry: &Entry| matches!(entry, Entry::Event(event) if event.name == STACK);
    if !cpus.values().flatten().any(is_stack) {
        return Ok(());
    }
    let args = ["report", "-i", file, "-t", "-l", "-F", STACK];
    let (stdout, stderr) = say("trace-cmd", &args)?;
    ensure!(stderr.is_empty(), "trace-cmd report -F {STACK}: {stderr}");
    let mut stacks: BTreeMap<u8, Vec<Event>> = BTreeMap::new();
    let mut last = 0;
    for line in stdout.lines() {
        let what = || format!("trace-cmd's line `{line}`");
        if let Some(function) = line.strip_prefix("=> ") {
            let (function, _) = function.rsplit_once(" (").with_context(what)?;
            let stack = stacks.get_mut(&last).and_then(|stacks| stacks.last_mut());
            let stack = stack.with_context(what)?;
            add_function(&mut stack.message, &function.replace('\u{a0}', " "));
        } else if line.contains(STACK) {
            let (cpu, mut event) = event_line(line).with_context(what)?;
            event.message.clear();
            last = cpu;
            stacks.entry(cpu).or_default().push(event);
        }
    }
    for (cpu, lines) in cpus {
        let mut named = stacks.remove(cpu).unwrap_or_default().into_iter();
        for entry in lines.iter_mut().filter(|entry| is_stack(entry)) {
            *entry = Entry::Event(named.next().context("a stack that has no functions")?);
        }
        ensure!(named.next().is_none(), "more stacks than there are");
    }
    Ok(())
}

/// Arrays as libtraceevent shows them: `{0x1,0xf}` is `1 15`.
fn with_plain_arrays(message: &str) -> String {
    let mut out = String::new();
    let mut rest = message;
    while let Some((before, from)) = rest.split_once('{') {
        out.push_str(before);
        let numbers = from.split_once('}').and_then(|(inside, after)| {
            let number = |text: &str| u64::from_str_radix(text.strip_prefix("0x")?, 16).ok();
            let elements = inside.split(',').filter(|element| !element.is_empty());
            let numbers: Option<Vec<_>> = elements.map(number).collect();
            Some((numbers?, after))
        });
        match numbers {
            Some((numbers, after)) => {
                let numbers: Vec<_> = numbers.iter().map(u64::to_string).collect();
                out.push_str(&numbers.join(" "));
                rest = after;
            }
            None => {
                out.push('{');
                rest = from;
            }
        }
    }
    out + rest
}

/// `0 [17 EVENTS DROPPED]`, or without the number.
fn lost_line(line: &str) -> Option<(u8, Option<u64>)> {
    let (cpu, rest) = line.split_once(" [")?;
    let count = rest.strip_suffix("EVENTS DROPPED]")?.trim();
    let events = match count {
        "" => None,
        count => Some(count.parse().ok()?),
    };
    Some((cpu.parse().ok()?, events))
}

/// `events=17 sub_buffers=0`: a loss at the end.
fn lost_event(message: &str) -> Option<(u64, u64)> {
    let (events, sub_buffers) = message.strip_prefix("events=")?.split_once(' ')?;
    let sub_buffers = sub_buffers.strip_prefix("sub_buffers=")?;
    Some((events.parse().ok()?, sub_buffers.parse().ok()?))
}

/// `    main-8       0d....     0.016044571: irq_disable:          caller=x`; the fifth flag is the lock depth.
fn event_line(line: &str) -> Option<(u8, Event)> {
    let is_at = |(at, c): &(usize, char)| *c == '-' && line[..*at].chars().count() >= TASK;
    let (dash, _) = line.char_indices().find(is_at)?;
    let (pid, rest) = line[dash + 1..].split_once(' ')?;
    let rest = rest.trim_start();
    let (cpu, rest) = rest.split_at(rest.find(|c: char| !c.is_ascii_digit())?);
    let (flags, rest) = rest.split_at_checked(4)?;
    let (_, rest) = rest.split_once(' ')?;
    let (time, rest) = rest.split_once(": ")?;
    let (name, message) = rest.split_once(':')?;
    let event = Event {
        ns: nanoseconds(time)?,
        task: line[..dash].trim().to_owned(),
        pid: pid.parse().ok()?,
        flags: flags.to_owned(),
        name: name.trim().to_owned(),
        // Names of functions have no-break spaces, see the export.
        message: message.trim().replace('\u{a0}', " "),
    };
    Some((cpu.parse().ok()?, event))
}

/// Whether a line of ours and one of trace-cmd's say the same, as far as trace-cmd can say it.
pub fn is_same(ours: &Entry, theirs: &Entry) -> bool {
    match (ours, theirs) {
        (Entry::Event(ours), Entry::Event(theirs)) => {
            // A name that our text does not know yet is in the file, which has each thread's last name.
            let task = match ours.task.as_str() {
                "<...>" => &theirs.task,
                task => task,
            };
            let cut: String = task.chars().take(TASK).collect();
            // It shows no NMI.
            let flags = ours.flags.replace('Z', "h").replace('z', ".");
            let task = cut.trim();
            *theirs
                == Event {
                    task: task.to_owned(),
                    flags,
                    message: with_plain_arrays(&ours.message),
                    ..ours.clone()
                }
        }
        (
            Entry::Lost {
                events,
                sub_buffers,
                after,
            },
            Entry::Lost {
                events: counted,
                after: seen_after,
                ..
            },
        ) => {
            // Nobody knows how many events were in a sub-buffer that is lost.
            let expected = events.filter(|_| *sub_buffers == 0);
            expected == *counted && after == seen_after
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::with_plain_arrays;

    #[test]
    fn arrays_become_plain_numbers() {
        assert_eq!(
            with_plain_arrays("a={0x1,0xff} b={} c={foo} d=0x1"),
            "a=1 255 b= c={foo} d=0x1"
        );
    }
}
