//! Rules of events: the language of triggers, the table that the target keeps of them, and the host's view of it.
//!
//! Input: the text of a trigger; a zero; bytes of which programs, histograms' descriptions and a table are made.

use takt_decode::filter::trigger::Trigger;
use takt_decode::{EventTable, Names, Threads};
use takt_tracer::filter::program::Raw;
use takt_tracer::rules::{
    Action, HistView, MAX_FRAMES, NewTrigger, Rules, RulesView, Stack, UNLIMITED, words_of,
};

use crate::sample;

/// Nothing is under way.
struct Callers;

impl Stack for Callers {
    fn callers(_: &mut [u32; MAX_FRAMES]) {}
}

/// Reads a trigger, and does with the table what the bytes say.
///
/// # Panics
///
/// If a property does not hold.
pub fn run(input: &[u8]) {
    let mut parts = input.splitn(2, |byte| *byte == 0);
    if let Some(Ok(text)) = parts.next().map(core::str::from_utf8) {
        language(text);
    }
    let bytes = parts.next().unwrap_or_default();
    view(bytes);
    let words: Vec<_> = bytes.chunks(4).map(word).collect();
    table(&words);
}

fn word(bytes: &[u8]) -> u32 {
    bytes
        .iter()
        .rev()
        .fold(0, |sum, byte| sum << 8 | u32::from(*byte))
}

/// What is read is read again as it is shown, and mistakes have a place.
fn language(text: &str) {
    let is_place = |at: usize| at <= text.len() && text.is_char_boundary(at);
    let trigger = match Trigger::parse(text) {
        Ok(trigger) => trigger,
        Err(error) => return assert!(is_place(error.at) && !error.reason.is_empty()),
    };
    let shown = trigger.text(trigger.count);
    let again = shown.strip_suffix(" [active]").unwrap_or(&shown);
    let again = Trigger::parse(again).expect("it is read as it is shown");
    assert!(
        again.is_like(&trigger) && again.count == trigger.count,
        "{shown}"
    );
    let table = EventTable::parse(&sample::metadata()).expect("the sample is good");
    let names = Names::new(0, Threads::new(1));
    for event in table.iter() {
        match trigger.bind(event, &table, &names) {
            Ok(bound) => {
                let rules = Box::new(Rules::new());
                let new = NewTrigger {
                    action: trigger.action,
                    left: UNLIMITED,
                    other: bound.other,
                    condition: &bound.condition,
                    spec: &bound.spec,
                    text: &words_of(text).collect::<Vec<_>>(),
                };
                let added = rules.add_trigger(4, &new);
                assert_eq!(added, Ok(()), "the target takes what the host makes");
            }
            Err(error) => assert!(is_place(error.at) && !error.reason.is_empty()),
        }
    }
}

/// Whatever the table holds, judging ends, and what was refused has changed nothing.
fn table(words: &[u32]) {
    let rules = Box::new(Rules::new());
    let mut rest = words;
    while let [head, behind @ ..] = rest {
        let event = head & 7;
        let len = (head >> 8 & 63) as usize;
        let (program, behind) = behind.split_at(len.min(behind.len()));
        rest = behind;
        let before = rules.find(event).is_some();
        let done = match head >> 3 & 3 {
            0 if event != 0 => rules.set_filter(event, program, program),
            1 if event != 0 => {
                let action = Action::from_number(head >> 16 & 7).unwrap_or(Action::Hist);
                let (spec, condition) = match action {
                    Action::Hist => (program, &[][..]),
                    _ => (&[][..], program),
                };
                let other = if action.is_about_event() {
                    head >> 24
                } else {
                    0
                };
                let new = NewTrigger {
                    action,
                    left: u64::from(head >> 24),
                    other,
                    condition,
                    spec,
                    text: program,
                };
                rules.add_trigger(event, &new)
            }
            2 => rules.remove_trigger(event, (head >> 16 & 3) as usize),
            _ => Ok(()),
        };
        if done.is_err() {
            assert_eq!(rules.find(event).is_some(), before);
        }
        if let Some(rule) = rules.find(event) {
            let [cpu, tid, ctx, _] = head.to_le_bytes();
            let raw = Raw {
                words: program,
                cpu,
                tid,
                ctx,
            };
            let _ = rules.judge::<Callers>(rule, &raw, head >> 16 & 0xff);
        }
    }
}

/// Any bytes may be a table.
fn view(bytes: &[u8]) {
    // The interesting part is short: it is repeated.
    let mut all = vec![0; Rules::RULES_SIZE];
    for (at, byte) in all.iter_mut().enumerate() {
        *byte = bytes.get(at % bytes.len().max(1)).copied().unwrap_or(0);
    }
    for bytes in [bytes, &*all] {
        for rule in RulesView::new(bytes).rules() {
            assert!(rule.event != 0 && rule.filter.len() <= bytes.len());
            assert!(rule.triggers().all(|trigger| trigger.place < 4));
        }
        let _ = HistView::new(bytes).entries().count();
    }
}

/// Triggers with everything that there is, and programs.
#[must_use]
pub fn seeds() -> Vec<Vec<u8>> {
    let words = |words: &[u32]| -> Vec<u8> {
        let bytes = words.iter().flat_map(|word| word.to_le_bytes());
        [0].into_iter().chain(bytes).collect()
    };
    let texts = [
        "traceoff:3 if common_pid != 0 && CPU == 1",
        "snapshot:count=1",
        "stacktrace:unlimited if common_preempt_count >= -1",
        "hist:keys=common_pid.execname,CPU:vals=hitcount:sort=CPU.descending,hitcount:size=64 if COMM ~ \"a*\"",
        "hist:keys=vector.log2:sort=vector",
        "hist:keys=vector.buckets=10,stacktrace:size=8:pause",
        "enable_event:sched:sched_switch:2 if CPU == 1",
    ];
    let texts = texts.iter().map(|text| text.as_bytes().to_vec());
    let range = [1, 0x301, 0xfffe_ffff, 0x20_0001, 0, 0, 9, 0];
    let programs = [
        // A filter, a trigger with a condition, a histogram of the CPU; the first goes again.
        [
            &[4 | 8 << 8][..],
            &range,
            &[4 | 1 << 3 | 8 << 8 | 1 << 16 | 3 << 24],
            &range,
        ]
        .concat(),
        vec![
            4 | 1 << 3 | 3 << 8 | 5 << 16 | 9 << 24,
            0x40_0001,
            0,
            0,
            4 | 2 << 3,
            4,
        ],
    ];
    texts
        .chain(programs.iter().map(|program| words(program)))
        .collect()
}
