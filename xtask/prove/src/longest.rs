//! The longest way from each state to where interrupts are on.

use crate::explore::{Edge, Explorer, HANDLER, Refusal, To};

/// What is known of the ways from a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bound {
    /// None of them comes to an end with interrupts on: the system ends in a fault report.
    Fatal,
    /// The most instructions, the edge by which they are reached, and the most calls of handlers.
    Most(u64, u32, u64),
    /// Nothing, because of this.
    Refused(Refusal, u64),
}

/// By state.
#[derive(Debug)]
pub(crate) struct Longest(Vec<Option<Bound>>);

impl Longest {
    pub(crate) fn new(explorer: &Explorer<'_>) -> Self {
        let nr = explorer.states.len();
        let mut search = Search {
            explorer,
            bounds: vec![None; nr],
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
        Self(search.bounds)
    }

    /// What is known from a state on.
    pub(crate) fn of(&self, state: u32) -> Bound {
        self.0[state as usize].unwrap_or(Bound::Fatal)
    }
}

/// Tarjan's search for strongly connected components, which come in the order in which bounds can be told.
struct Search<'e, 'x> {
    explorer: &'e Explorer<'x>,
    bounds: Vec<Option<Bound>>,
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
                }) => {
                    *at += 1;
                    let to = *to as usize;
                    if self.index[to] == 0 {
                        self.open(to);
                        work.push((to, 0));
                    } else if self.bounds[to].is_none() {
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
            edges.iter().any(|it| it.to == To::State(state as u32))
        };
        if members.len() == 1 && !goes_round(first) {
            self.bounds[first] = Some(self.bound(first));
            return;
        }
        let state = |it: &usize| &self.explorer.states[*it];
        let depth = |it: &usize| self.explorer.frames.get(state(it).frame).depth;
        let head = members
            .iter()
            .min_by_key(|it| (depth(it), state(it).ip))
            .unwrap_or(&first);
        let bound = Bound::Refused(Refusal::Loop, state(head).ip);
        for member in members {
            self.bounds[member] = Some(bound);
        }
    }

    /// Of a state all of whose followers have theirs.
    fn bound(&self, state: usize) -> Bound {
        let mut bound = Bound::Fatal;
        for (nr, edge) in self.explorer.edges[state].iter().enumerate() {
            let (own, own_handlers) = (edge.cost % HANDLER, edge.cost / HANDLER);
            let (cost, handlers) = match edge.to {
                To::Refused(refusal, ip) => return Bound::Refused(refusal, ip),
                To::Fatal(_) => continue,
                To::End(_) => (own, own_handlers),
                To::State(to) => match self.bounds[to as usize] {
                    Some(Bound::Most(cost, _, handlers)) => (own + cost, own_handlers + handlers),
                    Some(Bound::Fatal) | None => continue,
                    Some(refused) => return refused,
                },
            };
            bound = match bound {
                Bound::Most(most, at, before) if most >= cost => {
                    Bound::Most(most, at, before.max(handlers))
                }
                Bound::Most(_, _, before) => Bound::Most(cost, nr as u32, before.max(handlers)),
                _ => Bound::Most(cost, nr as u32, handlers),
            };
        }
        bound
    }
}
