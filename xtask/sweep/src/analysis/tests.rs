//! Tests of the analysis, on a machine of a few lines.

use super::*;

/// What an instruction of the simulated path does.
#[derive(Clone, Copy, PartialEq)]
enum Step {
    Plain,
    Cli,
    Sti,
    PreemptOff,
    PreemptOn,
}
use Step::{Cli, Plain, PreemptOff, PreemptOn, Sti};

/// Whether an interrupt arrived at every boundary, and each where it was expected.
fn is_complete(result: &Analysis) -> bool {
    result.not_hit.is_empty() && result.astray.is_empty() && !result.is_open
}

/// Position and instruction of the arrivals that are astray.
fn astray(result: &Analysis) -> Vec<(u32, u32)> {
    let all = result.astray.iter();
    all.map(|met| (met.position, met.arrival.ip)).collect()
}

const BASE: u32 = 4;
const WAKE: u32 = 100;

fn path(steps: &[Step]) -> Path {
    let ip = |index: usize| 0x1000 + index as u64 * 2;
    Path {
        ips: (0..steps.len()).map(ip).collect(),
        tail: (steps.len()..steps.len() + 100).map(ip).collect(),
    }
}

/// An interrupt that arrives at `position` of a stretch that begins with interrupts and preemption on.
fn arrive(path: &Path, steps: &[Step], position: usize) -> Arrival {
    let (mut irqs, mut depth, mut shadow, mut taken) = (true, 0, false, None);
    let mut thread = None;
    for index in 0..=steps.len() {
        if taken.is_none() && index >= position && irqs && !shadow {
            taken = Some((index, depth));
        }
        if taken.is_some() && depth == 0 && thread.is_none() {
            thread = Some(index);
        }
        shadow = false;
        match steps.get(index) {
            Some(Cli) => irqs = false,
            Some(Sti) => (irqs, shadow) = (true, true),
            Some(PreemptOff) => depth += 1,
            Some(PreemptOn) => depth -= 1,
            _ => {}
        }
    }
    let (taken, depth) = taken.unwrap_or((steps.len() + 1, 0));
    let waited = (taken - position) as u32;
    let thread = thread.unwrap_or(taken).max(taken) - position;
    Arrival {
        position: position as i32,
        irq: BASE + waited,
        thread: BASE + WAKE + thread as u32,
        ip: path.at(taken as u32).unwrap() as u32,
        preempt_depth: depth,
        // With the interrupt, if it comes before the end.
        took: steps.len() as u32
            + if position < steps.len() {
                BASE + WAKE
            } else {
                0
            },
    }
}

fn sweep(steps: &[Step]) -> (Path, Vec<Arrival>) {
    let path = path(steps);
    // One behind the end, as the sweep has them.
    let arrivals = (0..=steps.len())
        .map(|position| arrive(&path, steps, position))
        .collect();
    (path, arrivals)
}

fn analysed(steps: &[Step]) -> Analysis {
    let (path, arrivals) = sweep(steps);
    analysis(&path, &arrivals)
}

/// The analysis of all arrivals on one path, without interrupts' entries.
fn analysis(path: &Path, arrivals: &[Arrival]) -> Analysis {
    analyse(&Ways::new(path.clone()), None, arrivals, |_| false)
}

#[test]
fn a_section_is_found_to_the_instruction() {
    let mut steps = vec![Plain; 10];
    steps.push(Cli);
    steps.extend([Plain; 34]);
    steps.push(Sti);
    steps.extend([Plain; 10]);
    let result = analysed(&steps);
    assert!(is_complete(&result));
    assert_eq!(result.hit, 56);
    assert_eq!(result.irq.max, BASE + 36);
    let expected = Section {
        kind: Kind::IrqsOff,
        first: 11,
        // 34, the `sti`, and the instruction in whose shadow no interrupt is taken.
        length: 36,
        begun_by: Some(0x1000 + 20),
        ended_by: Some(0x1000 + 2 * 46),
    };
    assert_eq!(result.sections, [expected]);
}

#[test]
fn two_sections_are_two() {
    let steps = [
        Plain, Cli, Plain, Sti, Plain, Plain, Cli, Sti, Plain, Plain, Plain, Plain, Plain, Plain,
    ];
    let lengths: Vec<_> = analysed(&steps)
        .sections
        .iter()
        .map(|section| (section.first, section.length))
        .collect();
    assert_eq!(lengths, [(2, 3), (7, 2)]);
}

#[test]
fn preemption_off_around_interrupts_off() {
    let mut steps = vec![
        Plain, Plain, PreemptOff, Plain, Cli, Plain, Sti, Plain, Plain, PreemptOn,
    ];
    steps.extend([Plain; 10]);
    let result = analysed(&steps);
    let of = |kind| {
        let found: Vec<_> = result
            .sections
            .iter()
            .filter(|it| it.kind == kind)
            .collect();
        assert_eq!(found.len(), 1, "{kind:?}");
        (found[0].first, found[0].length)
    };
    assert_eq!(of(Kind::IrqsOff), (5, 3));
    assert_eq!(of(Kind::PreemptOff), (3, 7));
    assert_eq!(result.thread.max, BASE + WAKE + 7);
}

#[test]
fn what_was_not_hit_is_listed() {
    let (path, mut arrivals) = sweep(&[Plain; 10]);
    arrivals.retain(|arrival| ![3, 4, 9].contains(&arrival.position));
    let result = analysis(&path, &arrivals);
    assert_eq!(result.not_hit, [(3, 4), (9, 9)]);
    assert_eq!(result.hit, 7);
    assert!(!is_complete(&result));
}

#[test]
fn who_meets_another_path_is_astray() {
    let (path, mut arrivals) = sweep(&[Plain; 10]);
    arrivals[6].ip += 1;
    let result = analysis(&path, &arrivals);
    assert_eq!(astray(&result), [(6, 0x100d)]);
    assert!(!is_complete(&result));
    arrivals[6].ip += 1;
    let result = analysis(&path, &arrivals);
    assert_eq!(astray(&result), [(6, 0x100e)]);
    // Unless another interrupt begins there.
    let ways = Ways::new(path);
    let result = analyse(&ways, None, &arrivals, |ip| ip == 0x100c);
    assert_eq!((result.joined, is_complete(&result)), (1, true));
}

/// A stretch that takes `more` instructions longer for arrivals from position 40 on, with a section on either side of that.
fn longer(more: usize) -> Vec<Step> {
    let section = |length| [&[Cli][..], &vec![Plain; length], &[Sti]].concat();
    [
        &[Plain; 10][..],
        &section(5),
        &vec![Plain; 40 + more],
        &section(20),
        &[Plain; 10],
        &[PreemptOff],
        &[Plain; 7],
        &[PreemptOn],
        &[Plain; 10],
    ]
    .concat()
}

#[test]
fn a_second_way_is_read_off_and_explains_the_rest() {
    const ENTRY: u64 = 0x9000;
    const CHANGE: i32 = 40;
    let is_entry = |ip| ip == ENTRY;
    let (path, short) = sweep(&longer(0));
    let (_, long) = sweep(&longer(28));
    // Other instructions there.
    let other = |ip: u64| ip + 0x4000;
    let arrivals: Vec<_> = short
        .into_iter()
        .filter(|it| it.position < CHANGE)
        .chain(
            long.into_iter()
                .filter(|it| it.position >= CHANGE)
                .map(|it| Arrival {
                    ip: other(it.ip.into()) as u32,
                    ..it
                }),
        )
        .collect();
    let mut ways = Ways::new(path.clone());
    let alone = analyse(&ways, None, &arrivals, is_entry);
    assert!(
        !is_complete(&alone) && alone.astray.len() > 50,
        "{}",
        alone.astray.len()
    );
    // What is executed in a run in which the last one comes, and the interrupt.
    let met = ways.unexplained(&arrivals, is_entry).unwrap();
    assert_eq!(met.arrival, arrivals[arrivals.len() - 2]);
    let all = self::path(&longer(28));
    let mut executed = Path {
        ips: all.ips.iter().map(|ip| other(*ip)).collect(),
        tail: Vec::new(),
    };
    executed.ips.truncate(met.taken as usize);
    executed.ips.extend([ENTRY, 0x9002, 0x9004]);
    ways.add(&met, executed, is_entry);
    assert!(ways.unexplained(&arrivals, is_entry).is_none());
    let both = analyse(&ways, None, &arrivals, is_entry);
    assert!(is_complete(&both), "{:?} {:?}", both.astray, both.not_hit);
    assert_eq!((both.ways, both.swept), (2, path.len() + 28));
    let lengths: Vec<_> = both
        .sections
        .iter()
        .map(|section| (section.kind, section.length))
        .collect();
    assert_eq!(
        lengths,
        [
            (Kind::IrqsOff, 7),
            (Kind::IrqsOff, 22),
            (Kind::PreemptOff, 8)
        ]
    );
}

#[test]
fn a_run_that_was_another_one_explains_nothing() {
    let (path, mut arrivals) = sweep(&[Plain; 10]);
    arrivals[6].ip += 2;
    let mut ways = Ways::new(path.clone());
    let met = ways.unexplained(&arrivals, |_| false).unwrap();
    assert_eq!(met.position, 6);
    ways.add(&met, path, |_| false);
    assert_eq!(
        astray(&analyse(&ways, None, &arrivals, |_| false)),
        [(6, 0x100e)]
    );
    // It is not asked for again.
    assert!(ways.unexplained(&arrivals, |_| false).is_none());
}

#[test]
fn how_late_the_hardware_is_is_found_out() {
    let steps = [
        Plain, Plain, Cli, Plain, Plain, Sti, Plain, Plain, Plain, Plain, Plain, Plain,
    ];
    let (path, mut arrivals) = sweep(&steps);
    for arrival in &mut arrivals {
        arrival.position -= 3;
    }
    let result = analysis(&path, &arrivals);
    assert_eq!(result.late, 3);
    assert!(is_complete(&result));
    assert_eq!(
        (result.sections[0].first, result.sections[0].length),
        (3, 4)
    );
}

#[test]
fn how_late_is_found_out_far_from_the_beginning_and_with_steps() {
    let (path, arrivals) = sweep(&[Plain; 900]);
    for (first, step) in [(500, 1), (0, 100)] {
        let some: Vec<_> = arrivals
            .iter()
            .filter(|it| it.position >= first && (it.position - first) % step == 0)
            .map(|it| Arrival {
                position: it.position - 2,
                ..*it
            })
            .collect();
        let result = analysis(&path, &some);
        assert_eq!((result.late, result.astray.len()), (2, 0), "{first} {step}");
    }
}

#[test]
fn an_interrupts_entry_is_told_from_a_section() {
    let steps = [
        Plain, Plain, Cli, Plain, Plain, Sti, Plain, Plain, Plain, Plain, Plain, Plain,
    ];
    let (path, arrivals) = sweep(&steps);
    let result = analyse(&Ways::new(path), None, &arrivals, |ip| ip == 0x1006);
    assert_eq!(result.sections[0].kind, Kind::Interrupt);
}

#[test]
fn spreads_have_exact_ranks() {
    let spread = Spread::of((1..=200).rev());
    assert_eq!(
        (spread.min, spread.p50, spread.p99, spread.max),
        (1, 100, 198, 200)
    );
    assert_eq!(Spread::of(std::iter::empty()), Spread::default());
}
