//! An ELF file with the symbols of an image and formats of a log, for what finds its way by them.

use std::fs;
use std::process;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use object::write::{Object, Symbol, SymbolSection};
use object::{
    Architecture, BinaryFormat, Endianness, SectionKind, SymbolFlags, SymbolKind, SymbolScope,
};
use takt_guest::Elf;
use takt_guest::rtt;

/// Where the RTT block lies in the guest's RAM. The memory that a target fills begins at 0.
pub(crate) const RTT: u64 = 0x40;

/// Log formats by index from 1: level and text. One of each kind that defmt decodes in a way of its own, but for two
/// that no image of ours uses and that defmt-decoder 1.2 does not guard: `{=[?]}`, for which it allocates as much as
/// the guest says, and `iso8601`, whose dates beyond the year 9999 make it panic.
pub(crate) const FORMATS: [(&str, &str); 13] = [
    ("defmt_info", "measuring"),
    ("defmt_warn", "{=u8} {=i16:#x} {=u32:b} {=i64} {=u128}"),
    ("defmt_error", "{=str}: {=[u8]:a} {=[u8; 4]:x}"),
    ("defmt_debug", "{=bool} {=f32} {=f64} {=char}"),
    ("defmt_trace", "{=0..4} {=4..12} {=0..4}"),
    ("defmt_println", "{=?} and {=?}"),
    ("defmt_info", "{=[?; 3]}"),
    ("defmt_info", "{=u64:us} {=usize:tms} {=u32:ts}"),
    ("defmt_derived", "A|B {=u8}|C {{ x: {=?} }}"),
    ("defmt_str", "a string"),
    (
        "defmt_info",
        "{=istr} {=__internal_Debug} {=__internal_Display}",
    ),
    ("defmt_prim", "{=u16}"),
    // A frame of a task, whose formats are these.
    ("defmt_println", "task {=u8} {=[u8]}"),
];

/// Those of the image's one task: the same, and slices, since a task may use them.
pub(crate) const TASK_FORMATS: [(&str, &str); FORMATS.len() + 2] = {
    let mut formats = [("defmt_info", "{=[?]} {=u64}"); FORMATS.len() + 2];
    let mut at = 0;
    while at < FORMATS.len() {
        formats[at] = FORMATS[at];
        at += 1;
    }
    formats[at] = ("defmt_derived", "nothing");
    formats
};

/// The image, with the log in the encoding of that name.
///
/// # Panics
///
/// If it cannot be written or read.
pub(crate) fn image(encoding: &str) -> Elf {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Relaxed);
    let name = format!("takt-fuzz-{}-{number}.elf", process::id());
    let path = std::env::temp_dir().join(name);
    let time = ("defmt_timestamp", "{=u64:us}");
    let formats = FORMATS.into_iter().chain([time]);
    let task = bytes(encoding, TASK_FORMATS, &[]);
    let tasks = [
        &(task.len() as u32).to_le_bytes()[..],
        &[4, 0, 0, 0],
        b"task",
        &task,
    ]
    .concat();
    fs::write(&path, bytes(encoding, formats, &tasks)).expect("the image can be written");
    let elf = Elf::open(&path);
    // What is left there is only a small file.
    let _ = fs::remove_file(&path);
    elf.expect("the image can be read")
}

/// An ELF file with these formats, and with tasks or without.
fn bytes(
    encoding: &str,
    formats: impl IntoIterator<Item = (&'static str, &'static str)>,
    tasks: &[u8],
) -> Vec<u8> {
    let mut object = Object::new(BinaryFormat::Elf, Architecture::X86_64, Endianness::Little);
    let mut symbol = |name: &str, value, section| {
        object.add_symbol(Symbol {
            name: name.as_bytes().to_vec(),
            value,
            size: 1,
            kind: SymbolKind::Data,
            scope: SymbolScope::Dynamic,
            weak: false,
            section,
            flags: SymbolFlags::None,
        });
    };
    symbol(rtt::SYMBOL, RTT, SymbolSection::Absolute);
    symbol("_defmt_version_ = 4", 0, SymbolSection::Absolute);
    let encoding = format!("_defmt_encoding_ = {encoding}");
    symbol(&encoding, 0, SymbolSection::Absolute);

    let defmt = object.add_section(Vec::new(), b".defmt".to_vec(), SectionKind::Other);
    object.append_section_data(defmt, &[0; TASK_FORMATS.len() + 1], 1);
    let section = object.add_section(Vec::new(), b".takt.task_elf".to_vec(), SectionKind::Other);
    object.append_section_data(section, tasks, 1);
    for (index, (tag, text)) in (1..).zip(formats) {
        let name = serde_json::json!({
            "package": "fake", "tag": tag, "data": text, "disambiguator": "0", "crate_name": "fake",
        });
        object.add_symbol(Symbol {
            name: name.to_string().into_bytes(),
            value: index,
            size: 1,
            kind: SymbolKind::Data,
            scope: SymbolScope::Dynamic,
            weak: false,
            section: SymbolSection::Section(defmt),
            flags: SymbolFlags::None,
        });
    }
    object.write().expect("the image can be laid out")
}
