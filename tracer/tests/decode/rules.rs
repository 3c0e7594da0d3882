//! Rules of events: the language of triggers, the table, histograms.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicU32;
use std::thread;

use takt_tracer::decode::{EventTable, Names, Threads};
use takt_tracer::filter::program::Raw;
use takt_tracer::filter::trigger::{Trigger, condition};
use takt_tracer::rules::{
    Action, ENTRIES, HistView, MAX_HISTS, MAX_RULES, MAX_TRIGGERS, RuleError, Rules, RulesView,
    UNLIMITED, Verdict,
};

use crate::world::entry;

const EVENT: u32 = 4;
const CLASS: &str = "class x\nlayout core8\nfield tid 8 tid\nfield prio 8 prio\nfield d 16 i\nfield took 32 cycles\n\
    field name * str\nprint comm={tid:comm} pid={tid:pid} prio={prio}\n";

fn table() -> EventTable {
    EventTable::parse(&entry(EVENT.into(), "x:y", CLASS)).unwrap()
}

fn names() -> Names {
    let mut threads = Threads::new(2);
    threads.name(3, "ctrl");
    Names::new(1_000_000_000, threads)
}

fn code(text: &str) -> Vec<u32> {
    let table = table();
    condition(text, table.get(EVENT).unwrap(), &table, &names()).unwrap()
}

/// A record of the event: thread, priority, a signed number, a time.
fn words(tid: u8, prio: u8, d: i16, took: u32) -> [u32; 3] {
    let low = u32::from(prio) | u32::from(d.cast_unsigned()) << 8;
    [EVENT | u32::from(tid) << 8, low, took]
}

fn judge(rules: &Rules, words: &[u32]) -> Verdict {
    judge_idle(rules, words, 0)
}

fn judge_idle(rules: &Rules, words: &[u32], idle: u32) -> Verdict {
    let raw = Raw {
        words,
        cpu: 1,
        tid: 7,
        ctx: 0,
    };
    match rules.find(EVENT) {
        Some(rule) => rules.judge(rule, &raw, idle),
        None => Verdict {
            is_recorded: true,
            actions: 0,
        },
    }
}

/// Adds a trigger as a host would.
fn add(rules: &Rules, event: u32, text: &str) -> Result<(), RuleError> {
    let table = table();
    let trigger = Trigger::parse(text).unwrap();
    let bound = trigger
        .bind(table.get(EVENT).unwrap(), &table, &names())
        .unwrap();
    let left = trigger.count.unwrap_or(UNLIMITED);
    rules.add_trigger(
        event,
        trigger.action,
        left,
        &bound.condition,
        &bound.spec,
        text,
    )
}

/// The table's bytes, as a host finds them.
fn bytes(rules: &Rules) -> &[u8] {
    // SAFETY: atomics without padding that anybody would read; nobody writes meanwhile.
    unsafe {
        std::slice::from_raw_parts(std::ptr::from_ref(rules).cast::<u8>(), size_of::<Rules>())
    }
}

/// By the keys: hits and sums.
type Sums = BTreeMap<[u64; 3], (u64, [u64; 3])>;

/// What a histogram has counted, its hits and what it dropped.
fn hist(rules: &Rules, number: usize) -> (Sums, u64, u64) {
    let at = Rules::hist_offset(number);
    let view = HistView::new(&bytes(rules)[at..at + Rules::HIST_SIZE]);
    let mut sums = BTreeMap::new();
    for entry in view.entries() {
        let (hits, sum) = sums.entry(entry.keys).or_insert((0, [0; 3]));
        *hits += entry.hits;
        for (sum, more) in sum.iter_mut().zip(entry.sums) {
            *sum = u64::wrapping_add(*sum, more);
        }
    }
    (sums, view.hits, view.drops)
}

/// Big, so not on a test's stack.
fn rules() -> Box<Rules> {
    Box::new(Rules::new())
}

#[test]
fn triggers_are_read_and_shown() {
    for (text, shown) in [
        ("traceoff", "traceoff:unlimited"),
        ("traceoff:3", "traceoff:count=3"),
        (
            "traceon:count=1 if prio < 10",
            "traceon:count=1 if prio < 10",
        ),
        (
            "snapshot if prio<10&&pid==0",
            "snapshot:unlimited if prio<10&&pid==0",
        ),
        ("stacktrace:unlimited", "stacktrace:unlimited"),
        (
            "hist:keys=pid",
            "hist:keys=pid:vals=hitcount:sort=hitcount:size=1024 [active]",
        ),
        (
            "hist:key=pid.execname,prio:values=hitcount,took:sort=took.descending,pid:size=64 if prio > 3",
            "hist:keys=pid.execname,prio:vals=hitcount,took:sort=took.descending,pid:size=64 if prio > 3 [active]",
        ),
    ] {
        let trigger = Trigger::parse(text).unwrap();
        assert_eq!(trigger.text(trigger.count), shown);
        // What is shown can be written.
        let again = shown.trim_end_matches(" [active]");
        assert!(Trigger::parse(again).unwrap().is_like(&trigger), "{again}");
    }
}

#[test]
fn mistakes_have_a_place() {
    let table = table();
    for (text, at) in [
        ("", 0),
        ("explode", 0),
        ("traceoff:", 9),
        ("traceoff:0", 9),
        ("traceoff:-1", 9),
        ("traceoff:x", 9),
        ("hist", 4),
        ("hist:", 5),
        ("hist:vals=took", 5),
        ("hist:keys=", 10),
        ("hist:keys=pid,", 14),
        ("hist:keys=pid.wrong", 14),
        ("hist:keys=pid:vals=took.hex", 24),
        ("hist:keys=pid:size=0", 19),
        ("hist:keys=pid:size=99999", 19),
        ("hist:keys=pid:sort=prio", 19),
        ("hist:keys=pid:what=1", 14),
        ("hist:keys=pid,prio,took,d", 5),
        // These need the event.
        ("hist:keys=nothing", 10),
        ("hist:keys=pid,name", 14),
        ("hist:keys=pid:vals=comm", 19),
        ("traceoff if nothing == 1", 12),
        ("traceoff if prio <", 18),
        ("traceoff if  prio < x", 20),
        ("traceoff if name == \"x\"", 12),
        ("traceoff if x:y: prio < 1", 12),
    ] {
        let bound = Trigger::parse(text)
            .and_then(|trigger| trigger.bind(table.get(EVENT).unwrap(), &table, &names()));
        assert_eq!(bound.map_err(|error| error.at).unwrap_err(), at, "{text}");
    }
}

#[test]
fn a_filter_decides_what_is_recorded() {
    let rules = rules();
    assert!(rules.is_empty());
    rules
        .set_filter(EVENT, &code("comm == ctrl && took > 5"), "a text")
        .unwrap();
    assert!(judge(&rules, &words(3, 0, 0, 6)).is_recorded);
    assert!(!judge(&rules, &words(3, 0, 0, 5)).is_recorded);
    assert!(!judge(&rules, &words(4, 0, 0, 6)).is_recorded);
    let view = RulesView::new(bytes(&rules));
    assert_eq!(view.find(EVENT).unwrap().filter, "a text");
    assert!(view.find(6).is_none());
    // A bad one leaves the good one.
    assert_eq!(rules.set_filter(EVENT, &[1], ""), Err(RuleError::Unsound));
    assert!(!judge(&rules, &words(3, 0, 0, 5)).is_recorded);
    rules
        .set_filter(EVENT, &code("d == -3"), "another")
        .unwrap();
    assert!(judge(&rules, &words(9, 0, -3, 0)).is_recorded);
    rules.set_filter(EVENT, &[], "").unwrap();
    assert!(rules.is_empty());
    assert!(judge(&rules, &words(3, 0, 0, 5)).is_recorded);
}

/// What is said of a thread's name holds for threads that get theirs after the filter was made, by the same rules as for
/// those that had theirs.
#[test]
fn threads_that_are_named_later_count() {
    let is_let_through = |text: &str, tid: u8, named: &[(u8, &str)]| {
        let rules = rules();
        rules.set_filter(EVENT, &code(text), text).unwrap();
        assert!(rules.has_names(), "{text}");
        for (tid, name) in named {
            rules.named(*tid, name);
        }
        judge(&rules, &words(tid, 5, 0, 0)).is_recorded
    };
    // Names of every length modulo a word, and what is wrong with them by a byte.
    for (text, name, other) in [
        ("comm == \"ctrl\"", "ctrl", "ctrl2"),
        ("comm == \"ctrl/1\"", "ctrl/1", "ctrl/2"),
        ("comm == \"a\"", "a", ""),
        ("comm == \"\"", "", "a"),
        (
            "comm == \"längster name\"",
            "längster name",
            "langster name",
        ),
        ("comm ~ \"c*[0-3]\"", "ctrl/2", "ctrl/4"),
        ("comm != \"ctrl\"", "x", "ctrl"),
        ("!(comm == \"ctrl\")", "x", "ctrl"),
        ("prio == 5 && (comm == \"x\" || comm ~ \"*y\")", "xy", "yx"),
        ("COMM == \"nobody\" || comm == \"x\"", "x", "nobody"),
    ] {
        assert!(is_let_through(text, 200, &[(200, name)]), "{text}: {name}");
        assert!(
            !is_let_through(text, 200, &[(200, other)]),
            "{text}: {other}"
        );
        // The id is used again, and only that one is meant.
        assert!(is_let_through(
            text,
            9,
            &[(9, other), (9, name), (8, other), (41, other)]
        ));
        assert!(!is_let_through(
            text,
            9,
            &[(9, name), (9, other), (8, name), (41, name)]
        ));
    }
    // Of whoever runs, and in a trigger's condition.
    assert!(is_let_through("COMM == \"late\"", 9, &[(7, "late")]));
    let rules = rules();
    assert!(!rules.has_names());
    add(&rules, EVENT, "traceoff if comm == \"late\"").unwrap();
    let acts = || judge(&rules, &words(9, 5, 0, 0)).actions == Action::TraceOff.bit();
    assert!(rules.has_names() && !acts());
    rules.named(9, "late");
    assert!(acts());
    rules.remove_trigger(EVENT, 0).unwrap();
    add(&rules, EVENT, "hist:keys=comm if prio < 3").unwrap();
    rules.set_filter(EVENT, &code("pid == 3"), "").unwrap();
    assert!(!rules.has_names());
}

#[test]
fn triggers_act_as_often_as_they_may() {
    let rules = rules();
    add(&rules, EVENT, "traceoff:2 if prio < 10").unwrap();
    add(&rules, EVENT, "snapshot").unwrap();
    let off = Action::TraceOff.bit();
    let snapshot = Action::Snapshot.bit();
    let acts = |prio| judge(&rules, &words(3, prio, 0, 0)).actions;
    assert_eq!(acts(10), snapshot);
    assert_eq!(acts(9), snapshot | off);
    let left = || -> Vec<_> {
        let rule = RulesView::new(bytes(&rules)).find(EVENT).unwrap();
        rule.triggers().map(|one| (one.action, one.left)).collect()
    };
    assert_eq!(
        left(),
        [(Action::TraceOff, 1), (Action::Snapshot, UNLIMITED)]
    );
    assert_eq!(acts(9), snapshot | off);
    assert_eq!(acts(9), snapshot, "it has acted twice");
    assert_eq!(left()[0], (Action::TraceOff, 0));
    rules.remove_trigger(EVENT, 1).unwrap();
    assert_eq!(rules.remove_trigger(EVENT, 1), Err(RuleError::Missing));
    assert_eq!(acts(9), 0);
    assert!(judge(&rules, &words(3, 9, 0, 0)).is_recorded);
    rules.find(EVENT).unwrap().set_soft(true);
    assert!(!judge(&rules, &words(3, 9, 0, 0)).is_recorded);
    assert!(RulesView::new(bytes(&rules)).find(EVENT).unwrap().is_soft);
    rules.remove_trigger(EVENT, 0).unwrap();
    assert!(rules.is_empty());
}

/// Stopping what does not run is no time that counts.
#[test]
fn what_would_change_nothing_is_not_spent() {
    let rules = rules();
    add(&rules, EVENT, "traceoff:1").unwrap();
    add(&rules, EVENT, "traceon:1").unwrap();
    let (off, on) = (Action::TraceOff.bit(), Action::TraceOn.bit());
    let acts = |idle| judge_idle(&rules, &words(3, 0, 0, 0), idle).actions;
    assert_eq!(acts(off), on);
    assert_eq!(acts(off), 0);
    assert_eq!(acts(on), off);
    assert_eq!(acts(on), 0);
}

#[test]
fn what_has_no_room_is_refused_and_nothing_changes() {
    let rules = rules();
    for _ in 0..MAX_TRIGGERS {
        add(&rules, EVENT, "traceon if prio == 1").unwrap();
    }
    assert_eq!(add(&rules, EVENT, "traceon"), Err(RuleError::Full));
    for event in 1..MAX_RULES as u32 {
        rules
            .set_filter(100 + event, &code("prio == 1"), "")
            .unwrap();
    }
    assert_eq!(
        rules.set_filter(99, &code("prio == 1"), ""),
        Err(RuleError::Full)
    );
    assert!(rules.find(99).is_none());
    assert_eq!(
        judge(&rules, &words(0, 1, 0, 0)).actions,
        Action::TraceOn.bit()
    );

    // The pool fills up, and what is given back is used again.
    let rules = self::rules();
    let long = code(&["prio == 1"; 60].join(" || "));
    let nr = (1..)
        .find(|event| rules.set_filter(*event, &long, "").is_err())
        .unwrap();
    assert!(
        (8..MAX_RULES as u32).contains(&nr),
        "{nr} of {} words",
        long.len()
    );
    assert!(rules.find(nr).is_none());
    rules.set_filter(3, &[], "").unwrap();
    rules.set_filter(nr, &long, "").unwrap();
    for event in 1..=nr {
        assert_eq!(rules.find(event).is_some(), event != 3);
    }
}

#[test]
fn histograms_add_up() {
    let rules = rules();
    add(
        &rules,
        EVENT,
        "hist:keys=prio,comm:vals=took,d if prio != 7",
    )
    .unwrap();
    add(&rules, EVENT, "hist:keys=took.log2").unwrap();
    let mut expected = BTreeMap::new();
    let mut logs = BTreeMap::new();
    for step in 0..3000u32 {
        let (tid, prio, d) = ((step % 5) as u8, (step % 8) as u8, (step % 11) as i16 - 5);
        assert!(judge(&rules, &words(tid, prio, d, step)).is_recorded);
        *logs
            .entry([u64::from(step.next_power_of_two().ilog2()), 0, 0])
            .or_insert(0) += 1;
        if prio != 7 {
            let (hits, [took, sum, _]) = expected
                .entry([prio.into(), tid.into(), 0])
                .or_insert((0, [0u64; 3]));
            *hits += 1;
            *took += u64::from(step);
            *sum = sum.wrapping_add_signed(d.into());
        }
    }
    let (found, hits, drops) = hist(&rules, 0);
    assert_eq!(found, expected);
    assert_eq!((hits, drops), (3000 - 375, 0));
    let (found, ..) = hist(&rules, 1);
    let found: BTreeMap<_, _> = found
        .into_iter()
        .map(|(key, (hits, _))| (key, hits))
        .collect();
    // 0 and 1 are both 2^0.
    assert_eq!(found, logs);
    for _ in 2..MAX_HISTS {
        add(&rules, EVENT, "hist:keys=pid").unwrap();
    }
    assert_eq!(
        add(&rules, EVENT + 2, "hist:keys=pid"),
        Err(RuleError::Full)
    );
    // A new one begins with nothing in it.
    rules.remove_trigger(EVENT, 0).unwrap();
    add(&rules, EVENT, "hist:keys=pid").unwrap();
    assert_eq!(hist(&rules, 0), (BTreeMap::new(), 0, 0));
}

/// What finds no place is counted as dropped, and nothing else is lost.
#[test]
fn a_full_histogram_counts_what_it_drops() {
    let rules = rules();
    add(&rules, EVENT, "hist:keys=took:size=16").unwrap();
    for step in 0..100 {
        let _ = judge(&rules, &words(0, 0, 0, step));
    }
    let (found, hits, drops) = hist(&rules, 0);
    assert_eq!((found.len(), hits, drops), (16, 16, 84));
    let rules = self::rules();
    add(&rules, EVENT, "hist:keys=took").unwrap();
    for step in 0..2 * ENTRIES as u32 {
        let _ = judge(&rules, &words(0, 0, 0, step));
    }
    let (found, hits, drops) = hist(&rules, 0);
    assert_eq!(found.len() as u64, hits);
    assert_eq!(hits + drops, 2 * ENTRIES as u64);
    assert!(hits > ENTRIES as u64 * 9 / 10);
}

/// From several CPUs at once, every event is counted once.
#[test]
fn several_count_at_once() {
    const EACH: u32 = 20_000;
    let rules = rules();
    add(&rules, EVENT, "hist:keys=prio,took:vals=took").unwrap();
    add(&rules, EVENT, "traceoff:1000").unwrap();
    let acted = AtomicU32::new(0);
    thread::scope(|scope| {
        for cpu in 0..4u32 {
            let (rules, acted) = (&rules, &acted);
            scope.spawn(move || {
                for step in 0..EACH {
                    let verdict = judge(rules, &words(0, (step % 8) as u8, 0, (step + cpu) % 32));
                    if verdict.actions & Action::TraceOff.bit() != 0 {
                        acted.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                    }
                }
            });
        }
    });
    assert_eq!(acted.into_inner(), 1000);
    let (found, hits, drops) = hist(&rules, 0);
    assert_eq!((hits, drops), (4 * u64::from(EACH), 0));
    assert_eq!(found.values().map(|(hits, _)| hits).sum::<u64>(), hits);
    for ([_, took, _], (hits, [sum, ..])) in &found {
        assert_eq!(took * hits, *sum);
    }
}
