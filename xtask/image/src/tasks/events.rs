//! Events of tasks: each task's ELF file declares its own, and the image gets one for all of a name, as if the kernel declared it.
//! So they have ids that nobody else has, and whoever knows events knows them.

use std::fmt::Write;

use anyhow::{Context, Result, bail, ensure};
use object::{Object, ObjectSection, ObjectSymbol};
use takt_base::term;
use takt_decode::ftrace::Format;
use takt_decode::{EventDef, EventTable, FieldType};
use takt_tracer::wire::MAX_BYTES;

use super::pack::Program;

/// The event that the tracer's own crate brings along.
const CLOCK: &str = "event takt:clock\n";
/// What the classes of tasks' events begin with in an image.
const CLASS: &str = "task_";

/// Systems of the kernel's events, those that an image may lack included.
const SYSTEMS: [&str; 11] = [
    "ftrace",
    "irq",
    "mutex",
    "osnoise",
    "preemptirq",
    "sched",
    "takt",
    "task",
    "timer",
    "timerlat",
    "tracer",
];
/// Files of tracefs beside those of systems and events, and what it writes of itself.
const FILES: [&str; 5] = [
    "enable",
    "filter",
    "header_event",
    "header_page",
    "tracing_mark_write",
];
/// Longest name, and longest description of an event, in bytes.
const MAX_NAME: usize = 64;
const MAX_TEXT: usize = 16 << 10;
/// Longest record in ftrace's view, in bytes: a page of trace.dat has 4096, with heads of its own and the record's.
const MAX_RECORD: usize = 4000;
/// So many bytes a byte of a text is there, at most: what is no UTF-8 is replaced.
const REPLACED: usize = 3;

/// The events of a task.
#[derive(Default)]
pub(super) struct Events {
    /// Where it has their flags.
    pub(super) at: u64,
    /// In the order of these.
    list: Vec<Event>,
}

struct Event {
    /// The description, as it stands in the image.
    text: String,
    def: EventDef,
}

impl Events {
    /// Those that an ELF file declares.
    ///
    /// # Errors
    ///
    /// If one cannot be a task's, or the file makes no sense.
    pub(super) fn read(file: &[u8]) -> Result<Self> {
        let file = object::File::parse(file)?;
        // Other symbols of that name are the task's own matter.
        let symbol = |name| {
            let mut symbols = file.symbols();
            let symbol = symbols.find(|it| it.is_global() && it.name() == Ok(name));
            symbol.map(|it| it.address())
        };
        let (Some(at), Some(end)) = (symbol("takt_events_start"), symbol("takt_events_end")) else {
            bail!("it was not linked by task.ld");
        };
        let section = file.section_by_name(".takt.meta");
        let mut rest = section.map_or(Ok(&[][..]), |it| it.data())?;
        let mut texts = places(at, end, rest.len())?;
        while let Some((id, text)) = entry(&mut rest)? {
            let number = id.checked_sub(at).map(|it| it as usize / 2);
            match number.and_then(|it| texts.get_mut(it)) {
                // The decoder knows some classes by their names, which are the kernel's.
                Some(place) => *place = text.replacen("\nclass ", &format!("\nclass {CLASS}"), 1),
                None if text.starts_with(CLOCK) => {}
                None => bail!(
                    "a task's events have layout `wide`: {:?}",
                    text.lines().next().unwrap_or_default()
                ),
            }
        }
        let list = texts.into_iter().map(Event::read).collect::<Result<_>>()?;
        Ok(Self { at, list })
    }
}

/// Room for the descriptions of the events that have their flags here, and the descriptions so many bytes.
fn places(at: u64, end: u64, described: usize) -> Result<Vec<String>> {
    let nr = end.saturating_sub(at) / 2;
    ensure!(
        nr <= described as u64 / 16,
        "it has {nr} events, and descriptions of {described} bytes"
    );
    Ok(vec![String::new(); nr as usize])
}

/// The first entry of a section `.takt.meta`, and what is behind it.
fn entry<'b>(bytes: &mut &'b [u8]) -> Result<Option<(u64, &'b str)>> {
    loop {
        let Some((id, rest)) = bytes.split_first_chunk() else {
            return Ok(None);
        };
        *bytes = rest;
        let id = u64::from_le_bytes(*id);
        // Filled up by the linker.
        if id == 0 {
            continue;
        }
        let text = || {
            let (len, rest) = rest.split_first_chunk()?;
            let len = u64::from_le_bytes(*len) as usize;
            let text = core::str::from_utf8(rest.get(..len)?).ok()?;
            Some((text, rest.get(len.next_multiple_of(8)..)?))
        };
        let (text, rest) = text().context("a description of an event is cut")?;
        *bytes = rest;
        return Ok(Some((id, text)));
    }
}

impl Event {
    fn read(text: String) -> Result<Self> {
        const ID: u32 = 1;
        ensure!(
            text.len() <= MAX_TEXT,
            "an event's description has more than {MAX_TEXT} bytes"
        );
        if let Some(it) = (text.chars()).find(|it| *it != '\n' && term::is_control(*it)) {
            bail!("an event's description has the character {it:?}: {text:?}");
        }
        let mut section = u64::from(ID).to_le_bytes().to_vec();
        section.extend((text.len() as u64).to_le_bytes());
        section.extend(text.as_bytes());
        let table = EventTable::parse(&section).context("an event cannot be read")?;
        let def = table.get(ID).context("an event without a description")?;
        ensure!(
            def.class.starts_with(CLASS),
            "an event's class is not a task's: {}",
            def.class
        );
        check_names(def)?;
        let size = Format::new(def).size + REPLACED * MAX_BYTES;
        ensure!(
            size <= MAX_RECORD,
            "a record of the event `{}` has up to {size} bytes for other tools, which have room for {MAX_RECORD}",
            def.name
        );
        Ok(Self {
            def: def.clone(),
            text,
        })
    }
}

/// Looks at what an event and its parts are called: it stands in names of files, in formats of other tools and in lines beside the
/// kernel's.
fn check_names(event: &EventDef) -> Result<()> {
    let is_name = |text: &str| {
        let is_part = |it: u8| it.is_ascii_alphanumeric() || it == b'_';
        (1..=MAX_NAME).contains(&text.len()) && text.bytes().all(is_part)
    };
    let (system, name) = (event.name.split_once(':'))
        .with_context(|| format!("an event's name is system:event, not {:?}", event.name))?;
    ensure!(
        !SYSTEMS.contains(&system),
        "the event `{name}` is in `{system}`, where the kernel's are"
    );
    for part in [system, name] {
        ensure!(
            !FILES.contains(&part),
            "the event `{system}:{name}` is called as a file of tracefs: {part}"
        );
    }
    let fields = event.fields.iter().map(|it| &*it.name);
    for part in [system, name, &event.class].into_iter().chain(fields) {
        ensure!(
            is_name(part),
            "a name of an event has 1 to {MAX_NAME} of A-Z, a-z, 0-9 and _: {part:?}"
        );
    }
    for field in &event.fields {
        ensure!(
            !field.name.starts_with(|it: char| it.is_ascii_digit()),
            "a field's name begins with a letter or _: {:?}",
            field.name
        );
        if let FieldType::Str(Some(max)) = field.ty {
            ensure!(
                usize::from(max) <= MAX_BYTES,
                "the field `{}` of the event `{}` has up to {max} bytes, and records have {MAX_BYTES}",
                field.name,
                event.name
            );
        }
    }
    Ok(())
}

/// Declares the events of all tasks, as Rust; the events of each are so many of the array `EVENTS`, one task's behind the other's.
///
/// # Errors
///
/// If two tasks have different ones of the same name.
pub(super) fn declare(programs: &[Program]) -> Result<String> {
    let mut known: Vec<&Event> = Vec::new();
    let (mut statics, mut all) = (String::new(), String::new());
    for (task, program) in programs.iter().enumerate() {
        let (data, len) = program.data();
        let flags = program.events.at.wrapping_sub(data);
        // The kernel writes there.
        ensure!(
            program.events.list.is_empty()
                || flags.saturating_add(2 * program.events.list.len() as u64) <= len,
            "a task has the flags of its events outside of its data"
        );
        for (place, event) in program.events.list.iter().enumerate() {
            let name = &event.def.name;
            let number = known.iter().position(|it| it.def.name == *name);
            let number = number.unwrap_or(known.len());
            if number == known.len() {
                known.push(event);
                write!(
                    statics,
                    "#[unsafe(link_section = {section:?})]\nstatic EVENT_{number}: takt_board::tasks::tracer::event::Symbol<2> = takt_board::tasks::tracer::event::Symbol::new();\n\
                     fn event_{number}() -> bool {{ takt_kernel::static_branch!(EVENT_{number}) }}\n\
                     const _: () = {{\n    use takt_board::tasks::tracer::event::{{Meta, text_len}};\n    const PARTS: &[&str] = &[{text:?}];\n    \
                     #[used]\n    #[unsafe(link_section = \".takt.meta\")]\n    \
                     static META: Meta<{{ text_len(PARTS) }}> = Meta::new(&EVENT_{number}, PARTS);\n}};\n",
                    section = format!(".takt.id.wide.1.{name}"),
                    text = event.text,
                )?;
            }
            ensure!(
                known[number].text == event.text,
                "two tasks have different events `{name}`"
            );
            writeln!(
                all,
                "    takt_kernel::task::Event {{ id: &EVENT_{number}, is_on: event_{number}, words: {}, has_bytes: {}, \
                 memory: MEMORY_{task}.cell(), flag: {:#x} }},",
                event.def.words,
                event.def.has_dynamic(),
                flags + 2 * place as u64,
            )?;
        }
    }
    let nr: usize = programs.iter().map(|it| it.events.list.len()).sum();
    Ok(format!(
        "{statics}static EVENTS: [takt_kernel::task::Event; {nr}] = [\n{all}];\n"
    ))
}

/// Which of [`declare`]'s a task has, as Rust.
pub(super) fn of(programs: &[Program], task: usize) -> String {
    let nr =
        |programs: &[Program]| -> usize { programs.iter().map(|it| it.events.list.len()).sum() };
    let before = nr(&programs[..task]);
    let own = nr(&programs[task..=task]);
    format!("EVENTS.split_at({before}).1.split_at({own}).0")
}

/// Looks whether an event of a task is called as another one of the image: the whole name, or behind the colon, which lines of the
/// trace show, as one of the kernel's.
///
/// # Errors
///
/// Which.
pub(super) fn check(table: &EventTable) -> Result<()> {
    let is_tasks = |it: &&EventDef| it.class.starts_with(CLASS) && !SYSTEMS.contains(&it.system());
    for event in table.iter().filter(is_tasks) {
        let same = |it: &&EventDef| {
            it.id != event.id
                && (it.name == event.name || !is_tasks(it) && it.event() == event.event())
        };
        if let Some(other) = table.iter().find(same) {
            bail!(
                "a task has an event `{}`, and the kernel has `{}`",
                event.name,
                other.name
            );
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn described(id: u64, text: &str) -> Vec<u8> {
        let mut bytes = [id.to_le_bytes(), (text.len() as u64).to_le_bytes()].concat();
        bytes.extend(text.as_bytes());
        bytes.resize(bytes.len().next_multiple_of(8), 0);
        bytes
    }

    const TEXT: &str =
        "event a:b\nclass task_c\nlayout wide\nfield x 32 u\nfield y * str\nprint x={x} {y}\n";

    #[test]
    fn descriptions_are_found_one_behind_the_other() {
        let all = [described(7, TEXT), vec![0; 16], described(9, "event")].concat();
        let mut rest = &all[..];
        assert_eq!(entry(&mut rest).unwrap(), Some((7, TEXT)));
        assert_eq!(entry(&mut rest).unwrap(), Some((9, "event")));
        assert_eq!(entry(&mut rest).unwrap(), None);
        for end in 8..all.len() - 8 {
            let mut rest = &all[..end];
            // Cut or not: no panic.
            while let Ok(Some(_)) = entry(&mut rest) {}
        }
        let mut long = &described(7, TEXT)[..];
        let mut huge = long.to_vec();
        huge[8..16].fill(0xff);
        assert!(entry(&mut &huge[..]).is_err());
        assert!(entry(&mut long).is_ok());
    }

    #[test]
    fn what_an_event_consists_of_is_read_and_what_is_none_is_refused() {
        let event = Event::read(TEXT.to_owned()).unwrap();
        assert_eq!(
            (
                event.def.name.as_str(),
                event.def.words,
                event.def.has_dynamic()
            ),
            ("a:b", 1, true)
        );
        for text in ["", "event a:b\n", &TEXT.replace("wide", "core8")] {
            assert!(Event::read(text.to_owned()).is_err(), "{text}");
        }
    }

    #[test]
    fn what_an_event_is_called_does_nothing_to_who_reads_it() {
        let with = |from: &str, to: &str| Event::read(TEXT.replacen(from, to, 1)).map(drop);
        with("a:b", &format!("{}:b", "a".repeat(MAX_NAME))).unwrap();
        with("print x", "print \u{b5}s x").unwrap();
        with("* str", "* str(512)").unwrap();
        for (from, to) in [
            ("a:b", "b"),
            ("a:b", ":b"),
            ("a:b", "../\x1b[31m..:e/v"),
            ("a:b", "a:b:c"),
            ("a:b", "task:b"),
            ("a:b", "enable:b"),
            ("a:b", "a:tracing_mark_write"),
            ("a:b", &format!("{}:b", "a".repeat(MAX_NAME + 1))),
            ("task_c", "task_\"c"),
            ("field y", "field y\";"),
            ("field x", "field 1x"),
            ("print x", "print \x1b[31mx"),
            ("print x", "print x\rx"),
            ("print x", &format!("print {}x", "x".repeat(MAX_TEXT))),
            ("* str", "* str(513)"),
        ] {
            assert!(with(from, to).is_err(), "{to}");
        }
    }

    #[test]
    fn a_record_has_room_in_a_page_of_other_tools() {
        // A bit that is shown as the name of a thread and as that of an interrupt.
        let read = |nr| {
            let all = |part: &dyn Fn(usize) -> String| (0..nr).map(part).collect::<String>();
            let fields = all(&|it| format!("field x{it} 1 u\n"));
            let print = all(&|it| format!("{{x{it}:comm}}{{x{it}:name}}"));
            Event::read(format!(
                "event a:b\nclass task_c\nlayout wide\n{fields}print {print}\n"
            ))
        };
        read(32).unwrap();
        let error = read(64).map(drop).unwrap_err().to_string();
        assert!(error.contains("4000"), "{error}");
    }

    #[test]
    fn as_many_events_as_are_described() {
        assert_eq!(places(0x1000, 0x1004, 400).unwrap().len(), 2);
        for end in [0x1000 + 2 * 26, 0x7fff_ffff_ffff_fff0] {
            assert!(places(0x1000, end, 400).is_err(), "{end:#x}");
        }
    }

    #[test]
    fn a_tasks_event_is_not_called_as_one_of_the_kernels() {
        let table = |events: &[(u64, &str, &str)]| {
            let all = events.iter().map(|(id, name, class)| {
                described(*id, &format!("event {name}\nclass {class}\nlayout wide\n"))
            });
            EventTable::parse(&all.collect::<Vec<_>>().concat()).unwrap()
        };
        let kernels = (1, "task:task_fault", "task_fault");
        check(&table(&[
            kernels,
            (3, "a:b", "task_c"),
            (5, "b:b", "task_c"),
        ]))
        .unwrap();
        let image = (1, "demo:lamp", "lamp");
        for (first, second) in [
            (kernels, "x:task_fault"),
            (image, "y:lamp"),
            (image, "demo:lamp"),
            ((1, "x:y", "task_c"), "x:y"),
        ] {
            let error = check(&table(&[first, (3, second, "task_c")])).unwrap_err();
            assert!(error.to_string().contains(second), "{error}");
        }
    }
}
