//! The text of `events/SYSTEM/EVENT/format`.

use std::borrow::Cow;
use std::fmt::Write;
use std::format;
use std::string::String;

use super::layout::{CommonField, Content, Field, Format};
use crate::decode::types::FieldType;

impl Format<'_> {
    /// The text, as Linux's tracefs shows it.
    pub fn text(&self) -> String {
        let mut out = format!(
            "name: {}\nID: {}\nformat:\n",
            self.event.event(),
            self.event.id
        );
        for (_, name, ty, offset, size, is_signed) in CommonField::ALL {
            line(&mut out, &format!("{ty} {name}"), offset, size, is_signed);
        }
        out.push('\n');
        for field in &self.fields {
            let declaration = field.declaration();
            line(
                &mut out,
                &declaration,
                field.offset,
                field.size,
                field.is_signed(),
            );
        }
        out.push_str("\nprint fmt: ");
        out.push_str(&self.print_fmt());
        out.push('\n');
        out
    }
}

impl Field<'_> {
    /// Its declaration in C.
    fn declaration(&self) -> String {
        let name = &self.name;
        let ty: Cow<'_, str> = match self.content {
            Content::Value(_, field) => match &field.ty {
                FieldType::Symbol | FieldType::Block { .. } => "unsigned long".into(),
                FieldType::Prio => "int".into(),
                FieldType::Str => "__data_loc char[]".into(),
                FieldType::Signed => format!("s{}", self.size * 8).into(),
                _ => format!("u{}", self.size * 8).into(),
            },
            Content::State(..) => "long".into(),
            Content::Pid(_) => "pid_t".into(),
            Content::Comm(_) => return format!("char {name}[{}]", self.size),
        };
        format!("{ty} {name}")
    }
}

fn line(out: &mut String, declaration: &str, offset: usize, size: usize, is_signed: bool) {
    let signed = u8::from(is_signed);
    // Writing to a string does not fail.
    let _ = writeln!(
        out,
        "\tfield:{declaration};\toffset:{offset};\tsize:{size};\tsigned:{signed};"
    );
}
