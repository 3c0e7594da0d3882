//! [`look_at_all`]: all that can be reached with interrupts off, root by root, on all CPUs of the host.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Result, ensure};
use takt_base::spread;

use crate::cost::Cost;
use crate::explore::{Explorer, Machine, Off, Refusal};
use crate::image::Image;
use crate::longest::{Bound, GOALS, Goal, Longest};
use crate::state::Interrupts;

/// How often it is begun anew with more calls followed.
const MOST_ROUNDS: usize = 24;

/// How exact a root is looked at: the first of these by which all of it is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rung {
    /// States at one instruction in one call, before what differs is forgotten.
    pub(crate) alike: u32,
    /// The same with interrupts on.
    pub(crate) alike_on: u32,
    /// States that are looked at.
    pub(crate) most: usize,
}

const RUNGS: [Rung; 5] = [
    Rung {
        alike: 400,
        alike_on: 6,
        most: 20_000,
    },
    Rung {
        alike: 64,
        alike_on: 6,
        most: 20_000,
    },
    Rung {
        alike: 12,
        alike_on: 3,
        most: 20_000,
    },
    Rung {
        alike: 3,
        alike_on: 1,
        most: 30_000,
    },
    Rung {
        alike: 0,
        alike_on: 0,
        most: 60_000,
    },
];

/// What was found from each root, with calls of these functions followed.
#[derive(Clone, Debug, Default)]
pub(crate) struct All {
    pub(crate) found: BTreeMap<Root, Found>,
    followed: BTreeSet<u64>,
}

/// Where looking begins, with nothing known but the place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Root {
    /// A function, with interrupts on.
    Function(u64),
    /// Where an interrupt comes in.
    Entry(u64),
    /// On a way that was not looked at to its end.
    Lost(u64, Interrupts),
    /// Behind an instruction that switches interrupts off.
    Behind(u64),
    /// A call that blocks: to the switch, which its caller may carry out.
    Call(u64),
    /// A function or an entry: whatever is off, to where it comes back or to the switch.
    Whole(u64),
    /// A thread that goes on there: to where its function reads the clock.
    BehindSwitch(u64),
    /// Where preemption was enabled and a switch is due: to where that switches interrupts off.
    BehindGuard(u64),
}

/// What is known of a stretch.
#[derive(Clone, Debug, Default)]
pub(crate) struct Known {
    /// To each [`Goal`] the most instructions, and the way: the first instructions of its blocks, then its last one.
    pub(crate) most: [Option<(Cost, Vec<u64>)>; GOALS],
    /// Why there is no bound of that, and where.
    pub(crate) refused: [Option<(Refusal, u64)>; GOALS],
}

/// What was found from one root, or from all.
#[derive(Clone, Debug, Default)]
pub(crate) struct Found {
    /// Stretches by the instruction that they begin with, or behind.
    pub(crate) stretches: BTreeMap<u64, Known>,
    /// From where locks of several CPUs are taken.
    pub(crate) holds: Known,
    /// States that were looked at.
    pub(crate) states: usize,
    /// Instructions that change the interrupt flag that were come to.
    visited: BTreeSet<u64>,
    /// Where it goes on behind what was not looked at.
    lost: BTreeSet<(u64, Interrupts)>,
    /// Functions that may come back with interrupts off.
    returned_off: BTreeSet<u64>,
    /// Functions whose calls were passed over.
    passed: BTreeSet<u64>,
    /// Regions that were come to.
    pub(crate) regions: BTreeSet<u64>,
    /// Instructions that switch interrupts off to which nobody comes.
    pub(crate) unreached: BTreeSet<u64>,
    /// Marks of loops that were come to with interrupts off, and those that such a loop needed.
    pub(crate) met: BTreeSet<u64>,
    pub(crate) needed: BTreeSet<u64>,
}

impl Known {
    fn add_bound(&mut self, goal: Goal, bound: Bound) {
        let mut found = Self::default();
        match bound {
            Bound::Fatal => {}
            Bound::Refused(why, at) => found.refused[goal as usize] = Some((why, at)),
            Bound::Most(most, way) => found.most[goal as usize] = Some((most, way)),
        }
        self.add(&found);
    }

    fn add(&mut self, other: &Self) {
        for (refused, others) in self.refused.iter_mut().zip(&other.refused) {
            *refused = refused.or(*others);
        }
        for (most, others) in self.most.iter_mut().zip(&other.most) {
            raise(most, others);
        }
    }
}

fn raise(most: &mut Option<(Cost, Vec<u64>)>, other: &Option<(Cost, Vec<u64>)>) {
    match (most, other) {
        (Some((most, way)), Some((others, other_way))) => {
            if most.raise(others) {
                way.clone_from(other_way);
            }
        }
        (most @ None, others) => most.clone_from(others),
        (_, None) => {}
    }
}

impl Found {
    fn add(&mut self, other: &Self) {
        for (begin, known) in &other.stretches {
            self.stretches.entry(*begin).or_default().add(known);
        }
        self.holds.add(&other.holds);
        self.states += other.states;
        self.visited.extend(&other.visited);
        self.lost.extend(&other.lost);
        self.met.extend(&other.met);
        self.needed.extend(&other.needed);
    }
}

/// Where interrupts, exceptions, NMIs and calls of tasks come in: a symbol, how many entries there are, and the bytes from one to the next.
const ENTRIES: [(&str, u64, u64); 7] = [
    ("takt_irq_timer", 1, 0),
    ("takt_irq_early_timer", 1, 0),
    ("takt_irq_kick", 1, 0),
    ("takt_irq_spurious", 1, 0),
    ("takt_irq_stubs", 33, 16),
    ("takt_call_stubs", 1, 0),
    ("takt_exc_stubs", 32, 16),
];

/// Where an image begins, in code of 32 bits.
const BOOT: &str = "boot_start32";

/// Looks at all that can be reached with interrupts off: from functions that switch them off, from where interrupts come in,
/// from where a way goes on that was not looked at, and from behind what was come to in none of these ways. What was found
/// `before` from some of the roots is not looked for anew.
///
/// # Errors
///
/// If it is not found out which functions come back with interrupts off.
pub(crate) fn look_at_all(machine: Machine<'_>, before: &All) -> Result<(Found, All)> {
    let (image, calls) = (machine.image, machine.calls);
    let is_ending = |it: u64| calls.is_fatal(image.region(it)) || is_boot(image, it);
    let places: Vec<_> = image
        .all()
        .filter(|it| Explorer::begins(machine, &it.it))
        .map(|it| it.it.ip())
        .filter(|it| !is_ending(*it))
        .collect();
    let All {
        mut found,
        mut followed,
    } = before.clone();
    for _ in 0..MOST_ROUNDS {
        let mut regions: BTreeSet<_> = places.iter().map(|it| image.region(*it)).collect();
        regions.extend(calls.callers(&followed));
        // In what reports a fault the system ends.
        let functions: BTreeSet<_> = regions
            .iter()
            .flat_map(|it| calls.entries(*it))
            .filter(|it| !calls.is_fatal(*it) && !is_boot(image, *it))
            .filter(|it| !machine.marks.is_shown(*it))
            .collect();
        // A function all of whose calls are followed is looked at there.
        let is_inside =
            |it: &u64| followed.contains(it) && !calls.is_by_address(*it) && calls.is_called(*it);
        let mut roots: BTreeSet<_> = functions
            .into_iter()
            .filter(|it| !is_inside(it))
            .map(Root::Function)
            .chain(entries(image).filter(|_| machine.off == Off::Irqs))
            .collect();
        loop {
            look(machine, &followed, &roots, &mut found);
            let mut all = Found::default();
            for root in &roots {
                all.add(&found[root]);
            }
            let before = roots.len();
            roots.extend(all.lost.iter().map(|(at, flag)| Root::Lost(*at, *flag)));
            if roots.len() == before {
                break;
            }
        }
        let entered = entered(machine, &regions, &roots, &found);
        let mut all = Found::default();
        for root in &entered {
            all.add(&found[root]);
        }
        // Where the code shows who comes to a function, and nobody does, nobody comes.
        let is_shown = |it: &u64| {
            image.is_compiled(image.region(*it)) || machine.marks.is_shown(image.region(*it))
        };
        let unknown = places.iter().filter(|it| !all.visited.contains(it));
        let (unreached, unknown): (BTreeSet<u64>, BTreeSet<u64>) =
            unknown.copied().partition(is_shown);
        let behind: BTreeSet<_> = unknown.into_iter().map(Root::Behind).collect();
        look(machine, &followed, &behind, &mut found);
        roots.extend(&behind);
        // Behind a lost way nobody knows by what state it would be so.
        let returned = roots
            .iter()
            .filter(|it| !matches!(it, Root::Lost(..)))
            .flat_map(|it| &found[it].returned_off);
        let more: BTreeSet<u64> = returned.copied().filter(|it| *it != 0).collect();
        let before = followed.len();
        followed.extend(&more);
        if followed.len() == before {
            for root in &behind {
                all.add(&found[root]);
            }
            all.unreached = unreached;
            found.retain(|it, _| roots.contains(it));
            return Ok((all, All { found, followed }));
        }
        found.retain(|root, it| roots.contains(root) && it.passed.is_disjoint(&more));
    }
    ensure!(
        false,
        "whose calls have to be followed is not found out in {MOST_ROUNDS} rounds"
    );
    unreachable!("ensured")
}

/// The roots without those functions that are only ever called with interrupts off: by nobody who was not looked at, and by
/// nobody of these with interrupts on.
fn entered(
    machine: Machine<'_>,
    regions: &BTreeSet<u64>,
    roots: &BTreeSet<Root>,
    found: &BTreeMap<Root, Found>,
) -> BTreeSet<Root> {
    let calls = machine.calls;
    let is_looked_at =
        |it: &u64| regions.contains(it) && !is_boot(machine.image, *it) || calls.is_fatal(*it);
    let from_outside = |function: u64| {
        let callers = calls.callers(&BTreeSet::from([function]));
        calls.is_by_address(function)
            || callers.is_empty()
            || !callers.iter().all(is_looked_at)
            || !machine.image.is_compiled(function)
    };
    let mut entered: BTreeSet<Root> = roots
        .iter()
        .copied()
        .filter(|it| !matches!(it, Root::Function(it) if !from_outside(*it)))
        .collect();
    loop {
        let passed: BTreeSet<u64> = entered
            .iter()
            .flat_map(|it| found[it].passed.iter().copied())
            .collect();
        let before = entered.len();
        let also = roots
            .iter()
            .filter(|it| matches!(it, Root::Function(it) if passed.contains(it)));
        entered.extend(also);
        if entered.len() == before {
            return entered;
        }
    }
}

/// Code of 32 bits, by which an image begins.
fn is_boot(image: &Image, ip: u64) -> bool {
    image.name(ip) == BOOT
}

fn entries(image: &Image) -> impl Iterator<Item = Root> {
    ENTRIES
        .into_iter()
        .filter_map(|(name, nr, distance)| Some((image.symbol(name)?, nr, distance)))
        .flat_map(|(first, nr, distance)| (0..nr).map(move |nr| Root::Entry(first + nr * distance)))
}

/// What is known of each of these, whatever is off, by where they begin.
pub(crate) fn look_at_wholes(machine: Machine<'_>, roots: &[Root]) -> BTreeMap<Root, Known> {
    let none = BTreeSet::new();
    let found = spread::each(spread::cpus(), roots, |root| {
        let stretches = look_from(machine, &none, *root).stretches;
        (*root, stretches.into_values().next().unwrap_or_default())
    });
    found.into_iter().collect()
}

/// Looks at those roots that were not looked at before.
fn look(
    machine: Machine<'_>,
    followed: &BTreeSet<u64>,
    roots: &BTreeSet<Root>,
    found: &mut BTreeMap<Root, Found>,
) {
    let new: Vec<_> = roots
        .iter()
        .copied()
        .filter(|it| !found.contains_key(it))
        .collect();
    found.extend(spread::each(spread::cpus(), &new, |root| {
        (*root, look_from(machine, followed, *root))
    }));
}

/// Looks at all that is reached from one root, as exact as that can be done.
fn look_from(machine: Machine<'_>, followed: &BTreeSet<u64>, root: Root) -> Found {
    let mut states = 0;
    for rung in RUNGS {
        let mut explorer = Explorer::new(machine, followed, rung);
        match root {
            Root::Function(at) => {
                explorer.root(at, Interrupts::On);
            }
            Root::Entry(at) => {
                let state = explorer.root(at, Interrupts::Off);
                explorer.start(at, state);
            }
            Root::Call(at) => explorer.begin_whole(at, true),
            Root::Whole(at) => explorer.begin_whole(at, false),
            Root::BehindSwitch(at) => explorer.begin_behind_switch(at),
            Root::BehindGuard(at) => explorer.begin_behind_guard(at),
            Root::Lost(at, interrupts) => explorer.on_the_way(at, interrupts),
            Root::Behind(at) => {
                if let Some(it) = machine.image.at(at) {
                    explorer.begin_anywhere(at, it.it.next_ip());
                }
            }
        }
        let is_all = explorer.run();
        states += explorer.states.len();
        if is_all || rung.alike == 0 {
            return Found {
                states,
                ..told(explorer)
            };
        }
    }
    unreachable!("the last rung is of no states alike")
}

fn told(mut explorer: Explorer<'_>) -> Found {
    let longest = Longest::new(&explorer);
    let mut stretches: BTreeMap<u64, Known> = BTreeMap::new();
    let (mut met, mut needed) = (BTreeSet::new(), BTreeSet::new());
    for (begin, states) in &explorer.starts {
        let known = stretches.entry(*begin).or_default();
        for state in states {
            let (bound, places) = longest.of(*state, Goal::End);
            // Where a loop is bounded by what comes on top, the mark was needed.
            if let Bound::Most(most, _) = &bound {
                let counts = |it: &u64| {
                    let nr = explorer.marks().rounds(*it);
                    nr.and_then(|nr| most.each.get(nr))
                        .is_some_and(|it| *it != [0; 3])
                };
                needed.extend(places.iter().copied().filter(counts));
                met.extend(places);
            }
            Goal::ALL
                .into_iter()
                .for_each(|it| known.add_bound(it, longest.of(*state, it).0));
        }
    }
    let mut holds = Known::default();
    if !explorer.holds.is_empty() {
        explorer.end_at_gives();
        let longest = Longest::new(&explorer);
        for state in &explorer.holds {
            holds.add_bound(Goal::End, longest.of(*state, Goal::End).0);
        }
    }
    Found {
        stretches,
        holds,
        states: explorer.states.len(),
        met,
        needed,
        regions: explorer.regions(),
        visited: explorer.visited,
        lost: explorer.lost,
        returned_off: explorer.returned_off,
        passed: explorer.passed,
        ..Found::default()
    }
}
