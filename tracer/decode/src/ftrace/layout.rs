//! Which fields an event has in ftrace's view, and where they stand.

use super::common::COMMON_SIZE;
use crate::meta::{EventDef, FieldDef, Role, Slot};
use crate::record::REST;
use crate::template::{Part, Show, Subject};
use crate::types::FieldType;

/// Bytes of a field with a name of a thread or an interrupt; ftrace has 16.
const COMM_LEN: usize = 32;

/// The letters of Linux's task states and their bits (`TASK_*` in `sched.h`).
const STATES: [(&str, u64); 9] = [
    ("R", 0),
    ("S", 0x01),
    ("D", 0x02),
    ("T", 0x04),
    ("t", 0x08),
    ("X", 0x10),
    ("Z", 0x20),
    ("P", 0x40),
    ("I", 0x80),
];

/// An event in ftrace's view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Format<'t> {
    /// What it was made from.
    pub event: &'t EventDef,
    /// Its fields behind the common ones, in the order of the print template.
    pub fields: Vec<Field<'t>>,
    /// Bytes of a record without its strings.
    pub size: usize,
}

/// A field of an event in ftrace's view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field<'t> {
    /// Its name.
    pub name: String,
    /// What it holds.
    pub content: Content<'t>,
    /// Where it stands, in bytes from the beginning of the record, the common fields included.
    pub offset: usize,
    /// Its size in bytes.
    pub size: usize,
}

/// What a field holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content<'t> {
    /// The field of this number, by its type; numbers of cycles in ns.
    Value(usize, &'t FieldDef),
    /// How many elements the field of this number has, of an event that is a stack.
    Length(usize),
    /// The field of this number, a task's state, with the bits that Linux has for it.
    State(usize, &'t [(u64, String)]),
    /// A thread's number, as Linux counts.
    Pid(Whose),
    /// A thread's name.
    Comm(Whose),
    /// The name of the interrupt whose vector is in the field of this number.
    IrqName(usize),
}

/// Which thread is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose {
    /// The running one.
    Current,
    /// That in the field of this number.
    Field(usize),
}

/// The fields that every event has, by ftrace's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommonField {
    /// `common_type`: the event's id.
    Type,
    /// `common_flags`.
    Flags,
    /// `common_preempt_count`.
    PreemptCount,
    /// `common_pid`.
    Pid,
}

impl CommonField {
    /// All of them, with name, C type, offset, size and whether they are signed.
    pub const ALL: [(Self, &'static str, &'static str, usize, usize, bool); 4] = [
        (Self::Type, "common_type", "unsigned short", 0, 2, false),
        (Self::Flags, "common_flags", "unsigned char", 2, 1, false),
        (
            Self::PreemptCount,
            "common_preempt_count",
            "unsigned char",
            3,
            1,
            false,
        ),
        (Self::Pid, "common_pid", "int", 4, 4, true),
    ];
}

impl<'t> Format<'t> {
    /// The event in ftrace's view.
    pub fn new(event: &'t EventDef) -> Self {
        let mut format = Self {
            event,
            fields: Vec::new(),
            size: COMMON_SIZE,
        };
        let mut before = "";
        for part in &event.print.0 {
            match part {
                Part::Text(text) => {
                    before = text;
                    continue;
                }
                Part::Hole(subject, show) => format.add_shown(*subject, *show, before),
            }
            before = "";
        }
        if let Role::Stack { callers } = event.role {
            // ftrace's own field behind its length, in the record's end.
            format.fields.clear();
            format.add(Content::Length(callers), "size", "_");
        }
        for (number, field) in event.fields.iter().enumerate() {
            if field.ty == FieldType::Tid {
                let whose = Whose::Field(number);
                format.add(Content::Pid(whose), &field.name, "_pid");
                format.add(Content::Comm(whose), &format!("{}_comm", field.name), "");
            } else {
                format.add(format.content(number, field), &field.name, "");
            }
        }
        format.place();
        format
    }

    /// The field of that name.
    pub fn field(&self, name: &str) -> Option<&Field<'t>> {
        self.fields.iter().find(|field| field.name == name)
    }

    /// The field that holds this.
    pub(super) fn holding(&self, content: Content<'t>) -> Option<&Field<'t>> {
        self.fields.iter().find(|field| field.content == content)
    }

    /// What the field of this number becomes, if it is no thread.
    pub(super) fn content(&self, number: usize, field: &'t FieldDef) -> Content<'t> {
        match &field.ty {
            FieldType::Enum(names)
                if matches!(self.event.role, Role::Switch { .. })
                    && field.name == "prev_state"
                    && names.iter().all(|(_, name)| linux_state(name).is_some()) =>
            {
                Content::State(number, names)
            }
            _ => Content::Value(number, field),
        }
    }

    fn add_shown(&mut self, subject: Subject, show: Show, before: &str) {
        let (whose, field) = match subject {
            Subject::Current => (Whose::Current, None),
            Subject::Field(number) => match self.event.fields.get(number) {
                Some(field) => (Whose::Field(number), Some((number, field))),
                None => return,
            },
        };
        let of = field.map_or("current", |(_, field)| field.name.as_str());
        let is_thread = field.is_none_or(|(_, field)| field.ty == FieldType::Tid);
        match (show, field) {
            (Show::Comm { .. }, _) => self.add_named(Content::Comm(whose), before, of, "comm"),
            (Show::Name, Some((number, _))) => {
                self.add_named(Content::IrqName(number), before, of, "name");
            }
            (Show::Pid, _) => self.add_named(Content::Pid(whose), before, of, "pid"),
            _ if is_thread => self.add_named(Content::Pid(whose), before, of, "pid"),
            (_, Some((number, field))) => {
                self.add(self.content(number, field), &field.name, "");
            }
            (_, None) => {}
        }
    }

    /// `what` is `comm`, `pid` or `name`: the template's word for the field, if it ends so.
    fn add_named(&mut self, content: Content<'t>, before: &str, of: &str, what: &str) {
        let named = before
            .strip_suffix('=')
            .and_then(|text| {
                text.rsplit(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
                    .next()
            })
            .filter(|name| name.ends_with(what) && !name.starts_with(|c: char| c.is_ascii_digit()))
            .filter(|name| !self.is_taken(name, content));
        let fallback = format!("{of}_{what}");
        self.add(content, named.unwrap_or(&fallback), "");
    }

    /// Whether another field has this name, or a field that is yet to come.
    fn is_taken(&self, name: &str, content: Content<'_>) -> bool {
        let is_own = |number: usize| match content {
            Content::Value(own, _) | Content::State(own, _) => own == number,
            Content::Length(_) | Content::IrqName(_) => false,
            Content::Pid(whose) | Content::Comm(whose) => {
                whose == Whose::Field(number) && matches!(content, Content::Pid(_))
            }
        };
        let mut fields = self.event.fields.iter().enumerate();
        self.field(name).is_some()
            || fields.any(|(number, field)| field.name == name && !is_own(number))
            || CommonField::ALL.iter().any(|common| common.1 == name)
    }

    /// Adds a field if there is none of this content. A name that is taken gets `suffix`, and at last underscores.
    fn add(&mut self, content: Content<'t>, name: &str, suffix: &str) {
        if self.holding(content).is_some() {
            return;
        }
        let mut name = name.to_string();
        if self.is_taken(&name, content) {
            name.push_str(suffix);
        }
        while self.is_taken(&name, content) {
            name.push('_');
        }
        self.fields.push(Field {
            name,
            content,
            offset: 0,
            size: self.size_of(content),
        });
    }

    fn place(&mut self) {
        let mut at = COMMON_SIZE;
        for field in &mut self.fields {
            at = at.next_multiple_of(field.alignment());
            field.offset = at;
            at += field.size;
            if field.size == 0 {
                self.size = at;
                return;
            }
        }
        self.size = at.next_multiple_of(4);
    }
}

impl Field<'_> {
    /// Whether it is signed.
    pub fn is_signed(&self) -> bool {
        match self.content {
            Content::Value(_, field) => {
                matches!(
                    field.ty,
                    FieldType::Signed | FieldType::Prio | FieldType::Str(_)
                )
            }
            Content::Length(_)
            | Content::State(..)
            | Content::Pid(_)
            | Content::Comm(_)
            | Content::IrqName(_) => true,
        }
    }

    /// Whether it holds where its bytes are, which follow the fixed fields.
    pub fn is_dynamic(&self) -> bool {
        match self.content {
            Content::Value(_, field) => match field.ty {
                FieldType::Str(max) => max.is_none(),
                _ => field.slot.is_dynamic() && self.size != 0,
            },
            _ => false,
        }
    }

    /// Bytes of an element, if it is an array.
    pub fn element_size(&self) -> Option<usize> {
        match self.content {
            Content::Value(_, field) => element_size(field),
            _ => None,
        }
    }

    /// Whether it is a text.
    pub fn is_text(&self) -> bool {
        matches!(self.content, Content::Comm(_) | Content::IrqName(_))
            || self.ty().is_some_and(FieldType::is_str)
    }

    /// The names that its values have, if it is an enumeration.
    pub fn names(&self) -> Option<Vec<(u64, &str)>> {
        match self.content {
            Content::Value(_, field) => match &field.ty {
                FieldType::Enum(names) => Some(
                    names
                        .iter()
                        .map(|(value, name)| (*value, name.as_str()))
                        .collect(),
                ),
                _ => None,
            },
            Content::State(_, names) => {
                let bits = |name: &str| linux_state(name).unwrap_or(0);
                Some(
                    names
                        .iter()
                        .map(|(_, name)| (bits(name), name.as_str()))
                        .collect(),
                )
            }
            Content::Length(_) | Content::Pid(_) | Content::Comm(_) | Content::IrqName(_) => None,
        }
    }

    /// The name of a number in it, as [`names`](Self::names) has it.
    pub fn name_of(&self, number: u64) -> Option<&str> {
        let (known, is_state) = match self.content {
            Content::Value(
                _,
                FieldDef {
                    ty: FieldType::Enum(names),
                    ..
                },
            ) => (names.as_slice(), false),
            Content::State(_, names) => (names, true),
            _ => return None,
        };
        let is_it = |(value, name): &&(u64, String)| match is_state {
            true => linux_state(name).unwrap_or(0) == number,
            false => *value == number,
        };
        known.iter().find(is_it).map(|(_, name)| name.as_str())
    }

    /// The type of the field that it shows; none for threads.
    pub fn ty(&self) -> Option<&FieldType> {
        match self.content {
            Content::Value(_, field) => Some(&field.ty),
            Content::Length(_)
            | Content::State(..)
            | Content::Pid(_)
            | Content::Comm(_)
            | Content::IrqName(_) => None,
        }
    }

    fn alignment(&self) -> usize {
        match self.element_size() {
            _ if self.is_dynamic() => self.size,
            Some(size) => size,
            None if self.is_text() => 1,
            None => self.size,
        }
    }
}

impl Format<'_> {
    fn size_of(&self, content: Content<'_>) -> usize {
        match content {
            Content::Value(number, field) => match (&field.ty, field.slot) {
                _ if self.event.role == (Role::Stack { callers: number }) => 0,
                (_, Slot::Sequence { .. }) => 4,
                (_, Slot::Array { len, .. }) => len * element_size(field).unwrap_or(0),
                (FieldType::Cycles | FieldType::Symbol | FieldType::Block { .. }, _) => 8,
                // With the mark of one that was cut, and a zero.
                (FieldType::Str(Some(max)), _) => usize::from(*max) + REST.len_utf8() + 1,
                (FieldType::Prio | FieldType::Str(None), _) | (_, Slot::Dynamic) => 4,
                // Readers do not extend the sign of less than an `int`.
                (FieldType::Signed, Slot::Fixed { bits: ..=32, .. }) => 4,
                (_, Slot::Fixed { bits, .. }) => (bits.div_ceil(8) as usize).next_power_of_two(),
            },
            Content::State(..) => 8,
            Content::Length(_) | Content::Pid(_) => 4,
            Content::Comm(_) | Content::IrqName(_) => COMM_LEN,
        }
    }
}

/// Bytes of an element of an array.
fn element_size(field: &FieldDef) -> Option<usize> {
    let bits = field.slot.element_bits()?;
    Some(match field.ty {
        FieldType::Symbol => 8,
        _ => (bits.div_ceil(8) as usize).next_power_of_two(),
    })
}

/// The bits that Linux has for a task's state, by its letter.
pub(super) fn linux_state(letter: &str) -> Option<u64> {
    let find = |(known, _): &&(&str, u64)| *known == letter;
    STATES.iter().find(find).map(|(_, bits)| *bits)
}
