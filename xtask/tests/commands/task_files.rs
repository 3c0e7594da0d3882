//! The process that reads a task's ELF file first: it says how far it came, and ends where that takes too much.

use std::fs::File;
use std::io::{Seek, Write};
use std::process::Command;

use takt_guest::apart::ARGUMENT;

use crate::common::{Done, elf};

/// An ELF file with so many symbols, each of whose names is the end of one with so many bytes.
fn with_symbols(nr: usize, len: usize) -> Vec<u8> {
    const HEADER: usize = 64;
    let mut names = [&[0], &vec![b'x'; len][..], &[0]].concat();
    names.resize(names.len().next_multiple_of(8), 0);
    let symbol = |number: usize| {
        let mut symbol = [0; 24];
        symbol[..4].copy_from_slice(&(number as u32 + 1).to_le_bytes());
        // Absolute.
        symbol[6..8].copy_from_slice(&[0xf1, 0xff]);
        symbol
    };
    let symbols = [vec![0; 24], (0..nr).flat_map(symbol).collect()].concat();
    let section = |kind: u32, at: usize, size: usize, link: u32, entry: u64| {
        let places = [0, 0, at as u64, size as u64]
            .map(u64::to_le_bytes)
            .concat();
        let rest = [8, entry].map(u64::to_le_bytes).concat();
        let links = [link, 0].map(u32::to_le_bytes).concat();
        let kind = [0, kind].map(u32::to_le_bytes).concat();
        [kind, places, links, rest].concat()
    };
    let end = HEADER + symbols.len() + names.len();
    let mut header = vec![0; HEADER];
    header[..8].copy_from_slice(b"\x7fELF\x02\x01\x01\0");
    header[16..24].copy_from_slice(&[2, 0, 62, 0, 1, 0, 0, 0]);
    header[40..48].copy_from_slice(&(end as u64).to_le_bytes());
    header[52..].copy_from_slice(&[64, 0, 56, 0, 0, 0, 64, 0, 3, 0, 2, 0]);
    let sections = [
        section(0, 0, 0, 0, 0),
        section(2, HEADER, symbols.len(), 2, 24),
        section(3, HEADER + symbols.len(), names.len(), 0, 0),
    ];
    [header, symbols, names, sections.concat()].concat()
}

/// What that process does with what is in here.
fn read(file: File) -> Done {
    let mut process = Command::new(env!("CARGO_BIN_EXE_xtask"));
    let process = process.arg(ARGUMENT).stdin(file);
    Done::of(process.output().unwrap())
}

#[test]
fn a_file_is_read_whole() {
    let read = |bytes: &[u8]| {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        file.rewind().unwrap();
        read(file)
    };
    for bytes in [elf(&[]), with_symbols(10, 1000)] {
        let done = read(&bytes);
        assert_eq!(done.code(0).stdout, "symbols\nlines\n");
    }
    assert_eq!(read(b"no ELF file").stdout, "");
}

#[test]
fn what_takes_too_much_memory_costs_that_process_only() {
    let zeros = File::open("/dev/zero").unwrap();
    assert_eq!(read(zeros).code(1).stdout, "");
}
