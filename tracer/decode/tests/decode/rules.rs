//! Rules of events: the language of triggers, the table, histograms.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::atomic::AtomicU32;
use std::thread;

use takt_decode::filter::trigger::{Trigger, condition};
use takt_decode::{EventTable, Names, Threads};
use takt_tracer::filter::program::Raw;
use takt_tracer::rules::{
    Action, ENTRIES, HistView, MAX_FRAMES, MAX_HISTS, MAX_RULES, MAX_TRIGGERS, NewTrigger,
    RuleError, Rules, RulesView, Stack, ThreadList, UNLIMITED, Verdict, words_of,
};

mod hist;

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
        Some(rule) => rules.judge::<Callers>(rule, &raw, idle),
        None => Verdict {
            is_recorded: true,
            actions: 0,
        },
    }
}

/// Sets a filter as a host would.
fn set_filter(rules: &Rules, event: u32, code: &[u32], text: &str) -> Result<(), RuleError> {
    rules.set_filter(event, code, &words_of(text).collect::<Vec<_>>())
}

std::thread_local! {
    /// What is under way.
    static CALLERS: Cell<[u32; MAX_FRAMES]> = const { Cell::new([0; MAX_FRAMES]) };
}

struct Callers;

impl Stack for Callers {
    fn callers(frames: &mut [u32; MAX_FRAMES]) {
        *frames = CALLERS.get();
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
    let new = NewTrigger {
        action: trigger.action,
        left,
        other: bound.other,
        condition: &bound.condition,
        spec: &bound.spec,
        text: &words_of(text).collect::<Vec<_>>(),
    };
    rules.add_trigger(event, &new)
}

/// The table's bytes, as a host finds them.
fn bytes(rules: &Rules) -> &[u8] {
    // SAFETY: atomics without padding that anybody would read; nobody writes meanwhile.
    unsafe {
        std::slice::from_raw_parts(std::ptr::from_ref(rules).cast::<u8>(), size_of::<Rules>())
    }
}

/// Big, so not on a test's stack.
fn rules() -> Box<Rules> {
    Box::new(Rules::new())
}

#[test]
fn event_0_has_no_rules() {
    let rules = rules();
    let refused = Err(RuleError::Unsound);
    assert_eq!(
        set_filter(&rules, 0, &code("prio < 5"), "prio < 5"),
        refused
    );
    assert_eq!(add(&rules, 0, "traceoff"), refused);
    // Else whoever is given the place has the filter.
    assert_eq!(add(&rules, EVENT, "traceoff"), Ok(()));
    assert!(judge(&rules, &words(1, 9, 0, 0)).is_recorded);
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
            "enable_event:sched:sched_switch",
            "enable_event:sched:sched_switch:unlimited",
        ),
        (
            "disable_event:x:y:2 if prio > 3",
            "disable_event:x:y:count=2 if prio > 3",
        ),
        (
            "hist:keys=took.buckets=100,stacktrace:pause",
            "hist:keys=took.buckets=100,stacktrace:vals=hitcount:sort=hitcount:size=512 [active]",
        ),
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
        ("enable_event", 12),
        ("enable_event:x", 13),
        ("enable_event:x:", 13),
        ("enable_event:x:y:0", 17),
        ("enable_event:x:z", 13),
        ("hist", 4),
        ("hist:keys=took.buckets=0", 15),
        ("hist:keys=took.buckets=x", 15),
        ("hist:keys=d.buckets=4", 10),
        ("hist:keys=stacktrace:size=513", 26),
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
    set_filter(&rules, EVENT, &code("comm == ctrl && took > 5"), "a text").unwrap();
    assert!(judge(&rules, &words(3, 0, 0, 6)).is_recorded);
    assert!(!judge(&rules, &words(3, 0, 0, 5)).is_recorded);
    assert!(!judge(&rules, &words(4, 0, 0, 6)).is_recorded);
    let view = RulesView::new(bytes(&rules));
    assert_eq!(view.find(EVENT).unwrap().filter, "a text");
    assert!(view.find(6).is_none());
    // A bad one leaves the good one.
    assert_eq!(set_filter(&rules, EVENT, &[1], ""), Err(RuleError::Unsound));
    assert!(!judge(&rules, &words(3, 0, 0, 5)).is_recorded);
    set_filter(&rules, EVENT, &code("d == -3"), "another").unwrap();
    assert!(judge(&rules, &words(9, 0, -3, 0)).is_recorded);
    set_filter(&rules, EVENT, &[], "").unwrap();
    assert!(rules.is_empty());
    assert!(judge(&rules, &words(3, 0, 0, 5)).is_recorded);
}

/// What is said of a thread's name holds for threads that get theirs after the filter was made, by the same rules as for
/// those that had theirs.
#[test]
fn threads_that_are_named_later_count() {
    let is_let_through = |text: &str, tid: u8, named: &[(u8, &str)]| {
        let rules = rules();
        set_filter(&rules, EVENT, &code(text), text).unwrap();
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
    set_filter(&rules, EVENT, &code("pid == 3"), "").unwrap();
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
    rules.find(EVENT).unwrap().want(false);
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
        set_filter(&rules, 100 + event, &code("prio == 1"), "").unwrap();
    }
    assert_eq!(
        set_filter(&rules, 99, &code("prio == 1"), ""),
        Err(RuleError::Full)
    );
    assert!(rules.find(99).is_none());
    assert_eq!(
        judge(&rules, &words(0, 1, 0, 0)).actions,
        Action::TraceOn.bit()
    );

    // The pool fills up, and what is given back is used again.
    let rules = self::rules();
    let long = code(&["prio == 1"; 130].join(" || "));
    let nr = (1..)
        .find(|event| set_filter(&rules, *event, &long, "").is_err())
        .unwrap();
    assert!(
        (8..MAX_RULES as u32).contains(&nr),
        "{nr} of {} words",
        long.len()
    );
    assert!(rules.find(nr).is_none());
    set_filter(&rules, 3, &[], "").unwrap();
    set_filter(&rules, nr, &long, "").unwrap();
    for event in 1..=nr {
        assert_eq!(rules.find(event).is_some(), event != 3);
    }
}

/// A trigger switches another event, as often as it may, and only where that changes something; the table has a place for
/// that event as long as there is such a trigger.
#[test]
fn triggers_switch_other_events() {
    const OTHER: &str = "x:other";
    let two = [entry(EVENT.into(), "x:y", CLASS), entry(6, OTHER, CLASS)].concat();
    let table = EventTable::parse(&two).unwrap();
    let rules = rules();
    let add = |text: &str| {
        let trigger = Trigger::parse(text).unwrap();
        let bound = trigger
            .bind(table.get(EVENT).unwrap(), &table, &names())
            .unwrap();
        assert_eq!(bound.other, 6);
        let new = NewTrigger {
            action: trigger.action,
            left: trigger.count.unwrap_or(UNLIMITED),
            other: bound.other,
            condition: &bound.condition,
            spec: &bound.spec,
            text: &words_of(text).collect::<Vec<_>>(),
        };
        rules.add_trigger(EVENT, &new).unwrap();
    };
    add("enable_event:x:other:2 if prio == 1");
    add("disable_event:x:other if prio == 2");
    assert!(rules.is_kept(6) && rules.is_kept(EVENT) && !rules.is_kept(8));
    let other = rules.find(6).unwrap();
    other.want(false);
    let emit = |prio| assert_eq!(judge(&rules, &words(0, prio, 0, 0)).actions, 0);
    let left = || {
        let rule = RulesView::new(bytes(&rules)).find(EVENT).unwrap();
        let mut triggers = rule.triggers();
        let first = triggers.next().unwrap();
        assert_eq!(first.of, 6);
        first.left
    };
    // The priority of the event, whether the other one is recorded then, and what is left.
    for (prio, is_recorded, times) in [
        (0, false, 2),
        (1, true, 1),
        (1, true, 1),
        (2, false, 1),
        (2, false, 1),
        (1, true, 0),
        (2, false, 0),
        (1, false, 0),
    ] {
        emit(prio);
        assert_eq!((!other.is_soft(), left()), (is_recorded, times), "{prio}");
    }
    assert!(!other.is_wanted());
    rules.remove_trigger(EVENT, 0).unwrap();
    assert!(rules.is_kept(6));
    assert_eq!(rules.switched_by(EVENT, 1), Ok(Some(6)));
    rules.remove_trigger(EVENT, 1).unwrap();
    assert!(rules.is_empty());
}

/// An event that a trigger of its own switches off is not recorded, and one that it switches on is.
#[test]
fn a_trigger_may_switch_its_own_event() {
    for (text, is_recorded) in [("enable_event:x:y:1", true), ("disable_event:x:y:1", false)] {
        let rules = rules();
        add(&rules, EVENT, text).unwrap();
        rules.find(EVENT).unwrap().want(!is_recorded);
        assert_eq!(judge(&rules, &words(0, 0, 0, 0)).is_recorded, is_recorded);
        rules.remove_trigger(EVENT, 0).unwrap();
        assert!(rules.is_empty());
    }
}

/// A long text lies in the table as it was written, with a program of its length.
#[test]
fn long_filters_have_room() {
    let rules = rules();
    let alternatives: Vec<_> = (0..60)
        .map(|number| format!("comm == \"worker/{number}\""))
        .collect();
    let text = alternatives.join(" || ");
    set_filter(&rules, EVENT, &code(&text), &text).unwrap();
    rules.named(9, "worker/59");
    assert!(judge(&rules, &words(9, 0, 0, 0)).is_recorded);
    assert!(!judge(&rules, &words(8, 0, 0, 0)).is_recorded);
    assert_eq!(
        RulesView::new(bytes(&rules)).find(EVENT).unwrap().filter,
        text
    );
}

#[test]
fn threads_are_left_out() {
    let rules = rules();
    let threads = rules.threads();
    assert!(threads.is_empty() && !threads.leave_out(3));
    threads.set(ThreadList::Not, [3, 200].into_iter());
    assert!(!rules.is_empty());
    let left_out = |tids: [u8; 4]| tids.map(|tid| threads.leave_out(tid));
    assert_eq!(left_out([0, 3, 200, 255]), [false, true, true, false]);
    threads.set(ThreadList::Only, [0, 3].into_iter());
    assert_eq!(left_out([0, 3, 200, 255]), [false, true, true, true]);
    let view = RulesView::new(bytes(&rules));
    assert!(view.threads(ThreadList::Only).eq([0, 3]));
    assert!(view.threads(ThreadList::Not).eq([3, 200]));
    threads.set(ThreadList::Only, [].into_iter());
    threads.set(ThreadList::Not, [].into_iter());
    assert!(rules.is_empty());
}
