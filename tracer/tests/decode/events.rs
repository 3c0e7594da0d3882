//! What an event class packs is what the decoder takes out.

use proptest::prelude::*;
use takt_tracer::decode::{EventTable, Item, TraceFile, Value};
use takt_tracer::event::{Id, Layout, Packed, Placer};

use crate::world::{EVERYTHING, Everything, Sink, World, entry};

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
            packed = packed.field(Placer::place_after(layout, &bits[..number], *width), *width, *value);
        }
        let words = Placer::words_of(layout, &bits);
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
