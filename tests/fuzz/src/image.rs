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
pub(crate) const FORMATS: [(&str, &str); 12] = [
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
];

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
    fs::write(&path, bytes(encoding)).expect("the image can be written");
    let elf = Elf::open(&path);
    // What is left there is only a small file.
    let _ = fs::remove_file(&path);
    elf.expect("the image can be read")
}

fn bytes(encoding: &str) -> Vec<u8> {
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
    object.append_section_data(defmt, &[0; FORMATS.len() + 2], 1);
    let time = ("defmt_timestamp", "{=u64:us}");
    for (index, (tag, text)) in (1..).zip(FORMATS.into_iter().chain([time])) {
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
