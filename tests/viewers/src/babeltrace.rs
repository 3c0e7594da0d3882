//! What `babeltrace2` says of a CTF folder.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result, ensure};

use crate::say;
use crate::text::{Cpus, Entry, Event, STACK, nanoseconds};

/// Reads a folder. The fields of an event are its message, one a line: `name=value`.
///
/// # Errors
///
/// If it fails, or says what is not understood.
pub fn read(dir: &Path) -> Result<Cpus> {
    let dir = dir.to_str().context("a path that is no text")?;
    let (stdout, stderr) = say("babeltrace2", &["--clock-seconds", "--no-delta", dir])?;
    let mut cpus = Cpus::new();
    for line in stdout.lines() {
        let (cpu, event) =
            event_line(line).with_context(|| format!("babeltrace2's line `{line}`"))?;
        cpus.entry(cpu).or_default().push(Entry::Event(event));
    }
    let mut losses: BTreeMap<u8, Vec<Loss>> = BTreeMap::new();
    for line in stderr.lines() {
        let (cpu, loss) = Loss::parse(line).with_context(|| format!("it complains: {line}"))?;
        losses.entry(cpu).or_default().push(loss);
    }
    for (cpu, losses) in losses {
        let lines = cpus.entry(cpu).or_default();
        *lines = interleave(std::mem::take(lines), &losses)?;
    }
    Ok(cpus)
}

/// A warning about what is not there.
struct Loss {
    events: u64,
    packets: u64,
    /// The ends of the packets before and with the loss, in ns.
    from: u64,
    to: u64,
}

impl Loss {
    /// `WARNING: Tracer discarded 762 events between [0.020919363] and [0.021089778] in trace … stream "…/cpu0" …`
    fn parse(line: &str) -> Option<(u8, Self)> {
        let rest = line.strip_prefix("WARNING: Tracer discarded ")?;
        let (count, rest) = rest.split_once(' ')?;
        let count = count.parse().ok()?;
        let (what, rest) = rest.split_once(" between [")?;
        let (from, rest) = rest.split_once("] and [")?;
        let (to, rest) = rest.split_once(']')?;
        let (_, cpu) = rest.split_once("/cpu")?;
        let (cpu, _) = cpu.split_once('"')?;
        let (events, packets) = match what {
            "event" | "events" => (count, 0),
            "packet" | "packets" => (0, count),
            _ => return None,
        };
        let loss = Self {
            events,
            packets,
            from: nanoseconds(from)?,
            to: nanoseconds(to)?,
        };
        Some((cpu.parse().ok()?, loss))
    }
}

/// Puts the losses between the events where their times say that they belong.
fn interleave(events: Vec<Entry>, losses: &[Loss]) -> Result<Vec<Entry>> {
    let mut out = Vec::with_capacity(events.len() + losses.len());
    let mut losses = losses.iter().peekable();
    let mut last = 0;
    let time = |entry: &Entry| match entry {
        Entry::Event(event) => event.ns,
        Entry::Lost { .. } => 0,
    };
    for (at, entry) in events.iter().enumerate() {
        while let Some(loss) = losses.next_if(|loss| loss.to <= time(entry)) {
            add(&mut out, loss, last)?;
        }
        last = time(entry);
        out.push(events[at].clone());
    }
    for loss in losses {
        add(&mut out, loss, last)?;
    }
    Ok(out)
}

fn add(out: &mut Vec<Entry>, loss: &Loss, last: u64) -> Result<()> {
    ensure!(
        loss.from >= last && loss.from <= loss.to,
        "a loss between {} and {}, but an event at {last}",
        loss.from,
        loss.to
    );
    crate::text::add_lost(out, Some(loss.events), loss.packets);
    Ok(())
}

/// `[0.016044571] sched:sched_switch: { cpu_id = 0 }, { pid = 8, task = "main", … }, { prev_comm = "main", … }`
fn event_line(line: &str) -> Option<(u8, Event)> {
    let (time, rest) = line.strip_prefix('[')?.split_once("] ")?;
    let (name, rest) = rest.split_once(": { cpu_id = ")?;
    let (cpu, rest) = rest.split_once(" }, { ")?;
    let (context, fields) = rest.split_once(" }, { ")?;
    let context: BTreeMap<_, _> = members(context)?.into_iter().collect();
    let bit = |name: &str| context.get(name).map(|value| value == "1");
    let irq = match (bit("nmi")?, bit("hardirq")?) {
        (true, true) => 'Z',
        (true, false) => 'z',
        (false, true) => 'h',
        (false, false) => '.',
    };
    let dot = |is_set, letter| if is_set { letter } else { '.' };
    let depth: u32 = context.get("preempt_depth")?.parse().ok()?;
    let depth = match depth {
        0 => '.',
        depth => char::from_digit(depth, 16)?,
    };
    let fields = members(fields.strip_suffix(" }")?)?;
    let fields: Vec<_> = fields
        .iter()
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    let event = Event {
        ns: nanoseconds(time)?,
        task: context.get("task")?.clone(),
        pid: context.get("pid")?.parse().ok()?,
        flags: [
            dot(bit("irqs_off")?, 'd'),
            dot(bit("need_resched")?, 'N'),
            irq,
            depth,
        ]
        .iter()
        .collect(),
        name: name.rsplit(':').next()?.to_owned(),
        message: fields.join("\n"),
    };
    Some((cpu.parse().ok()?, event))
}

/// `a = 1, b = "x", c = ( "S" : container = 1 ), d = [ [0] = 1, [1] = 2 ]`: names and values, of an enumeration the
/// name, of an array `[1\t2]`.
fn members(text: &str) -> Option<Vec<(String, String)>> {
    let mut found = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let (name, value) = rest.split_once(" = ")?;
        if let Some(array) = value.strip_prefix("[ ") {
            let (elements, after) = elements(array)?;
            found.push((name.to_owned(), format!("[{}]", elements.join("\t"))));
            rest = after.strip_prefix(", ").unwrap_or(after);
            continue;
        }
        let (value, after) = if let Some(value) = value.strip_prefix('"') {
            let (value, after) = value.split_once('"')?;
            (value, after)
        } else if let Some(value) = value.strip_prefix("( \"") {
            let (value, after) = value.split_once('"')?;
            let (_, after) = after.split_once(')')?;
            (value, after)
        } else {
            value.split_at(value.find(',').unwrap_or(value.len()))
        };
        found.push((name.to_owned(), value.to_owned()));
        rest = after.strip_prefix(", ").unwrap_or(after);
    }
    Some(found)
}

/// `[0] = 1, [1] = "x" ]…`: the values, and what is behind.
fn elements(text: &str) -> Option<(Vec<String>, &str)> {
    let mut found = Vec::new();
    let mut rest = text;
    loop {
        if let Some(after) = rest.strip_prefix(']') {
            return Some((found, after));
        }
        let (_, value) = rest.split_once("] = ")?;
        let (value, after) = match value.strip_prefix('"') {
            Some(value) => value.split_once('"')?,
            None => value.split_at(value.find([',', ' '])?),
        };
        found.push(value.to_owned());
        rest = after.trim_start_matches([',', ' ']);
    }
}

/// Whether the functions of a stack, one a line, are those of an array of symbols, which have offsets.
fn is_same_stack(ours: &str, symbols: Option<&&str>) -> bool {
    let inside = symbols.and_then(|text| text.strip_prefix('[')?.strip_suffix(']'));
    let symbols = inside
        .unwrap_or_default()
        .split('\t')
        .filter(|it| !it.is_empty());
    let function = |symbol: &str| match symbol.rsplit_once("+0x") {
        Some((function, _)) => function.to_owned(),
        None => symbol.to_owned(),
    };
    ours.lines().map(str::to_owned).eq(symbols.map(function))
}

/// Whether `{0x1,0xff}` has the numbers of `[1\t-1]`, which may be signed.
fn is_same_array(ours: &str, theirs: &str) -> bool {
    let ours = ours.strip_prefix('{').and_then(|ours| ours.split_once('}'));
    let ours = ours.map_or("", |(inside, _)| inside);
    let ours: Vec<_> = ours.split(',').filter(|it| !it.is_empty()).collect();
    let theirs: Vec<_> = theirs.split('\t').filter(|it| !it.is_empty()).collect();
    let number = |text: &str| match text.strip_prefix("0x") {
        Some(digits) => i128::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    };
    let is_same = |(ours, theirs): (&&str, &&str)| match (number(ours), number(theirs)) {
        (Some(ours), Some(theirs @ ..0)) => [8, 16, 32, 64]
            .into_iter()
            .any(|bits| ours == theirs + (1 << bits)),
        (Some(ours), Some(theirs)) => ours == theirs,
        // Symbols.
        _ => ours == theirs,
    };
    ours.len() == theirs.len() && ours.iter().zip(&theirs).all(is_same)
}

/// Whether a line of ours and one of babeltrace2's say the same. Each field that our text names must have the same value
/// there.
pub fn is_same(ours: &Entry, theirs: &Entry) -> bool {
    match (ours, theirs) {
        (Entry::Event(ours), Entry::Event(theirs)) => {
            let fields: BTreeMap<_, _> = theirs
                .message
                .lines()
                .filter_map(|line| line.split_once('='))
                .collect();
            let are_fields_same = fields.iter().all(|(name, value)| {
                // An address is shown by its symbol.
                let value = fields
                    .get(format!("{name}_symbol").as_str())
                    .unwrap_or(value);
                shows(&ours.message, name, value)
            });
            let without_message = |event: &Event| Event {
                message: String::new(),
                ..event.clone()
            };
            if ours.name == STACK {
                return is_same_stack(&ours.message, fields.get("caller_symbol"))
                    && without_message(ours) == without_message(theirs);
            }
            are_fields_same && without_message(ours) == without_message(theirs)
        }
        (
            Entry::Lost {
                events,
                sub_buffers,
                after,
            },
            Entry::Lost {
                events: seen,
                sub_buffers: packets,
                after: seen_after,
            },
        ) => events == seen && sub_buffers == packets && after == seen_after,
        _ => false,
    }
}

/// Whether a message that has `name=…` has this value there. Numbers may have leading zeros.
fn shows(message: &str, name: &str, value: &str) -> bool {
    let key = format!("{name}=");
    let is_name = |c: char| c.is_alphanumeric() || c == '_';
    let mut places = message
        .match_indices(&key)
        .filter(|(at, _)| !message[..*at].ends_with(is_name));
    let Some((at, _)) = places.next() else {
        return true;
    };
    let shown = &message[at + key.len()..];
    if let Some(array) = value
        .strip_prefix('[')
        .and_then(|value| value.strip_suffix(']'))
    {
        return is_same_array(shown, array);
    }
    if let Some(digits) = value.strip_prefix("0x") {
        // Theirs are capital letters.
        let ours = shown.strip_prefix("0x").unwrap_or(shown);
        let ours = &ours[..ours
            .find(|c: char| !c.is_ascii_hexdigit())
            .unwrap_or(ours.len())];
        return ours.eq_ignore_ascii_case(digits);
    }
    let is_number = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit());
    let shown = match is_number {
        true => {
            let digits = shown.find(|c: char| !c.is_ascii_digit());
            let (digits, _) = shown.split_at(digits.unwrap_or(shown.len()));
            return digits.parse::<u64>().ok() == value.parse::<u64>().ok();
        }
        false => shown,
    };
    shown
        .strip_prefix(value)
        .is_some_and(|rest| !rest.starts_with(is_name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_are_taken_apart_and_compared() {
        let found = members(r#"a = [ [0] = 1, [1] = -8 ], b = [ ], c = [ [0] = "x y" ], d = 5"#);
        let found = found.unwrap();
        let values: Vec<_> = found.iter().map(|(_, value)| value.as_str()).collect();
        assert_eq!(values, ["[1\t-8]", "[]", "[x y]", "5"]);
        let message = "a={0x1,0xf8} b={} c={x y} d=5";
        assert!(
            found
                .iter()
                .all(|(name, value)| shows(message, name, value))
        );
        for other in ["a={0x1,0xf9}", "a={0x1}", "b={0x0}", "c={x z}"] {
            assert!(
                !found.iter().all(|(name, value)| shows(other, name, value)),
                "{other}"
            );
        }
        assert!(is_same_stack("f\ng", Some(&"[f+0x2/0x5\tg+0x1/0x2]")));
        assert!(!is_same_stack("f\ng", Some(&"[f+0x2/0x5]")));
        assert!(!is_same_stack("f", None));
    }
}
