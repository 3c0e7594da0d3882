//! What no bound of Takt's own sections may be above, whatever the budget says.

use super::{Off, Proof, Stretch};

/// A section with interrupts off, in instructions, where what [`CONFIG`](crate::response::CONFIG) says is known.
const SECTION: u64 = 100;
/// One with preemption off.
const GUARDED: u64 = 300;

/// Sections that take longer on ways that no sweep has met: most keep account of the priorities that a mutex lends.
const LONGER: [(&str, u64); 8] = [
    ("RawMutex>::begin_wait", 125),
    ("exit::end", 131),
    ("RawMutex>::begin_unlock", 129),
    ("Semaphore::begin_give", 129),
    ("pi::walk_on", 129),
    ("deferred::arm_and_enable", 104),
    ("Queue<T,_>::take", 115),
    ("arm::{{closure}}", 101),
];

/// Sections of Takt's that are above their limits. Handlers, and what grows with something, have none: these are formulas in the
/// budget.
#[must_use]
pub fn above_limits(proof: &Proof) -> Vec<String> {
    let limit = |it: &Stretch| match it.off {
        Off::Preemption | Off::Nothing => GUARDED,
        Off::Irqs => {
            let named = LONGER.iter().find(|(name, _)| *name == it.function());
            named.map_or(SECTION, |(_, limit)| *limit)
        }
    };
    let is_plain = |it: &&Stretch| !it.is_entry && it.handlers == 0 && it.grows.is_empty();
    let all = proof.stretches.iter().filter(is_plain);
    all.filter_map(|it| {
        let bound = it.bound.filter(|bound| *bound > limit(it))?;
        Some(format!("{}: bound {bound}, limit {}", it.place, limit(it)))
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prove::tests::{proof, stretch};

    #[test]
    fn a_section_is_held_to_its_limit_but_for_formulas() {
        let above = |it| above_limits(&proof(vec![it]));
        let plain = |bound| stretch("f::g (f.rs:1)", Some(bound), None);
        let guarded = |bound| Stretch {
            off: Off::Preemption,
            ..plain(bound)
        };
        let named = |bound| stretch("RawMutex>::begin_wait (f.rs:1)", Some(bound), None);
        for it in [plain(100), guarded(300), named(125)] {
            assert!(above(it).is_empty());
        }
        for it in [plain(101), guarded(301), named(126)] {
            assert_eq!(above(it).len(), 1);
        }
        let handled = Stretch {
            handlers: 1,
            ..plain(500)
        };
        assert!(above(handled).is_empty());
    }
}
