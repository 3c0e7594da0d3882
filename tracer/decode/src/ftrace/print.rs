//! The `print fmt` line: the print template as a call of `printf`.

use super::layout::{Content, Field, Format, Whose};
use crate::template::{Fill, Part, Show, Subject};
use crate::types::{FieldType, Flags};

impl Format<'_> {
    /// What stands behind `print fmt: `.
    pub(super) fn print_fmt(&self) -> String {
        let mut format = String::new();
        let mut arguments = String::new();
        for part in &self.event.print.0 {
            let (subject, show) = match part {
                Part::Text(text) => {
                    format.push_str(&quoted(text).replace('%', "%%"));
                    continue;
                }
                Part::Hole(subject, show) => (*subject, *show),
            };
            let Some(field) = self.shown(subject, show) else {
                continue;
            };
            let (conversion, argument) = conversion(field, show);
            format.push_str(&conversion);
            arguments.push_str(", ");
            arguments.push_str(&argument);
        }
        format!("\"{format}\"{arguments}")
    }

    /// The field that a hole of the template shows.
    fn shown(&self, subject: Subject, show: Show) -> Option<&Field<'_>> {
        let content = match subject {
            Subject::Current if matches!(show, Show::Comm { .. }) => Content::Comm(Whose::Current),
            Subject::Current => Content::Pid(Whose::Current),
            Subject::Field(number) => {
                let field = self.event.fields.get(number)?;
                match (show, &field.ty) {
                    (Show::Comm { .. }, _) => Content::Comm(Whose::Field(number)),
                    (Show::Name, _) => Content::IrqName(number),
                    (Show::Pid, _) | (_, FieldType::Tid) => Content::Pid(Whose::Field(number)),
                    _ => self.content(number, field),
                }
            }
        };
        self.holding(content)
    }
}

/// How `printf` shows a field, and what it is given.
fn conversion(field: &Field<'_>, show: Show) -> (String, String) {
    let rec = format!("REC->{}", field.name);
    let (width, fill) = match show {
        Show::Value { width, fill } => (width, fill),
        Show::Comm { width } => (width, Fill::Spaces),
        Show::Pid | Show::Name => (0, Fill::Spaces),
        Show::Time => {
            let second = 1_000_000_000;
            return (
                "%llu.%09llu".into(),
                format!("{rec} / {second}, {rec} % {second}"),
            );
        }
    };
    let flag = match fill {
        Fill::Zeros => "0",
        Fill::Behind => "-",
        Fill::Spaces => "",
    };
    let at_least = match width {
        0 => String::new(),
        width => format!("{flag}{width}"),
    };
    let long = if field.size == 8 { "ll" } else { "" };
    if let Some(size) = field.element_size() {
        return ("%s".into(), array(field, size));
    }
    let value = match field.content {
        Content::Comm(_) | Content::IrqName(_) => return (format!("%{at_least}s"), rec),
        Content::Pid(_) | Content::Length(_) => return (format!("%{at_least}d"), rec),
        Content::State(..) => return ("%s".into(), symbolic(&rec, field, width, fill)),
        Content::Value(_, value) => value,
    };
    match &value.ty {
        FieldType::Signed | FieldType::Prio => (format!("%{at_least}{long}d"), rec),
        FieldType::Hex if width == 0 => (format!("0x%{long}x"), rec),
        FieldType::Hex => (format!("%#{at_least}{long}x"), rec),
        FieldType::Symbol => ("%pS".into(), format!("(void *){rec}")),
        FieldType::Block { .. } => ("%ps".into(), format!("(void *){rec}")),
        FieldType::Enum(_) => ("%s".into(), symbolic(&rec, field, width, fill)),
        FieldType::Flags(flags) => ("%s".into(), print_flags(&rec, flags)),
        FieldType::Str(Some(_)) => (format!("%{at_least}s"), rec),
        FieldType::Str(None) => (
            format!("%{at_least}s"),
            format!("__get_str({})", field.name),
        ),
        FieldType::Unsigned | FieldType::Cycles | FieldType::Tid | FieldType::Irq => {
            (format!("%{at_least}{long}u"), rec)
        }
    }
}

/// An array, of elements of `size` bytes.
fn array(field: &Field<'_>, size: usize) -> String {
    let name = &field.name;
    if field.is_dynamic() {
        let len = format!("__get_dynamic_array_len({name})");
        format!("__print_array(__get_dynamic_array({name}), {len} / {size}, {size})")
    } else if field.size == 0 {
        format!("__print_array(REC->{name}, REC->size, {size})")
    } else {
        format!("__print_array(REC->{name}, {}, {size})", field.size / size)
    }
}

/// The names are filled up to the width: readers do not do it for what `__print_symbolic` gives.
fn symbolic(rec: &str, field: &Field<'_>, width: usize, fill: Fill) -> String {
    let one = |(value, name): (u64, &str)| {
        format!(", {{ {value:#x}, \"{}\" }}", quoted(&fill.up(name, width)))
    };
    let names: String = field.names().into_iter().flatten().map(one).collect();
    format!("__print_symbolic({rec}{names})")
}

fn print_flags(rec: &str, flags: &Flags) -> String {
    let one = |(mask, name): &(u64, String)| format!(", {{ {mask:#x}, \"{}\" }}", quoted(name));
    let masks: String = flags.masks.iter().map(one).collect();
    format!(
        "__print_flags({rec}, \"{}\"{masks})",
        quoted(&flags.delimiter)
    )
}

/// The inside of a string in C.
fn quoted(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"")
}
