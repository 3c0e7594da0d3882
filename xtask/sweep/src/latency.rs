//! What a thread latency consists of, proved of an image as a run had it: its sections, the timer's interrupt, the switch, the thread's
//! way to its clock. How they make a bound says `takt_results::analysis::bound`.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

use crate::prove::{Growth, Off, Proof, Stretch, Whole, prove_image, wholes};

/// What the timer's interrupt counts: each is counted as an interrupt of its own.
const DUE: &str = "timers that are due behind the first";
/// Nobody's time-out ends a wait for a mutex.
const CHAIN: &str = "threads of a chain of owners that one interrupt walks along";
/// One to look the place up, one for each timer that is armed, one if it was armed itself, and the last.
const STEPS: &str = "steps along the list of timers by an interrupt that arms one";
const MORE_STEPS: u64 = 3;
/// Without round robin, budgets and run times.
const COUNTING: &str = "counting at switches";
/// On one CPU.
const RINGS: &str = "CPUs whose rings are told";
/// The clock goes on while this goes round, so it is over soon behind the time that was asked for.
const ASKED: &str = "rounds in the time that was asked for";
/// Records that do not go straight through are counted apart: one that finds its sub-buffer full opens the next one; one that is the
/// first behind a turn of the clock's upper half looks twice, and opens one.
const OPENED: &str = "sub-buffers that are opened for a record";
const ROUNDS: &str = "rounds until a record has its place, or is lost";
const STRAIGHT: [(&str, u64); 2] = [(OPENED, 0), (ROUNDS, 0)];
const FULL: [(&str, u64); 2] = [(OPENED, 1), (ROUNDS, 2)];
/// Where Takt's sources are.
const SOURCES: [&str; 5] = [
    "kernel/src/",
    "board/src/",
    "scheduler/src/",
    "timerlat/src/",
    "tracer/src/",
];
/// What records events.
const RECORDS: &str = "records";
/// What takes its interrupt at an activation of a thread of timerlat's, and that thread.
const EXPIRED: &str = "takt_timerlat::workload::timerlat::expired";
const THREAD: &str = "clock:takt_timerlat::workload::timerlat::thread_main";
/// Functions of other timers that an image with loads may have.
const OTHERS: [&str; 2] = [
    "takt_timerlat::workload::load::interrupt",
    "takt_kernel::expiry::do_deferred",
];
/// Where preemption is enabled and a switch is due, and that.
const GUARDS: &str = "guards";
const PREEMPT: &str = "takt_kernel::switch::preempt";
/// Where the timer's interrupts begin.
const TIMERS: [&str; 2] = ["takt_irq_timer", "takt_irq_early_timer"];

/// The places of events that a tracer may hear of, which have keys of their own.
const PLACES: [(&str, &str); 7] = [
    ("irq:irq_disable", "IRQ_OFF"),
    ("irq:irq_enable", "IRQ_ON"),
    ("preempt:preempt_disable", "PREEMPT_OFF"),
    ("preempt:preempt_enable", "PREEMPT_ON"),
    ("irq:irq_handler_entry", "IRQ_ENTRY"),
    ("sched:sched_wakeup", "WAKEUP"),
    ("sched:sched_switch", "SWITCH"),
];

/// How a run had its image.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Setting {
    /// The events that were recorded, with their ids.
    pub events: Vec<(u32, String)>,
    /// Whether there was round robin, a budget, or run times were counted.
    pub counts: bool,
    /// How many timers were ever armed.
    pub armed: u64,
    /// For how long sections of the load `plant` were to be, in ns.
    pub asked: Option<u64>,
}

/// Instructions, and where they begin.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Term {
    /// Instructions, at most.
    pub instructions: u64,
    /// Function and line.
    pub place: String,
}

/// What is proved.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Terms {
    /// The longest section with interrupts off in which no other thread goes on.
    pub irqs_off: Term,
    /// The longest with preemption off.
    pub preempt_off: Term,
    /// The longest section with a switch.
    pub switching: Term,
    /// The timer's interrupt with the measured thread's function.
    pub interrupt: Term,
    /// The same with any other's.
    pub timer: Term,
    /// From where preemption is enabled to where the switch begins.
    pub enabled: Term,
    /// That switch.
    pub switch: Term,
    /// From where the thread goes on to its clock.
    pub clock: Term,
    /// What comes on top where a record finds its sub-buffer full.
    pub full: u64,
    /// Sections of which nobody knows how long they are, or that only somebody asks for.
    pub without: Vec<String>,
}

impl Setting {
    /// What is known of the system, as `prove --config` takes it.
    #[must_use]
    pub fn config(&self) -> Vec<String> {
        self.with(STRAIGHT)
    }

    fn with(&self, records: [(&str, u64); 2]) -> Vec<String> {
        let none = [DUE, CHAIN].map(|it| format!("{it}=0"));
        let counting = (!self.counts).then(|| format!("{COUNTING}=off"));
        let rings = std::iter::once(format!("{RINGS}=1"));
        let events = self.events.iter().map(|(id, _)| format!("#{id}=on"));
        let places = self.events.iter().filter_map(|(_, name)| {
            let (_, key) = PLACES.iter().find(|(event, _)| event == name)?;
            Some(format!("takt_kernel::probe::places::{key}=on"))
        });
        let records = records.map(|(what, nr)| format!("{what}={nr}"));
        none.into_iter()
            .chain(if self.events.is_empty() {
                Vec::new()
            } else {
                records.into()
            })
            .chain(counting)
            .chain(rings)
            .chain(events)
            .chain(places)
            .collect()
    }
}

/// Proves them.
///
/// # Errors
///
/// If one of them has no bound.
pub fn terms(image: &Path, setting: &Setting) -> Result<Terms> {
    let config = setting.config();
    let names: Vec<_> = [EXPIRED, THREAD, GUARDS, PREEMPT]
        .into_iter()
        .chain(OTHERS)
        .collect();
    let wholes = self::wholes(image, &config, &names)?;
    let proof = prove_image(image, false, &config)?;
    let mut found = of(&proof, &wholes, setting)?;
    // What has ways only that the setting excludes may be taken all the same: a record goes its long way, and is counted; the rest is
    // named.
    let all = prove_image(image, false, &[])?;
    let has_ways = |it: &&Stretch| !it.to_thread && (it.bound.is_some() || it.refused.is_some());
    let is_empty = |it: &Stretch| it.bound.is_none() && it.refused.is_none();
    for it in all.stretches.iter().filter(has_ways) {
        let mut same = proof
            .stretches
            .iter()
            .filter(|own| (own.off, &own.place) == (it.off, &it.place));
        if same.any(is_empty) {
            found.without.push(it.place.clone());
        }
    }
    found.without.sort();
    found.without.dedup();
    if !setting.events.is_empty() {
        found.full = full(&self::wholes(image, &setting.with(FULL), &[RECORDS])?)?;
    }
    Ok(found)
}

/// The longest record.
fn full(records: &[Whole]) -> Result<u64> {
    let all = records.iter().map(|it| {
        let of = &it.stretch;
        let is_plain = of.handlers == 0 && of.grows.is_empty();
        let bound = of.bound.filter(|_| is_plain);
        bound.with_context(|| format!("no bound is proved of a record: {}", of.place))
    });
    let all: Vec<_> = all.collect::<Result<_>>()?;
    all.into_iter().max().context("nothing records events")
}

/// Of what is proved.
fn of(proof: &Proof, wholes: &[Whole], setting: &Setting) -> Result<Terms> {
    let mut found = Terms::default();
    let longest = |name: &str| {
        let all = wholes.iter().filter(|it| it.name == name);
        let terms: Option<Vec<_>> = all
            .map(|it| term(&it.stretch, setting).filter(|_| it.stretch.handlers == 0))
            .collect();
        let longest = terms.and_then(|it| it.into_iter().max_by_key(|it| it.instructions));
        longest.with_context(|| format!("no bound is proved of {name}"))
    };
    let own = longest(EXPIRED)?.instructions;
    let mut others = own;
    for name in OTHERS {
        others = others.max(longest(name)?.instructions);
    }
    found.enabled = longest(GUARDS)?;
    found.switch = longest(PREEMPT)?;
    found.clock = longest(THREAD)?;
    for it in &proof.stretches {
        if it.is_entry || it.to_thread || it.bound.is_none() && it.refused.is_none() {
            continue;
        }
        let all = term(it, setting).filter(|_| it.handlers == 0);
        let Some(all) = all else {
            // Of an application nobody knows whether it came by.
            let is_takt = SOURCES.iter().any(|dir| it.place.contains(dir));
            ensure!(is_takt, "no bound is proved of {}", it.place);
            found.without.push(it.place.clone());
            continue;
        };
        let same = it.same.as_ref();
        let same = same.and_then(|it| value(it.bound, &it.grows, setting));
        let kind = match it.off {
            Off::Preemption => &mut found.preempt_off,
            // What is longer than that goes on with another thread.
            _ if same.is_none_or(|it| it < all.instructions) => &mut found.switching,
            _ => &mut found.irqs_off,
        };
        let place = all.place.clone();
        raise(kind, all);
        if let Some(instructions) = same.filter(|_| it.off == Off::Irqs) {
            raise(
                &mut found.irqs_off,
                Term {
                    instructions,
                    place,
                },
            );
        }
        let thread = it.thread.as_ref().filter(|_| it.off == Off::Irqs);
        let thread = thread.and_then(|it| value(it.bound, &it.grows, setting));
        if let Some(instructions) = thread {
            let place = it.place.clone();
            raise(
                &mut found.switching,
                Term {
                    instructions,
                    place,
                },
            );
        }
    }
    let mut interrupt = Term::default();
    for name in TIMERS {
        let all = proof.stretches.iter().filter(|it| it.is_entry);
        for it in all.filter(|it| it.function() == name && !it.to_thread) {
            let one = term(it, setting);
            let one = one.with_context(|| format!("no bound is proved of {name}"))?;
            ensure!(it.handlers > 0, "{name} calls no timer's function");
            let with = |handler: u64| Term {
                instructions: one.instructions + it.handlers * handler,
                place: one.place.clone(),
            };
            raise(&mut interrupt, with(own));
            raise(&mut found.timer, with(others));
        }
    }
    ensure!(
        interrupt.instructions > 0,
        "no bound is proved of the timer's interrupt"
    );
    found.interrupt = interrupt;
    Ok(found)
}

/// Keeps the longer one.
fn raise(most: &mut Term, other: Term) {
    if other.instructions > most.instructions {
        *most = other;
    }
}

/// The bound of a stretch, if it is known how often happens what it grows with.
fn term(it: &Stretch, setting: &Setting) -> Option<Term> {
    let instructions = value(it.bound?, &it.grows, setting)?;
    Some(Term {
        instructions,
        place: it.place.clone(),
    })
}

/// The same of any ways.
fn value(own: u64, grows: &[Growth], setting: &Setting) -> Option<u64> {
    let more = grows.iter().filter(|it| it.handlers == 0).map(|it| {
        Some(match &*it.counts {
            ASKED => setting.asked? + it.each,
            STEPS => (setting.armed + MORE_STEPS) * it.each,
            _ => return None,
        })
    });
    let is_known = grows.iter().all(|it| it.handlers == 0);
    let more: u64 = more.sum::<Option<u64>>().filter(|_| is_known)?;
    Some(own + more)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prove::Way;
    use crate::prove::tests::{proof, stretch};

    fn grows(counts: &str, each: u64) -> Growth {
        Growth {
            counts: counts.into(),
            each,
            handlers: 0,
            waits: 0,
        }
    }

    fn way(bound: u64) -> Option<Way> {
        Some(Way {
            bound,
            handlers: 0,
            waits: 0,
            grows: Vec::new(),
        })
    }

    fn wholes() -> Vec<Whole> {
        let whole = |name: &str, bound| Whole {
            name: name.into(),
            stretch: stretch(name, Some(bound), None),
        };
        vec![
            whole(EXPIRED, 40),
            whole(THREAD, 13),
            whole(GUARDS, 5),
            whole(GUARDS, 7),
            whole(PREEMPT, 60),
            whole(OTHERS[0], 90),
            whole(OTHERS[1], 30),
        ]
    }

    fn stretches() -> Vec<Stretch> {
        let entry = |bound| Stretch {
            is_entry: true,
            handlers: 1,
            ..stretch("takt_irq_timer", Some(bound), None)
        };
        let section = |place: &str, same, thread| Stretch {
            same: way(same),
            thread: way(thread),
            ..stretch(place, Some(same.max(thread)), None)
        };
        vec![
            entry(300),
            section("f (f.rs:1)", 100, 80),
            section("g (g.rs:1)", 20, 140),
            Stretch {
                off: Off::Preemption,
                ..stretch("h (kernel/src/h.rs:1)", Some(50), None)
            },
        ]
    }

    #[test]
    fn each_term_is_the_longest_of_its_kind() {
        let found = of(&proof(stretches()), &wholes(), &Setting::default()).unwrap();
        let all = [
            found.irqs_off,
            found.preempt_off,
            found.switching,
            found.interrupt,
            found.timer,
            found.enabled,
            found.switch,
            found.clock,
        ];
        let all = all.map(|it| it.instructions);
        assert_eq!(all, [100, 50, 140, 340, 390, 7, 60, 13]);
        assert!(found.without.is_empty());
    }

    #[test]
    fn what_grows_with_something_that_is_not_known_is_named() {
        let mut all = stretches();
        all.push(Stretch {
            grows: vec![grows("calls under way", 9)],
            ..stretch("s (kernel/src/s.rs:1)", Some(900), None)
        });
        all.push(stretch("t (kernel/src/t.rs:1)", None, None));
        all[3].grows = vec![grows(ASKED, 6), grows(STEPS, 10)];
        let asked = Setting {
            asked: Some(1000),
            armed: 2,
            ..Setting::default()
        };
        let mut proof = proof(all);
        let found = of(&proof, &wholes(), &asked).unwrap();
        assert_eq!(
            found.without,
            ["s (kernel/src/s.rs:1)", "t (kernel/src/t.rs:1)"]
        );
        assert_eq!(found.preempt_off.instructions, 50 + 1006 + 5 * 10);
        // Of a load that is not known of.
        let found = of(&proof, &wholes(), &Setting::default()).unwrap();
        assert_eq!(found.without[0], "h (kernel/src/h.rs:1)");
        // Nor is it known what is called each time.
        proof.stretches[3].grows[0].handlers = 1;
        assert_eq!(
            of(&proof, &wholes(), &asked).unwrap().without[0],
            "h (kernel/src/h.rs:1)"
        );
    }

    #[test]
    fn what_an_application_has_without_a_bound_may_have_come_by() {
        let mut all = stretches();
        all.push(stretch("app::f (f.rs:1)", None, None));
        assert!(of(&proof(all), &wholes(), &Setting::default()).is_err());
    }

    #[test]
    fn without_a_bound_of_the_interrupt_there_is_none() {
        let mut all = stretches();
        (all[0].bound, all[0].handlers) = (None, 0);
        let error = of(&proof(all), &wholes(), &Setting::default()).unwrap_err();
        assert!(error.to_string().contains("takt_irq_timer"), "{error}");
        let few: Vec<_> = wholes()
            .into_iter()
            .filter(|it| it.name != THREAD)
            .collect();
        assert!(of(&proof(stretches()), &few, &Setting::default()).is_err());
    }
}
