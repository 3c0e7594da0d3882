//! Frames that tasks have made: in a frame of the kernel's stand the number of the task and the bytes that it gave, which are in the
//! formats of its own ELF file.
//!
//! A task gives what it likes. defmt's decoder is made for firmware that is trusted: it makes room for as many elements as a frame
//! says that there are, and panics at dates that there are none of. So a frame is first gone through here, with a limit.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;

use defmt_decoder::{Locations, Table};
use defmt_parser::{Fragment, ParserMode, Type, parse};
use object::{Object, ObjectSection, ObjectSymbol};
use serde::Deserialize;
use takt_abi::MAX_LOG;

use super::Line;
use crate::Elf;
use crate::tasks::Task;

/// The kernel's frame: `takt_kernel::task::log` has it.
const FORMAT: &str = "task {=u8} {=[u8]}";

/// Values in one frame, nested ones included; what has more makes no sense.
const MAX_VALUES: usize = 1000;

/// Texts of an ELF file's formats and strings, by their numbers.
type Texts = BTreeMap<u64, Symbol>;

/// What the symbol of a string is called.
#[derive(Debug, Deserialize)]
struct Symbol {
    tag: String,
    data: String,
}

/// Of an ELF file, without those that cannot be read.
fn texts(elf: &Elf) -> Texts {
    let Ok(file) = object::File::parse(&*elf.data) else {
        return Texts::new();
    };
    let section = file.section_by_name(".defmt").map(|it| it.index());
    let symbols = file
        .symbols()
        .filter(|it| section.is_some() && it.section_index() == section);
    let text = |symbol: object::Symbol<'_, '_>| {
        let name = serde_json::from_str(symbol.name().ok()?).ok()?;
        Some((symbol.address(), name))
    };
    symbols.filter_map(text).collect()
}

/// The number of the kernel's frame; an image without tasks has none.
pub(super) fn format_of(image: &Elf) -> Option<u64> {
    let texts = texts(image);
    let found = texts.iter().find(|(_, text)| text.data == FORMAT);
    found.map(|(number, _)| *number)
}

/// The formats of a task, which are read when it has logged something.
#[derive(Debug, Default)]
pub(crate) struct Formats(OnceLock<Option<Read>>);

#[derive(Debug)]
struct Read {
    table: Table,
    locations: Locations,
    texts: Texts,
}

impl Formats {
    fn of(&self, elf: &Elf) -> Option<&Read> {
        let read = || {
            let table = Table::parse(&elf.data).ok()??;
            Some(Read {
                // Without debug information there are no places.
                locations: table.get_locations(&elf.data).unwrap_or_default(),
                texts: texts(elf),
                table,
            })
        };
        self.0.get_or_init(read).as_ref()
    }

    /// The line of a task's frame. One that makes no sense is a line that says so.
    pub(super) fn line(&self, task: &Task, bytes: &[u8]) -> Line {
        let name = &task.name;
        let line = self.of(&task.elf).and_then(|it| it.line(bytes));
        let mut line = line.unwrap_or_else(|| Line {
            time: None,
            level: "warn".into(),
            message: format!("{} bytes that are no frame of its log", bytes.len()),
            file: None,
            line: None,
            module: None,
        });
        line.message = format!("{name}: {}", line.message);
        line
    }
}

impl Read {
    fn line(&self, bytes: &[u8]) -> Option<Line> {
        if bytes.len() > MAX_LOG {
            return None;
        }
        let mut walk = Walk {
            texts: &self.texts,
            bytes,
            left: MAX_VALUES,
        };
        let format = walk.tag()?;
        // The task's own, if it has one.
        let mut texts = self.texts.values();
        if let Some(time) = texts.find(|it| it.tag == "defmt_timestamp") {
            walk.format(&time.data)?;
        }
        walk.format(format)?;
        // A value that has no text, as a date in the year 10,000, is a panic.
        let line = || {
            let (frame, _) = self.table.decode(bytes).ok()?;
            Some(super::line(&frame, &self.locations))
        };
        catch_unwind(AssertUnwindSafe(line)).ok()?
    }
}

/// Goes through a frame as defmt's decoder does, and keeps nothing.
struct Walk<'f> {
    texts: &'f Texts,
    bytes: &'f [u8],
    /// Values that may come.
    left: usize,
}

impl<'f> Walk<'f> {
    fn skip(&mut self, len: usize) -> Option<()> {
        self.bytes = self.bytes.get(len..)?;
        Some(())
    }

    /// A number of so many bytes.
    fn number(&mut self, len: usize) -> Option<usize> {
        let (number, rest) = self.bytes.split_at_checked(len)?;
        self.bytes = rest;
        let add = |sum: usize, byte: &u8| sum << 8 | usize::from(*byte);
        Some(number.iter().rev().fold(0, add))
    }

    /// The text of the number that comes.
    fn tag(&mut self) -> Option<&'f str> {
        let number = self.number(2)? as u64;
        self.texts.get(&number).map(|it| &*it.data)
    }

    /// The values of a format: one of each index, of bit fields that which has them all.
    fn format(&mut self, format: &str) -> Option<()> {
        self.left = self.left.checked_sub(1)?;
        let mut types = BTreeMap::new();
        for fragment in parse(format, ParserMode::ForwardsCompatible).ok()? {
            let Fragment::Parameter(it) = fragment else {
                continue;
            };
            let known = types.entry(it.index).or_insert_with(|| it.ty.clone());
            if let (Type::BitField(known), Type::BitField(more)) = (known, it.ty) {
                *known = known.start.min(more.start)..known.end.max(more.end);
            }
        }
        types.values().try_for_each(|ty| self.value(ty))
    }

    fn value(&mut self, ty: &Type) -> Option<()> {
        self.left = self.left.checked_sub(1)?;
        match ty {
            Type::Bool | Type::I8 | Type::U8 => self.skip(1),
            Type::I16 | Type::U16 | Type::IStr => self.skip(2),
            Type::I32 | Type::U32 | Type::F32 | Type::Isize | Type::Usize | Type::Char => {
                self.skip(4)
            }
            Type::I64 | Type::U64 | Type::F64 => self.skip(8),
            Type::I128 | Type::U128 => self.skip(16),
            Type::BitField(bits) => {
                let bytes = bits.end.saturating_sub(1) / 8 - bits.start / 8 + 1;
                self.skip(usize::from(bytes).next_power_of_two())
            }
            Type::Str | Type::U8Slice => {
                let len = self.number(4)?;
                self.skip(len)
            }
            Type::U8Array(len) => self.skip(*len),
            Type::Debug | Type::Display => {
                let end = self.bytes.iter().position(|byte| *byte == 0xff)?;
                self.skip(end + 1)
            }
            Type::Format => {
                let format = self.tag()?;
                self.one_of(format)
            }
            Type::FormatSlice => {
                let len = self.number(4)?;
                self.elements(len)
            }
            Type::FormatArray(len) => self.elements(*len),
            Type::FormatSequence => {
                while self.bytes.get(..2)? != [0, 0] {
                    let format = self.tag()?;
                    self.format(format)?;
                }
                self.skip(2)
            }
        }
    }

    fn elements(&mut self, len: usize) -> Option<()> {
        let format = self.tag()?;
        (0..len).try_for_each(|_| self.one_of(format))
    }

    /// A format, or which of several and that one.
    fn one_of(&mut self, format: &'f str) -> Option<()> {
        let nr = format.matches('|').count();
        let which = match nr {
            0 => 0,
            1..=0xff => self.number(1)?,
            _ => self.number(2)?,
        };
        self.format(format.split('|').nth(which)?)
    }
}

/// The task's number and the bytes in the text of the kernel's frame.
pub(super) fn parts(text: &str) -> Option<(usize, Vec<u8>)> {
    let (number, bytes) = text.strip_prefix("task ")?.split_once(" [")?;
    let bytes = bytes.strip_suffix(']')?.split(", ");
    let bytes = bytes.filter(|it| !it.is_empty());
    Some((
        number.parse().ok()?,
        bytes.map(|it| it.parse().ok()).collect::<Option<_>>()?,
    ))
}
