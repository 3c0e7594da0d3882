//! The text of `events/SYSTEM/EVENT/format`.

use std::borrow::Cow;
use std::fmt::Write;

use super::layout::{CommonField, Content, Field, Format};
use crate::meta::FieldDef;
use crate::types::FieldType;

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
                _ if self.element_size().is_some() => return self.array(field),
                FieldType::Symbol | FieldType::Block { .. } => "unsigned long".into(),
                FieldType::Prio => "int".into(),
                FieldType::Str(None) => "__data_loc char[]".into(),
                FieldType::Str(Some(_)) => return format!("char {name}[{}]", self.size),
                FieldType::Signed => format!("s{}", self.size * 8).into(),
                _ => format!("u{}", self.size * 8).into(),
            },
            Content::Length(_) => "int".into(),
            Content::State(..) => "long".into(),
            Content::Pid(_) => "pid_t".into(),
            Content::Comm(_) | Content::IrqName(_) => return format!("char {name}[{}]", self.size),
        };
        format!("{ty} {name}")
    }

    /// The declaration of an array.
    fn array(&self, field: &FieldDef) -> String {
        let (name, size) = (&self.name, self.element_size().unwrap_or(1));
        let ty: Cow<'_, str> = match field.ty {
            FieldType::Symbol => "unsigned long".into(),
            FieldType::Signed => format!("s{}", size * 8).into(),
            _ => format!("u{}", size * 8).into(),
        };
        match self.size / size {
            _ if self.is_dynamic() => format!("__data_loc {ty}[] {name}"),
            0 => format!("{ty} {name}[]"),
            len => format!("{ty} {name}[{len}]"),
        }
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
