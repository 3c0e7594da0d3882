//! The event table, from the bytes of section `.takt.meta`.

use std::collections::BTreeMap;

use super::MetaError;
use super::template::Template;
use super::types::{FieldType, number};
use takt_tracer::event::{Kind, Layout, Place, Placer};
use takt_tracer::wire::{CLOCK_ID, Event, MAX_BYTES, event_of, u64_at};

/// All events of an image, by id.
#[derive(Clone, Debug, Default)]
pub struct EventTable {
    /// By ascending id.
    events: Vec<EventDef>,
    /// By id: one more than the event's place, or 0. An id has 16 bits.
    places: Vec<u16>,
}

/// What the metadata says about an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventDef {
    /// Its id.
    pub id: u32,
    /// Its name, `system:event`.
    pub name: String,
    /// Its class.
    pub class: String,
    /// How the word of its records is divided.
    pub layout: Layout,
    /// Its fields, in the order of the class.
    pub fields: Vec<FieldDef>,
    /// When exactly it is emitted.
    pub doc: String,
    /// What the decoder itself makes of it.
    pub role: Role,
    /// Number of extra words.
    pub words: usize,
    /// Where in the name the part after the colon begins.
    event_at: usize,
    pub(super) print: Template,
}

/// A field of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldDef {
    /// Its name.
    pub name: String,
    /// Its type.
    pub ty: FieldType,
    /// Where it stands.
    pub slot: Slot,
}

/// Where a field stands in a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slot {
    /// A fixed place.
    Fixed {
        /// Its width.
        bits: u32,
        /// The place.
        place: Place,
    },
    /// An array, packed as so many fields, by what stands before it.
    Array {
        /// The width of an element.
        bits: u32,
        /// The number of elements.
        len: usize,
        /// Gives the first element its place, then the others.
        placer: Placer,
    },
    /// After the extra words: length and bytes.
    Dynamic,
    /// After the extra words: length in bytes, and elements.
    Sequence {
        /// The width of an element: 8, 16, 32 or 64.
        bits: u32,
    },
}

impl Slot {
    /// Whether it is behind the extra words.
    pub const fn is_dynamic(self) -> bool {
        matches!(self, Self::Dynamic | Self::Sequence { .. })
    }

    /// The bits of an element, if it is an array.
    pub const fn element_bits(self) -> Option<u32> {
        match self {
            Self::Array { bits, .. } | Self::Sequence { bits } => Some(bits),
            Self::Fixed { .. } | Self::Dynamic => None,
        }
    }
}

/// What an event means to the decoder. It goes by the event's system, which is the kernel's, and its class: its name, and fields of
/// certain names. An application's own class may be called as one of these, above all one that is called as its event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Nothing special.
    Plain,
    /// The upper half of the TSC has changed.
    Clock,
    /// Another thread runs from now on: class `sched_switch` of `sched`, field `next`.
    Switch {
        /// The number of the field.
        next: usize,
    },
    /// A thread gets a name: class `thread_name` of `sched`, fields `tid` and `comm`.
    Name {
        /// The number of the field with the thread.
        tid: usize,
        /// The number of the field with the name.
        comm: usize,
    },
    /// An interrupt's handler gets a name: class `irq_name` of `irq`, fields `vector` and `name`.
    IrqName {
        /// The number of the field with the vector.
        vector: usize,
        /// The number of the field with the name.
        name: usize,
    },
    /// A function begins, in the context of the last [`FunctionContext`](Self::FunctionContext) of the CPU: class
    /// `function`.
    Function,
    /// A text that stands for itself: classes `print` and `timerlat`. Its line of ftrace text has no name before it, as in Linux.
    Print,
    /// What the tracer `osnoise` has sampled: class `osnoise`. Its line of ftrace text is in columns, as in Linux.
    Osnoise,
    /// A function begins: class `function_context`.
    FunctionContext,
    /// The functions that are under way, the innermost first: class `kernel_stack`, its last field an array of any length.
    Stack {
        /// The number of the field with the functions.
        callers: usize,
    },
}

impl EventDef {
    /// Whether it gives something a name, which is wanted wherever it is recorded.
    pub(super) const fn gives_name(&self) -> bool {
        matches!(self.role, Role::Name { .. } | Role::IrqName { .. })
    }

    /// The part of the name before the colon.
    pub fn system(&self) -> &str {
        self.name.split_once(':').map_or("", |(system, _)| system)
    }

    /// The part of the name after the colon: what a line of ftrace text shows.
    pub fn event(&self) -> &str {
        &self.name[self.event_at..]
    }

    /// The number of the field of that name.
    pub fn field(&self, name: &str) -> Option<usize> {
        self.fields.iter().position(|field| field.name == name)
    }

    /// How many bytes its dynamic field has at most. If more are recorded, it was cut.
    pub(super) fn max_bytes(&self) -> usize {
        match self.fields.last().map(|field| &field.ty) {
            Some(FieldType::Str(Some(max))) => MAX_BYTES.min((*max).into()),
            _ => MAX_BYTES,
        }
    }

    /// Whether a dynamic field follows the extra words.
    pub fn has_dynamic(&self) -> bool {
        self.fields
            .last()
            .is_some_and(|field| field.slot.is_dynamic())
    }
}

impl EventTable {
    /// Reads the bytes of section `.takt.meta` of a statically linked ELF file.
    ///
    /// # Errors
    /// [`MetaError`] with the offset if they cannot be understood, or if two events have the same id.
    pub fn parse(section: &[u8]) -> Result<Self, MetaError> {
        let mut events: BTreeMap<u32, EventDef> = BTreeMap::new();
        let mut at = 0;
        while at < section.len() {
            let error = |reason: String| MetaError {
                offset: at as u64,
                reason,
            };
            let id = u64_at(section, at);
            if id == Some(0) {
                at += 8; // filled up by the linker
                continue;
            }
            let (Some(id), Some(len)) = (id, u64_at(section, at + 8)) else {
                return Err(error("the section ends inside an entry".into()));
            };
            let id = u32::try_from(id)
                .ok()
                .filter(|id| {
                    (1..=0xffff).contains(id)
                        && (id % 2 == 1 || *id <= 0xfe)
                        && event_of(*id).id() == *id
                })
                .ok_or_else(|| {
                    error(format!(
                        "{id:#x} is no event id: was the file linked with trace.x?"
                    ))
                })?;
            let text = usize::try_from(len)
                .ok()
                .and_then(|len| section.get(at + 16..)?.get(..len))
                .ok_or_else(|| {
                    error(format!("a text of {len} bytes reaches beyond the section"))
                })?;
            let text =
                core::str::from_utf8(text).map_err(|_| error("the text is not UTF-8".into()))?;
            let event = EventDef::parse(id, text).map_err(error)?;
            if let Some(other) = events.insert(id, event) {
                return Err(error(format!(
                    "event id {id} belongs to {} already",
                    other.name
                )));
            }
            at += 16 + text.len().next_multiple_of(8);
        }
        Ok(Self::of(events))
    }

    fn of(events: BTreeMap<u32, EventDef>) -> Self {
        let nr_ids = (events.last_key_value()).map_or(0, |(last, _)| *last as usize + 1);
        let mut places = vec![0; nr_ids];
        for (id, place) in events.keys().zip(1..) {
            places[*id as usize] = place;
        }
        Self {
            events: events.into_values().collect(),
            places,
        }
    }

    /// The event with this id.
    pub fn get(&self, id: u32) -> Option<&EventDef> {
        let place = self.places.get(id as usize)?.checked_sub(1)?;
        self.events.get(usize::from(place))
    }

    /// The event with this name, `system:event`.
    pub fn by_name(&self, name: &str) -> Option<&EventDef> {
        self.iter().find(|event| event.name == name)
    }

    /// All events, by ascending id.
    pub fn iter(&self) -> impl Iterator<Item = &EventDef> {
        self.events.iter()
    }
}

/// The lines of an entry, as far as they are needed before the event can be put together.
#[derive(Default)]
struct Lines<'a> {
    event: Option<&'a str>,
    class: Option<&'a str>,
    layout: Option<&'a str>,
    print: &'a str,
    fields: Vec<&'a str>,
    doc: Vec<&'a str>,
}

impl<'a> Lines<'a> {
    fn parse(text: &'a str) -> Result<Self, String> {
        let mut lines = Self::default();
        for line in text.lines() {
            let (key, rest) = line.split_once(' ').unwrap_or((line, ""));
            match key {
                // Documentation comes last, and need not have a word before each of its lines.
                _ if !lines.doc.is_empty() => lines.doc.push(doc(line).unwrap_or(line)),
                "event" => lines.event = Some(rest),
                "class" => lines.class = Some(rest),
                "layout" => lines.layout = Some(rest),
                "field" => lines.fields.push(rest),
                "print" => lines.print = rest,
                // The word alone, or a comment that begins without a space.
                _ if key.starts_with("doc") => {
                    lines.doc.push(doc(line).unwrap_or(&line["doc".len()..]));
                }
                _ => return Err(format!("`{line}` begins with no known word")),
            }
        }
        Ok(lines)
    }
}

/// The text of a line that begins with the word `doc`.
fn doc(line: &str) -> Option<&str> {
    let text = line.strip_prefix("doc")?;
    text.strip_prefix(' ').or(text.is_empty().then_some(""))
}

impl EventDef {
    fn parse(id: u32, text: &str) -> Result<Self, String> {
        let lines = Lines::parse(text)?;
        let name = lines.event.ok_or("an entry without `event`")?.to_owned();
        let layout = layout(
            lines
                .layout
                .ok_or_else(|| format!("{name} has no `layout`"))?,
        )?;
        if !layout.kind().is(kind_of(id)) {
            return Err(format!("{name} has id {id}, which does not fit its layout"));
        }
        let class = lines
            .class
            .ok_or_else(|| format!("{name} has no `class`"))?
            .to_owned();
        let (fields, words) = fields(&lines.fields, layout)?;
        let find = |name: &str| fields.iter().position(|field| field.name == name);
        let print = Template::parse(lines.print, find)?;
        let event_at = name.find(':').map_or(0, |colon| colon + 1);
        let system = name[..event_at].trim_end_matches(':');
        let role = match (system, class.as_str()) {
            _ if id == CLOCK_ID => Role::Clock,
            ("sched", "sched_switch") => {
                find("next").map_or(Role::Plain, |next| Role::Switch { next })
            }
            ("ftrace", "function") => Role::Function,
            ("ftrace", "print" | "timerlat") => Role::Print,
            ("ftrace", "osnoise") => Role::Osnoise,
            ("ftrace", "function_context") => Role::FunctionContext,
            ("ftrace", "kernel_stack") => match fields.last() {
                Some(FieldDef {
                    slot: Slot::Sequence { .. },
                    ty: FieldType::Symbol,
                    ..
                }) => Role::Stack {
                    callers: fields.len() - 1,
                },
                _ => Role::Plain,
            },
            ("irq", "irq_name") => match (find("vector"), find("name")) {
                (Some(vector), Some(name)) => Role::IrqName { vector, name },
                _ => Role::Plain,
            },
            ("sched", "thread_name") => match (find("tid"), find("comm")) {
                (Some(tid), Some(comm)) => Role::Name { tid, comm },
                _ => Role::Plain,
            },
            _ => Role::Plain,
        };
        Ok(Self {
            id,
            name,
            class,
            layout,
            fields,
            doc: lines.doc.join("\n"),
            role,
            words,
            event_at,
            print,
        })
    }
}

/// What kind of id this is.
fn kind_of(id: u32) -> Kind {
    match event_of(id) {
        Event::Padding | Event::Core(_) => Kind::Core,
        Event::Wide(_) => Kind::Wide,
        Event::Near { .. } => Kind::Near,
    }
}

fn layout(text: &str) -> Result<Layout, String> {
    match text.split_once(' ').unwrap_or((text, "")) {
        ("core8", "") => Some(Layout::Core8),
        ("wide", "") => Some(Layout::Wide),
        ("near", "") => Some(Layout::Near),
        ("core24", ctx) => number(ctx)
            .and_then(|ctx| u8::try_from(ctx).ok())
            .map(Layout::Core24),
        _ => None,
    }
    .ok_or_else(|| format!("there is no layout `{text}`"))
}

fn fields(lines: &[&str], layout: Layout) -> Result<(Vec<FieldDef>, usize), String> {
    let mut placer = Placer::new(layout);
    let mut fields: Vec<FieldDef> = Vec::new();
    for line in lines {
        let mut parts = line.splitn(3, ' ');
        let (Some(name), Some(bits), Some(ty)) = (parts.next(), parts.next(), parts.next()) else {
            return Err(format!(
                "`field {line}` is not of the form: field NAME BITS TYPE"
            ));
        };
        if fields.last().is_some_and(|field| field.slot.is_dynamic()) {
            return Err(format!("field {name} follows a dynamic field"));
        }
        if fields.iter().any(|field| field.name == name) {
            return Err(format!("there are two fields {name}"));
        }
        let ty = FieldType::parse(ty)?;
        let slot = match width(bits) {
            Some(Width::Dynamic) if ty.is_str() => Slot::Dynamic,
            Some(Width::One(bits)) if !ty.is_str() => Slot::Fixed {
                bits,
                place: placer.place(bits),
            },
            Some(Width::Array(..) | Width::Sequence(_)) if !ty.can_be_element() => {
                return Err(format!("field {name}: there are no arrays of that type"));
            }
            Some(Width::Array(bits, len)) => {
                let slot = Slot::Array { bits, len, placer };
                (0..len).for_each(|_| {
                    placer.place(bits);
                });
                slot
            }
            Some(Width::Sequence(bits)) => Slot::Sequence { bits },
            _ => return Err(format!("field {name} cannot have {bits} bits")),
        };
        fields.push(FieldDef {
            name: name.to_owned(),
            ty,
            slot,
        });
        if placer.words() > Placer::MAX_EXTRA {
            return Err(format!("field {name} is beyond the longest record"));
        }
    }
    let has_dynamic = fields.last().is_some_and(|field| field.slot.is_dynamic());
    let last_bits = match fields.last().map(|field| field.slot) {
        Some(Slot::Fixed { bits, .. }) => bits,
        _ => 0,
    };
    if !layout.can_have(last_bits, placer.words(), has_dynamic) {
        return Err("layout `near` has 11 bits of fields and then one of 64 bits".into());
    }
    Ok((fields, placer.words()))
}

/// How wide a field is.
enum Width {
    One(u32),
    Array(u32, usize),
    Sequence(u32),
    Dynamic,
}

/// More elements than these are beyond the longest record.
const MAX_LEN: u64 = 32 * (Placer::MAX_EXTRA as u64 + 1);

/// `8`, `[8;4]`, `[8]` or `*`.
fn width(text: &str) -> Option<Width> {
    let Some(array) = text
        .strip_prefix('[')
        .and_then(|text| text.strip_suffix(']'))
    else {
        return match (text, number(text)) {
            ("*", _) => Some(Width::Dynamic),
            (_, Some(bits @ (1..=32 | 64))) => Some(Width::One(bits as u32)),
            _ => None,
        };
    };
    match array.split_once(';') {
        Some((bits, len)) => match (number(bits)?, number(len)?) {
            (bits @ (1..=32 | 64), len @ 1..=MAX_LEN) => {
                Some(Width::Array(bits as u32, len as usize))
            }
            _ => None,
        },
        None => match number(array)? {
            bits @ (8 | 16 | 32 | 64) => Some(Width::Sequence(bits as u32)),
            _ => None,
        },
    }
}
