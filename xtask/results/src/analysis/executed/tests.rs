//! Logs that are made up.

use super::*;

const MARKS: [Mark; 13] = [
    Mark::Cli,
    Mark::Sti,
    Mark::Iret,
    Mark::Entry(80),
    Mark::PreemptInc,
    Mark::PreemptDec,
    Mark::Switch,
    Mark::Call,
    Mark::Ret,
    Mark::Clock,
    Mark::LockWait,
    Mark::Locked,
    Mark::Unlocked,
];

/// What a CPU executed: at these counts, these marks, each at the address that is its number here; `None` is another CPU's
/// turn.
fn executed(steps: &[(u64, u32, Option<Mark>)]) -> Executed {
    let number = |mark: Mark| MARKS.iter().position(|it| *it == mark).unwrap() as u32;
    let events = steps.iter().map(|&(at, cpu, mark)| Event {
        at,
        cpu,
        mark: mark.map(number),
    });
    Executed::new(Rc::new(Marks::for_test(&MARKS)), events.collect())
}

fn on_one(steps: &[(u64, Mark)]) -> Executed {
    let steps: Vec<_> = steps
        .iter()
        .map(|&(at, mark)| (at, 0, Some(mark)))
        .collect();
    executed(&steps)
}

/// Kind, where it begins behind, where it ends, and its length.
fn spans(it: &Executed, cpu: u8) -> Vec<(Kind, u64, u64, u64)> {
    it.irqs_off(cpu)
        .iter()
        .map(|span| (span.kind, span.after, span.to, span.length))
        .collect()
}

#[test]
fn sections_and_interrupts_are_told_apart() {
    let it = on_one(&[
        (10, Mark::Cli),
        (12, Mark::Cli),
        (20, Mark::Sti),
        // In the shadow: nothing gets in.
        (21, Mark::Cli),
        (30, Mark::Sti),
        (40, Mark::Entry(80)),
        (45, Mark::Cli),
        (60, Mark::Iret),
    ]);
    assert_eq!(
        spans(&it, 0),
        [(Kind::IrqsOff, 10, 31, 21), (Kind::Interrupt, 39, 60, 21)]
    );
}

#[test]
fn what_other_cpus_execute_is_no_part_of_it() {
    let it = executed(&[
        (1, 0, None),
        (10, 0, Some(Mark::Cli)),
        (14, 1, None),
        (20, 1, Some(Mark::Cli)),
        (24, 0, None),
        (30, 0, Some(Mark::Sti)),
        (35, 1, None),
        (50, 1, Some(Mark::Sti)),
    ]);
    assert_eq!(spans(&it, 0), [(Kind::IrqsOff, 10, 31, 11)]);
    // Its own: 20 to 24, and 35 to 50 with the one in the shadow.
    assert_eq!(spans(&it, 1), [(Kind::IrqsOff, 20, 51, 20)]);
    assert_eq!(it.others(0, 10..35), 10);
}

#[test]
fn preemption_is_off_without_the_interrupts_in_between() {
    let it = on_one(&[
        (5, Mark::Call),
        (10, Mark::PreemptInc),
        // Nested, and over.
        (15, Mark::PreemptInc),
        (18, Mark::PreemptDec),
        (20, Mark::Entry(80)),
        (22, Mark::PreemptInc),
        (28, Mark::PreemptDec),
        (29, Mark::Iret),
        (40, Mark::Entry(80)),
        (59, Mark::Iret),
        (70, Mark::PreemptDec),
        (80, Mark::Switch),
    ]);
    let span = it.preempt_off(0, 40, 1).unwrap();
    assert_eq!((span.after, span.to, span.length), (10, 70, 60 - 10 - 20));
    assert_eq!(
        (it.returned(0, 40), it.returned(0, 20)),
        (Some(59), Some(29))
    );
    // Begun before the log.
    assert_eq!(it.preempt_off(0, 40, 2), None);
}

#[test]
fn calls_that_have_returned_are_no_part_of_the_stack() {
    let call = MARKS.iter().position(|it| *it == Mark::Call).unwrap() as u64;
    let inc = MARKS.iter().position(|it| *it == Mark::PreemptInc).unwrap() as u64;
    let it = on_one(&[
        (1, Mark::Call),
        // Another thread's.
        (2, Mark::Switch),
        (3, Mark::Call),
        (5, Mark::Call),
        (8, Mark::Ret),
        (9, Mark::Call),
        (10, Mark::Entry(80)),
        (11, Mark::Call),
        (19, Mark::Iret),
        (20, Mark::PreemptInc),
        (30, Mark::Entry(80)),
    ]);
    assert_eq!(it.calls(0, 30), [inc, call, call]);
}

#[test]
fn an_entry_is_known_by_its_time_stamp() {
    let it = on_one(&[(7, Mark::Clock), (10, Mark::Entry(80)), (12, Mark::Clock)]);
    assert_eq!(it.entered(0, 12), Some(10));
    assert_eq!(it.entered(0, 13), None);
    assert_eq!(it.entered(0, 8), None);
}

#[test]
fn who_waits_for_the_kernel_lock_waits_for_each_holder_in_turn() {
    let it = executed(&[
        (1, 1, None),
        (5, 1, Some(Mark::Call)),
        (10, 1, Some(Mark::Locked)),
        (20, 0, None),
        (23, 0, Some(Mark::LockWait)),
        (24, 2, None),
        (30, 2, Some(Mark::LockWait)),
        (31, 1, None),
        (40, 1, Some(Mark::Unlocked)),
        (50, 2, None),
        (53, 2, Some(Mark::Locked)),
        (60, 0, None),
        (64, 0, Some(Mark::LockWait)),
        (65, 2, None),
        (70, 2, Some(Mark::Unlocked)),
        (80, 0, None),
        (84, 0, Some(Mark::Locked)),
        (90, 0, Some(Mark::Unlocked)),
    ]);
    let waits = |cpu| -> Vec<_> {
        let waits = it.lock_waits(cpu).into_iter();
        waits
            .map(|wait| (wait.after, wait.to, wait.holder, wait.hold.length))
            .collect()
    };
    // Held by 1 for 10 to 20 and 31 to 40, by 2 for 53 to 60 and 65 to 70.
    assert_eq!(waits(0), [(22, 40, 1, 19), (40, 83, 2, 12)]);
    assert_eq!(waits(2), [(29, 52, 1, 19)]);
    assert_eq!(waits(1), []);
}
