//! Several CPUs, in the order of time, piece by piece.

use std::cell::Cell;
use std::io::{self, Cursor, Read, Seek, SeekFrom};
use std::rc::Rc;

use proptest::prelude::*;
use takt_decode::{Error, FrameReader, FrameWriter, Item, TraceFile};
use takt_tracer::event::Id;
use takt_tracer::wire::{CHANNEL_LOG, FILE_MAGIC_LOG, FileHeader};

use crate::world::{CREATE, Create, Sink, WAKEUP, Wakeup, World, file_header, sample, table};

/// A file with these records: CPU and gap to the record before.
fn file(records: &[(usize, u64)]) -> Vec<u8> {
    let mut world = World::new(3);
    let mut now = 0;
    for (number, (cpu, gap)) in records.iter().enumerate() {
        now += gap;
        world.at(*cpu, now, 0xc0, 9);
        Wakeup::emit::<Sink>(WAKEUP, number as u8, (number >> 8) as u8, *cpu as u8);
        world.hand_over();
    }
    world.finish()
}

proptest! {
    #[test]
    fn records_come_in_the_order_of_time(
        records in prop::collection::vec((0..3usize, prop_oneof![0..1000u64, Just(1 << 33)]), 0..300),
    ) {
        let table = table();
        let mut trace = TraceFile::open(Cursor::new(file(&records))).unwrap();
        prop_assert!(trace.is_complete());
        prop_assert_eq!(trace.nr_records(), records.len() as u64);
        let mut last = 0;
        let mut seen = vec![false; records.len()];
        for item in trace.merge(&table) {
            let Item::Record(record) = item.unwrap() else { panic!("only records") };
            prop_assert!(record.ts >= last);
            last = record.ts;
            let field = |name| record.number(name).unwrap() as usize;
            let number = field("tid") + (field("prio") << 8);
            prop_assert_eq!(records[number].0, usize::from(record.cpu));
            let at: u64 = records[..=number].iter().map(|(_, gap)| gap).sum();
            prop_assert_eq!(record.ts, at);
            prop_assert!(!std::mem::replace(&mut seen[number], true));
        }
        prop_assert!(seen.into_iter().all(|seen| seen));
    }
}

/// Counts what is read, a few bytes at a time.
struct Slow {
    input: Cursor<Vec<u8>>,
    longest: Rc<Cell<usize>>,
}

impl Read for Slow {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        self.longest.set(self.longest.get().max(out.len()));
        let len = out.len().min(7);
        self.input.read(&mut out[..len])
    }
}

impl Seek for Slow {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.input.seek(to)
    }
}

#[test]
fn a_long_trace_is_read_in_small_pieces() {
    let records: Vec<_> = (0..20_000).map(|number| (number % 3, 10)).collect();
    let bytes = file(&records);
    assert!(bytes.len() > 200_000);
    let longest = Rc::new(Cell::new(0));
    let input = Slow {
        input: Cursor::new(bytes),
        longest: Rc::clone(&longest),
    };
    let table = table();
    let mut trace = TraceFile::open(input).unwrap();
    assert_eq!(trace.merge(&table).filter(Result::is_ok).count(), 20_000);
    assert_eq!(trace.merge(&table).count(), 20_000, "can be read again");
    assert!(
        longest.get() <= 16 << 10,
        "no buffer grows with the file: {}",
        longest.get()
    );
}

/// Fails after so many bytes.
struct Broken(Cursor<Vec<u8>>, u64);

impl Read for Broken {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.0.position() >= self.1 {
            return Err(io::Error::other("bad sector"));
        }
        self.0.read(&mut out[..1])
    }
}

#[test]
fn an_input_that_fails_is_an_error_with_its_offset() {
    let bytes = sample();
    for at in [0, 63, 64, 100, 400] {
        let result =
            FrameReader::trace(Broken(Cursor::new(bytes.clone()), at)).and_then(|mut frames| {
                while frames.next_entry()?.is_some() {}
                Ok(())
            });
        match result {
            Err(Error::Io { offset, source }) => {
                assert_eq!(offset, at);
                assert_eq!(source.to_string(), "bad sector");
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_file_header_is_judged() {
    let refuse = |bytes: &[u8], at: u64, reason: &str| match FrameReader::trace(bytes) {
        Err(error @ Error::Header { .. }) => {
            let Error::Header { offset, .. } = error else {
                unreachable!()
            };
            assert_eq!(offset, at);
            assert!(error.to_string().contains(reason), "{error}");
        }
        other => panic!("{other:?}"),
    };
    let good = file_header(2);
    refuse(b"", 0, "ends inside its header");
    refuse(&good.encode()[..63], 63, "after 63 bytes");
    refuse(
        &FileHeader {
            magic: *b"\x7fELF\x02\x01\x01\x00",
            ..good
        }
        .encode(),
        0,
        "begins with \\x7fELF",
    );
    refuse(
        &FileHeader {
            magic: FILE_MAGIC_LOG,
            ..good
        }
        .encode(),
        0,
        "no trace file",
    );
    refuse(
        &FileHeader { version: 3, ..good }.encode(),
        12,
        "version 3, but this program knows 2",
    );
    refuse(
        &FileHeader { tsc_hz: 0, ..good }.encode(),
        16,
        "TSC frequency",
    );
    refuse(
        &FileHeader {
            sub_size: 100,
            ..good
        }
        .encode(),
        32,
        "sub-buffer size cannot be 100",
    );
    refuse(
        &FileHeader {
            sub_size: 1 << 30,
            ..good
        }
        .encode(),
        32,
        "sub-buffer size",
    );
    refuse(
        &FileHeader { nr_cpus: 0, ..good }.encode(),
        36,
        "number of CPUs",
    );
    refuse(
        &FileHeader {
            nr_cpus: 257,
            ..good
        }
        .encode(),
        36,
        "number of CPUs",
    );
    let mut long = good.encode();
    long[8] = 63;
    refuse(&long, 8, "header length cannot be 63");
    long[8] = 72;
    refuse(&long, 64, "ends inside its header");
    assert!(
        FrameReader::trace(&[&long[..], &[0; 8]].concat()[..]).is_ok(),
        "a longer header is skipped"
    );
}

#[test]
fn a_log_has_frames_of_any_length() {
    let header = FileHeader {
        magic: FILE_MAGIC_LOG,
        sub_size: 0,
        ..file_header(1)
    };
    let mut writer = FrameWriter::new(Vec::new(), &header).unwrap();
    for len in [0, 1, 7, 8, 100_000] {
        writer.frame(CHANNEL_LOG, 0, &vec![5; len]).unwrap();
    }
    let bytes = writer.finish().unwrap();
    let mut frames = FrameReader::log(&bytes[..]).unwrap();
    let mut lengths = Vec::new();
    while let Some(entry) = frames.next_entry().unwrap() {
        let takt_decode::Entry::Frame(frame) = entry else {
            panic!("{entry:?}")
        };
        lengths.push(frame.payload.len());
    }
    assert_eq!(lengths, [0, 1, 7, 8, 100_000]);
}

/// An input that knows how far it was read.
struct Counted {
    input: Cursor<Vec<u8>>,
    end: Rc<Cell<u64>>,
}

impl Read for Counted {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let nr = self.input.read(out)?;
        self.end.set(self.end.get().max(self.input.position()));
        Ok(nr)
    }
}

impl Seek for Counted {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.input.seek(to)
    }
}

/// What is wanted is there, and little more was read, unless a CPU that is wanted shows nothing of later, or something is
/// missing.
#[test]
fn reading_ends_behind_what_is_wanted() {
    const NR: u64 = 20_000;
    // A wake-up each microsecond; on the second CPU up to a time only.
    let file = |end_of_second: u64, lacks: bool| {
        let mut world = World::new(2);
        for step in 0..NR {
            for cpu in 0..2 {
                if cpu == 0 || step < end_of_second {
                    world.at(cpu, 2000 * step, 0xc0, 3);
                    Wakeup::emit::<Sink>(WAKEUP, 4u8, 95u8, 0u8);
                }
            }
            if lacks && step == 20 {
                world.end_sub(false);
            }
            world.hand_over();
        }
        world.finish()
    };
    let table = table();
    let read = |file: Vec<u8>, to_ns: u64, cpus: &[u8]| {
        let (len, end) = (file.len() as u64, Rc::new(Cell::new(0)));
        let input = Counted {
            input: Cursor::new(file),
            end: Rc::clone(&end),
        };
        let mut trace = TraceFile::open_range(input, 0..=to_ns, |cpu| cpus.contains(&cpu)).unwrap();
        let (is_whole, read) = (trace.is_whole(), end.get());
        let records = trace.merge(&table).filter(|item| match item {
            Ok(Item::Record(record)) => cpus.contains(&record.cpu) && record.ts <= 2 * to_ns,
            _ => false,
        });
        (
            records.count() as u64,
            is_whole,
            read < len / 4,
            read == len,
        )
    };
    let (part, whole) = ((false, true, false), (true, false, true));
    let same = |(nr, a, b, c): (u64, bool, bool, bool)| (nr, (a, b, c));
    let sixth = NR * 1000 / 8;
    let wanted = NR / 8 + 1;
    assert_eq!(
        same(read(file(NR, false), sixth, &[0, 1])),
        (2 * wanted, part)
    );
    assert_eq!(
        same(read(file(NR, false), u64::MAX / 4, &[0, 1])),
        (2 * NR, whole)
    );
    assert_eq!(
        same(read(file(100, false), sixth, &[0, 1])),
        (wanted + 100, whole)
    );
    assert_eq!(same(read(file(100, false), sixth, &[0])), (wanted, part));
    let (_, is_whole) = same(read(file(NR, true), sixth, &[0, 1]));
    assert_eq!(is_whole, whole);
}

#[test]
fn before_what_is_wanted_come_names_and_what_is_wrong() {
    const NR: u64 = 400;
    let file = |first: Id| {
        let mut world = World::new(2);
        for step in 0..NR {
            for cpu in 0..2 {
                world.at(cpu, 2000 * step + cpu as u64, 0xc0, 3);
                match step {
                    0 => Wakeup::emit::<Sink>(first, 0u8, 95u8, cpu as u8),
                    _ if step % 50 == 7 => {
                        Create::emit::<Sink>(CREATE, step as u8, 1u8, cpu as u8, "name")
                    }
                    _ => Wakeup::emit::<Sink>(WAKEUP, step as u8, 95u8, cpu as u8),
                }
            }
            world.hand_over();
        }
        world.finish()
    };
    let (sound, table) = (file(WAKEUP), table());
    let read = |file: &[u8], from_ns: u64| -> Vec<(u64, String)> {
        let mut trace =
            TraceFile::open_range(Cursor::new(file), from_ns..=u64::MAX, |_| true).unwrap();
        let items = trace.merge(&table).map(|item| match item.unwrap() {
            Item::Record(record) => (record.ts, record.event.name.clone()),
            item => (0, format!("{item:?}")),
        });
        items.collect()
    };
    let all = read(&sound, 0);
    assert_eq!(all.len() as u64, 2 * NR);
    for from_ns in [1, 50_000, 199_999, 200_000, 200_001, NR * 1000 + 1] {
        let part = read(&sound, from_ns);
        // A cycle is half a nanosecond.
        let is_wanted = |it: &&(u64, String)| it.0 >= 2 * from_ns || it.1.ends_with("thread_name");
        let of = |items: &[(u64, String)]| -> Vec<_> {
            items.iter().filter(is_wanted).cloned().collect()
        };
        assert_eq!(of(&part), of(&all), "{from_ns}");
        // Of each CPU no more than a sub-buffer is before.
        let nr_before = part.iter().filter(|it| !is_wanted(it)).count();
        assert!(nr_before < 2 * 256 / 8, "{from_ns}: {nr_before}");
    }

    // An event that there is not, in the first sub-buffer.
    let damaged = file(Id::from_number(14));
    for from_ns in [0, 200_000] {
        let is_there = |(_, text): &(u64, String)| text.contains("UnknownEvent");
        assert!(read(&damaged, from_ns).iter().any(is_there), "{from_ns}");
    }
}
