//! Stretches and how they are shown.

use takt_tracer::control::Kept;
use takt_tracer::decode::{Context, EventTable, Threads, Value};

use super::stretch::LATENCY_MAX;
use super::*;
use crate::export::test_events::events;

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
            "event tracer:latency_max\nclass l\nlayout core8\nfield tid 8 tid\nfield started_at 32 sym\nfield ended_at 32 sym\nfield latency 64 cycles\nprint latency={latency}\n",
        ),
        (
            8,
            "event app:step\nclass n\nlayout core8\nfield n 8 u\nprint n={n}\n",
        ),
        (
            10,
            "event preemptirq:preempt_disable\nclass p\nlayout core8\nfield caller 32 sym\nprint caller={caller}\n",
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
        text[..11],
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
            "#",
        ]
    );
    assert_eq!(
        text[20..],
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

/// The lines of a stretch without preemption from 1,000 on, behind these records; those in it are of an interrupt and of a
/// deeper section.
fn begins(tracer: &str, before: &[Within<'_>], is_verbose: bool) -> String {
    let table = table();
    let inside: [Within<'_>; 3] = [
        (0, 0x91, 1_200, 7, STEP, &[1]),
        (0, 0x82, 1_300, 7, STEP, &[2]),
        (0, 0xc1, 2_000, 7, LATENCY_MAX, &[7, 3, 4, 1_000]),
    ];
    let record = |(cpu, context, ts, tid, event, values): &Within<'_>| Record {
        cpu: *cpu,
        ts: *ts,
        context: Context(*context),
        tid: *tid,
        len: 8,
        event: table.by_name(event).unwrap(),
        values: values.iter().map(|value| Value::Number(*value)).collect(),
    };
    let records: Vec<_> = before.iter().chain(&inside).map(record).collect();
    let mut finder = Finder::new(tracer);
    records.iter().for_each(|record| finder.see(record));
    let mut names = Names::new(1_000_000_000, Threads::new(2))
        .with_symbols(|address| Some(format!("f{address}")));
    names.threads.name(7, "seven");
    let mut out = Vec::new();
    let mut latency = Latency::new(&mut out, &std::env::temp_dir())
        .unwrap()
        .of(tracer, finder.found())
        .verbose(is_verbose);
    for record in records {
        latency.item(&Item::Record(record), &mut names).unwrap();
    }
    latency.end(&names).unwrap();
    drop(latency);
    let text = String::from_utf8(out).unwrap();
    let is_begin = |line: &&str| line.ends_with(": f3") && !line.starts_with('#');
    let mut lines = text.lines().filter(is_begin);
    lines.next().unwrap().to_owned()
}

#[test]
fn a_stretch_without_preemption_begins_in_its_own_context() {
    let off = PREEMPT_DISABLE;
    // Nobody has noted it: what is known is that a thread had disabled preemption once.
    assert_eq!(
        begins("preemptoff", &[], false),
        "   seven-7       0??.1    0.000us : f3"
    );
    assert_eq!(
        begins("preemptoff", &[], true),
        "           seven       7   0 ? 00000001 00000000 [00000000] 0.000000ms (+0.000200ms): f3"
    );
    // Its own event says it: the last outermost one of its CPU, at its place.
    let own = (0, IRQS_ON | 1, 950, 7, off, &[3][..]);
    let with_irqs_off = (0, 0x81, 950, 7, off, &[3][..]);
    let of_another_cpu = (1, 0x81, 960, 8, off, &[3][..]);
    let deeper = (0, 0x82, 970, 7, off, &[3][..]);
    let in_an_interrupt = (0, 0x91, 980, 7, off, &[3][..]);
    let before = [own, of_another_cpu, deeper, in_an_interrupt];
    assert_eq!(
        begins("preemptoff", &before, false),
        "   seven-7       0...1    0.000us : f3"
    );
    assert_eq!(
        begins("preemptoff", &[own, with_irqs_off], false),
        "   seven-7       0d..1    0.000us : f3"
    );
    // It was lost: the last one is another section's.
    let of_another_place = (0, IRQS_ON | 1, 970, 7, off, &[5][..]);
    assert_eq!(
        begins("preemptoff", &[own, of_another_place], false),
        "   seven-7       0??.1    0.000us : f3"
    );
    // The other tracers' stretches begin in more than one way.
    assert_eq!(
        begins("irqsoff", &[own], false),
        "   seven-7       0d.h1    0.000us : f3"
    );
}
