//! Stretches and how they are shown.

use takt_decode::{Context, EventTable, Threads, Value};
use takt_tracer::control::Kept;

use super::stretch::LATENCY_MAX;
use super::*;
use crate::test_events::events;

/// The descriptions of the events, as an image has them.
fn table() -> EventTable {
    let texts = [
        (
            2,
            "event sched:sched_wakeup\nclass w\nlayout core8\nfield tid 8 tid\nfield prio 8 prio\nprint pid={tid:pid}\n",
        ),
        (
            4,
            "event sched:sched_switch\nclass s\nlayout core8\nfield next 8 tid\nfield next_prio 8 prio\nprint next={next:pid}\n",
        ),
        (
            6,
            "event tracer:latency_max\nclass l\nlayout core8\nfield tid 8 tid\nfield started_at 32 sym\nfield ended_at 32 sym\nfield latency 64 cycles\nfield began 32 u\nfield context 8 x\nfield begun_by 24 tid\nprint latency={latency}\n",
        ),
        (
            8,
            "event app:step\nclass n\nlayout core8\nfield n 8 u\nprint n={n}\n",
        ),
    ];
    events(&texts)
}

/// A record: CPU, time, running thread, event, values.
type Line<'a> = (u8, u64, u8, &'a str, &'a [u64]);

const WAKEUP: &str = "sched:sched_wakeup";
const SWITCH: &str = "sched:sched_switch";
const STEP: &str = "app:step";

/// The stretch that is found for a tracer, and how it is shown.
fn written(tracer: &str, lines: &[Line<'_>], is_verbose: bool) -> (Stretch, Vec<String>) {
    let table = table();
    let record = |(cpu, ts, tid, event, values): &Line<'_>| Record {
        cpu: *cpu,
        ts: *ts,
        context: Context(0x80),
        tid: *tid,
        len: 8,
        event: table.by_name(event).unwrap(),
        values: values.iter().map(|value| Value::Number(*value)).collect(),
        is_cut: false,
    };
    let records: Vec<_> = lines.iter().map(record).collect();
    let mut finder = Finder::new(tracer);
    records.iter().for_each(|record| finder.see(record));
    let stretch = finder.found().unwrap();
    let mut names = Names::new(1_000_000_000, Threads::new(2))
        .with_symbols(|address| Some(format!("f{address}")));
    names.threads.name(7, "seven");
    names.threads.name(8, "eight");
    let mut out = Vec::new();
    let spool = std::env::temp_dir();
    let mut latency = Latency::new(&mut out, &spool)
        .unwrap()
        .of(tracer, Some(stretch))
        .places(Lines {
            started_at: Some("a.rs:7".into()),
            ended_at: None,
        })
        .verbose(is_verbose);
    let facts = Facts {
        in_file: 9,
        lost: 0,
        nr_cpus: 2,
    };
    latency.begin(facts).unwrap();
    for record in records {
        latency.item(&Item::Record(record), &mut names).unwrap();
    }
    latency.end(&names).unwrap();
    drop(latency);
    let text = String::from_utf8(out).unwrap();
    (stretch, text.lines().map(str::to_owned).collect())
}

#[test]
fn a_stretch_without_interrupts() {
    let lines = [
        (0, 100, 7, LATENCY_MAX, &[7, 1, 2, 50][..]),
        (0, 900, 0, SWITCH, &[7, 4]),
        (0, 1_000, 7, STEP, &[1]),
        (1, 1_500, 8, STEP, &[2]),
        (0, 30_000, 7, STEP, &[3]),
        (0, 31_000, 7, LATENCY_MAX, &[7, 3, 4, 30_500]),
        (0, 31_100, 7, STEP, &[4]),
    ];
    let (stretch, text) = written("irqsoff", &lines, false);
    assert_eq!((stretch.from, stretch.to), (500, 31_000));
    assert_eq!(
        text[..13],
        [
            "# tracer: irqsoff",
            "#",
            concat!(
                "# irqsoff latency trace v1.1.5 on takt-",
                env!("CARGO_PKG_VERSION")
            ),
            "# --------------------------------------------------------------------",
            "# latency: 30.500 us, #5/9, CPU#0 | (M:preempt VP:0, KP:0, SP:0 HP:0 #P:2)",
            "#    -----------------",
            "#    | task: seven-7 (uid:0 nice:0 policy:1 rt_prio:95)",
            "#    -----------------",
            "#  => started at: f3 (a.rs:7)",
            "#  => ended at:   f4",
            "#  => measured:   from the instruction behind cli (preemption: inc) to the one before sti (dec); an interrupt from its time",
            "#                 stamp to its return. A sweep counts on to the instruction behind sti.",
            "#",
        ]
    );
    assert_eq!(
        text[22..],
        [
            "  <idle>-0       0d...    0.000us : f3",
            "  <idle>-0       0d...    0.400us : sched_switch: next=7",
            "   seven-7       0d...    0.500us+: step: n=1",
            "   seven-7       0d...   29.500us : step: n=3",
            "   seven-7       0d...   30.500us : latency_max: latency=30500",
        ]
    );
}

#[test]
fn a_stretch_from_the_wakeup_to_the_switch() {
    let lines = [
        (0, 100, 7, WAKEUP, &[8, 4][..]),
        (0, 200, 7, SWITCH, &[8, 4]),
        (0, 1_000, 7, WAKEUP, &[8, 4]),
        (1, 1_500, 0, STEP, &[2]),
        (0, 2_300, 7, LATENCY_MAX, &[8, 3, 4, 1_200]),
        (0, 2_400, 7, SWITCH, &[8, 4]),
        (0, 2_500, 8, STEP, &[3]),
    ];
    let (stretch, text) = written("wakeup", &lines, true);
    assert_eq!((stretch.from, stretch.to, stretch.tid), (1_000, 2_400, 8));
    assert_eq!(
        text[6],
        "#    | task: eight-8 (uid:0 nice:0 policy:1 rt_prio:95)"
    );
    assert_eq!(
        text[8..],
        [
            "#  => measured:   from the trace point sched_wakeup to that of sched_switch",
            "#",
            "#",
            "           seven       7   0 1 00000000 00000000 [00000000] 0.000000ms (+0.000500ms): sched_wakeup: pid=8",
            "          <idle>       0   1 1 00000000 00000001 [00000000] 0.000500ms (+0.000800ms): step: n=2",
            "           seven       7   0 1 00000000 00000002 [00000001] 0.001300ms (+0.000100ms): latency_max: latency=1200",
            "           seven       7   0 1 00000000 00000003 [00000001] 0.001400ms (+0.000000ms): sched_switch: next=8",
        ]
    );
}

#[test]
fn the_one_that_is_looked_for() {
    let table = table();
    let kept = Kept {
        cycles: 50,
        started_at: 1,
        ended_at: 2,
        cpu: 0,
        tid: 7,
    };
    let mut finder = Finder::new("irqsoff").only(kept);
    for (ts, cycles) in [(100, 40), (200, 50), (300, 60)] {
        finder.see(&Record {
            cpu: 0,
            ts,
            context: Context(0x80),
            tid: 7,
            len: 8,
            event: table.by_name(LATENCY_MAX).unwrap(),
            values: [7, 1, 2, cycles].map(Value::Number).to_vec(),
            is_cut: false,
        });
    }
    assert_eq!(finder.found().unwrap().to, 200);
    assert!(Stretch::without_records(&kept, false).from > 0);
}

#[test]
fn marks_are_ftraces() {
    let marks = [
        0,
        10_000,
        10_001,
        100_001,
        1_000_001,
        10_000_001,
        100_000_001,
        1_000_000_001,
    ];
    assert_eq!(marks.map(mark).iter().collect::<String>(), "  +!#*@$");
    assert_eq!(
        (micros(0), micros(12_034)),
        ("0.000".into(), "12.034".into())
    );
}

/// A record: CPU, context, time, running thread, event, values.
type Within<'a> = (u8, u8, u64, u8, &'a str, &'a [u64]);

/// Interrupts are on, and no reschedule is due.
const IRQS_ON: u8 = 0xc0;

/// The lines of a stretch from 1,000 on, of which the tracer has noted this at its beginning; the records in it are of a
/// switch right behind that, within the tracer's own instructions, of an interrupt and of a deeper section.
fn begins(noted: [u64; 3], is_verbose: bool) -> Vec<String> {
    let table = table();
    let [began, context, begun_by] = noted;
    let maximum = [7, 3, 4, 1_000, began, context, begun_by];
    let records: [Within<'_>; 6] = [
        (0, 0x81, (5 << 32) + 890, 8, STEP, &[0]),
        (1, 0x81, (5 << 32) + 950, 8, STEP, &[9]),
        (0, 0x81, (5 << 32) + 950, 8, SWITCH, &[7, 4]),
        (0, 0x91, (5 << 32) + 1_200, 7, STEP, &[1]),
        (0, 0x82, (5 << 32) + 1_300, 7, STEP, &[2]),
        (0, IRQS_ON | 1, (5 << 32) + 2_000, 7, LATENCY_MAX, &maximum),
    ];
    let record = |(cpu, context, ts, tid, event, values): &Within<'_>| Record {
        cpu: *cpu,
        ts: *ts,
        context: Context(*context),
        tid: *tid,
        len: 8,
        event: table.by_name(event).unwrap(),
        values: values.iter().map(|value| Value::Number(*value)).collect(),
        is_cut: false,
    };
    let records: Vec<_> = records.iter().map(record).collect();
    let mut finder = Finder::new("preemptoff");
    records.iter().for_each(|record| finder.see(record));
    let mut names = Names::new(1_000_000_000, Threads::new(2))
        .with_symbols(|address| Some(format!("f{address}")));
    names.threads.name(7, "seven");
    names.threads.name(8, "eight");
    let mut out = Vec::new();
    let mut latency = Latency::new(&mut out, &std::env::temp_dir())
        .unwrap()
        .of("preemptoff", finder.found())
        .verbose(is_verbose);
    for record in records {
        latency.item(&Item::Record(record), &mut names).unwrap();
    }
    latency.end(&names).unwrap();
    drop(latency);
    let text = String::from_utf8(out).unwrap();
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines.map(str::to_owned).collect()
}

#[test]
fn a_stretch_begins_where_and_as_was_noted() {
    assert_eq!(
        begins([900, u64::from(IRQS_ON) | 1, 8], false),
        [
            "   eight-8       0...1    0.000us : f3",
            "   eight-8       0d..1    0.000us : sched_switch: next=7",
            "   seven-7       0d.h1    0.200us : step: n=1",
            "   seven-7       0d..2    0.300us : step: n=2",
            "   seven-7       0...1    1.000us : latency_max: latency=1000",
        ]
    );
    assert_eq!(
        begins([900, 1, 8], true)[0],
        "           eight       8   0 5 00000001 00000000 [00000000] 0.000000ms (+0.000000ms): f3"
    );
    // Before the lower half of the time began anew.
    let long = begins([(1 << 32) - 10, 0x91, 8], false);
    assert_eq!(long.len(), 6);
    assert_eq!(long[0], "   eight-8       0d.h1    0.000us : f3");
    // A recording of before that was noted: by the first record that is there.
    let unknown = begins([0, 0, 0], false);
    assert_eq!(unknown[0], "   seven-7       0d.h1    0.000us : f3");
    assert_eq!(unknown.len(), 4);
}
