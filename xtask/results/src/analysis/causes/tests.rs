//! Activations that are made up, and what they consist of.

use std::collections::BTreeMap;

use super::*;
use takt_machine::samples::Sample;

const TIMER: u64 = 256;
const ME: u8 = 13;
const LOAD: u8 = 9;

fn event(ts: u64, tid: u8, kind: Kind) -> Event {
    Event {
        number: 0,
        ts,
        tid,
        preempt_depth: 0,
        needs_resched: kind == Kind::IrqExit,
        kind,
        name: String::new(),
        message: String::new(),
        flags: String::new(),
    }
}

/// An activation that is due at 1000, with these records.
fn activation(irq: u32, thread: u32, at_deadline: State, during: Vec<Event>) -> Activation {
    Activation {
        sample: Sample {
            cpu: 0,
            slot: 0,
            seqnum: 1,
            tid: ME,
            deadline: Some(1000),
            timer: Some(TIMER),
            irq: Some(irq),
            thread,
            user: None,
            is_to_user: false,
            recorded: 1000 + u64::from(thread) + 12,
            is_from_idle: false,
            is_of_irq: false,
        },
        at_first: at_deadline.clone(),
        at_deadline,
        before: Vec::new(),
        during,
        after: Vec::new(),
        pieces: Vec::new(),
        comms: BTreeMap::from([(LOAD, "load".into()), (0, "swapper/0".into())]),
        idle: vec![0],
        irqs: takt_decode::Irqs::default(),
        tsc_hz: 1_000_000_000,
    }
}

fn on(tid: u8, irqs: &[u64]) -> State {
    State {
        tid,
        irqs: irqs.to_vec(),
    }
}

/// An ordinary way from the handler's beginning at `at` to the switch.
fn way(at: u64, tid: u8) -> Vec<Event> {
    vec![
        event(at, tid, Kind::IrqEntry { vector: 80 }),
        event(at + 40, tid, Kind::Expire { timer: TIMER }),
        event(at + 60, tid, Kind::IrqSample),
        event(at + 80, tid, Kind::Waking { tid: ME.into() }),
        event(at + 110, tid, Kind::Woken { tid: ME.into() }),
        event(at + 150, tid, Kind::IrqExit),
        event(at + 200, tid, Kind::Switch { next: ME }),
    ]
}

/// The causes in their order, with how long each took; they must add up and leave no gap.
fn causes(it: &Activation) -> Vec<(Cause, u64)> {
    let pieces = partition(it);
    let mut at = 0;
    for piece in &pieces {
        assert_eq!(piece.from, at, "{pieces:?}");
        at = piece.to;
    }
    assert_eq!(at, u64::from(it.sample.thread), "{pieces:?}");
    pieces
        .iter()
        .map(|piece| (piece.cause, piece.to - piece.from))
        .collect()
}

const ORDINARY: [(Cause, u64); 6] = [
    (Cause::InterruptEntry, 46),
    (Cause::TimerInterrupt, 80),
    (Cause::WakeUp, 30),
    (Cause::TimerInterrupt, 40),
    (Cause::Reschedule, 50),
    (Cause::ContextSwitch, 70),
];

#[test]
fn an_idle_cpu_has_its_own_way_only() {
    let it = activation(4, 320, on(0, &[]), way(1050, 0));
    assert_eq!(causes(&it)[0], (Cause::ExitFromIdle, 4));
    assert_eq!(causes(&it)[1..], ORDINARY);
}

#[test]
fn interrupts_off_delay_the_handler() {
    let it = activation(104, 420, on(LOAD, &[]), way(1150, LOAD));
    assert_eq!(causes(&it)[0], (Cause::IrqHandlerDelay, 104));
    assert_eq!(causes(&it)[1..], ORDINARY);
    assert_eq!(partition(&it)[0].who, "load:9");
}

#[test]
fn another_handler_interferes_before_and_inside_and_behind() {
    let mut during = vec![event(1080, LOAD, Kind::IrqExit)];
    during.extend(way(1150, LOAD));
    // Behind the switch, in the thread itself.
    during.push(event(1360, ME, Kind::IrqEntry { vector: 82 }));
    during.push(event(1390, ME, Kind::IrqExit));
    let it = activation(104, 460, on(LOAD, &[81]), during);
    let mut expected = vec![(Cause::IrqInterference, 80), (Cause::IrqHandlerDelay, 24)];
    expected.extend(&ORDINARY[..5]);
    expected.extend([
        (Cause::ContextSwitch, 10),
        (Cause::IrqInterference, 30),
        (Cause::ContextSwitch, 70),
    ]);
    assert_eq!(causes(&it), expected);
    // One that nests in ours.
    let mut during = way(1050, 0);
    during.insert(2, event(1095, 0, Kind::IrqEntry { vector: 82 }));
    during.insert(3, event(1105, 0, Kind::IrqExit));
    let it = activation(4, 320, on(0, &[]), during);
    assert!(
        causes(&it).contains(&(Cause::IrqInterference, 10)),
        "{:?}",
        causes(&it)
    );
}

#[test]
fn other_timers_and_other_threads_are_told() {
    let mut during = way(1050, LOAD);
    during.insert(1, event(1060, LOAD, Kind::Expire { timer: 11 }));
    // First a switch to somebody else.
    during[7] = event(1250, LOAD, Kind::Switch { next: 12 });
    during.push(event(1290, 12, Kind::Switch { next: ME }));
    let it = activation(4, 320, on(LOAD, &[]), during);
    let found = causes(&it);
    assert!(found.contains(&(Cause::OtherTimers, 30)), "{found:?}");
    assert!(
        found.contains(&(Cause::ThreadInterference, 40)),
        "{found:?}"
    );
}

#[test]
fn a_switch_before_the_handler_is_no_interference() {
    let mut during = vec![
        event(1020, LOAD, Kind::IrqExit),
        event(1060, LOAD, Kind::Switch { next: 12 }),
    ];
    during.extend(way(1150, 12));
    let it = activation(104, 420, on(LOAD, &[81]), during);
    let mut expected = vec![
        (Cause::IrqInterference, 20),
        // In the one thread and in the other.
        (Cause::IrqHandlerDelay, 40),
        (Cause::IrqHandlerDelay, 44),
    ];
    expected.extend(ORDINARY);
    assert_eq!(causes(&it), expected);
}

#[test]
fn a_thread_with_preemption_off_blocks() {
    let mut during = way(1050, LOAD);
    during[0].preempt_depth = 1;
    let it = activation(4, 320, on(LOAD, &[]), during);
    assert!(causes(&it).contains(&(Cause::BlockingThread, 50)));
}

/// It runs on with the interrupt over, and has not disabled preemption: it is one that the woken thread does not preempt.
#[test]
fn a_more_important_thread_interferes() {
    let mut during = way(1050, LOAD);
    during[5].needs_resched = false;
    let it = activation(4, 320, on(LOAD, &[]), during);
    let found = causes(&it);
    assert!(
        found.contains(&(Cause::ThreadInterference, 50)),
        "{found:?}"
    );
    let who = partition(&it);
    assert!(who.iter().any(|piece| piece.who == "load:9"), "{who:?}");
}

/// A run that an IRQ threshold ends has no more of the activation than the interrupt's beginning.
#[test]
fn an_irq_latency_ends_with_the_time_stamp() {
    let mut it = activation(104, 104, on(LOAD, &[81]), way(1150, LOAD));
    it.during.insert(0, event(1080, LOAD, Kind::IrqExit));
    it.during.truncate(4);
    it.sample.is_of_irq = true;
    assert_eq!(
        causes(&it),
        [(Cause::IrqInterference, 80), (Cause::IrqHandlerDelay, 24)]
    );
}

#[test]
fn expired_in_a_handler_that_was_there_before() {
    let mut during = way(1050, LOAD);
    during.remove(0);
    let it = activation(0, 320, on(LOAD, &[80]), during);
    let found = causes(&it);
    assert_eq!(found[0], (Cause::TimerInterrupt, 130));
}

#[test]
fn what_cannot_be_known_is_not_guessed() {
    let without_switches: Vec<_> = way(1050, 0)
        .into_iter()
        .filter(|event| !matches!(event.kind, Kind::Switch { .. }))
        .collect();
    assert!(partition(&activation(4, 320, on(0, &[]), without_switches)).is_empty());
    assert!(partition(&activation(4, 320, on(0, &[]), Vec::new())).is_empty());
}
