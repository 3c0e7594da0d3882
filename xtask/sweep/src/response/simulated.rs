//! Small sets in all phasings, tick by tick, against their bounds.

use super::tests::thread;
use super::{Costs, Set, Thread, responses};

const COSTS: Costs = Costs {
    activation: 1,
    interrupt: 0,
    section: 1,
};

/// A thread's turns that have not ended.
#[derive(Clone, Default)]
struct Waits {
    /// When each was activated.
    since: std::collections::VecDeque<u64>,
    /// Ticks that the first has had.
    had: u64,
}

/// The longest response of each thread, activated first at these times. A turn begins with what keeps others away and ends with a
/// section, with interrupts off.
fn seen(threads: &[Thread], phases: &[u64], until: u64) -> Vec<u64> {
    let mut waits = vec![Waits::default(); threads.len()];
    let mut worst = vec![0; threads.len()];
    // Interrupts that have yet to be handled.
    let mut due = Vec::new();
    let mut keeps: Option<usize> = None;
    for now in 0..until {
        for (nr, it) in threads.iter().enumerate() {
            if now >= phases[nr] && (now - phases[nr]).is_multiple_of(it.period) {
                due.push((nr, now));
            }
        }
        let is_section = |nr: usize| waits[nr].had >= threads[nr].wcet;
        // Interrupts come between all but the instructions of a section that has begun.
        if let Some(&(nr, at)) = due.first()
            && !keeps.is_some_and(is_section)
        {
            due.remove(0);
            waits[nr].since.push_back(at);
            continue;
        }
        let ready = (0..threads.len()).filter(|nr| !waits[*nr].since.is_empty());
        let best = ready.max_by_key(|nr| (threads[*nr].priority, std::cmp::Reverse(*nr)));
        let Some(runs) = keeps.or(best) else { continue };
        let (it, of) = (&threads[runs], &mut waits[runs]);
        of.had += 1;
        if of.had == it.wcet + COSTS.section {
            of.had = 0;
            let since = of.since.pop_front().unwrap();
            worst[runs] = worst[runs].max(now + 1 - since);
        }
        // The section of a turn is one tick here, so none is cut.
        keeps = (of.had != 0 && of.had < it.blocking).then_some(runs);
    }
    worst
}

#[test]
fn no_response_is_longer_than_its_bound() {
    let mut nr_tight = 0;
    for (periods, wcets, blocking) in [
        ([8, 12, 20], [1, 2, 3], [0, 0, 0]),
        ([9, 14, 21], [1, 2, 4], [0, 2, 3]),
        ([10, 15, 30], [2, 2, 5], [0, 0, 5]),
        ([7, 21, 25], [1, 4, 2], [0, 4, 2]),
    ] {
        let threads: Vec<Thread> = (0..3)
            .map(|nr| Thread {
                blocking: blocking[nr],
                function: None,
                ..thread(9 - nr as u8, periods[nr], wcets[nr])
            })
            .collect();
        let set = Set {
            threads,
            ..Set::default()
        };
        let bounds: Vec<u64> = responses(&set, COSTS)
            .iter()
            .map(|it| it.worst.unwrap())
            .collect();
        let mut worst = [0; 3];
        for a in 0..periods[0] {
            for b in 0..periods[1] {
                for c in 0..periods[2] {
                    let seen = seen(&set.threads, &[a, b, c], 400);
                    for (nr, it) in seen.into_iter().enumerate() {
                        assert!(
                            it <= bounds[nr],
                            "{it} > {}: {set:?} {a} {b} {c}",
                            bounds[nr]
                        );
                        worst[nr] = worst[nr].max(it);
                    }
                }
            }
        }
        nr_tight += usize::from(worst.iter().zip(&bounds).any(|(it, of)| it + 1 >= *of));
    }
    assert!(nr_tight >= 2, "{nr_tight}");
}
