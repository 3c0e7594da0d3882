//! Filters: what ftrace's document shows, what is not understood, and any tree against a model.

use std::io::Cursor;

use proptest::prelude::*;
use takt_decode::filter::{Expr, Filter, Filters, Literal, Op, Spanned, Test};
use takt_decode::{EventTable, Item, Names, Threads, TraceFile};
use takt_tracer::event::{Id, Layout, Packed, Placer};

use crate::formats::names;
use crate::world::{Sink, World, entry, sample, table};

/// The numbers of the sample's records that get through.
fn passing(filters: &[&str]) -> Vec<usize> {
    let table = table();
    let parsed: Vec<_> = filters
        .iter()
        .map(|text| Filter::parse(text).unwrap())
        .collect();
    let filters = Filters::bind(&parsed, &table).unwrap();
    let mut names = names();
    let mut trace = TraceFile::open(Cursor::new(sample())).unwrap();
    let mut found = Vec::new();
    for (number, item) in trace.merge(&table).enumerate() {
        let Item::Record(record) = item.unwrap() else {
            panic!("nothing is lost");
        };
        names.learn(&record);
        if filters.matches(&record, &names) {
            found.push(number);
        }
    }
    found
}

/// 0 thread_name by main, 1 switch main → idle, 2 thread_name on CPU 1, 3 timer_latency in the interrupt, 4 wakeup,
/// 5 switch idle → timerlat, 6 timer_latency of the thread, 7 everything, 8 switch timerlat → idle.
#[test]
fn records_get_through() {
    for (filter, expected) in [
        // As in ftrace's document, "Event Tracing", with our fields.
        ("common_preempt_count > 1", &[7][..]),
        (
            "((prio >= 10 && prio < 100) || prio == 17) && comm != bash",
            &[0, 4],
        ),
        (
            "((prio >= 10 && prio < 15) || prio == 17) && comm != bash",
            &[],
        ),
        ("prev_comm ~ \"*ain\"", &[1]),
        ("prev_comm ~ \"m*\"", &[1]),
        ("prev_comm ~ \"*imer*\"", &[8]),
        ("prev_comm ~ \"m?in\"", &[1]),
        ("next_comm == \"swapper/0\"", &[1, 8]),
        ("next_comm == swapper/0 && prev_state == S", &[1, 8]),
        ("prev_comm == 'main'", &[1]),
        ("next_comm != timerlat/0", &[1, 8]),
        ("common_pid == 0", &[2, 3, 4, 5]),
        ("common_pid != 0", &[0, 1, 6, 7, 8]),
        ("CPU == 1", &[2, 7]),
        ("COMM == \"main\"", &[0, 1]),
        // A field of the event hides the common one.
        ("comm == timerlat/0", &[0, 4, 6, 8]),
        ("prio < 96", &[0, 2, 4]),
        ("prev_prio <= 10", &[1, 5]),
        ("prev_prio > 10", &[8]),
        ("prev_prio >= 0x5f", &[8]),
        ("common_flags & 0x8", &[3, 4]),
        ("common_flags & 0x4 && common_flags & 0x8", &[4]),
        ("mask & A", &[7]),
        ("mask & 8", &[]),
        ("mask == 7", &[7]),
        ("mask & \"A|B\"", &[7]),
        ("small == -3", &[7]),
        ("small < 0", &[7]),
        ("negative == -9223372036854775808", &[7]),
        ("big == 18446744073709551615", &[7]),
        ("big > -1", &[7]),
        ("place == \"do_timer+0x4\"", &[7]),
        ("place ~ \"do_timer*\"", &[7]),
        ("place == 0x201234", &[7]),
        ("context == thread", &[6]),
        ("context == 0", &[3]),
        ("latency > 50", &[6]),
        ("text == end", &[7]),
        ("prev_state == R", &[5]),
        ("prev_state == 1", &[1, 8]),
        // `!` binds more tightly than `&&`, and that more than `||`.
        ("!prev_prio > 10 && CPU == 0", &[0, 1, 3, 4, 5, 6]),
        ("!(prev_prio > 10 || CPU == 0)", &[2, 7]),
        ("CPU == 1 || prev_prio > 10 && prev_prio < 11", &[2, 7]),
        ("(CPU == 1 || prev_prio > 10) && common_pid == 77", &[7]),
        ("!!CPU == 1", &[2, 7]),
        // An event's own filter lets the others through.
        ("sched_switch: prev_prio < 10", &[0, 2, 3, 4, 5, 6, 7]),
        ("sched:sched_switch: prev_prio < 10", &[0, 2, 3, 4, 5, 6, 7]),
        ("sched : CPU == 1", &[2, 3, 6, 7]),
        ("timer_latency: latency > 50", &[0, 1, 2, 4, 5, 6, 7, 8]),
    ] {
        assert_eq!(passing(&[filter]), expected, "{filter}");
    }
    assert_eq!(passing(&[]).len(), 9);
    assert_eq!(
        passing(&[
            "CPU == 0",
            "sched_switch: prev_prio < 10",
            "common_pid == 0"
        ]),
        [3, 4, 5]
    );
}

#[test]
fn what_is_not_understood_has_its_place() {
    let table = table();
    for (text, at, reason) in [
        ("prio <> 10", 6, "number or a string"),
        ("", 0, "name of a field"),
        ("  ", 2, "name of a field"),
        ("prio", 4, "behind `prio`"),
        ("prio <", 6, "number or a string"),
        ("prio = 4", 5, "`==` does"),
        ("prio == 4 | prio == 5", 10, "`||` does"),
        ("prio == 4 prio", 10, "`&&`, `||` or the end"),
        ("(prio == 4", 0, "never closed"),
        ("prio == 4)", 9, "nothing is open"),
        ("(prio == 4 5", 11, "`)`"),
        ("prio == 4 &&", 12, "name of a field"),
        ("prio == \"x", 8, "no end"),
        ("prio == 0x", 8, "no number"),
        ("prio == 010", 8, "begins with 0"),
        ("prio == 18446744073709551616", 8, "no number"),
        ("prio == -9223372036854775809", 8, "no number"),
        ("ä # 4", 3, "`#`"),
        ("4 == prio", 0, "name of a field"),
        ("!", 1, "name of a field"),
        ("sched_switch:", 13, "name of a field"),
        ("sched_switch: x:y: z == 1", 17, "behind `y`"),
        ("place ~ do_timer*", 16, "`*` means nothing"),
    ] {
        let error = Filter::parse(text).unwrap_err();
        assert_eq!(error.at, at, "{text}: {error}");
        assert!(error.reason.contains(reason), "{text}: {error}");
    }
    for (text, at, reason) in [
        ("pri == 4", 0, "no event has a field `pri`"),
        ("prio == 4 || pri == 4", 13, "`pri`"),
        ("none: prio == 4", 0, "no event `none`"),
        ("sched_switch: prio == 4", 14, "`prio`"),
        ("prio == four", 8, "is a number"),
        ("prio ~ \"4*\"", 5, "no pattern"),
        ("next_comm < x", 10, "is a string"),
        ("next_comm & 4", 10, "is a string"),
        ("place < x", 6, "has names"),
        ("place ~ 5", 8, "a pattern is a string"),
        ("context == nmi", 11, "one of irq, thread"),
        ("mask & \"A|C\"", 7, "one of A, B"),
        ("CPU == x", 7, "is a number"),
        (
            "arrays: before == 9 && bytes == 1",
            23,
            "`bytes` is an array",
        ),
        ("values ~ \"*\"", 0, "`values` is an array"),
        ("caller == do_timer", 0, "`caller` is an array"),
        ("name < x", 5, "is a string"),
    ] {
        let filter = Filter::parse(text).unwrap();
        let (error, number) = Filters::bind(&[filter], &table).unwrap_err();
        assert_eq!((error.at, number), (at, 0), "{text}: {error}");
        assert!(error.reason.contains(reason), "{text}: {error}");
    }
    let error = Filter::parse("prio <> 10").unwrap_err();
    assert_eq!(error.caret("prio <> 10"), "prio <> 10\n      ^");
    let error = Filter::parse("ä\t# 4").unwrap_err();
    assert_eq!(error.caret("ä\t# 4"), "ä # 4\n  ^");
}

#[test]
fn nobody_uses_up_the_stack() {
    for (open, close) in [("(", ")"), ("!", ""), ("!(", ")")] {
        let deep = |levels: usize| open.repeat(levels) + "CPU == 0" + &close.repeat(levels);
        // What is printed is not deeper than what was read.
        let levels = if open.len() == 1 { 64 } else { 32 };
        let filter = Filter::parse(&deep(levels)).unwrap();
        assert_eq!(Filter::parse(&filter.to_string()), Ok(filter));
        assert!(Filter::parse(&deep(levels + 1)).is_err());
        assert!(
            Filter::parse(&deep(100_000))
                .unwrap_err()
                .reason
                .contains("levels")
        );
    }
    let deepest = "!".repeat(63) + "(CPU == 0 && CPU == 1 || CPU == 2)";
    let filter = Filter::parse(&deepest).unwrap();
    assert_eq!(Filter::parse(&filter.to_string()), Ok(filter));
    let long = "CPU == 0 || ".repeat(100_000) + "CPU == 0";
    assert_eq!(passing(&[&long]).len(), 7);
}

fn leaf() -> impl Strategy<Value = Test> {
    let ops = prop::sample::select(vec![
        Op::Eq,
        Op::Ne,
        Op::Lt,
        Op::Le,
        Op::Gt,
        Op::Ge,
        Op::Bits,
    ]);
    let field = prop::sample::select(vec!["a", "b", "c"]);
    (field, ops, -4..20i128).prop_map(|(field, op, value)| test(field, op, Literal::Number(value)))
}

fn test(field: &str, op: Op, value: Literal) -> Test {
    Test {
        field: Spanned {
            at: 0,
            node: field.into(),
        },
        op: Spanned { at: 0, node: op },
        value: Spanned { at: 0, node: value },
    }
}

fn tree() -> impl Strategy<Value = Expr> {
    leaf()
        .prop_map(Expr::Test)
        .prop_recursive(5, 40, 4, |inner| {
            let several = prop::collection::vec(inner.clone(), 2..4);
            prop_oneof![
                inner.prop_map(|inner| Expr::Not(Box::new(inner))),
                several.clone().prop_map(Expr::All),
                several.prop_map(Expr::Any),
            ]
        })
}

/// What a tree says of the numbers of three fields, the last one signed.
fn model(expr: &Expr, values: [i64; 3]) -> bool {
    match expr {
        Expr::Not(inner) => !model(inner, values),
        Expr::All(parts) => parts.iter().all(|part| model(part, values)),
        Expr::Any(parts) => parts.iter().any(|part| model(part, values)),
        Expr::Test(test) => {
            let Literal::Number(value) = test.value.node else {
                unreachable!()
            };
            let field = values[["a", "b", "c"]
                .iter()
                .position(|name| *name == test.field.node)
                .unwrap()];
            let value = value as i64;
            match test.op.node {
                Op::Eq => field == value,
                Op::Ne => field != value,
                Op::Lt => field < value,
                Op::Le => field <= value,
                Op::Gt => field > value,
                Op::Ge => field >= value,
                Op::Bits => field & value != 0,
                Op::Glob => unreachable!(),
            }
        }
    }
}

proptest! {
    #[test]
    fn a_tree_is_read_as_it_is_printed(expr in tree(), event in prop::option::of("[a-z]{1,5}(:[a-z]{1,5})?")) {
        let event = event.map(|node| Spanned { at: 0, node });
        let filter = Filter { event, expr };
        prop_assert_eq!(&Filter::parse(&filter.to_string()).unwrap(), &filter, "{}", filter);
    }

    #[test]
    fn a_tree_holds_as_the_model_says(expr in tree(), a in 0..16u8, b in 0..16u32, c in -8..8i8) {
        let class = "class c\nlayout wide\nfield a 4 u\nfield b 32 x\nfield c 4 i\n";
        let table = EventTable::parse(&entry(5, "x:y", class)).unwrap();
        let world = World::new(1);
        world.at(0, 1000, 0xc0, 9);
        let widths = [(4, 1), (32, 1), (4, 1)];
        let mut packed = Packed::new(Id::from_number(5));
        for (number, value) in [i64::from(a), i64::from(b), i64::from(c)].into_iter().enumerate() {
            let place = Placer::place_after(Layout::Wide, &widths[..number], widths[number].0);
            packed = packed.field(place, widths[number].0, value);
        }
        packed.send::<Sink>(Layout::Wide, Placer::words_of(Layout::Wide, &widths), None);
        let mut trace = TraceFile::open(Cursor::new(world.finish())).unwrap();
        let filter = Filter::parse(&expr.to_string()).unwrap();
        let filters = Filters::bind(&[filter], &table).unwrap();
        let names = Names::new(0, Threads::new(1));
        let Some(Ok(Item::Record(record))) = trace.merge(&table).next() else {
            panic!("no record");
        };
        prop_assert_eq!(filters.matches(&record, &names), model(&expr, [a.into(), b.into(), c.into()]), "{}", expr);
    }

    #[test]
    fn any_text_is_survived(text in "[a-c0-9x&|!()<>=~:\"' äCPU]{0,40}") {
        if let Ok(filter) = Filter::parse(&text) {
            let again = Filter::parse(&filter.to_string()).unwrap();
            prop_assert_eq!(filter, again);
        }
    }
}
