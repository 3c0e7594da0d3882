//! The lines of the tracer `function`, with what ftrace's options add to names.

use takt_decode::{Context, EventTable, Names, Record, Threads, Value};

/// The event of the tracer `function` as an image describes it, and one of `function_graph`.
fn table() -> EventTable {
    let block = "12 block(0x200000,64)";
    let texts = [
        (
            4,
            format!(
                "event ftrace:function_context\nclass function_context\nlayout core8\nfield ip {block}\n\
                 field parent_ip {block}\nprint {{ip}} <-{{parent_ip}}\n"
            ),
        ),
        (
            6,
            format!(
                "event ftrace:funcgraph_entry\nclass funcgraph\nlayout core8\nfield ip {block}\nprint {{ip}}\n"
            ),
        ),
    ];
    let mut section = Vec::new();
    for (id, text) in texts {
        section.extend(u64::to_le_bytes(id));
        section.extend((text.len() as u64).to_le_bytes());
        section.extend(text.as_bytes());
        section.resize(section.len().next_multiple_of(8), 0);
    }
    EventTable::parse(&section).unwrap()
}

/// What the options `sym-offset` and `sym-addr` make of two functions: `first` from block 0 on with 0x60 bytes, `second`
/// from block 2 on with 0x100. Beyond 0x200200 there is none.
fn names(offsets: bool, addresses: bool) -> Names {
    let mut names =
        Names::new(1_000_000_000, Threads::new(1)).with_symbols(move |address| match address {
            0x20_0000..0x20_0200 => {
                let (name, start, size) = match address {
                    ..0x20_0080 => ("first", 0x20_0000, 0x60),
                    _ => ("<second as Second<u8>>::run", 0x20_0080, 0x100),
                };
                let mut shown = name.to_owned();
                if offsets {
                    shown += &format!("+{:#x}/{size:#x}", address - start);
                }
                if addresses {
                    shown += &format!(" <{address:016x}>");
                }
                Some(shown)
            }
            _ => None,
        });
    names.offsets = offsets;
    names
}

/// The message of a record with these blocks.
fn line(names: &Names, event: &str, blocks: &[u64]) -> String {
    let table = table();
    let record = Record {
        cpu: 0,
        ts: 0,
        context: Context(0xc0),
        tid: 0,
        len: 8,
        event: table.by_name(event).unwrap(),
        values: blocks.iter().map(|block| Value::Number(*block)).collect(),
        is_cut: false,
    };
    names.line(&record)
}

const CALL: &str = "ftrace:function_context";

#[test]
fn without_options_there_are_names_alone() {
    let names = names(false, false);
    assert_eq!(
        line(&names, CALL, &[0, 3]),
        "first <-<second as Second<u8>>::run"
    );
}

#[test]
fn with_offsets_the_entry_is_exact_and_the_call_in_its_block() {
    let names = names(true, false);
    assert_eq!(
        line(&names, CALL, &[0, 3]),
        "first+0x0/0x60 <-<second as Second<u8>>::run+0x40..0x7f/0x100"
    );
    // A block ends no later than its function.
    assert_eq!(
        line(&names, CALL, &[2, 1]),
        "<second as Second<u8>>::run+0x0/0x100 <-first+0x40..0x5f/0x60"
    );
    // An address that nothing is known about stays one.
    assert_eq!(line(&names, CALL, &[8, 9]), "0x200200 <-0x200240");
    // As in Linux, function_graph does not say it.
    assert_eq!(
        line(&names, "ftrace:funcgraph_entry", &[2]),
        "funcgraph_entry: <second as Second<u8>>::run"
    );
}

#[test]
fn addresses_stand_behind_offsets() {
    assert_eq!(
        line(&names(false, true), CALL, &[0, 3]),
        "first <0000000000200000> <-<second as Second<u8>>::run <00000000002000c0>"
    );
    assert_eq!(
        line(&names(true, true), CALL, &[0, 3]),
        "first+0x0/0x60 <0000000000200000> <-<second as Second<u8>>::run+0x40..0x7f/0x100 <00000000002000c0>"
    );
}

#[test]
fn a_caller_that_is_hidden_leaves_the_entrys_offset() {
    let names = names(true, false).without_parents();
    assert_eq!(line(&names, CALL, &[0, 3]), "first+0x0/0x60");
}
