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
    result.not_hit.is_empty() && result.astray.is_empty()
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
        took: 0,
    }
}

fn sweep(steps: &[Step]) -> (Path, Vec<Arrival>) {
    let path = path(steps);
    let arrivals = (0..steps.len())
        .map(|position| arrive(&path, steps, position))
        .collect();
    (path, arrivals)
}

fn analysed(steps: &[Step]) -> Analysis {
    let (path, arrivals) = sweep(steps);
    analyse(&path, path.len(), &arrivals, |_| false)
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
    let result = analyse(&path, 10, &arrivals, |_| false);
    assert_eq!(result.not_hit, [(3, 4), (9, 9)]);
    assert_eq!(result.hit, 7);
    assert!(!is_complete(&result));
}

#[test]
fn who_meets_another_path_is_astray() {
    let (path, mut arrivals) = sweep(&[Plain; 10]);
    arrivals[6].ip += 1;
    let result = analyse(&path, 10, &arrivals, |_| false);
    assert_eq!(result.astray, [(6, 0x100d)]);
    assert!(!is_complete(&result));
    arrivals[6].ip += 1;
    let result = analyse(&path, 10, &arrivals, |_| false);
    assert_eq!((result.shifted, is_complete(&result)), (1, true));
    let result = analyse(&path, 10, &arrivals, |ip| ip == 0x100c);
    assert_eq!((result.joined, result.shifted), (1, 0));
}

#[test]
fn a_section_behind_a_longer_way_is_found_where_the_path_has_it() {
    let mut steps = vec![Plain; 80];
    steps.push(Cli);
    steps.extend([Plain; 20]);
    steps.push(Sti);
    steps.extend([Plain; 10]);
    steps.push(PreemptOff);
    steps.extend([Plain; 7]);
    steps.push(PreemptOn);
    steps.extend([Plain; 10]);
    let straight = analysed(&steps);
    assert_eq!(straight.sections.len(), 2);
    for longer in [-9, 28] {
        let (path, mut arrivals) = sweep(&steps);
        arrivals.retain(|arrival| arrival.position < 70 || arrival.position + longer >= 70);
        for arrival in arrivals.iter_mut().filter(|arrival| arrival.position >= 70) {
            arrival.position += longer;
        }
        let result = analyse(&path, path.len() + 28, &arrivals, |_| false);
        assert!(result.shifted > 0);
        assert_eq!(result.sections, straight.sections, "{longer} longer");
    }
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
    let result = analyse(&path, path.len(), &arrivals, |_| false);
    assert_eq!(result.late, 3);
    assert!(is_complete(&result));
    assert_eq!(
        (result.sections[0].first, result.sections[0].length),
        (3, 4)
    );
}

#[test]
fn an_interrupts_entry_is_told_from_a_section() {
    let steps = [
        Plain, Plain, Cli, Plain, Plain, Sti, Plain, Plain, Plain, Plain, Plain, Plain,
    ];
    let (path, arrivals) = sweep(&steps);
    let result = analyse(&path, path.len(), &arrivals, |ip| ip == 0x1006);
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
