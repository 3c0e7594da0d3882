//! Frames that tasks have made: in a frame of the kernel's stand the number of the task and the bytes that it gave, which are in the
//! formats of its own ELF file.
//!
//! A task gives what it likes. defmt's decoder is made for firmware that is trusted: it makes room for as many elements as a frame
//! says that there are, shows a value as often as its format names it, and panics at dates that there are none of. So a frame is first
//! gone through here, with limits. Formats beyond them are refused when a task is packed, too ([`check`]).

use std::collections::btree_map::{BTreeMap, Entry};
use std::sync::OnceLock;

use anyhow::{Context, Result, bail, ensure};
use defmt_decoder::{Locations, Table};
use defmt_parser::{DisplayHint, Fragment, ParserMode, Type, parse};
use object::{Object, ObjectSection, ObjectSymbol};
use serde::Deserialize;
use takt_abi::MAX_LOG;
use takt_base::term;

use super::Line;
use crate::Elf;
use crate::apart::quietly;
use crate::tasks::Task;

/// The kernel's frame: `takt_kernel::task::log` has it.
const FORMAT: &str = "task {=u8} {=[u8]}";

/// What is shown of one frame, about so many bytes: texts and values, each as often as it is shown. What has more makes no sense: a
/// frame has [`MAX_LOG`] bytes. No string is longer, so each is gone through as quickly.
const MAX_TEXT: usize = 32 << 10;
/// Largest number of a parameter, which is its place or how many elements it has.
const MAX_NUMBER: usize = 4096;
/// Widest number: 128 binary digits behind `0b`.
const MAX_WIDTH: usize = 130;

/// What the macro for flags makes of their name: a number that is shown as names of flags. A hint is that of all values within the
/// one that it stands at, so it stands at a number.
const FLAGS_HINT: &str = "__internal_bitflags_";
const FLAGS_TYPES: [&str; 5] = ["u8", "u16", "u32", "u64", "u128"];

/// Strings that decoding does not look up by their numbers.
const TIMESTAMP: &str = "defmt_timestamp";
const FLAG: &str = "defmt_bitflags_value";

/// What the symbol of a string is called.
#[derive(Debug, Deserialize)]
struct Symbol {
    tag: String,
    data: String,
}

impl Symbol {
    /// Whether the decoder knows it.
    fn is_known(&self) -> bool {
        let kind = self.tag.strip_prefix("defmt_");
        kind.is_some_and(|kind| {
            [
                "prim",
                "derived",
                "bitflags",
                "write",
                "timestamp",
                "bitflags_value",
                "str",
                "println",
                "trace",
                "debug",
                "info",
                "warn",
                "error",
            ]
            .contains(&kind)
        })
    }
}

/// The strings of an ELF file's log with their addresses, as the decoder finds them, but those that cannot be read.
fn symbols(elf: &[u8]) -> Vec<(u64, Symbol)> {
    let Ok(file) = object::File::parse(elf) else {
        return Vec::new();
    };
    let is_strings = |name: &str| name == ".defmt" || name.starts_with(".defmt.");
    let sections: Vec<_> = (file.sections())
        .filter(|it| it.name().is_ok_and(is_strings))
        .map(|it| it.index())
        .collect();
    let in_them = |it: &object::Symbol<'_, '_>| {
        (it.section_index()).is_some_and(|section| sections.contains(&section))
    };
    let text = |symbol: object::Symbol<'_, '_>| {
        let name = serde_json::from_str(symbol.name().ok()?).ok()?;
        Some((symbol.address(), name))
    };
    file.symbols().filter(in_them).filter_map(text).collect()
}

/// The strings of a log.
#[derive(Debug, Default)]
struct Texts {
    /// Formats and texts, by their numbers.
    by_number: BTreeMap<u64, String>,
    /// That of the time.
    timestamp: Option<String>,
    /// Bytes of all names of flags.
    flags: usize,
}

impl Texts {
    fn of(symbols: Vec<(u64, Symbol)>) -> Self {
        let mut texts = Self::default();
        for (number, symbol) in symbols {
            match &*symbol.tag {
                TIMESTAMP => texts.timestamp = Some(symbol.data),
                FLAG => texts.flags += symbol.data.len(),
                // The last of a number counts, as for the decoder.
                _ if symbol.is_known() => {
                    texts.by_number.insert(number, symbol.data);
                }
                _ => {}
            }
        }
        texts
    }
}

/// Reads the strings, as for a log, and keeps nothing.
pub(crate) fn read_texts(elf: &[u8]) {
    drop(Texts::of(symbols(elf)));
}

/// Looks whether a task's ELF file has only strings that can be shown.
///
/// # Errors
///
/// Which not, and why.
pub fn check(elf: &[u8]) -> Result<()> {
    check_symbols(symbols(elf))
}

fn check_symbols(symbols: Vec<(u64, Symbol)>) -> Result<()> {
    let mut known = BTreeMap::new();
    for (number, symbol) in symbols {
        let text = || format!("its log has the string {:?}", shortened(&symbol.data));
        ensure!(
            symbol.data.len() <= MAX_TEXT,
            "{}, which has more than {MAX_TEXT} bytes",
            text()
        );
        if !matches!(&*symbol.tag, "defmt_str" | FLAG) {
            check_format(&symbol.data).with_context(text)?;
        }
        match known.entry(number) {
            Entry::Vacant(it) => drop(it.insert(symbol.data)),
            Entry::Occupied(it) => {
                bail!("{}, and {:?} has its address", text(), shortened(it.get()))
            }
        }
    }
    Ok(())
}

/// The beginning of a string, where it is quoted.
fn shortened(text: &str) -> String {
    const MAX: usize = 100;
    match text.char_indices().nth(MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// Looks at the numbers in a format, for which the decoder would make room, and at its parameters: what the parser takes for one
/// ends where it does here.
fn check_format(format: &str) -> Result<()> {
    let numbers = |text: &str| -> Vec<usize> {
        let digits = text.split(|it: char| !it.is_ascii_digit());
        let digits = digits.filter(|it| !it.is_empty());
        digits.map(|it| it.parse().unwrap_or(usize::MAX)).collect()
    };
    let mut rest = format;
    while let Some((_, behind)) = rest.split_once('{') {
        rest = behind;
        if let Some(behind) = rest.strip_prefix('{') {
            rest = behind;
            continue;
        }
        let parameter = rest.split('}').next().unwrap_or_default();
        rest = &rest[parameter.len()..];
        let quoted = || format!("`{{{}}}`", term::in_line(&shortened(parameter)));
        ensure!(
            !parameter.contains('{'),
            "{} has a parameter within it",
            quoted()
        );
        let (value, hint) = parameter.split_once(':').unwrap_or((parameter, ""));
        let ty = value.split_once('=').map_or("", |(_, it)| it);
        ensure!(
            !hint.contains(FLAGS_HINT) || FLAGS_TYPES.contains(&ty),
            "{} shows flags of what is no number",
            quoted()
        );
        for number in numbers(value) {
            ensure!(
                number <= MAX_NUMBER,
                "{} has a number above {MAX_NUMBER}",
                quoted()
            );
        }
        // What begins otherwise has no width.
        let hint = hint.trim_start_matches('#');
        if hint.starts_with('0') {
            ensure!(
                numbers(hint)[0] <= MAX_WIDTH,
                "{} is wider than {MAX_WIDTH}",
                quoted()
            );
        }
    }
    Ok(())
}

/// The number of the kernel's frame; an image without tasks has none.
pub(super) fn format_of(image: &Elf) -> Option<u64> {
    let texts = Texts::of(symbols(&image.data)).by_number;
    let found = texts.iter().find(|(_, text)| *text == FORMAT);
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
    fn of(&self, task: &Task) -> Option<&Read> {
        let read = || {
            let known = task.known()?;
            let file = &*known.elf.data;
            let table = Table::parse(file).ok()??;
            // Without debug information there are no places.
            let locations = (known.has_lines).then(|| table.get_locations(file).ok());
            Some(Read {
                locations: locations.flatten().unwrap_or_default(),
                texts: Texts::of(symbols(file)),
                table,
            })
        };
        let read = || quietly(read)?;
        self.0.get_or_init(read).as_ref()
    }

    /// The line of a task's frame. One that makes no sense is a line that says so.
    pub(super) fn line(&self, task: &Task, bytes: &[u8]) -> Line {
        let name = &task.name;
        let line = self.of(task).and_then(|it| it.line(bytes));
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
        let mut walk = Walk::new(&self.texts, bytes);
        let format = walk.tag()?;
        // The task's own, if it has one.
        if let Some(time) = &self.texts.timestamp {
            walk.format(time)?;
        }
        walk.format(format)?;
        // A value that has no text, as a date in the year 10,000, is a panic.
        let line = || {
            let (frame, _) = self.table.decode(bytes).ok()?;
            Some(super::line(&frame, &self.locations))
        };
        quietly(line)?
    }
}

/// Goes through a frame as defmt's decoder does, and keeps nothing.
struct Walk<'f> {
    texts: &'f Texts,
    bytes: &'f [u8],
    /// Bytes that may be shown yet.
    left: usize,
    /// How often what comes is shown.
    times: usize,
}

impl<'f> Walk<'f> {
    fn new(texts: &'f Texts, bytes: &'f [u8]) -> Self {
        Self {
            texts,
            bytes,
            left: MAX_TEXT,
            times: 1,
        }
    }

    /// So much is shown, each time.
    fn shows(&mut self, len: usize) -> Option<()> {
        self.left = self.left.checked_sub(len.checked_mul(self.times)?)?;
        Some(())
    }

    fn skip(&mut self, len: usize) -> Option<()> {
        self.bytes = self.bytes.get(len..)?;
        self.shows(len)
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
        let text = self.texts.by_number.get(&number)?;
        (text.len() <= MAX_TEXT).then_some(text)
    }

    /// The values of a format: one of each index, of bit fields that which has them all.
    fn format(&mut self, format: &str) -> Option<()> {
        self.shows(format.len() + 1)?;
        check_format(format).ok()?;
        // By their index, and how often it is shown.
        let mut types = BTreeMap::new();
        for fragment in parse(format, ParserMode::ForwardsCompatible).ok()? {
            let Fragment::Parameter(it) = fragment else {
                continue;
            };
            if let Some(DisplayHint::Bitflags { .. }) = it.hint {
                self.shows(self.texts.flags)?;
            }
            let (known, nr) = (types.entry(it.index)).or_insert_with(|| (it.ty.clone(), 0));
            *nr += 1;
            if let (Type::BitField(known), Type::BitField(more)) = (known, it.ty) {
                *known = known.start.min(more.start)..known.end.max(more.end);
            }
        }
        let times = self.times;
        for (ty, nr) in types.values() {
            self.times = times.checked_mul(*nr)?;
            self.value(ty)?;
        }
        self.times = times;
        Some(())
    }

    fn value(&mut self, ty: &Type) -> Option<()> {
        self.shows(1)?;
        match ty {
            Type::Bool | Type::I8 | Type::U8 => self.skip(1),
            Type::I16 | Type::U16 => self.skip(2),
            Type::IStr => {
                let text = self.tag()?;
                self.shows(text.len())
            }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(all: &[(u64, &str)]) -> Texts {
        let all = all
            .iter()
            .map(|(number, text)| (*number, (*text).to_owned()));
        Texts {
            by_number: all.collect(),
            ..Texts::default()
        }
    }

    fn walk(texts: &Texts, numbers: &[u16]) -> Option<()> {
        let bytes: Vec<u8> = numbers.iter().flat_map(|it| it.to_le_bytes()).collect();
        let mut walk = Walk::new(texts, &bytes);
        let format = walk.tag()?;
        walk.format(format)
    }

    #[test]
    fn what_a_format_asks_room_for_is_bounded() {
        for fine in [
            "a {{99999999}} {=u128:#0130b} {1=[u8; 4096]:x} {=0..128}",
            "{=u64:iso8601ms} {=u8:__internal_bitflags_A@b@123456789123@c}",
            "{{{=u8}}} {{{{{0=u16:x}",
            "not closed {",
        ] {
            assert!(check_format(fine).is_ok(), "{fine}");
        }
        for bad in [
            "{4000000000000=u8}",
            "{=[?;4000000000000]}",
            "{=[u8; 99999999999999999999999999]}",
            "{=u8:0131x}",
            "{=u8:#04000000000000x}",
            "{{{=u8:065535b}",
            // What the parser does not know as a hint ends at a brace.
            "{=u8:{4000000000000=u8}",
            "{=u8:x{=u8}",
            // A hint is inherited, and shown at each value.
            "{=[?]:__internal_bitflags_A@b@1@c}",
            "{=?:#08__internal_bitflags_A@b@1@c}",
            "{=[u8; 9]:__internal_bitflags_A@b@1@c}",
            "{:__internal_bitflags_A@b@1@c}",
        ] {
            let error = format!("{:#}", check_format(bad).unwrap_err());
            let reasons = ["4096", "130", "within it", "no number"];
            assert!(reasons.iter().any(|it| error.contains(it)), "{error}");
            // And nothing of it is decoded.
            assert_eq!(walk(&texts(&[(1, bad)]), &[1, 0, 0, 0]), None, "{bad}");
        }
    }

    #[test]
    fn each_string_has_an_address_of_its_own() {
        let symbols = |all: &[(u64, &str, &str)]| {
            let symbol = |(number, tag, data): &(u64, &str, &str)| {
                let (tag, data) = ((*tag).to_owned(), (*data).to_owned());
                (*number, Symbol { tag, data })
            };
            all.iter().map(symbol).collect::<Vec<_>>()
        };
        let info = (1, "defmt_info", "{=u8}");
        check_symbols(symbols(&[
            info,
            (2, "defmt_str", "{9999=}"),
            (3, "mine", "x"),
        ]))
        .unwrap();
        check_symbols(symbols(&[(2, "defmt_info", "{9999=u8}")])).unwrap_err();
        // Variants by whose number alone who reads them has much to do.
        for (tag, len) in [("defmt_derived", MAX_TEXT), ("defmt_str", MAX_TEXT)] {
            let check = |nr| check_symbols(symbols(&[(2, tag, &"|".repeat(nr))]));
            check(len).unwrap();
            let error = check(len + 1).unwrap_err().to_string();
            assert!(error.len() < 200 && error.contains("32768"), "{error}");
        }
        for tag in ["defmt_info", "mine", TIMESTAMP, FLAG] {
            let two = [info, (1, tag, "x")];
            check_symbols(symbols(&two)).unwrap_err();
            // What decodes an image that has them all the same looks at one.
            let texts = Texts::of(symbols(&two));
            let expected = if tag == "defmt_info" { "x" } else { "{=u8}" };
            assert_eq!(texts.by_number[&1], expected, "{tag}");
        }
    }

    #[test]
    fn what_is_shown_of_a_frame_is_bounded_however_it_is_nested() {
        let long = "y".repeat(100);
        let twice = texts(&[(1, "{0=?}{0=?}"), (2, "x"), (3, "{=[?;4000]}"), (4, &long)]);
        let nested = |nr| [vec![1; nr], vec![2]].concat();
        assert_eq!(walk(&twice, &nested(4)), Some(()));
        assert_eq!(walk(&twice, &nested(50)), None);
        // Elements without bytes.
        assert_eq!(walk(&twice, &[3, 2]), Some(()));
        assert_eq!(walk(&twice, &[3, 4]), None);
        let long = "x".repeat(MAX_TEXT);
        let long = texts(&[(1, "{=istr}"), (2, &long)]);
        assert_eq!(walk(&long, &[1, 2]), None);
        // More variants than two bytes tell apart: of these the decoder reads four.
        let variants = |nr| texts(&[(1, "{=?}"), (2, &"|".repeat(nr))]);
        assert_eq!(walk(&variants(MAX_TEXT), &[1, 2, 3]), Some(()));
        assert_eq!(walk(&variants(0x1_0000), &[1, 2, 3, 0]), None);
    }
}
