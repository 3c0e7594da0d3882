//! The event table.

use proptest::prelude::*;
use takt_decode::ftrace::Format;
use takt_decode::{EventTable, FieldType, Flags, Role, Slot};
use takt_tracer::event::{EventClass, Id, Layout, Meta, Place, Symbol, text_len};

use crate::world::{Create, Everything, Switch, Wakeup, entry, metadata, table};

#[test]
fn a_class_writes_the_text_that_the_document_shows() {
    assert_eq!(
        Switch::TEXT,
        "class sched_switch\n\
         layout core24 0x80\n\
         field next 8 tid\n\
         field prev_prio 7 prio\n\
         field next_prio 7 prio\n\
         field prev_state 2 enum(0=R,1=S,2=T,3=X)\n\
         print prev_comm={current:comm} prev_pid={current:pid} prev_prio={prev_prio} prev_state={prev_state} ==> \
         next_comm={next:comm} next_pid={next:pid} next_prio={next_prio}\n"
    );
    assert_eq!((Switch::LAYOUT, Switch::EXTRA), (Layout::Core24(0x80), 0));
    assert_eq!((Wakeup::LAYOUT, Wakeup::EXTRA), (Layout::Core8, 1));
    assert_eq!((Create::EXTRA, Everything::EXTRA), (1, 8));
}

#[test]
fn an_entry_is_text_padded_with_zeros() {
    static ID: Symbol<2> = Symbol::new();
    const PARTS: &[&str] = &["event a:b\n", "class c\n", "doc", " d", "\n"];
    const N: usize = text_len(PARTS);
    static META: Meta<N> = Meta::new(&ID, PARTS);
    assert_eq!((N, size_of_val(&META)), (24, 40));
    assert_eq!(META.text(), "event a:b\nclass c\ndoc d\n");
    assert_eq!(META.id(), Id::of(&ID));
}

#[test]
fn the_table_knows_what_was_declared() {
    let table = table();
    assert_eq!(table.iter().count(), 10);
    let switch = table.get(4).unwrap();
    assert_eq!(
        (switch.name.as_str(), switch.system(), switch.event()),
        ("sched:sched_switch", "sched", "sched_switch")
    );
    assert_eq!(switch.role, Role::Switch { next: 0 });
    assert_eq!(switch.doc, "For tests.");
    assert_eq!(
        switch.fields[2].slot,
        Slot::Fixed {
            bits: 7,
            place: Place::Word(23)
        }
    );
    assert_eq!(
        table.by_name("sched:thread_name").unwrap().role,
        Role::Name { tid: 0, comm: 3 }
    );
    let everything = table.get(0x103).unwrap();
    assert!(everything.has_dynamic());
    assert_eq!(
        everything.fields[1].ty,
        FieldType::Flags(Flags {
            delimiter: "|".into(),
            masks: vec![(1, "A".into()), (2, "B".into())],
        })
    );
    assert_eq!(
        everything.fields[2].slot,
        Slot::Fixed {
            bits: 12,
            place: Place::Extra(0, 9)
        }
    );
    assert_eq!(
        everything.fields[6].slot,
        Slot::Fixed {
            bits: 31,
            place: Place::Extra(7, 0)
        }
    );
}

#[test]
fn what_cannot_be_understood_is_refused_with_offset_and_reason() {
    let good = entry(4, "a:b", "class c\nlayout core8\nprint \n");
    let refuse = |bytes: &[u8], reason: &str| {
        let error = EventTable::parse(bytes).unwrap_err();
        assert!(error.reason.contains(reason), "{error}");
        error.offset
    };
    assert_eq!(refuse(&good[..12], "inside an entry"), 0);
    assert_eq!(refuse(&good[..30], "beyond the section"), 0);
    assert_eq!(
        refuse(&[&good[..], &good].concat(), "belongs to a:b already"),
        good.len() as u64
    );
    let at_second = |id, class: &str, reason: &str| {
        let bytes = [&good[..], &entry(id, "x:y", class)].concat();
        assert_eq!(refuse(&bytes, reason), good.len() as u64);
    };
    at_second(0x20_0000, "", "no event id");
    at_second(256, "", "no event id");
    at_second(6, "", "no `layout`");
    at_second(6, "layout core9\n", "no layout `core9`");
    at_second(6, "layout core24\n", "no layout");
    at_second(6, "layout core24 256\n", "no layout");
    at_second(6, "layout core8\n", "no `class`");
    at_second(6, "layout wide\nclass c\n", "does not fit its layout");
    at_second(6, "nonsense\n", "no known word");
    let field = |fields: &str, reason: &str| {
        at_second(6, &format!("layout core8\nclass c\n{fields}"), reason);
    };
    field("field a\n", "NAME BITS TYPE");
    field("field a 0 u\n", "cannot have 0 bits");
    field("field a 33 u\n", "cannot have 33 bits");
    field("field a 8 str\n", "cannot have 8 bits");
    field("field a * u\n", "cannot have * bits");
    field("field a * str\nfield b 8 u\n", "follows a dynamic field");
    field("field a [8] u\nfield b 8 u\n", "follows a dynamic field");
    field("field a [8;3] tid\n", "no arrays of that type");
    field("field a [8] enum(0=R)\n", "no arrays of that type");
    field("field a [*] str\n", "cannot have [*] bits");
    for width in [
        "[12]",
        "[8;0]",
        "[33;1]",
        "[8",
        "8]",
        "[;]",
        "[8;999999999]",
        "[]",
    ] {
        field(
            &format!("field a {width} u\n"),
            &format!("cannot have {width} bits"),
        );
    }
    field("field a [32;9] u\n", "beyond the longest record");
    field("field a 8 u\nfield a 8 u\n", "two fields a");
    field("field a 8 float\n", "no field type `float`");
    field("print {a}\n", "names no field");
    field(
        "field a 64 u\nfield b 64 u\nfield c 64 u\nfield d 64 u\nfield e 64 u\n",
        "beyond the longest record",
    );
    assert!(
        EventTable::parse(&[0; 16]).is_ok(),
        "filled up by the linker"
    );
}

#[test]
fn a_class_of_an_applications_is_none_of_the_kernels() {
    let role = |name: &str, class: &str| {
        let bytes = entry(
            1,
            name,
            &format!("class {class}\nlayout wide\nfield next 8 u\nprint {{next}}\n"),
        );
        EventTable::parse(&bytes).unwrap().get(1).unwrap().role
    };
    assert_eq!(
        role("sched:sched_switch", "sched_switch"),
        Role::Switch { next: 0 }
    );
    for class in [
        "function",
        "function_context",
        "print",
        "osnoise",
        "timerlat",
    ] {
        assert_ne!(role(&format!("ftrace:{class}"), class), Role::Plain);
        assert_eq!(role(&format!("demo:{class}"), class), Role::Plain);
    }
    assert_eq!(role("demo:sched_switch", "sched_switch"), Role::Plain);
}

#[test]
fn documentation_is_none_of_the_other_lines() {
    let doc = |text: &str| {
        let text = format!("event a:b\nclass c\nlayout wide\nfield x 8 u\nprint x={{x}}\n{text}");
        let bytes = [
            &1u64.to_le_bytes()[..],
            &(text.len() as u64).to_le_bytes(),
            text.as_bytes(),
            &[0; 8],
        ]
        .concat();
        let table = EventTable::parse(&bytes[..16 + text.len().next_multiple_of(8)]).unwrap();
        let event = table.get(1).unwrap();
        assert_eq!((event.fields.len(), event.class.as_str()), (1, "c"));
        event.doc.clone()
    };
    assert_eq!(
        doc("doc Emitted.\ndoc\ndoc At once.\n"),
        "Emitted.\n\nAt once."
    );
    let lines =
        "class of its own\nprint is what stands here {y}\nfield y 8 u\nlayout core8\ndocuments";
    assert_eq!(doc(&format!("doc\n{lines}\n")), format!("\n{lines}"));
    assert_eq!(doc("docEmitted.\n"), "Emitted.");
}

proptest! {
    #[test]
    fn any_bytes_are_metadata_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = EventTable::parse(&bytes);
    }

    #[test]
    fn damaged_metadata_is_metadata_or_an_error(
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
    ) {
        let mut bytes = metadata();
        for (at, value) in damage {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        let _ = EventTable::parse(&bytes);
    }
}

takt_tracer::event! {
    /// Class and event in one step.
    pub(crate) in_one_step = core24(0x80) "test:in_one_step" {
        vector: 8 u,
        state: 4 flags(", ", "3=AB,1=A"),
    }
    print "vector={vector} state={state}";
}
takt_tracer::event! {
    /// Has no print template of its own.
    pub(crate) as_its_class: in_one_step::Class = core "test:as_its_class";
}
takt_tracer::event! {
    /// Has one.
    pub(crate) as_itself: in_one_step::Class = core "test:as_itself" print "irq={vector}";
}

/// What the macros have put into the test's own executable for an event.
fn metadata_of(name: &str) -> String {
    let exe = std::fs::read(std::env::current_exe().unwrap()).unwrap();
    let begin = format!("event {name}\nclass ");
    let begin = begin.as_bytes();
    let at = exe.windows(begin.len()).position(|bytes| bytes == begin);
    let at = at.unwrap();
    let len = u64::from_le_bytes(*exe[..at].last_chunk().unwrap());
    String::from_utf8(exe[at..][..len as usize].to_vec()).unwrap()
}

#[test]
fn an_event_may_have_its_own_class_or_its_own_print_template() {
    use takt_tracer::event::Event;
    assert_eq!(in_one_step::Event::NAME, "test:in_one_step");
    let class = "class in_one_step\nlayout core24 0x80\nfield vector 8 u\nfield state 4 flags(\", \",3=AB,1=A)\n\
                 print vector={vector} state={state}\n";
    assert_eq!(in_one_step::Class::TEXT, class);
    let whole = metadata_of("test:in_one_step");
    assert_eq!(
        whole,
        format!("event test:in_one_step\n{class}doc Class and event in one step.\n")
    );
    let format = |name: &str, id: u64| {
        let text = metadata_of(name);
        let bytes = [
            &id.to_le_bytes()[..],
            &(text.len() as u64).to_le_bytes(),
            text.as_bytes(),
            &[0; 8][..text.len().next_multiple_of(8) - text.len()],
        ]
        .concat();
        let table = EventTable::parse(&bytes).unwrap();
        let text = Format::new(table.by_name(name).unwrap()).text();
        text.split_once("print fmt: ")
            .unwrap()
            .1
            .trim_end()
            .to_owned()
    };
    let of_class = r#""vector=%u state=%s", REC->vector, __print_flags(REC->state, ", ", { 0x3, "AB" }, { 0x1, "A" })"#;
    assert_eq!(format("test:in_one_step", 4), of_class);
    assert_eq!(format("test:as_its_class", 6), of_class);
    assert_eq!(format("test:as_itself", 8), r#""irq=%u", REC->vector"#);
}
