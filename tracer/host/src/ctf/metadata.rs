//! The text that describes the streams, in the Trace Stream Description Language.

use takt_decode::FieldType;
use takt_decode::ftrace::{Field, Format};

/// What does not depend on the events. Names of fields have an underscore, which readers take away: a field may be called
/// like a word of the language.
const HEAD: &str = "\
/* CTF 1.8 */

typealias integer { size = 8; align = 8; signed = false; } := uint8_t;
typealias integer { size = 16; align = 8; signed = false; } := uint16_t;
typealias integer { size = 32; align = 8; signed = false; } := uint32_t;
typealias integer { size = 64; align = 8; signed = false; } := uint64_t;
typealias integer { size = 8; align = 8; signed = true; } := int8_t;
typealias integer { size = 16; align = 8; signed = true; } := int16_t;
typealias integer { size = 32; align = 8; signed = true; } := int32_t;
typealias integer { size = 64; align = 8; signed = true; } := int64_t;

trace {
\tmajor = 1;
\tminor = 8;
\tbyte_order = le;
\tpacket.header := struct {
\t\tuint32_t magic;
\t};
};

env {
\tdomain = \"kernel\";
\ttracer_name = \"takt\";
\ttracer_major = 1;
\ttracer_minor = 0;
};

clock {
\tname = takt;
\tdescription = \"The guest's time since it was started\";
\tfreq = 1000000000;
\toffset = 0;
};

typealias integer { size = 64; align = 8; signed = false; map = clock.takt.value; } := clock_t;

stream {
\tpacket.context := struct {
\t\tclock_t timestamp_begin;
\t\tclock_t timestamp_end;
\t\tuint64_t content_size;
\t\tuint64_t packet_size;
\t\tuint64_t packet_seq_num;
\t\tuint64_t events_discarded;
\t\tuint32_t cpu_id;
\t};
\tevent.header := struct {
\t\tuint16_t id;
\t\tclock_t timestamp;
\t};
\tevent.context := struct {
\t\tint32_t _pid;
\t\tstring _task;
\t\tinteger { size = 1; align = 1; } _irqs_off;
\t\tinteger { size = 1; align = 1; } _need_resched;
\t\tinteger { size = 1; align = 1; } _hardirq;
\t\tinteger { size = 1; align = 1; } _nmi;
\t\tinteger { size = 4; align = 1; } _preempt_depth;
\t};
};
";

/// The text for these events.
pub(super) fn text<'f>(formats: impl Iterator<Item = &'f Format<'f>>) -> String {
    let mut out = HEAD.to_owned();
    for format in formats {
        let event = format.event;
        out.push_str(&format!(
            "\nevent {{\n\tid = {};\n\tname = \"{}\";\n\tfields := struct {{\n",
            event.id,
            quoted(&event.name)
        ));
        let mut names: Vec<_> = format
            .fields
            .iter()
            .map(|it| format!("_{}", it.name))
            .collect();
        // A name of no other member: a field may be called as what is added to another one.
        let mut free = |mut name: String| {
            while names.contains(&name) {
                name.push('_');
            }
            names.push(name.clone());
            name
        };
        for field in &format.fields {
            let name = &field.name;
            let len = match field.element_size() {
                None => String::new(),
                Some(_) if is_counted(field) => {
                    let length = free(format!("__{name}_length"));
                    out.push_str(&format!("\t\tuint32_t {length};\n"));
                    format!("[{length}]")
                }
                Some(size) => format!("[{}]", field.size / size),
            };
            out.push_str(&format!("\t\t{} _{name}{len};\n", field_type(field)));
            if field.ty().is_some_and(FieldType::is_place) {
                let symbol = free(format!("_{name}_symbol"));
                out.push_str(&format!("\t\tstring {symbol}{len};\n"));
            }
        }
        out.push_str("\t};\n};\n");
    }
    out
}

/// Whether it is an array whose length stands before it.
pub(super) fn is_counted(field: &Field<'_>) -> bool {
    field.element_size().is_some() && (field.is_dynamic() || field.size == 0)
}

/// The type of a field, of an array that of its elements.
fn field_type(field: &Field<'_>) -> String {
    let bits = field.element_size().unwrap_or(field.size) * 8;
    let int = match field.is_signed() {
        true => format!("int{bits}_t"),
        false => format!("uint{bits}_t"),
    };
    if let Some(names) = field.names() {
        let names: Vec<_> = names
            .iter()
            .map(|(value, name)| format!("\"{}\" = {value}", quoted(name)))
            .collect();
        return match names.is_empty() {
            true => int,
            false => format!("enum : {int} {{ {} }}", names.join(", ")),
        };
    }
    match field.ty() {
        _ if field.is_text() => "string".into(),
        Some(
            FieldType::Hex | FieldType::Flags(_) | FieldType::Symbol | FieldType::Block { .. },
        ) => {
            format!("integer {{ size = {bits}; align = 8; signed = false; base = 16; }}")
        }
        _ => int,
    }
}

/// The inside of a string.
fn quoted(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"")
}

#[cfg(test)]
mod tests {
    use crate::test_events::events;

    use super::*;

    #[test]
    fn members_have_names_of_their_own() {
        let event = "event a:b\nclass c\nlayout wide\nfield x 32 sym\nfield x_symbol 32 u\nfield _y_length 32 u\n\
                     field y [32] u\nprint {x}\n";
        let table = events(&[(1, event)]);
        let formats: Vec<_> = table.iter().map(Format::new).collect();
        let text = text(formats.iter());
        let (_, fields) = text.split_once("fields := struct {").unwrap();
        let names = fields
            .lines()
            .filter_map(|it| it.strip_suffix(';')?.rsplit(' ').next());
        assert_eq!(
            names.filter(|it| it.starts_with('_')).collect::<Vec<_>>(),
            [
                "_x",
                "_x_symbol_",
                "_x_symbol",
                "__y_length",
                "__y_length_",
                "_y[__y_length_]"
            ]
        );
    }
}
