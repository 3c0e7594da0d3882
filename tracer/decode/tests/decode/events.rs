//! What an event class packs is what the decoder takes out.

use proptest::prelude::*;
use takt_decode::{EventTable, Item, TraceFile, Value};
use takt_tracer::event::{Id, Layout, Packed, Placer};

use crate::world::{
    ARRAYS, Arrays, EVERYTHING, Everything, LONG, Long, PLACES, Places, Sink, World, entry,
};

/// Reads all records of a file.
fn values(file: Vec<u8>, table: &EventTable) -> Vec<Vec<Value>> {
    let mut trace = TraceFile::open(std::io::Cursor::new(file)).unwrap();
    assert!(trace.is_complete());
    let records = trace.merge(table).map(|item| match item.unwrap() {
        Item::Record(record) => record.values,
        other => panic!("{other:?}"),
    });
    records.collect()
}

#[test]
fn values_that_are_too_big_spoil_nothing_else() {
    let world = World::new(1);
    world.at(0, 1, 0xc0, 1);
    let big = u64::MAX;
    Everything::emit::<Sink>(EVERYTHING, 0u8, big, 0u8, 0u8, 0u8, 0u8, big, "");
    let read = values(world.finish(), &crate::world::table());
    let numbers: Vec<_> = read[0].iter().filter_map(Value::number).collect();
    assert_eq!(numbers, [0, 15, 0, 0, 0, 0, (1 << 31) - 1]);
}

fn layouts() -> impl Strategy<Value = (Layout, &'static str, u16)> {
    prop_oneof![
        Just((Layout::Core24(0x80), "core24 0x80", 4)),
        Just((Layout::Core8, "core8", 4)),
        Just((Layout::Wide, "wide", 5)),
    ]
}

fn words(bits: &[u32]) -> usize {
    let mut placer = Placer::new(Layout::Wide);
    bits.iter().for_each(|bits| {
        placer.place(*bits);
    });
    placer.words()
}

/// Each once, as the placer takes them.
fn once(bits: &[u32]) -> Vec<(u32, usize)> {
    bits.iter().map(|bits| (*bits, 1)).collect()
}

fn fields() -> impl Strategy<Value = Vec<(u32, u64)>> {
    let bits = prop_oneof![1..=32u32, Just(64)];
    let fields = prop::collection::vec((bits, any::<u64>()), 0..16);
    fields.prop_map(|mut fields| {
        let width = |fields: &[(u32, u64)]| {
            words(&fields.iter().map(|(bits, _)| *bits).collect::<Vec<_>>())
        };
        while width(&fields) > Placer::MAX_EXTRA {
            fields.pop();
        }
        fields
    })
}

proptest! {
    #[test]
    fn any_class_both_ways(
        (layout, name, id) in layouts(),
        fields in fields(),
        text in prop::option::of("[a-z]{0,40}"),
        ctx in any::<u8>(),
    ) {
        let bits: Vec<_> = fields.iter().map(|(bits, _)| *bits).collect();
        let mut class = format!("class c\nlayout {name}\n");
        for (number, bits) in bits.iter().enumerate() {
            class += &format!("field f{number} {bits} u\n");
        }
        if text.is_some() {
            class += "field text * str\n";
        }
        let table = EventTable::parse(&entry(id.into(), "a:b", &class)).unwrap();

        let world = World::new(1);
        world.at(0, 1000, ctx, 9);
        let mut packed = Packed::new(Id::from_number(id));
        for (number, (width, value)) in fields.iter().enumerate() {
            packed = packed.field(Placer::place_after(layout, &once(&bits[..number]), *width), *width, *value);
        }
        let words = Placer::words_of(layout, &once(&bits));
        // Twice, so that a wrong length would be seen.
        packed.send::<Sink>(layout, words, text.as_ref().map(|text| text.as_bytes()));
        packed.send::<Sink>(layout, words, text.as_ref().map(|text| text.as_bytes()));

        let read = values(world.finish(), &table);
        prop_assert_eq!(read.len(), 2);
        prop_assert_eq!(&read[0], &read[1]);
        for ((width, value), read) in fields.iter().zip(&read[0]) {
            prop_assert_eq!(read.number(), Some(value & (u64::MAX >> (64 - width))));
        }
        if let Some(text) = text {
            prop_assert_eq!(read[0].last(), Some(&Value::Bytes(text.into_bytes())));
        }
    }
}

#[test]
fn an_array_is_packed_as_so_many_fields() {
    let before = [(5, 1), (9, 2), (3, 1)];
    let places = Placer::places_after::<4>(Layout::Core8, &before, 12);
    let mut placer = Placer::new(Layout::Core8);
    for bits in [5, 9, 9, 3] {
        placer.place(bits);
    }
    assert_eq!(places, [12; 4].map(|bits| placer.place(bits)));
    let fields = [&before[..], &[(12, 4)]].concat();
    assert_eq!(Placer::words_of(Layout::Core8, &fields), placer.words());
}

#[test]
fn arrays_and_bounded_strings_both_ways() {
    let world = World::new(1);
    world.at(0, 1, 0xc0, 1);
    // What does not fit into an element spoils none other.
    Arrays::emit::<Sink>(
        ARRAYS,
        0u8,
        [0x1ff_u32, 0, 0x100, 3],
        [0u8, 15, 0, 8, 7],
        [u64::MAX, 0],
        0u8,
        [7u16; 3],
    );
    Arrays::emit::<Sink>(ARRAYS, 15u8, [0u8; 4], [7u8; 5], [0u8; 2], 31u8, [0u16; 0]);
    Places::emit::<Sink>(PLACES, [1u32, 2], "12345678");
    Places::emit::<Sink>(PLACES, [1u32, 2], "123456789");
    Places::emit::<Sink>(PLACES, [1u32, 2], "");
    Long::emit::<Sink>(LONG, [1u64 << 63]);
    let read = values(world.finish(), &crate::world::table());
    let array = |elements: &[u64]| Value::Array(elements.into());
    let text = |text: &str| Value::Bytes(text.into());
    let pair = array(&[1, 2]);
    assert_eq!(
        read,
        [
            vec![
                Value::Number(0),
                array(&[255, 0, 0, 3]),
                array(&[0, 7, 0, 0, 7]),
                array(&[0xffff_ffff, 0]),
                Value::Number(0),
                array(&[7, 7, 7])
            ],
            vec![
                Value::Number(15),
                array(&[0; 4]),
                array(&[7; 5]),
                array(&[0; 2]),
                Value::Number(31),
                array(&[])
            ],
            vec![pair.clone(), text("12345678")],
            vec![pair.clone(), text("12345678")],
            vec![pair, text("")],
            vec![array(&[1 << 63])],
        ]
    );
}

#[test]
fn bytes_that_are_no_whole_element_are_none() {
    let class = "class c\nlayout wide\nfield list [32] u\n";
    let table = EventTable::parse(&entry(5, "a:b", class)).unwrap();
    let world = World::new(1);
    world.at(0, 1, 0xc0, 1);
    Packed::new(Id::from_number(5)).send::<Sink>(Layout::Wide, 0, Some(&[1, 0, 0, 0, 9, 9]));
    let read = values(world.finish(), &table);
    assert_eq!(read, [[Value::Array(vec![1])]]);
}
