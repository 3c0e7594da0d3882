//! Calls as they are shown.

use takt_decode::{Context, EventTable, Threads, Value};

use super::*;
use crate::test_events::events;

/// The descriptions of the events, as an image has them.
fn table() -> EventTable {
    let graph = "class funcgraph\nlayout core8\nfield depth 7 u\nfield irq 1 u\nfield ip 12 block(0,64)\nfield tid 8 tid\nprint {ip}\n";
    let texts = [
        (4, format!("event {ENTRY}\n{graph}")),
        (6, format!("event {EXIT}\n{graph}")),
        (8, "event sched:sched_switch\nclass sched_switch\nlayout core24 0x80\nfield next 8 tid\nprint next={next:pid}\n".to_owned()),
        (10, "event irq:irq_handler_entry\nclass irq_vector\nlayout core8\nfield vector 8 irq\nprint irq={vector}\n".to_owned()),
        (12, "event irq:irq_handler_exit\nclass irq_vector\nlayout core8\nfield vector 8 irq\nprint irq={vector}\n".to_owned()),
    ];
    events(&texts)
}

/// A record: time, running thread, event, values.
type Line<'a> = (u64, u8, &'a str, &'a [u64]);

fn written(lines: &[Line<'_>]) -> Vec<String> {
    shown(lines, Columns::default())
}

fn shown(lines: &[Line<'_>], columns: Columns) -> Vec<String> {
    let lines: Vec<_> = lines.iter().map(|line| (0xc0, *line)).collect();
    shown_in(&lines, columns)
}

/// The lines of records in these contexts.
fn shown_in(lines: &[(u8, Line<'_>)], columns: Columns) -> Vec<String> {
    let table = table();
    let mut names = Names::new(1_000_000_000, Threads::new(1))
        .with_symbols(|address| Some(format!("f{}", address / 64)));
    names.threads.name(7, "seven");
    names.threads.name(8, "eight");
    let mut out = Vec::new();
    let mut graph = Graph::new(&mut out);
    graph.show(columns);
    for (context, (ts, tid, event, values)) in lines {
        let record = Record {
            cpu: 0,
            ts: *ts,
            context: Context(*context),
            tid: *tid,
            len: 8,
            event: table.by_name(event).unwrap(),
            values: values.iter().map(|value| Value::Number(*value)).collect(),
            is_cut: false,
        };
        graph.item(&Item::Record(record), &mut names).unwrap();
    }
    graph.end(&names).unwrap();
    String::from_utf8(out)
        .unwrap()
        .lines()
        .map(str::to_owned)
        .collect()
}

const SWITCH: &str = "sched:sched_switch";

#[test]
fn leaves_are_one_line_and_others_have_braces() {
    let lines = written(&[
        (0, 7, ENTRY, &[0, 0, 1, 7]),
        (1_000, 7, ENTRY, &[1, 0, 2, 7]),
        (2_030, 7, EXIT, &[1, 0, 2, 7]),
        (12_398, 7, EXIT, &[0, 0, 1, 7]),
    ]);
    assert_eq!(
        lines,
        [
            " 0)               |  f1() {",
            " 0)   1.030 us    |    f2();",
            " 0) + 12.398 us   |  }",
        ]
    );
}

#[test]
fn the_time_of_other_threads_is_not_charged() {
    let lines = written(&[
        (0, 7, ENTRY, &[0, 0, 1, 7]),
        (100, 7, SWITCH, &[8]),
        (500, 8, ENTRY, &[0, 0, 2, 8]),
        (9_000_000, 8, EXIT, &[0, 0, 2, 8]),
        (9_000_100, 8, SWITCH, &[7]),
        (9_000_300, 7, EXIT, &[0, 0, 1, 7]),
    ]);
    assert_eq!(lines[0], " 0)               |  f1() {");
    assert_eq!(
        lines[1],
        " 0)               |    /* sched_switch: next=8 */"
    );
    assert_eq!(lines[3], " 0)    seven-7     =>    eight-8    ");
    assert_eq!(lines[6], " 0) # 8999.500 us |  f2();");
    assert_eq!(lines.last().unwrap(), " 0)   0.300 us    |  }");
}

#[test]
fn the_time_of_interrupts_is_not_charged() {
    let lines = written(&[
        (0, 7, ENTRY, &[0, 0, 1, 7]),
        (100, 7, ENTRY, &[0, 1, 5, 7]),
        (150, 7, ENTRY, &[1, 1, 6, 7]),
        (350, 7, EXIT, &[1, 1, 6, 7]),
        (1_100, 7, EXIT, &[0, 1, 5, 7]),
        (1_200, 7, EXIT, &[0, 0, 1, 7]),
    ]);
    assert_eq!(
        lines,
        [
            " 0)               |  f1() {",
            " 0)   ==========> |",
            " 0)               |  f5() {",
            " 0)   0.200 us    |    f6();",
            " 0)   1.000 us    |  }",
            " 0)   <========== |",
            " 0)   0.200 us    |  }",
        ]
    );
}

#[test]
fn an_interrupt_that_ends_in_a_switch() {
    let lines = shown_in(
        &[
            (0xc0, (0, 7, ENTRY, &[0, 0, 1, 7][..])),
            (0x90, (100, 7, "irq:irq_handler_entry", &[80])),
            (0x90, (110, 7, ENTRY, &[0, 1, 5, 7])),
            (0x90, (130, 7, EXIT, &[0, 1, 5, 7])),
            (0x10, (200, 7, "irq:irq_handler_exit", &[80])),
            (0x00, (210, 7, ENTRY, &[0, 1, 6, 7])),
            (0x80, (250, 7, SWITCH, &[8])),
            (0x80, (260, 8, EXIT, &[0, 1, 6, 7])),
            (0xc0, (300, 8, ENTRY, &[0, 0, 2, 8])),
            (0xc0, (400, 8, EXIT, &[0, 0, 2, 8])),
        ],
        Columns::default(),
    );
    assert_eq!(
        lines,
        [
            " 0)               |  f1() {",
            " 0)   ==========> |",
            " 0)               |  /* irq_handler_entry: irq=80 */",
            " 0)   0.020 us    |  f5();",
            " 0)               |  /* irq_handler_exit: irq=80 */",
            " 0)               |  f6() {",
            " 0)               |    /* sched_switch: next=8 */",
            " 0)   0.040 us    |  }",
            " 0)   <========== |",
            " ------------------------------------------",
            " 0)    seven-7     =>    eight-8    ",
            " ------------------------------------------",
            "",
            " 0)   0.100 us    |  f2();",
        ]
    );
}

#[test]
fn interrupts_of_two_threads_with_nothing_between() {
    let lines = shown_in(
        &[
            (0x90, (110, 7, ENTRY, &[0, 1, 5, 7][..])),
            (0x90, (130, 7, EXIT, &[0, 1, 5, 7])),
            (0x90, (210, 8, ENTRY, &[0, 1, 5, 8])),
            (0x90, (230, 8, EXIT, &[0, 1, 5, 8])),
        ],
        Columns::default(),
    );
    assert_eq!(
        lines,
        [
            " 0)   ==========> |",
            " 0)   0.020 us    |  f5();",
            " ------------------------------------------",
            " 0)    seven-7     =>    eight-8    ",
            " ------------------------------------------",
            "",
            " 0)   0.020 us    |  f5();",
        ]
    );
}

#[test]
fn returns_without_an_entry_and_entries_without_a_return() {
    let lines = written(&[
        (0, 7, EXIT, &[3, 0, 1, 7]),
        (10, 7, ENTRY, &[1, 0, 2, 7]),
        (20, 7, ENTRY, &[1, 0, 3, 7]),
        (25, 7, EXIT, &[1, 0, 3, 7]),
        (30, 7, EXIT, &[0, 0, 4, 7]),
    ]);
    assert_eq!(
        lines,
        [
            " 0)               |        } /* f1 */",
            " 0)               |    f2() {",
            " 0)   0.005 us    |    f3();",
            " 0)               |  } /* f4 */",
        ]
    );
}

#[test]
fn columns_are_ftraces_options() {
    let lines = [
        (0, 7, ENTRY, &[0, 0, 1, 7][..]),
        (100, 7, ENTRY, &[0, 1, 5, 7]),
        (20_100, 7, EXIT, &[0, 1, 5, 7]),
        (40_000, 7, EXIT, &[0, 0, 1, 7]),
    ];
    let all = Columns::default();
    assert_eq!(
        header(all),
        "# CPU  DURATION                  FUNCTION CALLS\n# |     |   |                     |   |   |   |\n"
    );
    let all_on = Columns {
        proc: true,
        abstime: true,
        tail: true,
        ..all
    };
    assert_eq!(
        shown(&lines, all_on),
        [
            "    0.000000000 |   0)    seven-7     |               |  f1() {",
            "    0.000000100 |   0)    seven-7     |   ==========> |",
            "    0.000000100 |   0)    seven-7     | + 20.000 us   |  f5();",
            "    0.000040000 |   0)    seven-7     |   <========== |",
            "    0.000040000 |   0)    seven-7     | + 20.000 us   |  } /* f1 */",
        ]
    );
    let few = Columns {
        overhead: false,
        irqs: false,
        ..all
    };
    assert_eq!(
        shown(&lines, few),
        [" 0)               |  f1() {", " 0)   20.000 us   |  }"]
    );
    let none = Columns {
        cpu: false,
        duration: false,
        irqs: false,
        ..all
    };
    assert_eq!(shown(&lines, none), ["f1() {", "}"]);
    assert_eq!(
        header(none),
        "#               FUNCTION CALLS\n#               |   |   |   |\n"
    );
}

#[test]
fn marks() {
    let marks: String = [10_000, 10_001, 100_001, 1_000_001, 10_000_001]
        .map(mark)
        .iter()
        .collect();
    assert_eq!(marks, " +!#*");
}
