//! The longest way from each state to where interrupts are on.
//!
//! Ways are cut at the places by which the sources count the rounds of loops. From state to such a place, from one to the next, and
//! from one to the end there is no circle left, or it is a loop without a bound. How often a stretch comes to these places is
//! what they count, n: so it takes the longest way to one, n times the longest from one to the next, and the longest to the end.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use crate::cost::Cost;
use crate::explore::{Edge, Explorer, HANDLER, Refusal, To, WAIT};

/// What is known of the ways from a state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Bound {
    /// None of them comes to an end with interrupts on: the system ends in a fault report.
    Fatal,
    /// The most, and the way: the first instructions of its blocks, then its last one.
    Most(Cost, Vec<u64>),
    /// Nothing, because of this.
    Refused(Refusal, u64),
}

/// Where ways lead of which the longest is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Goal {
    /// To the end.
    End,
    /// To the end, and another thread goes on.
    Thread,
    /// To the end, and none does.
    Return,
    /// To the first call of a function that is not the kernel's.
    Handler,
}

/// How many there are.
pub(crate) const GOALS: usize = 4;

impl Goal {
    pub(crate) const ALL: [Self; GOALS] = [Self::End, Self::Thread, Self::Return, Self::Handler];
}

/// The longest ways from one state.
#[derive(Clone, Debug, Default)]
struct Ways {
    /// To the next place that counts, and the first edge.
    on: Option<(Cost, u32)>,
    /// To each goal, without coming to one.
    to: [Option<(Cost, u32)>; GOALS],
    /// Why nothing is known.
    refused: Option<(Refusal, u64)>,
}

impl Ways {
    fn to(&self, goal: Goal) -> &Option<(Cost, u32)> {
        &self.to[goal as usize]
    }
}

/// By state.
#[derive(Debug)]
pub(crate) struct Longest<'e, 'x> {
    explorer: &'e Explorer<'x>,
    ways: Vec<Ways>,
}

impl<'e, 'x> Longest<'e, 'x> {
    pub(crate) fn new(explorer: &'e Explorer<'x>) -> Self {
        let nr = explorer.states.len();
        let mut search = Search {
            explorer,
            ways: vec![None; nr],
            index: vec![0; nr],
            low: vec![0; nr],
            next: 1,
            open: Vec::new(),
        };
        for root in 0..nr {
            if search.index[root] == 0 {
                search.visit(root);
            }
        }
        Self {
            explorer,
            ways: search
                .ways
                .into_iter()
                .map(Option::unwrap_or_default)
                .collect(),
        }
    }

    /// What is known from a state on to a goal, and the places that count which it may come to.
    pub(crate) fn of(&self, state: u32, goal: Goal) -> (Bound, BTreeSet<u64>) {
        if goal == Goal::Thread
            && let Some(ip) = self.counted_behind_switch(state)
        {
            // What comes on top there is looked for up to the switch only.
            return (Bound::Refused(Refusal::Loop, ip), BTreeSet::new());
        }
        self.of_ways(state, goal)
    }

    /// A place that counts which the thread that goes on may come to.
    fn counted_behind_switch(&self, state: u32) -> Option<u64> {
        let mut seen = BTreeSet::from([(state, false)]);
        let mut left = vec![(state, false)];
        while let Some((from, is_behind)) = left.pop() {
            if is_behind && number(self.explorer, from as usize).is_some() {
                return Some(self.explorer.states[from as usize].ip);
            }
            for edge in &self.explorer.edges[from as usize] {
                if let To::State(to) = edge.to {
                    let next = (to, is_behind || edge.switches);
                    if seen.insert(next) {
                        left.push(next);
                    }
                }
            }
        }
        None
    }

    fn of_ways(&self, state: u32, end: Goal) -> (Bound, BTreeSet<u64>) {
        let mut marks = self.marks(state as usize);
        // However often it goes round, it has to come out of it: where it cannot, nobody comes.
        if marks.iter().all(|it| {
            let of = &self.ways[*it];
            of.to(end).is_none() && of.refused.is_none()
        }) {
            marks.clear();
        }
        let places = marks
            .iter()
            .map(|it| self.explorer.states[*it].ip)
            .collect();
        let mut bound = self.bound(state as usize, &marks, end);
        // Before the first there is none.
        if let (Goal::Handler, Bound::Most(most, _)) = (end, &mut bound) {
            most.handlers = 0;
            most.each.iter_mut().for_each(|it| it[1] = 0);
        }
        (bound, places)
    }

    fn bound(&self, state: usize, marks: &[usize], end: Goal) -> Bound {
        let all = std::iter::once(&state).chain(marks);
        if let Some((why, at)) = all.filter_map(|it| self.ways[*it].refused).next() {
            return Bound::Refused(why, at);
        }
        let ways = &self.ways[state];
        let straight = || match ways.to(end) {
            Some((cost, _)) => Bound::Most(cost.clone(), self.way_out(state, end)),
            None => Bound::Fatal,
        };
        let (on, way) = match &ways.on {
            _ if number(self.explorer, state).is_some() => (Cost::default(), Vec::new()),
            Some((on, _)) => (on.clone(), self.way_on(state)),
            None => return straight(),
        };
        let mut rounds: BTreeMap<usize, Cost> = BTreeMap::new();
        let mut last: Option<(Cost, u32)> = None;
        for mark in marks {
            if let (Some(by), Some((cost, _))) =
                (number(self.explorer, *mark), &self.ways[*mark].on)
            {
                rounds.entry(by).or_default().raise(cost);
            }
            let out = self.ways[*mark].to(end).as_ref().map(|it| it.0.clone());
            longer(&mut last, out, *mark as u32);
        }
        let Some((out, last)) = last else {
            return straight();
        };
        let mut most = on.plus(&out);
        for (by, cost) in rounds {
            most = most.plus(&cost.times(by));
        }
        let mut way = way;
        way.extend(self.way_out(last as usize, end));
        if let Some((out, _)) = ways.to(end)
            && most.raise(out)
        {
            way = self.way_out(state, end);
        }
        Bound::Most(most, way)
    }

    /// The states that count which can be come to from one.
    fn marks(&self, from: usize) -> Vec<usize> {
        let mut seen = HashSet::from([from]);
        let mut work = vec![from];
        let mut found = Vec::new();
        while let Some(state) = work.pop() {
            if number(self.explorer, state).is_some() {
                found.push(state);
            }
            for edge in &self.explorer.edges[state] {
                if let To::State(to) = edge.to
                    && seen.insert(to as usize)
                {
                    work.push(to as usize);
                }
            }
        }
        found
    }

    /// The longest way to a place that counts.
    fn way_on(&self, from: usize) -> Vec<u64> {
        let mut path = Vec::new();
        let mut state = from;
        while let Some((_, edge)) = self.ways[state].on {
            path.push(self.explorer.states[state].ip);
            let To::State(to) = self.explorer.edges[state][edge as usize].to else {
                break;
            };
            state = to as usize;
            if number(self.explorer, state).is_some() {
                break;
            }
        }
        path
    }

    /// The longest way to the end.
    fn way_out(&self, from: usize, end: Goal) -> Vec<u64> {
        let mut path = Vec::new();
        let (mut state, mut end) = (from, end);
        while let Some((_, edge)) = self.ways[state].to(end) {
            path.push(self.explorer.states[state].ip);
            let edge = &self.explorer.edges[state][*edge as usize];
            if edge.switches {
                end = Goal::End;
            }
            if end == Goal::Handler && is_handlers(edge) {
                break;
            }
            match edge.to {
                To::State(to) => state = to as usize,
                To::End(ip) => {
                    path.push(ip);
                    break;
                }
                To::Fatal(_) | To::Refused(..) => break,
            }
        }
        path
    }
}

/// Whether it ends with the call of a function that is not the kernel's.
fn is_handlers(edge: &Edge) -> bool {
    edge.cost % WAIT >= HANDLER
}

/// What a state counts.
fn number(explorer: &Explorer<'_>, state: usize) -> Option<usize> {
    explorer.marks().rounds(explorer.states[state].ip)
}

/// Keeps what is not less than both, and which of them has more instructions.
fn longer(most: &mut Option<(Cost, u32)>, other: Option<Cost>, by: u32) {
    match (most.as_mut(), other) {
        (Some((cost, of)), Some(other)) => {
            if cost.raise(&other) {
                *of = by;
            }
        }
        (None, Some(other)) => *most = Some((other, by)),
        (_, None) => {}
    }
}

/// Tarjan's search for strongly connected components, which come in the order in which ways can be told. Edges to places that
/// count are none to it.
struct Search<'e, 'x> {
    explorer: &'e Explorer<'x>,
    ways: Vec<Option<Ways>>,
    /// From 1, 0 for none.
    index: Vec<u32>,
    low: Vec<u32>,
    next: u32,
    open: Vec<usize>,
}

impl Search<'_, '_> {
    fn visit(&mut self, root: usize) {
        let mut work = vec![(root, 0)];
        self.open(root);
        while let Some((state, at)) = work.last_mut() {
            let state = *state;
            match self.explorer.edges[state].get(*at) {
                Some(Edge {
                    to: To::State(to), ..
                }) if number(self.explorer, *to as usize).is_none() => {
                    *at += 1;
                    let to = *to as usize;
                    if self.index[to] == 0 {
                        self.open(to);
                        work.push((to, 0));
                    } else if self.ways[to].is_none() {
                        self.low[state] = self.low[state].min(self.index[to]);
                    }
                }
                Some(_) => *at += 1,
                None => {
                    work.pop();
                    if self.low[state] == self.index[state] {
                        self.close(state);
                    }
                    if let Some((before, _)) = work.last() {
                        self.low[*before] = self.low[*before].min(self.low[state]);
                    }
                }
            }
        }
    }

    fn open(&mut self, state: usize) {
        self.index[state] = self.next;
        self.low[state] = self.next;
        self.next += 1;
        self.open.push(state);
    }

    /// A component is complete, with all that can be reached from it.
    fn close(&mut self, first: usize) {
        let at = self.open.iter().rposition(|it| *it == first).unwrap_or(0);
        let members = self.open.split_off(at);
        let goes_round = |state: usize| {
            let edges = &self.explorer.edges[state];
            let itself = To::State(state as u32);
            edges.iter().any(|it| it.to == itself) && number(self.explorer, state).is_none()
        };
        if members.len() == 1 && !goes_round(first) {
            self.ways[first] = Some(self.of_one(first));
            return;
        }
        let state = |it: &usize| &self.explorer.states[*it];
        let depth = |it: &usize| self.explorer.frames.get(state(it).frame).depth;
        let head = members
            .iter()
            .min_by_key(|it| (depth(it), state(it).ip))
            .unwrap_or(&first);
        let refused = Some((Refusal::Loop, state(head).ip));
        for member in members {
            self.ways[member] = Some(Ways {
                refused,
                ..Ways::default()
            });
        }
    }

    /// Of a state all of whose followers have theirs.
    fn of_one(&self, state: usize) -> Ways {
        let mut found = Ways::default();
        for (nr, edge) in self.explorer.edges[state].iter().enumerate() {
            let own = Cost::of_edge(edge.cost);
            let mut on = None;
            let mut to = [const { None }; GOALS];
            match edge.to {
                To::Refused(refusal, ip) => {
                    found.refused = found.refused.or(Some((refusal, ip)));
                    continue;
                }
                To::Fatal(_) => continue,
                To::End(_) => {
                    let goal = if edge.switches {
                        Goal::Thread
                    } else {
                        Goal::Return
                    };
                    to[goal as usize] = Some(own.clone());
                    to[Goal::End as usize] = Some(own.clone());
                }
                To::State(to) if number(self.explorer, to as usize).is_some() => {
                    on = Some(own.clone());
                }
                To::State(next) => {
                    let Some(behind) = &self.ways[next as usize] else {
                        continue;
                    };
                    found.refused = found.refused.or(behind.refused);
                    let add = |it: &Option<(Cost, u32)>| it.as_ref().map(|it| it.0.plus(&own));
                    on = add(&behind.on);
                    to = behind.to.each_ref().map(add);
                    if edge.switches {
                        to[Goal::Thread as usize] = add(behind.to(Goal::End));
                        to[Goal::Return as usize] = None;
                    }
                }
            }
            if is_handlers(edge) {
                to[Goal::Handler as usize] = Some(Cost { handlers: 0, ..own });
            }
            longer(&mut found.on, on, nr as u32);
            for (longest, to) in found.to.iter_mut().zip(to) {
                longer(longest, to, nr as u32);
            }
        }
        found
    }
}
